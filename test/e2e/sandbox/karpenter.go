// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

// StartKarpenter runs Karpenter's own KWOK controller beside a sandbox that is up with --no-autoscaler: with the defaults
// of its chart and what env adds, without a lease unless that has DISABLE_LEADER_ELECTION=false, and the rights of the cluster's administrator, since its rights are not what is
// compared. It launches the instance types of the file catalog and writes to the file log. stop ends it and returns when
// it has ended.
func (s *Sandbox) StartKarpenter(binary, catalog, log string, env ...string) (stop func(), err error) {
	stop, _, err = s.StartMeasuredKarpenter(binary, catalog, log, env...)
	return stop, err
}

// StartMeasuredKarpenter is StartKarpenter, and returns also the URL of the controller's metrics, which are there a moment
// after it has been started.
func (s *Sandbox) StartMeasuredKarpenter(binary, catalog, log string, env ...string) (stop func(), metrics string, err error) {
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, "", fmt.Errorf("find a port for Karpenter: %w", err)
		}
		defer l.Close() // both are held until both are known
		ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	args := []string{"--disable-leader-election=true"}
	if slices.Contains(env, "DISABLE_LEADER_ELECTION=false") {
		args = nil
	}
	cmd := exec.Command(binary, append(args, "--metrics-port", ports[0], "--health-probe-port", ports[1], "--instance-types-file-path", catalog)...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(Admin)), env...)
	p, err := startProcess(cmd, log)
	if err != nil {
		return nil, "", err
	}
	return p.Stop, "http://127.0.0.1:" + ports[0] + "/metrics", nil
}

// StartDRADriver runs the DRA driver that test/upstream/dradriver is.
func (s *Sandbox) StartDRADriver(binary, log string) (*Process, error) {
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(Admin))
	return startProcess(cmd, log)
}

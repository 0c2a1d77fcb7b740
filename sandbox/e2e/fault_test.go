// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

// TestFault: what is killed comes back by itself and knows what it knew, kwok
// begins anew after a fault of what answers it, and what is stopped stands still until the command ends or is interrupted.
func TestFault(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	s.run("", "up", "--no-manifests")
	s.run("", "kubectl", "create", "configmap", "kept", "--from-literal=a=b")
	s.run("", "fault", "kill", plane.Etcd, plane.Scheduler, "--for", "200ms")
	s.run("", "status")
	s.run("", "kubectl", "get", "configmap", "kept")
	for _, name := range []string{plane.Etcd, plane.Scheduler, plane.Kwok, plane.ControllerManager} {
		want := 1
		if name == plane.ControllerManager {
			want = 0
		}
		if c := s.child(name); c.Restarts != want || c.State != supervise.Running {
			t.Errorf("%s was started again %d times and is %s, want %d times and running", name, c.Restarts, c.State, want)
		}
	}
	s.run("", "fault", "slow", plane.Kwok, "--for", "300ms", "--share", "0.5")

	manager := s.child(plane.ControllerManager)
	stands := func(want bool) func() error {
		return func() error {
			stat, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(manager.PID)).Output()
			if stopped := strings.HasPrefix(string(stat), "T"); err != nil || stopped != want {
				return fmt.Errorf("ps says %q (%v)", stat, err)
			}
			return nil
		}
	}
	stop := s.command("fault", "stop", plane.ControllerManager, "--for", "1h")
	if err := stop.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is stopped", stands(true))
	if err := stop.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = stop.Wait() // that it was interrupted is what it says
	eventually(t, "it goes on", stands(false))
	if now := s.child(plane.ControllerManager); now.Process != manager.Process {
		t.Errorf("it was started again: %+v", now)
	}

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"kill", "kubelet"}, `no component "kubelet"; it has etcd, kube-apiserver,`},
		{[]string{"tease", plane.Kwok}, `unknown fault "tease": it must be kill, stop or slow`},
		{[]string{"slow", plane.Kwok, "--share", "1"}, "--share 1: must be more than 0 and less than 1"},
		{[]string{"stop", plane.Kwok, "--for", "-1s"}, "--for -1s: must not be negative"},
	} {
		if out, status, _ := s.try("", append([]string{"fault"}, test.args...)...); status != 1 || !strings.Contains(out, test.want) {
			t.Errorf("fault %v: exit status %d, want 1 and %q:\n%s", test.args, status, test.want, out)
		}
	}
}

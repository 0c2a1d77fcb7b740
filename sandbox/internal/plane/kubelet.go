// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/internal/pki"
)

// kubeletPrefix begins the name of a kubelet's component; the node's name
// follows.
const kubeletPrefix = "kubelet-"

// KubeletName returns the component's name of a node's kubelet.
func KubeletName(node string) string { return kubeletPrefix + node }

// IsKubelet reports whether a component is a node's kubelet.
func IsKubelet(component string) bool { return strings.HasPrefix(component, kubeletPrefix) }

// Kubelet writes the files of a node's kubelet below the sandbox's directory,
// among them the description of its machine, and returns how it is started.
// Its identity is the node's, so that the API server lets it do what a node
// may.
func Kubelet(d Dir, o Options, p *Plan, node string, machine []byte) (Component, error) {
	name := KubeletName(node)
	root := d.kubelet(node)
	if err := os.MkdirAll(filepath.Join(root, "root"), 0o700); err != nil {
		return Component{}, fmt.Errorf("make the directory of %s: %w", name, err)
	}
	if err := pki.Add(d.path("pki"), pki.Identity{File: name, User: "system:node:" + node, Groups: []string{"system:nodes"}}); err != nil {
		return Component{}, err
	}
	kubeconfig, description := filepath.Join(root, "kubeconfig"), filepath.Join(root, "machine.json")
	if err := d.writeKubeconfig(p.Server, name, kubeconfig); err != nil {
		return Component{}, err
	}
	if err := os.WriteFile(description, machine, 0o600); err != nil {
		return Component{}, fmt.Errorf("describe the machine of %s: %w", name, err)
	}
	port, err := p.ports.Next()
	if err != nil {
		return Component{}, err
	}
	return Component{
		Name: name, Exe: o.Kubelets, Restart: true, // As systemd would.
		Ports: map[string]int{"http": port}, Health: "http://" + loopback(port) + "/healthz",
		Args: []string{"--kubeconfig", kubeconfig, "--machine", description, "--root-dir", filepath.Join(root, "root"), "--listen", loopback(port),
			"--pull", o.Pull.Round(time.Millisecond).String()},
	}, nil
}

// RemoveKubelet removes the files of a node's kubelet, but for its log.
func RemoveKubelet(d Dir, node string) error {
	name := KubeletName(node)
	return errors.Join(os.RemoveAll(d.kubelet(node)), os.RemoveAll(d.Cert(name+".crt")), os.RemoveAll(d.Cert(name+".key")))
}

func (d Dir) kubelet(node string) string { return d.path("kubelets", node) }

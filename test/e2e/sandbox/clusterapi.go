// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/util/cert"
)

const (
	// clusterAPIModule is the folder of the module that names the version of Cluster API.
	clusterAPIModule = "test/clusterapi"
	// clusterAPIManager is the main package of Cluster API's core manager.
	clusterAPIManager = "sigs.k8s.io/cluster-api/core"
)

// clusterAPIConfig downloads Cluster API and returns the folder of its manifests.
func clusterAPIConfig(ctx context.Context) (string, error) {
	dir, err := moduleDir(ctx, clusterAPIModule, "sigs.k8s.io/cluster-api")
	return filepath.Join(dir, "core", "config"), err
}

// ApplyClusterAPICRDs installs all CRDs of Cluster API's core, of the version that test/clusterapi names.
func (s *Sandbox) ApplyClusterAPICRDs(ctx context.Context) error {
	config, err := clusterAPIConfig(ctx)
	if err != nil {
		return err
	}
	return s.ApplyCRDs(ctx, filepath.Join(config, "crd", "bases"))
}

// ClusterAPI is Cluster API's own core manager on a sandbox: its controllers and its webhooks.
type ClusterAPI struct {
	s               *Sandbox
	binary, certs   string
	health, webhook string // ports
	process         *Process
	starts          int
}

// StartClusterAPI compiles Cluster API's core manager, installs its CRDs and webhooks, starts it, and returns when it serves. The first compilation
// takes some minutes.
func (s *Sandbox) StartClusterAPI(ctx context.Context) (*ClusterAPI, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	c := &ClusterAPI{s: s, binary: filepath.Join(root, "bin", "cluster-api"), certs: filepath.Join(s.Dir, "cluster-api")}
	if _, err := goIn(ctx, clusterAPIModule, "build", "-o", c.binary, clusterAPIManager); err != nil {
		return nil, err
	}
	if err := s.ApplyClusterAPICRDs(ctx); err != nil {
		return nil, err
	}
	crt, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for Cluster API: %w", err)
	}
	if err := os.MkdirAll(c.certs, 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"tls.crt": crt, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(c.certs, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	for {
		for _, port := range []*string{&c.health, &c.webhook} {
			if *port, err = FreePort(); err != nil {
				return nil, fmt.Errorf("find a port for Cluster API: %w", err)
			}
		}
		if err = c.Start(ctx); err == nil {
			return c, c.applyWebhooks(ctx, crt)
		}
		// Another process may have taken a port meanwhile. A manager that ends is started again, as a kubelet does.
		if c.process == nil || c.process.Ended() == nil || c.starts == 3 {
			return nil, err
		}
	}
}

// applyWebhooks installs Cluster API's own webhook configurations.
func (c *ClusterAPI) applyWebhooks(ctx context.Context, ca []byte) error {
	config, err := clusterAPIConfig(ctx)
	if err != nil {
		return err
	}
	return c.s.applyWebhooks(ctx, filepath.Join(config, "webhook", "manifests.yaml"), [2]string{"capi-mutating", "capi-validating"}, c.webhook, ca)
}

// Start starts the manager, which must not run, and returns when it serves.
func (c *ClusterAPI) Start(ctx context.Context) error {
	c.starts++
	cmd := exec.Command(c.binary, "--webhook-port", c.webhook, "--webhook-cert-dir", c.certs, "--health-addr", "127.0.0.1:"+c.health,
		"--diagnostics-address", "127.0.0.1:0", "--insecure-diagnostics", "--feature-gates", "MachinePool=true,ClusterTopology=true")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.s.Kubeconfig(Admin))
	var err error
	if c.process, err = startProcess(cmd, filepath.Join(c.s.Dir, "logs", fmt.Sprintf("cluster-api-%d.log", c.starts))); err != nil {
		return err
	}
	if err := awaitHealth(ctx, "http://127.0.0.1:"+c.health+"/readyz", c.process); err != nil {
		return fmt.Errorf("wait until Cluster API's manager is ready: %w\n%s", err, c.LogTail(10))
	}
	return nil
}

// Kill ends the manager with SIGKILL and returns when it has ended.
func (c *ClusterAPI) Kill() { c.process.Stop() }

// LogTail returns the last lines of the manager's log.
func (c *ClusterAPI) LogTail(n int) string {
	text, err := os.ReadFile(c.process.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"
)

const (
	// clusterAPIModule is the folder of the module that names the version of Cluster API.
	clusterAPIModule = "test/clusterapi"
	// clusterAPIManager is the main package of Cluster API's core manager.
	clusterAPIManager = "sigs.k8s.io/cluster-api/core"
)

// clusterAPIGo runs the go command in the module of Cluster API.
func clusterAPIGo(ctx context.Context, args ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, clusterAPIModule)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w: %s", strings.Join(args, " "), clusterAPIModule, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// clusterAPIConfig downloads Cluster API and returns the folder of its manifests.
func clusterAPIConfig(ctx context.Context) (string, error) {
	if _, err := clusterAPIGo(ctx, "mod", "download", "sigs.k8s.io/cluster-api"); err != nil {
		return "", err
	}
	dir, err := clusterAPIGo(ctx, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
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
	if _, err := clusterAPIGo(ctx, "build", "-o", c.binary, clusterAPIManager); err != nil {
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

// applyWebhooks installs Cluster API's own webhook configurations, with the address of the process in place of a Service.
func (c *ClusterAPI) applyWebhooks(ctx context.Context, ca []byte) error {
	config, err := clusterAPIConfig(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(config, "webhook", "manifests.yaml"))
	if err != nil {
		return err
	}
	address := func(w *admissionv1.WebhookClientConfig) {
		url := "https://127.0.0.1:" + c.webhook + *w.Service.Path
		*w = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			return fmt.Errorf("read Cluster API's webhooks: %w", err)
		}
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			err = yaml.Unmarshal([]byte(doc), &mutating)
		case "ValidatingWebhookConfiguration":
			err = yaml.Unmarshal([]byte(doc), &validating)
		}
		if err != nil {
			return fmt.Errorf("read Cluster API's webhooks: %w", err)
		}
	}
	if len(mutating.Webhooks) == 0 || len(validating.Webhooks) == 0 {
		return fmt.Errorf("%d mutating and %d validating webhooks of Cluster API were read; want some of both", len(mutating.Webhooks), len(validating.Webhooks))
	}
	mutating.Name, validating.Name = "capi-mutating", "capi-validating"
	for i := range mutating.Webhooks {
		address(&mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		address(&validating.Webhooks[i].ClientConfig)
	}
	hooks := c.s.Kube.AdmissionregistrationV1()
	if _, err := hooks.MutatingWebhookConfigurations().Create(ctx, &mutating, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = hooks.ValidatingWebhookConfigurations().Create(ctx, &validating, metav1.CreateOptions{})
	return err
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

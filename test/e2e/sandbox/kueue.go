// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/yaml"
)

// queueController is Kueue or JobSet: a controller with webhooks, whose manifests are in its module.
type queueController struct {
	name, module, config string   // its folder in test/ requires the module
	converted            []string // plurals of the CRDs that it converts between their versions
}

// kueue is served for Jobs and JobSets. Its certificates are those that it manages itself, as in its own installation.
var kueue = queueController{name: "kueue", module: "sigs.k8s.io/kueue", converted: []string{"localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters"},
	config: `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:%[1]s"}
metrics: {bindAddress: "0"}
webhook: {port: %[2]s, certDir: %[3]q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true, webhookServiceName: kueue-webhook-service, webhookSecretName: kueue-webhook-server-cert}
featureGates: {VisibilityOnDemand: false}
integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}
`}

var jobSet = queueController{name: "jobset", module: "sigs.k8s.io/jobset",
	config: `apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:%[1]s"}
metrics: {bindAddress: "0"}
webhook: {port: %[2]s, certDir: %[3]q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`}

// StartKueue installs the CRDs and webhooks of Kueue and JobSet, and starts their controllers with the rights of the cluster's administrator. It returns
// when they serve. They write to logs/kueue.log and logs/jobset.log in the sandbox's directory. An empty path of a binary leaves its controller out.
func (s *Sandbox) StartKueue(ctx context.Context, kueueBinary, jobSetBinary string) (stop func(), err error) {
	var running []*Process
	stop = func() {
		for _, p := range running {
			p.Stop()
		}
	}
	for _, c := range []struct {
		queueController
		binary string
	}{{jobSet, jobSetBinary}, {kueue, kueueBinary}} { // Kueue looks for JobSets when it starts
		if c.binary == "" {
			continue
		}
		p, err := s.startQueueController(ctx, c.queueController, c.binary)
		if p != nil {
			running = append(running, p)
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("start %s: %w", c.name, err)
		}
	}
	return stop, nil
}

// startQueueController installs a controller and starts it. The process may have been started though an error is returned.
func (s *Sandbox) startQueueController(ctx context.Context, c queueController, binary string) (*Process, error) {
	module, err := moduleDir(ctx, filepath.Join("test", c.name), c.module)
	if err != nil {
		return nil, err
	}
	var ports [2]string
	for i := range ports {
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	certs, err := makeCertificates(c.name+"-ca", fmt.Sprintf("%[1]s-webhook-service.%[1]s-system.svc", c.name))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, c.name)
	for name, text := range certs {
		if err = errors.Join(os.MkdirAll(filepath.Join(dir, "certs"), 0o755), os.WriteFile(filepath.Join(dir, "certs", name), text, 0o600)); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, c.config, ports[0], ports[1], filepath.Join(dir, "certs")), 0o644); err != nil {
		return nil, err
	}
	crds := filepath.Join(dir, "crds")
	if err := c.writeCRDs(filepath.Join(module, "config", "components", "crd", "bases"), crds, ports[1], certs["ca.crt"]); err != nil {
		return nil, err
	}
	if err := s.ApplyCRDs(ctx, crds); err != nil {
		return nil, err
	}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name + "-system"}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if _, err := s.Kube.CoreV1().Secrets(c.name+"-system").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: c.name + "-webhook-server-cert"}, Data: certs}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := s.applyWebhooks(ctx, filepath.Join(module, "config", "components", "webhook", "manifests.yaml"),
		[2]string{c.name + "-mutating-webhook-configuration", c.name + "-validating-webhook-configuration"}, ports[1], certs["ca.crt"]); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--config", config)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(Admin))
	p, err := startProcess(cmd, filepath.Join(s.Dir, "logs", c.name+".log"))
	if err != nil {
		return nil, err
	}
	return p, awaitHealth(ctx, "http://127.0.0.1:"+ports[0]+"/readyz", p)
}

// writeCRDs copies the CRDs of a folder to another, with the webhook that converts between their versions where there is one.
func (c *queueController) writeCRDs(from, to, port string, ca []byte) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs in %s: %w", from, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return fmt.Errorf("read %s: %w", f, err)
		}
		spec, _ := crd["spec"].(map[string]any)
		for _, plural := range c.converted {
			if names, _ := spec["names"].(map[string]any); names["plural"] == plural {
				spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
					"conversionReviewVersions": []string{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:" + port + "/convert", "caBundle": ca}}}
			}
		}
		if text, err = yaml.Marshal(crd); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeCertificates returns the files of a Secret with a certificate authority and a server's certificate for 127.0.0.1 and a DNS name, as PEM. They are
// valid for ten years: a controller that manages its certificates keeps these.
func makeCertificates(authority, server string) (map[string][]byte, error) {
	out := map[string][]byte{}
	var parent *x509.Certificate
	var signer *rsa.PrivateKey
	for i, name := range []string{"ca", "tls"} {
		key, err := rsa.GenerateKey(rand.Reader, 2048) // Kueue reads no other keys
		if err != nil {
			return nil, err
		}
		t := x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0), BasicConstraintsValid: true,
			Subject: pkix.Name{CommonName: server}, DNSNames: []string{server}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if parent == nil {
			t.Subject, t.DNSNames, t.IPAddresses, t.ExtKeyUsage = pkix.Name{CommonName: authority}, []string{authority}, nil, nil
			t.IsCA, t.KeyUsage = true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
			parent, signer = &t, key
		}
		der, err := x509.CreateCertificate(rand.Reader, &t, parent, &key.PublicKey, signer)
		if err != nil {
			return nil, err
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		if t.IsCA {
			parent = c
		}
		if out[name+".crt"], err = cert.EncodeCertificates(c); err != nil {
			return nil, err
		}
		if out[name+".key"], err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, err
		}
	}
	return out, nil
}

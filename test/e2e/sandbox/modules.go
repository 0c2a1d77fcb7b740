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
	"sigs.k8s.io/yaml"
)

// goIn runs the go command in a folder of the repository, and returns what it prints.
func goIn(ctx context.Context, folder string, args ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, folder)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w: %s", strings.Join(args, " "), folder, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleDir downloads a module that the go.mod of a folder of the repository requires, and returns the module's folder.
func moduleDir(ctx context.Context, folder, module string) (string, error) {
	if _, err := goIn(ctx, folder, "mod", "download", module); err != nil {
		return "", err
	}
	return goIn(ctx, folder, "list", "-m", "-f", "{{.Dir}}", module)
}

// applyWebhooks installs the mutating and the validating webhook configuration of a file under two names, with the address of a process on a local
// port in place of a Service. ca is the certificate authority of the process, as PEM.
func (s *Sandbox) applyWebhooks(ctx context.Context, file string, names [2]string, port string, ca []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	address := func(w *admissionv1.WebhookClientConfig) {
		url := "https://127.0.0.1:" + port + *w.Service.Path
		*w = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			err = yaml.Unmarshal([]byte(doc), &mutating)
		case "ValidatingWebhookConfiguration":
			err = yaml.Unmarshal([]byte(doc), &validating)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	if len(mutating.Webhooks) == 0 || len(validating.Webhooks) == 0 {
		return fmt.Errorf("%s has %d mutating and %d validating webhooks; want some of both", file, len(mutating.Webhooks), len(validating.Webhooks))
	}
	mutating.Name, validating.Name = names[0], names[1]
	for i := range mutating.Webhooks {
		address(&mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		address(&validating.Webhooks[i].ClientConfig)
	}
	hooks := s.Kube.AdmissionregistrationV1()
	if _, err := hooks.MutatingWebhookConfigurations().Create(ctx, &mutating, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = hooks.ValidatingWebhookConfigurations().Create(ctx, &validating, metav1.CreateOptions{})
	return err
}

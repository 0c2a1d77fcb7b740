// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kubetest provides the tests of the kube packages with a real API server: one sandbox per test binary, with
// the chart's manifests applied.
//
// Only tests import it. It uses no Kubernetes client, and never starts an autoscaler. Start reading at Sandbox.
package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

var sandbox struct {
	once sync.Once
	root string // of the repository
	dir  string
	err  error
}

// Main runs a package's tests and returns the exit status, with the sandbox stopped and removed.
func Main(m *testing.M) int {
	status := m.Run()
	if sandbox.dir != "" {
		if out, err := exec.Command(binary(), "--dir", sandbox.dir, "down").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "sandbox down: %v\n%s", err, out)
			status = 1
		}
		if err := os.RemoveAll(filepath.Dir(sandbox.dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return status
}

// Sandbox returns the directory of the sandbox, which has the kubeconfigs of its identities. The test is skipped if
// bin/dovetail-sandbox is not built or -short is given.
func Sandbox(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the sandbox; -short was given")
	}
	sandbox.once.Do(func() { sandbox.err = start() })
	if errors.Is(sandbox.err, os.ErrNotExist) {
		t.Skip("needs the sandbox: build bin/dovetail-sandbox")
	}
	if sandbox.err != nil {
		t.Fatal(sandbox.err)
	}
	return sandbox.dir
}

func binary() string { return filepath.Join(sandbox.root, "bin", "dovetail-sandbox") }

func start() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, err = os.Stat(filepath.Join(root, "charts")); err != nil; _, err = os.Stat(filepath.Join(root, "charts")) {
		if filepath.Dir(root) == root {
			return fmt.Errorf("find the top of the repository: %w", err)
		}
		root = filepath.Dir(root)
	}
	sandbox.root = root
	if _, err := os.Stat(binary()); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "dovetail-kube-")
	if err != nil {
		return err
	}
	sandbox.dir = filepath.Join(tmp, "sb")
	out, err := exec.Command(binary(), "--dir", sandbox.dir, "up", "--no-autoscaler", "--no-manifests").CombinedOutput()
	if err != nil {
		return fmt.Errorf("sandbox up: %v\n%s", err, out)
	}
	args := []string{"apply"}
	for _, dir := range []string{"crds", "rights", "optional"} {
		args = append(args, "-f", filepath.Join(root, "charts", "dovetail", dir))
	}
	return Kubectl(nil, args...)
}

// Kubectl runs kubectl as the administrator of the sandbox.
func Kubectl(stdin []byte, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), testwait.Scale(2*time.Minute), testwait.ErrLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(), append([]string{"--dir", sandbox.dir, "kubectl"}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, errors.Join(err, context.Cause(ctx)), out)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const karpenterModule = "sigs.k8s.io/karpenter"

// built is what was compiled from Karpenter's module, and where that module is.
type built struct {
	suite      string // the suite's test binary
	controller string // Karpenter's KWOK controller; empty where nothing runs against it
	driver     string // the controller of Karpenter's DRA driver for kwok nodes; empty where the suite needs none
	module     string // the module's directory, which holds the instance types of its KWOK provider
	version    string
}

// build compiles the suite, and Karpenter's controller where it is wanted, into o.dir/bin. Which version that is,
// test/upstream/go.mod says.
func build(ctx context.Context, o options) (b built, err error) {
	out, err := goCommand(ctx, "mod", "download", "-json", karpenterModule)
	if err != nil {
		return b, err
	}
	var module struct{ Dir, Version string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		return b, fmt.Errorf("read the output of go mod download for %s: %w", karpenterModule, err)
	}
	b.module, b.version = module.Dir, module.Version
	bin := filepath.Join(o.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return b, err
	}
	fmt.Fprintf(os.Stderr, "compiling Karpenter %s (the first compilation takes several minutes)\n", b.version)
	b.suite = filepath.Join(bin, o.suite+".test")
	args := []string{"test", "-c", "-o", b.suite}
	if o.suite == dra {
		with, err := withScheme(o, b)
		if err != nil {
			return b, fmt.Errorf("copy module %s: %w", karpenterModule, err)
		}
		args = append(args, "-modfile="+with)
	}
	if _, err := goCommand(ctx, append(args, karpenterModule+"/test/suites/"+o.suite)...); err != nil {
		return b, err
	}
	if slices.Contains(o.autoscalers, karpenter) {
		b.controller = filepath.Join(bin, "karpenter")
		if _, err := goCommand(ctx, "build", "-o", b.controller, karpenterModule+"/kwok"); err != nil {
			return b, err
		}
	}
	if o.suite == dra {
		b.driver = filepath.Join(bin, "dradriver")
		_, err = goCommand(ctx, "build", "-o", b.driver, "./dradriver")
	}
	return b, err
}

// draScheme is a file beside the specs of the DRA suite. As in the driver's main package, the group of DRAConfigs is registered without the options
// of requests, so that the suite of 1.15.0 fails to create one ("v1.CreateOptions is not suitable for converting").
const draScheme = `package dra_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/karpenter/dra-kwok-driver/pkg/apis/v1alpha1"
)

func init() { metav1.AddToGroupVersion(scheme.Scheme, v1alpha1.GroupVersion) }
`

// withScheme copies Karpenter's module into o.dir, with draScheme beside its DRA suite, and writes there a copy of this module's go.mod that
// names the copy.
func withScheme(o options, b built) (goMod string, err error) {
	dir := filepath.Join(o.dir, "karpenter-module")
	if err := os.RemoveAll(dir); err != nil { // of an earlier run
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(b.module)); err != nil {
		return "", err
	}
	suite := filepath.Join(dir, "test", "suites", dra)
	if err := os.Chmod(suite, 0o755); err != nil { // modules are read-only
		return "", err
	}
	if err := os.WriteFile(filepath.Join(suite, "scheme_test.go"), []byte(draScheme), 0o644); err != nil {
		return "", err
	}
	root, err := sandbox.Root()
	if err != nil {
		return "", err
	}
	goMod = filepath.Join(o.dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, "test", "upstream", name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" {
			data = fmt.Appendf(data, "\nreplace %s => %s\n", karpenterModule, dir)
		}
		if err := os.WriteFile(filepath.Join(o.dir, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return goMod, nil
}

// goCommand runs the go command in this module and returns what it prints; the error holds what it printed on stderr.
func goCommand(ctx context.Context, args ...string) (string, error) {
	root, err := sandbox.Root()
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, "test", "upstream")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}

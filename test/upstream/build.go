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
		return b, fmt.Errorf("read what go mod download says of %s: %w", karpenterModule, err)
	}
	b.module, b.version = module.Dir, module.Version
	bin := filepath.Join(o.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return b, err
	}
	fmt.Fprintf(os.Stderr, "compiling Karpenter %s (the first time some minutes)\n", b.version)
	b.suite = filepath.Join(bin, o.suite+".test")
	if _, err := goCommand(ctx, "test", "-c", "-o", b.suite, karpenterModule+"/test/suites/"+o.suite); err != nil {
		return b, err
	}
	if slices.Contains(o.autoscalers, karpenter) {
		b.controller = filepath.Join(bin, "karpenter")
		_, err = goCommand(ctx, "build", "-o", b.controller, karpenterModule+"/kwok")
	}
	return b, err
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

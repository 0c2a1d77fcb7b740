// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const committed = "../../charts/dovetail/crds"

func copies(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(committed)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// finishesToCommitted checks that the files of a directory, finished, are those that are committed; else one of those is what wrong says.
func finishesToCommitted(t *testing.T, dir, wrong string) {
	t.Helper()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != len(amendments()) {
		t.Fatalf("%d files, want %d: %v", len(files), len(amendments()), err)
	}
	for _, file := range files {
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(committed, filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is %s: run `make gen`", filepath.Base(file), wrong)
		}
	}
}

// What is committed was finished: to finish it again changes nothing.
func TestCommittedIsFinished(t *testing.T) {
	finishesToCommitted(t, copies(t), "not finished")
}

// TestCommittedIsGenerated: what is committed is what the types in api give. controller-gen stops at a marker that it can't read, and leaves the rest as
// it was.
func TestCommittedIsGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles controller-gen")
	}
	dir := t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "tool", "-modfile=go.tools.mod", "controller-gen", "crd", "paths=./api/...", "output:crd:dir="+dir)
	generate.Dir = "../.."
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", generate, err, out)
	}
	finishesToCommitted(t, dir, "not what api gives")
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"a field that was renamed": {
			func(dir string) error {
				file := filepath.Join(dir, "karpenter.sh_nodepools.yaml")
				b, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				return os.WriteFile(file, bytes.ReplaceAll(b, []byte("startupTaints:"), []byte("startTaints:")), 0o644)
			},
			"no schema at properties.spec.properties.template.properties.spec.properties.startupTaints.items.properties.key",
		},
		"a file that is gone":      {func(dir string) error { return os.Remove(filepath.Join(dir, "karpenter.sh_nodeclaims.yaml")) }, "no such file"},
		"a file that nobody knows": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "x.yaml"), nil, 0o644) }, "not in the table"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copies(t)
			if err := test.damage(dir); err != nil {
				t.Fatal(err)
			}
			if err := run(dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

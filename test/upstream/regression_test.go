// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// tenth are specs of Karpenter's regression suite, about a tenth of it, that take a few seconds each: what a NodeClaim
// becomes and how it ends, node classes that are missing or not Ready, DaemonSets and LimitRanges, static NodePools, and
// what the API server refuses.
var tenth = []string{
	"should create a standard NodeClaim$",
	"should create a NodeClaim propagating all the NodeClaim spec details",
	"should remove the cloudProvider NodeClaim when the cluster NodeClaim is deleted",
	"should delete a NodeClaim from the node termination finalizer",
	"should delete a NodeClaim if it references a NodeClass that doesn't exist",
	"should delete a NodeClaim if it references a NodeClass that isn't Ready",
	"should account for LimitRange Default on daemonSet pods for resources",
	"should have NodePool hash",
	"should create static NodeClaims to meet desired replicas",
	"should error when a restricted label is used in labels .karpenter.sh/custom-label.",
}

// TestRegression runs a tenth of Karpenter's regression suite, unmodified, against the built binaries on a sandbox.
// `make upstream` runs all of it.
func TestRegression(t *testing.T) { runSpecs(t, regression, tenth) }

// TestDisruption runs specs of Karpenter's disruption suite so: what ends a node, and repair as a voluntary disruption.
func TestDisruption(t *testing.T) {
	runSpecs(t, disruption, []string{"should terminate an empty node", "should terminate the node and the instance on deletion", "repairs an isolated unhealthy node"})
}

// runSpecs runs some specs of a suite, by regular expressions that match their names, and fails where one does not pass.
func runSpecs(t *testing.T, suite string, specs []string) {
	if testing.Short() {
		t.Skip("it needs bin/dovetail-sandbox and compiles Karpenter's suite")
	}
	t.Parallel() // it mostly waits
	o := options{suite: suite, focus: strings.Join(specs, "|"), autoscalers: []string{dovetail}, dir: t.TempDir()}
	ctx := testwait.ContextFor(t, 15*time.Minute)
	b, err := build(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runSuite(ctx, o, b, dovetail)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Specs {
		if s.State != "passed" {
			t.Errorf("%s: %s: %s", s.Name, s.State, s.Reason)
		}
	}
	if r.Passed != len(specs) {
		t.Errorf("%d specs passed, want %d: has one of them another name?", r.Passed, len(specs))
	}
}

// karpenterBinary returns the path of Karpenter's KWOK controller: KARPENTER_BIN, which `make verify` builds once, or what is compiled now.
func karpenterBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("KARPENTER_BIN"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "karpenter")
	if _, err := goCommand(t.Context(), "build", "-o", path, karpenterModule+"/kwok"); err != nil {
		t.Fatal(err)
	}
	return path
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/fleet"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// fuzzTypes is the catalog that is planned with: two sizes, and one with a GPU.
const fuzzTypes = `[
{"name":"s-2x","offerings":[{"Price":0.1,"Available":true,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["a"]}]}],"architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"2","ephemeral-storage":"20Gi","memory":"8Gi","pods":"20"}},
{"name":"s-8x","offerings":[{"Price":0.35,"Available":true,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["a","b"]}]}],"architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"8","ephemeral-storage":"20Gi","memory":"32Gi","pods":"64"}},
{"name":"g-8x","offerings":[{"Price":2,"Available":true,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["b"]}]}],"architecture":"arm64","operatingSystems":["linux"],"resources":{"cpu":"8","ephemeral-storage":"20Gi","memory":"32Gi","pods":"64","nvidia.com/gpu":"2"}}]`

// FuzzPlan: whatever manifests hold, they are refused with a place, or planned for in a plan that verify passes and
// that can be written. It is what 'dovetail plan' and the what-if of the page do with a file.
func FuzzPlan(f *testing.F) {
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}}}\n---\n"
	files, err := filepath.Glob("../kube/translate/testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(data), "\n\n") {
			input, _, _ := strings.Cut(c, "\n----\n")
			f.Add(pool + input)
		}
	}
	cat, err := catalog.Parse("types.json", []byte(fuzzTypes))
	if err != nil {
		f.Fatal(err)
	}
	many := regexp.MustCompile(`(replicas|arallelism)\W*\d{3}`)
	f.Fuzz(func(t *testing.T, input string) {
		if many.MatchString(input) {
			t.Skip("a workload of very many pods only takes long")
		}
		s := state.New()
		types := cat.InstanceTypes(s.Resources().Dim)
		m := manifests.New()
		if err := m.Read("f", []byte(input)); err != nil {
			return // FuzzManifests looks at what it says
		}
		m.Feed(s)
		of := offerer{types: types, estimator: fleet.NewEstimator(cat, s.Resources())}
		of.offer(t.Context(), s)
		now := time.Unix(1_760_000_000, 0)
		static := addStaticClaims(s, now, decide.DefaultPolicy())
		snap := s.Snapshot(now)
		out := decide.WhatIf(snap, now, decide.DefaultPolicy())
		if err := approve.Verify(snap, &out).Err(); err != nil {
			t.Fatalf("%v\nof\n%s", err, input)
		}
		p := reported(snap, &out, static)
		for _, r := range p.Refused {
			if len(r.Reasons) == 0 {
				t.Errorf("pod %s is refused without a reason", r.Pod.Key())
			}
		}
		for _, write := range []func(io.Writer, *report.Plan) error{report.Text, report.JSON} {
			if err := write(io.Discard, p); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"regexp"
	"strings"
	"testing"
)

// What ginkgo prints with -ginkgo.v, of a spec that passed, one that failed and one that skipped itself.
const ginkgoOutput = `------------------------------
[BeforeSuite]
/suite_test.go:37
[BeforeSuite] PASSED [0.116 seconds]
------------------------------
SSSSSSSS
------------------------------
Drift should replace a node
/drift_test.go:50
  STEP: waiting @ 11/23/26 15:22:27.563
---------------------------
• [12.500 seconds]
------------------------------
Termination should drain a node
/termination_test.go:70
------------------------------
  STEP: printing PodList(s) @ 11/23/26 15:35:15.019
• [FAILED] [1.250 seconds]
Termination [It] should drain a node
/termination_test.go:70
------------------------------
Chaos should not scale up for ever
/chaos_test.go:30
  STEP: looking
S [SKIPPED] [0.001 seconds]
Chaos [It] should not scale up for ever
------------------------------
`

func TestShowProgress(t *testing.T) {
	var out strings.Builder
	if err := showProgress(strings.NewReader(ginkgoOutput), &out); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)^\S+ +`).ReplaceAllString(out.String(), "") // without the time of day
	const want = `passed    12.500s  Drift should replace a node
failed     1.250s  Termination should drain a node
skipped    0.001s  Chaos should not scale up for ever
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPrintFigures(t *testing.T) {
	const name = "Performance Basic Deployment should efficiently scale two deployments"
	ours := &result{Autoscaler: dovetail, Specs: []spec{{Name: name, Phases: []phase{
		{"scale-out", 1000, 141, 0.9895, 0.9083, 27, 118, 0.31}, {"consolidation", 700, 101, 0.988, 0.905, 246.3, 131, 0.2}}}}}
	theirs := &result{Autoscaler: karpenter, Specs: []spec{{Name: name, Phases: []phase{{"scale-out", 1000, 151, 0.9, 0.85, 40.8, 140, 0.46}}}}}
	var out strings.Builder
	if err := printFigures(&out, []*result{ours, theirs}); err != nil {
		t.Fatal(err)
	}
	const want = `Figures of dovetail / karpenter, as reported by the suite:
spec              phase          pods  nodes      CPU reserved     memory reserved  seconds      heap MB    cores
Basic Deployment  scale-out      1000  141 / 151  99.0 % / 90.0 %  90.8 % / 85.0 %  27.0 / 40.8  118 / 140  0.31 / 0.46
Basic Deployment  consolidation  700   101 / -    98.8 % / -       90.5 % / -       246.3 / -    131 / -    0.20 / -
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const wide = `
dovetail-sandbox: 3 nodes, 10 pods (2 pending) and more

                         A MONTH  NODES
  Now                       $131      3
  Repacked, no blockers      $59      3  saves $72 (55 %): remove 1 node
  Prices are from the catalog built-in EC2 us-east-1; a month has 730 hours.
  - Deployment default/lost: no node can be launched for 2 pods.
      kubectl edit nodepool default # spec.template.spec.requirements[kubernetes.io/arch]: add arm64
      kubectl -n default patch poddisruptionbudget inflate --type merge -p '{"spec": {"maxUnavailable": 1}}'

  TIME      WHAT     OBJECT                     CLUSTER $/H         WHY
  22:36:35  bought   nodeclaim/default-6k7xyms  $0.00 to $0.0542    NodePool default: pods need it [c6a.large, $0.0271/h]
  key: value  what it says of that, at some length
  1. dovetail plan --compare --live --output json
     shows the nodes that a repacked cluster would have
`

const narrow = `
dovetail-sandbox: 3 nodes, 10 pods (2
  pending) and more

                         A MONTH  NODES
  Now                       $131      3
  Repacked, no blockers      $59      3
      saves $72 (55 %): remove 1 node
  Prices are from the catalog built-in
  EC2 us-east-1; a month has 730 hours.
  - Deployment default/lost: no node can
    be launched for 2 pods.
      kubectl edit nodepool default
        # spec.template.spec.requirements[kubernetes.io/arch]:
        # add arm64
      kubectl -n default patch \
        poddisruptionbudget inflate \
        --type merge -p \
        '{"spec": {"maxUnavailable": 1}}'

  TIME      WHAT     OBJECT
      CLUSTER $/H  WHY
  22:36:35  bought
      nodeclaim/default-6k7xyms
      $0.00 to $0.0542
      NodePool default: pods need it
      [c6a.large, $0.0271/h]
  key: value  what it says of that, at
              some length
  1. dovetail plan --compare --live \
       --output json
     shows the nodes that a repacked
     cluster would have
`

func TestFit(t *testing.T) {
	if got := Fit(wide, 40); got != narrow {
		t.Errorf("at 40 columns it is\n%s", got)
	}
	if got := Fit(wide, 200); got != wide {
		t.Errorf("where there is room it is\n%s", got)
	}
	words := func(text string) string {
		return strings.Join(strings.Fields(strings.NewReplacer(`\`, " ", "#", " ").Replace(text)), " ")
	}
	for width := 1; width < 130; width++ {
		got := Fit(wide, width)
		if words(got) != words(wide) {
			t.Errorf("at %d columns something is lost or added:\n%s", width, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) <= width {
				continue
			}
			if rest := splitQuoted(strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(line, " -#"), ` \`))); len(rest) > 1 && width > 30 {
				t.Errorf("at %d columns a line of several words is wider: %q", width, line)
			}
		}
	}
}

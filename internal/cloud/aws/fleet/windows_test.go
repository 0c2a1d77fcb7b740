// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Nodes of a class of Windows have the label of its build, others have none.
func TestWindowsBuild(t *testing.T) {
	for alias, want := range map[string]string{"windows2019@latest": "10.0.17763", "windows2022@latest": "10.0.20348", "windows2025@latest": "10.0.26100", "al2023@latest": ""} {
		p, r, g := goldenAccount(t, awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}}})
		types := 0
		for _, m := range g.Types {
			if made := p.buildType(r, g, m, placementRulesOf(nil, r)); made != nil {
				types++
				if have := made.InstanceType.Labels[labelWindowsBuild]; have != want {
					t.Errorf("%s: %s has the build %q, want %q", alias, m.Name, have, want)
				}
			}
		}
		if types == 0 {
			t.Errorf("%s: no type", alias)
		}
	}
}

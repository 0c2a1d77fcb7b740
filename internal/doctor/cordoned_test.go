// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestEmptyCordonedNode checks that a cordoned node without pods has one finding: it is removed, unless a pending pod fits on it. Then it is
// uncordoned, and the taint that would still keep the pod away is removed as well.
func TestEmptyCordonedNode(t *testing.T) {
	remove := plan.Change{Object: "nodeclaim/claim-idle", Op: plan.Remove}
	uncordon := plan.Change{Object: "node/idle", Field: "spec.unschedulable", Op: plan.Set, Value: "false"}
	untaint := plan.Change{Object: "node/idle", Field: "spec.taints[node.kubernetes.io/out-of-service]", Op: plan.Remove}
	for _, test := range []struct {
		name, taint string
		cpu         int64 // milli-CPU of a pending pod; 0: there is none
		code        Code
		want        []plan.Change
	}{
		{"no pod is pending", "", 0, NodeEmpty, []plan.Change{remove}},
		{"a pending pod fits", "", 1000, NodeCordoned, []plan.Change{uncordon}},
		{"no pending pod fits", "", 1_000_000, NodeEmpty, []plan.Change{remove}},
		{"a pending pod fits without the taint", outOfService, 1000, NodeCordoned, []plan.Change{uncordon, untaint}},
		{"a pending pod does not tolerate another taint", "team", 1000, NodeEmpty, []plan.Change{remove}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, 1)
			n := c.addNode("idle", "r.16", "a", model.OnDemand, c.pools[0])
			n.Taints = []model.Taint{{Key: unschedulable, Effect: model.NoSchedule}}
			if test.taint != "" {
				n.Taints = append(n.Taints, model.Taint{Key: test.taint, Value: "nodeshutdown", Effect: model.NoExecute})
			}
			if test.cpu > 0 {
				c.addWorkload("late", 1, test.cpu, 1<<30)
			}
			var found []Finding
			for _, f := range c.examine().Findings {
				if f.Subject == "node/idle" && (f.Code == NodeEmpty || f.Code == NodeCordoned) {
					found = append(found, f)
				}
			}
			if len(found) != 1 || found[0].Code != test.code || !slices.Equal(found[0].Changes, test.want) {
				t.Errorf("found %+v, want %s with %+v", found, test.code, test.want)
			}
		})
	}
}

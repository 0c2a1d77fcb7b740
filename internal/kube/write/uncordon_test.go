// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestNodePatchUncordons: a cordoned node is let pods be scheduled to again, only if it still is cordoned.
func TestNodePatchUncordons(t *testing.T) {
	for cordoned, want := range map[bool]string{
		true:  `[{"op":"test","path":"/spec/unschedulable","value":true},{"op":"replace","path":"/spec/unschedulable","value":false}]`,
		false: `null`,
	} {
		got, err := json.Marshal(nodePatch(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: cordoned}}, plan.UpdateNode{Uncordon: true}))
		if err != nil || string(got) != want {
			t.Errorf("cordoned %t: %s, want %s: %v", cordoned, got, want, err)
		}
	}
}

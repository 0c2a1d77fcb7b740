// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Nodes to come attach as many volumes as the node of their type that attaches least, and what is known of a type stays
// known when its nodes are gone.
func TestAttachLimitsOfTypes(t *testing.T) {
	const driver = "ebs.csi.aws.com"
	s := New()
	s.Pools.SetPool(&model.NodePool{Name: "p", UID: "p", Types: []*model.InstanceType{
		{Name: "large", CSILimits: map[string]int64{driver: 25, "other": 3}}, {Name: "small"},
	}})
	node := func(name, kind string, limits map[string]int64) {
		s.SetNode(&model.Node{Name: name, Labels: model.Labels{model.LabelInstanceType: kind}, CSILimits: limits}, 1)
	}
	check := func(when string, large, small int64) {
		t.Helper()
		types := s.Pools.FindPool("p").Types
		if got := types[0].CSILimits[driver]; got != large {
			t.Errorf("%s: large attaches %d, want %d", when, got, large)
		}
		if got, ok := types[1].CSILimits[driver]; got != small || ok != (small > 0) {
			t.Errorf("%s: small attaches %d, want %d", when, got, small)
		}
		if got := types[0].CSILimits["other"]; got != 3 {
			t.Errorf("%s: the other driver's limit is %d, want 3", when, got)
		}
	}
	check("without nodes", 25, 0)
	node("a", "large", nil)
	check("with a node whose driver is not there yet", 25, 0)
	node("a", "large", map[string]int64{driver: 24})
	node("b", "large", map[string]int64{driver: 26})
	node("c", "small", map[string]int64{driver: 2})
	check("with nodes", 24, 2)
	s.DeleteNode("a")
	check("without the least", 26, 2)
	node("b", "large", map[string]int64{driver: 22})
	check("with a changed limit", 22, 2)
	s.DeleteNode("b")
	s.DeleteNode("c")
	check("without nodes again", 22, 2)
	s.Pools.SetTypes("p", []*model.InstanceType{{Name: "large", CSILimits: map[string]int64{driver: 25, "other": 3}}, {Name: "small"}})
	check("with types offered anew", 22, 2)
}

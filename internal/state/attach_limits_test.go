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

// Where nodes of all types seen attach less than their provider says, types not seen are taken to attach less, too: as many as those if types of
// which other numbers are said attach as many, else fewer by the same difference.
func TestAttachLimitsOfUnseenTypes(t *testing.T) {
	const driver = "ebs.csi.aws.com"
	for _, c := range []struct {
		name         string
		large, small int64 // reported; 0: no node is there
		said         int64 // by the provider, of a type of which there is no node
		want         int64
	}{
		{"no node", 0, 0, 39, 39},
		{"one type, fewer by 23", 2, 0, 39, 16},
		{"one type, fewer by one: its own matter, or the driver's", 24, 0, 127, 126},
		{"--volume-attach-limit=2", 2, 2, 39, 2},
		{"of a type that attaches fewer anyway", 20, 20, 7, 7},
		{"--reserved-volume-attachments=3", 22, 13, 39, 36},
		{"one type attaches what is said of it", 25, 2, 39, 39},
		{"one type attaches more", 27, 2, 39, 39},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New()
			s.Pools.SetPool(&model.NodePool{Name: "p", UID: "p", Types: []*model.InstanceType{
				{Name: "large", CSILimits: map[string]int64{driver: 25}}, {Name: "small", CSILimits: map[string]int64{driver: 16}}, {Name: "unseen", CSILimits: map[string]int64{driver: c.said}}}})
			for kind, n := range map[string]int64{"large": c.large, "small": c.small} {
				if n > 0 {
					s.SetNode(&model.Node{Name: kind, Labels: model.Labels{model.LabelInstanceType: kind}, CSILimits: map[string]int64{driver: n}}, 1)
				}
			}
			if got := s.Pools.FindPool("p").Types[2].CSILimits[driver]; got != c.want {
				t.Errorf("a node of a type not seen attaches %d, want %d", got, c.want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// members returns pods of one gang of which so many must have a place.
func members(n, least int) (pods []*model.Pod) {
	for i := range n {
		pods = append(pods, &model.Pod{Namespace: "default", Name: fmt.Sprintf("p%d", i), Gang: model.Gang{Name: "g", Least: least}})
	}
	return pods
}

// TestGangs has plans that place a part of a gang: two of five pods are asked about and placed, others stand otherwise.
func TestGangs(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(s *model.Snapshot, pods []*model.Pod)
		refused []int
		wrong   bool
	}{
		"the others are refused":                 {refused: []int{2, 3, 4}, wrong: true},
		"the others have a place":                {},
		"one of the others is refused":           {refused: []int{2}, wrong: true},
		"one of the others has scheduling gates": {change: func(_ *model.Snapshot, pods []*model.Pod) { pods[2].Gated = true }, wrong: true},
		"one of the others runs": {change: func(s *model.Snapshot, pods []*model.Pod) {
			s.Pending, s.Nodes = pods[:4], []*model.Node{{Name: "n", Pods: pods[4:]}}
		}},
		"one of the others is being deleted": {change: func(s *model.Snapshot, pods []*model.Pod) {
			pods[4].Deleting = pods[4].Deleting.AddDate(2026, 0, 0)
			s.Pending, s.Nodes = pods[:4], []*model.Node{{Name: "n", Pods: pods[4:]}}
		}, wrong: true},
		"three have succeeded": {change: func(s *model.Snapshot, pods []*model.Pod) {
			s.Pending, s.GangsEnded = pods[:2], map[string]int{"g": 3}
		}},
		"the others do not exist": {change: func(s *model.Snapshot, pods []*model.Pod) { s.Pending = pods[:2] }, wrong: true},
		"the others do not exist yet, as they are staged": {change: func(s *model.Snapshot, pods []*model.Pod) {
			s.Pending = pods[:2]
			pods[0].Gang.Staged = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := members(5, 5)
			s := &model.Snapshot{Pending: pods}
			if c.change != nil {
				c.change(s, pods)
			}
			refused := map[*model.Pod]bool{}
			for _, i := range c.refused {
				refused[pods[i]] = true
			}
			in := &Input{Demand: pods[:2], OnNodes: []Placement{{Node: "n", Pods: pods[:1]}}, New: []Machine{{Pods: pods[1:2]}}}
			if found := Gangs(s, in, refused); (len(found) > 0) != c.wrong {
				t.Errorf("found %v, want a violation: %v", found, c.wrong)
			}
			if found := Gangs(s, &Input{Demand: pods[:2]}, refused); len(found) > 0 {
				t.Errorf("nothing is placed, and found %v", found)
			}
		})
	}
}

// TestGangsApart has commands that remove one or both of the nodes that a gang runs on.
func TestGangsApart(t *testing.T) {
	pods := members(3, 3)
	s := &model.Snapshot{Nodes: []*model.Node{{Name: "a", ProviderID: "a", Pods: pods[:1]}, {Name: "b", ProviderID: "b", Pods: pods[1:]}, {Name: "c", ProviderID: "c"}}}
	removes := func(ids ...string) (out []Leaving) {
		for _, id := range ids {
			out = append(out, Leaving{Claim: &model.Claim{ProviderID: id}})
		}
		return out
	}
	if found := GangsApart(s, removes("a", "c")); len(found) != 1 || found[0].Pod != pods[0] {
		t.Errorf("one of two nodes goes: %v", found)
	}
	if found := GangsApart(s, removes("a", "b")); len(found) > 0 {
		t.Errorf("both go: %v", found)
	}
	if found := GangsApart(s, removes("c")); len(found) > 0 {
		t.Errorf("another goes: %v", found)
	}
	s.Nodes[1].Pods, s.Pending = nil, pods[1:]
	if found := GangsApart(s, removes("a")); len(found) != 1 || found[0].Pod != pods[0] {
		t.Errorf("the node of the first of its pods goes, and the others wait for nodes: %v", found)
	}
	s.Pending[0].Gated, s.Pending[1].Gated = true, true
	if found := GangsApart(s, removes("a")); len(found) > 0 {
		t.Errorf("the others are not to run yet: %v", found)
	}
	if s.Pending[1].Gated, s.GangsEnded = false, map[string]int{"g": 2}; len(GangsApart(s, removes("a"))) > 0 {
		t.Errorf("enough of it run without the one that waits")
	}
}

// TestGangDomains has plans that place pods of a gang that must share a zone.
func TestGangDomains(t *testing.T) {
	for name, c := range map[string]struct {
		nodes [2]string // zones of the node and of the machine; several, separated by commas, for a machine that may be in any
		runs  string    // zone in which a pod of the gang runs; empty: none does
		sets  bool      // the pods are of two pod sets
		wrong bool
	}{
		"one zone":                            {nodes: [2]string{"a", "a"}},
		"two zones":                           {nodes: [2]string{"a", "b"}, wrong: true},
		"two zones for two pod sets":          {nodes: [2]string{"a", "b"}, sets: true},
		"a machine that may be in either":     {nodes: [2]string{"a", "a,b"}, wrong: true},
		"where another runs":                  {nodes: [2]string{"a", "a"}, runs: "a"},
		"elsewhere than another runs":         {nodes: [2]string{"a", "a"}, runs: "b", wrong: true},
		"a node that is not in any zone":      {nodes: [2]string{"", ""}, wrong: true},
		"a machine elsewhere than one runs":   {nodes: [2]string{"a", "b"}, runs: "a", wrong: true},
		"a machine in any zone, and one runs": {nodes: [2]string{"a", "a,b"}, runs: "a", wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			pods := members(3, 2)
			for i, p := range pods {
				p.Gang.Domain = model.LabelZone
				if c.sets && i == 1 {
					p.Gang.PodSet = "workers"
				}
			}
			s := &model.Snapshot{Pending: pods[:2]}
			if c.runs != "" {
				s.Nodes = []*model.Node{{Name: "r", Pods: pods[2:]}}
			}
			in := &Input{Demand: pods[:2], OnNodes: []Placement{{Node: "n", Pods: pods[:1]}}, New: []Machine{{Pool: "p", Pods: pods[1:2]}},
				Pools: []Pool{{NodePool: &model.NodePool{Name: "p"}}}, Nodes: []ExistingNode{{Name: "n", Labels: model.Labels{}}}}
			if c.nodes[0] != "" {
				in.Nodes[0].Labels[model.LabelZone], in.New[0].Zones = c.nodes[0], strings.Split(c.nodes[1], ",")
			}
			if c.runs != "" {
				in.Nodes = append(in.Nodes, ExistingNode{Name: "r", Labels: model.Labels{model.LabelZone: c.runs}, Pods: pods[2:]})
			}
			if found := Gangs(s, in, nil); (len(found) > 0) != c.wrong {
				t.Errorf("found %v, want a violation: %v", found, c.wrong)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// maxCrowdedOut bounds how many classes CrowdedOut looks for: each is compared with all others.
const maxCrowdedOut = 8

// CrowdedOut returns the first classes with pods left over because of pods that had alternatives: required anti-affinity
// closes a domain to them in which a class was placed that other domains also allow.
func (s *Planner) CrowdedOut() (out []int) {
	for _, c := range s.Inst.Classes {
		if len(out) == maxCrowdedOut {
			break
		}
		if len(c.Topology.DomainRules) > 0 && s.Usage.PlaceablePods(c) > 0 && s.isCrowdedOut(c) {
			out = append(out, c.ID)
		}
	}
	return out
}

// isCrowdedOut reports whether some domain is closed to a class by pods that had alternatives.
func (s *Planner) isCrowdedOut(c *problem.Class) bool {
	return slices.ContainsFunc(s.Assignments.AssignmentsOf(c), func(at *topology.TopologyAssignment) bool {
		_, r := s.Topo.PodsDomainsAllow(c, at.Labels)
		if r == nil || r.Kind != problem.RuleAnti && r.Kind != problem.RuleAntiOfOthers {
			return false
		}
		return slices.ContainsFunc(s.Inst.Classes, func(o *problem.Class) bool {
			if o == c || o.Assigned == 0 || !slices.Contains(o.Topology.DomainCounters, r.Counter) {
				return false
			}
			if o.Offers == c.Offers && slices.ContainsFunc(o.Topology.DomainRules, func(x problem.Rule) bool {
				return r.SelectsOwnPods && x.SelectsOwnPods && x.Kind == r.Kind && x.Counter == r.Counter
			}) {
				return false // in its place, this class would be in the way of that one
			}
			s.Work.Steps++
			return slices.ContainsFunc(s.Assignments.AssignmentsOf(o), func(other *topology.TopologyAssignment) bool {
				return other.Labels[r.Key] != at.Labels[r.Key]
			})
		})
	})
}

// RefusesNoOtherThan reports whether this plan leaves over no pods of a class of which the other plan places more.
func (s *Planner) RefusesNoOtherThan(o *Planner) bool {
	for i, c := range s.Inst.Classes {
		if c.Assigned < o.Inst.Classes[i].Assigned {
			return false
		}
	}
	return true
}

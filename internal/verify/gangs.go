// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Gangs returns the gangs of which a plan places some pods, but too few to run. refused are pods that were refused before the plan
// was made, and are not asked about in it.
func Gangs(s *model.Snapshot, in *Input, refused map[*model.Pod]bool) (found []Violation) {
	placed := map[string][]*model.Pod{}
	var names []string
	place := func(pods []*model.Pod) {
		for _, p := range pods {
			if name := p.Gang.Name; name != "" {
				if placed[name] == nil {
					names = append(names, name)
				}
				placed[name] = append(placed[name], p)
			}
		}
	}
	for _, a := range in.OnNodes {
		place(a.Pods)
	}
	for _, m := range in.New {
		place(m.Pods)
	}
	if len(names) == 0 {
		return nil
	}
	asked := make(map[*model.Pod]bool, len(in.Demand))
	for _, p := range in.Demand {
		asked[p] = true
	}
	for _, name := range names {
		has := s.GangsEnded[name] + len(placed[name])
		least, exist, staged := 0, s.GangsEnded[name], false
		see := func(p *model.Pod) {
			if p.Gang.Name != name || p.Terminal || !p.Deleting.IsZero() || p.Gated {
				return
			}
			exist++
			least, staged = max(least, p.Gang.Least), staged || p.Gang.Staged
			if !asked[p] && !refused[p] { // it runs, or is on its way to a place that it has already
				has++
			}
		}
		for _, p := range s.Pending {
			see(p)
		}
		for _, n := range s.Nodes {
			for _, p := range n.Pods {
				see(p)
			}
		}
		if staged {
			least = min(least, exist)
		}
		if has < least {
			found = append(found, Violation{Rule: Together, Pod: placed[name][0],
				Detail: fmt.Sprintf("%d of its gang %s have a place, %d must", has, name, least)})
		}
	}
	return found
}

// GangsApart returns the gangs that a disruption command takes apart: it removes a node with a pod of the gang, and not all nodes that
// have one.
func GangsApart(nodes []*model.Node, leaving []Leaving) (found []Violation) {
	goes := map[string]bool{} // by provider id
	for _, x := range leaving {
		goes[x.Claim.ProviderID] = true
	}
	type both struct{ goes, stays *model.Pod }
	gangs := map[string]both{}
	for _, n := range nodes {
		for _, p := range n.Pods {
			if p.Gang.Name == "" || p.Terminal || !p.Deleting.IsZero() {
				continue
			}
			x := gangs[p.Gang.Name]
			if goes[n.ProviderID] {
				x.goes = p
			} else {
				x.stays = p
			}
			gangs[p.Gang.Name] = x
		}
	}
	for _, n := range nodes { // in their order
		for _, p := range n.Pods {
			if x := gangs[p.Gang.Name]; x.goes == p && x.stays != nil {
				found = append(found, Violation{Rule: Together, Pod: p, Detail: fmt.Sprintf("the command removes its node, and pod %s of its gang %s stays", x.stays.Key(), p.Gang.Name)})
			}
		}
	}
	return found
}

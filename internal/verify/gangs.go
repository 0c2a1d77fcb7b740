// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Gangs returns the gangs of which a plan places some pods, but fewer than their minimum. refused are pods that were refused before
// the plan was made and are not part of it.
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
		found = append(found, gangDomains(in, placed[name], asked)...)
		if has < least {
			found = append(found, Violation{Rule: Together, Pod: placed[name][0],
				Detail: fmt.Sprintf("%d of its gang %s have a place, %d must", has, name, least)})
		}
	}
	return found
}

// gangDomains returns what breaks the rule that pods of a gang share a domain: pods that a plan places in several domains or in one that
// may turn out to be several, or elsewhere than those that run.
func gangDomains(in *Input, placed []*model.Pod, asked map[*model.Pod]bool) (found []Violation) {
	type set struct{ domain, pods string } // a label, and the part of the gang that it is about
	bySet := map[set][]*model.Pod{}
	var sets []set
	for _, p := range placed {
		if p.Gang.Domain == "" {
			continue
		}
		k := set{p.Gang.Domain, p.Gang.PodSet}
		if bySet[k] == nil {
			sets = append(sets, k)
		}
		bySet[k] = append(bySet[k], p)
	}
	for _, k := range sets {
		is := func(p *model.Pod) bool {
			return p.Gang.Name == placed[0].Gang.Name && p.Gang.Domain == k.domain && p.Gang.PodSet == k.pods
		}
		allowed := map[string]bool{} // where some are, or are expected
		for _, n := range in.Nodes {
			if slices.ContainsFunc(n.Pods, func(p *model.Pod) bool { return is(p) && !asked[p] && !p.Terminal && p.Deleting.IsZero() }) {
				allowed[valueOn(&n, k.domain)] = true
			}
		}
		where := placesOf(in, k.domain)
		first := where[bySet[k][0]]
		for _, p := range bySet[k] {
			at := where[p]
			switch {
			case at == "" || len(allowed) > 0 && !allowed[at]:
				found = append(found, Violation{Rule: Together, Pod: p, Detail: fmt.Sprintf("its gang %s runs in another %s than %q", p.Gang.Name, k.domain, at)})
			case len(allowed) == 0 && at != first:
				found = append(found, Violation{Rule: Together, Pod: p, Detail: fmt.Sprintf("its gang %s is placed in several of %s, %q and %q", p.Gang.Name, k.domain, first, at)})
			}
		}
	}
	return found
}

// valueOn returns the value of a label of a node; one of its own while it is not certain.
func valueOn(n *ExistingNode, label string) string {
	if v, ok := n.Labels[label]; ok || n.Open.Get(label) == nil {
		return v
	}
	return "that of node " + n.Name
}

// placesOf returns the value of a label of the node of each pod that a plan places. A machine of which it is not certain has a value of
// its own.
func placesOf(in *Input, label string) map[*model.Pod]string {
	out := map[*model.Pod]string{}
	labels := map[string]string{}
	for _, n := range in.Nodes {
		labels[n.Name] = valueOn(&n, label)
	}
	for _, a := range in.OnNodes {
		for _, p := range a.Pods {
			out[p] = labels[a.Node]
		}
	}
	pools := map[string]*Pool{}
	for i := range in.Pools {
		pools[in.Pools[i].Name] = &in.Pools[i]
	}
	for i, m := range in.New {
		var values []string
		if r := m.Requirements.Get(label); label == model.LabelZone {
			values = m.Zones
		} else if r != nil && !r.Complement {
			values = r.Values
		} else if v, ok := pools[m.Pool].Labels[label]; ok {
			values = []string{v}
		} else {
			for _, t := range m.Choices {
				if v, ok := t.Labels[label]; ok && !slices.Contains(values, v) {
					values = append(values, v)
				}
			}
		}
		at := ""
		switch {
		case len(values) == 1:
			at = values[0]
		case len(values) > 1:
			at = fmt.Sprintf("that of machine %d", i)
		}
		for _, p := range m.Pods {
			out[p] = at
		}
	}
	return out
}

// GangsApart returns the gangs that a disruption command splits: it removes some but not all nodes with pods of the gang, or other
// pods of the gang are pending and too few remain running.
func GangsApart(s *model.Snapshot, leaving []Leaving) (found []Violation) {
	goes := map[string]bool{} // by provider id
	for _, x := range leaving {
		goes[x.Claim.ProviderID] = true
	}
	type both struct {
		goes, stays, waits *model.Pod
		runs, least        int
	}
	gangs := map[string]both{}
	for _, n := range s.Nodes {
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
			x.runs, x.least = x.runs+1, max(x.least, p.Gang.Least)
			gangs[p.Gang.Name] = x
		}
	}
	for _, p := range s.Pending {
		if x, ok := gangs[p.Gang.Name]; ok && p.Gang.Name != "" && !p.Gated {
			x.waits, x.least = p, max(x.least, p.Gang.Least)
			gangs[p.Gang.Name] = x
		}
	}
	for _, n := range s.Nodes { // in their order
		for _, p := range n.Pods {
			x := gangs[p.Gang.Name]
			if x.goes != p {
				continue
			}
			switch {
			case x.stays != nil:
				found = append(found, Violation{Rule: Together, Pod: p, Detail: fmt.Sprintf("the command removes its node, and pod %s of its gang %s stays", x.stays.Key(), p.Gang.Name)})
			case x.waits != nil && x.runs+s.GangsEnded[p.Gang.Name] < x.least:
				found = append(found, Violation{Rule: Together, Pod: p, Detail: fmt.Sprintf("the command removes its node, and pod %s of its gang %s is pending", x.waits.Key(), p.Gang.Name)})
			}
		}
	}
	return found
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// Two autoscalers cut the same stream of pods into other batches, and spread equal pods over equal nodes in other ways.
// Neither is a difference to whoever pays. So launches are compared by what came of them: those of Dovetail and those of
// the other that have pods in common belong together, and of these the nodes are counted by kind.

// A node that replaces others, or that a static NodePool or a Headroom asks for, is for no pending pods. It is the same
// decision as a NodeClaim of the other's of that name, or else as one of its kind that no pods explain.

// decideLaunch notes a node that Dovetail would launch, in place of the NodeClaims with the uids of. The same decided
// again is the one that is open.
func (s *Watcher) decideLaunch(now time.Time, a plan.CreateClaim, of []string) {
	if s.launches[a.Name] != nil {
		return
	}
	l := &launch{at: now, name: a.Name, kind: nodeKind{a.Pool.Name, a.Type, a.CapacityType}, micro: a.PriceMicro}
	l.text = describeNode(l.kind, a.Zone, l.micro)
	if a.Why.Code != plan.Demand {
		l.alone, l.of = true, of
		a.Pods = nil
	}
	for _, p := range a.Pods {
		if !p.Expected {
			l.pods, l.all = append(l.pods, waitingPod{p.Key(), p.UID}), append(l.all, p.Key())
		}
	}
	s.out.Pods.Decided += len(l.pods)
	if s.tooMany() {
		return
	}
	s.launches[a.Name] = l
}

// agreeByName takes in that the very NodeClaim was made that Dovetail decided on.
func (s *Watcher) agreeByName(now time.Time, l *launch, have *claim) {
	delete(s.launches, l.name)
	have.explained, have.charged = true, true
	s.agree(1)
	if l.alone { // its dollars are those of its command
		return
	}
	for range l.pods {
		s.countDelay(now.Sub(l.at))
	}
	s.out.Cost.LaunchedUSDPerHour += dollars(l.micro)
	s.out.Cost.WouldLaunchUSDPerHour += dollars(l.micro)
}

// followLaunch looks where the pods are that Dovetail would have launched a node for.
func (s *Watcher) followLaunch(now time.Time, l *launch) {
	if l.done {
		return
	}
	if l.alone {
		s.followAlone(now, l)
		return
	}
	open := l.pods[:0]
	for _, p := range l.pods {
		have := s.state.FindPod(p.key)
		switch {
		case have == nil || have.UID != p.uid || !have.Deleting.IsZero():
			// gone
		case have.Node == "":
			open = append(open, p)
		default:
			s.landed(l, have.Node)
		}
	}
	l.pods = open
	if len(open) > 0 && now.Sub(l.at) < followFor {
		return
	}
	s.dropClaim(l.name)
	l.done = true
}

// followAlone takes in that the other has launched no such node, and has had the time to. Where it has not begun with the
// nodes that this one replaces either, all of that is one difference, which is told of those.
func (s *Watcher) followAlone(now time.Time, l *launch) {
	if now.Sub(l.at) < followFor {
		return
	}
	s.dropClaim(l.name)
	delete(s.launches, l.name)
	kept := slices.ContainsFunc(l.of, func(uid string) bool { return s.claims[uid] != nil && !s.claims[uid].deleting })
	if !kept {
		s.disagree(l.at, "launch", "nodepool/"+l.kind.pool, "launch "+l.text, fmt.Sprintf("launched no such node within %s", followFor))
	}
}

// dropReplaced no longer takes nodes to be on their way whose place others have taken: those that were to replace one of
// the NodeClaims with these uids. They stay open, to be compared.
func (s *Watcher) dropReplaced(uids []string) {
	for _, l := range s.launches {
		if slices.ContainsFunc(l.of, func(uid string) bool { return slices.Contains(uids, uid) }) {
			s.dropClaim(l.name)
		}
	}
}

// explainAlone finds the decision of Dovetail that a node of the other's is the same as though it was launched for no
// pending pods, and reports whether there is one.
func (s *Watcher) explainAlone(have *claim) bool {
	var same *launch
	for _, name := range slices.Sorted(maps.Keys(s.launches)) {
		l := s.launches[name]
		if l.alone && l.kind == have.kind && (same == nil || l.at.Before(same.at)) {
			same = l
		}
	}
	if same == nil {
		return false
	}
	s.dropClaim(same.name)
	delete(s.launches, same.name)
	have.charged = true
	s.agree(1)
	return true
}

// landed takes in that a pod has a node.
func (s *Watcher) landed(l *launch, node string) {
	on := s.byNode[node]
	if on == nil {
		on = &claim{node: node, before: true, text: "node " + node}
	}
	if on.launchedFor(l) {
		s.countDelay(max(on.first.Sub(l.at), 0))
	} else { // it had a place without a new node
		s.countDelay(-time.Second)
	}
	on.explained = true
	if !slices.Contains(l.on, on) {
		l.on = append(l.on, on)
	}
}

// launchedFor reports whether the other may have launched a node for the pods of a launch of Dovetail, rather than have had
// it before.
func (c *claim) launchedFor(l *launch) bool {
	return !c.before && !c.first.Before(l.at.Add(-freshFor))
}

// compareLanded compares launches whose pods are all accounted for with what the other launched for these.
func (s *Watcher) compareLanded() {
	var done []*launch
	sharing := map[*claim][]*launch{} // by node of the other
	for _, name := range slices.Sorted(maps.Keys(s.launches)) {
		l := s.launches[name]
		for _, c := range l.on {
			sharing[c] = append(sharing[c], l)
		}
		if l.done {
			done = append(done, l)
		}
	}
	for _, l := range done {
		if s.launches[l.name] == nil { // compared with one before it
			continue
		}
		group := belongingTogether(l, sharing)
		if slices.ContainsFunc(group, func(l *launch) bool { return !l.done }) {
			continue
		}
		for _, l := range group {
			delete(s.launches, l.name)
		}
		s.compareLaunches(group)
	}
}

// belongingTogether returns a launch and those whose pods share nodes with its pods, and so on, by time and name.
func belongingTogether(of *launch, sharing map[*claim][]*launch) []*launch {
	group, in := []*launch{of}, map[*launch]bool{of: true}
	for i := 0; i < len(group); i++ {
		for _, c := range group[i].on {
			for _, l := range sharing[c] {
				if !in[l] {
					in[l] = true
					group = append(group, l)
				}
			}
		}
	}
	slices.SortFunc(group, func(a, b *launch) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name))
	})
	return group
}

// compareLaunches compares nodes that Dovetail would have launched with those that were launched for the same pods:
// each that has one of its kind on the other side is one decision that is the same, each that has none is one that
// differs.
func (s *Watcher) compareLaunches(group []*launch) {
	var ours, theirs, waited []string
	var all []string
	kinds, waiting, landed := map[nodeKind]int{}, 0, 0
	difference := &difference{}
	for _, l := range group {
		kinds[l.kind]++
		ours, all = append(ours, l.text), append(all, l.all...)
		waiting, landed = waiting+len(l.pods), landed+len(l.on)
		difference.micro += l.micro
	}
	if landed == 0 && waiting == 0 { // all its pods are gone
		s.out.Decisions.NoAnswer += len(group)
		return
	}
	launched, micro, same := 0, int64(0), 0
	for _, c := range claimsOf(group) {
		if c.charged || !slices.ContainsFunc(group, c.launchedFor) {
			waited = append(waited, "placed pods on existing "+c.text)
			continue
		}
		c.charged = true
		launched, micro = launched+1, micro+c.micro
		theirs, difference.on = append(theirs, c.text), append(difference.on, c)
		if kinds[c.kind] > 0 {
			kinds[c.kind]--
			same++
		}
	}
	s.out.Cost.LaunchedUSDPerHour += dollars(micro)
	s.out.Cost.WouldLaunchUSDPerHour += dollars(difference.micro)
	difference.micro -= micro
	if difference.micro != 0 && len(difference.on) > 0 {
		s.differences = append(s.differences, difference)
	}
	s.agree(same)
	other := max(len(group), launched) - same
	if other == 0 {
		return
	}
	if len(theirs) > 0 {
		waited = append([]string{"launched " + joinAlike(theirs)}, waited...)
	}
	if waiting > 0 {
		waited = append(waited, fmt.Sprintf("no node for %s after %s", model.Count(waiting, "pod"), followFor))
	}
	subject := "nodepool/" + group[0].kind.pool
	if len(all) > 0 {
		subject = "pod/" + all[0]
	}
	if len(all) > 1 {
		subject += fmt.Sprintf(" and %d more", len(all)-1)
	}
	s.tellDisagreement(other, report.ShadowDisagreement{At: group[0].at, Kind: "launch", Subject: subject, Dovetail: "launch " + joinAlike(ours),
		Other: strings.Join(slices.Compact(waited), "; "), Pods: all})
}

// claimsOf returns the nodes that pods of launches came to, in the order in which they were first seen.
func claimsOf(group []*launch) (out []*claim) {
	for _, l := range group {
		for _, c := range l.on {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, func(a, b *claim) int {
		return cmp.Or(a.first.Compare(b.first), strings.Compare(a.name, b.name), strings.Compare(a.node, b.node))
	})
	return out
}

// joinAlike joins texts, the same ones once with their number.
func joinAlike(texts []string) string {
	var out []string
	sorted := slices.Sorted(slices.Values(texts))
	for i := 0; i < len(sorted); {
		n := 1
		for i+n < len(sorted) && sorted[i+n] == sorted[i] {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%d × %s", n, sorted[i]))
		} else {
			out = append(out, sorted[i])
		}
		i += n
	}
	return strings.Join(out, " and ")
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shadow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// decideCommand notes the nodes that Dovetail would disrupt, each with its share of the saving.
func (s *Watcher) decideCommand(now time.Time, m *decide.StartedCommand) {
	s.commands[m.ID] = &command{at: now, candidates: candidateUIDs(m)}
	for _, u := range m.Candidates {
		saving := m.OldMicroPerHour - m.NewMicroPerHour
		if m.OldMicroPerHour > 0 {
			saving = int64(float64(saving) * float64(max(u.PriceMicro, 0)) / float64(m.OldMicroPerHour))
		} else {
			saving = 0
		}
		text := "remove it: " + string(m.Cause)
		if len(m.Replacements) > 0 {
			text = fmt.Sprintf("replace it: %s, %s to %d", m.Cause, model.Count(len(m.Candidates), "node"), len(m.Replacements))
		}
		if saving > 0 {
			text += ", saves $" + model.Dollars(saving) + "/h"
		}
		s.decideDisruption(now, u.Claim.UID, disruption{command: m.ID, claim: u.Claim.Name, node: u.Node.Name, text: text, micro: saving})
	}
}

// decideDeletion notes a NodeClaim that Dovetail would delete.
func (s *Watcher) decideDeletion(now time.Time, a plan.DeleteClaim) {
	if cl := s.state.FindClaim(a.Claim); cl != nil {
		s.decideDisruption(now, cl.UID, disruption{claim: cl.Name, node: cl.NodeName, text: "remove it: " + string(a.Why.Code)})
	}
}

// decideDisruption notes that the NodeClaim of a uid is to go.
func (s *Watcher) decideDisruption(now time.Time, uid string, d disruption) {
	have := s.disruptions[uid]
	if have != nil && d.command != "" {
		have.command = d.command
	}
	if have != nil && (!have.resolved || d.micro == 0) {
		return
	}
	if have != nil { // decided anew after the other has not done it: its saving counts again, its disagreement does not
		have.at, have.micro = now, d.micro
		return
	}
	if s.tooMany() {
		return
	}
	d.at = now
	s.disruptions[uid] = &d
}

// decideBinding notes a pod that Dovetail would bind.
func (s *Watcher) decideBinding(now time.Time, a plan.Bind) {
	if s.bindings[a.UID] == nil && !s.tooMany() {
		s.bindings[a.UID] = &binding{at: now, pod: waitingPod{model.PodKey(a.Namespace, a.Pod), a.UID}, node: a.Node}
	}
}

// observe takes in what the cluster shows of decisions that are open.
func (s *Watcher) observe(now time.Time, snap *model.Snapshot) {
	s.chargeUntil(now)
	s.observeClaims(now, snap)
	for _, name := range slices.Sorted(maps.Keys(s.launches)) {
		s.followLaunch(now, s.launches[name])
	}
	s.compareLanded()
	for _, uid := range slices.Sorted(maps.Keys(s.disruptions)) {
		s.followDisruption(now, s.disruptions[uid])
	}
	for _, uid := range slices.Sorted(maps.Keys(s.bindings)) {
		s.followBinding(now, s.bindings[uid])
	}
}

// observeClaims takes in which NodeClaims there are.
func (s *Watcher) observeClaims(now time.Time, snap *model.Snapshot) {
	first := s.since.IsZero()
	if first {
		s.since, s.out.From, s.at = now, now, now
	}
	pools := map[string]*model.NodePool{}
	for _, p := range snap.Pools {
		pools[p.Name] = p
	}
	nodes := make(map[string]*model.Node, len(snap.Nodes)) // by NodeClaim
	for _, n := range snap.Nodes {
		nodes[n.Claim] = n
	}
	there := make(map[string]bool, len(snap.Claims))
	for _, cl := range snap.Claims {
		if cl.Provisional || cl.UID == "" {
			continue
		}
		there[cl.UID] = true
		have := s.claims[cl.UID]
		if have == nil {
			have = &claim{name: cl.Name, uid: cl.UID, pool: cl.Pool, first: now, before: first, explained: first}
			s.claims[cl.UID] = have
			if l := s.launches[cl.Name]; l != nil {
				s.agreeByName(now, l, have)
			} else {
				_, replaced := cluster.ReplacedBy(cl)
				s.dropReplaced(replaced)
				have.sooner = slices.ContainsFunc(snap.Pending, func(p *model.Pod) bool { return now.Sub(p.Created) < freshFor })
			}
		}
		n := nodes[cl.Name] // before the claim says so: a pod may be bound to it already
		if n != nil {
			have.node = n.Name
			s.byNode[have.node] = have
		}
		if n != nil && have.micro == 0 && pools[cl.Pool] != nil {
			have.micro = max(disrupt.NewCandidate(cl, n, pools[cl.Pool], model.PriorityCutoff{}).PriceMicro, 0)
			have.kind = nodeKind{cl.Pool, n.Labels[model.LabelInstanceType], n.Labels[model.LabelCapacityType]}
			have.text = describeNode(have.kind, n.Labels[model.LabelZone], have.micro)
		}
		if cl.Is(lifecycle.Initialized) && have.initialized.IsZero() {
			have.initialized = now
		}
		if _, ok := cluster.ReadNotice(cl); ok {
			have.interrupted = true
		}
		if !cl.Deleting.IsZero() && !have.deleting {
			have.deleting = true
			s.observeDeletion(now, cl.UID, have)
		}
		if !have.explained && !have.initialized.IsZero() && now.Sub(have.initialized) > settleAfter {
			have.explained = true
			if s.explainAlone(have) {
				continue
			}
			if have.sooner {
				s.out.Decisions.NoAnswer++
				continue
			}
			s.disagree(now, "launch", "nodeclaim/"+have.name, "launch no node: the pods fit existing nodes", "launched "+have.text)
		}
	}
	for uid, have := range s.claims {
		if there[uid] {
			continue
		}
		if !have.deleting {
			have.deleting = true
			s.observeDeletion(now, uid, have)
		}
		delete(s.claims, uid)
		delete(s.disruptions, uid)
		delete(s.begun, s.going[uid])
		delete(s.going, uid)
		if s.byNode[have.node] == have {
			delete(s.byNode, have.node)
		}
	}
}

// observeDeletion takes in that a NodeClaim is being deleted.
func (s *Watcher) observeDeletion(now time.Time, uid string, have *claim) {
	s.dropReplaced([]string{uid})
	if d := s.disruptions[uid]; d != nil {
		if !d.resolved {
			d.resolved = true
			s.agree(1)
			s.out.Disruptions.Both++
		}
		d.micro = 0
		return
	}
	if have.before && s.since.Equal(now) || have.initialized.IsZero() || have.interrupted {
		return // it was going before anybody watched, it never came, or the cloud takes it
	}
	s.out.Disruptions.OnlyOther++
	subject := "nodeclaim/" + have.name
	if have.node != "" {
		subject = "node/" + have.node
	}
	s.disagree(now, "disrupt", subject, "keep it", "removed it: "+have.text)
}

// followDisruption takes in that the other has not disrupted a node, and has had the time to.
func (s *Watcher) followDisruption(now time.Time, d *disruption) {
	if now.Sub(d.at) < followFor {
		return
	}
	d.micro = 0
	if d.resolved {
		return
	}
	d.resolved = true
	s.out.Disruptions.OnlyDovetail++
	subject := "nodeclaim/" + d.claim
	if d.node != "" {
		subject = "node/" + d.node
	}
	s.disagree(d.at, "disrupt", subject, d.text, fmt.Sprintf("kept it for %s", followFor))
}

// followBinding looks where a pod is that Dovetail would have bound.
func (s *Watcher) followBinding(now time.Time, b *binding) {
	have := s.state.FindPod(b.pod.key)
	switch {
	case have == nil || have.UID != b.pod.uid || !have.Deleting.IsZero():
		s.out.Decisions.NoAnswer++
	case have.Node == "" && now.Sub(b.at) < pauseFor:
		return
	case have.Node == "":
		s.state.Overlay.DropBinding(b.pod.key, b.pod.uid)
		s.out.Placements.Compared++
	default:
		s.out.Placements.Compared++
		if have.Node == b.node {
			s.out.Placements.Agreed++
		}
	}
	delete(s.bindings, b.pod.uid)
}

// rates are what the nodes cost an hour, and what they would with Dovetail, in micro-dollars.
func (s *Watcher) rates() (paid, ours, undone int64) {
	for _, c := range s.claims {
		paid += c.micro
	}
	ours = paid
	s.differences = slices.DeleteFunc(s.differences, func(d *difference) bool {
		return !slices.ContainsFunc(d.on, func(c *claim) bool { return !c.deleting })
	})
	for _, d := range s.differences {
		ours += d.micro
	}
	for _, d := range s.disruptions {
		undone += d.micro
	}
	return paid, max(ours-undone, 0), undone
}

// chargeUntil sums up dollars until an instant, at the prices of the nodes that were there until then.
func (s *Watcher) chargeUntil(now time.Time) {
	if s.since.IsZero() {
		return
	}
	paid, ours, _ := s.rates()
	hours := now.Sub(s.at).Hours()
	s.out.Cost.PaidUSD += dollars(paid) * hours
	s.out.Cost.DovetailUSD += dollars(ours) * hours
	s.at = now
}

// SetOthers sets the other live autoscalers for the report.
func (s *Watcher) SetOthers(others []string) { s.others = others }

// Report returns the comparison of Dovetail's decisions with the actions of the active autoscaler. If isRead is true,
// it includes the time up to now.
func (s *Watcher) Report(now time.Time, isRead bool) report.Shadow {
	if isRead {
		s.observe(now, s.state.Snapshot(now))
	}
	out := s.out
	out.To, out.Others = now, append([]string{}, s.others...)
	out.Disagreements = append([]report.ShadowDisagreement{}, s.out.Disagreements...)
	paid, ours, undone := s.rates()
	out.Cost.PaidUSDPerHour, out.Cost.DovetailUSDPerHour, out.Cost.WouldSaveUSDPerHour = dollars(paid), dollars(ours), dollars(undone)
	if len(s.delays) > 0 {
		sorted := slices.Sorted(slices.Values(s.delays))
		out.Pods.MedianSeconds = sorted[len(sorted)/2]
	}
	for _, d := range s.disruptions {
		if !d.resolved {
			out.Disruptions.Open++
		}
	}
	out.Decisions.Open = len(s.launches) + len(s.bindings) + out.Disruptions.Open
	out.Decisions.Agreement = 1
	if n := out.Decisions.Compared; n > 0 {
		out.Decisions.Agreement = float64(out.Decisions.Agreed) / float64(n)
	}
	return out
}

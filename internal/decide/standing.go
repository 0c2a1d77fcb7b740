// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/limits"
	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Standing is how a cluster stands, as a step that decides nothing finds it. It answers questions, by the rules that Step
// decides by, and changes nothing. Package explain asks them.
type Standing struct {
	st      *step
	decided *int // see Decided
}

// Stand returns how a cluster stands.
func Stand(s *model.Snapshot, mem Memory, now time.Time, pol Policy) *Standing {
	st := read(s, mem, now, pol, Request{}, explaining)
	st.run(st.decisions(), explaining)
	return &Standing{st, new(int)}
}

// With returns how the cluster would stand with another Snapshot, at another instant.
func (s *Standing) With(snapshot *model.Snapshot, now time.Time) *Standing {
	other := Stand(snapshot, s.st.mem, now, s.st.pol)
	other.decided = s.decided
	return other
}

// Glance returns a Standing that knows the objects and what NodePools and limits leave, and nothing else: it is cheap.
func Glance(s *model.Snapshot, now time.Time, pol Policy) *Standing {
	st := newStep(loadUnchanged(s, now, &pol, nil), Memory{}, pol, Request{})
	st.found = nothingFound(st.View)
	return &Standing{st, new(int)}
}

// Pool returns a NodePool by name; nil: there is none.
func (s *Standing) Pool(name string) *model.NodePool { return s.st.Pool(name) }

// Claim returns a NodeClaim by name; nil: there is none.
func (s *Standing) Claim(name string) *model.Claim { return s.st.Claim(name) }

// NodeOf returns a claim's node; nil: it has none, or several.
func (s *Standing) NodeOf(c *model.Claim) *model.Node { return s.st.NodeFor(c) }

// Cutoff returns the priority below which pods are expendable.
func (s *Standing) Cutoff() model.PriorityCutoff { return s.st.Cutoff }

// Slot is where a pending pod has a slot.
type Slot struct {
	Claim   *model.Claim
	Contest landing.Contest
}

// SlotsOf returns where a pod has slots, by the claims' names.
func (s *Standing) SlotsOf(p *model.Pod) (out []Slot) {
	for _, h := range s.st.reservations.All {
		if slices.ContainsFunc(h.Pods, func(q *model.Pod) bool { return q.UID == p.UID }) {
			out = append(out, Slot{Claim: h.Claim, Contest: landing.ContestOf(s.st.View, s.st.landingInput(), h)})
		}
	}
	return out
}

// AwaitedPods returns how many pods that have a slot on a claim's node are not there yet.
func (s *Standing) AwaitedPods(c *model.Claim) int {
	return s.st.reservations.ByClaim[c.Name].AwaitedPods()
}

// ExpectedOn returns the standing node on which a pod without a slot is expected; an empty name: none.
func (s *Standing) ExpectedOn(p *model.Pod) demand.Placement { return s.st.placements.mem.byPod[p.UID] }

// BindRefusal returns why a pod is not bound by Dovetail; an empty code: it is.
func (s *Standing) BindRefusal(p *model.Pod) plan.Reason {
	return s.st.pol.Landing.BindRefusal(p, s.st.Snapshot.ResourceNames)
}

// Hold is a reason that ends by itself.
type Hold struct {
	Why   plan.Reason
	Until time.Time
}

// PodWithheld returns why no node is planned for a pod; false: nothing withholds it.
func (s *Standing) PodWithheld(p *model.Pod) (Hold, bool) {
	x, ok := s.st.withholding.OfPod(p)
	return Hold{x.Why, x.Until}, ok
}

// PoolWithheld returns why nothing is launched from a NodePool; false: nothing withholds it.
func (s *Standing) PoolWithheld(name string) (Hold, bool) {
	x, ok := s.st.withholding.OfPool(name)
	return Hold{x.Why, x.Until}, ok
}

// IsPassedOver reports whether kube-scheduler, or verify, has refused a node for a pod that fits by every check here.
func (s *Standing) IsPassedOver(p *model.Pod) bool { return s.st.disagreements.HasLeftNodes(p) }

// GivenUp returns why nothing more is launched for a pod whose nodes kube-scheduler, or verify, has refused; false:
// something may be.
func (s *Standing) GivenUp(p *model.Pod) (Hold, bool) {
	why, until, over := s.st.disagreements.WhyRefused(p)
	return Hold{why, until}, over
}

// WhatIf answers the pending pods of a Snapshot, which is the cluster's or one with changes, by what is remembered of earlier launches, of nodes that
// pods were not bound to and of what is withheld.
func (s *Standing) WhatIf(of *model.Snapshot) *Answers {
	return newAnswers(of, s.st.mem, s.st.Now, s.st.pol, s.decided)
}

// WithoutMemory answers the cluster's pending pods with nothing remembered, as the function WhatIf does.
func (s *Standing) WithoutMemory() Output {
	*s.decided++
	return WhatIf(s.st.Snapshot, s.st.Now, s.st.pol)
}

// Decided returns how many times pending pods were decided on for the answers of this Standing and of those made by With: that is most of what
// answers cost.
func (s *Standing) Decided() int { return *s.decided }

// LaunchBar is why no node is launched for a pod that earlier launches did not serve.
type LaunchBar struct {
	Hold
	Node  string
	Cause plan.Reason // why no pod came to Node
}

// LaunchBar returns why no node of a NodePool is launched for a pod that earlier launches did not serve; false: one may
// be.
func (s *Standing) LaunchBar(p *model.Pod, pool string) (LaunchBar, bool) {
	for _, x := range s.st.unused.Bars.On(p, pool) {
		return LaunchBar{Hold{x.Reason, x.Until}, x.Node, x.Cause}, true
	}
	return LaunchBar{}, false
}

// StaticBar returns why no node is launched for a NodePool with a fixed number of nodes whose nodes were of no use; false: one may be.
func (s *Standing) StaticBar(p *model.NodePool) (Hold, bool) {
	x, ok := s.st.unused.Bars.OnStatic(p)
	return Hold{x.Reason, x.Until}, ok
}

// CameShort returns why no node is launched for a pod for which too many came smaller than promised; false: one may be.
func (s *Standing) CameShort(p *model.Pod) (plan.Reason, bool) {
	return s.st.shortfalls.WhyRefused(p)
}

// Pools returns the NodePools as the solver is given them, with what is left of their limits.
func (s *Standing) Pools() []solve.Pool { return s.st.purchases.pools() }

// LimitUses returns the limits over several NodePools, and what is used of them.
func (s *Standing) LimitUses() []model.LimitUse { return s.st.purchases.limitUses() }

// LargestNode returns the most that a NodePool's next node may have of each resource, and cost in micro-dollars an hour.
func (s *Standing) LargestNode(p *model.NodePool) (model.Resources, int64) {
	return limits.LargestNode(p, p.Requirements, p.Types)
}

// StaticClaim returns the claim that a static NodePool's next node would be launched by; false: there is none.
func (s *Standing) StaticClaim(p *model.NodePool) (plan.CreateClaim, bool) {
	return pools.StaticClaim(s.st.View, p, s.st.pol.Solve.MaxTypes, s.st.Decided, plan.Reason{})
}

// CountReplicas returns how many claims a static NodePool has that are not being deleted.
func (s *Standing) CountReplicas(p *model.NodePool) (n int64) {
	for _, c := range s.st.Snapshot.Claims {
		if c.Pool == p.Name && c.Deleting.IsZero() {
			n++
		}
	}
	return n
}

// StaticSurplus returns the claims above spec.replicas of a static NodePool, which the next step deletes.
func (s *Standing) StaticSurplus(p *model.NodePool) []*model.Claim {
	return pools.Surplus(s.st.View, pools.StaticIn{IsStaying: s.st.isStaying, CandidateOf: s.st.candidates.ofClaim, HavePlaces: s.st.search.placesAsked()}, p)
}

// StaticRefusal returns why a static NodePool can't launch one more node next to those it has; an empty code: it can.
func (s *Standing) StaticRefusal(p *model.NodePool) plan.Reason {
	return s.st.purchases.staticRefusal(p)
}

// TerminateFirst reports whether a node that must go for a cause is terminated before its replacement is launched, and the disruption budget that it waits
// for then; an empty code: it waits for none.
func (s *Standing) TerminateFirst(u *disrupt.Candidate, cause plan.Code) (is bool, wait plan.Reason) {
	m, wait := s.st.required.endsFirst.command(u, cause)
	return m != nil || wait.Code != "", wait
}

// Candidates returns the machines as disruption looks at them, by node name.
func (s *Standing) Candidates() []*disrupt.Candidate { return s.st.candidates.all }

// CandidateOn returns the candidate on a node, by name; nil: there is none.
func (s *Standing) CandidateOn(node string) *disrupt.Candidate { return s.st.candidates.onNode(node) }

// DriftWith returns the machines that have not drifted and will have with the NodePools of another Snapshot, by node name.
func (s *Standing) DriftWith(of *model.Snapshot) (out []*disrupt.Candidate) {
	pools := make(map[string]*model.NodePool, len(of.Pools))
	for _, p := range of.Pools {
		pools[p.Name] = p
	}
	for _, u := range s.st.candidates.all {
		p := pools[u.Pool.Name]
		if p == nil || p == u.Pool {
			continue
		}
		v := *u
		v.Pool = p
		v.UnmetRequirement = unmetRequirement(&v)
		before, _ := s.st.candidates.driftReason(u)
		if after, _ := s.st.candidates.driftReason(&v); before == "" && after != "" {
			out = append(out, u)
		}
	}
	return out
}

// Eligibility returns the rules that say which candidates may go.
func (s *Standing) Eligibility() *disrupt.Eligibility { return s.st.candidates.guard }

// DriftRest returns how long a NodePool and its node class must not have changed before its nodes are replaced for drift; 0 if
// they are replaced at once.
func (s *Standing) DriftRest(p *model.NodePool) time.Duration {
	return s.st.driftBackOff.mem.pools[p.UID].rest()
}

// NodeCount returns how many nodes a NodePool has for its disruption budgets.
func (s *Standing) NodeCount(pool string) disrupt.NodeCount {
	return s.st.candidates.budgetCounts[pool]
}

// BudgetLeft returns how many more nodes of a NodePool its budgets allow to go for a cause, and the budget that says so.
func (s *Standing) BudgetLeft(p *model.NodePool, cause plan.Code) (int64, plan.Reason) {
	return s.st.candidates.budgetLeft(p, cause)
}

// BudgetLeftFor is BudgetLeft for one candidate: the repair of a node that is not initialized needs no budget.
func (s *Standing) BudgetLeftFor(u *disrupt.Candidate, cause plan.Code) (int64, plan.Reason) {
	return s.st.candidates.budgetLeftFor(u, cause)
}

// SearchInput returns what disruption searches in, without candidates.
func (s *Standing) SearchInput() *disrupt.Input {
	in, _ := s.st.search.input(true)
	return in
}

// BackOff returns the back-off that a candidate is in; false: it is in none.
func (s *Standing) BackOff(u *disrupt.Candidate) (disruption.BackOff, bool) {
	return s.st.backOffs.Holds(u)
}

// Interruption returns what the cloud has said of a claim's machine that it takes away, and when it will be gone; false:
// it does not take it away.
func (s *Standing) Interruption(c *model.Claim) (notice cluster.Notice, deadline time.Time, announced bool) {
	x := s.st.Interruptions[c.Name]
	if x == nil {
		return cluster.Notice{}, time.Time{}, false
	}
	return x.Notice, x.Deadline, true
}

// WaitsFor reports whether a candidate waits for a pod that is being deleted on it, and until when; zero: until the pod is gone.
func (s *Standing) WaitsFor(u *disrupt.Candidate, p *model.Pod) (until time.Time, waits bool) {
	return s.st.candidates.endOfWait(u, p.Deleting), s.st.candidates.isWaitingFor(u, p.Deleting)
}

// ForcedExpiry returns when a claim that expires, and whose node is initialized, is deleted though its node has not been replaced.
func (s *Standing) ForcedExpiry(c *model.Claim) time.Time {
	return c.Created.Add(c.ExpireAfter).Add(s.st.pol.Lifecycle.ExpireGrace)
}

// Health returns what is wrong with a claim's node, and when it counts as broken; an empty code: nothing is wrong.
func (s *Standing) Health(c *model.Claim) (cause plan.Reason, due time.Time) {
	x := s.st.health.Of(c)
	return x.Cause, x.Due
}

// RepairRefusal returns why no node of a NodePool is repaired; false: one may be.
func (s *Standing) RepairRefusal(pool string) (plan.Reason, bool) {
	return s.st.health.RepairRefusal(pool)
}

// LifecycleInput returns what a claim's next step depends on; false: the claim is another provider's.
func (s *Standing) LifecycleInput(c *model.Claim) (lifecycle.Input, bool) {
	if s.st.isForeign(c) {
		return lifecycle.Input{}, false
	}
	h, _ := s.st.holdingOf(c)
	return s.st.newLifecycle().Input(c, h), true
}

// EvictionsAllowed returns how many more pods may be evicted now.
func (s *Standing) EvictionsAllowed() int { return s.st.evictions.Allowed(s.st.pol.pace()) }

// IsEvicting reports whether the eviction of a pod, by uid, has begun.
func (s *Standing) IsEvicting(uid string) bool {
	return s.st.evictions.HasBegun(uid)
}

// Rollout returns how a pod leaves its node by a restart of its Deployment; false: it does not.
func (s *Standing) Rollout(p *model.Pod, pool *model.NodePool) (lifecycle.Rollout, bool) {
	return s.st.rollouts.For(p, pool)
}

// Command is a disruption command under way.
type Command struct {
	ID           plan.CommandID
	Cause        plan.Code
	Since        time.Time
	Candidates   []*model.Claim // that are not being deleted yet
	Replacements []*model.Claim
	Aborting     plan.Reason // its code and OfAborted.Said say why it is taken back; an empty code: it goes on
}

// Command returns a disruption command under way, by id; false: there is none.
func (s *Standing) Command(id plan.CommandID) (Command, bool) {
	m := s.st.commands.ByID[id]
	if m == nil {
		return Command{}, false
	}
	out := Command{ID: m.ID, Cause: m.Cause, Since: m.Since, Candidates: m.Candidates, Replacements: m.Replacements}
	if code, why := s.st.commandStage.abortCause(m); why != "" && m.Deleting == 0 {
		out.Aborting = plan.Reason{Code: code, Detail: plan.OfAborted{Said: plan.Words(why)}}
	}
	return out, true
}

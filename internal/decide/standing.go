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

// Standing is the state of a cluster according to the rules of Step. It answers queries of package explain, and changes
// nothing.
type Standing struct {
	st      *step
	decided *int // see Decided
}

// Stand returns the Standing of a cluster.
func Stand(s *model.Snapshot, mem Memory, now time.Time, pol Policy) *Standing {
	st := read(s, mem, now, pol, Request{}, explaining)
	st.run(st.decisions(), explaining)
	return &Standing{st, new(int)}
}

// With returns the Standing with another Snapshot, at another time.
func (s *Standing) With(snapshot *model.Snapshot, now time.Time) *Standing {
	other := Stand(snapshot, s.st.mem, now, s.st.pol)
	other.decided = s.decided
	return other
}

// Glance returns a cheap Standing that knows only the objects, and what NodePools and limits leave.
func Glance(s *model.Snapshot, now time.Time, pol Policy) *Standing {
	st := newStep(loadUnchanged(s, now, &pol, nil), Memory{}, pol, Request{})
	st.found = nothingFound(st.View)
	return &Standing{st, new(int)}
}

// Pool returns a NodePool by name; nil if there is none.
func (s *Standing) Pool(name string) *model.NodePool { return s.st.Pool(name) }

// Claim returns a NodeClaim by name; nil if there is none.
func (s *Standing) Claim(name string) *model.Claim { return s.st.Claim(name) }

// NodeOf returns the node of a NodeClaim; nil if it has none or several.
func (s *Standing) NodeOf(c *model.Claim) *model.Node { return s.st.NodeFor(c) }

// Cutoff returns the priority below which pods are expendable.
func (s *Standing) Cutoff() model.PriorityCutoff { return s.st.Cutoff }

// Slot is the slot of a pending pod.
type Slot struct {
	Claim   *model.Claim
	Contest landing.Contest
}

// SlotsOf returns the slots of a pod, by NodeClaim name.
func (s *Standing) SlotsOf(p *model.Pod) (out []Slot) {
	for _, h := range s.st.reservations.All {
		if slices.ContainsFunc(h.Pods, func(q *model.Pod) bool { return q.UID == p.UID }) {
			out = append(out, Slot{Claim: h.Claim, Contest: landing.ContestOf(s.st.View, s.st.landingInput(), h)})
		}
	}
	return out
}

// AwaitedPods returns the number of pods with slots on a NodeClaim's node that are not bound to it yet.
func (s *Standing) AwaitedPods(c *model.Claim) int {
	return s.st.reservations.ByClaim[c.Name].AwaitedPods()
}

// ExpectedOn returns the existing node on which a pod without a slot is expected; empty: none.
func (s *Standing) ExpectedOn(p *model.Pod) demand.Placement { return s.st.placements.mem.byPod[p.UID] }

// BindRefusal returns why Dovetail does not bind a pod; an empty code: it does.
func (s *Standing) BindRefusal(p *model.Pod) plan.Reason {
	return s.st.pol.Landing.BindRefusal(p, s.st.Snapshot.ResourceNames)
}

// Hold is a reason that ends without any change.
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

// IsPassedOver reports whether kube-scheduler or verify rejected a node for a pod that passes all other checks.
func (s *Standing) IsPassedOver(p *model.Pod) bool { return s.st.disagreements.HasLeftNodes(p) }

// GivenUp returns why nothing more is launched for a pod because kube-scheduler or verify rejected its nodes; false:
// something may be.
func (s *Standing) GivenUp(p *model.Pod) (Hold, bool) {
	why, until, over := s.st.disagreements.WhyRefused(p)
	return Hold{why, until}, over
}

// WhatIf returns the decisions on the pending pods of a Snapshot, which may be modified, with the memory of earlier launches,
// rejected bindings and withheld parts.
func (s *Standing) WhatIf(of *model.Snapshot) *Answers {
	return newAnswers(of, s.st.mem, s.st.Now, s.st.pol, s.decided)
}

// WithoutMemory returns the decisions on the cluster's pending pods without any memory, like the function WhatIf.
func (s *Standing) WithoutMemory() Output {
	*s.decided++
	return WhatIf(s.st.Snapshot, s.st.Now, s.st.pol)
}

// Decided returns how many times pending pods were decided on for the answers of this Standing and of those made by With: that is most of what
// answers cost.
func (s *Standing) Decided() int { return *s.decided }

// LaunchBar is why no node is launched for a pod after unused launches.
type LaunchBar struct {
	Hold
	Node  string
	Cause plan.Reason // why no pod ran on Node
}

// LaunchBar returns why no node of a NodePool is launched for a pod after unused launches; false: one may be.
func (s *Standing) LaunchBar(p *model.Pod, pool string) (LaunchBar, bool) {
	for _, x := range s.st.unused.Bars.On(p, pool) {
		return LaunchBar{Hold{x.Reason, x.Until}, x.Node, x.Cause}, true
	}
	return LaunchBar{}, false
}

// StaticBar returns why no node is launched for a static NodePool whose nodes were unused; false: one may be.
func (s *Standing) StaticBar(p *model.NodePool) (Hold, bool) {
	x, ok := s.st.unused.Bars.OnStatic(p)
	return Hold{x.Reason, x.Until}, ok
}

// CameShort returns why no node is launched for a pod for which too many nodes were smaller than specified; false: one may
// be.
func (s *Standing) CameShort(p *model.Pod) (plan.Reason, bool) {
	return s.st.shortfalls.WhyRefused(p)
}

// Pools returns the NodePools in the form of the solver, with the remainder of their limits.
func (s *Standing) Pools() []solve.Pool { return s.st.purchases.pools() }

// LimitUses returns the limits over several NodePools, with their usage.
func (s *Standing) LimitUses() []model.LimitUse { return s.st.purchases.limitUses() }

// LargestNode returns the maximum of each resource, and of the price in micro-dollars per hour, of a NodePool's next node.
func (s *Standing) LargestNode(p *model.NodePool) (model.Resources, int64) {
	return limits.LargestNode(p, p.Requirements, p.Types)
}

// StaticClaim returns the NodeClaim that a static NodePool would create next; false: none.
func (s *Standing) StaticClaim(p *model.NodePool) (plan.CreateClaim, bool) {
	return pools.StaticClaim(s.st.View, p, s.st.pol.Solve.MaxTypes, s.st.Decided, plan.Reason{})
}

// CountReplicas returns the number of a static NodePool's NodeClaims that are not being deleted.
func (s *Standing) CountReplicas(p *model.NodePool) (n int64) {
	for _, c := range s.st.Snapshot.Claims {
		if c.Pool == p.Name && c.Deleting.IsZero() {
			n++
		}
	}
	return n
}

// StaticSurplus returns the NodeClaims of a static NodePool above spec.replicas, which the next step deletes.
func (s *Standing) StaticSurplus(p *model.NodePool) []*model.Claim {
	return pools.Surplus(s.st.View, s.st.surplusInput(), p)
}

// StaticRefusal returns why a static NodePool cannot launch one more node; an empty code: it can.
func (s *Standing) StaticRefusal(p *model.NodePool) plan.Reason {
	return s.st.purchases.staticRefusal(p)
}

// TerminateFirst reports whether a node that must go for a cause is terminated before its replacement is launched, and the disruption budget that it waits
// for then; an empty code: it waits for none.
func (s *Standing) TerminateFirst(u *disrupt.Candidate, cause plan.Code) (is bool, wait plan.Reason) {
	m, wait := s.st.required.endsFirst.command(u, cause)
	return m != nil || wait.Code != "", wait
}

// Candidates returns the disruption candidates, by node name.
func (s *Standing) Candidates() []*disrupt.Candidate { return s.st.candidates.all }

// CandidateOn returns the candidate of a node; nil if there is none.
func (s *Standing) CandidateOn(node string) *disrupt.Candidate { return s.st.candidates.onNode(node) }

// DriftWith returns the nodes that have not drifted, but would with the NodePools of another Snapshot, by node name.
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

// Eligibility returns the rules for the disruption of candidates.
func (s *Standing) Eligibility() *disrupt.Eligibility { return s.st.candidates.guard }

// DriftRest returns how long a NodePool and its node class must be unchanged before drifted nodes are replaced; 0: they are
// replaced at once.
func (s *Standing) DriftRest(p *model.NodePool) time.Duration {
	return s.st.driftBackOff.mem.pools[p.UID].rest()
}

// NodeCount returns the node counts of a NodePool for its disruption budgets.
func (s *Standing) NodeCount(pool string) disrupt.NodeCount {
	return s.st.candidates.budgetCounts[pool]
}

// BudgetLeft returns how many more nodes of a NodePool its budgets allow to disrupt for a cause, and the budget that applies.
func (s *Standing) BudgetLeft(p *model.NodePool, cause plan.Code) (int64, plan.Reason) {
	return s.st.candidates.budgetLeft(p, cause)
}

// BudgetLeftFor is BudgetLeft for one candidate: the repair of a node that is not initialized needs no budget.
func (s *Standing) BudgetLeftFor(u *disrupt.Candidate, cause plan.Code) (int64, plan.Reason) {
	return s.st.candidates.budgetLeftFor(u, cause)
}

// SearchInput returns the input of a consolidation search, without candidates.
func (s *Standing) SearchInput() *disrupt.Input {
	in, _ := s.st.search.input(true)
	return in
}

// BackOff returns the current back-off of a candidate; false: none.
func (s *Standing) BackOff(u *disrupt.Candidate) (disruption.BackOff, bool) {
	return s.st.backOffs.Holds(u)
}

// Interruption returns the interruption notice of a NodeClaim's instance, and when it is terminated; false: none.
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

// ForcedExpiry returns when an expired NodeClaim with an initialized node is deleted even if its node has not been replaced.
func (s *Standing) ForcedExpiry(c *model.Claim) time.Time {
	return c.Created.Add(c.ExpireAfter).Add(s.st.pol.Lifecycle.ExpireGrace)
}

// Health returns the problem of a NodeClaim's node, and when it counts as broken; an empty code: none.
func (s *Standing) Health(c *model.Claim) (cause plan.Reason, due time.Time) {
	x := s.st.health.Of(c)
	return x.Cause, x.Due
}

// RepairRefusal returns why no node of a NodePool is repaired; false: one may be.
func (s *Standing) RepairRefusal(pool string) (plan.Reason, bool) {
	return s.st.health.RepairRefusal(pool)
}

// LifecycleInput returns the input of a NodeClaim's next step; false: it belongs to another provider.
func (s *Standing) LifecycleInput(c *model.Claim) (lifecycle.Input, bool) {
	if s.st.isForeign(c) {
		return lifecycle.Input{}, false
	}
	h, _ := s.st.holdingOf(c)
	return s.st.newLifecycle().Input(c, h), true
}

// EvictionsAllowed returns how many more pods may be evicted now.
func (s *Standing) EvictionsAllowed() int { return s.st.evictions.Allowed(s.st.pol.pace()) }

// IsEvicting reports whether the eviction of a pod, by UID, has started.
func (s *Standing) IsEvicting(uid string) bool {
	return s.st.evictions.HasBegun(uid)
}

// Rollout returns how a pod is replaced by a restart of its Deployment; false: it is not.
func (s *Standing) Rollout(p *model.Pod, pool *model.NodePool) (lifecycle.Rollout, bool) {
	return s.st.rollouts.For(p, pool)
}

// Command is a running disruption command.
type Command struct {
	ID           plan.CommandID
	Cause        plan.Code
	Since        time.Time
	Candidates   []*model.Claim // candidates that are not being deleted yet
	Replacements []*model.Claim
	Aborting     plan.Reason // its code and OfAborted.Said are why it is being cancelled; an empty code: it continues
}

// Command returns a running disruption command by ID; false if there is none.
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Annotations by which people keep nodes and pods from being disrupted.
const (
	DoNotDisrupt      = model.AnnotationDoNotDisrupt
	ScaleDownDisabled = model.AnnotationScaleDownDisabled
	SafeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	DoNotConsolidate  = "karpenter.sh/do-not-consolidate" // of v1alpha5; blocks consolidation only
	DoNotRepair       = "karpenter.sh/do-not-repair"      // on a node or its NodeClaim; blocks repair only
	// KeepUntil on a NodeClaim is the time (RFC 3339) at which the disruption command that launched it has paid off. Until
	// then, consolidation keeps the node.
	KeepUntil = "dovetail.sh/keep-until"
)

// Consolidation policies of a NodePool.
const (
	underutilized = "WhenEmptyOrUnderutilized"
	Balanced      = "Balanced" // needs Input.PoolTotals
)

// DisruptedTaint is on a node from when its drain begins. Pods that tolerate it stay there.
var DisruptedTaint = model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}

// HasDoNotDisrupt reports whether the annotations of a node or a NodeClaim contain DoNotDisrupt.
func HasDoNotDisrupt(annotations model.Labels) bool {
	return annotations[DoNotDisrupt] == trueValue
}

// disruptionForbidders are the annotations of a node or its claim by which it is not disrupted, if their value is "true".
var disruptionForbidders = [...]string{DoNotDisrupt, ScaleDownDisabled}

// ForbidsDisruption reports whether the annotations of a node or of its NodeClaim block its disruption.
func ForbidsDisruption(annotations model.Labels) bool {
	return slices.ContainsFunc(disruptionForbidders[:], func(key string) bool { return annotations[key] == trueValue })
}

// ForbidsRepair reports whether the annotations of a node or of its NodeClaim block its repair (DoNotRepair).
func ForbidsRepair(n *model.Node, c *model.Claim) bool {
	return n.Annotations[DoNotRepair] == trueValue || c.Annotations[DoNotRepair] == trueValue
}

// Eligibility decides which nodes may be disrupted now, by annotations, PodDisruptionBudgets, node groups and times.
// NewEligibility makes one; it is for one instant and one Snapshot.
type Eligibility struct {
	Now time.Time

	// RollsOutFirst reports whether a pod is replaced before it is evicted, so that PodDisruptionBudgets do not block it.
	// nil: no pod is.
	RollsOutFirst func(*model.Pod) bool
	Cutoff        model.PriorityCutoff  // pods below it are expendable, and keep a node only by their own annotation or PodDisruptionBudget
	NodeGroups    map[string]*NodeGroup // by name; groups without a rule may be left out
	Minimum       *ClusterMinimum       // nil: there is none
	Shifts        []model.ZonalShift    // zonal shifts away from zones whose nodes are kept
	// DriftBackOff returns the reason that keeps a drifted candidate because its pool's nodes drifted too often. nil: none.
	DriftBackOff func(*Candidate) (plan.Reason, bool)

	// Activity contains the last events of node groups by group name, and under the empty name those of any group. It is used
	// for pools with delays after events.
	Activity map[string]GroupActivity
	// CountPods returns the number of pods of the controller with this UID. It is called for pools with a minimum.
	CountPods func(ownerUID string) int32
	// Snapshot contains all nodes and pending pods, which are searched for pods of gangs; nil: gangs keep no pods.
	Snapshot *model.Snapshot

	gangs           map[string]gangSpread // by gang; nil before it is asked for
	pdbsByNamespace map[string][]*model.PDB
	pdbsByClass     map[*model.Class][]*model.PDB // found so far
}

// NodeGroup is the state of a node group that restricts removals.
type NodeGroup struct {
	MinSize         int64  // minimum size of the group
	Staying         int64  // nodes of the group that are not being removed
	InstanceRefresh string // the current instance refresh; empty: none
}

// GroupActivity contains the times of the last events in a node group; zero: never.
type GroupActivity struct {
	Launched time.Time // a node
	Removed  time.Time // start of a consolidation, or of the removal of an empty node
	Failed   time.Time // cancellation of such a removal
}

// ClusterMinimum is the minimum capacity of the whole cluster.
type ClusterMinimum struct {
	ResourceNames []string
	Least         model.Resources // by Dim; 0: no minimum
	Staying       model.Resources // capacity of nodes that are not being removed
}

// clone is a copy to take from; nil of nil.
func (m *ClusterMinimum) clone() *ClusterMinimum {
	if m == nil {
		return nil
	}
	out := *m
	return &out
}

// shortOf returns the first resource of which the cluster would have less than its minimum without some capacity, and
// false where there is none.
func (m *ClusterMinimum) shortOf(capacity model.Resources) (model.Dim, bool) {
	for d, least := range m.Least {
		d := model.Dim(d)
		if least > 0 && capacity.At(d) > 0 && m.Staying.At(d)-capacity.At(d) < least {
			return d, true
		}
	}
	return 0, false
}

// allows reports whether some capacity may go.
func (m *ClusterMinimum) allows(capacity model.Resources) bool {
	if m == nil {
		return true
	}
	_, short := m.shortOf(capacity)
	return !short
}

// CountRemoval subtracts a removed candidate from the remaining capacity of its group and of the cluster.
func (e *Eligibility) CountRemoval(c *Candidate) {
	if g := e.NodeGroups[c.NodeGroup()]; g != nil {
		g.Staying--
	}
	if e.Minimum != nil {
		e.Minimum.Staying = e.Minimum.Staying.Sub(c.Node.Capacity)
	}
}

// minimumBlockers say that the cluster would have less than its minimum without a candidate.
func (e *Eligibility) minimumBlockers(c *Candidate, cause plan.Code) []plan.Reason {
	if e.Minimum == nil || !IsConsolidation(cause) {
		return nil
	}
	d, short := e.Minimum.shortOf(c.Node.Capacity)
	if !short {
		return nil
	}
	return []plan.Reason{{Code: plan.ClusterMinimum, Subject: c.nodeSubject(), Detail: plan.OfClusterMinimum{
		Resource: plan.ResourceName(e.Minimum.ResourceNames[d]), Least: plan.Amount(e.Minimum.Least.At(d)), Have: plan.Amount(e.Minimum.Staying.At(d))}}}
}

// NewEligibility reads a Snapshot's PodDisruptionBudgets. One without a selector selects nothing.
func NewEligibility(pdbs []*model.PDB, now time.Time) *Eligibility {
	e := &Eligibility{Now: now, pdbsByNamespace: map[string][]*model.PDB{}, pdbsByClass: map[*model.Class][]*model.PDB{}}
	for _, b := range pdbs {
		if b.Selector != nil {
			e.pdbsByNamespace[b.Namespace] = append(e.pdbsByNamespace[b.Namespace], b)
		}
	}
	return e
}

// IsConsolidation reports whether a node is removed only for its cost: it is empty, or its pods can run elsewhere at lower cost.
func IsConsolidation(cause plan.Code) bool { return cause == plan.Underutilized || cause == plan.Empty }

// Blockers returns the reasons that block the disruption of a candidate for a cause, in the order of the checks; with
// firstOnly at most the first. If there are none, only the budgets of its pool apply, see AllowedDisruptions.
func (e *Eligibility) Blockers(c *Candidate, cause plan.Code, firstOnly bool) []plan.Reason {
	out := blockerList{pool: c.Pool.Name, firstOnly: firstOnly}
	_ = out.add(nodeBlockers(c, cause)...) ||
		out.add(e.shiftBlockers(c, cause)...) ||
		out.add(e.driftBlockers(c, cause)...) ||
		out.add(e.groupBlockers(c, cause)...) ||
		out.add(e.minimumBlockers(c, cause)...) ||
		out.add(nominationBlockers(c, cause)...) ||
		out.add(e.consolidationBlockers(c, cause)...) ||
		e.addPodBlockers(&out, c, cause)
	return out.reasons
}

// blockerList collects reasons of one pool. Its methods return true once it wants no more.
type blockerList struct {
	pool      string
	firstOnly bool
	reasons   []plan.Reason
}

func (l *blockerList) add(reasons ...plan.Reason) (full bool) {
	for _, r := range reasons {
		r.Pool = l.pool
		if l.reasons = append(l.reasons, r); l.firstOnly {
			return true
		}
	}
	return false
}

// nodeBlockers are the reasons that lie in the node and its claim: it goes already, is not initialized, or is
// annotated.
func nodeBlockers(c *Candidate, cause plan.Code) (out []plan.Reason) {
	if c.CommandID != "" {
		out = append(out, plan.Reason{Code: plan.Moving, Subject: c.nodeSubject(), Detail: plan.OfMoving{Command: c.CommandID}})
	}
	if !c.Initialized && cause != plan.Unhealthy {
		out = append(out, plan.Reason{Code: plan.NotInitialized, Subject: c.nodeSubject(), Detail: plan.OfNotInitialized{Said: plan.Words(c.Node.Labels[model.LabelInitialized])}})
	}
	annotated := func(key string) { // people annotate the one or the other, and each must be taken off where it is
		for _, of := range []struct {
			subject     plan.Object
			annotations model.Labels
		}{{plan.ObjectOf("nodeclaim", c.Claim.Name), c.Claim.Annotations}, {c.nodeSubject(), c.Node.Annotations}} {
			if of.annotations[key] == trueValue {
				out = append(out, plan.Reason{Code: plan.NodeDoNotDisrupt, Subject: of.subject, Detail: plan.OfNodeHeld{Annotation: key}})
			}
		}
	}
	switch cause {
	case plan.Unhealthy:
		annotated(DoNotRepair)
	case plan.Expired:
	default:
		for _, key := range disruptionForbidders {
			annotated(key)
		}
	}
	consolidates := c.Pool.ConsolidationPolicy == underutilized || c.Pool.ConsolidationPolicy == Balanced
	if (cause == plan.Underutilized || cause == plan.Empty && consolidates) && c.Node.Annotations[DoNotConsolidate] == trueValue {
		out = append(out, plan.Reason{Code: plan.NodeDoNotDisrupt, Subject: c.nodeSubject(), Detail: plan.OfNodeHeld{Annotation: DoNotConsolidate}})
	}
	return out
}

// shiftBlockers say that the cluster is shifted away from the candidate's zone. Its nodes are kept for when the shift ends: their pods would
// move to zones that take the load of this one, and no replacement can be launched here. Only an expired node goes.
func (e *Eligibility) shiftBlockers(c *Candidate, cause plan.Code) []plan.Reason {
	if cause == plan.Expired || len(e.Shifts) == 0 {
		return nil
	}
	shift := model.ShiftFrom(e.Shifts, c.Labels[model.LabelZone])
	if shift == nil {
		return nil
	}
	return []plan.Reason{{Code: plan.ZonalShift, Subject: c.nodeSubject(), Detail: plan.ShiftOf(shift)}}
}

// driftBlockers say that the nodes of the candidate's pool have drifted too often.
func (e *Eligibility) driftBlockers(c *Candidate, cause plan.Code) []plan.Reason {
	if cause != plan.Drifted || e.DriftBackOff == nil {
		return nil
	}
	if r, held := e.DriftBackOff(c); held {
		return []plan.Reason{r}
	}
	return nil
}

// groupBlockers are what its node group has against a candidate going. A node that must go is replaced, by Dovetail
// or by the group itself, so the minimum matters to consolidation alone.
func (e *Eligibility) groupBlockers(c *Candidate, cause plan.Code) (out []plan.Reason) {
	subject := plan.ObjectOf("nodegroup", c.NodeGroup())
	if s := c.Pool.Scaling; s != nil && c.NodeGroup() != "" && slices.Contains(Budgeted, cause) {
		if s.Unread { // its minimum size is not known, nor whether its cloud replaces its nodes
			return append(out, plan.Reason{Code: plan.GroupUnread, Subject: subject, Detail: plan.OfGroupUnread{}})
		}
		if _, found := slices.BinarySearch(s.Chosen, c.NodeGroup()); s.Chosen != nil && !found { // somebody else's by now, or a call came back short
			out = append(out, plan.Reason{Code: plan.GroupNotChosen, Subject: subject, Detail: plan.OfGroupNotChosen{}})
		}
	}
	g := e.NodeGroups[c.NodeGroup()]
	if g == nil {
		return out
	}
	if g.InstanceRefresh != "" && slices.Contains(Budgeted, cause) {
		out = append(out, plan.Reason{Code: plan.GroupRefresh, Subject: subject, Detail: plan.OfGroupRefresh{Status: g.InstanceRefresh}})
	}
	if IsConsolidation(cause) && g.Staying <= g.MinSize {
		out = append(out, plan.Reason{Code: plan.GroupMinimum, Subject: subject, Detail: plan.OfGroupMinimum{Least: g.MinSize, Staying: g.Staying}})
	}
	return out
}

// nominationBlockers say that pods are expected on the node.
func nominationBlockers(c *Candidate, cause plan.Code) []plan.Reason {
	if !c.Nominated || cause == plan.Unhealthy {
		return nil
	}
	return []plan.Reason{{Code: plan.Nominated, Subject: c.nodeSubject(), Detail: plan.OfNominated{}}}
}

// consolidationBlockers are the checks of consolidation alone: the pool's policy, the node's price and use, and times.
func (e *Eligibility) consolidationBlockers(c *Candidate, cause plan.Code) (out []plan.Reason) {
	if !IsConsolidation(cause) {
		return nil
	}
	p := c.Pool
	if p.Replicas >= 0 {
		out = append(out, plan.Reason{Code: plan.Static, Subject: c.poolSubject(), Detail: plan.OfStatic{Replicas: p.Replicas}})
	}
	if cause == plan.Underutilized {
		if p.ConsolidationPolicy != underutilized && p.ConsolidationPolicy != Balanced {
			out = append(out, plan.Reason{Code: plan.ConsolidationOff, Subject: c.poolSubject(), Detail: plan.OfConsolidationOff{Policy: p.ConsolidationPolicy}})
		}
		if c.PriceMicro < 0 {
			l := c.Labels
			out = append(out, plan.Reason{Code: plan.NoPrice, Subject: c.nodeSubject(), Detail: plan.OfNoPrice{
				InstanceType: l[model.LabelInstanceType], Zone: l[model.LabelZone], CapacityType: l[model.LabelCapacityType]}})
		}
		if p.Scaling != nil {
			if most, name, share := nodeUtilization(p.Scaling.Of(c.NodeGroup()), e.Cutoff, c.Node); most >= 0 && share > most {
				out = append(out, plan.Reason{Code: plan.WellUsed, Subject: c.nodeSubject(), Detail: plan.OfWellUsed{Resource: name, Most: int32(most), Used: int32(share)}})
			}
		}
	}
	switch due := c.UnchangedSince.Add(p.ConsolidateAfter); {
	case p.ConsolidateAfter < 0:
		out = append(out, plan.Reason{Code: plan.Quiet, Subject: c.poolSubject(), Detail: plan.OfQuiet{Never: true}})
	case e.Now.Before(due):
		out = append(out, plan.Reason{Code: plan.Quiet, Subject: c.nodeSubject(), Detail: plan.OfQuiet{
			After: p.ConsolidateAfter, Since: e.Now.Sub(c.UnchangedSince).Round(time.Second)}})
	}
	for _, d := range e.scaleDownDelays(c) {
		if e.Now.Before(d.end()) {
			out = append(out, plan.Reason{Code: d.code, Subject: c.poolSubject(), Detail: plan.OfDelay{
				Field: d.field, Delay: d.length, Since: e.Now.Sub(d.since).Round(time.Second)}})
		}
	}
	if until, ok := paybackEnd(c.Claim, e.Now); ok && cause == plan.Underutilized {
		out = append(out, plan.Reason{Code: plan.Payback, Subject: c.nodeSubject(), Detail: plan.OfPayback{Until: until, Now: e.Now}})
	}
	return out
}

// addPodBlockers adds what keeps the pods of a candidate where they are. Pods do not block what ends anyway: an
// expired or unhealthy node, or one that must go and whose termination grace period evicts them in the end.
func (e *Eligibility) addPodBlockers(out *blockerList, c *Candidate, cause plan.Code) (full bool) {
	endsAnyway := !IsConsolidation(cause) && c.Claim.TerminationGracePeriod >= 0
	if endsAnyway || cause == plan.Unhealthy || cause == plan.Expired {
		return false
	}
	hasPDBs := func(class *model.Class) bool { return len(e.pdbsOf(class)) > 0 }
	if c.podsAreOrdinary && (len(e.pdbsByNamespace) == 0 || !slices.ContainsFunc(c.podClasses, hasPDBs)) {
		return false
	}
	for _, p := range c.Node.Pods {
		if out.add(e.PodBlockers(c.Pool, p, cause)...) || IsConsolidation(cause) && !e.Cutoff.IsExpendable(p) && out.add(e.ruleBlockers(c.Pool, p)...) {
			return true
		}
	}
	return false
}

// EligibleAt is the instant from which consolidateAfter, payback, the delays of node groups and the age of pods of
// kube-system no longer keep a candidate; zero when they do not keep it now, or consolidateAfter is Never.
func (e *Eligibility) EligibleAt(c *Candidate) time.Time {
	if c.Pool.ConsolidateAfter < 0 {
		return time.Time{}
	}
	at := model.LaterOf(c.UnchangedSince.Add(c.Pool.ConsolidateAfter), e.systemPodsEnd(c))
	for _, d := range e.scaleDownDelays(c) {
		at = model.LaterOf(at, d.end())
	}
	if until, ok := paybackEnd(c.Claim, e.Now); ok && until.After(at) {
		at = until
	}
	if at.After(e.Now) {
		return at
	}
	return time.Time{}
}

// paybackEnd is when the disruption command that launched a claim has paid for itself; false when that is past, or no
// command launched it.
func paybackEnd(c *model.Claim, now time.Time) (time.Time, bool) {
	s := c.Annotations[KeepUntil]
	if s == "" {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil && now.Before(t)
}

// PodBlockers returns the reasons for which a pod may not be evicted from a node of a pool for a cause, usually none: do-not-
// disrupt, safe-to-evict, a pod without a controller, PodDisruptionBudgets, gangs. pool may be nil.
func (e *Eligibility) PodBlockers(pool *model.NodePool, p *model.Pod, cause plan.Code) (out []plan.Reason) {
	if p.Terminal || !p.Deleting.IsZero() {
		return nil
	}
	if held, until := p.Held(e.Now); held {
		out = append(out, plan.Reason{Code: plan.PodDoNotDisrupt, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfPodHeld{
			Annotation: p.HoldAnnotation(), Until: until, Value: p.DoNotDisrupt}})
	}
	if p.Mirror {
		return out
	}
	if p.Class.Daemon {
		return append(out, e.pdbBlockers(pool, p, cause)...)
	}
	if g := e.spreadOf(p); g.isApart() && cause != plan.Draining {
		out = append(out, plan.Reason{Code: plan.GangApart, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfGangApart{Gang: plan.Object(p.Gang.Name), Nodes: g.nodes, Waiting: g.waiting()}})
	}
	if p.SafeToEvict != "" && p.SafeToEvict != trueValue && IsConsolidation(cause) {
		out = append(out, plan.Reason{Code: plan.SafeToEvict, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfSafeToEvict{Annotation: SafeToEvict, Value: p.SafeToEvict}})
	}
	if p.Owner.UID == "" && p.SafeToEvict != trueValue && IsConsolidation(cause) && !e.Cutoff.IsExpendable(p) {
		out = append(out, plan.Reason{Code: plan.NoController, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfNoController{}})
	}
	return append(out, e.pdbBlockers(pool, p, cause)...)
}

// gangSpread is where the pods of a gang are.
type gangSpread struct {
	nodes   int // that pods of it run on
	bound   int // pods that run there, and those that have succeeded
	pending int
	least   int // pods that must run at the same time
}

// waiting returns how many pods wait for a node without which the gang does not run.
func (g gangSpread) waiting() int { return min(g.pending, max(0, g.least-g.bound)) }

// isApart reports whether a node with pods of the gang must not go alone: they are moved together, in one command. As long as too few of
// them run, those that do wait for the others, and to move them would start the gang anew.
func (g gangSpread) isApart() bool { return g.nodes > 1 || g.nodes == 1 && g.waiting() > 0 }

// spreadOf returns where the pods of a pod's gang are; zero: it has none.
func (e *Eligibility) spreadOf(p *model.Pod) gangSpread {
	if !p.HasGang() || e.Snapshot == nil {
		return gangSpread{}
	}
	if e.gangs == nil {
		e.gangs = map[string]gangSpread{}
		for _, n := range e.Snapshot.Nodes {
			here := map[string]bool{}
			for _, q := range n.Pods {
				if !q.HasGang() || q.Terminal || !q.Deleting.IsZero() {
					continue
				}
				g, known := e.gangs[q.Gang.Name]
				if !known {
					g.bound = e.Snapshot.GangsEnded[q.Gang.Name]
				}
				if g.bound, g.least = g.bound+1, max(g.least, q.Gang.Least); !here[q.Gang.Name] {
					here[q.Gang.Name] = true
					g.nodes++
				}
				e.gangs[q.Gang.Name] = g
			}
		}
		for _, q := range e.Snapshot.Pending {
			if g, runs := e.gangs[q.Gang.Name]; runs && q.HasGang() && !q.Gated {
				g.pending, g.least = g.pending+1, max(g.least, q.Gang.Least)
				e.gangs[q.Gang.Name] = g
			}
		}
	}
	return e.gangs[p.Gang.Name]
}

// pdbBlockers returns the reason for which PodDisruptionBudgets keep a pod now; at most one. A pod that a drain leaves
// on the node is never evicted, so none keeps it.
func (e *Eligibility) pdbBlockers(pool *model.NodePool, p *model.Pod, cause plan.Code) []plan.Reason {
	pdbs := e.pdbsOf(p.Class)
	switch {
	case len(pdbs) == 0 || pool.KeepsDaemonPod(p, cause == plan.Empty) || model.Tolerated(DisruptedTaint, p.Class.Tolerations) || e.RollsOutFirst != nil && e.RollsOutFirst(p):
	case len(pdbs) > 1: // the eviction API rejects every eviction of it
		names := make([]string, len(pdbs))
		for i, b := range pdbs {
			names[i] = b.Key()
		}
		return []plan.Reason{{Code: plan.SeveralPDBs, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfSeveralPDBs{Names: plan.ListOf(names), Count: len(pdbs)}}}
	case BlocksEviction(pdbs[0], p):
		return []plan.Reason{{Code: plan.DisruptionBudgetPDB, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfPDB{
			Name: pdbs[0].Key(), Exhausted: true}}}
	}
	return nil
}

// BlocksEviction reports whether a PodDisruptionBudget that selects a pod allows no eviction of it now.
func BlocksEviction(b *model.PDB, p *model.Pod) bool {
	return b.DisruptionsAllowed <= 0 && (p.Ready || !b.AlwaysAllowUnready)
}

// pdbsOf are the PodDisruptionBudgets that select the pods of a class.
func (e *Eligibility) pdbsOf(c *model.Class) []*model.PDB {
	list, ok := e.pdbsByClass[c]
	if !ok {
		for _, b := range e.pdbsByNamespace[c.Namespace] {
			if b.Selector.Matches(c.Labels) {
				list = append(list, b)
			}
		}
		e.pdbsByClass[c] = list
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Annotations by which people keep machines and pods.
const (
	DoNotDisrupt      = "karpenter.sh/do-not-disrupt"
	ScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	SafeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	DoNotConsolidate  = "karpenter.sh/do-not-consolidate" // of v1alpha5: nothing else is kept by it
	// KeepUntil on a NodeClaim is until when the move that it came from has not paid for itself.
	KeepUntil = "dovetail.sh/keep-until"
)

// Consolidation policies.
const (
	underutilized = "WhenEmptyOrUnderutilized"
	Balanced      = "Balanced" // Input.Whole is asked for
)

const trueValue = "true"

// Candidate is a machine of a pool: what may go.
type Candidate struct {
	Claim            *model.Claim
	Node             *model.Node
	Pool             *model.NodePool
	PriceMicro       int64        // what it costs; negative: not known
	Pods             []*model.Pod // those that need a home elsewhere when it goes, by namespace and name
	Initialized      bool         // initialised
	UnchangedSince   time.Time    // since when nothing has come or gone
	Nominated        bool         // pods are expected on it
	CommandID        string       // the move it goes in; empty: none
	UnmetRequirement string       // the requirement of its pool that it does not meet any more; empty: it meets all

	plain   bool           // known: no pod on it says anything of its own about being moved
	classes []*model.Class // of what is on it, where it is plain
}

// NewCandidate looks up what a unit is made of, but for Busy, Move, Initial and Quiet.
func NewCandidate(c *model.Claim, n *model.Node, p *model.NodePool) *Candidate {
	u := &Candidate{Claim: c, Node: n, Pool: p, PriceMicro: nodePriceMicro(p, n.Labels)}
	u.plain = true
	for _, x := range n.Pods {
		if IsReschedulable(x) {
			u.Pods = append(u.Pods, x)
		}
		u.plain = u.plain && x.DoNotDisrupt == "" && (x.SafeToEvict == "" || x.SafeToEvict == trueValue) && (x.Owner.UID != "" || x.Mirror || x.Class.Daemon)
	}
	if u.plain {
		for _, x := range n.Pods {
			if !slices.Contains(u.classes, x.Class) {
				u.classes = append(u.classes, x.Class)
			}
		}
	}
	return u
}

// IsReschedulable says whether a pod needs a home elsewhere when its node goes.
func IsReschedulable(p *model.Pod) bool {
	return !p.Class.Daemon && !p.Mirror && !p.Terminal && p.Deleting.IsZero()
}

// HasWorkloadPods says whether a pod that is not a daemon's stands on a node, those on their way out included.
func HasWorkloadPods(n *model.Node) bool {
	for _, p := range n.Pods {
		if !p.Class.Daemon && !p.Mirror && !p.Terminal {
			return true
		}
	}
	return false
}

// nodePriceMicro is what a machine with these labels costs in its pool; negative: its type or offering is not there any more. One from a reservation that
// is not there any more costs what it does without.
func nodePriceMicro(p *model.NodePool, l model.Labels) int64 {
	t := FindInstanceType(p, l[model.LabelInstanceType])
	if t == nil {
		return -1
	}
	without := int64(-1)
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone != l[model.LabelZone] {
			continue
		}
		if o.CapacityType == l[model.LabelCapacityType] {
			return o.PriceMicro
		}
		if o.CapacityType == model.OnDemand && l[model.LabelCapacityType] == model.Reserved {
			without = o.PriceMicro
		}
	}
	return without
}

// FindInstanceType finds a type among what a pool is offered, nil where it is not there.
func FindInstanceType(p *model.NodePool, name string) *model.InstanceType {
	i, ok := slices.BinarySearchFunc(p.Types, name, func(t *model.InstanceType, n string) int {
		switch {
		case t.Name < n:
			return -1
		case t.Name > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return p.Types[i]
}

// Eligibility finds what keeps machines: annotations, PodDisruptionBudgets, times.
type Eligibility struct {
	Now           time.Time
	RollsOutFirst func(*model.Pod) bool   // a pod's successor comes before it goes, whatever a PodDisruptionBudget says; nil: of none
	NodeGroups    map[string]*NodeGroup   // node groups of which something has to be minded
	pdbs          map[string][]*model.PDB // by namespace
	of            map[*model.Class][]*model.PDB
}

// NodeGroup is a node group whose machines may go.
type NodeGroup struct {
	MinSize         int64  // how few it may have
	Staying         int64  // machines of it that nothing is being done to
	InstanceRefresh string // an instance refresh that is under way; empty: none
}

// NodeGroup is the node group that a machine is a member of; empty: none.
func (u *Candidate) NodeGroup() string { return u.Claim.Labels[model.LabelNodeGroup] }

// NewEligibility is the guard of a Snapshot's PodDisruptionBudgets.
func NewEligibility(pdbs []*model.PDB, now time.Time) *Eligibility {
	g := &Eligibility{Now: now, pdbs: map[string][]*model.PDB{}, of: map[*model.Class][]*model.PDB{}}
	for _, b := range pdbs {
		if b.Selector != nil {
			g.pdbs[b.Namespace] = append(g.pdbs[b.Namespace], b)
		}
	}
	return g
}

// Blockers are the reasons that keep a machine from going for a cause, in the order of the checks; with first, only the first. The
// budgets of its pool are not among them: those are counted, not looked at.
func (g *Eligibility) Blockers(u *Candidate, cause plan.Code, first bool) []plan.Reason {
	var out []plan.Reason
	full := func(r plan.Reason) bool {
		r.Pool = u.Pool.Name
		out = append(out, r)
		return first
	}
	node := "node/" + u.Node.Name
	if u.CommandID != "" && full(plan.Reason{Code: plan.Moving, Subject: node, Key: u.CommandID}) {
		return out
	}
	if !u.Initialized && cause != plan.Unhealthy && full(plan.Reason{Code: plan.NotInitialized, Subject: node, Key: model.LabelInitialized, Want: trueValue, Have: u.Node.Labels[model.LabelInitialized]}) {
		return out
	}
	if cause != plan.Unhealthy {
		for _, a := range []string{DoNotDisrupt, ScaleDownDisabled} {
			if (u.Node.Annotations[a] == trueValue || u.Claim.Annotations[a] == trueValue) && cause != plan.Expired {
				if full(plan.Reason{Code: plan.NodeDoNotDisrupt, Subject: node, Key: a, Want: "not " + trueValue, Have: trueValue}) {
					return out
				}
			}
		}
	}
	if (cause == plan.Underutilized || cause == plan.Empty && (u.Pool.ConsolidationPolicy == underutilized || u.Pool.ConsolidationPolicy == Balanced)) && u.Node.Annotations[DoNotConsolidate] == trueValue &&
		full(plan.Reason{Code: plan.NodeDoNotDisrupt, Subject: node, Key: DoNotConsolidate, Want: "not " + trueValue, Have: trueValue}) {
		return out
	}
	if x := g.NodeGroups[u.NodeGroup()]; x != nil {
		for _, r := range x.blocks("nodegroup/"+u.NodeGroup(), cause) {
			if full(r) {
				return out
			}
		}
	}
	if u.Nominated && cause != plan.Unhealthy && full(plan.Reason{Code: plan.Nominated, Subject: node, Want: "no pods expected on it", Have: "pods are on their way to it"}) {
		return out
	}
	if cause == plan.Underutilized || cause == plan.Empty {
		for _, r := range g.voluntary(u, cause, node) {
			if full(r) {
				return out
			}
		}
	}
	// What must end is not kept by pods where the machine's own time limit will end them anyway.
	eventual := cause != plan.Underutilized && cause != plan.Empty && u.Claim.TerminationGracePeriod >= 0
	if eventual || cause == plan.Unhealthy || cause == plan.Expired {
		return out
	}
	if u.plain && (len(g.pdbs) == 0 || !slices.ContainsFunc(u.classes, func(c *model.Class) bool { return len(g.budgets(c)) > 0 })) {
		return out
	}
	for _, p := range u.Node.Pods {
		for _, r := range g.PodBlockers(p, cause) {
			if full(r) {
				return out
			}
		}
	}
	return out
}

// blocks is what a group has against one more of its machines going. One that must go is replaced, by us or by the group itself.
func (x *NodeGroup) blocks(subject string, cause plan.Code) (out []plan.Reason) {
	voluntary := cause == plan.Underutilized || cause == plan.Empty
	if x.InstanceRefresh != "" && (voluntary || cause == plan.Drifted) {
		out = append(out, plan.Reason{Code: plan.GroupRefresh, Subject: subject, Want: "no instance refresh", Have: x.InstanceRefresh})
	}
	if voluntary && x.Staying <= x.MinSize {
		out = append(out, plan.Reason{Code: plan.GroupMinimum, Subject: subject, Key: "minSize", Want: strconv.FormatInt(x.MinSize, 10), Have: strconv.FormatInt(x.Staying, 10)})
	}
	return out
}

// voluntary are the checks of consolidation alone.
func (g *Eligibility) voluntary(u *Candidate, cause plan.Code, node string) []plan.Reason {
	var out []plan.Reason
	p := u.Pool
	if p.Replicas >= 0 {
		out = append(out, plan.Reason{Code: plan.Static, Subject: "nodepool/" + p.Name, Key: "spec.replicas", Want: "not set", Have: strconv.FormatInt(p.Replicas, 10)})
	}
	if cause == plan.Underutilized {
		if p.ConsolidationPolicy != underutilized && p.ConsolidationPolicy != Balanced {
			out = append(out, plan.Reason{Code: plan.ConsolidationOff, Subject: "nodepool/" + p.Name, Key: "spec.disruption.consolidationPolicy",
				Want: underutilized, Have: p.ConsolidationPolicy})
		}
		if u.PriceMicro < 0 {
			out = append(out, plan.Reason{Code: plan.NoPrice, Subject: node, Key: model.LabelInstanceType, Want: "a type and offering of the catalogue",
				Have: u.Node.Labels[model.LabelInstanceType] + " " + u.Node.Labels[model.LabelZone] + " " + u.Node.Labels[model.LabelCapacityType]})
		}
	}
	if cause == plan.Underutilized && p.Scaling != nil {
		if most, name, share := used(p.Scaling, u.Node); most >= 0 && share > most {
			out = append(out, plan.Reason{Code: plan.WellUsed, Subject: node, Key: name, Want: strconv.Itoa(int(most)) + " %", Have: strconv.Itoa(int(share)) + " %"})
		}
	}
	switch due := u.UnchangedSince.Add(p.ConsolidateAfter); {
	case p.ConsolidateAfter < 0:
		out = append(out, plan.Reason{Code: plan.Quiet, Subject: "nodepool/" + p.Name, Key: "spec.disruption.consolidateAfter", Want: "a duration", Have: "Never"})
	case g.Now.Before(due):
		out = append(out, plan.Reason{Code: plan.Quiet, Subject: node, Key: "spec.disruption.consolidateAfter",
			Want: p.ConsolidateAfter.String(), Have: g.Now.Sub(u.UnchangedSince).Round(time.Second).String()})
	}
	if until, ok := paying(u.Claim, g.Now); ok && cause == plan.Underutilized {
		out = append(out, plan.Reason{Code: plan.Payback, Subject: node, Key: KeepUntil, Want: until.UTC().Format(time.RFC3339), Have: g.Now.UTC().Format(time.RFC3339)})
	}
	return out
}

// used is the share of a node that its pods ask for, in percent rounded up, of what it is the share, and how much it may be for the node to
// go; negative: any.
func used(how *model.GroupScaling, n *model.Node) (most int32, name string, share int32) {
	var asked model.Resources
	for _, p := range n.Pods {
		if !p.Terminal && !(how.IgnoreDaemons && p.Class.Daemon) {
			asked = asked.AddInto(p.Class.Requests, 1)
		}
	}
	of := func(d model.Dim) int32 {
		have := n.Allocatable.At(d)
		if have <= 0 {
			return 0
		}
		return int32(math.Ceil(float64(asked.At(d)) * 100 / float64(have)))
	}
	for _, d := range how.GPUs {
		if n.Allocatable.At(d) > 0 {
			return how.GPUPercent, "GPUs", of(d)
		}
	}
	cpu, memory := of(model.CPU), of(model.Memory)
	if cpu >= memory {
		return how.UtilizationPercent, "CPU", cpu
	}
	return how.UtilizationPercent, "memory", memory
}

// EligibleAt is when a machine kept only by time may be looked at again; zero: time alone will not free it.
func (g *Eligibility) EligibleAt(u *Candidate) time.Time {
	if u.Pool.ConsolidateAfter < 0 {
		return time.Time{}
	}
	at := u.UnchangedSince.Add(u.Pool.ConsolidateAfter)
	if until, ok := paying(u.Claim, g.Now); ok && until.After(at) {
		at = until
	}
	if at.After(g.Now) {
		return at
	}
	return time.Time{}
}

func paying(c *model.Claim, now time.Time) (time.Time, bool) {
	s := c.Annotations[KeepUntil]
	if s == "" {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil && now.Before(t)
}

// PodBlockers says what keeps a pod where it is; mostly nothing.
func (g *Eligibility) PodBlockers(p *model.Pod, cause plan.Code) (out []plan.Reason) {
	if p.Terminal || !p.Deleting.IsZero() {
		return nil
	}
	if held, until := p.Held(g.Now); held {
		r := plan.Reason{Code: plan.PodDoNotDisrupt, Subject: "pod/" + p.Key(), Key: DoNotDisrupt, Want: "not set", Have: p.DoNotDisrupt}
		if !until.IsZero() {
			r.Want = "past " + until.UTC().Format(time.RFC3339)
		}
		out = append(out, r)
	}
	if p.Mirror || p.Class.Daemon {
		return out
	}
	voluntary := cause == plan.Underutilized || cause == plan.Empty
	if p.SafeToEvict != "" && p.SafeToEvict != trueValue && voluntary {
		out = append(out, plan.Reason{Code: plan.SafeToEvict, Subject: "pod/" + p.Key(), Key: SafeToEvict, Want: trueValue, Have: p.SafeToEvict})
	}
	if p.Owner.UID == "" && p.SafeToEvict != trueValue && voluntary {
		out = append(out, plan.Reason{Code: plan.NoController, Subject: "pod/" + p.Key(), Key: "metadata.ownerReferences",
			Want: "a controller, or " + SafeToEvict + "=true", Have: "none"})
	}
	list := g.budgets(p.Class)
	switch {
	case len(list) == 0 || g.RollsOutFirst != nil && g.RollsOutFirst(p):
	case len(list) > 1: // the eviction API refuses such a pod always
		names := make([]string, len(list))
		for i, b := range list {
			names[i] = b.Namespace + "/" + b.Name
		}
		out = append(out, plan.Reason{Code: plan.SeveralPDBs, Subject: "pod/" + p.Key(), Key: strings.Join(names, " "), Want: "at most 1", Have: strconv.Itoa(len(list))})
	case list[0].DisruptionsAllowed <= 0 && (p.Ready || !list[0].AlwaysAllowUnready):
		out = append(out, plan.Reason{Code: plan.DisruptionBudgetPDB, Subject: "pod/" + p.Key(), Key: list[0].Namespace + "/" + list[0].Name,
			Want: "disruptionsAllowed of at least 1", Have: "0"})
	}
	return out
}

// budgets are the PodDisruptionBudgets of a class.
func (g *Eligibility) budgets(c *model.Class) []*model.PDB {
	list, ok := g.of[c]
	if !ok {
		for _, b := range g.pdbs[c.Namespace] {
			if b.Selector.Matches(c.Labels) {
				list = append(list, b)
			}
		}
		g.of[c] = list
	}
	return list
}

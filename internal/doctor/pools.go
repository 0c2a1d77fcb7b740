// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Codes of findings about NodePools and the nodes that they may launch.
const (
	Unplaceable      Code = "Unplaceable"      // pods are pending, and no NodePool can launch a node for them; Reason: the reason
	LimitReached     Code = "LimitReached"     // pods are pending because the limit of a NodePool or CapacityQuota is reached
	LimitNear        Code = "LimitNear"        // a NodePool or CapacityQuota uses at least 90 % of its limit
	GroupFull        Code = "GroupFull"        // a node group is at its maximum size, and no pod is pending because of that
	GroupAtMaximum   Code = "GroupAtMaximum"   // pods are pending because a node group is at its maximum size
	PoolBuysNothing  Code = "PoolBuysNothing"  // no instance type meets the requirements of the NodePool; Key: the label that excludes all of them
	PoolNotReady     Code = "PoolNotReady"     // the NodePool is not ready; Have: the reason
	UnusedLaunches   Code = "UnusedLaunches"   // no pod used nodes that a NodePool launched for it; Key: the code of the cause, Have: number of nodes, their cost and the cause
	DriftBackOff     Code = "DriftBackOff"     // nodes of a NodePool drift soon after launch, so they are replaced at increasing intervals; Have: how often, and what ends the back-off
	OverlappingPools Code = "OverlappingPools" // two NodePools of equal weight may launch the same nodes for the same pods; Have: the other NodePool
	SpotNeverAllowed Code = "SpotNeverAllowed"
	FewTypes         Code = "FewTypes"   // a NodePool may launch few instance types; Have: their number
	OnePerNode       Code = "OnePerNode" // pods of a workload have anti-affinity to each other on the same node
)

// mostAsked is the maximum number of pending workloads that are explained individually.
const mostAsked = 8

// findUnusedLaunches finds NodePools whose nodes were not used by any pod, according to their status.
func (x *exam) findUnusedLaunches() (out []Finding) {
	for _, p := range x.Snapshot.Pools {
		if c := p.Conditions[unused.ConditionType]; c.True() {
			out = append(out, Finding{Code: UnusedLaunches, Severity: Broken, Subject: "nodepool/" + p.Name, Key: c.Reason, Have: c.Message})
		}
	}
	return out
}

// findDriftBackOffs finds NodePools whose nodes drift repeatedly, according to their status.
func (x *exam) findDriftBackOffs() (out []Finding) {
	for _, p := range x.Snapshot.Pools {
		if c := p.Conditions[decide.ConditionDriftBackOff]; c.True() {
			out = append(out, Finding{Code: DriftBackOff, Severity: Broken, Subject: "nodepool/" + p.Name, Have: c.Message})
		}
	}
	return out
}

// findUnplaceable finds workloads whose pods fit on no node.
func (x *exam) findUnplaceable() (out []Finding) {
	if x.assumed {
		return x.findPodsWithoutPools()
	}
	at := map[string]int{}
	for _, p := range x.today.Pods {
		if p.Outcome != plan.Refused || len(p.Reasons) == 0 {
			continue
		}
		r := p.Reasons[0]
		f := Finding{Code: Unplaceable, Severity: Broken, Subject: workloadOf(p.Pod), Reason: r}
		switch r.Code {
		case plan.Limit:
			limit := plan.DetailOf[plan.OfLimit](r)
			f.Code, f.Subject, f.Key, f.Have = LimitReached, "nodepool/"+r.Pool, "spec.limits."+string(limit.Resource), r.Summary()
		case plan.GroupMaximum:
			f.Code, f.Subject, f.Key, f.Have = GroupAtMaximum, r.About(), "maxSize", r.Summary()
			f.Changes = []plan.Change{{Object: f.Subject, Field: "maxSize", Op: plan.Add, Value: "1"}}
			x.waitedFor[f.Subject] = true
		}
		shared := plan.DetailOf[plan.OfSharedLimit](r).Limit
		if l := x.limitNamed(shared); r.Code == plan.SharedLimit && l != nil && l.Quota != nil {
			f.Code, f.Subject, f.Have, f.Reason = LimitReached, l.Name, r.Summary(), plan.Reason{}
		}
		id := string(f.Code) + f.Subject + f.Key
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			switch {
			case r.Code == plan.SharedLimit && f.Code == LimitReached:
				f.Changes = x.raiseQuota(x.limitNamed(shared))
				if len(f.Changes) > 0 {
					f.Key = f.Changes[0].Field
				}
			case f.Code == LimitReached:
				x.waitedFor[f.Subject+" "+f.Key] = true
				f.Changes = x.raiseLimit(r.Pool, string(plan.DetailOf[plan.OfLimit](r).Resource))
			case f.Code == Unplaceable && r.Code != plan.PlanRefused && len(out) < mostAsked: // no change by users fixes a bug of Dovetail
				f.Changes, f.Reason = x.nearestWay(p.Pod, r)
			}
			out = append(out, f)
		}
		out[i].Pods = append(out[i].Pods, p.Pod.Key())
	}
	return out
}

// findPodsWithoutPools finds workloads with pending pods if the cluster has no NodePool. It is unknown what an
// autoscaler without NodePools may launch. Therefore, nothing is found unless all running autoscalers need NodePools,
// or no autoscaler and no node is known (manifests from files, or a cluster that is being created).
func (x *exam) findPodsWithoutPools() (out []Finding) {
	if len(x.Snapshot.Pools) > 0 || slices.ContainsFunc(x.Denied, func(d Denied) bool { return d.Resource == "nodepools" }) {
		return nil // there are some, or may be
	}
	if len(x.Autoscalers) == 0 && len(x.Snapshot.Nodes) > 0 || slices.ContainsFunc(x.Autoscalers, func(a Autoscaler) bool { return a.Name != "Dovetail" && a.Name != "Karpenter" }) {
		return nil
	}
	at := map[string]int{}
	for _, p := range x.today.Pods {
		if p.Outcome == plan.OnNode {
			continue
		}
		of := workloadOf(p.Pod)
		i, ok := at[of]
		if !ok {
			i = len(out)
			at[of] = i
			out = append(out, Finding{Code: Unplaceable, Severity: Broken, Subject: of, Reason: plan.Reason{Code: plan.NoPools}, Changes: []plan.Change{{Object: "nodepool/default", Op: plan.Add}}})
		}
		out[i].Pods = append(out[i].Pods, p.Pod.Key())
	}
	return out
}

// nearestWay returns the changes after which a pending pod gets a node, and the reason that they remove. If no changes
// are known, it returns none and r.
func (x *exam) nearestWay(p *model.Pod, r plan.Reason) ([]plan.Change, plan.Reason) {
	a, err := explain.Why(x.Snapshot, decide.Memory{}, x.Now, x.Policy, "pod/"+p.Key())
	if err != nil {
		return nil, r // it is among the pending pods of this snapshot, so there is an answer
	}
	for i := range a.Ways {
		list := slices.Clone(a.Ways[i].Changes)
		if len(list) == 0 || slices.ContainsFunc(list, func(c plan.Change) bool { return !c.IsEditable() }) {
			continue
		}
		if j := slices.IndexFunc(a.Findings, func(f plan.Finding) bool { return f.Of == plan.Demand && f.Reason.Pool == a.Ways[i].Pool }); j >= 0 {
			r = a.Findings[j].Reason
		}
		return list, r
	}
	return nil, r
}

// raiseLimit returns the change that sets the limit of a pool to the resource amount of its nodes if all pending pods
// get a node.
func (x *exam) raiseLimit(pool, resource string) []plan.Change {
	dim := model.Dim(slices.Index(x.Snapshot.ResourceNames, resource)) // -1: the number of nodes
	limited := func(limit int64) *model.Snapshot {
		s := *x.Snapshot
		editPools(func(p *model.NodePool) {
			switch {
			case p.Name != pool:
			case dim < 0:
				p.NodeLimit = limit
			default:
				p.HasLimit = slices.Clone(p.HasLimit)
				p.Limits, p.HasLimit[dim] = p.Limits.With(dim, limit), limit >= 0
			}
		})(&s)
		return &s
	}
	have := func(capacity model.Resources) int64 {
		if dim < 0 {
			return 1
		}
		return capacity.At(dim)
	}
	need := int64(0)
	for _, c := range x.Snapshot.Claims {
		if c.Pool == pool {
			need += have(c.Capacity)
		}
	}
	d := decide.WhatIf(limited(-1), x.Now, x.Policy)
	if d.Result == nil {
		return nil
	}
	for i := range d.Result.New {
		if n := &d.Result.New[i]; n.Pool == pool {
			need += have(n.Type.Capacity)
		}
	}
	for range 4 { // if the number of nodes is limited, decide may choose other nodes, which need more
		need = explain.RoundUpLimit(dim, need)
		d := decide.WhatIf(limited(need), x.Now, x.Policy)
		if !slices.ContainsFunc(d.Pods, func(p plan.PodDecision) bool {
			return p.Outcome == plan.Refused && p.Reasons[0].Code == plan.Limit && p.Reasons[0].Pool == pool && plan.DetailOf[plan.OfLimit](p.Reasons[0]).Resource == plan.ResourceName(resource)
		}) {
			break
		}
		need += need / 4
	}
	return []plan.Change{{Object: "nodepool/" + pool, Field: "spec.limits." + resource, Op: plan.Set, Value: amount(dim, explain.RoundUpLimit(dim, need))}}
}

// amount formats an amount of a resource, or a number if d is negative.
func amount(d model.Dim, v int64) string {
	if d < 0 {
		return itoa(v)
	}
	return model.FormatAmount(d, v)
}

// launchable returns the number of instance types that a pool may launch now if requirements with the given keys are
// dropped.
func launchable(p *model.NodePool, dropped func(key string) bool) int {
	own := *p
	own.Requirements = slices.DeleteFunc(slices.Clone(p.Requirements), func(r model.Requirement) bool { return dropped(r.Key) })
	n := 0
	for _, t := range p.Types {
		if own.MayBuyType(t) && slices.ContainsFunc(t.Offerings, func(o model.Offering) bool {
			return own.MayBuyOffering(&o) && o.Remaining != 0 || own.MayBuyOffering(&o) && o.Most > 0
		}) {
			n++
		}
	}
	return n
}

func noKey(string) bool { return false }

// findPools finds NodePools that are not ready, or cannot launch any node.
func (x *exam) findPools() (out []Finding) {
	for _, p := range x.Snapshot.Pools {
		object := "nodepool/" + p.Name
		switch {
		case p.Deleting || p.NotReady.Reason == "NodeGroupsNotRead":
		case !p.Ready:
			f := Finding{Code: PoolNotReady, Severity: Broken, Subject: object, Key: "status.conditions[Ready]", Have: firstOf(p.NotReady.Message, p.NotReady.Reason)}
			if strings.Contains(p.NotReady.Reason, "NotFound") {
				f.Changes = []plan.Change{{Object: strings.ToLower(p.ClassKind) + "/" + p.ClassName, Op: plan.Add}}
			}
			out = append(out, f)
		case launchable(p, noKey) == 0:
			f := Finding{Code: PoolBuysNothing, Severity: Broken, Subject: object}
			for i := range p.Requirements {
				key := p.Requirements[i].Key
				if !p.ImpliesLabel(key) && launchable(p, func(k string) bool { return k == key }) > 0 {
					f.Key, f.Have = requirementField(key), p.Requirements[i].String()
					if _, ofTemplate := p.Labels[key]; ofTemplate {
						f.Key = "spec.template.metadata.labels[" + key + "]"
					}
					f.Changes = []plan.Change{{Object: object, Field: f.Key, Op: plan.Remove}}
					break
				}
			}
			out = append(out, f)
		}
	}
	return out
}

func requirementField(key string) string { return "spec.template.spec.requirements[" + key + "]" }

// findOverlaps finds NodePools of equal weight that may launch the same nodes for the same pods.
func (x *exam) findOverlaps() (out []Finding) {
	if x.assumed {
		return nil
	}
	for i, a := range x.pools {
		for _, b := range x.pools[i+1:] {
			if a.Weight == b.Weight && sameTaints(a, b) && sameLabels(a, b) && sameOffers(a, b) {
				out = append(out, Finding{Code: OverlappingPools, Severity: Risky, Subject: "nodepool/" + b.Name, Key: "spec.weight", Have: "nodepool/" + a.Name,
					Changes: []plan.Change{{Object: "nodepool/" + b.Name, Field: "spec.weight", Op: plan.Set, Value: heavier(x.pools)}}})
				break
			}
		}
	}
	return out
}

// heavier returns a weight that no pool has, higher than all of them if possible.
func heavier(pools []*model.NodePool) string {
	taken := map[int32]bool{}
	most := int32(0)
	for _, p := range pools {
		taken[p.Weight], most = true, max(most, p.Weight)
	}
	w := min(most+10, 100)
	for taken[w] && w > 1 {
		w--
	}
	return itoa(int64(w))
}

func sameTaints(a, b *model.NodePool) bool {
	has := func(list []model.Taint, t model.Taint) bool {
		return t.Effect == model.PreferNoSchedule || slices.Contains(list, t)
	}
	return !slices.ContainsFunc(a.Taints, func(t model.Taint) bool { return !has(b.Taints, t) }) &&
		!slices.ContainsFunc(b.Taints, func(t model.Taint) bool { return !has(a.Taints, t) })
}

// sameLabels reports whether two pools set the same labels on their nodes, so that pods cannot choose between them.
func sameLabels(a, b *model.NodePool) bool {
	for k, v := range a.Labels {
		if k != model.LabelNodePool && b.Labels[k] != v {
			return false
		}
	}
	return len(a.Labels) == len(b.Labels)
}

func sameOffers(a, b *model.NodePool) bool {
	for _, t := range a.Types {
		if !a.MayBuyType(t) || !b.MayBuyType(t) || disrupt.FindInstanceType(b, t.Name) == nil {
			continue
		}
		for i := range t.Offerings {
			if o := &t.Offerings[i]; a.MayBuyOffering(o) && b.MayBuyOffering(o) {
				return true
			}
		}
	}
	return false
}

// findLimits finds NodePools that have nearly reached a limit. If pods or replacements wait for the limit, another
// check finds it.
func (x *exam) findLimits() (out []Finding) {
	used, count := map[string]model.Resources{}, map[string]int64{}
	for _, n := range x.Snapshot.Nodes {
		if p := x.poolOf(n); p != nil {
			used[p.Name] = used[p.Name].AddInto(n.Capacity, 1)
			count[p.Name]++
		}
	}
	near := func(p *model.NodePool, name string, have, limit int64, d model.Dim) {
		if limit <= 0 || have*10 < limit*9 || x.waitedFor["nodepool/"+p.Name+" spec.limits."+name] {
			return
		}
		out = append(out, Finding{Code: LimitNear, Severity: Risky, Subject: "nodepool/" + p.Name, Key: "spec.limits." + name,
			Have:    model.ShortAmount(d, have, 1) + " of " + model.ShortAmount(d, limit, 1),
			Changes: []plan.Change{{Object: "nodepool/" + p.Name, Field: "spec.limits." + name, Op: plan.Set, Value: model.FormatAmount(d, explain.RoundUpLimit(d, 2*limit))}}})
	}
	for _, p := range x.Snapshot.Pools {
		for d, has := range p.HasLimit {
			if has && d < len(x.Snapshot.ResourceNames) {
				near(p, x.Snapshot.ResourceNames[d], used[p.Name].At(model.Dim(d)), p.Limits.At(model.Dim(d)), model.Dim(d))
			}
		}
		near(p, "nodes", count[p.Name], p.NodeLimit, model.Pods)
	}
	return out
}

// findFullGroups finds node groups at their maximum size: the next pod for them would be pending. If pods are already
// pending, another check finds them.
func (x *exam) findFullGroups() (out []Finding) {
	full := map[string]int64{}
	for _, p := range x.pools {
		for _, t := range p.Types {
			for i := range t.Offerings {
				o := &t.Offerings[i]
				if group := o.Labels[model.LabelNodeGroup]; group != "" && o.Remaining == 0 && o.Most > 0 && p.MayBuyType(t) && p.MayBuyOffering(o) {
					full[group] = o.Most
				}
			}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(full)) {
		subject := "nodegroup/" + group
		if !x.waitedFor[subject] {
			out = append(out, Finding{Code: GroupFull, Severity: Risky, Subject: subject, Key: "maxSize", Have: itoa(full[group]),
				Changes: []plan.Change{{Object: subject, Field: "maxSize", Op: plan.Add, Value: "1"}}})
		}
	}
	return out
}

// worthwhile reports whether the saving of a what-if is at least 1 % of the cluster's cost, and so exceeds the noise of
// the solver.
func (x *exam) worthwhile(saving int64) bool { return saving*100 >= x.compared.NowMicro && saving > 0 }

// whatIf returns how much less the cluster would cost after consolidation if its snapshot were changed by edit.
func (x *exam) whatIf(edit func(*model.Snapshot)) int64 {
	p := x.reach(func(n *model.Node) bool { return len(x.heldBy[n]) > 0 }, edit, x.whatIfPolicy())
	return max(0, x.baseline-p.micro)
}

// editPools returns a function that replaces the pools of a snapshot by copies changed by edit.
func editPools(edit func(*model.NodePool)) func(*model.Snapshot) {
	return func(s *model.Snapshot) {
		pools := make([]*model.NodePool, len(s.Pools))
		for i, p := range s.Pools {
			c := *p
			edit(&c)
			pools[i] = &c
		}
		s.Pools = pools
	}
}

// replaceRequirement returns requirements in which r replaces the requirement with the same key.
func replaceRequirement(rs model.Requirements, r model.Requirement) model.Requirements {
	rest := slices.DeleteFunc(slices.Clone(rs), func(q model.Requirement) bool { return q.Key == r.Key })
	return model.NewRequirements(append(rest, r)...)
}

// findSpot finds whether no NodePool may launch spot nodes although they would be cheaper.
func (x *exam) findSpot() []Finding {
	if x.assumed {
		return nil
	}
	spot := model.Offering{CapacityType: model.Spot}
	var changes []plan.Change
	for _, p := range x.pools {
		q := p.Requirements.Get(model.LabelCapacityType)
		if q == nil || q.Matches(spot.CapacityType, true) {
			return nil
		}
		changes = append(changes, plan.Change{Object: "nodepool/" + p.Name, Field: requirementField(model.LabelCapacityType), Op: plan.Add, Value: model.Spot})
	}
	saving := x.whatIf(editPools(func(p *model.NodePool) {
		q := p.Requirements.Get(model.LabelCapacityType)
		p.Requirements = replaceRequirement(p.Requirements, model.OneOf(model.LabelCapacityType, append(slices.Clone(q.Values), model.Spot)...))
	}))
	if !x.worthwhile(saving) {
		return nil
	}
	subject := changes[0].Object
	return []Finding{{Code: SpotNeverAllowed, Severity: Costly, Subject: subject, Key: requirementField(model.LabelCapacityType), SavingMicro: saving, Priced: true, Changes: changes}}
}

// fewTypes is the maximum number of launchable instance types with which findFewTypes examines a pool.
const fewTypes = 5

// findFewTypes finds NodePools that may launch only few instance types although others would be cheaper.
func (x *exam) findFewTypes() (out []Finding) {
	if x.assumed {
		return nil
	}
	placing := []string{model.LabelNodePool, model.LabelZone, model.LabelRegion, model.LabelArch, model.LabelOS, model.LabelCapacityType, model.LabelNodeGroup}
	for _, p := range x.pools {
		n := launchable(p, noKey)
		if p.Discovered || n == 0 || n > fewTypes || launchable(p, func(k string) bool { return !slices.Contains(placing, k) }) < 4*n {
			continue
		}
		var changes []plan.Change
		for i := range p.Requirements {
			if key := p.Requirements[i].Key; !slices.Contains(placing, key) && p.Labels[key] == "" && !p.ImpliesLabel(key) {
				changes = append(changes, plan.Change{Object: "nodepool/" + p.Name, Field: requirementField(key), Op: plan.Remove})
			}
		}
		saving := x.whatIf(editPools(func(q *model.NodePool) {
			if q.Name == p.Name {
				q.Requirements = slices.DeleteFunc(slices.Clone(q.Requirements), func(r model.Requirement) bool {
					return !slices.Contains(placing, r.Key) && q.Labels[r.Key] == "" && !q.ImpliesLabel(r.Key)
				})
			}
		}))
		if len(changes) > 0 && x.worthwhile(saving) {
			out = append(out, Finding{Code: FewTypes, Severity: Costly, Subject: "nodepool/" + p.Name, Key: changes[0].Field, Have: itoa(int64(n)),
				SavingMicro: saving, Priced: true, Changes: changes})
		}
	}
	return out
}

// findOnePerNode finds workloads whose pods have anti-affinity to each other on the same node, if that increases the
// cost.
func (x *exam) findOnePerNode() (out []Finding) {
	const most = 4
	var list []*workload
	for _, w := range x.list {
		if len(w.pods) > 1 && refusesItself(w.pods[0].Class) {
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b *workload) int { return len(b.pods) - len(a.pods) })
	for _, w := range list[:min(len(list), most)] {
		saving := x.whatIf(func(s *model.Snapshot) {
			editPods(s, w.subject, func(c *model.Class) {
				c.AntiAffinity = slices.DeleteFunc(slices.Clone(c.AntiAffinity), func(t model.PodTerm) bool { return !t.Selector.IsOfDevices() })
			})
		})
		if !x.worthwhile(saving) {
			continue
		}
		f := Finding{Code: OnePerNode, Severity: Costly, Subject: w.subject, Key: "spec.affinity.podAntiAffinity", SavingMicro: saving, Priced: true,
			Changes: templateChange(w.pods[0], "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", plan.Remove, "")}
		for _, p := range w.pods {
			f.Pods = append(f.Pods, p.Key())
		}
		out = append(out, f)
	}
	return out
}

// refusesItself reports whether a pod of the class keeps other pods of the class off its node.
func refusesItself(c *model.Class) bool {
	return slices.ContainsFunc(c.AntiAffinity, func(t model.PodTerm) bool {
		return t.TopologyKey == model.LabelHostname && t.Selector.Pods != nil && t.Selector.Pods.Matches(c.Labels)
	})
}

// editPods replaces the pending pods of a workload in the snapshot by copies whose classes are changed by edit.
func editPods(s *model.Snapshot, subject string, edit func(*model.Class)) {
	made := map[*model.Class]*model.Class{}
	pending := slices.Clone(s.Pending)
	for i, p := range pending {
		if workloadOf(p) != subject {
			continue
		}
		c := made[p.Class]
		if c == nil {
			own := *p.Class
			own.Key += "\x00edited"
			edit(&own)
			c, made[p.Class] = &own, &own
		}
		q := *p
		q.Class = c
		pending[i] = &q
	}
	s.Pending = pending
}

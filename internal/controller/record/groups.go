// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// beginStep forgets what was found out for the step before.
func (ge *groupEvents) beginStep() { ge.groupsOfPool, ge.toldTotalNodes = nil, false }

// drivesGroups reports whether a NodeGroupClass has groups.
func (ge *groupEvents) drivesGroups() bool {
	return slices.ContainsFunc(ge.pools.ListNodeClasses(), func(c *state.NodeClass) bool { return len(c.Groups) > 0 })
}

// countGroups returns how many node groups a pool has, 0 where its nodes are of none.
func (ge *groupEvents) countGroups(name string) int {
	n, known := ge.groupsOfPool[name]
	if known {
		return n
	}
	if pool := ge.pools.FindPool(name); pool != nil {
		if class := ge.pools.FindNodeClass(pool.ClassGroup, pool.ClassKind, pool.ClassName); class != nil && len(class.Groups) > 0 {
			n = max(1, len(pool.NodeGroups()))
		}
	}
	if ge.groupsOfPool == nil {
		ge.groupsOfPool = map[string]int{}
	}
	ge.groupsOfPool[name] = n
	return n
}

// groupGrowth is how a step has a node group grow.
type groupGrowth struct {
	group    string
	from, to int64
	max      int64 // 0: not known
}

// String returns the growth in the format of Cluster Autoscaler's events: NAME 1->3 (max: 10).
func (g groupGrowth) String() string {
	return fmt.Sprintf("%s %d->%d (max: %d)", g.group, g.from, g.to, g.max)
}

// findGrowth returns how the NodeClaims of a plan have node groups grow, by group; nil where they are of none.
func (ge *groupEvents) findGrowth(snap *model.Snapshot, actions []plan.Action) map[string]*groupGrowth {
	var out map[string]*groupGrowth
	for _, a := range actions {
		create, ok := a.(plan.CreateClaim)
		if !ok || groupOfPurchase(create) == "" {
			continue
		}
		if out == nil {
			out = map[string]*groupGrowth{}
		}
		group := groupOfPurchase(create)
		if out[group] == nil {
			out[group] = &groupGrowth{group: group}
		}
		out[group].to++
	}
	if out == nil {
		return nil
	}
	sizes := nodegroups.Sizes(snap, nil)
	for _, g := range state.NodeGroups(ge.pools.ListNodeClasses()) {
		if x := out[g.Name]; x != nil {
			x.max = g.Max
		}
	}
	for name, x := range out {
		x.from = sizes[name]
		x.to += x.from
	}
	return out
}

// tellStatus tells those who watch the status ConfigMap, once there is one.
func (ge *groupEvents) tellStatus(warn bool, reason, message string) {
	if ge.status == nil {
		return
	}
	if namespace, name, uid := ge.status.StatusObject(); uid != "" {
		ge.events.Event("ConfigMap", namespace, name, uid, warn, reason, message)
	}
}

// tellGrowth tells of the groups that a step has grow.
func (ge *groupEvents) tellGrowth(growth map[string]*groupGrowth) {
	for _, name := range slices.Sorted(maps.Keys(growth)) {
		g := growth[name]
		ge.tellStatus(false, "ScaledUpGroup", fmt.Sprintf("Scale-up: group %s", g))
	}
}

// tellLaunchFailed tells of a node that could not be launched.
func (ge *groupEvents) tellLaunchFailed(c *model.Claim, why string) {
	if c.NodeGroup() != "" {
		ge.tellStatus(true, "FailedToScaleUpGroup", fmt.Sprintf("Scale-up of group %s failed: %s", c.NodeGroup(), why))
	}
}

// tellTimedOut tells of an instance that did not come, or became no node, in time.
func (ge *groupEvents) tellTimedOut(c *model.Claim, why plan.Reason) {
	if c.NodeGroup() == "" || why.Code != plan.LaunchTimeout && why.Code != plan.RegistrationTimeout {
		return
	}
	ge.tellStatus(true, "ScaleUpTimedOut", fmt.Sprintf("Scale-up of group %s timed out: no node registered within %s", c.NodeGroup(), plan.DetailOf[plan.OfTimeout](why).Within))
	if c.ProviderID != "" {
		ge.tellStatus(false, "DeleteUnregistered", fmt.Sprintf("Terminating instance %s of group %s: no node registered", c.ProviderID, c.NodeGroup()))
	}
}

// groupOfPurchase is the node group that a NodeClaim's node is to come from, the cheapest where several may give it;
// empty: none.
func groupOfPurchase(a plan.CreateClaim) string {
	wanted := a.Requirements.Get(model.LabelNodeGroup)
	if wanted != nil && !wanted.Complement && len(wanted.Values) == 1 {
		return wanted.Values[0]
	}
	best := model.Offering{}
	for _, t := range a.Types {
		for _, o := range t.Offerings {
			group := o.Labels[model.LabelNodeGroup]
			if t.Name != a.Type || group == "" || !o.Available || o.Zone != a.Zone || o.CapacityType != a.CapacityType || wanted != nil && !wanted.Matches(group, true) {
				continue
			}
			if best.Labels == nil || cmp.Or(cmp.Compare(o.PriceMicro, best.PriceMicro), strings.Compare(group, best.Labels[model.LabelNodeGroup])) < 0 {
				best = o
			}
		}
	}
	return best.Labels[model.LabelNodeGroup]
}

// tellTriggered tells the pods that a NodeClaim is for which group grows for them.
func (ge *groupEvents) tellTriggered(a plan.CreateClaim, growth map[string]*groupGrowth) {
	g := growth[groupOfPurchase(a)]
	if g == nil || a.Why.Code != plan.Demand {
		return
	}
	for _, p := range a.Pods {
		if !p.Expected && !p.IsVirtual() && !p.Placeholder {
			ge.events.Event("Pod", p.Namespace, p.Name, p.UID, false, "TriggeredScaleUp", fmt.Sprintf("pod triggered scale-up: [{%s}]", g))
		}
	}
}

// tellNotTriggered tells a pod that no group grows for it, and why.
func (ge *groupEvents) tellNotTriggered(d plan.PodDecision) {
	if !ge.drivesGroups() {
		return
	}
	ge.tellTotalNodes(d.Reasons)
	text := "pod didn't trigger scale-up: "
	if counts := ge.countCauses(d.Reasons); counts != "" {
		text += counts + ". "
	}
	ge.events.Event("Pod", d.Pod.Namespace, d.Pod.Name, d.Pod.UID, false, "NotTriggerScaleUp", text+report.Refusal(d.Reasons))
}

// tellTotalNodes tells those who watch the status ConfigMap, once in a step, that the limit on all nodes of the cluster
// keeps a node from being launched, where the reasons say so.
func (ge *groupEvents) tellTotalNodes(reasons []plan.Reason) {
	i := slices.IndexFunc(reasons, func(r plan.Reason) bool {
		short := plan.DetailOf[plan.OfSharedLimit](r)
		return short.Limit == model.ClusterLimits && short.Resource == "nodes"
	})
	if i < 0 || ge.toldTotalNodes {
		return
	}
	ge.toldTotalNodes = true
	ge.tellStatus(true, "MaxNodesTotalReached", fmt.Sprint("Max total nodes in cluster reached: ", plan.DetailOf[plan.OfSharedLimit](reasons[i]).Most))
}

// countCauses says how many node groups are of no use to a pod for which cause, the most frequent first: "2 Insufficient
// cpu, 1 max node group size reached". It is empty where reasons name no pool of node groups.
func (ge *groupEvents) countCauses(reasons []plan.Reason) string {
	count := map[string]int{}
	told := map[string]bool{} // by pool: its nearest reason is first
	for _, r := range reasons {
		if told[r.Pool] {
			continue
		}
		told[r.Pool] = true
		if n := ge.countGroups(r.Pool); n > 0 {
			count[groupCause(r)] += n
		}
	}
	causes := make([]string, 0, len(count))
	for cause := range count {
		causes = append(causes, cause)
	}
	slices.SortFunc(causes, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b)) })
	for i, cause := range causes {
		causes[i] = fmt.Sprintf("%d %s", count[cause], cause)
	}
	return strings.Join(causes, ", ")
}

// groupCause is why a node group is of no use to a pod, in the words of kube-scheduler's filters and of Cluster
// Autoscaler, which scripts look for.
func groupCause(r plan.Reason) string {
	switch r.Code {
	case plan.Resource, plan.CameShort, plan.ShortAgain:
		return "Insufficient " + cmp.Or(string(plan.DetailOf[plan.OfSize](r).Resource), "resources")
	case plan.Taint:
		return "node(s) had untolerated taint"
	case plan.Requirement, plan.NoInstanceType, plan.NodeName:
		return "node(s) didn't match Pod's node affinity/selector"
	case plan.TopologySpread:
		return "node(s) didn't match pod topology spread constraints"
	case plan.PodAffinity:
		return "node(s) didn't match pod affinity rules"
	case plan.PodAntiAffinity:
		return "node(s) didn't match pod anti-affinity rules"
	case plan.HostPortConflict:
		return "node(s) didn't have free ports for the requested pod ports"
	case plan.VolumeTopology:
		return "node(s) had volume node affinity conflict"
	case plan.VolumeClaim:
		return string(plan.DetailOf[plan.OfVolumeClaim](r).Said)
	case plan.VolumeStorage:
		return "node(s) did not have enough free storage"
	case plan.VolumeLimit:
		return "node(s) exceed max volume count"
	case plan.GroupMaximum:
		return "max node group size reached"
	case plan.OutOfCapacity, plan.Offering:
		return "in backoff after failed scale-up"
	case plan.ZonalShift:
		return "zone is shifted away from"
	case plan.PoolNotReady:
		return "not ready for scale-up"
	case plan.Limit:
		return "max limit reached"
	case plan.SharedLimit:
		short := plan.DetailOf[plan.OfSharedLimit](r).Resource
		if short == "nodes" {
			return "max total nodes in cluster reached"
		}
		return "max cluster " + cmp.Or(string(short), "resources") + " limit reached"
	}
	return string(r.Code)
}

// tellScaleDown tells a node, and those who watch the status ConfigMap, that it goes for good.
func (ge *groupEvents) tellScaleDown(c *model.Claim, why plan.Reason) {
	ge.tellTimedOut(c, why)
	if reason := groupstatus.ScaleDownReason(why.Code); reason != "" && c.NodeGroup() != "" && c.NodeName != "" {
		event := "ScaleDown"
		if why.Code == plan.Empty {
			event = "ScaleDownEmpty"
		}
		ge.tellStatus(false, event, fmt.Sprintf("Scale-down: removing node %s from group %s, since it is %s", c.NodeName, c.NodeGroup(), reason))
		ge.events.Event("Node", "", c.NodeName, "", false, "ScaleDown", fmt.Sprintf("Scale-down: removing node %s from group %s, since it is %s", c.NodeName, c.NodeGroup(), reason))
	}
}

// tellScaleDownFailed tells a node that it stays, though it was to go.
func (ge *groupEvents) tellScaleDownFailed(c *model.Claim, cause plan.Code, why string) {
	if groupstatus.ScaleDownReason(cause) != "" && c.NodeGroup() != "" && c.NodeName != "" {
		ge.events.Event("Node", "", c.NodeName, "", true, "ScaleDownFailed", fmt.Sprintf("Scale-down of node %s was cancelled: %s", c.NodeName, why))
	}
}

// tellEvicted tells a pod that it was evicted because its node goes.
func (ge *groupEvents) tellEvicted(c *model.Claim, cause plan.Code, a plan.Evict) {
	if groupstatus.ScaleDownReason(cause) != "" && c.NodeGroup() != "" {
		ge.events.Event("Pod", a.Namespace, a.Pod, a.UID, false, "ScaleDown", fmt.Sprintf("Evicted: node %s of group %s is scaled down", a.Node, c.NodeGroup()))
	}
}

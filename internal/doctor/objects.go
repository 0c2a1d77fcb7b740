// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Codes of findings about single objects, and about missing information.
const (
	NodeNotReady   Code = "NodeNotReady"
	NodeCordoned   Code = "NodeCordoned"
	NodeEmpty      Code = "NodeEmpty"      // it can be removed, and runs only DaemonSet and static pods; Have: which of them
	ClaimStuck     Code = "ClaimStuck"     // a NodeClaim has had no node for a long time; Have: its last condition
	DeletionStuck  Code = "DeletionStuck"  // a node has been draining for a long time; Pods: the pods that must not be evicted
	NoRequests     Code = "NoRequests"     // Key: the resource that the pods do not request
	SingleReplica  Code = "SingleReplica"  // rescheduling its only pod interrupts the workload
	PriceUnknown   Code = "PriceUnknown"   // nodes whose instance type has no price; Have: the instance type
	TwoAutoscalers Code = "TwoAutoscalers" // several autoscalers are running
	MissingRights  Code = "MissingRights"  // a kind could not be read
	WriteDenied    Code = "WriteDenied"    // the API server rejects writes by Dovetail; Key: number of objects, Have: the rejected write and the reason
)

// Durations after which a state is a finding.
const (
	bootLimit  = 15 * time.Minute
	drainLimit = 30 * time.Minute
	emptyLimit = 10 * time.Minute
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// findNodes finds nodes that are paid for but cannot run pods.
func (x *exam) findNodes() (out []Finding) {
	for _, n := range x.Snapshot.Nodes {
		if x.isLeaving(n) {
			continue
		}
		f := Finding{Severity: Broken, Subject: "node/" + n.Name, Nodes: []string{n.Name}, HeldMicro: x.prices[n]}
		switch {
		case !n.Ready && x.Now.Sub(n.ReadySince) > bootLimit && x.Now.Sub(n.Created) > bootLimit:
			f.Code, f.Key, f.Have = NodeNotReady, "status.conditions[Ready]", firstOf(n.Conditions["Ready"].Message, n.Conditions["Ready"].Reason, "not True")
			f.Changes = []plan.Change{x.removal(n)}
		case isCordoned(n) && !(x.isIdle(n) && !x.isWanted(n)): // otherwise it is found as an empty node
			f.Code, f.Severity, f.Key, f.Have = NodeCordoned, Costly, "spec.unschedulable", "true"
			f.Changes = []plan.Change{{Object: f.Subject, Field: "spec.unschedulable", Op: plan.Set, Value: "false"}}
			if n.HasTaint(outOfService) {
				f.Have = outOfService
				f.Changes = append(f.Changes, plan.Change{Object: f.Subject, Field: "spec.taints[" + outOfService + "]", Op: plan.Remove})
			}
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// isLeaving reports whether an autoscaler is already removing a node.
func (x *exam) isLeaving(n *model.Node) bool {
	return !x.deletedAt(n).IsZero() || slices.ContainsFunc(n.Taints, func(t model.Taint) bool {
		return t.Key == model.TaintDisrupted || t.Key == "ToBeDeletedByClusterAutoscaler"
	})
}

// removal returns the change that removes a node: the deletion of its NodeClaim, or of the Node if it has none.
func (x *exam) removal(n *model.Node) plan.Change {
	if c := x.claims[n.Name]; c != nil {
		return plan.Change{Object: "nodeclaim/" + c.Name, Op: plan.Remove}
	}
	return plan.Change{Object: "node/" + n.Name, Op: plan.Remove}
}

// findEmptyNodes finds nodes without workload pods that can be removed.
func (x *exam) findEmptyNodes() (out []Finding) {
	for _, n := range x.Snapshot.Nodes {
		price := x.prices[n]
		if !x.isIdle(n) || isCordoned(n) && x.isWanted(n) {
			continue
		}
		out = append(out, Finding{Code: NodeEmpty, Severity: Costly, Subject: "node/" + n.Name, Have: ownPods(n), Nodes: []string{n.Name}, HeldMicro: price, SavingMicro: price, Priced: true,
			Changes: []plan.Change{x.removal(n)}})
	}
	return out
}

// isIdle reports whether a node is paid for, has had no workload pods for a while, and has no obstacle to its removal.
func (x *exam) isIdle(n *model.Node) bool {
	_, known := x.prices[n]
	quiet := x.Now.Sub(n.Created) > emptyLimit && x.Now.Sub(n.LastPodEvent) > emptyLimit
	return known && quiet && !x.isLeaving(n) && len(x.heldBy[n]) == 0 && !disrupt.HasWorkloadPods(n)
}

// Taints that users remove before a node runs pods again.
const (
	unschedulable = "node.kubernetes.io/unschedulable"
	outOfService  = "node.kubernetes.io/out-of-service"
)

func isCordoned(n *model.Node) bool { return n.HasTaint(unschedulable) }

// isWanted reports whether a node has capacity for a pending pod that tolerates its taints, except those that users
// remove.
func (x *exam) isWanted(n *model.Node) bool {
	taints := slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t.Key == unschedulable || t.Key == outOfService })
	return slices.ContainsFunc(x.Snapshot.Pending, func(p *model.Pod) bool {
		return n.Used.Add(p.Class.Requests).Fits(n.Allocatable) && model.Untolerated(taints, p.Class.Tolerations) == nil
	})
}

// ownPods returns the kinds of pods on a node without workload pods: "DaemonSet", "static", both joined with "and", or
// an empty string.
func ownPods(n *model.Node) string {
	daemons, static := false, false
	for _, p := range n.Pods {
		if !p.Terminal {
			daemons, static = daemons || !p.Mirror, static || p.Mirror
		}
	}
	switch {
	case daemons && static:
		return "DaemonSet and static"
	case daemons:
		return "DaemonSet"
	case static:
		return "static"
	}
	return ""
}

// findClaims finds NodeClaims that have waited a long time for their node.
func (x *exam) findClaims() (out []Finding) {
	for _, c := range x.Snapshot.Claims {
		if c.NodeName != "" || x.hasNode[c.Name] || !c.Deleting.IsZero() || x.Now.Sub(c.Created) <= bootLimit {
			continue
		}
		f := Finding{Code: ClaimStuck, Severity: Broken, Subject: "nodeclaim/" + c.Name, Changes: []plan.Change{{Object: "nodeclaim/" + c.Name, Op: plan.Remove}}}
		for _, condition := range []string{"Launched", "Registered"} {
			if cond, ok := c.Conditions[condition]; !ok || !cond.True() {
				f.Key, f.Have = condition, firstOf(cond.Message, cond.Reason, "not yet")
				break
			}
		}
		out = append(out, f)
	}
	return out
}

// findStuckDeletions finds nodes whose deletion started a long time ago, and the pods that delay it. A permanent
// obstacle is a separate finding.
func (x *exam) findStuckDeletions() (out []Finding) {
	guard := disrupt.NewEligibility(x.Snapshot.PDBs, x.Now)
	for _, n := range x.Snapshot.Nodes {
		since := x.deletedAt(n)
		if since.IsZero() || x.Now.Sub(since) <= drainLimit || len(x.heldBy[n]) > 0 {
			continue
		}
		f := Finding{Code: DeletionStuck, Severity: Broken, Subject: "node/" + n.Name, Key: "metadata.deletionTimestamp", Have: since.UTC().Format(time.RFC3339),
			Nodes: []string{n.Name}, HeldMicro: x.prices[n]}
		for _, p := range n.Pods {
			if !p.Terminal && len(guard.PodBlockers(x.poolOf(n), p, plan.Drifted)) > 0 {
				f.Pods = append(f.Pods, p.Key())
				f.Changes = append(f.Changes, plan.Change{Object: "pod/" + p.Key(), Op: plan.Remove})
			}
		}
		if len(f.Changes) == 0 {
			f.Changes = []plan.Change{{Object: "node/" + n.Name, Field: "metadata.finalizers", Op: plan.Remove}}
		}
		out = append(out, f)
	}
	return out
}

// requested maps the names of the resources that every workload should request to their dimensions.
var requested = map[string]model.Dim{"cpu": model.CPU, "memory": model.Memory}

// current returns the pods of a workload that a rollout in progress does not remove.
func (x *exam) current(w *workload) []*model.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), x.Snapshot.IsSuperseded)
}

// findNoRequests finds workloads that request no CPU or no memory. Their use of nodes cannot be planned.
func (x *exam) findNoRequests() (out []Finding) {
	for _, w := range x.list {
		pods := x.current(w)
		if len(pods) == 0 {
			continue
		}
		c := pods[0].Class
		var missing []string
		var changes []plan.Change
		for _, r := range []struct{ name, value string }{{"cpu", "100m"}, {"memory", "128Mi"}} {
			if c.Requests.At(requested[r.name]) == 0 {
				missing = append(missing, r.name)
				changes = append(changes, templateChange(pods[0], "spec.containers[*].resources.requests."+r.name, plan.Set, r.value)...)
			}
		}
		if len(missing) == 0 {
			continue
		}
		f := Finding{Code: NoRequests, Severity: Risky, Subject: w.subject, Key: strings.Join(missing, " and "), Changes: changes}
		for _, p := range pods {
			if !slices.ContainsFunc(missing, func(name string) bool { return p.Class.Requests.At(requested[name]) > 0 }) {
				f.Pods = append(f.Pods, p.Key())
			}
		}
		out = append(out, f)
	}
	return out
}

// findSingleReplicas finds workloads with one pod, except Jobs.
func (x *exam) findSingleReplicas() (out []Finding) {
	for _, w := range x.list {
		kind, _, _ := strings.Cut(w.subject, "/")
		if len(w.pods) != 1 || !slices.Contains([]string{"deployment", "replicaset", "statefulset"}, kind) || w.pods[0].Surge != "" {
			continue
		}
		f := Finding{Code: SingleReplica, Severity: Risky, Subject: w.subject, Key: "spec.replicas", Have: "1", Pods: []string{w.pods[0].Key()},
			Changes: []plan.Change{{Object: w.subject, Field: "spec.replicas", Op: plan.Set, Value: "2"}}}
		if claim := soleClaim(w.pods[0], kind); claim != "" {
			f.Key, f.Have, f.Changes = "spec.template.spec.volumes", "persistentvolumeclaim/"+claim, nil
		}
		out = append(out, f)
	}
	return out
}

// soleClaim returns the namespace/name of a PersistentVolumeClaim that all pods of a workload share and that a pod on
// another node could not use at the same time, or an empty string if there is none. Claims that are created for each
// pod, from a template of a StatefulSet or for an ephemeral volume, are not shared.
func soleClaim(p *model.Pod, kind string) string {
	for i := range p.Class.Volumes {
		v := &p.Class.Volumes[i]
		_, name, named := strings.Cut(v.Claim, "/")
		ownClaim := strings.HasPrefix(name, p.Name+"-") || kind == "statefulset" && strings.HasSuffix(name, "-"+p.Name)
		if named && (v.Exclusive || v.OneNode) && !ownClaim {
			return v.Claim
		}
	}
	return ""
}

// findUnpriced finds instance types without a price, if the nodes are of types that a cloud sells.
func (x *exam) findUnpriced() (out []Finding) {
	nodes := map[string][]string{}
	for _, n := range x.Snapshot.Nodes {
		if t := n.Labels[model.LabelInstanceType]; t != "" {
			if _, known := x.prices[n]; !known {
				nodes[t] = append(nodes[t], n.Name)
			}
		}
	}
	types := map[string]bool{}
	for t := range nodes {
		types[t] = true
	}
	for _, t := range sorted(types) {
		out = append(out, Finding{Code: PriceUnknown, Severity: Risky, Subject: "instancetype/" + t, Have: t, Nodes: nodes[t],
			Changes: []plan.Change{{Object: "catalog", Op: plan.Add, Value: t}}})
	}
	return out
}

// findAutoscalers finds whether several autoscalers are running. Users must decide which of them to remove. The finding
// assumes that Dovetail stays, or else the first by name.
func (x *exam) findAutoscalers() (out []Finding) {
	list := slices.Clone(x.Autoscalers)
	slices.SortStableFunc(list, func(a, b Autoscaler) int {
		if (a.Name == "Dovetail") != (b.Name == "Dovetail") {
			if a.Name == "Dovetail" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i, a := range list {
		if i > 0 && a.Name != list[0].Name {
			out = append(out, Finding{Code: TwoAutoscalers, Severity: Risky, Subject: "autoscaler/" + a.Name, Key: a.Lease, Have: list[0].Name,
				Changes: []plan.Change{{Object: "autoscaler/" + a.Name, Field: "spec.replicas", Op: plan.Set, Value: "0"}}})
		}
	}
	return out
}

// findDenied finds kinds that could not be read.
func (x *exam) findDenied() (out []Finding) {
	for _, d := range x.Denied {
		name := d.Resource
		if d.Group != "" {
			name += "." + d.Group
		}
		out = append(out, Finding{Code: MissingRights, Severity: Risky, Subject: "resource/" + name, Key: "list", Have: d.Why,
			Changes: []plan.Change{{Object: "clusterrole/dovetail-doctor", Field: "rules", Op: plan.Add, Value: "list " + name}}})
	}
	return out
}

// deniedRecent is how long a rejected write counts. A write that is always rejected is repeated at least every ten
// minutes.
const deniedRecent = 15 * time.Minute

// findDeniedWrites finds writes by Dovetail that the API server rejects, because of admission or a missing permission,
// and has not accepted since. It returns one finding for all objects of a kind with the same message. The last message
// about a write to an object counts.
func (x *exam) findDeniedWrites() (out []Finding) {
	type write struct{ subject, what string }
	accepted, last := map[write]time.Time{}, map[write]Write{}
	for _, w := range x.Writes {
		if key := (write{w.Subject, w.Write}); w.Refusal == "" {
			accepted[key] = model.LaterOf(accepted[key], w.At)
		} else if w.At.After(last[key].At) {
			last[key] = w
		}
	}
	type cause struct{ kind, said string }
	type objects struct {
		subjects []string
		others   int // other objects to which the event of one object refers
	}
	by := map[cause]objects{}
	for key, w := range last {
		if x.Now.Sub(w.At) > deniedRecent || accepted[key].After(w.At) {
			continue
		}
		kind, _, _ := strings.Cut(w.Subject, "/")
		of := cause{kind, plan.WriteReport{Write: w.Write, Refusal: w.Refusal}.Text()}
		by[of] = objects{append(by[of].subjects, w.Subject), max(w.Others, by[of].others)}
	}
	for of, objects := range by {
		count := max(len(objects.subjects), 1+objects.others)
		f := Finding{Code: WriteDenied, Severity: Broken, Key: strconv.Itoa(count), Have: of.said, Changes: []plan.Change{{Object: "writes/" + of.kind, Op: plan.Set, Value: of.said}}}
		slices.Sort(objects.subjects)
		for _, subject := range objects.subjects {
			name := strings.TrimPrefix(subject, of.kind+"/")
			switch f.Subject = firstOf(f.Subject, subject); of.kind {
			case "node":
				f.Nodes = append(f.Nodes, name)
			case "pod":
				f.Pods = append(f.Pods, name)
			}
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Subject+a.Have, b.Subject+b.Have) })
	return out
}

// limitNamed returns the limit with the given name, or nil if it does not exist.
func (x *exam) limitNamed(name string) *model.CapacityLimit {
	i := slices.IndexFunc(x.Snapshot.Limits, func(l *model.CapacityLimit) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return x.Snapshot.Limits[i]
}

// raiseQuota returns the change that sets a CapacityQuota to the resource amount of its nodes if all pending pods get a
// node.
func (x *exam) raiseQuota(l *model.CapacityLimit) []plan.Change {
	decided := func(by *model.CapacityLimit) decide.Output {
		s := *x.Snapshot
		replaceLimit(l.Name, by)(&s)
		return decide.WhatIf(&s, x.Now, x.Policy)
	}
	use := x.useOf(l, nil)
	if d := decided(nil); d.Result != nil {
		use.addNew(x, l, d.Result.New)
	}
	return x.raiseUntil(l, use, func(raised *model.CapacityLimit) bool {
		d := decided(raised)
		return !slices.ContainsFunc(d.Pods, func(p plan.PodDecision) bool {
			return p.Outcome == plan.Refused && len(p.Reasons) > 0 && plan.DetailOf[plan.OfSharedLimit](p.Reasons[0]).Limit == l.Name
		})
	})
}

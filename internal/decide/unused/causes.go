// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"cmp"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/limits"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Launch is an unused launch, as it is counted.
type Launch struct {
	Claim, Group string
	Pool         *model.NodePool
	Owner        string      // whom it was for, for people
	Pod          *model.Pod  // one of the pods that it was for; nil: it was for no pod, or for a CapacityBuffer
	Cause        plan.Reason // the likeliest
	Why          plan.Reason // what pods are told
	Micro        int64       // what it has cost so far, micro-dollars
	Times        int         // waves of unused launches there for these pods, with this one
	Until        time.Time   // nothing is launched there for these pods until then; zero: other places are tried first
}

// Cost is what an unused launch has cost beyond what was told of it: its node has stood until now.
type Cost struct {
	Pool  string
	Micro int64 // micro-dollars
}

// describe tells of an unused launch that has just been counted.
func (ul *Launches) describe(x Ended, who beneficiary) Launch {
	c := ul.mem.counts[launchSite{who.template, x.Pool, x.Group}]
	v := Launch{Claim: x.Claim, Group: x.Group, Cause: x.Cause, Micro: CostOf(x.Micro, x.Created, x.Charged), Times: c.Times, Owner: who.name}
	if who.pod != nil && !who.pod.IsVirtual() {
		v.Pod = who.pod
	}
	if c.Until.After(ul.Now) {
		v.Until = c.Until
	}
	v.Why = ul.reason(c, v.Until)
	for _, q := range ul.Snapshot.Pools {
		if q.UID == x.Pool {
			v.Pool, v.Why.Pool = q, q.Name
		}
	}
	return v
}

// ownerName names whose pod it is: namespace and name of its Deployment or controller, or its own.
func ownerName(p *model.Pod) string {
	return p.Namespace + "/" + cmp.Or(p.Deployment, p.Owner.Name, p.Name)
}

// ConditionType is the condition of a NodePool that is True while launches in it have served no pod.
const ConditionType = "UnusedLaunches"

// Condition is what a pool's status should say of unused launches; an empty one: nothing, what it says stays.
func (ul *Launches) Condition(p *model.NodePool) model.Condition {
	launches, micro := 0, int64(0)
	var last Count
	for _, k := range ul.sortedSites() {
		c := ul.mem.counts[k]
		if k.template == "" || k.pool != p.UID {
			continue
		}
		launches, micro = launches+c.Launches, micro+c.Micro
		if last.At.IsZero() || c.At.After(last.At) {
			last = c
		}
	}
	if launches == 0 {
		if p.Conditions[ConditionType].True() {
			return model.Condition{Status: "False", Reason: "PodsRan", Message: "pods run on the nodes that were launched for them"}
		}
		return model.Condition{}
	}
	served := " launches served no pod"
	if launches == 1 {
		served = " launch served no pod"
	}
	text := strconv.Itoa(launches) + served + " (cost $" + model.FormatMicro(micro) + "), the last for " + last.Owner
	if words := last.Cause.Summary(); words != "" {
		text += ": " + words
	}
	return model.Condition{Status: "True", Reason: string(last.Cause.Code), Message: text}
}

// causeOf is the likeliest cause why no pod has come to a launch's node, as far as claim and node tell.
func (ul *Launches) causeOf(c *model.Claim, n *model.Node) plan.Reason {
	timeouts := ul.in.Lifecycle.WithTimeoutsOf(ul.Pool(c.Pool))
	age := ul.Now.Sub(c.Created)
	switch {
	case !c.Is(lifecycle.Initialized) && lifecycle.IsExpired(c, ul.Now):
		return plan.Reason{Code: plan.Expired, Detail: plan.OfExpired{After: c.ExpireAfter}}
	case ul.Interruptions[c.Name] != nil:
		notice, _ := cluster.ReadNotice(c)
		return plan.Reason{Code: plan.InstanceGone, Detail: plan.OfSaid{Said: plan.Words(notice.Kind)}}
	case c.ProviderID == "" && age >= timeouts.LaunchTimeout:
		said := plan.Words(cmp.Or(ul.Snapshot.Failures[c.UID].Message, c.Conditions[lifecycle.Launched].Message))
		return plan.Reason{Code: plan.LaunchTimeout, Detail: plan.OfTimeout{Within: timeouts.LaunchTimeout, Said: said}}
	case c.ProviderID == "" && ul.Snapshot.Failures[c.UID].Message != "":
		return plan.Reason{Code: plan.LaunchTimeout, Detail: plan.OfTimeout{Said: plan.Words(ul.Snapshot.Failures[c.UID].Message)}}
	case !c.Is(lifecycle.Registered) && age >= timeouts.RegistrationTimeout:
		return plan.Reason{Code: plan.RegistrationTimeout, Detail: plan.OfTimeout{Within: timeouts.RegistrationTimeout}}
	case c.Is(lifecycle.Registered) && c.Deleting.IsZero() && (n == nil || !n.Deleting.IsZero()):
		return plan.Reason{Code: plan.NodeGone, Subject: plan.ObjectOf("node", c.NodeName)}
	case n != nil && c.Deleting.IsZero() && !c.Is(lifecycle.Initialized):
		return plan.Reason{Code: plan.Initializing, Detail: plan.OfInitializing{Said: plan.Words(c.Conditions[lifecycle.Initialized].Message)}}
	case n != nil && c.Deleting.IsZero():
		return plan.Reason{Code: plan.LandingTimeout}
	case c.ProviderID != "" && !ul.Snapshot.InstancesAt.IsZero() && len(ul.instancesOf(c)) == 0:
		return plan.Reason{Code: plan.InstanceGone, Subject: plan.Object(c.ProviderID)}
	}
	return plan.Reason{Code: plan.Deleted, Subject: plan.ObjectOf("nodeclaim", c.Name)}
}

// instancesOf returns a claim's instances in the cloud's list that run.
func (ul *Launches) instancesOf(c *model.Claim) (out []*model.Instance) {
	for _, i := range ul.Snapshot.Instances {
		if i.ProviderID == c.ProviderID && !i.Gone {
			out = append(out, i)
		}
	}
	return out
}

// causeFor is the likeliest cause for a pod: if the node stands, what keeps this pod away from it.
func (ul *Launches) causeFor(x Ended, p *model.Pod, whyNotBound plan.Reason) plan.Reason {
	i := ul.FindNode(x.Node)
	if !x.Usable || i < 0 {
		return x.Cause
	}
	n := ul.Snapshot.Nodes[i]
	if t := foreignTaint(n, p); t != nil {
		return plan.Reason{Code: plan.Taint, Detail: plan.OfTaint{Node: n.Name, Key: t.Key, Value: t.Value, Effect: t.Effect}}
	}
	if whyNotBound.Code != "" {
		return whyNotBound
	}
	if p.Refusal != "" {
		return plan.Reason{Code: plan.Mismatch, Detail: plan.OfMismatch{Node: n.Name, Said: plan.Words(p.Refusal)}}
	}
	return x.Cause
}

// foreignTaint returns the taint of a node that keeps a pod away, reservations aside; nil: none does.
func foreignTaint(n *model.Node, p *model.Pod) *model.Taint {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved {
			continue
		}
		if u := model.Untolerated([]model.Taint{t}, p.Class.Tolerations); u != nil {
			return u
		}
	}
	return nil
}

// hasLostTaint reports whether the taint that a count was made for has been taken off the node that it was on.
func (ul *Launches) hasLostTaint(x Count) bool {
	if x.Cause.Code != plan.Taint {
		return false
	}
	i := ul.FindNode(x.Node)
	return i >= 0 && ul.Snapshot.Nodes[i].Deleting.IsZero() && ul.Snapshot.Nodes[i].Ready && !ul.Snapshot.Nodes[i].HasTaint(plan.DetailOf[plan.OfTaint](x.Cause).Key)
}

// priceOf is what a claim's node costs, micro-dollars an hour; 0 where that is not known.
func (ul *Launches) priceOf(c *model.Claim) int64 {
	micro, _ := model.ParseDollars(c.Annotations[model.AnnotationLaunchPrice])
	if micro == 0 {
		micro = ul.claimPrice(c)
	}
	return micro
}

// claimPrice is what the node of a claim costs by the catalogue of its pool; 0 where that is not known.
func (ul *Launches) claimPrice(c *model.Claim) int64 {
	return limits.NodePrice(ul.Snapshot.Pools, model.MergeLabels(c.Labels, model.Labels{model.LabelNodePool: c.Pool}))
}

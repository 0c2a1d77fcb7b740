// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/limits"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Ended is a launch that has ended without the pods of one of its slots: it holds none any more, and none of them has been on
// its node. It is kept as JSON.
type Ended struct {
	Claim, UID  string
	Pool, Group string // the pool by uid
	Basis       string // of the pool
	Class       string `json:",omitempty"` // of the slot, with Owner
	Owner       string `json:",omitempty"`
	Created     time.Time
	Ended       time.Time
	Replaces    bool   `json:",omitempty"` // it was launched for the pods of nodes that a disruption command removes
	External    bool   `json:",omitempty"` // neither its pods nor its NodePool ended it
	Usable      bool   // the node was initialized
	Stands      bool   // and is there
	Node        string // empty: there was none
	Cause       plan.Reason
	Micro       int64     // micro-dollars an hour that it costs
	Counted     bool      // as unused
	Charged     time.Time // what it has cost until then is told; zero: nothing is, or it is told with another slot of the launch
}

// key returns the kind of the slot whose pods the launch was made for.
func (x Ended) key() cluster.SlotKey { return cluster.SlotKey{Class: x.Class, Owner: x.Owner} }

// endedLaunches are launches that have ended without the pods of one of their slots, by claim uid and slot. What a copy of it
// holds does not change when it is written to.
type endedLaunches struct {
	list    []Ended
	changes int // counted
}

// add adds launches.
func (es *endedLaunches) add(ended []Ended) {
	if len(ended) == 0 {
		return
	}
	slices.SortFunc(ended, func(a, b Ended) int {
		return cmp.Or(strings.Compare(a.UID, b.UID), strings.Compare(a.Class, b.Class), strings.Compare(a.Owner, b.Owner))
	})
	es.list = append(slices.Clip(es.list), ended...)
	es.changes++
}

// set sets the launch at a place of the list.
func (es *endedLaunches) set(at int, x Ended) {
	es.list = slices.Clone(es.list)
	es.list[at] = x
	es.changes++
}

// drop forgets the launches that something is true of.
func (es *endedLaunches) drop(is func(Ended) bool) {
	if slices.ContainsFunc(es.list, is) {
		es.list = slices.DeleteFunc(slices.Clone(es.list), is)
		es.changes++
	}
}

// In is what unused launches are found from, besides the Snapshot.
type In struct {
	Lifecycle lifecycle.Policy
	IsForeign func(*model.Claim) bool // reports whether a claim is another provider's, and left alone

	Reservations map[string]*cluster.Reservation // by claim name: what claims hold for pods, with these pods
	Commands     *cluster.Commands
	Held         map[string][]cluster.SlotKey // by claim name: the CapacityBuffers, by KeyOfBuffer, whose capacity was held on its node after the last step
	Leaving      []*model.Pod                 // pods on nodes that are drained, which will have successors; by namespace and name
}

// reader tells what has become of launches, from the Snapshot and In alone.
type reader struct {
	*cluster.View
	In
}

// hasRun reports whether a pod on a node has run there, or has had the time to.
func hasRun(p *model.Pod, now time.Time) bool {
	return !p.Starting || !now.Before(p.Bound.Add(lifecycle.StartTime))
}

// endLaunch returns what is to be remembered of a launch that has ended: an entry for each of its slots that no pod has
// been on the node for.
func (rd *reader) endLaunch(c *model.Claim, served map[cluster.SlotKey]bool) (out []Ended) {
	x, ok := rd.newEnded(c)
	if !ok {
		return nil
	}
	n := rd.NodeFor(c)
	for _, s := range c.Slots {
		k := cluster.KeyOf(s)
		if served[k] || n != nil && slices.ContainsFunc(n.Pods, func(q *model.Pod) bool { return rd.SlotKeyOf(q) == k && hasRun(q, rd.Now) }) {
			continue
		}
		x.Class, x.Owner = s.Class, s.Owner
		out = append(out, x)
	}
	return out
}

// newEnded returns what is to be remembered of a launch that has ended, but for whom it was made; false: nothing. Nothing
// was launched if there was no capacity, or the node class was not ready. A zonal shift that takes the pods of a launch away says nothing of them.
func (rd *reader) newEnded(c *model.Claim) (Ended, bool) {
	p := rd.Pool(c.Pool)
	if p == nil || rd.IsForeign(c) || c.Annotations[cluster.AnnotationHost] != "" || c.Annotations[model.AnnotationBooked] != "" || c.Annotations[model.AnnotationAdopt] != "" {
		return Ended{}, false
	}
	if h := c.Annotations[model.AnnotationPoolHash]; h != "" && p.Hash != "" && h != p.Hash {
		return Ended{}, false // it was launched as something else
	}
	if f, ok := rd.Snapshot.Failures[c.UID]; ok && c.ProviderID == "" {
		switch f.Kind {
		case "InsufficientCapacity", "NodeClassNotReady", "NotReady":
			return Ended{}, false
		}
	}
	n := rd.NodeFor(c)
	if rd.isYielding(c, n) {
		return Ended{}, false // pods can still be launched for in other zones
	}
	cause := rd.causeOf(c, n)
	x := Ended{Claim: c.Name, UID: c.UID, External: isExternal(c, cause), Pool: p.UID, Basis: cluster.LaunchBasis(p), Group: c.NodeGroup(), Created: c.Created, Ended: rd.Now, Replaces: c.Annotations[cluster.AnnotationCommand] != "",
		Usable: c.Is(lifecycle.Initialized), Stands: c.Is(lifecycle.Initialized) && n != nil && n.Deleting.IsZero() && c.Deleting.IsZero() && rd.Interruptions[c.Name] == nil,
		Node: c.NodeName, Cause: cause, Micro: rd.priceOf(c)}
	if n != nil {
		x.Node = n.Name
	}
	return x, true
}

// isExternal reports whether neither the pods nor the NodePool of a launch ended it: the cloud interrupts the instance, or somebody has deleted
// the NodeClaim or the Node. Whoever creates NodeClaims is expected to keep them.
func isExternal(c *model.Claim, cause plan.Reason) bool {
	switch cause.Code {
	case plan.InstanceGone:
		n, ok := cluster.ReadNotice(c)
		return ok && !n.BlamesInstance()
	case plan.Deleted, plan.NodeGone:
		return c.Maker == "" && cluster.DisruptedBy(c) == ""
	}
	return false
}

// isYielding reports whether a claim holds nothing for its pods now because of a zonal shift.
func (rd *reader) isYielding(c *model.Claim, n *model.Node) bool {
	return rd.Snapshot.ShiftFrom(c.Labels[model.LabelZone]) != nil && lifecycle.YieldsToShift(c, n, rd.IsPromised(c))
}

// endUnmade returns what is to be remembered of a NodeClaim that the API server has refused.
func (rd *reader) endUnmade(u *model.UnmadeClaim, uid string) (out []Ended) {
	p := rd.Pool(u.Pool)
	if p == nil {
		return nil
	}
	for _, s := range u.Slots {
		out = append(out, Ended{Claim: u.Claim, UID: uid, Pool: p.UID, Basis: cluster.LaunchBasis(p), Group: u.Group, Class: s.Class, Owner: s.Owner,
			Created: u.At, Ended: rd.Now, Cause: plan.Reason{Code: plan.ClaimRefused, Detail: plan.OfSaid{Said: plan.Words(u.Message)}}})
	}
	return out
}

// endCapacity returns what is to be remembered of a launch for no pod that has ended unused.
func (rd *reader) endCapacity(c *model.Claim, keys []cluster.SlotKey) (out []Ended) {
	x, ok := rd.newEnded(c)
	for _, k := range keys {
		if ok {
			x.Class, x.Owner = k.Class, k.Owner
			out = append(out, x)
		}
	}
	return out
}

// causeOf is the likeliest cause why no pod has come to a launch's node, as far as claim and node tell.
func (rd *reader) causeOf(c *model.Claim, n *model.Node) plan.Reason {
	timeouts := rd.Lifecycle.WithTimeoutsOf(rd.Pool(c.Pool), c)
	age := rd.Now.Sub(c.Created)
	notice, isInterrupted := cluster.ReadNotice(c)
	switch {
	case !c.Is(lifecycle.Initialized) && lifecycle.IsExpired(c, rd.Now):
		return plan.Reason{Code: plan.Expired, Detail: plan.OfExpired{After: c.ExpireAfter}}
	case isInterrupted:
		return plan.Reason{Code: plan.InstanceGone, Detail: plan.OfSaid{Said: plan.Words(notice.Kind)}}
	case c.ProviderID == "" && age >= timeouts.LaunchTimeout:
		said := plan.Words(cmp.Or(rd.Snapshot.Failures[c.UID].Message, c.Conditions[lifecycle.Launched].Message))
		within := timeouts.LaunchTimeout
		if c.NodeGroup() != "" && lifecycle.HasTimedOut(c, rd.Pool(c.Pool), rd.Lifecycle, rd.Snapshot.Outages, rd.Now) {
			within = timeouts.RegistrationTimeout // the group was asked for it
		}
		return plan.Reason{Code: plan.LaunchTimeout, Detail: plan.OfTimeout{Within: within, Said: said}}
	case c.ProviderID == "" && rd.Snapshot.Failures[c.UID].Message != "":
		return plan.Reason{Code: plan.LaunchTimeout, Detail: plan.OfTimeout{Said: plan.Words(rd.Snapshot.Failures[c.UID].Message)}}
	case !c.Is(lifecycle.Registered) && lifecycle.HasTimedOut(c, rd.Pool(c.Pool), rd.Lifecycle, rd.Snapshot.Outages, rd.Now):
		return plan.Reason{Code: plan.RegistrationTimeout, Detail: plan.OfTimeout{Within: timeouts.RegistrationTimeout}}
	case c.Is(lifecycle.Registered) && c.Deleting.IsZero() && (n == nil || !n.Deleting.IsZero()):
		return plan.Reason{Code: plan.NodeGone, Subject: plan.ObjectOf("node", c.NodeName)}
	case n != nil && c.Deleting.IsZero() && !c.Is(lifecycle.Initialized):
		return plan.Reason{Code: plan.Initializing, Detail: plan.OfInitializing{Said: plan.Words(c.Conditions[lifecycle.Initialized].Message)}}
	case n != nil && c.Deleting.IsZero():
		return plan.Reason{Code: plan.LandingTimeout}
	case c.ProviderID != "" && lifecycle.IsListComplete(c, rd.Snapshot.InstancesAt, rd.Lifecycle) && len(rd.instancesOf(c)) == 0:
		return plan.Reason{Code: plan.InstanceGone, Subject: plan.Object(c.ProviderID)}
	}
	return plan.Reason{Code: plan.Deleted, Subject: plan.ObjectOf("nodeclaim", c.Name)}
}

// instancesOf returns a claim's instances in the cloud's list that run.
func (rd *reader) instancesOf(c *model.Claim) (out []*model.Instance) {
	for _, i := range rd.Snapshot.Instances {
		if i.ProviderID == c.ProviderID && !i.Gone {
			out = append(out, i)
		}
	}
	return out
}

// priceOf is what a claim's node costs, micro-dollars an hour; 0 where that is not known.
func (rd *reader) priceOf(c *model.Claim) int64 {
	micro, _ := model.ParseDollars(c.Annotations[model.AnnotationLaunchPrice])
	if micro == 0 {
		micro = rd.claimPrice(c)
	}
	return micro
}

// claimPrice is what the node of a claim costs by the catalog of its pool; 0 where that is not known.
func (rd *reader) claimPrice(c *model.Claim) int64 {
	return limits.NodePrice(rd.Snapshot.Pools, model.MergeLabels(c.Labels, model.Labels{model.LabelNodePool: c.Pool}))
}

// causeFor is the likeliest cause for a pod: if the node stands, what keeps this pod away from it.
func (rd *reader) causeFor(x Ended, p *model.Pod, whyNotBound plan.Reason) plan.Reason {
	i := rd.FindNode(x.Node)
	if !x.Usable || i < 0 {
		return x.Cause
	}
	n := rd.Snapshot.Nodes[i]
	if t := foreignTaint(n, p); t != nil {
		return plan.Reason{Code: plan.Taint, Detail: plan.OfTaint{Node: n.Name, Key: t.Key, Value: t.Value, Effect: t.Effect}}
	}
	if whyNotBound.Code != "" {
		return whyNotBound
	}
	if v, lacksDriver := p.Class.UnusableVolume(n); v != nil {
		unfit := plan.OfBindingUnfit{Filter: plan.FilterVolumes, Cause: plan.UnfitVolume, What: v.Claim}
		if lacksDriver {
			unfit = plan.OfBindingUnfit{Filter: plan.FilterVolumeLimits, Cause: plan.UnfitDriver, What: v.Driver}
		} else if v := p.Class.AwaitedVolume(n); v != nil && v.Driver != "" { // which sets the label that is missing
			unfit.Cause, unfit.What = plan.UnfitDriver, v.Driver
		}
		return plan.Reason{Code: plan.BindingUnfit, Subject: plan.ObjectOf("node", n.Name), Detail: unfit}
	}
	if p.Refusal != "" {
		return plan.Reason{Code: plan.Mismatch, Detail: plan.OfMismatch{Node: n.Name, Said: plan.Words(p.Refusal)}}
	}
	return x.Cause
}

// foreignTaint returns the taint of a node that keeps a pod away, reservations and disruption aside; nil: none does.
func foreignTaint(n *model.Node, p *model.Pod) *model.Taint {
	for _, t := range n.Taints {
		if t.Key == model.TaintReserved || t.Key == model.TaintDisrupted {
			continue
		}
		if u := model.Untolerated([]model.Taint{t}, p.Class.Tolerations); u != nil {
			return u
		}
	}
	return nil
}

// hasLostTaint reports whether the taint that a count was made for has been taken off the node that it was on.
func (rd *reader) hasLostTaint(x Count) bool {
	if x.Cause.Code != plan.Taint {
		return false
	}
	i := rd.FindNode(x.Node)
	return i >= 0 && rd.Snapshot.Nodes[i].Deleting.IsZero() && rd.Snapshot.Nodes[i].Ready && !rd.Snapshot.Nodes[i].HasTaint(plan.DetailOf[plan.OfTaint](x.Cause).Key)
}

// CostOf is what a node costs from one instant to another, micro-dollars.
func CostOf(microPerHour int64, from, to time.Time) int64 {
	if !to.After(from) {
		return 0
	}
	return int64(float64(microPerHour) * to.Sub(from).Hours())
}

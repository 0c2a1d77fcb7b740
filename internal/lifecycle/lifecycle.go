// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package lifecycle decides one NodeClaim's next step: launch, register, initialise, release its reservation, expire, give up,
// drain, terminate.
//
// It looks at one claim, its node and its pods as they are now and answers with the actions that bring it one step on, and with
// the time at which to look again. It keeps nothing between calls: a crash at any point is followed by the same next step. It
// does no I/O and reads no clock.
//
// The phases and their time limits are the reference's (karpenter, NodeClaim lifecycle): 5 minutes to launch, 15 to register,
// drain in four tiers, at least 5 seconds between the disrupted taint and the machine's end.
//
// Start reading at Next.
package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Conditions of a NodeClaim that a claim passes through, in order.
const (
	Launched     = "Launched"
	Registered   = "Registered"
	Initialized  = "Initialized"
	Drained      = "Drained"
	Detached     = "VolumesDetached"
	Terminating  = "InstanceTerminating"
	Consistent   = "ConsistentStateFound"
	Disrupted    = "DisruptionReason"
	Consolidable = "Consolidatable"
)

const (
	finalizerlessLabel    = "karpenter.sh/do-not-sync-taints"
	excludeBalancersLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	// TerminationTime on a NodeClaim is the instant at which its pods are no longer waited for.
	TerminationTime = "karpenter.sh/nodeclaim-termination-timestamp"
	trueValue       = "true"
)

// wholeSecond is how much earlier than the truth a time read from the API server may be: it keeps no fractions.
const wholeSecond = time.Second

// Policy are the time limits.
type Policy struct {
	LaunchTimeout       time.Duration // creation to a machine
	RegistrationTimeout time.Duration // creation to a node
	LandingTimeout      time.Duration // usable node to the end of its reservation
	MinDrain            time.Duration // disrupted taint to the machine's end, so that load balancers hear of it
	StuckPod            time.Duration // past its deletionTimestamp a pod is waited for this long
	ListDelay           time.Duration // how long the cloud's list may lag behind a launch
	QuickBoot           time.Duration // a new node that is not Ready yet is given this long before it is registered without
	NodeGone            time.Duration // a registered claim's node that is not there is waited for this long
	EventDedup          time.Duration // lastPodEventTime is written at most this often
	SurgeTimeout        time.Duration // a pod's successor is waited for this long; then the pod is evicted
	ExpireGrace         time.Duration // past expireAfter a usable node is left to be replaced first; then it is deleted as it is
}

// DefaultPolicy are the reference's limits, and contract 9's for landing.
func DefaultPolicy() Policy {
	return Policy{
		LaunchTimeout: 5 * time.Minute, RegistrationTimeout: 15 * time.Minute, LandingTimeout: 30 * time.Second,
		MinDrain: 5 * time.Second, StuckPod: time.Minute, ListDelay: 2 * time.Second, QuickBoot: 3 * time.Second, NodeGone: 30 * time.Second, EventDedup: 10 * time.Second, SurgeTimeout: 10 * time.Minute,
	}
}

// For are the limits of a pool's machines: a node group's may have their own for becoming nodes.
func (p Policy) For(pool *model.NodePool) Policy {
	if pool != nil && pool.Scaling != nil && pool.Scaling.Provision > 0 {
		p.LaunchTimeout, p.RegistrationTimeout = pool.Scaling.Provision, pool.Scaling.Provision
	}
	return p
}

// Input is a claim and all that its next step depends on.
type Input struct {
	Claim         *model.Claim
	Pool          *model.NodePool     // nil: standalone, or gone
	Nodes         []*model.Node       // all nodes with the claim's provider id; more than one is a fault
	Type          *model.InstanceType // what was bought, so that the node can be held against it; nil: not to be looked at
	Instances     []*model.Instance   // its machines in the last list: one, or none
	InstancesAt   time.Time           // when that list was asked for; zero: never
	Failure       *model.LaunchFailure
	NodelessSince time.Time       // since when the claim, registered, has been seen without a node; zero: for ever
	Awaited       int             // slots of its reservation that are not bound on its node yet
	Coming        bool            // some of their pods are certain to come: they run elsewhere yet, or are still being made
	Landed        time.Time       // when that was last so, or one last came
	Rolls         map[string]Roll // by uid: pods that are to go after their successors have come
	Now           time.Time
	Policy        Policy
}

// Roll is how a pod goes after its successor has come: by its Deployment's own rollout.
type Roll struct {
	Deployment *model.Deployment
	Begun      bool        // it is under way
	By         time.Time   // when its pod must be asked to go at the latest; zero: it may take as long as the policy lets it
	Refused    plan.Reason // why it can't go so though that was asked for; an empty code: it can
}

// Output is the next step.
type Output struct {
	Actions []plan.Action
	Next    time.Time // when to look again though nothing happens; zero: no need
}

func (o *Output) act(a ...plan.Action) { o.Actions = append(o.Actions, a...) }

func (o *Output) at(t time.Time) {
	if o.Next.IsZero() || t.Before(o.Next) {
		o.Next = t
	}
}

// Next decides a claim's next step.
func Next(in Input) Output {
	var out Output
	switch {
	case in.Claim.Provisional:
	case !in.Claim.Deleting.IsZero():
		end(&in, &out)
	default:
		live(&in, &out)
	}
	return out
}

// live moves a claim on from creation to a usable node.
func live(in *Input, out *Output) {
	c := in.Claim
	if !c.HasFinalizer {
		out.act(plan.UpdateClaim{Claim: c.Name, UID: c.UID, AddFinalizer: true, Why: plan.Reason{Code: plan.Launching}})
	}
	if expired(in, out) {
		return
	}
	if !c.Is(Launched) {
		launch(in, out)
		return
	}
	if gone(in, out) {
		return
	}
	if len(in.Nodes) != 1 {
		unregistered(in, out)
		return
	}
	n := in.Nodes[0]
	if !n.Deleting.IsZero() {
		out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.Deleted, Subject: "node/" + n.Name}})
		return
	}
	settle(in, n, out)
}

// IsExpired says whether a claim's expireAfter has passed; never where it has none.
func IsExpired(c *model.Claim, now time.Time) bool {
	return c.ExpireAfter >= 0 && !now.Before(c.Created.Add(c.ExpireAfter))
}

// expired deletes a claim that is past its expireAfter, and says whether it did. A claim that pods may still be moved from gently
// has Policy.ExpireGrace more.
func expired(in *Input, out *Output) bool {
	c := in.Claim
	if c.ExpireAfter < 0 {
		return false
	}
	end := c.Created.Add(c.ExpireAfter)
	if !IsExpired(c, in.Now) {
		out.at(end)
		return false
	}
	if last := end.Add(in.Policy.ExpireGrace); in.Pool != nil && c.Is(Initialized) && in.Now.Before(last) {
		out.at(last)
		return false
	}
	out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{
		Code: plan.Expired, Pool: c.Pool, Key: "expireAfter", Want: c.ExpireAfter.String(), Have: in.Now.Sub(c.Created).Round(time.Second).String()}})
	return true
}

func launch(in *Input, out *Output) {
	c := in.Claim
	if f := in.Failure; f != nil {
		switch f.Kind {
		case "InsufficientCapacity", "NodeClassNotReady", "NotFound", "NotReady":
			code := plan.InsufficientCap
			switch f.Kind {
			case "NotFound": // its machine was bought and is gone again
				code = plan.InstanceGone
			case "NodeClassNotReady", "NotReady":
				code = plan.NodeClassNotReady
			}
			out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: code, Pool: c.Pool, Have: f.Message}})
			return
		}
	}
	most := in.Policy.For(in.Pool).LaunchTimeout
	limit := c.Created.Add(most)
	if !in.Now.Before(limit) {
		why := plan.Reason{Code: plan.LaunchTimeout, Pool: c.Pool, Want: most.String()}
		if in.Failure != nil {
			why.Have = in.Failure.Message
		}
		out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: why})
		return
	}
	out.at(limit)
	if f := in.Failure; f != nil {
		have := c.Conditions[Launched]
		if have.Status != "Unknown" || have.Reason != "LaunchFailed" || have.Message != f.Message {
			out.act(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{
				Launched: {Status: "Unknown", Reason: "LaunchFailed", Message: f.Message}},
				Why: plan.Reason{Code: plan.Launching, Have: f.Message}})
		}
	}
	out.act(plan.LaunchClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.Launching, Pool: c.Pool}})
}

// gone deletes a claim whose machine the cloud does not list any more, unless its node still says it is well.
func gone(in *Input, out *Output) bool {
	c := in.Claim
	if c.ProviderID == "" || in.InstancesAt.IsZero() || !in.InstancesAt.After(c.Conditions[Launched].Since.Add(in.Policy.ListDelay+wholeSecond)) {
		return false
	}
	for _, i := range in.Instances {
		if !i.Gone {
			return false
		}
	}
	for _, n := range in.Nodes {
		if n.Ready {
			return false
		}
	}
	out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.InstanceGone, Pool: c.Pool, Subject: c.ProviderID}})
	return true
}

// unregistered waits for the node of a machine.
func unregistered(in *Input, out *Output) {
	c := in.Claim
	if c.Is(Registered) {
		if len(in.Nodes) == 0 {
			// It had one, and somebody took even its finalizer off: its pods are gone, and no kubelet makes it anew as ours. The machine
			// goes as it would have, had the node been deleted in the ordinary way. Not at once: claims and nodes are read apart, and the
			// node may only be late.
			if due := in.NodelessSince.Add(in.Policy.NodeGone); in.Now.Before(due) {
				out.at(due)
				return
			}
			out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.Deleted, Pool: c.Pool, Subject: "node/" + c.NodeName}})
		}
		return
	}
	most := in.Policy.For(in.Pool).RegistrationTimeout
	limit := c.Created.Add(most)
	if !in.Now.Before(limit) {
		out.act(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{
			Code: plan.RegistrationTimeout, Pool: c.Pool, Subject: c.ProviderID, Want: most.String()}})
		return
	}
	out.at(limit)
	want := model.Condition{Status: "Unknown", Reason: "NodeNotFound", Message: "the machine has not registered a node yet"}
	if len(in.Nodes) > 1 {
		names := make([]string, len(in.Nodes))
		for i, n := range in.Nodes {
			names[i] = n.Name
		}
		slices.Sort(names)
		want = model.Condition{Status: "False", Reason: "MultipleNodesFound", Message: "several nodes bear provider id " + c.ProviderID + ": " + strings.Join(names, ", ")}
	}
	if have := c.Conditions[Registered]; len(in.Nodes) > 1 && (have.Reason != want.Reason || have.Message != want.Message) {
		out.act(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{Registered: want},
			Why: plan.Reason{Code: plan.Registering, Have: want.Message}})
	}
}

// settle takes a claim with one node through registration and initialisation to the end of its reservation.
func settle(in *Input, n *model.Node, out *Output) {
	c := in.Claim
	ready, why := initialized(c, n)
	u := plan.UpdateNode{Node: n.Name, UID: n.UID, Labels: map[string]string{}, Annotations: map[string]string{}}
	if n.Labels[model.LabelRegistered] != trueValue {
		// One that nothing keeps pods off, as those of node groups, must be ours before it is Ready.
		if soon := n.Created.Add(in.Policy.QuickBoot); !ready && in.Now.Before(soon) && has(n.Taints, bootstrap) {
			out.at(soon) // most likely one patch will do for registration and initialisation
			return
		}
		register(in, n, &u)
		ready = ready && !slices.ContainsFunc(u.AddTaints, func(t model.Taint) bool { return has(c.StartupTaints, t) })
	}
	if ready && n.Labels[model.LabelInitialized] != trueValue {
		u.Labels[model.LabelInitialized] = trueValue
		if u.Why.Code == "" {
			u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool}
		}
	}
	release(in, n, ready, &u, out)
	if u.Why.Code != "" {
		out.act(u)
	}
	if n.Labels[model.LabelRegistered] == trueValue {
		conditions(in, n, ready, why, out)
	}
	if len(out.Actions) == 0 { // it can wait, and nothing else has to
		unreserve(in, n, out)
	}
}

// Unreserved says what a claim's labels and its node's are to say instead, where the reservation that the machine was bought from has ended and they
// don't know yet; nil: nothing.
func Unreserved(c *model.Claim, n *model.Node, i *model.Instance) model.Labels {
	if i.Unreserved == nil || i.Gone || i.ProviderID == "" || i.ProviderID != c.ProviderID || !c.Deleting.IsZero() {
		return nil
	}
	if c.Labels[model.LabelCapacityType] == model.Reserved || n.Labels[model.LabelCapacityType] == model.Reserved {
		return i.Unreserved
	}
	return nil
}

// unreserve writes into claim and node what they are once the reservation has ended: a machine that is paid for like any other.
func unreserve(in *Input, n *model.Node, out *Output) {
	c := in.Claim
	if n.Labels[model.LabelRegistered] != trueValue {
		return // it is given its claim's labels first
	}
	for _, i := range in.Instances {
		now := Unreserved(c, n, i)
		if now == nil {
			continue
		}
		why := plan.Reason{Code: plan.ReservationEnded, Pool: c.Pool, Subject: "nodeclaim/" + c.Name, Want: now[model.LabelCapacityType], Have: model.Reserved}
		differs := func(have model.Labels) map[string]string {
			change := map[string]string{}
			for k, v := range now {
				switch h, ok := have[k]; {
				case v == "" && ok: // see model.Instance
					change[k] = plan.Unset
				case v != "" && h != v:
					change[k] = v
				}
			}
			return change
		}
		if c.Labels[model.LabelCapacityType] == model.Reserved {
			out.act(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Labels: differs(c.Labels), Why: why})
		}
		if n.Labels[model.LabelCapacityType] == model.Reserved {
			out.act(plan.UpdateNode{Node: n.Name, UID: n.UID, Labels: differs(n.Labels), Why: why})
		}
		return
	}
}

// bootstrap is the taint that keeps pods off a node until it is ours.
var bootstrap = model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}

// register fills in the patch that makes a new node ours: one patch removes the bootstrap taint and writes the reservation.
func register(in *Input, n *model.Node, u *plan.UpdateNode) {
	c := in.Claim
	u.Why = plan.Reason{Code: plan.Registering, Pool: c.Pool}
	for k, v := range c.Labels {
		if h, ok := n.Labels[k]; !ok || h != v {
			u.Labels[k] = v
		}
	}
	u.Labels[model.LabelRegistered] = trueValue
	for k, v := range c.Annotations {
		if h, ok := n.Annotations[k]; (!ok || h != v) && !strings.HasPrefix(k, "dovetail.sh/") {
			u.Annotations[k] = v
		}
	}
	if n.Labels[finalizerlessLabel] != trueValue {
		for _, t := range append(slices.Clone(c.Taints), c.StartupTaints...) {
			if !has(n.Taints, t) {
				u.AddTaints = append(u.AddTaints, t)
			}
		}
	}
	if !has(n.Taints, bootstrap) && c.Labels[model.LabelNodeGroup] == "" {
		u.Why.Key, u.Why.Want = model.TaintUnregistered, bootstrap.Effect // pods may have come before their node was ours
	}
	u.AddFinalizer = !n.HasFinalizer
	u.OwnerClaim, u.OwnerUID = c.Name, c.UID
	u.RemoveTaints = append(u.RemoveTaints, bootstrap)
	if c.Reserved && in.Awaited > 0 {
		u.AddTaints = append(u.AddTaints, model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule})
	}
}

func has(ts []model.Taint, t model.Taint) bool { return slices.Contains(ts, t) }

// Ephemeral says whether a taint goes by itself once a new node is up.
func Ephemeral(t model.Taint) bool {
	switch t.Key {
	case "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", model.TaintUnregistered:
		return true
	}
	return strings.HasPrefix(t.Key, "readiness.k8s.io/")
}

// initialized says whether the node is fit for use, and what is missing.
func initialized(c *model.Claim, n *model.Node) (bool, model.Condition) {
	if n.Labels[model.LabelInitialized] == trueValue {
		return true, model.Condition{}
	}
	if !n.Ready {
		return false, model.Condition{Status: "Unknown", Reason: "NodeNotReady", Message: "node " + n.Name + " is not Ready"}
	}
	for _, t := range n.Taints {
		for _, s := range c.StartupTaints {
			if t.Key == s.Key && t.Effect == s.Effect {
				return false, model.Condition{Status: "Unknown", Reason: "StartupTaintsExist", Message: "startup taint " + t.Key + ":" + t.Effect + " is still on the node"}
			}
		}
		if Ephemeral(t) && t.Key != model.TaintUnregistered {
			return false, model.Condition{Status: "Unknown", Reason: "KnownEphemeralTaintsExist", Message: "taint " + t.Key + ":" + t.Effect + " is still on the node"}
		}
	}
	for d := model.FirstExtended; int(d) < len(c.Requests); d++ {
		if c.Requests[d] > 0 && n.Allocatable.At(d) == 0 {
			return false, model.Condition{Status: "Unknown", Reason: "ResourceNotRegistered", Message: "an extended resource that was asked for is not in the node's allocatable yet"}
		}
	}
	return true, model.Condition{}
}

// release takes the reservation off a node when its pods have landed or their time is up.
func release(in *Input, n *model.Node, ready bool, u *plan.UpdateNode, out *Output) {
	c := in.Claim
	t := model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}
	if !has(n.Taints, t) {
		return
	}
	if in.Awaited <= 0 {
		u.RemoveTaints = append(u.RemoveTaints, t)
		u.Why = plan.Reason{Code: plan.Landed, Pool: c.Pool}
		return
	}
	if !ready || !c.Is(Initialized) {
		return // the time-out starts when nothing else keeps the pods out
	}
	since := c.Conditions[Initialized].Since
	if in.Landed.After(since) {
		since = in.Landed
	}
	limit := since.Add(in.Policy.LandingTimeout)
	if in.Coming {
		return
	}
	if in.Now.Before(limit) {
		out.at(limit)
		return
	}
	u.RemoveTaints = append(u.RemoveTaints, t)
	u.Why = plan.Reason{Code: plan.LandingTimeout, Pool: c.Pool, Want: in.Policy.LandingTimeout.String()}
}

// conditions writes what has come true into the claim's status.
func conditions(in *Input, n *model.Node, ready bool, why model.Condition, out *Output) {
	c := in.Claim
	u := plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{}}
	if !c.Is(Registered) || c.NodeName != n.Name {
		u.NodeName = n.Name
		u.Conditions[Registered] = model.Condition{Status: "True", Reason: Registered}
		u.Why = plan.Reason{Code: plan.Registering, Pool: c.Pool}
	}
	switch {
	case ready && !c.Is(Initialized):
		u.Conditions[Initialized] = model.Condition{Status: "True", Reason: Initialized}
		u.Capacity, u.Allocatable = n.Capacity, n.Allocatable
		u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool}
	case !ready && !c.Is(Initialized):
		have := c.Conditions[Initialized]
		if have.Reason != why.Reason && why.Reason != "NodeNotReady" {
			u.Conditions[Initialized] = why
			u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Have: why.Message}
		}
	}
	consistent(in, n, &u)
	podEvent(in, n, &u, out)
	if len(u.Conditions) > 0 || !u.LastPodEvent.IsZero() {
		out.act(u)
	}
}

// consistent holds a node against what was bought: of what the claim asks for it must have at least nine tenths.
func consistent(in *Input, n *model.Node, u *plan.UpdateClaim) {
	c := in.Claim
	if in.Type == nil || !c.Is(Initialized) && u.Conditions[Initialized].Status != "True" {
		return
	}
	want := model.Condition{Status: "True", Reason: Consistent}
	for d := range c.Requests {
		if bought, have := in.Type.Capacity.At(model.Dim(d)), n.Capacity.At(model.Dim(d)); c.Requests[d] > 0 && have < bought/10*9 {
			want = model.Condition{Status: "False", Reason: "ConsistencyCheckFailed", Message: "node " + n.Name + " has " + model.FormatAmount(model.Dim(d), have) +
				" of " + resource(model.Dim(d)) + ", " + in.Type.Name + " should have " + model.FormatAmount(model.Dim(d), bought)}
			break
		}
	}
	if have := c.Conditions[Consistent]; have.Status == want.Status && have.Message == want.Message {
		return
	}
	u.Conditions[Consistent] = want
	if u.Why.Code == "" {
		u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Key: Consistent, Have: want.Message}
	}
}

func resource(d model.Dim) string {
	if names := model.FixedNames(); int(d) < len(names) {
		return names[d]
	}
	return "an extended resource"
}

// podEvent keeps status.lastPodEventTime, from which consolidateAfter counts, and the condition Consolidatable.
func podEvent(in *Input, n *model.Node, u *plan.UpdateClaim, out *Output) {
	c := in.Claim
	if in.Pool == nil || in.Pool.ConsolidateAfter < 0 || !c.Is(Initialized) {
		return
	}
	if n.LastPodEvent.Sub(later(c.LastPodEvent, c.Conditions[Initialized].Since)) >= in.Policy.EventDedup {
		u.LastPodEvent = n.LastPodEvent
		if u.Why.Code == "" {
			u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Key: "lastPodEventTime"}
		}
	}
	at := Quiet(c, n).Add(in.Pool.ConsolidateAfter)
	switch is := c.Is(Consolidable); {
	case is && in.Now.Before(at):
		u.Conditions[Consolidable] = model.Condition{Status: "False", Reason: "PodEvent", Message: "pods came or left within consolidateAfter"}
	case !is && !in.Now.Before(at):
		u.Conditions[Consolidable] = model.Condition{Status: "True", Reason: Consolidable}
	case !is:
		out.at(at)
		return
	default:
		return
	}
	if u.Why.Code == "" {
		u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool, Key: Consolidable}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Quiet is since when nothing has changed on a node that consolidateAfter would count.
func Quiet(c *model.Claim, n *model.Node) time.Time {
	t := c.Conditions[Initialized].Since
	for _, o := range []time.Time{c.LastPodEvent, n.LastPodEvent} {
		if o.After(t) {
			t = o
		}
	}
	return t
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// stepNode takes a claim with one node through registration and initialization to the end of its reservation.
func stepNode(in *Input, n *model.Node, out *Output) {
	c := in.Claim
	ready, why := isInitialized(in, n)
	u := plan.UpdateNode{Node: n.Name, UID: n.UID, Labels: map[string]string{}, Annotations: map[string]string{}}
	switch {
	case n.Labels[model.LabelRegistered] == trueValue:
	case !isJoining(c, n): // somebody took the label off
		u.Labels[model.LabelRegistered] = trueValue
		u.Why = plan.Reason{Code: plan.Registering, Pool: c.Pool}
	default:
		// One that nothing keeps pods off, as those of node groups, must be ours before it is Ready.
		if soon := n.Created.Add(in.Policy.QuickBoot); !ready && in.Now.Before(soon) && hasTaint(n.Taints, unregisteredTaint) {
			holdInitialization(in, n, out)
			out.lookAgainAt(soon) // most likely one patch will do for registration and initialisation
			return
		}
		registerNode(in, n, &u)
		ready = ready && !slices.ContainsFunc(u.AddTaints, func(t model.Taint) bool { return hasTaint(c.StartupTaints, t) })
	}
	if ready && n.Labels[model.LabelInitialized] != trueValue {
		u.Labels[model.LabelInitialized] = trueValue
		if u.Why.Code == "" {
			u.Why = plan.Reason{Code: plan.Initializing, Pool: c.Pool}
		}
	}
	if !ready {
		holdInitialization(in, n, out)
	}
	advanceReservation(in, n, ready, &u, out)
	clearLeftovers(in, n, &u, out)
	if u.Why.Code != "" {
		out.addActions(u)
	}
	if n.Labels[model.LabelRegistered] == trueValue {
		updateConditions(in, n, ready, why, out)
	}
	if len(out.Actions) == 0 { // it can wait, and nothing else has to
		applyEndedReservation(in, n, out)
	}
}

// isJoining reports whether a node is still to be registered as a claim's, and not one that was registered and has lost its label: a
// node that a kubelet has made anew is younger than the registration.
func isJoining(c *model.Claim, n *model.Node) bool {
	done := c.Conditions[Registered]
	return !done.True() || hasTaint(n.Taints, unregisteredTaint) || n.Created.After(done.Since)
}

// unregisteredTaint keeps pods off a node until it is registered.
var unregisteredTaint = model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}

// formerLabels are the labels of Kubernetes before 1.17 that a cloud's controller manager and the kubelet set beside those of today, which
// are their values. Pods and volumes that name them are launched nodes by today's labels, and kube-scheduler compares the former: without
// such a controller nobody else sets them.
var formerLabels = map[string]string{
	"failure-domain.beta.kubernetes.io/zone":   model.LabelZone,
	"failure-domain.beta.kubernetes.io/region": model.LabelRegion,
	"beta.kubernetes.io/instance-type":         model.LabelInstanceType,
	"beta.kubernetes.io/arch":                  model.LabelArch,
	"beta.kubernetes.io/os":                    model.LabelOS,
}

// registerNode fills in the patch that registers a new node: one patch takes the unregistered taint off and writes
// labels, annotations, taints and the reservation.
func registerNode(in *Input, n *model.Node, u *plan.UpdateNode) {
	c := in.Claim
	u.Why = plan.Reason{Code: plan.Registering, Pool: c.Pool}
	inGroup := c.Labels[model.LabelNodeGroup] != ""
	elsewhere := inGroup && c.Labels[model.LabelZone] != "" && n.Labels[model.LabelZone] != "" && n.Labels[model.LabelZone] != c.Labels[model.LabelZone]
	isOfPool := func(label string) bool {
		return in.Pool != nil && in.Pool.Labels[label] != ""
	}
	for k, v := range c.Labels {
		switch h, ok := n.Labels[k]; {
		case ok && h == v, inGroup && isPlace(k) && !isOfPool(k) && (ok || elsewhere && k != model.LabelRegion): // a CSI driver does not register with another value than its own
		default:
			u.Labels[k] = v
		}
	}
	for old, k := range formerLabels {
		v, ok := c.Labels[k]
		if _, written := u.Labels[k]; !written && n.Labels[k] != "" {
			v = n.Labels[k]
		}
		if ok && n.Labels[old] == "" {
			u.Labels[old] = v
		}
	}
	u.Labels[model.LabelRegistered] = trueValue
	for k, v := range c.Annotations {
		if h, ok := n.Annotations[k]; (!ok || h != v) && !strings.HasPrefix(k, "dovetail.sh/") {
			u.Annotations[k] = v
		}
	}
	for _, t := range requiredTaints(c, n) {
		if !hasTaint(n.Taints, t) {
			u.AddTaints = append(u.AddTaints, t)
		}
	}
	if !hasTaint(n.Taints, unregisteredTaint) && c.Labels[model.LabelNodeGroup] == "" {
		u.Why.Detail = plan.OfRegistering{Untainted: true} // pods may have come before their node was ours
	}
	u.AddFinalizer = !n.HasFinalizer
	u.OwnerClaim, u.OwnerUID = c.Name, c.UID
	u.RemoveTaints = append(u.RemoveTaints, unregisteredTaint)
	if c.Reserved && (in.Awaited > 0 || in.Daemons.Pods > 0 || isYielding(in)) {
		u.AddTaints = append(u.AddTaints, reservationTaint(c))
		u.DaemonsOnly = in.Daemons.KeptOff && !isCordoned(n)
	}
}

// requiredTaints returns the taints of a claim that registration adds to a node that lacks them. Startup taints of a node group are not among them: its
// kubelets register them, so one that is missing has been removed by its agent, which does so once.
func requiredTaints(c *model.Claim, n *model.Node) []model.Taint {
	switch {
	case n.Labels[model.LabelDoNotSyncTaints] == trueValue:
		return nil
	case c.Labels[model.LabelNodeGroup] != "":
		return c.Taints
	}
	return slices.Concat(c.Taints, c.StartupTaints)
}

// isPlace reports whether a label says where a machine is: a kubelet, a cloud's controller manager or a CSI driver that has set it knows better than the template
// of a node group, which names one zone even if the machines of the group come in several. Volumes are attached by it.
func isPlace(label string) bool { return strings.HasPrefix(label, "topology.") }

// IsEphemeral reports whether a taint is removed automatically once a new node is ready.
func IsEphemeral(t model.Taint) bool {
	switch t.Key {
	case "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", "node.cluster.x-k8s.io/uninitialized", model.TaintUnregistered:
		return true
	}
	return strings.HasPrefix(t.Key, "readiness.k8s.io/")
}

// isInitialized reports whether a node is initialized or may be now; where not, the condition says what is missing.
func isInitialized(in *Input, n *model.Node) (bool, model.Condition) {
	if n.Labels[model.LabelInitialized] == trueValue || in.Claim.Is(Initialized) && !isJoining(in.Claim, n) {
		return true, model.Condition{}
	}
	if !n.Ready {
		return false, model.Condition{Status: "Unknown", Reason: "NodeNotReady", Message: "node " + n.Name + " is not Ready"}
	}
	for _, t := range n.Taints {
		if isStartupTaint(in.Claim, t) {
			return false, model.Condition{Status: "Unknown", Reason: "StartupTaintsExist", Message: "startup taint " + t.Key + ":" + t.Effect + " is still on the node"}
		}
		if IsEphemeral(t) && t.Key != model.TaintUnregistered {
			return false, model.Condition{Status: "Unknown", Reason: "KnownEphemeralTaintsExist", Message: "taint " + t.Key + ":" + t.Effect + " is still on the node"}
		}
	}
	if d, missing := missingResource(in.Claim, n); missing {
		return false, model.Condition{Status: "Unknown", Reason: "ResourceNotRegistered", Message: "resource " + in.resourceName(d) + " is requested and not in status.allocatable of the node yet"}
	}
	return true, model.Condition{}
}

// isStartupTaint reports whether a taint is one of a claim's startup taints.
func isStartupTaint(c *model.Claim, t model.Taint) bool {
	return slices.ContainsFunc(c.StartupTaints, func(s model.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// missingResource returns the first extended resource that a claim requests and its node's allocatable lacks; false if it lacks none.
func missingResource(c *model.Claim, n *model.Node) (model.Dim, bool) {
	for d := model.FirstExtended; int(d) < len(c.Requests); d++ {
		if c.Requests[d] > 0 && n.Allocatable.At(d) == 0 {
			return d, true
		}
	}
	return 0, false
}

// resourceName returns the name of a resource.
func (in *Input) resourceName(d model.Dim) string {
	if int(d) < len(in.ResourceNames) {
		return in.ResourceNames[d]
	}
	return "number " + strconv.Itoa(int(d))
}

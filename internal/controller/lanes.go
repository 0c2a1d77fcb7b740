// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"maps"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// callLanes bound how many calls are under way at once: a lane for each kind of call, and for each namespace or node class
// where one that hangs must not hold up the others. A call is in a lane while its token is in the channel. Only the loop
// looks lanes up; calls wait in goroutines of their own.
type callLanes struct {
	byName     map[string]chan struct{}
	background chan struct{} // the lane interruptedLane, also for notices: what can wait while machines are bought
	sweepAt    int           // when there are so many lanes, those are forgotten that nothing is in
}

func newCallLanes() *callLanes {
	background := make(chan struct{}, 4)
	return &callLanes{byName: map[string]chan struct{}{interruptedLane: background}, background: background}
}

// findLane returns the lane of a name, which holds width calls at once where it is made by this.
func (l *callLanes) findLane(name string, width int) chan struct{} {
	lane := l.byName[name]
	if lane == nil {
		if len(l.byName) >= max(l.sweepAt, fewLanes) { // most of them of namespaces and classes that are gone
			maps.DeleteFunc(l.byName, func(k string, lane chan struct{}) bool { return k != interruptedLane && len(lane) == 0 })
			l.sweepAt = 2 * len(l.byName)
		}
		lane = make(chan struct{}, width)
		l.byName[name] = lane
	}
	return lane
}

// interruptedLane is the lane of what is written into the claims and nodes of machines that are taken away: those to come in their stead go first.
const interruptedLane = "taken"

func laneOfReason(kind string, why plan.Reason) string {
	if why.Code == plan.Interrupted {
		return interruptedLane
	}
	return kind
}

// laneOfClass is the lane of calls to the cloud about a claim: those that hang for one node class or node group hold up no other's.
func laneOfClass(kind string, c *model.Claim) string {
	if c == nil {
		return kind
	}
	return kind + " " + c.ClassGroup + "/" + c.ClassKind + "/" + c.ClassName + " " + c.Labels[model.LabelNodeGroup]
}

// laneOfNamespace is the lane of calls about the pods of a namespace: an admission webhook that takes its time there holds up no other's.
func laneOfNamespace(kind, namespace string) string { return kind + inNamespace + namespace }

// laneOfClaim is the lane in which a NodeClaim is created: that of the namespace of its first pod, so that a tenant that
// needs thousands of nodes at once keeps nobody else's claim waiting behind its own. Claims for no pod have one together.
func laneOfClaim(a plan.CreateClaim) string {
	if len(a.Pods) == 0 {
		return "CreateClaim"
	}
	return laneOfNamespace("CreateClaim", a.Pods[0].Namespace)
}

const inNamespace = " in "

// fewLanes are kept though nothing is in them.
const fewLanes = 1000

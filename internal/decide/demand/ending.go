// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A pod that fits where other pods are about to end needs no node, if they have ended before a node could have booted for it
// (docs/design/0018). It waits for that capacity instead. How long it waits is bounded twice: a pod that has not ended
// shortly after its grace period is not counted on any more (LateEnd), and no pod waits longer than a node boots.

// LateEnd is how long after the end of its grace period a pod is still counted on to end. The kubelet kills the containers
// then, and reports it a moment later; times in the API are whole seconds.
const LateEnd = 2 * time.Second

// Ending is the capacity that pods which are being deleted free soon, on nodes that stay.
type Ending struct {
	*cluster.View
	boot   time.Duration
	byNode map[string]endingPods
}

// endingPods are the pods on one node that are counted on to end.
type endingPods struct {
	count int
	free  model.Resources // what is free now
	freed model.Resources // what is free when they have ended
	by    time.Time       // the end of their last grace period
	until time.Time       // when the first of them counts as late
}

// FindEnding returns the capacity of terminating pods that becomes free soon enough for one of the given pods, for which nodes
// would be launched otherwise. boot is how long a node takes to boot; 0: not known, and no pod waits.
func FindEnding(v *cluster.View, nodes []solve.ExistingNode, launchedFor []*model.Pod, boot time.Duration) *Ending {
	e := &Ending{View: v, boot: boot, byNode: map[string]endingPods{}}
	var latest time.Time
	for _, p := range launchedFor {
		if e.mayWait(p) {
			latest = model.LaterOf(latest, e.waitsUntil(p))
		}
	}
	if latest.IsZero() {
		return e
	}
	for i := range nodes {
		at := v.FindNode(nodes[i].Name)
		if nodes[i].Closed || nodes[i].InFlight || at < 0 || !v.Snapshot.Nodes[at].Ready {
			continue
		}
		if x := e.endingOn(v.Snapshot.Nodes[at], latest); x.count > 0 {
			x.free, x.freed = nodes[i].Free, nodes[i].Free.Add(x.freed)
			e.byNode[nodes[i].Name] = x
		}
	}
	return e
}

// endingOn returns the pods on a node whose grace period ends by an instant, and that are not late. A pod whose successor is
// made when it has ended does not count: the successor may need the capacity.
func (e *Ending) endingOn(n *model.Node, latest time.Time) (x endingPods) {
	for _, p := range n.Pods {
		if p.Deleting.IsZero() || p.Terminal || !p.IsWorkload() || p.SuccessorFollowsEnd() || p.Deleting.After(latest) {
			continue
		}
		late := p.Deleting.Add(LateEnd)
		if !e.Now.Before(late) {
			continue
		}
		x.count, x.freed = x.count+1, x.freed.Add(p.Class.Requests)
		x.by, x.until = model.LaterOf(x.by, p.Deleting), model.EarlierOf(x.until, late)
	}
	return x
}

// mayWait reports whether a pod may wait for pods to end.
func (e *Ending) mayWait(p *model.Pod) bool { return e.Now.Before(e.waitsUntil(p)) }

// waitsUntil returns when a node would be there for a pod, had one been launched as soon as the pod needed it; zero: the pod does not
// wait, since it is virtual, or its node is taken away.
func (e *Ending) waitsUntil(p *model.Pod) time.Time {
	since := p.Unschedulable
	switch {
	case p.IsVirtual():
		return time.Time{}
	case p.Expected:
		since = e.Now
	case p.Node != "":
		at := e.FindNode(p.Node)
		if at < 0 {
			return time.Time{}
		}
		c := e.ClaimOn(at)
		if c == nil || c.Deleting.IsZero() || e.Interruptions[c.Name] != nil {
			return time.Time{}
		}
		since = c.Deleting
	case since.IsZero():
		since = p.Created
	}
	return since.Add(e.boot)
}

// IsEmpty reports whether nothing ends soon.
func (e *Ending) IsEmpty() bool { return len(e.byNode) == 0 }

// AddTo returns nodes with that capacity free. The list given stays as it is.
func (e *Ending) AddTo(nodes []solve.ExistingNode) []solve.ExistingNode {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if x, ok := e.byNode[nodes[i].Name]; ok {
			nodes[i].Free = x.freed
		}
	}
	return nodes
}

// Exclude leaves out the nodes on which pods were placed that need more than is free now and may not wait as long for the rest,
// and reports whether there are any.
func (e *Ending) Exclude(placed []solve.Assignment) bool {
	excluded := false
	for node, pods := range e.waiting(placed) {
		by := e.byNode[node].by
		if slices.ContainsFunc(pods, func(p *model.Pod) bool { return !e.mayWait(p) || by.After(e.waitsUntil(p)) }) {
			delete(e.byNode, node)
			excluded = true
		}
	}
	return excluded
}

// waiting returns, by node, the pods placed on nodes that hold them all only when other pods have ended.
func (e *Ending) waiting(placed []solve.Assignment) map[string][]*model.Pod {
	out := map[string][]*model.Pod{}
	for _, a := range placed {
		if _, ok := e.byNode[a.Node]; ok {
			out[a.Node] = append(out[a.Node], a.Pods...)
		}
	}
	maps.DeleteFunc(out, func(node string, pods []*model.Pod) bool {
		var sum model.Resources
		for _, p := range pods {
			sum = sum.AddInto(p.Class.Requests, 1)
		}
		return sum.Fits(e.byNode[node].free)
	})
	return out
}

// Wait is what placed pods wait for.
type Wait struct {
	ByNode map[string]time.Time // by name: the nodes whose pods are waited for, and when these have ended
	Until  time.Time            // when to decide again; zero: nothing is waited for
}

// WaitFor returns what pods wait for that were placed on the nodes of AddTo.
func (e *Ending) WaitFor(placed []solve.Assignment) Wait {
	w := Wait{ByNode: map[string]time.Time{}}
	for node, pods := range e.waiting(placed) {
		x := e.byNode[node]
		w.ByNode[node], w.Until = x.by, model.EarlierOf(w.Until, x.until)
		for _, p := range pods {
			if until := e.waitsUntil(p); e.Now.Before(until) {
				w.Until = model.EarlierOf(w.Until, until)
			}
		}
	}
	return w
}

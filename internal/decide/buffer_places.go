// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// freeForBuffers is what nodes have free, as far as virtual pods have been looked at.
type freeForBuffers struct {
	*buffers
	expected map[string]model.Resources // by the solver's name: what pending pods that are expected there ask for
	byTarget map[target]*solve.ExistingNode
}

// newFreeCapacity returns the free capacity before any virtual pod has been looked at.
func (bu *buffers) newFreeCapacity() *freeForBuffers {
	f := &freeForBuffers{buffers: bu, expected: map[string]model.Resources{}, byTarget: map[target]*solve.ExistingNode{}}
	if len(bu.placements.mem.byPod) > 0 {
		for _, p := range bu.Snapshot.Pending {
			if was, ok := bu.placements.mem.byPod[p.UID]; ok {
				f.expect(was.Node, p)
			}
		}
	}
	return f
}

// expect takes a pod to come to a node, by the solver's name.
func (f *freeForBuffers) expect(node string, p *model.Pod) {
	f.expected[node] = f.expected[node].AddInto(p.Class.Requests, 1)
}

// take takes the capacity of a virtual pod at its target, and reports whether there is enough.
func (f *freeForBuffers) take(t target, p *model.Pod) bool {
	r, known := f.byTarget[t]
	if !known {
		x, until, ok := f.nodes.atTarget(t)
		if f.nodes.wakeAt(until); ok && !x.Closed {
			x.Free = x.Free.Sub(f.expected[x.Name])
			r = &x
		}
		f.byTarget[t] = r
	}
	if r == nil || !p.Class.Requests.Fits(r.Free) || slices.ContainsFunc(r.Taints, func(x model.Taint) bool {
		return x.Effect != model.PreferNoSchedule && !lifecycle.IsEphemeral(x) && !model.Tolerated(x, p.Class.Tolerations)
	}) {
		return false
	}
	r.Free = r.Free.Sub(p.Class.Requests)
	return true
}

// atTarget returns the node, there or coming, at which capacity is held, and until when it is so; false: it is gone.
func (sv *solverView) atTarget(t target) (r solve.ExistingNode, until time.Time, ok bool) {
	p := cluster.None
	if name, ok := strings.CutPrefix(string(t), nodePrefix); ok {
		if p = sv.FindNode(name); p < 0 {
			return r, until, false
		}
	} else {
		at := sv.FindClaim(string(t))
		if at < 0 {
			return r, until, false
		}
		c := sv.Snapshot.Claims[at]
		if p = sv.NodeOf(at); p == cluster.Several || p == cluster.None && (c.Is(lifecycle.Registered) || !c.Deleting.IsZero() || sv.Interruptions[c.Name] != nil) {
			return r, until, false
		}
		if p == cluster.None {
			r, ok = sv.inFlightNode(c)
			return r, until, ok
		}
	}
	if sv.memo.unchanged.state[p] != dirty {
		return sv.memo.unchanged.solverNodes[p], until, true
	}
	c, h := sv.reservations.OfNode(p)
	r, until = sv.standingNode(sv.Snapshot.Nodes[p], c, h)
	return r, until, true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Gang is a gang with pending or leaving pods, and the state of its pods.
type Gang struct {
	model.Gang
	Priority int32     // maximum priority of its pods
	Created  time.Time // creation time of its oldest pod

	There   int // existing pods that are not gated and not being removed, and succeeded pods
	Settled int // those of them that need no node: staying on a node, nominated, or succeeded

	refused bool // kube-scheduler has refused a pod of it that is still pending
}

// IsComplete reports whether enough pods exist to place the gang.
func (g *Gang) IsComplete() bool { return g.Staged || g.There >= g.Least }

// Minimum returns the minimum number of its pods that must be placed.
func (g *Gang) Minimum() int {
	if g.Staged {
		return min(g.Least, g.There)
	}
	return g.Least
}

// findGangs returns the gangs that have a pending or a leaving pod, by name; nil: there are none, which costs no look at nodes.
func findGangs(v *cluster.View, leaving []*model.Pod) map[string]*Gang {
	var gangs map[string]*Gang
	join := func(p *model.Pod) *Gang {
		g := gangs[p.Gang.Name]
		if g == nil {
			if gangs == nil {
				gangs = map[string]*Gang{}
			}
			g = &Gang{Gang: p.Gang, Priority: p.Class.Priority, Created: p.Created}
			gangs[p.Gang.Name] = g
		}
		g.Least, g.Staged = max(g.Least, p.Gang.Least), g.Staged || p.Gang.Staged // pods that disagree must not be taken apart
		if g.Priority = max(g.Priority, p.Class.Priority); p.Created.Before(g.Created) {
			g.Created = p.Created
		}
		return g
	}
	for _, p := range v.Snapshot.Pending {
		if !p.HasGang() {
			continue
		}
		g := join(p)
		g.refused = g.refused || !p.Unschedulable.IsZero()
		switch {
		case p.Gated:
		case p.Nominated != "":
			g.There, g.Settled = g.There+1, g.Settled+1
		default:
			g.There++
		}
	}
	going := map[*model.Pod]bool{}
	for _, p := range leaving {
		if p.HasGang() {
			join(p)
			going[p] = true
		}
	}
	if gangs == nil {
		return nil
	}
	for _, n := range v.Snapshot.Nodes {
		for _, p := range n.Pods {
			if !p.HasGang() || gangs[p.Gang.Name] == nil || !p.Deleting.IsZero() || p.Terminal {
				continue
			}
			g := join(p)
			if g.There++; !going[p] {
				g.Settled++
			}
		}
	}
	for name, g := range gangs { // each by itself
		ended := v.Snapshot.GangsEnded[name]
		g.There, g.Settled = g.There+ended, g.Settled+ended
	}
	return gangs
}

// GangOf returns the gang of a pod; nil if it has none, or if its gang does not wait.
func (pt *Table) GangOf(p *model.Pod) *Gang {
	if !p.HasGang() {
		return nil
	}
	return pt.gangs[p.Gang.Name]
}

// awaitsPods reports whether a pod belongs to a gang of which too few pods exist.
func (pt *Table) awaitsPods(p *model.Pod) bool {
	g := pt.GangOf(p)
	return g != nil && !g.IsComplete()
}

// gangIncomplete returns why no node is launched for pods of a gang, of which too few exist.
func gangIncomplete(g *Gang) plan.Reason {
	return plan.Reason{Code: plan.GangIncomplete, Detail: plan.OfGangIncomplete{Gang: plan.Object(g.Name), Least: g.Least, Have: g.There}}
}

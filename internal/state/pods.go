// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"cmp"
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// podTable is the pods by namespace/name. It hands those that are bound to the nodes, keeps those that wait for a node,
// and counts demand.
type podTable struct {
	byKey   map[string]*model.Pod
	pending table[*model.Pod]    // not bound, not terminal, not being deleted; by key
	refused map[*model.Class]int // pending pods that kube-scheduler has refused, by class
	waiting map[string]int       // pending pods, by namespace
	changed map[string]bool      // see TakeDemandChanges

	ended       map[string]int // by gang: pods that have succeeded
	listedEnded map[string]int // a copy of ended for Snapshots; nil: ended has changed since

	nodes       *nodeTable
	replicaSets *replicaSets
	counts      *ChangeCounts
}

func newPodTable(nodes *nodeTable, replicaSets *replicaSets, counts *ChangeCounts) *podTable {
	return &podTable{
		byKey: map[string]*model.Pod{}, pending: newTable(comparePods), refused: map[*model.Class]int{},
		waiting: map[string]int{}, changed: map[string]bool{}, ended: map[string]int{},
		nodes: nodes, replicaSets: replicaSets, counts: counts,
	}
}

// setPod adds a pod or changes it. It keeps when the pod was first seen.
func (t *podTable) setPod(p *model.Pod, now time.Time) {
	key := p.Key()
	old := t.byKey[key]
	if old != nil && old.UID == p.UID {
		p.Seen = old.Seen
	}
	t.replicaSets.countPod(old, p)
	t.countEnded(old, p)
	t.byKey[key] = p
	switch {
	case old == nil:
		t.placePod(key, p, now)
	case staysBound(old, p):
		t.nodes.changePod(key, old, p, now)
	case staysPending(old, p) && t.pending.rows[key] == old:
		if old.Unschedulable.IsZero() && !p.Unschedulable.IsZero() && t.refused[p.Class] == 0 {
			t.changed[p.Namespace] = true // the first of its class: all alike are demand now
		}
		t.removePending(key)
		t.addPending(key, p)
	default:
		t.unplacePod(key, old, now)
		t.placePod(key, p, now)
	}
}

// noteResize notes what a pod was before it was resized in place, old being what was known of it, and what its successor is created as.
func (s *State) noteResize(p, old *model.Pod) {
	p.First, p.Successor = nil, nil
	if old == nil || old.UID != p.UID {
		return
	}
	first := old.First
	if first == nil {
		first = old.Class
	}
	resized, smaller := false, false
	requests := p.Class.Requests
	for _, d := range []model.Dim{model.CPU, model.Memory} { // others can't be resized
		before, now := first.Requests.At(d), requests.At(d)
		if resized = resized || before != now; before > now {
			smaller, requests = true, requests.With(d, before)
		}
	}
	if !resized {
		return
	}
	if p.First = first; !smaller || p.ByVPA {
		return
	}
	c := *p.Class
	c.Requests = requests
	c.SlotKey = cmp.Or(first.SlotKey, first.Key)
	c.Key = p.Class.Key + "\x00resized from " + first.Key
	p.Successor = s.internClass(&c)
}

// staysBound reports whether a pod is on the same node before and after a change, and holds its room there.
func staysBound(old, p *model.Pod) bool {
	return old.UID == p.UID && old.Node != "" && old.Node == p.Node && !old.Terminal && !p.Terminal
}

// staysPending reports whether a pending pod is the same demand before and after a change.
func staysPending(old, p *model.Pod) bool {
	return old.UID == p.UID && old.Node == "" && p.Node == "" && old.Class == p.Class && p.Deleting.IsZero() && !p.Terminal &&
		old.Nominated == p.Nominated && old.Gated == p.Gated && old.Gang == p.Gang && old.Consumes == p.Consumes
}

// deletePod forgets a pod. It returns what was known of it, nil where nothing was.
func (t *podTable) deletePod(key string, now time.Time) *model.Pod {
	old := t.byKey[key]
	if old != nil {
		t.replicaSets.countPod(old, nil)
		t.countEnded(old, nil)
		t.unplacePod(key, old, now)
		delete(t.byKey, key)
	}
	return old
}

// countEnded counts the pods of gangs that have succeeded. old and p are one pod before and after a change; nil: it was or is
// not there.
func (t *podTable) countEnded(old, p *model.Pod) {
	had, has := old != nil && old.CountsAsEnded(), p != nil && p.CountsAsEnded()
	if had == has && (!has || old.Gang.Name == p.Gang.Name) {
		return
	}
	t.listedEnded = nil
	if had {
		if t.ended[old.Gang.Name]--; t.ended[old.Gang.Name] == 0 {
			delete(t.ended, old.Gang.Name)
		}
	}
	if has {
		t.ended[p.Gang.Name]++
	}
}

// listEnded returns how many pods of gangs have succeeded, by gang; nil: none has.
func (t *podTable) listEnded() map[string]int {
	if t.listedEnded == nil && len(t.ended) > 0 {
		t.listedEnded = maps.Clone(t.ended)
	}
	return t.listedEnded
}

// replacePod shows a pod otherwise than it was read. It neither comes nor goes by that, and no demand is counted.
func (t *podTable) replacePod(p *model.Pod) {
	key := p.Key()
	t.byKey[key] = p
	if t.pending.rows[key] != nil {
		t.pending.set(key, p)
	}
	t.nodes.replacePod(key, p)
}

// placePod puts a pod on its node, or among those that wait for one.
func (t *podTable) placePod(key string, p *model.Pod, now time.Time) {
	switch {
	case p.Terminal:
	case p.Node != "":
		t.nodes.addPod(key, p, now)
	case p.Deleting.IsZero():
		t.changed[p.Namespace] = t.changed[p.Namespace] || !t.replicaSets.isForeseen(p)
		t.addPending(key, p)
		t.replicaSets.foreseePods(p.Owner.UID, t.refused)
	}
}

// unplacePod takes a pod from where placePod has put it.
func (t *podTable) unplacePod(key string, p *model.Pod, now time.Time) {
	if p.Node != "" && t.nodes.removePod(key, p, now) {
		t.counts.Release++
	}
	t.removePending(key)
}

func (t *podTable) addPending(key string, p *model.Pod) {
	t.pending.set(key, p)
	t.waiting[p.Namespace]++
	if !p.Unschedulable.IsZero() {
		if t.refused[p.Class]++; t.refused[p.Class] == 1 {
			t.replicaSets.foreseePods(p.Owner.UID, t.refused)
		}
	}
}

func (t *podTable) removePending(key string) {
	p := t.pending.rows[key]
	if p == nil {
		return
	}
	t.pending.delete(key)
	if t.waiting[p.Namespace]--; t.waiting[p.Namespace] == 0 {
		delete(t.waiting, p.Namespace)
	}
	if !p.Unschedulable.IsZero() {
		if t.refused[p.Class]--; t.refused[p.Class] == 0 {
			delete(t.refused, p.Class)
		}
	}
}

// listUnseen says of each namespace with pods that wait for kube-scheduler's first look at one of their class when the
// youngest of them that was created after an instant was created.
func (t *podTable) listUnseen(after time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for _, p := range t.pending.rows {
		if p.Unschedulable.IsZero() && t.refused[p.Class] == 0 && !p.Gated && p.Created.After(after) && p.Created.After(out[p.Namespace]) {
			out[p.Namespace] = p.Created
		}
	}
	return out
}

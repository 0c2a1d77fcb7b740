// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

func newWorkloads(w *world) *workloads {
	k := &workloads{w: w, byUID: map[string]*podState{}, spaces: map[string]model.Labels{}, joined: map[string]time.Time{}, preempted: map[string]bool{}}
	for i := range w.trace.Changes {
		x := &w.trace.Changes[i]
		k.add(x.At, func() { k.change(x) })
	}
	for _, o := range w.trace.Owners {
		k.addOwner(o)
	}
	slices.SortStableFunc(k.events, func(a, b event) int { return a.at.Compare(b.at) })
	return k
}

// begin makes what was there at the beginning.
func (k *workloads) begin() {
	k.play()
	for _, p := range k.w.trace.Static {
		if k.w.Nodes[p.Node] != nil {
			q := *p.Pod
			q.Node, q.Bound = p.Node, p.Pod.Created
			k.w.SetPod(&q)
		}
	}
	for _, o := range k.owners {
		for _, life := range o.Pods {
			if !life.First {
				continue
			}
			var slot *slotState
			for _, s := range o.slots {
				if s.Pods[0] == life {
					slot, s.next = s, 1
				}
			}
			p := *life.Pod
			if k.w.Nodes[life.Node] != nil {
				p.Node, p.Bound = life.Node, life.Bound
			}
			k.make(o, slot, life, &p)
		}
	}
}

// Next implements sim.Controllers. It returns the time of the next recorded event.
func (k *workloads) Next() (next time.Time) {
	if k.at < len(k.events) {
		next = k.events[k.at].at
	}
	if w := k.w; w.pools < len(w.variant.Pools) {
		next = model.EarlierOf(next, w.variant.Pools[w.pools].At)
	}
	return next
}

// play has the recorded events happen that are due.
func (k *workloads) play() {
	for ; k.at < len(k.events) && !k.events[k.at].at.After(k.w.Now); k.at++ {
		k.events[k.at].do()
	}
}

// Act implements sim.Controllers.
func (k *workloads) Act() {
	k.w.changePools()
	k.play()
	for len(k.dirty) > 0 {
		list := k.dirty
		k.dirty = nil
		for _, o := range list {
			o.isDirty = false
			k.reconcile(o)
		}
	}
}

// UpdateBudgets implements sim.Controllers.
func (k *workloads) UpdateBudgets() {
	for _, b := range k.budgets {
		k.updateBudget(b)
	}
}

// List implements sim.Controllers.
func (k *workloads) List(s *state.State) {
	for _, name := range slices.Sorted(maps.Keys(k.spaces)) {
		s.SetNamespace(name, k.spaces[name], time.Time{})
	}
	for _, l := range k.w.variant.Limits {
		s.SetLimit(l)
	}
	for _, o := range k.owners {
		if o.isReplicaSet() {
			s.SetReplicas(o.Owner.Owner.UID, o.want)
		}
	}
	for _, b := range k.budgets {
		b.shown = nil
	}
}

// change has something happen that people or other controllers did.
func (k *workloads) change(x *Change) {
	w := k.w
	switch {
	case x.Daemon != nil:
		k.dropDaemon(x.Daemon.Namespace + "/" + x.Daemon.Name)
		w.Daemons = append(w.Daemons, x.Daemon)
		w.ShowDaemon(x.Daemon)
	case x.DaemonGone != "":
		k.dropDaemon(x.DaemonGone)
		w.HideDaemon(x.DaemonGone)
	case x.PDB != nil:
		k.setBudget(x.PDB)
	case x.PDBGone != "":
		k.budgets = slices.DeleteFunc(k.budgets, func(b *budget) bool { return b.pdb.Key() == x.PDBGone })
		w.DropPDB(x.PDBGone)
	case x.Namespace != "":
		k.spaces[x.Namespace] = x.Labels
		w.SetNamespace(x.Namespace, x.Labels)
	case x.Node != nil:
		w.stand(x.Node)
	case x.NodeGone != "":
		w.leave(x.NodeGone)
	case x.Interrupt != nil:
		w.interrupt(x.Interrupt)
	}
}

func (k *workloads) dropDaemon(key string) {
	k.w.Daemons = slices.DeleteFunc(k.w.Daemons, func(d *model.Daemon) bool { return d.Namespace+"/"+d.Name == key })
}

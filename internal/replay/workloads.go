// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// workloads are the controllers of the cluster. They make the pods that were recorded, at the recorded times and with the recorded names. A
// pod that only the replay evicts is made again under another name, one that only the recorded cluster evicted is not.
type workloads struct {
	w       *world
	owners  []*ownerState
	byUID   map[string]*podState
	dirty   []*ownerState
	events  []event
	at      int // the next of events
	budgets []*budget
	spaces  map[string]model.Labels // labels of namespaces

	joined    map[string]time.Time // by claim uid: when its node was there
	preempted map[string]bool      // by pod uid
}

// event is something recorded that happens.
type event struct {
	at time.Time
	do func()
}

// ownerState is an Owner in the replay.
type ownerState struct {
	*Owner
	want    int
	pods    []*podState            // that are not being deleted, by age
	queues  map[string]*identities // by name of the pod for a StatefulSet, else one
	slots   []*slotState
	isDirty bool
}

// slotState is a Slot in the replay.
type slotState struct {
	*Slot
	pod  *podState // nil: it has none now
	next int       // of Pods
	open bool      // it has begun
	done bool
}

func (o *ownerState) isStateful() bool { return o.Owner.Owner.Kind == "StatefulSet" }

func (o *ownerState) isReplicaSet() bool { return o.Owner.Owner.Kind == "ReplicaSet" }

// budget is a PodDisruptionBudget in the replay.
type budget struct {
	pdb     *model.PDB
	classes map[*model.Class]bool // whether it selects their pods
	healthy int
	dirty   bool
	shown   *model.PDB // as its status was last written
}

// podState is a pod in the replay.
type podState struct {
	life  *Pod // as which it was made; of a pod that was not recorded, one like it
	owner *ownerState
	slot  *slotState // nil: its owner has none
	pod   *model.Pod
	born  time.Time
	bound time.Time
	// released reports whether nobody wants it any more or it has ended by itself: that it is deleted is no eviction.
	released bool
	leaving  bool // it is being deleted
}

// make creates a pod of an owner.
func (k *workloads) make(o *ownerState, slot *slotState, life *Pod, p *model.Pod) {
	s := &podState{life: life, owner: o, slot: slot, pod: p, born: p.Created}
	if life.First && p.UID == life.Pod.UID {
		s.born = life.Born
	}
	if p.Node != "" {
		s.bound = p.Bound
	}
	k.byUID[p.UID] = s
	o.pods = append(o.pods, s)
	if slot != nil {
		slot.pod = s
	}
	k.w.SetPod(p)
	if p.Node != "" {
		k.bind(s)
	}
}

// PodChanged implements sim.Controllers.
func (k *workloads) PodChanged(old, now *model.Pod) {
	var s *podState
	if now != nil {
		s = k.byUID[now.UID]
	} else {
		s = k.byUID[old.UID]
	}
	if s == nil {
		return // of a DaemonSet, or of a kubelet
	}
	if old != nil && now != nil && old.UID != now.UID {
		k.gone(k.byUID[old.UID])
		old = nil
	}
	k.countHealthy(old, now)
	switch {
	case now == nil:
		k.leave(s, "NodeLost")
		k.gone(s)
		return
	case old != nil && old.Node == "" && now.Node != "":
		s.bound = k.w.Now
		k.bind(s)
	}
	s.pod = now
	if !now.Deleting.IsZero() {
		k.leave(s, "")
	}
}

// bind has a pod that ends by itself end when it has run for as long as it did.
func (k *workloads) bind(s *podState) {
	if s.slot == nil {
		return
	}
	if _, ran := s.slot.End(); ran > 0 {
		at := s.bound.Add(ran)
		k.w.At(at, func() {
			if now := k.byUID[s.pod.UID]; now == s && !s.leaving {
				s.slot.done = true
				k.release(s, 0)
			}
		})
	}
}

// release deletes a pod that nobody wants any more.
func (k *workloads) release(s *podState, grace time.Duration) {
	s.released = true
	k.w.DeletePod(s.pod, grace)
}

// leave notes that a pod is being deleted, and counts an eviction.
func (k *workloads) leave(s *podState, why string) {
	if s.leaving {
		return
	}
	s.leaving = true
	o := s.owner
	o.pods = slices.DeleteFunc(o.pods, func(x *podState) bool { return x == s })
	if s.slot != nil {
		s.slot.pod = nil
	}
	k.touch(o)
	if s.released || s.pod.Node == "" {
		return
	}
	pool, reason := k.w.whyLeft(s.pod.Node)
	switch {
	case k.preempted[s.pod.UID]:
		reason = "Preempted"
	case reason == "" && why != "":
		reason = why
	case reason == "":
		reason = "Evicted"
	}
	k.w.meter.evicted(pool, reason, k.w.Now)
	if reason != "Preempted" && reason != "NodeLost" {
		k.w.decided(Evict, s.pod.Key(), "")
	}
}

// gone counts what a pod that is gone has used.
func (k *workloads) gone(s *podState) {
	delete(k.byUID, s.pod.UID)
	k.count(s)
	if s.owner.isStateful() {
		k.touch(s.owner)
	}
}

func (k *workloads) count(s *podState) {
	k.w.meter.waited(s.born, s.bound, k.w.Now)
	if !s.bound.IsZero() {
		k.w.meter.ran(s.pod.Class.Requests, s.bound, k.w.Now)
	}
}

// end counts the pods that are still there.
func (k *workloads) end() {
	for _, uid := range slices.Sorted(maps.Keys(k.byUID)) {
		k.count(k.byUID[uid])
	}
}

// touch has an owner be looked at.
func (k *workloads) touch(o *ownerState) {
	if !o.isDirty {
		o.isDirty = true
		k.dirty = append(k.dirty, o)
	}
}

func (k *workloads) add(at time.Time, do func()) { k.events = append(k.events, event{at, do}) }

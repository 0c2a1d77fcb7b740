// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// identities are recorded pods that the next pods are made as.
type identities struct {
	list []*Pod
	next int
	like *Pod // the one that was used last
}

// identityWait is how far the replay's need of a pod may be from when the recorded controller made one, so that it is taken for the same.
const identityWait = time.Minute

// take returns the recorded pod that a pod which is needed now is made as, or when to ask again. It returns neither if the recorded
// controller made none about now.
func (q *identities) take(now time.Time) (p *Pod, again time.Time) {
	for q.next < len(q.list) && q.list[q.next].Born.Before(now.Add(-identityWait)) {
		q.like = q.list[q.next]
		q.next++
	}
	if q.next == len(q.list) {
		return nil, time.Time{}
	}
	switch born := q.list[q.next].Born; {
	case !born.After(now):
		q.like = q.list[q.next]
		q.next++
		return q.like, time.Time{}
	case !born.After(now.Add(identityWait)):
		return nil, born
	}
	return nil, time.Time{}
}

func (k *workloads) addOwner(o *Owner) {
	s := &ownerState{Owner: o, queues: map[string]*identities{}}
	k.owners = append(k.owners, s)
	for _, x := range o.Wants {
		k.add(x.At, func() { k.scale(s, x.Count) })
	}
	for _, x := range o.Slots {
		slot := &slotState{Slot: x}
		s.slots = append(s.slots, slot)
		k.add(x.Pods[0].Born, func() { slot.open = true; k.touch(s) })
		if at, ran := x.End(); ran == 0 && !at.IsZero() {
			k.add(at, func() { k.close(slot) })
		}
	}
	if len(o.Wants) == 0 {
		return
	}
	for _, p := range o.Pods {
		name := s.queueOf(p.Pod.Name)
		if s.queues[name] == nil {
			s.queues[name] = &identities{like: p}
		}
		if !p.First {
			s.queues[name].list = append(s.queues[name].list, p)
		}
		if p.Restart {
			k.add(p.Ended, func() {
				if now := k.byUID[p.Pod.UID]; now != nil && !now.leaving {
					k.release(now, p.Pod.GracePeriod)
				}
			})
		}
	}
}

func (o *ownerState) queueOf(name string) string {
	if o.isStateful() {
		return name
	}
	return ""
}

// wanted returns how many pods an owner wants now.
func (o *ownerState) wanted() (n int) {
	if len(o.Wants) > 0 {
		return o.want
	}
	for _, s := range o.slots {
		if s.open && !s.done {
			n++
		}
	}
	return n
}

// scale has an owner want so many pods.
func (k *workloads) scale(o *ownerState, want int) {
	o.want = want
	if o.isReplicaSet() {
		k.w.SetReplicas(o.Owner.Owner.UID, want)
	}
	for _, b := range k.budgets {
		b.dirty = true
	}
	k.touch(o)
}

// close ends a slot and deletes its pod.
func (k *workloads) close(s *slotState) {
	if s.done = true; s.pod != nil {
		k.release(s.pod, s.pod.pod.GracePeriod)
	}
}

// reconcile makes the pods that an owner lacks, and deletes those that it has too many.
func (k *workloads) reconcile(o *ownerState) {
	for _, s := range o.slots {
		if s.open && !s.done && s.pod == nil {
			k.fill(o, s)
		}
	}
	switch {
	case len(o.Wants) == 0:
	case o.isStateful():
		k.reconcileStateful(o)
	default:
		k.reconcileReplicas(o)
	}
}

// fill makes a pod for a slot.
func (k *workloads) fill(o *ownerState, s *slotState) {
	if s.next > 0 && o.Bare {
		s.done = true // nobody makes it again
		return
	}
	now := k.w.Now
	for s.next < len(s.Pods) && s.next > 0 && s.Pods[s.next].Born.Before(now.Add(-identityWait)) {
		s.next++
	}
	like, real := s.Pods[min(max(s.next-1, 0), len(s.Pods)-1)], false
	if s.next < len(s.Pods) {
		switch born := s.Pods[s.next].Born; {
		case !born.After(now):
			like, real = s.Pods[s.next], true
			s.next++
		case !born.After(now.Add(identityWait)):
			k.w.At(born, func() { k.touch(o) })
			return
		}
	}
	k.make(o, s, like, k.podLike(o, like, real, ""))
}

func (k *workloads) reconcileReplicas(o *ownerState) {
	q := o.queues[""]
	for len(o.pods) < o.want && q != nil {
		life, again := q.take(k.w.Now)
		if !again.IsZero() {
			k.w.At(again, func() { k.touch(o) })
			return
		}
		like := q.like
		if life != nil {
			like = life
		}
		k.make(o, nil, like, k.podLike(o, like, life != nil, ""))
	}
	if more := len(o.pods) - o.want; more > 0 {
		for _, s := range k.victims(o)[:more] {
			k.release(s, s.pod.GracePeriod)
		}
	}
}

// reconcileStateful keeps pods 0 to want-1. A pod whose name is taken by one that still ends is made when that is gone.
func (k *workloads) reconcileStateful(o *ownerState) {
	for _, s := range slices.Clone(o.pods) {
		if ordinalOf(s.pod.Name) >= o.want {
			k.release(s, s.pod.GracePeriod)
		}
	}
	for i := range o.want {
		name := o.Owner.Owner.Name + "-" + strconv.Itoa(i)
		q := o.queues[name]
		if q == nil || k.w.Pods[model.PodKey(q.like.Pod.Namespace, name)] != nil {
			continue // it is there, or such a pod was never seen
		}
		life, again := q.take(k.w.Now)
		if !again.IsZero() {
			k.w.At(again, func() { k.touch(o) })
			continue
		}
		like := q.like
		if life != nil {
			like = life
		}
		k.make(o, nil, like, k.podLike(o, like, life != nil, name))
	}
}

func ordinalOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0
	}
	return n
}

// podLike returns a pod as a recorded one was created: that one, or another like it.
func (k *workloads) podLike(o *ownerState, like *Pod, real bool, name string) *model.Pod {
	p := *like.Pod
	p.Created, p.Unschedulable = k.w.Now, time.Time{}
	k.w.Serial++
	p.Seen = uint64(k.w.Serial)
	if !real {
		p.UID = fmt.Sprintf("replay-%d", k.w.Serial)
		if p.Name = name; name == "" {
			p.Name = fmt.Sprintf("%s-replay-%d", cmp.Or(o.Owner.Owner.Name, like.Pod.Name), k.w.Serial)
		}
	}
	return &p
}

// victims are an owner's pods in the order in which a ReplicaSet that has too many deletes them, but that those which the recorded
// controller deleted about now go before others that run, those deleted nearest to now first.
func (k *workloads) victims(o *ownerState) []*podState {
	onNode := map[string]int{}
	for _, s := range o.pods {
		onNode[s.pod.Node]++
	}
	deleted := func(s *podState) time.Duration {
		if s.pod.UID != s.life.Pod.UID || s.life.Ended.IsZero() || s.life.Disrupted != "" {
			return identityWait
		}
		return min(s.life.Ended.Sub(k.w.Now).Abs(), identityWait)
	}
	bound := func(s *podState) int {
		if s.pod.Node == "" {
			return 0
		}
		return 1
	}
	out := slices.Clone(o.pods)
	slices.SortStableFunc(out, func(a, b *podState) int {
		return cmp.Or(cmp.Compare(bound(a), bound(b)), cmp.Compare(deleted(a), deleted(b)), cmp.Compare(a.pod.DeletionCostValue(), b.pod.DeletionCostValue()),
			cmp.Compare(onNode[b.pod.Node], onNode[a.pod.Node]), b.born.Compare(a.born), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

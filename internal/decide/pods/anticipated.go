// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A Deployment of a thousand pods is a thousand pods that come one after another: over fifty seconds at
// kube-controller-manager's default of twenty requests a second. How many will come is known with the first of them,
// from the ReplicaSet. So machines are bought for the pods that are not there yet together with those that are, as one
// demand: few and large machines, which boot while the pods are still being made. These pods are the anticipated ones.
// Slots are by class and owner (contract 9), so each pod finds its own when it comes.
//
// Pods that exist come first: where one would find no machine because of anticipated ones, none are anticipated.
//
// No pods are anticipated of a ReplicaSet that has made none for a while or reports that it can't, nor of one that has
// lost a pod and made none since (it may have been scaled down), nor in a namespace with a ResourceQuota: what is
// bought for pods that do not come is given back when its slots have waited long enough (see Slots.releaseEmpty). Nor
// where the last pod that was made has scheduling gates, or a volume of its own.

// AnticipationMemory is the state that Anticipate keeps between steps.
type AnticipationMemory struct {
	byOwner map[string]anticipatedPods // by uid of the ReplicaSet
}

// Anticipate returns the pods that ReplicaSets will create shortly and that fit on no existing node: kube-scheduler has refused a
// pod of their class, or such a pod is demand without a refusal or already has a slot. They remain anticipated until the last one
// is created, so nodes launched for them stay theirs even if their slots end earlier. There are at most model.MostExpected of them.
// Pods of a gang are never anticipated, because a gang is decided when its pods exist. Anticipation ends after the duration after
// since the last created pod of the ReplicaSet. The Part has the time of the next possible change.
func Anticipate(table *Table, held *Reservations, after time.Duration, mem AnticipationMemory) (pods []*model.Pod, out plan.Part, next AnticipationMemory) {
	next.byOwner = map[string]anticipatedPods{}
	for _, m := range table.Snapshot.Making {
		due := m.Like.Created.Add(after)
		x, before := mem.byOwner[m.Like.Owner.UID]
		if !table.Now.Before(due) || !before && !table.unschedulable[m.Like.Class] && !out.Heed(table.demandHasClass(m.Like)) && !held.hasSlotFor(m.Like) ||
			m.Like.Gated || m.Like.HasGang() || hasEphemeralVolume(m.Like) || !out.Heed(table.mayLaunchFor(m.Like)) {
			continue
		}
		out.WakeAt(due)
		want := min(m.Want, m.Have+model.MostExpected-len(pods))
		if m.Have < x.first || x.first+len(x.pods) < want || len(x.pods) > 0 && (x.pods[0].Class != m.Like.Class || !x.pods[0].Created.Equal(m.Like.Created)) {
			x = anticipatePods(m, want)
		}
		next.byOwner[m.Like.Owner.UID] = x
		pods = append(pods, x.pods[m.Have-x.first:want-x.first]...)
	}
	return pods, out, next
}

// hasEphemeralVolume reports whether a pod has a generic ephemeral volume, whose claim bears the pod's name: no other pod
// is of its class.
func hasEphemeralVolume(p *model.Pod) bool {
	return slices.ContainsFunc(p.Class.Volumes, func(v model.Volume) bool { return strings.HasPrefix(v.Claim, p.Key()+"-") })
}

// anticipatedPods are the pods of a ReplicaSet as they will be, from one number on.
type anticipatedPods struct {
	first int
	pods  []*model.Pod
}

// anticipatePods makes the pods that a ReplicaSet has to make, up to a number, as the last of them was made. By their
// names they come after all that are there.
func anticipatePods(m model.Making, want int) anticipatedPods {
	x := anticipatedPods{m.Have, make([]*model.Pod, want-m.Have)}
	all := make([]model.Pod, len(x.pods))
	for i := range all {
		p := &all[i]
		*p = *m.Like
		p.Name, p.UID, p.Expected = fmt.Sprintf("~%s (%d to come)", m.Like.Owner.Name, m.Have+i), fmt.Sprintf("%s/%d", m.Like.Owner.UID, m.Have+i), true
		p.Node, p.Nominated, p.Binding, p.ReservedFor, p.Reservations, p.Tolerating, p.Unreservable, p.Unbindable = "", "", "", "", nil, "", false, false
		p.Unschedulable, p.Bound, p.ReadySince, p.Ready = time.Time{}, time.Time{}, time.Time{}, false
		x.pods[i] = p
	}
	return x
}

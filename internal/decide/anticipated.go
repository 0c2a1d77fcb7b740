// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A Deployment of a thousand pods is a thousand pods that come one after another: over fifty seconds at
// kube-controller-manager's default of twenty requests a second. How many will come is known with the first of them,
// from the ReplicaSet. So machines are bought for the pods that are not there yet together with those that are, as one
// demand: few and large machines, which boot while the pods are still being made. These pods are the anticipated ones.
// Slots are by class and owner (contract 9), so each pod finds its own when it comes.
//
// Pods that exist come first: where one would find no machine because of anticipated ones, none are anticipated.
//
// No pods are anticipated of a ReplicaSet that has made none for a while or reports that it can't, nor in a namespace
// with a ResourceQuota: what is bought for pods that do not come is given back when its slots have waited long enough
// (see releaseEmptySlots). Nor where the last pod that was made has scheduling gates, or a volume of its own.

// anticipatedPods are the pods that ReplicaSets are about to make and that will fit nowhere: kube-scheduler has refused
// one of their class, or one of them is demand without that or has a slot already. Once they are, they stay so until
// the last is made: what was bought for them is theirs though its slots should end before. They are no more than
// model.MostExpected.
func (pt *podTable) anticipatedPods() []*model.Pod {
	if pt.anticipatedKnown {
		return pt.anticipated
	}
	pt.anticipatedKnown = true
	next := map[string]anticipatedPods{}
	for _, m := range pt.s.Making {
		due := m.Like.Created.Add(pt.pol.AnticipateFor)
		x, before := pt.demand.mem.anticipated[m.Like.Owner.UID]
		if !pt.now.Before(due) || !before && !pt.unschedulable[m.Like.Class] && !pt.demandHasClass(m.Like) && !pt.reservations.hasReservedSlot(m.Like) ||
			m.Like.Gated || hasEphemeralVolume(m.Like) {
			continue
		}
		pt.wakeAt(due)
		want := min(m.Want, m.Have+model.MostExpected-len(pt.anticipated))
		if m.Have < x.first || x.first+len(x.pods) < want || len(x.pods) > 0 && (x.pods[0].Class != m.Like.Class || !x.pods[0].Created.Equal(m.Like.Created)) {
			x = anticipatePods(m, want)
		}
		next[m.Like.Owner.UID] = x
		pt.anticipated = append(pt.anticipated, x.pods[m.Have-x.first:want-x.first]...)
	}
	pt.demand.mem.anticipated = next
	return pt.anticipated
}

// hasEphemeralVolume says whether a pod has a generic ephemeral volume, whose claim bears the pod's name: no other pod
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
		p.Node, p.Nominated, p.Binding, p.ReservedFor, p.Reservations, p.Unreservable, p.Unbindable = "", "", "", "", nil, false, false
		p.Unschedulable, p.Bound, p.ReadySince, p.Ready = time.Time{}, time.Time{}, time.Time{}, false
		x.pods[i] = p
	}
	return x
}

// packWithoutAnticipated solves again without the anticipated pods, and says whether that serves an existing pod which
// finds no machine otherwise: the anticipated ones may have taken all that can be had. It returns the demand, problem
// and result of that.
func (dm *demandStage) packWithoutAnticipated(left []*model.Pod, rooms []solve.ExistingNode, with *solve.Result) ([]*model.Pod, *solve.Problem, *solve.Result, bool) {
	expected := func(p *model.Pod) bool { return p.Expected }
	short := func(r solve.Refusal) bool {
		return !r.Pod.Expected && slices.ContainsFunc(r.Reasons, func(w plan.Reason) bool { return slices.Contains(contentionCodes, w.Code) })
	}
	if !slices.ContainsFunc(with.Refused, short) || !slices.ContainsFunc(with.New, func(n solve.NewNode) bool { return slices.ContainsFunc(n.Pods, expected) }) &&
		!slices.ContainsFunc(with.OnNodes, func(a solve.Assignment) bool { return slices.ContainsFunc(a.Pods, expected) }) {
		return nil, nil, nil, false
	}
	there := slices.DeleteFunc(slices.Clone(left), expected)
	problem, res := dm.packPods(there, rooms)
	refused := make(map[*model.Pod]bool, len(res.Refused))
	for _, r := range res.Refused {
		refused[r.Pod] = true
	}
	return there, problem, res, slices.ContainsFunc(with.Refused, func(r solve.Refusal) bool { return !r.Pod.Expected && !refused[r.Pod] })
}

// contentionCodes are the reasons for which a pod may be refused because of where others are to go.
var contentionCodes = []plan.Code{plan.Limit, plan.GroupMaximum, plan.OutOfCapacity, plan.TopologySpread, plan.PodAntiAffinity, plan.HostPortConflict,
	plan.VolumeTopology, plan.VolumeLimit, plan.VolumeExclusive}

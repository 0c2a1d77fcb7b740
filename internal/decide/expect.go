// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A Deployment of a thousand pods is a thousand pods that come one after another, over fifty seconds where kube-controller-manager keeps to its
// default of twenty requests a second. How many come is known with the first of them: it stands in the ReplicaSet. So pods that are not there
// yet are bought for with those that are, as one demand: in few and large machines, which boot while the pods are still being made.
// Slots are by class and owner (contract 9), so each pod finds its own when it comes.
//
// What is there comes first: where it would find no machine because of what is not, nothing is expected.
//
// Nothing is expected of a ReplicaSet that has made no pod for a while, or says that it can't, nor in a namespace with a ResourceQuota: what is
// bought for pods that do not come is given back when its slots have waited long enough (see shrink).

// expected are the pods that ReplicaSets are about to make and that will fit nowhere: kube-scheduler has refused the last that was made, or one of
// its class, or its likes have slots already.
func (st *step) expected() []*model.Pod {
	if st.expecting {
		return st.expects
	}
	st.expecting = true
	next := map[string][]*model.Pod{}
	for _, m := range st.s.Making {
		due := m.Like.Created.Add(st.pol.Expect)
		if !st.now.Before(due) || !st.unschedulable[m.Like.Class] && (m.Like.Node != "" || !st.wanted(m.Like)) && !st.slotted(m.Like) {
			continue
		}
		st.at(due)
		want := min(m.Want, m.Have+mostExpected-len(st.expects))
		pods := st.mem.expects[m.Like.Owner.UID]
		if len(pods) < want || pods[0].Class != m.Like.Class || pods[0].Created != m.Like.Created {
			pods = imagine(m.Like, min(m.Want, want+mostExpected))
		}
		next[m.Like.Owner.UID] = pods
		st.expects = append(st.expects, pods[m.Have:want]...)
	}
	st.mem.expects = next
	return st.expects
}

// slotted says whether pods of a class and an owner are waited for on machines that hold room.
func (st *step) slotted(p *model.Pod) bool {
	k := slotKey{ClassHash(p.Class), slotOwner(p)}
	for _, h := range st.held {
		if _, ok := h.at[k]; ok {
			return true
		}
	}
	return false
}

// mostExpected is how many pods are expected at a time, of all ReplicaSets: enough for large machines, and one with a digit too many is a
// mistake that may yet be put right.
const mostExpected = 5000

// imagine makes the first pods of a ReplicaSet as the last of them was made, by their number. By their names they come after all that are there.
func imagine(like *model.Pod, count int) []*model.Pod {
	pods := make([]*model.Pod, count)
	all := make([]model.Pod, count)
	for i := range all {
		p := &all[i]
		*p = *like
		p.Name, p.UID, p.Expected = fmt.Sprintf("~%s (%d to come)", like.Owner.Name, i), fmt.Sprintf("%s/%d", like.Owner.UID, i), true
		p.Node, p.Nominated, p.ReservedFor, p.Reservations, p.Unreservable = "", "", "", nil, false
		p.Unschedulable, p.Bound, p.ReadySince, p.Ready = time.Time{}, time.Time{}, time.Time{}, false
		pods[i] = p
	}
	return pods
}

// crowdedOut says whether a pod that is there finds no machine while pods are counted on that are not, which may have taken what can be had.
func crowdedOut(res *solve.Result) bool {
	there := slices.ContainsFunc(res.Refused, func(r solve.Refusal) bool {
		return !r.Pod.Expected && slices.ContainsFunc(r.Reasons, func(w plan.Reason) bool {
			return w.Code == plan.Limit || w.Code == plan.GroupMaximum || w.Code == plan.OutOfCapacity
		})
	})
	expected := func(p *model.Pod) bool { return p.Expected }
	return there && (slices.ContainsFunc(res.New, func(n solve.NewNode) bool { return slices.ContainsFunc(n.Pods, expected) }) ||
		slices.ContainsFunc(res.OnRooms, func(a solve.Assignment) bool { return slices.ContainsFunc(a.Pods, expected) }))
}

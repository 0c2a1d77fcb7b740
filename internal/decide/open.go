// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// admit lets pods into the nodes that are held for them. A reservation keeps room from those who could take it; where nobody else could,
// it is taken away and the pods need no toleration, which is one write for a node instead of one for each of its pods. That is so when
// all that a node still awaits is of one class, and no pod of another class that may be bound anywhere would fit in the room that is left.
// Pods of one class may change places freely: there is as much room for them as there are of them.
//
// Otherwise they are given their tolerations as soon as the machine is bought, the oldest first, which is the order in which kube-scheduler
// looks at them: a look in vain is two writes, and a toleration one.
func (st *step) admit() {
	opened := map[string]time.Time{}
	var let []letting
	var rivals map[*model.Class]bool
	for _, name := range sortedKeys(st.held) {
		h := st.held[name]
		c := h.claim
		if !c.Reserved || c.UID == "" {
			continue
		}
		if h.opened {
			opened[name], _ = st.openedAt(c)
			continue
		}
		last := st.last(h)
		if last != nil && rivals == nil {
			rivals = st.rivals()
		}
		if last != nil && len(h.strict()) == 1 && !st.contested(h, last, rivals) {
			h.open, opened[name] = true, st.now
			continue
		}
		for _, p := range h.let {
			let = append(let, letting{p, c})
		}
	}
	st.mem.opened = opened
	slices.SortFunc(let, func(a, b letting) int { return older(a.pod, b.pod) })
	for _, l := range let {
		st.act(plan.Tolerate{Namespace: l.pod.Namespace, Pod: l.pod.Name, UID: l.pod.UID, Claim: l.claim.Name,
			Why: plan.Reason{Code: plan.Demand, Pool: l.claim.Pool, Subject: l.claim.Name}})
	}
}

// older compares pods in the order in which they were made.
func older(a, b *model.Pod) int {
	return cmp.Or(cmp.Compare(a.Seen, b.Seen), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

type letting struct {
	pod   *model.Pod
	claim *model.Claim
}

// strict are the slots that a claim's reservation still waits for, by class.
func (h *holding) strict() map[string]model.Resources {
	out := map[string]model.Resources{}
	for _, s := range h.slots {
		if !s.Loose && s.bound+s.refused < s.Count {
			out[s.Class] = s.Requests
		}
	}
	return out
}

// last is the smallest class that a claim still awaits, if its pods may change places with others of theirs and one of them is there;
// else nil. Pods that are on other nodes yet have their room kept for them whatever comes meanwhile.
func (st *step) last(h *holding) *model.Class {
	if h.claim.Annotations[AnnotationMove] != "" || slices.ContainsFunc(h.pods, func(p *model.Pod) bool { return p.Node != "" }) {
		return nil
	}
	smallest, requests := "", model.Resources(nil)
	for class, r := range h.strict() {
		if c := slices.Compare(r, requests); smallest == "" || c < 0 || c == 0 && class < smallest {
			smallest, requests = class, r
		}
	}
	for _, p := range h.pods {
		if st.slot(p).class != smallest {
			continue
		}
		if slices.ContainsFunc(p.Class.Spread, func(s model.SpreadConstraint) bool { return s.Hard }) || len(p.Class.Affinity)+len(p.Class.AntiAffinity) > 0 {
			return nil
		}
		return p.Class
	}
	return nil
}

// rivals are the classes of all pods that kube-scheduler may bind somewhere: those pending and those that are going to be. Also those that
// fit nowhere by the last look: it may be the very slots that were in their way.
func (st *step) rivals() map[*model.Class]bool {
	out := map[*model.Class]bool{}
	for _, p := range st.s.Pending {
		if !p.Gated {
			out[p.Class] = true
		}
	}
	for _, pods := range [][]*model.Pod{st.leaving(), st.moving(), st.expected()} {
		for _, p := range pods {
			out[p.Class] = true
		}
	}
	return out
}

// contested says whether a pod of another class would fit in what is left of a claim's machine.
func (st *step) contested(h *holding, class *model.Class, rivals map[*model.Class]bool) bool {
	free := h.claim.Allocatable
	if h.node != nil {
		free = h.node.Allocatable.Sub(h.node.Used)
	}
	if free == nil {
		return true // what it will be is not known yet
	}
	for r := range rivals {
		if r != class && r.Requests.Fits(free) {
			return true
		}
	}
	return false
}

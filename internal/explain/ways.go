// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// waitingLike returns the UIDs of the pending pods that are refused like the given pod: pods of the same workload and
// class, and pods with the same first reason.
func (ex *explanation) waitingLike(p *model.Pod) map[string]bool {
	alike := map[string]bool{}
	_, own := outcomeFor(ex.answers(), p)
	for _, d := range ex.answers().Decisions() {
		if d.Outcome == plan.Refused && (d.Pod.Owner == p.Owner && d.Pod.Class == p.Class || len(own) > 0 && d.Reasons[0] == own[0]) {
			alike[d.Pod.UID] = true
		}
	}
	return alike
}

// forAll returns the way with the number of pods in alike that it starts. If the way raises limits of NodePools, it
// raises them by what all these pods need, if that starts more of them.
func (ex *explanation) forAll(w plan.Way, p *model.Pod, alike map[string]bool) plan.Way {
	if w.Waiting = len(alike); w.Waiting == 1 {
		w.Starts = 1
		return w
	}
	out, err := ex.after(w.Changes)
	if err != nil {
		return w
	}
	if w.Starts = countPlaced(out.All(), alike); w.Starts == 0 && alike[p.UID] {
		w.Starts = 1 // the next step starts it, but other pods will use its capacity when kube-scheduler has evaluated them
	} else if w.Starts > 1 {
		w.Then = launchesFor(out.All(), alike, w.Then)
	}
	if w.Starts == w.Waiting {
		return w
	}
	larger, ok := ex.raiseLimits(w)
	if !ok {
		return w
	}
	if out, err = ex.after(larger.Changes); err == nil {
		alt, _ := outcomeFor(out, p)
		if starts := countPlaced(out.All(), alike); alt != nil && starts > w.Starts {
			larger.Starts, larger.Then = starts, launchesFor(out.All(), alike, *alt)
			return larger
		}
	}
	return w
}

// after returns the decisions that would be made after changes.
func (ex *explanation) after(changes []plan.Change) (*decide.Answers, error) {
	s := ex.s
	for _, ch := range changes {
		var err error
		if s, err = Apply(s, ch); err != nil {
			return nil, err
		}
	}
	return ex.WhatIf(s), nil
}

const limitField = "spec.limits."

// raiseLimits returns the way with each NodePool limit that it raises, and all other limits of these NodePools, raised
// to what the pending pods need. It returns false if the way raises no limit.
func (ex *explanation) raiseLimits(w plan.Way) (plan.Way, bool) {
	const beyond = int64(1) << 52 // more than any cluster has
	others, pools := []plan.Change{}, []*model.NodePool{}
	for _, ch := range w.Changes {
		name, isPool := strings.CutPrefix(ch.Object, "nodepool/")
		if !isPool || !strings.HasPrefix(ch.Field, limitField) {
			others = append(others, ch)
		} else if pool := ex.Pool(name); pool != nil && !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	if len(pools) == 0 {
		return w, false
	}
	limit := func(pool *model.NodePool, resource, value string) plan.Change {
		return plan.Change{Object: "nodepool/" + pool.Name, Field: limitField + resource, Op: plan.Set, Value: value}
	}
	open := slices.Clone(others)
	for _, pool := range pools {
		for d, has := range pool.HasLimit {
			if has {
				open = append(open, limit(pool, ex.s.ResourceNames[d], model.FormatAmount(model.Dim(d), beyond)))
			}
		}
		if pool.NodeLimit >= 0 {
			open = append(open, limit(pool, "nodes", strconv.FormatInt(beyond, 10)))
		}
	}
	out, err := ex.after(open)
	if err != nil {
		return w, false
	}
	w.Changes = others
	for _, pool := range pools {
		var used model.Resources
		nodes := ex.countClaims(pool.Name)
		for _, a := range out.All().Actions {
			if c, ok := a.(plan.CreateClaim); ok && c.Pool.Name == pool.Name {
				var most model.Resources
				for _, t := range c.Types {
					most = most.Max(t.Capacity)
				}
				used = used.AddInto(most, 1)
				nodes++
			}
		}
		left := ex.leftOf(pool.Name)
		for d, has := range pool.HasLimit {
			dim := model.Dim(d)
			if need := pool.Limits.At(dim) - left.At(dim) + used.At(dim); has && need > pool.Limits.At(dim) {
				w.Changes = append(w.Changes, limit(pool, ex.s.ResourceNames[d], model.FormatAmount(dim, RoundUpLimit(dim, need))))
			}
		}
		if pool.NodeLimit >= 0 && nodes > pool.NodeLimit {
			w.Changes = append(w.Changes, limit(pool, "nodes", strconv.FormatInt(nodes, 10)))
		}
	}
	return w, len(w.Changes) > len(others)
}

// leftOf returns what remains of a NodePool's limits.
func (ex *explanation) leftOf(pool string) model.Resources {
	for _, b := range ex.Pools() {
		if b.Name == pool {
			return b.Left
		}
	}
	return nil
}

// unlikeliness returns a sort key for ways, determined by their least likely change. Users create missing objects and
// raise limits more readily than they change a NodePool, and change a NodePool more readily than the requirements of a
// pod.
func unlikeliness(w plan.Way) (most int) {
	if w.Of != plan.Demand {
		return 0
	}
	for _, ch := range w.Changes {
		kind, _, _ := strings.Cut(ch.Object, "/")
		n := 3 // a pod or its template: where the pod may run
		switch {
		case ch.Field == "" || strings.HasPrefix(ch.Field, limitField) || ch.Field == "maxSize" || kind == plan.Controller || kind == "capacityquota":
			n = 0
		case (kind == "nodepool" || kind == "nodegroup" || kind == "provisioner") && ch.Op != plan.Remove:
			n = 1
		case kind == "nodepool" || kind == "provisioner" || strings.HasSuffix(ch.Field, "schedulerName") || strings.HasSuffix(ch.Field, "schedulingGates") ||
			strings.HasSuffix(ch.Field, ".whenUnsatisfiable") || strings.HasSuffix(ch.Field, ".minDomains") || strings.Contains(ch.Field, ".requests["):
			n = 2
		}
		most = max(most, n)
	}
	return most
}

// compareRequests compares ways that lower a request. They come after other ways, the largest remaining request first.
func compareRequests(x, y plan.Way) int {
	request := func(w plan.Way) (resource string, amount int64) {
		for _, ch := range w.Changes {
			if res, ok := bracketKey(ch.Field, "spec.containers[*].resources.requests"); ok {
				v, _ := model.ParseAmount(model.DimOf(res), ch.Value)
				return res, v
			}
		}
		return "", 0
	}
	a, most := request(x)
	b, other := request(y)
	return cmp.Or(strings.Compare(a, b), cmp.Compare(other, most))
}

// dropLonger removes the ways that contain all changes of an earlier way, and more.
func dropLonger(a *plan.Answer) {
	var kept []plan.Way
	for _, w := range a.Ways {
		if !slices.ContainsFunc(kept, func(o plan.Way) bool {
			return o.Of == w.Of && len(o.Changes) > 0 && !o.After.After(w.After) && !slices.ContainsFunc(o.Changes, func(ch plan.Change) bool { return !slices.Contains(w.Changes, ch) })
		}) {
			kept = append(kept, w)
		}
	}
	a.Ways = append(a.Ways[:0], kept...)
}

// nearestFirst moves the finding of the NodePool that the best editable way uses before the other findings about
// NodePools, so that the first reason and the first change refer to the same NodePool.
func nearestFirst(a *plan.Answer) {
	best := slices.IndexFunc(a.Ways, func(w plan.Way) bool {
		return w.Of == plan.Demand && w.IsEditable()
	})
	if best < 0 {
		return
	}
	ofPool := func(f plan.Finding) bool { return f.Of == plan.Demand && f.Reason.Pool != "" }
	first := slices.IndexFunc(a.Findings, ofPool)
	nearest := slices.IndexFunc(a.Findings, func(f plan.Finding) bool { return ofPool(f) && f.Reason.Pool == a.Ways[best].Pool })
	if nearest > first {
		f := a.Findings[nearest]
		a.Findings = slices.Insert(slices.Delete(a.Findings, nearest, nearest+1), first, f)
	}
}

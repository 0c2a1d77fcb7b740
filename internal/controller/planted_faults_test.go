// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// This file is all that plants faults. It is no test itself, so that test/e2e can build it into a controller: what is planted in a NodePool follows
// from the NodePool's name alone.

// faultyPool is the NodePool whose plans are spoilt by plantedFaults[i], between decide and verify.
func faultyPool(i int) string { return fmt.Sprintf("faulty-%02d", i) }

// planted is a fault of the solver: it spoils the machines that a plan launches from one NodePool.
type planted struct {
	name  string
	spoil func(x *spoiling)
	// stays: the fault is in the figures alone, so that the pods get their nodes.
	stays bool
}

// spoiling is a plan that is about to be spoilt: copies of all that may be changed.
type spoiling struct {
	out    *decide.Output
	res    *solve.Result
	pool   string
	faulty []int // machines of the pool, by place in res.New
}

// each spoils every machine of the pool.
func each(f func(x *spoiling, n *solve.NewNode)) func(*spoiling) {
	return func(x *spoiling) {
		for _, i := range x.faulty {
			f(x, &x.res.New[i])
		}
	}
}

// ofClaims spoils the NodeClaims of the pool.
func ofClaims(f func(x *spoiling, a *plan.CreateClaim)) func(*spoiling) {
	return func(x *spoiling) {
		for i, a := range x.out.Actions {
			if c, ok := a.(plan.CreateClaim); ok && c.Pool.Name == x.pool {
				f(x, &c)
				x.out.Actions[i] = c
			}
		}
	}
}

// drop takes the machines of the pool out of a plan and returns them.
func (x *spoiling) drop() (gone []solve.NewNode) {
	for _, i := range x.faulty {
		gone = append(gone, x.res.New[i])
		x.res.Cost.NewMicroPerHour -= x.res.New[i].PriceMicro
	}
	x.res.New = slices.DeleteFunc(x.res.New, func(n solve.NewNode) bool { return n.Pool == x.pool })
	x.res.Cost.BoundMicroPerHour = 0
	return gone
}

var plantedFaults = []planted{
	{"capacity: a choice is too small", each(func(_ *spoiling, n *solve.NewNode) {
		small := *n.Type
		small.Allocatable = model.Resources{1, 1, 0, 1}
		n.Choices = append(slices.Clone(n.Choices), &small)
	}), false},
	{"a DaemonSet's pods not counted", each(func(_ *spoiling, n *solve.NewNode) {
		small, pods := *n.Type, int64(0)
		for _, p := range n.Pods {
			pods += p.Class.Requests[model.CPU]
		}
		small.Allocatable = slices.Clone(small.Allocatable)
		small.Allocatable[model.CPU] = pods
		n.Choices = append(slices.Clone(n.Choices), &small)
	}), false},
	{"a zone without offerings", each(func(_ *spoiling, n *solve.NewNode) { n.Zones = []string{"nowhere"} }), false},
	{"a capacity type without offerings", each(func(_ *spoiling, n *solve.NewNode) { n.CapacityTypes = []string{model.Spot} }), false},
	{"a taint ignored", each(func(_ *spoiling, n *solve.NewNode) { n.Pool = "tainted" }), false},
	{"a selector ignored", each(func(_ *spoiling, n *solve.NewNode) { n.Pool = "p" }), false},
	{"a NodePool that is not there", each(func(_ *spoiling, n *solve.NewNode) { n.Pool = "ghost" }), false},
	{"requirements of the NodePool ignored", each(func(_ *spoiling, n *solve.NewNode) {
		n.Requirements = n.Requirements.With(model.OneOf(model.LabelInstanceType, "other"))
	}), false},
	{"the cheapest type is not among the choices", each(func(_ *spoiling, n *solve.NewNode) { n.Choices = n.Choices[1:] }), false},
	{"minValues broken", each(func(_ *spoiling, n *solve.NewNode) { n.Choices = n.Choices[:1] }), false},
	{"the price is not that of the cheapest", each(func(x *spoiling, n *solve.NewNode) { n.PriceMicro++; x.res.Cost.NewMicroPerHour++ }), false},
	{"a slot of a pod that is not pending", each(func(_ *spoiling, n *solve.NewNode) {
		n.Pods = append(slices.Clone(n.Pods), &model.Pod{Namespace: "default", Name: "gone", UID: "gone", Class: n.Pods[0].Class})
	}), false},
	{"a pod forgotten", each(func(_ *spoiling, n *solve.NewNode) { n.Pods = n.Pods[1:] }), false},
	{"a pod placed twice", each(func(_ *spoiling, n *solve.NewNode) { n.Pods = append(slices.Clone(n.Pods), n.Pods[0]) }), false},
	{"a machine for nobody", func(x *spoiling) {
		for _, i := range x.faulty {
			empty := x.res.New[i]
			empty.Pods = nil
			x.res.New = append(x.res.New, empty)
			x.res.Cost.NewMicroPerHour += empty.PriceMicro
		}
	}, false},
	{"limits exceeded", func(x *spoiling) {
		for _, i := range x.faulty { // each pod has a node, of which the limit allows two
			n := x.res.New[i]
			for _, p := range n.Pods[1:] {
				own := n
				own.Pods = []*model.Pod{p}
				x.res.New = append(x.res.New, own)
				x.res.Cost.NewMicroPerHour += own.PriceMicro
			}
			x.res.New[i].Pods = n.Pods[:1]
		}
	}, false},
	{"anti-affinity broken", func(x *spoiling) {
		var all []*model.Pod
		gone := x.drop()
		for _, n := range gone {
			all = append(all, n.Pods...)
		}
		gone[0].Pods = all
		x.res.New = append(x.res.New, gone[0])
		x.res.Cost.NewMicroPerHour += gone[0].PriceMicro
	}, false},
	{"a refusal without a reason", func(x *spoiling) {
		for _, n := range x.drop() {
			for _, p := range n.Pods {
				x.res.Refused = append(x.res.Refused, solve.Refusal{Pod: p})
			}
		}
	}, false},
	{"a node that is not there", func(x *spoiling) {
		for _, n := range x.drop() {
			x.res.OnNodes = append(x.res.OnNodes, solve.Assignment{Node: "ghost", Pods: n.Pods})
		}
	}, false},
	{"NodeClaims of one name", ofClaims(func(x *spoiling, a *plan.CreateClaim) { a.Name = x.pool + "-same" }), false},
	{"a NodeClaim without a name", ofClaims(func(_ *spoiling, a *plan.CreateClaim) { a.Name = "" }), false},
	{"slots counted twice", ofClaims(func(_ *spoiling, a *plan.CreateClaim) {
		a.Slots = slices.Clone(a.Slots)
		for i := range a.Slots {
			a.Slots[i].Count *= 2
		}
	}), false},
	{"a panic", func(*spoiling) {
		panic("index out of range")
	}, false},
	{"the sum is wrong", func(x *spoiling) { x.res.Cost.NewMicroPerHour += int64(len(x.faulty)) }, true},
	{"the bound is above the cost", func(x *spoiling) {
		x.res.Cost.BoundMicroPerHour = x.res.Cost.NewMicroPerHour + 1
	}, true},
}

// spoilt is a decision whose plans are spoilt in each NodePool that a fault is planted in.
func spoilt(step approve.StepFunc) approve.StepFunc {
	return func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
		out, next := step(s, mem, now, pol, req)
		if out.Result == nil {
			return out, next
		}
		res := *out.Result
		res.New, res.OnNodes, res.Refused = slices.Clone(res.New), slices.Clone(res.OnNodes), slices.Clone(res.Refused)
		out.Result, out.Actions = &res, slices.Clone(out.Actions)
		for i, f := range plantedFaults {
			x := &spoiling{out: &out, res: &res, pool: faultyPool(i)}
			for j, n := range res.New {
				if n.Pool == x.pool {
					x.faulty = append(x.faulty, j)
				}
			}
			if len(x.faulty) > 0 {
				f.spoil(x)
			}
		}
		return out, next
	}
}

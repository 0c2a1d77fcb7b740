// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Machines returns the price of nodes for the pods of a class, and how many of the pods an empty node holds in addition to
// DaemonSet pods: for each instance type that a ready NodePool may launch for the class, at its lowest price. Types are omitted if
// another type holds as many pods for the same price or less. pools are the names of the NodePools that may launch any of the
// types, in order. Only labels, taints and sizes are considered; other constraints can only raise the price.
func Machines(all []*model.NodePool, daemons []*model.Daemon, class *model.Class) (machines []Machine, pools []string) {
	var overhead model.Resources
	for _, d := range daemons {
		overhead = overhead.Add(d.Pod().Requests)
	}
	for _, p := range all {
		if !p.Ready || p.Replicas >= 0 || p.Deleting || model.Untolerated(p.Taints, class.Tolerations) != nil {
			continue
		}
		before := len(machines)
		for _, t := range p.Types {
			if pods := podsOn(t, overhead, class.Requests); pods > 0 {
				if price := lowestPrice(p, t, class); price >= 0 {
					machines = append(machines, Machine{Pods: pods, MicroPerHour: price})
				}
			}
		}
		if len(machines) > before {
			pools = append(pools, p.Name)
		}
	}
	slices.Sort(pools)
	return withoutDominated(machines), pools
}

// podsOn returns how many pods an empty node of a type holds.
func podsOn(t *model.InstanceType, overhead, requests model.Resources) int {
	pods := int64(1 << 30)
	for i, need := range requests {
		if d := model.Dim(i); need > 0 {
			pods = min(pods, max(0, t.Allocatable.At(d)-overhead.At(d))/need)
		}
	}
	return int(pods)
}

// lowestPrice returns the price of a type's cheapest offering that a pool may launch for pods of a class; -1 where
// there is none.
func lowestPrice(p *model.NodePool, t *model.InstanceType, class *model.Class) int64 {
	if !p.MayBuyType(t) {
		return -1
	}
	least := int64(-1)
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Available && p.MayBuyOffering(o) && (least < 0 || o.PriceMicro < least) && selects(class, p, t, o) {
			least = o.PriceMicro
		}
	}
	return least
}

// selects reports whether the node selection of a class allows a node of an offering.
func selects(class *model.Class, p *model.NodePool, t *model.InstanceType, o *model.Offering) bool {
	if len(class.Terms) == 0 {
		return true
	}
	value := func(key string) (string, bool) {
		switch key {
		case model.LabelZone:
			return o.Zone, true
		case model.LabelCapacityType:
			return o.CapacityType, true
		case model.LabelNodePool:
			return p.Name, true
		case model.LabelRegistered, model.LabelInitialized:
			return "true", true
		}
		for _, labels := range []model.Labels{o.Labels, t.Labels, p.Labels} {
			if v, ok := labels[key]; ok {
				return v, true
			}
		}
		return "", false
	}
	return slices.ContainsFunc(class.Terms, func(term model.NodeTerm) bool {
		for i := range term.Requirements {
			r := &term.Requirements[i]
			v, ok := value(r.Key)
			if open := p.Requirements.Get(r.Key); !ok && open != nil {
				if both := r.Intersect(*open); both.Empty() {
					return false
				}
				continue
			}
			if !r.Matches(v, ok) {
				return false
			}
		}
		return true
	})
}

// withoutDominated leaves out what costs no less than a machine that holds as many pods, and sorts by pods.
func withoutDominated(machines []Machine) []Machine {
	slices.SortFunc(machines, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.MicroPerHour, b.MicroPerHour))
	})
	var out []Machine
	for _, m := range machines {
		if len(out) == 0 || m.MicroPerHour < out[len(out)-1].MicroPerHour {
			out = append(out, m)
		}
	}
	slices.Reverse(out)
	return out
}

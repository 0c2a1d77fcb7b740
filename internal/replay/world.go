// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"cmp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// world is a Trace that is being played.
type world struct {
	*sim.Cluster
	trace   *Trace
	variant *Variant
	meter   *meter
	work    *workloads
	boots   *boots
	result  Result

	mem      decide.Memory
	policy   decide.Policy
	types    map[string][]*model.InstanceType // by NodePool
	reasons  map[string]string                // by claim name: why it is deleted
	nodes    map[string]*standing             // without a NodeClaim
	machines map[string]*sim.Machine          // by node
	refused  map[string]map[string]bool       // by code: uids of pods
	pools    int                              // the next of variant.Pools
}

// standing is a node without a NodeClaim.
type standing struct {
	since time.Time
	node  *model.Node
}

// stand adds or changes a node without a NodeClaim.
func (w *world) stand(n *model.Node) {
	s := w.nodes[n.Name]
	if s == nil {
		s = &standing{since: w.Now}
		w.nodes[n.Name] = s
	}
	s.node = n
	w.SetNode(n)
}

// leave ends a node without a NodeClaim.
func (w *world) leave(name string) {
	if s := w.nodes[name]; s != nil {
		w.endStanding(s)
		delete(w.nodes, name)
		w.DropNode(name)
	}
}

func (w *world) endStanding(s *standing) {
	t, o := findOffering(w.variant.Types, s.node.Labels[model.LabelInstanceType], s.node.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(s.node.Labels), model.OnDemand))
	p := price{}
	if o != nil {
		p = priceOf(t, o)
	}
	w.meter.paid("", p, s.since, w.Now)
	w.meter.stood(s.node.Allocatable, s.since, w.Now)
}

// interrupt has the cloud take a machine away that is as the recorded one was: that of the claim of the same name, else the oldest of the same
// offering.
func (w *world) interrupt(x *Claim) {
	var hit *sim.Machine
	for _, m := range w.Machines {
		if m.Gone || !m.Doomed.IsZero() || w.ClaimOf(m) == nil {
			continue
		}
		if m.ClaimName == x.Last.Name {
			hit = m
			break
		}
		if m.Type.Name != x.Last.Labels[model.LabelInstanceType] || m.Offering.Zone != x.Last.Labels[model.LabelZone] || m.Offering.CapacityType != x.Last.Labels[model.LabelCapacityType] {
			continue
		}
		if hit == nil || m.Launched.Before(hit.Launched) || m.Launched.Equal(hit.Launched) && m.ID < hit.ID {
			hit = m
		}
	}
	if hit == nil {
		w.result.MissedInterruptions++
		return
	}
	kind := "SpotInterruption"
	if n, ok := cluster.ReadNotice(x.Last); ok {
		kind = n.Kind
	}
	w.Interrupt(w.ClaimOf(hit), hit, kind, true)
}

// whyLeft returns the NodePool of a node, and why its NodeClaim is deleted; empty: it isn't.
func (w *world) whyLeft(node string) (pool, reason string) {
	m := w.machines[node]
	if m == nil {
		return "", ""
	}
	return m.Pool, w.reasons[m.ClaimName]
}

func findOffering(types []*model.InstanceType, name, zone, capacityType string) (*model.InstanceType, *model.Offering) {
	for _, t := range types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; t.Name == name && o.Zone == zone && o.CapacityType == capacityType {
				return t, o
			}
		}
	}
	return nil, nil
}

// priceOf returns what a machine of an offering costs. Its list price is that of the same type and zone on demand.
func priceOf(t *model.InstanceType, o *model.Offering) price {
	p := price{micro: o.PriceMicro, list: listPrice(*o), known: o.PriceMicro > 0}
	for i := range t.Offerings {
		if d := &t.Offerings[i]; d.CapacityType == model.OnDemand && d.Zone == o.Zone {
			p.list = listPrice(*d)
		}
	}
	return p
}

func listPrice(o model.Offering) int64 {
	if o.PriceOverlay != "" {
		return o.ListPriceMicro
	}
	return o.PriceMicro
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Measure returns the figures of the recording itself. Nodes cost the prices of types, the cloud's instance types.
func Measure(t *Trace, types []*model.InstanceType) *Figures {
	m, pools := newMeter(t.From, t.To), map[string]string{}
	for _, n := range t.Nodes {
		pools[n.Node.Name] = n.Pool
		p := priceOfNode(n, types)
		from, to := n.Seen, n.Gone
		if x := n.Claim; x != nil {
			from, to = launchedAt(x), later(x.Gone, n.Gone)
		}
		m.paid(n.Pool, p, from, to)
		m.stood(n.Node.Allocatable, n.Seen, n.Gone)
	}
	for _, x := range t.Claims {
		if !x.First {
			m.launched(x.Last.Pool, launchedAt(x))
		}
		if x.Node == nil && !x.Launched.IsZero() { // its machine has not joined
			_, o := findOffering(types, x.Last.Labels[model.LabelInstanceType], x.Last.Labels[model.LabelZone], x.Last.Labels[model.LabelCapacityType])
			p := price{micro: x.PriceMicro, list: x.PriceMicro, known: x.PriceMicro > 0}
			if o != nil {
				p = price{o.PriceMicro, o.PriceMicro, true}
			}
			m.paid(x.Last.Pool, p, launchedAt(x), x.Gone)
		}
	}
	for _, o := range t.Owners {
		for _, p := range o.Pods {
			m.waited(p.Born, p.Bound, later(p.Gone, p.Ended))
			if !p.Bound.IsZero() {
				m.ran(p.Pod.Class.Requests, p.Bound, later(p.Gone, p.Ended))
			}
			if p.Disrupted != "" {
				m.evicted(pools[p.Node], p.Disrupted, p.Ended)
			}
		}
	}
	return m.figures()
}

func launchedAt(x *Claim) time.Time {
	if !x.Launched.IsZero() {
		return x.Launched
	}
	return x.Seen
}

// later returns the later of two instants, zero if either did not come.
func later(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return time.Time{}
	}
	return model.LaterOf(a, b)
}

// priceOfNode returns what a recorded node costs: as its NodeClaim says that it was launched for, else as its instance type costs.
func priceOfNode(n *Node, types []*model.InstanceType) price {
	p := price{}
	if t, o := findOffering(types, n.Type, n.Zone, n.CapacityType); o != nil {
		p = priceOf(t, o)
	}
	if x := n.Claim; x != nil && x.PriceMicro > 0 {
		if p.micro = x.PriceMicro; !p.known {
			p.list = p.micro
		}
		p.known = true
	}
	return p
}

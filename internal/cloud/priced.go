// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PriceTable contains prices that replace a provider's. Implementations are comparable; equal tables contain equal prices.
type PriceTable interface {
	// PriceMicro returns a price in micro-dollars per hour. It reports false if the table has none.
	PriceMicro(instanceType, zone, capacityType string) (int64, bool)
}

// Priced replaces prices of offerings with those of a table, and unknown prices with an estimate (standIn).
type Priced struct {
	Provider
	prices func() PriceTable
	log    *slog.Logger

	mu     sync.Mutex
	priced map[pricedKey]*pricedTypes
	latest map[NodeClassKey]*pricedTypes // what a class was last asked for
	said   map[NodeClassKey]string       // types without a price that the log has named
}

// NodeClassKey identifies a node class.
type NodeClassKey struct{ Group, Kind, Name string }

func keyOfClass(c NodeClass) NodeClassKey { return NodeClassKey{c.Group, c.Kind, c.Name} }

type pricedKey struct {
	types sliceID
	table PriceTable
}

// pricedTypes are instance types with their prices.
type pricedTypes struct {
	types    []*model.InstanceType
	replaced map[OfferingKey]pricedOffering // whose price is not the provider's; without groups
	unknown  []string                       // types with an offering whose price nobody knows, sorted
}

type pricedOffering struct {
	micro   int64
	standIn bool
}

// NewPriced returns a decorated provider. prices returns the current table, nil if there is none.
func NewPriced(p Provider, prices func() PriceTable, log *slog.Logger) *Priced {
	return &Priced{Provider: p, prices: prices, log: log, priced: map[pricedKey]*pricedTypes{}, latest: map[NodeClassKey]*pricedTypes{}, said: map[NodeClassKey]string{}}
}

// Unwrap implements Decorator.
func (p *Priced) Unwrap() Provider { return p.Provider }

// Offerings implements Provider.
func (p *Priced) Offerings(ctx context.Context, pool *model.NodePool, class NodeClass) ([]*model.InstanceType, error) {
	types, err := p.Provider.Offerings(ctx, pool, class)
	if err != nil || len(types) == 0 {
		return types, err
	}
	key := pricedKey{types: sliceID{&types[0], len(types)}, table: p.prices()}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.priced[key]
	if out == nil {
		if len(p.priced) >= overlays {
			clear(p.priced)
		}
		out = priceTypes(types, key.table)
		p.priced[key] = out
	}
	c := keyOfClass(class)
	p.latest[c] = out
	if text := strings.Join(out.unknown, ", "); text != p.said[c] {
		p.said[c] = text
		if text != "" {
			p.log.Warn("instance types without a price get an estimated one above all known prices; add them to --price-file", "nodeclass", class.Kind+"/"+class.Name, "types", text)
		}
	}
	return out.types, nil
}

// Launch implements Provider. What is bought is chosen by the prices of Offerings.
func (p *Priced) Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult {
	asked := make([]LaunchRequest, len(requests))
	priced := make([]*pricedTypes, len(requests))
	p.mu.Lock()
	for i, r := range requests {
		asked[i], priced[i] = r, p.latest[keyOfClass(r.Class)]
	}
	p.mu.Unlock()
	for i := range asked {
		asked[i].Prices = priced[i].pricesFor(&asked[i])
	}
	results := p.Provider.Launch(ctx, asked)
	for i := range results {
		r := &results[i]
		if priced[i] == nil || r.Err != nil {
			continue
		}
		if o, ok := priced[i].replaced[OfferingKey{InstanceType: r.InstanceType, Zone: r.Zone, CapacityType: r.CapacityType}]; ok {
			r.PriceMicro, r.Modelled = o.micro, o.standIn
		}
	}
	return results
}

// pricesFor returns the prices that a request is served by: its own, and those that are not the provider's.
func (t *pricedTypes) pricesFor(r *LaunchRequest) map[OfferingKey]int64 {
	if t == nil || len(t.replaced) == 0 {
		return r.Prices
	}
	out := map[OfferingKey]int64{}
	for k, o := range t.replaced {
		if len(r.Types) == 0 || slices.Contains(r.Types, k.InstanceType) {
			out[k] = o.micro
		}
	}
	maps.Copy(out, r.Prices)
	return out
}

// priceTypes returns instance types with the prices of a table, which may be nil.
func priceTypes(types []*model.InstanceType, table PriceTable) *pricedTypes {
	out := &pricedTypes{types: types, replaced: map[OfferingKey]pricedOffering{}}
	for i, t := range types {
		for j := range t.Offerings {
			o := &t.Offerings[j]
			if table == nil {
				continue
			}
			if v, ok := table.PriceMicro(t.Name, o.Zone, o.CapacityType); ok && (v != o.PriceMicro || o.Modelled) {
				out.set(types, i, j, pricedOffering{micro: v})
			}
		}
	}
	known := knownPrices(out.types)
	for i, t := range out.types {
		for j := range t.Offerings {
			if t.Offerings[j].PriceMicro <= 0 {
				out.set(types, i, j, pricedOffering{micro: known.standIn(t), standIn: true})
				if len(out.unknown) == 0 || out.unknown[len(out.unknown)-1] != t.Name {
					out.unknown = append(out.unknown, t.Name)
				}
			}
		}
	}
	return out
}

// set sets the price of an offering, in a copy of the provider's types.
func (t *pricedTypes) set(from []*model.InstanceType, i, j int, price pricedOffering) {
	if &t.types[0] == &from[0] {
		t.types = slices.Clone(from)
	}
	if t.types[i] == from[i] {
		changed := *from[i]
		changed.Offerings = slices.Clone(changed.Offerings)
		t.types[i] = &changed
	}
	o := &t.types[i].Offerings[j]
	o.PriceMicro, o.Modelled = price.micro, price.standIn
	t.replaced[OfferingKey{InstanceType: t.types[i].Name, Zone: o.Zone, CapacityType: o.CapacityType}] = price
}

// priceLevel is how dear the instance types of a node class are whose prices are known.
type priceLevel struct {
	most           int64 // the highest price, micro-dollars per hour
	perCPU, perGiB int64 // what a stand-in price counts a vCPU and a GiB as
}

const gib = 1 << 30

// knownPrices returns the level of the known prices. Without any, it is that of general-purpose machines of a large cloud.
func knownPrices(types []*model.InstanceType) priceLevel {
	var l priceLevel
	for _, t := range types {
		for i := range t.Offerings {
			v := t.Offerings[i].PriceMicro
			l.most = max(l.most, v)
			if c := t.Capacity.At(model.CPU); c > 0 {
				l.perCPU = max(l.perCPU, 2*v*1000/c)
			}
			if m := t.Capacity.At(model.Memory) / gib; m > 0 {
				l.perGiB = max(l.perGiB, 2*v/m)
			}
		}
	}
	if l.most == 0 {
		return priceLevel{perCPU: 32_000, perGiB: 4_200}
	}
	return l
}

// standIn returns a price for a type whose price nobody knows: above each known price, and for its vCPUs and its memory more
// than twice the highest known. So types with a price are preferred, also several small ones to a large one without, and of
// types without a price the smaller one. Each extended resource adds a dollar, so that pods that do not need it go elsewhere.
func (l priceLevel) standIn(t *model.InstanceType) int64 {
	price := l.most + l.perCPU*t.Capacity.At(model.CPU)/1000 + l.perGiB*(t.Capacity.At(model.Memory)/(gib/1024))/1024
	for d := model.FirstExtended; int(d) < len(t.Capacity); d++ {
		if t.Capacity[d] > 0 {
			price += 1_000_000
		}
	}
	return max(price, 1)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeoverlay

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Overlay is a NodeOverlay.
type Overlay struct {
	Name, UID    string
	Version      uint64 // resource version
	Weight       int32
	Requirements model.Requirements // labels of type, offering, NodePool and its template; all must match
	Price        PriceChange
	Capacity     []Resource // by Dim, without duplicates
	Devices      string     // devices of dynamic resource allocation that nodes will publish, which another package parses; empty: none
	Invalid      string     // why the spec is invalid; empty: valid

	Conditions map[string]model.Condition // as stored in the API server
}

// Equal reports whether two overlays have the same effect. Their status does not count.
func (o *Overlay) Equal(other *Overlay) bool {
	return o.Name == other.Name && o.UID == other.UID && o.Weight == other.Weight && o.Invalid == other.Invalid &&
		o.Requirements.Key() == other.Requirements.Key() && o.Price.equal(other.Price) && slices.Equal(o.Capacity, other.Capacity) && o.Devices == other.Devices
}

// Resource is an amount of an extended resource.
type Resource struct {
	Name   string
	Dim    model.Dim
	Amount int64
}

// PriceChange is a change of a price. The zero value changes nothing.
type PriceChange struct {
	kind  priceKind
	value *big.Rat // dollars an hour, or percent
}

type priceKind int

const (
	priceUnchanged priceKind = iota
	priceFixed
	priceAdded
	priceScaled
)

// LeastPrice is the minimum of an adjusted price, in micro-dollars per hour. At price 0, the cheapest offering would be undefined.
const LeastPrice = 1

// mostPrice bounds a price, in micro-dollars an hour, so that sums of prices don't overflow.
const mostPrice = 1_000_000_000_000_000

// ReadPrice parses spec.price: dollars per hour, at least 0.
func ReadPrice(s string) (PriceChange, error) {
	v, ok := readDecimal(s)
	if !ok {
		return PriceChange{}, fmt.Errorf("%q is not a price: use dollars per hour, such as 0.25", s)
	}
	return PriceChange{priceFixed, v}, nil
}

// ReadPriceAdjustment parses spec.priceAdjustment: a sign, a decimal number, and optionally a percent sign.
func ReadPriceAdjustment(s string) (PriceChange, error) {
	wrong := fmt.Errorf("%q is not a price adjustment: use dollars per hour or a percentage with its sign, such as -0.25 or +10%%, and no less than -100%%", s)
	if s == "" || s[0] != '+' && s[0] != '-' {
		return PriceChange{}, wrong
	}
	digits, percent := strings.CutSuffix(s[1:], "%")
	v, ok := readDecimal(digits)
	if !ok {
		return PriceChange{}, wrong
	}
	if s[0] == '-' {
		v.Neg(v)
	}
	if !percent {
		return PriceChange{priceAdded, v}, nil
	}
	if v.Cmp(big.NewRat(-100, 1)) < 0 {
		return PriceChange{}, wrong
	}
	return PriceChange{priceScaled, v}, nil
}

// readDecimal reads digits with at most one point between or before them.
func readDecimal(s string) (*big.Rat, bool) {
	if strings.Trim(s, "0123456789.") != "" || len(s) > 64 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// IsSet reports whether the price is changed.
func (c PriceChange) IsSet() bool { return c.kind != priceUnchanged }

func (c PriceChange) equal(o PriceChange) bool {
	return c.kind == o.kind && (c.value == nil || o.value != nil && c.value.Cmp(o.value) == 0)
}

// Apply returns the changed price; both are in micro-dollars per hour. It rounds to the nearest micro-dollar, halves up, and
// returns at least LeastPrice.
func (c PriceChange) Apply(micro int64) int64 {
	million := big.NewRat(1_000_000, 1)
	out := new(big.Rat)
	switch c.kind {
	case priceUnchanged:
		return micro
	case priceFixed:
		out.Mul(c.value, million)
	case priceAdded:
		out.Add(big.NewRat(micro, 1), out.Mul(c.value, million))
	case priceScaled:
		out.Add(big.NewRat(1, 1), out.Quo(c.value, big.NewRat(100, 1)))
		out.Mul(out, big.NewRat(micro, 1))
	}
	if out.Cmp(big.NewRat(mostPrice, 1)) > 0 {
		return mostPrice
	}
	if out.Cmp(big.NewRat(LeastPrice, 1)) < 0 {
		return LeastPrice
	}
	out.Add(out, big.NewRat(1, 2))
	return max(LeastPrice, new(big.Int).Div(out.Num(), out.Denom()).Int64())
}

// matchesOffering reports whether an offering of a type, in a pool, is meant by the overlay.
func (o *Overlay) matchesOffering(p *Pool, t *model.InstanceType, f *model.Offering) bool {
	for i := range o.Requirements {
		r := &o.Requirements[i]
		if v, ok := labelOf(p, t, f, r.Key); !r.Matches(v, ok) {
			return false
		}
	}
	return true
}

// labelOf is the value of a label on a node of the pool that is launched as the offering; false: it has none that is
// known before the launch.
func labelOf(p *Pool, t *model.InstanceType, f *model.Offering, key string) (string, bool) {
	switch key {
	case model.LabelNodePool:
		return p.Name, true
	case model.LabelZone:
		return f.Zone, true
	case model.LabelCapacityType:
		return f.CapacityType, true
	}
	if v, ok := f.Labels[key]; ok {
		return v, true
	}
	if v, ok := t.Labels[key]; ok {
		return v, true
	}
	v, ok := p.Labels[key]
	return v, ok
}

// byPrecedence sorts overlays: the greatest weight first, and of one weight the name that is last in the alphabet.
func byPrecedence(overlays []*Overlay) []*Overlay {
	out := slices.Clone(overlays)
	slices.SortFunc(out, func(a, b *Overlay) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(b.Name, a.Name))
	})
	return out
}

// Pool is a NodePool: the labels that overlays select it by, and its instance types.
type Pool struct {
	Name   string
	Labels model.Labels          // labels of its template
	Types  []*model.InstanceType // from the provider
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// current returns the cached catalog, refreshed after its TTL. If the cloud is unavailable, the old one is used: the
// catalog rarely changes, and launches report errors.
func (p *Provider) current(ctx context.Context) (catalogue, error) {
	var c catalogue
	select {
	case c = <-p.catalogue:
	case <-ctx.Done():
		return c, &cloud.Error{Kind: cloud.Unknown, Op: "offerings", Err: ctx.Err()}
	}
	fresh, err := p.refresh(ctx, c)
	p.catalogue <- fresh
	if err != nil && (fresh.types == nil || ctx.Err() != nil) {
		return catalogue{}, cause("offerings", "", err)
	}
	return fresh, nil
}

func (p *Provider) refresh(ctx context.Context, c catalogue) (catalogue, error) {
	now := p.clock.Now()
	if c.types != nil && now.Sub(c.at) < Refresh {
		return c, ctx.Err()
	}
	var list machines.OfferingList
	tag, err := p.roundTrip(ctx, http.MethodGet, "/v1/offerings", c.tag, nil, &list)
	if err != nil {
		return c, err
	}
	if c.types != nil && tag == c.tag {
		c.at = now
		return c, nil
	}
	out := catalogue{name: list.Catalog, tag: tag, at: now, keys: map[string]bool{model.LabelZone: true, model.LabelCapacityType: true}}
	for _, t := range list.Types {
		it := &model.InstanceType{Name: t.Name, Labels: t.Labels}
		if it.Capacity, err = p.vector(t.Capacity); err == nil {
			it.Allocatable, err = p.vector(t.Allocatable)
		}
		if err != nil {
			return c, &cloud.Error{Kind: cloud.Unknown, Err: fmt.Errorf("instance type %s: %w", t.Name, err)}
		}
		for k := range t.Labels {
			out.keys[k] = true
		}
		for _, o := range t.Offerings {
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: o.Zone, CapacityType: o.CapacityType, PriceMicro: o.PriceMicro, Available: o.Available, Labels: o.Labels, Remaining: -1, Modelled: o.Modelled,
			})
			for k := range o.Labels {
				out.keys[k] = true
			}
		}
		out.types = append(out.types, it)
	}
	sort.Slice(out.types, func(i, j int) bool { return out.types[i].Name < out.types[j].Name })
	return out, nil
}

// vector reads amounts by name. Names are interned in sorted order, so that equal catalogues end equal.
func (p *Provider) vector(amounts map[string]string) (model.Resources, error) {
	out := make(model.Resources, model.FirstExtended)
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		v, err := catalog.ParseQuantity(name, amounts[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, amounts[name], err)
		}
		if d := p.resources.Dim(name); int(d) < len(out) {
			out[d] = v
		} else {
			out = out.With(d, v)
		}
	}
	return out, nil
}

// labels returns the labels of the offering with which a machine was launched.
func (c catalogue) labels(m *machines.Instance) model.Labels {
	out := model.Labels{}
	for k, v := range m.Node.Labels {
		if c.keys[k] {
			out[k] = v
		}
	}
	return out
}

// label is a label that a node of an offering will have from it.
func label(t *model.InstanceType, o *model.Offering, key string) (string, bool) {
	switch key {
	case model.LabelZone:
		return o.Zone, true
	case model.LabelCapacityType:
		return o.CapacityType, true
	}
	if v, ok := o.Labels[key]; ok {
		return v, true
	}
	v, ok := t.Labels[key]
	return v, ok
}

// resolve translates a request into the types, zones and capacity types that the cloud accepts. Requirements on labels
// without offerings apply to the labels of the node.
func (c catalogue) resolve(r cloud.LaunchRequest) (machines.LaunchRequest, error) {
	out := machines.LaunchRequest{
		ClaimUID: r.ClaimUID, ClaimName: r.ClaimName, Pool: r.Pool, Labels: r.NodeLabels, Annotations: r.Annotations,
	}
	delay, err := classError("launch", r.Class)
	if err != nil {
		return out, err
	}
	out.RegistrationDelay = machines.Duration(delay)
	for _, t := range slices.Concat(r.Taints, r.StartupTaints) {
		out.Taints = append(out.Taints, machines.Taint(t))
	}
	var asked model.Requirements
	for _, q := range r.Requirements {
		if c.keys[q.Key] {
			asked = append(asked, q)
		}
	}
	allows := func(t *model.InstanceType, o *model.Offering) bool {
		for i := range asked {
			if v, ok := label(t, o, asked[i].Key); !asked[i].Matches(v, ok) {
				return false
			}
		}
		return (len(r.Zones) == 0 || slices.Contains(r.Zones, o.Zone)) &&
			(len(r.CapacityTypes) == 0 || slices.Contains(r.CapacityTypes, o.CapacityType))
	}
	var types []*model.InstanceType
	var cheapest *model.Offering
	var cheapestOf string
	var least int64 // what it counts as
	for _, t := range c.candidates(r, asked) {
		any := false
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !allows(t, o) {
				continue
			}
			if k := (cloud.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}); r.Unavailable[k] {
				out.Unavailable = append(out.Unavailable, k) // the cloud knows whether the claim has a machine already
			}
			any = true
			if !slices.Contains(out.Zones, o.Zone) {
				out.Zones = append(out.Zones, o.Zone)
			}
			if !slices.Contains(out.CapacityTypes, o.CapacityType) {
				out.CapacityTypes = append(out.CapacityTypes, o.CapacityType)
			}
			if v := r.PriceMicro(t.Name, o); cheapest == nil || v < least {
				cheapest, cheapestOf, least = o, t.Name, v
			}
			if v, ok := r.Prices[cloud.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}]; ok {
				out.Prices = append(out.Prices, machines.PricedOffering{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, PriceMicro: v})
			}
		}
		if any {
			types = append(types, t)
		}
	}
	if cheapest == nil {
		return out, &cloud.Error{Kind: cloud.Denied, Op: "launch", Object: r.ClaimName, Err: fmt.Errorf(
			"catalog %s has no offering for requirements %s that holds %s", c.name, describe(r), requestsOf(r.Requests))}
	}
	sort.Strings(out.Zones)
	sort.Strings(out.CapacityTypes)
	// The cloud takes every combination of the three lists. A type of which some combination is not allowed, because
	// offerings differ in further labels, must stay out.
	for _, t := range types {
		whole := !slices.ContainsFunc(t.Offerings, func(o model.Offering) bool {
			return slices.Contains(out.Zones, o.Zone) && slices.Contains(out.CapacityTypes, o.CapacityType) && !allows(t, &o)
		})
		if whole {
			out.Types = append(out.Types, t.Name)
		}
	}
	if len(out.Types) == 0 {
		out.Types, out.Zones, out.CapacityTypes = []string{cheapestOf}, []string{cheapest.Zone}, []string{cheapest.CapacityType}
	}
	return out, nil
}

// candidates returns the types that a request names, or all types, if they have the requested capacity.
func (c catalogue) candidates(r cloud.LaunchRequest, asked model.Requirements) []*model.InstanceType {
	names := r.Types
	if q := asked.Get(model.LabelInstanceType); len(names) == 0 && q != nil && !q.Complement {
		names = q.Values
	}
	types := c.types
	if len(names) > 0 {
		types = nil
		for _, n := range names {
			if i, ok := slices.BinarySearchFunc(c.types, n, func(t *model.InstanceType, n string) int { return strings.Compare(t.Name, n) }); ok {
				types = append(types, c.types[i])
			}
		}
	}
	var out []*model.InstanceType
	for _, t := range types {
		if r.Requests.Fits(t.Allocatable) {
			out = append(out, t)
		}
	}
	return out
}

func describe(r cloud.LaunchRequest) string {
	if len(r.Requirements) == 0 {
		return "(none)"
	}
	s := r.Requirements.String()
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

func requestsOf(r model.Resources) string {
	if r.IsZero() {
		return "a node"
	}
	return r.Format(model.FixedNames())
}

func sortInstances(in []model.Instance) {
	sort.Slice(in, func(i, j int) bool { return in[i].ProviderID < in[j].ProviderID })
}

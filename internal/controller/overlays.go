// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// writeOverlayStatuses has the conditions of NodeOverlays written where they differ from what the API server has. It
// waits until the provider has been asked about every pool: a conflict may be in any of them.
func (c *Controller) writeOverlayStatuses(ctx context.Context, now time.Time) {
	for _, info := range c.offerings.byPool {
		if info.problem == notAsked {
			return
		}
	}
	for _, o := range c.State.Pools.ListNodeOverlays() {
		want := overlayConditions(o)
		differs := false
		for k, w := range want {
			have := o.Conditions[k]
			differs = differs || have.Status != w.Status || have.Reason != w.Reason || have.Message != w.Message
		}
		if !differs {
			continue
		}
		a := plan.UpdateNodeOverlay{Overlay: o.Name, UID: o.UID, Conditions: want, Why: plan.Reason{Code: plan.Initializing}}
		if !c.State.InFlight.HasAction(a.Key(), now) {
			c.beginAction(ctx, now, a)
		}
	}
}

// overlayConditions are what the status of a NodeOverlay says.
func overlayConditions(o *state.NodeOverlay) map[string]model.Condition {
	valid := model.Condition{Status: "True", Reason: "ValidationSucceeded"}
	ready := model.Condition{Status: "True", Reason: "Ready"}
	switch v := o.Verdict; {
	case v.Invalid != "":
		valid = model.Condition{Status: "False", Reason: "RuntimeValidation", Message: v.Invalid}
	case v.Conflict != "":
		valid = model.Condition{Status: "False", Reason: "Conflict", Message: v.Conflict}
	case v.Matches == 0:
		valid.Message = v.NotApplied()
	}
	if valid.Status != "True" {
		ready = model.Condition{Status: "False", Reason: "UnhealthyDependents", Message: "ValidationSucceeded=False"}
	}
	return map[string]model.Condition{"ValidationSucceeded": valid, "Ready": ready}
}

// overlayPrices are the prices that NodeOverlays set for what a claim of a pool may become; nil: none.
func overlayPrices(p *model.NodePool, types []string) map[cloud.OfferingKey]int64 {
	if p == nil {
		return nil
	}
	allowed := make(map[string]bool, len(types))
	for _, name := range types {
		allowed[name] = true
	}
	var out map[cloud.OfferingKey]int64
	for _, t := range p.Types {
		if len(types) > 0 && !allowed[t.Name] {
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if o.PriceOverlay == "" {
				continue
			}
			if out == nil {
				out = map[cloud.OfferingKey]int64{}
			}
			out[cloud.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}] = o.PriceMicro
		}
	}
	return out
}

// withoutOverlayResources leaves out of what a claim asks for the resources that NodeOverlays add: the provider does not
// know that its types have them. The types were chosen with them in mind; where the claim names none, nothing is left
// out.
func withoutOverlayResources(requests model.Resources, types []string, overlays []*state.NodeOverlay) model.Resources {
	if len(types) == 0 {
		return requests
	}
	for _, o := range overlays {
		for _, r := range o.Capacity {
			if requests.At(r.Dim) != 0 {
				requests = requests.With(r.Dim, 0)
			}
		}
	}
	return requests
}

// withoutDevices leaves out of what a claim asks for the devices of dynamic resource allocation, for the same reason. names are those of
// resources, by model.Dim.
func withoutDevices(requests model.Resources, names []string) model.Resources {
	for d := model.FirstExtended; int(d) < min(len(requests), len(names)); d++ {
		if requests[d] != 0 && model.IsDevice(names[d]) {
			requests = requests.With(d, 0)
		}
	}
	return requests
}

// withOverlayCapacity adds to what a machine of a type has the extended resources that NodeOverlays say it will have, and the devices that
// nodes of the type publish: the provider, which does not know of them, left them out.
func withOverlayCapacity(p *model.NodePool, u *plan.UpdateClaim, instanceType string) {
	if p == nil {
		return
	}
	for _, t := range p.Types {
		if t.Name != instanceType {
			continue
		}
		if !t.Devices.IsZero() {
			u.Allocatable = u.Allocatable.Add(t.Devices)
		}
		if len(t.CapacityOverlays) == 0 {
			continue
		}
		for d := model.FirstExtended; int(d) < len(t.Capacity); d++ {
			if v := t.Capacity.At(d); v > 0 && u.Capacity.At(d) == 0 {
				u.Capacity, u.Allocatable = u.Capacity.With(d, v), u.Allocatable.With(d, v)
			}
		}
	}
}

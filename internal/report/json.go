// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// JSON writes a plan as one JSON object; docs/reference/json.md says what each field means.
func JSON(w io.Writer, p *Plan) error {
	out := wirePlan{
		NodeClaims: make([]wireClaim, 0, len(p.New)), Existing: make([]wireStanding, 0, len(p.Existing)),
		Unknown: append([]string{}, p.Unknown...), NotCreated: make([]wireNotCreated, 0, len(p.NotCreated)), NodeOverlays: make([]wireOverlay, 0, len(p.Overlays)), Unschedulable: wirePods(p.Refused), Ignored: wirePods(p.Ignored),
		Cost: wireCost{
			NewPerHour: dollars(p.Cost.NewMicroPerHour), PremiumPerHour: dollars(p.Cost.PremiumMicroPerHour), LowerBoundPerHour: dollars(p.Cost.BoundMicroPerHour),
			Gap: dollars(p.Cost.Gap()), ProvenBy: p.Cost.ProvenBy, Unpriced: append([]string{}, p.Cost.Unpriced...),
		},
		Stats: wireStats{Pods: p.Stats.Pods, Classes: p.Stats.Classes, Offerings: p.Stats.Offerings, Tier: p.Stats.Tier, Seconds: dollars(p.Planned / time.Microsecond)},
	}
	for i := range p.New {
		m := &p.New[i]
		c := wireClaim{
			NodePool: m.Pool, InstanceType: m.Type.Name, Zone: m.Offering.Zone, CapacityType: m.Offering.CapacityType,
			PricePerHour: dollars(m.PriceMicro), ListPricePerHour: dollars(m.PriceMicro), PriceOverlay: m.Offering.PriceOverlay,
			CapacityOverlays: append([]string{}, m.Type.CapacityOverlays...), InstanceTypes: make([]string, len(m.Choices)), Pods: names(m.Pods),
			Static: m.Static, Requests: amounts(m.Requests, p.ResourceNames), Allocatable: amounts(m.Type.Allocatable, p.ResourceNames),
		}
		if m.Offering.PriceOverlay != "" {
			c.ListPricePerHour = dollars(m.Offering.ListPriceMicro)
		}
		for j, t := range m.Choices {
			c.InstanceTypes[j] = t.Name
		}
		out.NodeClaims = append(out.NodeClaims, c)
	}
	for _, o := range p.Overlays {
		out.NodeOverlays = append(out.NodeOverlays, wireOverlay{Name: o.Name, Applied: o.NotApplied == "", Message: o.NotApplied})
	}
	for _, n := range p.NotCreated {
		out.NotCreated = append(out.NotCreated, wireNotCreated(n))
	}
	out.StaticNodesMissing = make([]wireLacking, 0, len(p.Lacking))
	for _, l := range p.Lacking {
		out.StaticNodesMissing = append(out.StaticNodesMissing, wireLacking{NodePool: l.Pool, Nodes: l.Have, Replicas: l.Want, Message: Sentence(l.Why)})
	}
	for _, s := range p.Existing {
		out.Existing = append(out.Existing, wireStanding{Node: s.Node, Pods: names(s.Pods)})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

type wirePlan struct {
	NodeClaims    []wireClaim      `json:"nodeClaims"`
	Existing      []wireStanding   `json:"existing"`
	Unschedulable []wirePod        `json:"unschedulable"`
	Ignored       []wirePod        `json:"ignored"`
	NotCreated    []wireNotCreated `json:"notCreated"`
	Cost          wireCost         `json:"cost"`

	StaticNodesMissing []wireLacking `json:"staticNodesMissing"` // by NodePool

	NodeOverlays []wireOverlay `json:"nodeOverlays"`
	Unknown      []string      `json:"unknown"`
	Stats        wireStats     `json:"stats"`
}

type wireNotCreated struct {
	Owner   string `json:"owner"`
	Pods    int    `json:"pods"`
	Message string `json:"message"`
}

type wireLacking struct {
	NodePool string `json:"nodePool"`
	Nodes    int64  `json:"nodes"`
	Replicas int64  `json:"replicas"`
	Message  string `json:"message"`
}

type wireOverlay struct {
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	Message string `json:"message"`
}

type wireClaim struct {
	NodePool         string            `json:"nodePool"`
	InstanceType     string            `json:"instanceType"`
	Zone             string            `json:"zone"`
	CapacityType     string            `json:"capacityType"`
	PricePerHour     dollars           `json:"pricePerHour"`
	ListPricePerHour dollars           `json:"listPricePerHour"`
	PriceOverlay     string            `json:"priceOverlay"`
	CapacityOverlays []string          `json:"capacityOverlays"`
	Static           bool              `json:"static"`
	InstanceTypes    []string          `json:"instanceTypes"`
	Pods             []string          `json:"pods"`
	Requests         map[string]string `json:"requests"`
	Allocatable      map[string]string `json:"allocatable"`
}

type wireStanding struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

type wirePod struct {
	Pod     string       `json:"pod"`
	Reasons []wireReason `json:"reasons"`
}

type wireReason struct {
	NodePool string `json:"nodePool"`
	Code     string `json:"code"`
	Key      string `json:"key"`
	Subject  string `json:"subject"`
	Want     string `json:"want"`
	Have     string `json:"have"`
	Message  string `json:"message"`
}

type wireCost struct {
	NewPerHour        dollars  `json:"newPerHour"`
	PremiumPerHour    dollars  `json:"premiumPerHour"`
	LowerBoundPerHour dollars  `json:"lowerBoundPerHour"`
	Gap               dollars  `json:"gap"`
	ProvenBy          string   `json:"provenBy"`
	Unpriced          []string `json:"unpriced"`
}

type wireStats struct {
	Pods      int     `json:"pods"`
	Classes   int     `json:"classes"`
	Offerings int     `json:"offerings"`
	Seconds   dollars `json:"seconds"`
	Tier      int     `json:"tier"`
}

// dollars is an amount in millionths, written as a decimal number without a float in between.
type dollars int64

// MarshalJSON implements json.Marshaler.
func (d dollars) MarshalJSON() ([]byte, error) {
	return []byte(model.FormatMicro(int64(d))), nil
}

func names(pods []*model.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Key()
	}
	return out
}

func amounts(r model.Resources, names []string) map[string]string {
	out := make(map[string]string, len(r))
	for d, v := range r {
		if v != 0 && d < len(names) {
			out[names[d]] = model.FormatAmount(model.Dim(d), v)
		}
	}
	return out
}

func wirePods(list []plan.PodDecision) []wirePod {
	out := make([]wirePod, 0, len(list))
	for _, d := range list {
		p := wirePod{Pod: d.Pod.Key(), Reasons: make([]wireReason, len(d.Reasons))}
		for i, r := range d.Reasons {
			f := r.Fields()
			p.Reasons[i] = wireReason{NodePool: r.Pool, Code: string(r.Code), Key: f.Key, Subject: f.Subject, Want: f.Want, Have: f.Have, Message: Sentence(r)}
		}
		out = append(out, p)
	}
	return out
}

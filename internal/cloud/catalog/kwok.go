// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Labels of nodes of Karpenter's KWOK provider.
const (
	KwokInstanceSize   = "karpenter.kwok.sh/instance-size"
	KwokInstanceFamily = "karpenter.kwok.sh/instance-family"
	KwokInstanceCPU    = "karpenter.kwok.sh/instance-cpu"
	KwokInstanceMemory = "karpenter.kwok.sh/instance-memory"
)

// Resources that Karpenter's KWOK provider reserves on every node, and the maximum number of pods if the file does not
// set it.
const (
	kwokOverheadMilliCPU    = 100
	kwokOverheadMemoryBytes = 10 << 20
	kwokDefaultPods         = 110
)

type kwokType struct {
	Name      string          `json:"name"`
	Offerings []kwokOffering  `json:"offerings"`
	Arch      string          `json:"architecture"`
	OS        []string        `json:"operatingSystems"`
	Resources map[string]text `json:"resources"`
}

type kwokOffering struct {
	Price        text              `json:"Price"`
	Available    *bool             `json:"Available"`
	Requirements []kwokRequirement `json:"Requirements"`
}

type kwokRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

func (p *parser) kwok(dec *json.Decoder) (*Catalog, error) {
	types, err := each(p, dec, "instance types", kwokType.build, func(t kwokType) string { return t.Name })
	if err != nil {
		return nil, err
	}
	return &Catalog{Name: p.name, Types: types}, nil
}

func (in kwokType) build() (Type, error) {
	t := Type{Name: in.Name}
	if err := checkName("name", in.Name); err != nil {
		return t, err
	}
	if err := checkArch("architecture", in.Arch); err != nil {
		return t, err
	}
	if len(in.OS) == 0 {
		return t, wrong("operatingSystems", "", "missing")
	}
	os := in.OS[0]
	if slices.Contains(in.OS, "linux") {
		os = "linux" // a label has one value; of several systems a pod can count on the usual one
	}
	if err := checkName("operatingSystems[0]", os); err != nil {
		return t, err
	}
	var err error
	if t.Capacity, err = amounts("resources", in.Resources); err != nil {
		return t, err
	}
	for _, r := range []string{"cpu", "memory"} {
		if _, ok := t.Capacity[r]; !ok {
			return t, wrong("resources."+r, "", "missing")
		}
	}
	if _, ok := t.Capacity["pods"]; !ok {
		t.Capacity["pods"] = kwokDefaultPods
	}
	t.Allocatable = Amounts{}
	maps.Copy(t.Allocatable, t.Capacity)
	t.Allocatable["cpu"] -= kwokOverheadMilliCPU
	t.Allocatable["memory"] -= kwokOverheadMemoryBytes
	for _, r := range []string{"cpu", "memory"} {
		if t.Allocatable[r] <= 0 {
			return t, wrong("resources."+r, fmt.Sprintf("%q", string(in.Resources[r])), "nothing is left after the 100m CPU and 10Mi that a node reserves")
		}
	}
	cpu, memory := FormatQuantity("cpu", t.Capacity["cpu"]), FormatQuantity("memory", t.Capacity["memory"])
	t.Labels = labelsOf(in.Name, in.Arch, os, "")
	t.Labels[KwokInstanceSize] = kwokSize(in.Name, cpu)
	t.Labels[KwokInstanceFamily] = kwokFamily(in.Name)
	t.Labels[KwokInstanceCPU] = cpu
	t.Labels[KwokInstanceMemory] = memory
	if len(in.Offerings) == 0 {
		return t, wrong("offerings", "", "missing")
	}
	for i, o := range in.Offerings {
		out, err := o.build()
		if err != nil {
			return t, fmt.Errorf("offerings[%d].%w", i, err)
		}
		t.Offerings = append(t.Offerings, out...)
	}
	return t, nil
}

// build expands an offering of several zones or capacity types to one for each.
func (in kwokOffering) build() ([]model.Offering, error) {
	if in.Price == "" {
		return nil, wrong("Price", "", "missing")
	}
	price, err := ParsePrice(string(in.Price))
	if err != nil {
		return nil, wrong("Price", string(in.Price), "%s", err)
	}
	var zones, capacityTypes []string
	labels := model.Labels{}
	for i, r := range in.Requirements {
		field := fmt.Sprintf("Requirements[%d]", i)
		if r.Operator == string(model.OpDoesNotExist) {
			continue // an offering without, say, a reservation
		}
		if r.Operator != string(model.OpIn) || len(r.Values) == 0 {
			return nil, wrong(field+".operator", fmt.Sprintf("%q", r.Operator), "%s: an offering requires operator In with values", r.Key)
		}
		for j, v := range r.Values {
			if err := checkName(fmt.Sprintf("%s.values[%d]", field, j), v); err != nil {
				return nil, err
			}
		}
		switch {
		case r.Key == model.LabelZone:
			zones = r.Values
		case r.Key == model.LabelCapacityType:
			capacityTypes = r.Values
		case !isLabelKey(r.Key):
			return nil, wrong(field+".key", fmt.Sprintf("%q", r.Key), "not a label key")
		case len(r.Values) > 1:
			return nil, wrong(field+".values", strings.Join(r.Values, " "), "%s: a node has one value per label", r.Key)
		default:
			labels[r.Key] = r.Values[0]
		}
	}
	if zones == nil {
		return nil, wrong("Requirements", "", "%s: missing", model.LabelZone)
	}
	if capacityTypes == nil {
		return nil, wrong("Requirements", "", "%s: missing", model.LabelCapacityType)
	}
	if len(labels) == 0 {
		labels = nil
	}
	var out []model.Offering
	for _, z := range zones {
		for _, ct := range capacityTypes {
			switch ct {
			case model.OnDemand, model.Spot, model.Reserved:
			default:
				return nil, wrong("Requirements", fmt.Sprintf("%q", ct), "%s: use on-demand, spot or reserved", model.LabelCapacityType)
			}
			out = append(out, model.Offering{
				Zone: z, CapacityType: ct, PriceMicro: price, Available: in.Available == nil || *in.Available, Labels: labels, Remaining: -1,
			})
		}
	}
	return out, nil
}

var ec2Size = regexp.MustCompile(`^\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)$`)

// kwokSize is the size in a name like m5.large; any other name's is its cpu.
func kwokSize(name, cpu string) string {
	if m := ec2Size.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return cpu
}

// kwokFamily is the part before the first dot or dash, or the first letter.
func kwokFamily(name string) string {
	if i := strings.IndexAny(name, ".-"); i >= 0 {
		return name[:i]
	}
	return name[:1]
}

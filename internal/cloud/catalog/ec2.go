// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// DefaultRegion is the region of a file without one.
const DefaultRegion = "us-east-1"

// EC2Labels is the prefix of label keys without a domain.
const EC2Labels = "karpenter.k8s.aws/"

type ec2Type struct {
	Name      string           `json:"name"`
	Arch      string           `json:"arch"`
	OS        string           `json:"os"`
	VCPU      text             `json:"vcpu"`
	MemoryMiB text             `json:"memoryMiB"`
	Labels    model.Labels     `json:"labels"`
	Alloc     map[string]text  `json:"allocatable"`
	OnDemand  text             `json:"onDemandUSDPerHour"`
	Spot      zonePrices       `json:"spotUSDPerHour"`
	Zones     *json.RawMessage `json:"zones"`
	ENI       []text           `json:"eni"`
}

// zonePrices is one price for all zones, or one for each zone named.
type zonePrices struct {
	all    text
	byZone map[string]text
}

func (z *zonePrices) UnmarshalJSON(b []byte) error {
	if b[0] == '{' {
		return json.Unmarshal(b, &z.byZone)
	}
	return z.all.UnmarshalJSON(b)
}

func (p *parser) ours(dec *json.Decoder) (*Catalog, error) {
	// The list comes last in meaning, wherever it stands: its defaults are the other fields.
	var head struct {
		Region     string           `json:"region"`
		PricesAsOf string           `json:"pricesAsOf"`
		Source     string           `json:"source"`
		Zones      *json.RawMessage `json:"zones"`
	}
	if err := json.Unmarshal(p.data, &head); err != nil {
		return nil, p.jsonError(0, "", err)
	}
	c := &Catalog{Name: p.name, Region: head.Region, PricesAsOf: head.PricesAsOf, Source: head.Source}
	if c.Region == "" {
		c.Region = DefaultRegion
	}
	if err := checkName("region", c.Region); err != nil {
		return nil, p.jsonError(0, "", err)
	}
	zones := []string{c.Region + "a", c.Region + "b", c.Region + "c"}
	if head.Zones != nil {
		var err error
		if zones, err = parseZones(*head.Zones); err != nil {
			return nil, p.jsonError(int64(bytes.Index(p.data, []byte(`"zones"`))), "", err)
		}
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, p.jsonError(0, "", err)
		}
		if k, _ := key.(string); !strings.EqualFold(k, "instanceTypes") {
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				return nil, p.jsonError(0, "", err)
			}
			continue
		}
		at := dec.InputOffset()
		open, err := dec.Token()
		if err != nil {
			return nil, p.jsonError(0, "", err)
		}
		if open != json.Delim('[') {
			return nil, p.errorf(at, "instanceTypes: need a list")
		}
		c.Types, err = each(p, dec, "instanceTypes", func(t ec2Type) (Type, error) { return t.build(c.Region, zones) }, func(t ec2Type) string { return t.Name })
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	return nil, p.errorf(0, "instanceTypes: missing")
}

func parseZones(raw json.RawMessage) ([]string, error) {
	var zones []string
	if err := json.Unmarshal(raw, &zones); err != nil {
		return nil, wrong("zones", string(raw), "need a list of zone names")
	}
	if len(zones) == 0 {
		return nil, wrong("zones", "", "the list is empty; name a zone or leave the field out")
	}
	for i, z := range zones {
		if err := checkName(fmt.Sprintf("zones[%d]", i), z); err != nil {
			return nil, err
		}
		if slices.Contains(zones[:i], z) {
			return nil, wrong(fmt.Sprintf("zones[%d]", i), fmt.Sprintf("%q", z), "named twice")
		}
	}
	return zones, nil
}

func (in ec2Type) build(region string, zones []string) (Type, error) {
	t := Type{Name: in.Name}
	if err := checkName("name", in.Name); err != nil {
		return t, err
	}
	if err := checkArch("arch", in.Arch); err != nil {
		return t, err
	}
	os := in.OS
	if os == "" {
		os = "linux"
	}
	if err := checkName("os", os); err != nil {
		return t, err
	}
	vcpu, err := positive("vcpu", in.VCPU)
	if err != nil {
		return t, err
	}
	mem, err := positive("memoryMiB", in.MemoryMiB)
	if err != nil {
		return t, err
	}
	if t.Allocatable, err = amounts("allocatable", in.Alloc); err != nil {
		return t, err
	}
	if t.ENIs, t.Addresses, err = parseENI(in.ENI); err != nil {
		return t, err
	}
	t.Capacity = Amounts{}
	maps.Copy(t.Capacity, t.Allocatable)
	if vcpu > 0 {
		t.Capacity["cpu"] = vcpu * 1000
	}
	if mem > 0 {
		t.Capacity["memory"] = mem << 20
	}
	if v := t.Allocatable["ephemeral-storage"]; v > 0 {
		// The published figures keep 1Gi for the kubelet and evict below a tenth: undo both.
		t.Capacity["ephemeral-storage"] = (v + 1<<30) / 9 * 10
	}
	t.Labels = labelsOf(in.Name, in.Arch, os, region)
	for k, v := range in.Labels {
		if !strings.Contains(k, "/") {
			k = EC2Labels + k
		}
		t.Labels[k] = v
	}
	if in.Zones != nil {
		if zones, err = parseZones(*in.Zones); err != nil {
			return t, err
		}
	}
	return t, in.offer(&t, zones)
}

// offer adds the offerings: on-demand if it has a price, spot at its own price or, for types with on-demand, at the
// modelled one.
func (in ec2Type) offer(t *Type, zones []string) error {
	var onDemand, spot int64
	var err error
	if in.OnDemand != "" {
		if onDemand, err = ParsePrice(string(in.OnDemand)); err != nil {
			return wrong("onDemandUSDPerHour", string(in.OnDemand), "%s", err)
		}
	}
	if in.Spot.all != "" {
		if spot, err = ParsePrice(string(in.Spot.all)); err != nil {
			return wrong("spotUSDPerHour", string(in.Spot.all), "%s", err)
		}
	}
	for _, z := range slices.Sorted(maps.Keys(in.Spot.byZone)) {
		if !slices.Contains(zones, z) {
			return wrong("spotUSDPerHour."+z, "", "the type is not offered in this zone")
		}
	}
	if onDemand == 0 && spot == 0 && in.Spot.byZone == nil {
		return wrong("onDemandUSDPerHour", "", "missing; give it or spotUSDPerHour")
	}
	for _, z := range zones {
		if onDemand > 0 {
			t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: onDemand, Available: true, Remaining: -1})
		}
		o := model.Offering{Zone: z, CapacityType: model.Spot, PriceMicro: spot, Available: true, Remaining: -1}
		switch price, ok := in.Spot.byZone[z]; {
		case ok:
			if o.PriceMicro, err = ParsePrice(string(price)); err != nil {
				return wrong("spotUSDPerHour."+z, string(price), "%s", err)
			}
		case in.Spot.byZone != nil:
			continue // prices by zone say where spot is to be had
		case spot == 0:
			o.PriceMicro, o.Modelled = ModelledSpot(onDemand, t.Name, z), true
		}
		t.Offerings = append(t.Offerings, o)
	}
	return nil
}

// parseENI reads how many network interfaces a type has and how many addresses each; 0 where that is not given.
func parseENI(eni []text) (interfaces, addresses int64, err error) {
	if len(eni) == 0 {
		return 0, 0, nil
	}
	if len(eni) != 2 {
		return 0, 0, wrong("eni", "", "need two numbers: network interfaces, and addresses of each")
	}
	if interfaces, err = positive("eni[0]", eni[0]); err != nil {
		return 0, 0, err
	}
	addresses, err = positive("eni[1]", eni[1])
	return interfaces, addresses, err
}

// positive parses a nonnegative integer; 0 if it is missing.
func positive(field string, n text) (int64, error) {
	if n == "" {
		return 0, nil
	}
	v, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil || v < 1 || v > 1<<40 {
		return 0, wrong(field, string(n), "need a whole number of at least 1")
	}
	return v, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// shop sells each type for the least that a request counts it as.
type shop struct {
	script
	asked []cloud.LaunchRequest
}

func (s *shop) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	s.asked = append(s.asked, requests...)
	out := make([]cloud.LaunchResult, len(requests))
	for i := range requests {
		least := int64(-1)
		for _, t := range s.types {
			for j := range t.Offerings {
				if v := requests[i].PriceMicro(t.Name, &t.Offerings[j]); least < 0 || v < least {
					o := &t.Offerings[j]
					least, out[i] = v, cloud.LaunchResult{ClaimUID: requests[i].ClaimUID, ProviderID: "x", InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, PriceMicro: o.PriceMicro, Modelled: o.Modelled}
				}
			}
		}
	}
	return out
}

type table map[string]int64

func (t *table) PriceMicro(instanceType, zone, capacityType string) (int64, bool) {
	v, ok := (*t)[instanceType+"/"+zone+"/"+capacityType]
	return v, ok
}

func sized(name string, cpus, priceMicro int64, modelled bool) *model.InstanceType {
	capacity := model.Resources{}.With(model.CPU, cpus*1000).With(model.Memory, cpus<<32).With(model.Pods, 110)
	return &model.InstanceType{Name: name, Capacity: capacity, Allocatable: capacity, Offerings: []model.Offering{{Zone: "z", CapacityType: model.OnDemand, PriceMicro: priceMicro, Available: true, Modelled: modelled}}}
}

// TestPriced: a table's prices take the place of the provider's, in offerings, in what a launch chooses by and in what it
// answers; the types of the provider stay as they are; equal tables and types give the same slice.
func TestPriced(t *testing.T) {
	s := &shop{script: script{types: []*model.InstanceType{sized("a", 2, 100_000, false), sized("b", 2, 90_000, true), sized("c", 2, 95_000, false)}}}
	prices := &table{"a/z/on-demand": 80_000, "b/z/on-demand": 90_000}
	var log bytes.Buffer
	p := cloud.NewPriced(s, func() cloud.PriceTable { return prices }, slog.New(slog.NewTextHandler(&log, nil)))
	types, err := p.Offerings(t.Context(), nil, cloud.NodeClass{Name: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{80_000, 90_000, 95_000} {
		if o := types[i].Offerings[0]; o.PriceMicro != want || o.Modelled {
			t.Errorf("%s: have %d, modelled %t, want %d", types[i].Name, o.PriceMicro, o.Modelled, want)
		}
	}
	if s.types[0].Offerings[0].PriceMicro != 100_000 || types[2] != s.types[2] {
		t.Error("the provider's own types were changed, or one without another price copied")
	}
	if again, _ := p.Offerings(t.Context(), nil, cloud.NodeClass{Name: "other"}); &again[0] != &types[0] {
		t.Error("nothing has changed, but the slice is another one")
	}
	res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimUID: "1", Class: cloud.NodeClass{Name: "default"}}})[0]
	if res.InstanceType != "a" || res.PriceMicro != 80_000 {
		t.Errorf("bought %s for %d, want a for 80000", res.InstanceType, res.PriceMicro)
	}
	// What a NodeOverlay says of a price comes before.
	overlaid := map[cloud.OfferingKey]int64{{InstanceType: "c", Zone: "z", CapacityType: model.OnDemand}: 1}
	if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimUID: "2", Class: cloud.NodeClass{Name: "default"}, Prices: overlaid}})[0]; res.InstanceType != "c" || len(overlaid) != 1 {
		t.Errorf("bought %s, want c; the request's prices are %v now", res.InstanceType, overlaid)
	}
	prices = &table{}
	if types, _ = p.Offerings(t.Context(), nil, cloud.NodeClass{Name: "default"}); &types[0] != &s.types[0] {
		t.Error("without another price, the slice is not the provider's")
	}
	if log.Len() > 0 {
		t.Errorf("the log says %s", log.String())
	}
}

// TestUnknownPrice: a type whose price nobody knows is bought last: dearer than each type with a price, and than as many small ones as have
// its room; among such types the smaller is cheaper. The price is said to be a model's, and the log names the type, once.
func TestUnknownPrice(t *testing.T) {
	for name, known := range map[string][]*model.InstanceType{
		"some known": {sized("small", 1, 60_000, false), sized("medium", 4, 190_000, false)},
		"none known": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{script: script{types: append(known, sized("u-large", 32, 0, false), sized("u-small", 1, 0, false))}}
			var log bytes.Buffer
			p := cloud.NewPriced(s, func() cloud.PriceTable { return nil }, slog.New(slog.NewTextHandler(&log, nil)))
			types, err := p.Offerings(t.Context(), nil, cloud.NodeClass{})
			if err != nil {
				t.Fatal(err)
			}
			large, small := types[len(known)].Offerings[0], types[len(known)+1].Offerings[0]
			for _, k := range types[:len(known)] {
				o := k.Offerings[0]
				if n := 32_000 / k.Capacity.At(model.CPU); small.PriceMicro <= o.PriceMicro || large.PriceMicro <= n*o.PriceMicro {
					t.Errorf("%s costs %d; without a price, 1 vCPU counts as %d and 32 as %d", k.Name, o.PriceMicro, small.PriceMicro, large.PriceMicro)
				}
			}
			if small.PriceMicro <= 0 || small.PriceMicro >= large.PriceMicro || !small.Modelled || !large.Modelled {
				t.Errorf("small is %+v, large %+v", small, large)
			}
			if _, err := p.Offerings(t.Context(), nil, cloud.NodeClass{}); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "u-large, u-small"); n != 1 {
				t.Errorf("the log names the types %d times, want once:\n%s", n, log.String())
			}
			want := small.PriceMicro
			if len(known) > 0 {
				want = 60_000
			}
			res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimUID: "1"}})[0]
			if res.PriceMicro != want || res.Modelled != (len(known) == 0) {
				t.Errorf("bought %+v, want one for %d", res, want)
			}
		})
	}
}

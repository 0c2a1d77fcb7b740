// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestSupports: a type that EC2 would refuse with the settings of a class, or on which its images do not boot, is not offered.
func TestSupports(t *testing.T) {
	nitro := catalogue.TypeInfo{Name: "m5.large", Labels: model.Labels{awsv1.LabelInstanceHypervisor: "nitro"}, CardInterfaces: []int64{3}}
	xen := catalogue.TypeInfo{Name: "m4.large", Labels: model.Labels{awsv1.LabelInstanceHypervisor: "xen"}, CardInterfaces: []int64{2}}
	nested, enclaves, a1, efa, spread := nitro, nitro, nitro, nitro, nitro
	nested.NestedVirtualization, enclaves.Enclaves, a1.Name = true, true, "a1.large"
	efa.CardInterfaces, efa.ExtendedResources = []int64{15, 15}, map[string]int64{catalogue.ResourceEFA: 2}
	spread.PlacementStrategies = []string{"spread", "partition"}
	for _, c := range []struct {
		name, spec, family string
		placement          types.PlacementStrategy
		yes, no            []catalogue.TypeInfo
	}{
		{name: "no settings", spec: `{}`, family: FamilyAL2023, yes: []catalogue.TypeInfo{nitro, xen, efa}, no: []catalogue.TypeInfo{a1}},
		{name: "Bottlerocket", spec: `{}`, family: FamilyBottlerocket, yes: []catalogue.TypeInfo{nitro, a1}},
		{name: "enclaves", spec: `{"enclaveOptions":{"enabled":true}}`, yes: []catalogue.TypeInfo{enclaves}, no: []catalogue.TypeInfo{nitro}},
		{name: "connection tracking", spec: `{"connectionTracking":{"udpTimeout":30}}`, yes: []catalogue.TypeInfo{nitro}, no: []catalogue.TypeInfo{xen}},
		{name: "nested virtualization", spec: `{"cpuOptions":{"nestedVirtualization":"enabled"}}`, yes: []catalogue.TypeInfo{nested}, no: []catalogue.TypeInfo{nitro}},
		{name: "no nested virtualization", spec: `{"cpuOptions":{"nestedVirtualization":"disabled"}}`, yes: []catalogue.TypeInfo{nested, nitro}},
		{name: "a cluster placement group", spec: `{}`, placement: types.PlacementStrategyCluster, yes: []catalogue.TypeInfo{nitro}, no: []catalogue.TypeInfo{spread}},
		{name: "a spread placement group", spec: `{}`, placement: types.PlacementStrategySpread, yes: []catalogue.TypeInfo{nitro, spread}},
		{name: "a second card", spec: `{"networkInterfaces":[{"networkCardIndex":0,"deviceIndex":0,"interfaceType":"interface"},{"networkCardIndex":1,"deviceIndex":1,"interfaceType":"efa-only"}]}`,
			yes: []catalogue.TypeInfo{efa}, no: []catalogue.TypeInfo{nitro, xen}},
		{name: "three interfaces", spec: `{"networkInterfaces":[{"networkCardIndex":0,"deviceIndex":0,"interfaceType":"interface"},{"networkCardIndex":0,"deviceIndex":1,"interfaceType":"interface"},{"networkCardIndex":0,"deviceIndex":2,"interfaceType":"interface"}]}`,
			yes: []catalogue.TypeInfo{nitro, efa}, no: []catalogue.TypeInfo{xen}},
		{name: "EFA", spec: `{"networkInterfaces":[{"networkCardIndex":0,"deviceIndex":0,"interfaceType":"interface"},{"networkCardIndex":0,"deviceIndex":1,"interfaceType":"efa-only"}]}`,
			yes: []catalogue.TypeInfo{efa}, no: []catalogue.TypeInfo{nitro}},
	} {
		r := &Resolved{Class: &Class{Family: c.family}}
		if err := json.Unmarshal([]byte(c.spec), &r.Spec); err != nil {
			t.Fatal(err)
		}
		if c.placement != "" {
			r.Placement = &types.PlacementGroup{Strategy: c.placement}
		}
		for want, list := range map[bool][]catalogue.TypeInfo{true: c.yes, false: c.no} {
			for _, x := range list {
				if got := r.Supports(&x); got != want {
					t.Errorf("%s on %s (%v): %t, want %t", c.name, x.Name, x.Labels, got, want)
				}
			}
		}
	}
}

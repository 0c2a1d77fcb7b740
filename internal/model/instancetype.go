// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strings"
)

// InstanceType is a kind of machine.
type InstanceType struct {
	Name        string
	Labels      Labels    // single-valued: instance type, arch, os, provider labels. Zone and capacity type are the offering's
	Capacity    Resources // what the machine has
	Allocatable Resources // what pods may ask for in sum, before DaemonSets
	Offerings   []Offering
	CSILimits   map[string]int64 // expected attach limit by CSI driver; absent: none known
	Boots       string           // the image that machines of it boot from; empty: not known

	// CapacityOverlays are the NodeOverlays that add extended resources to Capacity and Allocatable, by name.
	CapacityOverlays []string

	// Devices are the resources of Allocatable that count devices of dynamic resource allocation; nil: none are known. Capacity lacks them.
	// DeviceOverlay is the NodeOverlay that says which devices there are; empty: none does.
	Devices       Resources `json:",omitempty"`
	DeviceOverlay string    `json:",omitempty"`

	// DriverGPUs is how many devices of type gpu its provider says that a DRA driver will publish, by driver. What nodes have published comes before it.
	DriverGPUs map[string]int64 `json:",omitempty"`

	// Promised is what the provider says is allocatable, where machines of the type came with less: then Allocatable is what those had.
	Promised Resources
}

// Label returns the value of a label that nodes of the type have when they are launched from an offering, and whether they
// have it. The offering's labels come before the type's; a zone or capacity type that is not known is no label.
func (t *InstanceType) Label(key string, o *Offering) (value string, ok bool) {
	switch key {
	case LabelZone:
		return o.Zone, o.Zone != ""
	case LabelCapacityType:
		return o.CapacityType, o.CapacityType != ""
	}
	if v, ok := o.Labels[key]; ok {
		return v, true
	}
	if v, ok := t.Labels[key]; ok {
		return v, true
	}
	if key == LabelInstanceType {
		return t.Name, true
	}
	return "", false
}

// IsCloudLabel reports whether the cloud sets a label on nodes of some of the types. Instance type, zone and capacity type
// are set on all nodes.
func IsCloudLabel(key string, types []*InstanceType) bool {
	switch key {
	case LabelInstanceType, LabelZone, LabelCapacityType:
		return true
	}
	for _, t := range types {
		if _, ok := t.Labels[key]; ok {
			return true
		}
		for i := range t.Offerings {
			if _, ok := t.Label(key, &t.Offerings[i]); ok {
				return true
			}
		}
	}
	return false
}

// Offering is where, how and for how much a type can be had.
type Offering struct {
	Zone         string
	CapacityType string      // on-demand, spot, reserved
	PriceMicro   int64       // micro-dollars per hour
	Available    bool        // false: set aside, out of capacity, or in a zone that the cluster is shifted away from
	Shift        *ZonalShift // Available false: the zonal shift away from Zone; nil: there is none
	Quota        string      // Available false: the reached quota of the account that it would count against, and what to do; empty: none is known
	Labels       Labels      // further labels the node will bear, e.g. a reservation id; may be nil
	Remaining    int64       // for reserved capacity and node groups: how many more can be had; negative: not limited
	Most         int64       // of a node group: how many machines it may have; 0: not known
	Modelled     bool        // the price is a model's, not a published one; said wherever it is shown

	PriceOverlay   string // the NodeOverlay that sets PriceMicro; empty: it is the provider's price
	ListPriceMicro int64  // with PriceOverlay: the provider's price
}

// LacksCapacity reports whether the cloud has no capacity for an offering now. Of one in a zone that the cluster is shifted away from nobody knows.
func (o *Offering) LacksCapacity() bool { return !o.Available && o.Shift == nil }

// AllowOffering reports whether requirements allow an offering's zone and capacity type.
func (rs Requirements) AllowOffering(o *Offering) bool {
	for _, kv := range [2][2]string{{LabelZone, o.Zone}, {LabelCapacityType, o.CapacityType}} {
		if q := rs.Get(kv[0]); q != nil && !q.Matches(kv[1], true) {
			return false
		}
	}
	return true
}

// HaveUnusedDevice reports whether all of some types, of which there is one, have a device, such as a GPU, that is not requested. names are those of
// the dimensions.
func HaveUnusedDevice(types []*InstanceType, requests Resources, names []string) bool {
	if len(types) == 0 {
		return false
	}
	for d := Pods + 1; int(d) < min(len(types[0].Capacity), len(names)); d++ {
		// Network interfaces of a VPC and huge pages are of general machines, which are kept for nobody.
		if requests.At(d) == 0 && !strings.HasPrefix(names[d], "vpc.amazonaws.com/") && !IsHugePages(names[d]) && !slices.ContainsFunc(types, func(t *InstanceType) bool { return t.Capacity.At(d) == 0 }) {
			return true
		}
	}
	return false
}

// IsHugePages reports whether a resource counts huge pages.
func IsHugePages(name string) bool { return strings.HasPrefix(name, "hugepages-") }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strings"
	"time"
)

// InstanceType is an instance type with its offerings.
type InstanceType struct {
	Name        string
	Labels      Labels    // single-valued: instance type, arch, os, provider labels. Zone and capacity type are labels of the offering
	Capacity    Resources // capacity of the machine
	Allocatable Resources // allocatable, before the requests of DaemonSets
	Offerings   []Offering
	CSILimits   map[string]int64 // expected attach limit by CSI driver; absent: none known
	Boots       string           // image of its machines; empty: unknown

	// CapacityOverlays are the names of the NodeOverlays that add extended resources to Capacity and Allocatable, sorted.
	CapacityOverlays []string

	// Devices are the resources of Allocatable that count devices of dynamic resource allocation; nil: none. Capacity does
	// not contain them. DeviceOverlay is the NodeOverlay that defines the devices; empty: none.
	Devices       Resources `json:",omitempty"`
	DeviceOverlay string    `json:",omitempty"`

	// DriverGPUs is the number of devices of type gpu that the provider expects each DRA driver to publish. Published devices
	// take precedence.
	DriverGPUs map[string]int64 `json:",omitempty"`

	// Promised is the provider's allocatable if registered nodes had less: then Allocatable is that of the nodes.
	Promised Resources
}

// Label returns the value of a label of nodes launched from an offering, and whether they have it. Labels of the offering
// take precedence over those of the type. An unknown zone or capacity type counts as missing.
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

// Offering is a zone, capacity type and price at which an instance type can be launched.
type Offering struct {
	Zone         string
	CapacityType string      // on-demand, spot, reserved
	PriceMicro   int64       // micro-dollars per hour
	Available    bool        // false: marked unavailable, out of capacity, or in a zone that the cluster is shifted away from
	Shift        *ZonalShift // if not Available: the zonal shift away from Zone; nil: none
	Quota        string      // if not Available: the exhausted quota that applies, and the remedy; empty: none known
	Until        time.Time   // if not Available for lack of capacity: when it is offered again; zero: unknown
	Labels       Labels      // additional labels of the node, such as a reservation ID; may be nil
	Remaining    int64       // for reserved capacity and node groups: remaining number of machines; negative: no limit
	Most         int64       // maximum size of the node group; 0: unknown
	Modelled     bool        // the price is an estimate, and is marked as such wherever it is shown

	PriceOverlay   string // the NodeOverlay that sets PriceMicro; empty: the provider's price
	ListPriceMicro int64  // with PriceOverlay: the provider's price
}

// LacksCapacity reports whether the cloud has no capacity for an offering now. It is false in a zone that the cluster is
// shifted away from, where this is unknown.
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

// HaveUnusedDevice reports whether all of the given types (at least one) have a device, such as a GPU, that is not requested.
// names are the resource names by dimension.
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

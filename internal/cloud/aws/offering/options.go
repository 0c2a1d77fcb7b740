// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package offering

import (
	"cmp"
	"slices"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Option is an offering that a launch request allows.
type Option struct {
	*Type
	Offering   *model.Offering
	PriceMicro int64 // price for the request in micro-dollars per hour: the price of the offering, unless a NodeOverlay changes it
}

// Key returns the key of the offering.
func (c Option) Key() cloud.OfferingKey {
	return cloud.OfferingKey{InstanceType: c.Name, Zone: c.Offering.Zone, CapacityType: c.Offering.CapacityType}
}

// labelValue is the value of a label that a node will have from the offering; false: it has none from it.
func (c Option) labelValue(key string) (string, bool) {
	switch key {
	case model.LabelZone:
		return c.Offering.Zone, true
	case model.LabelCapacityType:
		return c.Offering.CapacityType, true
	}
	if v, ok := c.Offering.Labels[key]; ok {
		return v, true
	}
	v, ok := c.InstanceType.Labels[key]
	return v, ok
}

// isOfferingLabel reports whether a label is one that offerings have or may have. A requirement on any other is about
// the node, and left to the node's labels.
func isOfferingLabel(key string) bool {
	switch key {
	case model.LabelZone, model.LabelCapacityType, model.LabelInstanceType, model.LabelArch, model.LabelOS, model.LabelRegion, awsv1.LabelZoneID:
		return true
	}
	return strings.HasPrefix(key, awsv1.Group+"/") && key != awsv1.LabelNodeClass
}

// Options returns the offerings that a request allows, including unavailable ones, sorted by price, then instance type,
// zone, and capacity type.
func (o *Set) Options(r cloud.LaunchRequest) []Option {
	allowed := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	var out []Option
	for _, it := range o.Types {
		if !allowed(r.Types, it.Name) || !r.Requests.Fits(it.Allocatable) {
			continue
		}
		for i := range it.Offerings {
			c := Option{o.ByName[it.Name], &it.Offerings[i], r.PriceMicro(it.Name, &it.Offerings[i])}
			if !allowed(r.Zones, c.Offering.Zone) || !allowed(r.CapacityTypes, c.Offering.CapacityType) {
				continue
			}
			if slices.ContainsFunc(r.Requirements, func(q model.Requirement) bool {
				v, ok := c.labelValue(q.Key)
				return isOfferingLabel(q.Key) && !q.Matches(v, ok)
			}) {
				continue
			}
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Option) int {
		x, y := a.Key(), b.Key()
		return cmp.Or(cmp.Compare(a.PriceMicro, b.PriceMicro), strings.Compare(x.InstanceType, y.InstanceType),
			strings.Compare(x.Zone, y.Zone), strings.Compare(x.CapacityType, y.CapacityType))
	})
	return out
}

// SortKeys sorts offerings by type, zone and capacity type, and removes duplicates.
func SortKeys(list []cloud.OfferingKey) []cloud.OfferingKey {
	slices.SortFunc(list, func(a, b cloud.OfferingKey) int {
		switch {
		case a.Less(b):
			return -1
		case b.Less(a):
			return 1
		}
		return 0
	})
	return slices.Compact(list)
}

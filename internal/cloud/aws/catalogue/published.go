// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"maps"
	"strconv"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// FromCatalog returns the Catalogue for a file of instance types and prices, for use without an account. Such files do
// not contain support for Nitro Enclaves, so it is assumed for every type.
func FromCatalog(c *catalog.Catalog) *Catalogue {
	g := &Catalogue{Version: 1, Zones: map[string][]string{}, OnDemandMicro: map[string]int64{}, SpotMicro: map[string]int64{}, OnDemandPublished: true}
	for i := range c.Types {
		t := &c.Types[i]
		g.Types = append(g.Types, typeInfoOf(t))
		for _, o := range t.Offerings {
			if n := len(g.Zones[t.Name]); n == 0 || g.Zones[t.Name][n-1] != o.Zone {
				g.Zones[t.Name] = append(g.Zones[t.Name], o.Zone)
			}
			if o.CapacityType == model.Spot {
				g.SpotMicro[t.Name+"/"+o.Zone] = o.PriceMicro
				g.SpotModelled = g.SpotModelled || o.Modelled
			} else {
				g.OnDemandMicro[t.Name] = max(g.OnDemandMicro[t.Name], o.PriceMicro)
			}
		}
	}
	return g
}

// typeInfoOf describes a type of a file as EC2 describes its own.
func typeInfoOf(t *catalog.Type) *TypeInfo {
	out := &TypeInfo{
		Name: t.Name, Arch: t.Labels[model.LabelArch], Labels: maps.Clone(t.Labels), CPUs: t.Capacity["cpu"] / 1000, MemoryMiB: t.Capacity["memory"] / MiB,
		ENIs: t.ENIs, Addresses: t.Addresses, ExtendedResources: map[string]int64{}, Enclaves: true,
	}
	delete(out.Labels, model.LabelOS)
	out.LocalGB, _ = strconv.ParseInt(t.Labels[awsv1.LabelInstanceLocalNVMe], 10, 64) // absent: no local disks
	// Pods get addresses from the interfaces of the first network card alone, each but one of every interface, and two pods need none.
	if pods := t.Capacity["pods"]; t.Addresses > 1 && (pods-2)%(t.Addresses-1) == 0 {
		out.ENIs = (pods - 2) / (t.Addresses - 1)
	} else {
		out.ENIs, out.Addresses = 1, max(1, pods-1)
	}
	for name, n := range t.Capacity {
		switch name {
		case "cpu", "memory", "pods", "ephemeral-storage":
		default:
			out.ExtendedResources[name] = n
		}
	}
	for _, o := range t.Offerings {
		out.Spot, out.OnDemand = out.Spot || o.CapacityType == model.Spot, out.OnDemand || o.CapacityType == model.OnDemand
	}
	return out
}

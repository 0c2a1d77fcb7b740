// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	_ "embed"
	"slices"
	"sort"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Catalog is a set of instance types with their offerings and prices.
type Catalog struct {
	Name       string // source: a file, or BuiltinName
	Region     string // empty: not set
	PricesAsOf string
	Source     string
	Types      []Type // sorted by name
}

// Type is one instance type.
type Type struct {
	Name        string
	Labels      model.Labels // without zone and capacity type, which belong to offerings
	Capacity    Amounts
	Allocatable Amounts
	Offerings   []model.Offering // by zone, then capacity type
	ENIs        int64            // network interfaces of all network cards; 0: unknown
	Addresses   int64            // IPv4 addresses per interface; 0: unknown
}

// Amounts are resources by name, in the units of package model: millicores, bytes, whole units.
type Amounts map[string]int64

// BuiltinName is the name of the built-in catalog.
const BuiltinName = "built-in EC2 us-east-1"

//go:generate go run ./gen -in ../../../../shared/data/ec2-us-east-1.json -out ec2-us-east-1.json.gz

// The file is made by make gen from the published figures; see gen.
//
//go:embed ec2-us-east-1.json.gz
var builtin []byte

// Find returns the type with this name, nil if there is none.
func (c *Catalog) Find(name string) *Type {
	i, ok := sort.Find(len(c.Types), func(i int) int {
		switch n := c.Types[i].Name; {
		case name < n:
			return -1
		case name > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &c.Types[i]
}

// InstanceTypes returns the types in the format of package model. intern returns the vector position of a resource name.
// It is called with sorted names, so equal catalogs and tables give equal results.
func (c *Catalog) InstanceTypes(intern func(name string) model.Dim) []*model.InstanceType {
	seen := map[string]bool{}
	for _, t := range c.Types {
		for n := range t.Capacity {
			seen[n] = true
		}
		for n := range t.Allocatable {
			seen[n] = true
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	dims := make(map[string]model.Dim, len(names))
	for _, n := range names {
		dims[n] = intern(n)
	}
	vector := func(a Amounts) model.Resources {
		size := model.FirstExtended
		for n := range a {
			size = max(size, dims[n]+1)
		}
		r := make(model.Resources, size)
		for n, v := range a {
			r[dims[n]] = v
		}
		return r
	}
	out := make([]*model.InstanceType, len(c.Types))
	for i, t := range c.Types {
		out[i] = &model.InstanceType{
			Name: t.Name, Labels: t.Labels, Capacity: vector(t.Capacity), Allocatable: vector(t.Allocatable), Offerings: t.Offerings,
		}
	}
	return out
}

// Zones returns all zones with an offering, sorted.
func (c *Catalog) Zones() []string {
	var out []string
	for _, t := range c.Types {
		for _, o := range t.Offerings {
			if !slices.Contains(out, o.Zone) {
				out = append(out, o.Zone)
			}
		}
	}
	sort.Strings(out)
	return out
}

// ModelledSpot returns the price of a type's spot offering in a zone without a published price: between 30 % and 65 % of the
// on-demand price, constant for the type and zone.
//
//	permille = 300 + fnv1a32(type) mod 251 + fnv1a32(type "/" zone) mod 101
//	price    = on-demand × permille / 1000, rounded half up, at least one micro-dollar
//
// Types differ by up to 25 percentage points and zones of one type by up to 10, similar to spot markets. It is a model, not
// a forecast.
func ModelledSpot(onDemandMicro int64, instanceType, zone string) int64 {
	permille := 300 + int64(fnv1a32(instanceType)%251) + int64(fnv1a32(instanceType+"/"+zone)%101)
	return max(1, (onDemandMicro*permille+500)/1000)
}

func fnv1a32(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

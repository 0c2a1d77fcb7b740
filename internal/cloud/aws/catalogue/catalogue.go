// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Catalogue is a snapshot of EC2 in a region: instance types by name, the zones that offer them, and prices in
// micro-dollars per hour. It is read-only.
type Catalogue struct {
	Version       int
	Types         []*TypeInfo
	Zones         map[string][]string // by type, sorted
	OnDemandMicro map[string]int64    // micro-dollars by type
	SpotMicro     map[string]int64    // by type/zone

	typesAt, pricesAt               time.Time
	OnDemandPublished, SpotModelled bool // on-demand prices are published prices of the region; spot prices are estimates
}

// FindType returns the instance type with this name; nil if the region has none that nodes can use.
func (g *Catalogue) FindType(name string) *TypeInfo {
	i, ok := slices.BinarySearchFunc(g.Types, name, func(t *TypeInfo, n string) int { return strings.Compare(t.Name, n) })
	if !ok {
		return nil
	}
	return g.Types[i]
}

// PriceMicro returns the price of a type in a zone and a capacity type, in micro-dollars per hour; 0 if it is not
// offered. modelled: the price is not a published price of the region.
func (g *Catalogue) PriceMicro(t *TypeInfo, zone, capacityType string) (micro int64, modelled bool) {
	if capacityType == model.Spot {
		if !t.Spot {
			return 0, false
		}
		return g.SpotMicro[t.Name+"/"+zone], g.SpotModelled
	}
	if !t.OnDemand {
		return 0, false
	}
	return g.OnDemandMicro[t.Name], !g.OnDemandPublished
}

// equalCatalogues reports whether two catalogues say the same, whenever they were fetched.
func equalCatalogues(a, b *Catalogue) bool {
	text := func(g *Catalogue) string {
		var list []TypeInfo
		for _, t := range g.Types {
			list = append(list, *t)
		}
		return fmt.Sprint(list, g.Zones, g.OnDemandMicro, g.SpotMicro, g.OnDemandPublished, g.SpotModelled)
	}
	return text(a) == text(b)
}

// Store caches the Catalogue, and fetches it from EC2 and the AWS Price List API.
type Store struct {
	aws     *awsapi.Account
	builtin *catalog.Catalog
	turn    cloud.Lock // its holder may refresh

	mu      sync.Mutex
	current *Catalogue
}

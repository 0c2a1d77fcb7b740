// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// catalogue are types, where they are offered, and prices.
type catalogue struct {
	version       int
	types         []*typeInfo
	zones         map[string][]string // by type, sorted
	onDemandMicro map[string]int64    // micro-dollars by type
	spotMicro     map[string]int64    // by type/zone

	typesAt, pricesAt               time.Time
	onDemandPublished, spotModelled bool // on-demand prices are the region's; spot prices are the model's
}

// findType is a type by its name; nil where there is none.
func (g *catalogue) findType(name string) *typeInfo {
	i, ok := slices.BinarySearchFunc(g.types, name, func(t *typeInfo, n string) int { return strings.Compare(t.name, n) })
	if !ok {
		return nil
	}
	return g.types[i]
}

// priceMicro is what a type costs, 0 where it can't be had so.
func (g *catalogue) priceMicro(t *typeInfo, zone, capacityType string) (micro int64, modelled bool) {
	if capacityType == model.Spot {
		if !t.spot {
			return 0, false
		}
		return g.spotMicro[t.name+"/"+zone], g.spotModelled
	}
	if !t.onDemand {
		return 0, false
	}
	return g.onDemandMicro[t.name], !g.onDemandPublished
}

func equalCatalogues(a, b *catalogue) bool {
	text := func(g *catalogue) string {
		var list []typeInfo
		for _, t := range g.types {
			list = append(list, *t)
		}
		return fmt.Sprint(list, g.zones, g.onDemandMicro, g.spotMicro, g.onDemandPublished, g.spotModelled)
	}
	return text(a) == text(b)
}

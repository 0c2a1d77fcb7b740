// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// NodeGroups returns the node groups of node classes, without duplicates, sorted by name; nil if there are none.
func NodeGroups(classes []*NodeClass) []model.NodeGroup {
	var out []model.NodeGroup
	for _, c := range classes {
		out = append(out, c.Groups...)
	}
	slices.SortStableFunc(out, func(a, b model.NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b model.NodeGroup) bool { return a.Name == b.Name })
}

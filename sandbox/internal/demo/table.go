// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is the nodes: what they are, what they cost and how full they are.
func (c *cluster) table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(w, "    "+strings.Join(cells, "\t")) } // Into memory.
	nodes := c.sortedNodes()
	grouped := slices.ContainsFunc(nodes, func(n node) bool { return n.group != "" })
	from := func(cell string) []string { // a column for where there are groups
		if !grouped {
			return nil
		}
		return []string{cell}
	}
	row(slices.Concat([]string{"NODE"}, from("GROUP"), []string{"TYPE", "ZONE", "CAPACITY TYPE", "PRICE PER HOUR", "CPU REQUESTED", "MEMORY REQUESTED", "PODS"})...)
	used := c.requests()
	for _, n := range nodes {
		r := used[n.name]
		row(slices.Concat([]string{short(n.name)}, from(cmp.Or(n.group, "-")), []string{
			n.machine, n.zone, cmp.Or(n.capacityType, onDemand), c.price(n.machine, n.zone, n.capacityType),
			fmt.Sprintf("%5d of %5dm %3d %%", r.cpu, n.cpu, share(r.cpu, n.cpu)),
			fmt.Sprintf("%6d of %6dMi %3d %%", r.memory>>20, n.memory>>20, share(r.memory, n.memory)),
			fmt.Sprintf("%4d", r.pods),
		})...)
	}
	_ = w.Flush()
	return strings.TrimRight(out.String(), "\n")
}

// total returns the cost of the launched nodes, and their cost at the previous step.
func (c *cluster) total(before int64) string {
	micro, nodes := c.launchedCost()
	text := "    no launched node: $0/h"
	if nodes > 0 {
		text = fmt.Sprintf("    %s: %s/h", count(nodes, "launched node", "launched nodes"), dollars(micro))
		if c.modelled() {
			text += ", modelled spot prices"
		}
	}
	switch {
	case before == micro:
	case before == 0:
		text += " (before: none)"
	case micro < before:
		text += fmt.Sprintf(" (before: %s/h; saves %s/h, %d %%)", dollars(before), dollars(before-micro), share(before-micro, before))
	default:
		text += fmt.Sprintf(" (before: %s/h)", dollars(before))
	}
	return text
}

// modelled reports whether any launched node has a modelled price.
func (c *cluster) modelled() bool {
	for _, n := range c.nodes {
		if n.pool != "" && c.prices[offering{n.machine, n.zone, n.capacityType}].modelled {
			return true
		}
	}
	return false
}

// price of an offering per hour, and whether it is modelled.
func (c *cluster) price(machine, zone, capacityType string) string {
	p, ok := c.prices[offering{machine, zone, cmp.Or(capacityType, onDemand)}]
	switch {
	case !ok:
		return "unknown"
	case p.modelled:
		return dollars(p.micro) + " modelled"
	}
	return dollars(p.micro)
}

// dollars from micro-dollars, rounded to a hundredth of a cent.
func dollars(micro int64) string {
	tenths := (micro + 50) / 100
	return fmt.Sprintf("$%d.%04d", tenths/10_000, tenths%10_000)
}

// share of the whole in percent, rounded.
func share(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return (part*100 + whole/2) / whole
}

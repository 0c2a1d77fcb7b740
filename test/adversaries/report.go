// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// find returns a part; nil: it was not played.
func find(parts []*Part, autoscaler string, alone bool) *Part {
	i := slices.IndexFunc(parts, func(p *Part) bool { return p.Autoscaler == autoscaler && p.Alone == alone })
	if i < 0 {
		return nil
	}
	return parts[i]
}

// sum adds the accounts of a part, without those of the honest workload.
func (p *Part) sum() (out Account) {
	for _, name := range slices.Sorted(maps.Keys(p.Accounts)) {
		if a := p.Accounts[name]; name != honestName {
			out.Launches, out.USD, out.Vain, out.VainUSD, out.InTen = out.Launches+a.Launches, out.USD+a.USD, out.Vain+a.Vain, out.VainUSD+a.VainUSD, max(out.InTen, a.InTen)
		}
	}
	return out
}

// table returns the results as one Markdown table: a column for each part, first how the honest pods fared, then what each adversary cost as
// "launches / unused launches / dollars of the unused".
func table(parts []*Part) string {
	type column struct {
		title string
		part  *Part
	}
	var columns []column
	for _, x := range []struct {
		title, autoscaler string
		alone             bool
	}{{"Dovetail alone", dovetail, true}, {"Dovetail", dovetail, false}, {"Karpenter alone", karpenter, true}, {"Karpenter", karpenter, false}} {
		if p := find(parts, x.autoscaler, x.alone); p != nil {
			columns = append(columns, column{x.title, p})
		}
	}
	var out strings.Builder
	row := func(name string, cell func(*Part) string) {
		fmt.Fprintf(&out, "| %s |", name)
		for _, c := range columns {
			fmt.Fprintf(&out, " %s |", cell(c.part))
		}
		out.WriteString("\n")
	}
	out.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&out, " %s |", c.title)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	row("honest pods", func(p *Part) string { return fmt.Sprint(p.Honest.Pods) })
	row("honest pods' wait, p50 / p99 / max", func(p *Part) string {
		return fmt.Sprintf("%.1f / %.1f / %.1f s", p.Honest.P50, p.Honest.P99, p.Honest.Max)
	})
	row("honest pods still waiting / evicted", func(p *Part) string { return fmt.Sprintf("%d / %d", p.Honest.Waiting, p.Honest.Evicted) })
	row("honest nodes, dollars in all", func(p *Part) string {
		if a := p.Accounts[honestName]; a != nil {
			return fmt.Sprintf("$%.4f", a.USD)
		}
		return "–"
	})
	cell := func(a *Account) string {
		if a == nil {
			return "–"
		}
		return fmt.Sprintf("%d / %d / $%.4f", a.Launches, a.Vain, a.VainUSD)
	}
	row("honest: launches / unused launches / dollars of the unused", func(p *Part) string { return cell(p.Accounts[honestName]) })
	row("all adversaries", func(p *Part) string {
		if p.Alone {
			return "–"
		}
		a := p.sum()
		return cell(&a)
	})
	for _, a := range adversaries {
		if slices.ContainsFunc(parts, func(p *Part) bool { return p.Accounts[a.name] != nil }) {
			row(a.name, func(p *Part) string { return cell(p.Accounts[a.name]) })
		}
	}
	return out.String()
}

// check returns which bounds Dovetail exceeds, and which adversaries did nothing.
func check(parts []*Part, o options) error {
	var failed []error
	fail := func(format string, args ...any) { failed = append(failed, fmt.Errorf(format, args...)) }
	for _, p := range parts {
		for name, a := range p.Accounts {
			if name != honestName && a.Acts == 0 {
				fail("%s: adversary %s did nothing: nothing was tested", p.Autoscaler, name)
			}
		}
	}
	with, alone := find(parts, dovetail, false), find(parts, dovetail, true)
	if with == nil {
		return errors.Join(failed...)
	}
	for _, name := range slices.Sorted(maps.Keys(with.Accounts)) {
		if a := with.Accounts[name]; a.InTen > o.vain {
			fail("dovetail: %d unused launches within ten minutes for the pods of %s, more than %d", a.InTen, name, o.vain)
		}
	}
	if n := with.Honest.Waiting; n > 0 {
		fail("dovetail: %d honest pods are still waiting at the end", n)
	}
	if alone != nil {
		if most := o.factor*alone.Honest.P99 + 1; with.Honest.P99 > most {
			fail("dovetail: honest pods waited %.1f s (p99) beside adversaries, more than %.1f times the %.1f s alone and a second", with.Honest.P99, o.factor, alone.Honest.P99)
		}
	}
	return errors.Join(failed...)
}

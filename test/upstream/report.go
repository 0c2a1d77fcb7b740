// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// printResults prints the specs of each run and, where the suite reports figures, one table of all runs.
func printResults(out io.Writer, results []*result) error {
	for _, r := range results {
		fmt.Fprintf(out, "Karpenter %s, %s suite with %s: %d passed, %d failed, %d skipped in %.0f s\n",
			r.Karpenter, r.Suite, r.Autoscaler, r.Passed, r.Failed, r.Skipped, r.Seconds)
		for _, s := range r.Specs {
			fmt.Fprintf(out, "  %-8s %6.0fs  %s\n", s.State, s.Seconds, s.Name)
			if s.Reason != "" {
				fmt.Fprintf(out, "%20s%s\n", "", s.Reason)
			}
			if s.Text != "" {
				fmt.Fprintf(out, "%20sfull output: %s\n", "", s.Text)
			}
		}
		fmt.Fprintln(out)
	}
	return printFigures(out, results)
}

// printFigures prints a line for each phase of each spec that any run reports, with the figures of all runs in their
// order; nothing where there is none.
func printFigures(out io.Writer, results []*result) error {
	type key struct{ spec, phase string }
	var keys []key
	pods := map[key]int{}
	var names []string
	for _, r := range results {
		names = append(names, r.Autoscaler)
		for _, s := range r.Specs {
			for _, p := range s.Phases {
				k := key{s.Name, p.Name}
				if pods[k] = p.Pods; !slices.Contains(keys, k) {
					keys = append(keys, k)
				}
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	fmt.Fprintf(out, "Figures of %s, as reported by the suite:\n", strings.Join(names, " / "))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "spec\tphase\tpods\tnodes\tCPU reserved\tmemory reserved\tseconds\theap MB\tcores")
	for _, k := range keys {
		cell := func(value func(p phase) string) string {
			var values []string
			for _, r := range results {
				values = append(values, "-")
				if p, ok := r.phase(k.spec, k.phase); ok {
					values[len(values)-1] = value(p)
				}
			}
			return strings.Join(values, " / ")
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", shortName(k.spec), k.phase, pods[k],
			cell(func(p phase) string { return fmt.Sprint(p.Nodes) }),
			cell(func(p phase) string { return fmt.Sprintf("%.1f %%", 100*p.CPUReserved) }),
			cell(func(p phase) string { return fmt.Sprintf("%.1f %%", 100*p.MemoryReserved) }),
			cell(func(p phase) string { return fmt.Sprintf("%.1f", p.Seconds) }),
			cell(func(p phase) string { return fmt.Sprintf("%.0f", p.Heap) }),
			cell(func(p phase) string { return fmt.Sprintf("%.2f", p.CPU) }))
	}
	return w.Flush()
}

// phase returns what a run reports of a spec's phase, if it does.
func (r *result) phase(spec, name string) (phase, bool) {
	for _, s := range r.Specs {
		for _, p := range s.Phases {
			if s.Name == spec && p.Name == name {
				return p, true
			}
		}
	}
	return phase{}, false
}

// shortName is what tells specs of the performance suite apart: their text between "Performance" and "should".
func shortName(name string) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "Performance "), " should ")
	return name
}

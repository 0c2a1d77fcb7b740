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
		fmt.Fprintf(out, "Karpenter %s's %s suite against %s: %d passed, %d failed, %d skipped in %.0f s\n",
			r.Karpenter, r.Suite, r.Autoscaler, r.Passed, r.Failed, r.Skipped, r.Seconds)
		for _, s := range r.Specs {
			fmt.Fprintf(out, "  %-8s %6.0fs  %s\n", s.State, s.Seconds, s.Name)
			if s.Reason != "" {
				fmt.Fprintf(out, "%20s%s\n", "", s.Reason)
			}
			if s.Text != "" {
				fmt.Fprintf(out, "%20sthe whole text: %s\n", "", s.Text)
			}
		}
		fmt.Fprintln(out)
	}
	return printFigures(out, results)
}

// printFigures prints a line for each phase of each spec that any run reports; nothing where there is none. Figures of
// the first run stand left.
func printFigures(out io.Writer, results []*result) error {
	type key struct{ spec, phase string }
	var keys []key
	pods := map[key]int{}
	for _, r := range results {
		for _, s := range r.Specs {
			for _, p := range s.Phases {
				k := key{s.Name, p.Name}
				if !slices.Contains(keys, k) {
					keys = append(keys, k)
				}
				pods[k] = p.Pods
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "spec\tphase\tpods\t")
	columns := []struct {
		name  string
		value func(p phase) string
	}{
		{"nodes", func(p phase) string { return fmt.Sprint(p.Nodes) }},
		{"CPU reserved", func(p phase) string { return fmt.Sprintf("%.1f %%", 100*p.CPUReserved) }},
		{"memory reserved", func(p phase) string { return fmt.Sprintf("%.1f %%", 100*p.MemoryReserved) }},
		{"seconds", func(p phase) string { return fmt.Sprintf("%.1f", p.Seconds) }},
	}
	for _, c := range columns {
		for _, r := range results {
			fmt.Fprintf(w, "%s %s\t", r.Autoscaler, c.name)
		}
	}
	fmt.Fprintln(w)
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t%d\t", shortName(k.spec), k.phase, pods[k])
		for _, c := range columns {
			for _, r := range results {
				value := "-"
				if p, ok := r.phase(k.spec, k.phase); ok {
					value = c.value(p)
				}
				fmt.Fprintf(w, "%s\t", value)
			}
		}
		fmt.Fprintln(w)
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

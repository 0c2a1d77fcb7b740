// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// figure is a measured quantity; lower is better for all of them.
type figure struct {
	name   string
	of     func(Run) float64
	format func(float64) string
	only   []string       // systems with this figure; nil: all
	beyond func(Run) bool // reports whether the real value exceeds the measured one; nil: never
}

// section is a part of the workload with its figures.
type section struct {
	title   string
	figures []figure
}

func milliseconds(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) + " ms" }
func seconds(v float64) string      { return strconv.FormatFloat(v, 'f', 1, 64) + " s" }
func dollars(v float64) string      { return "$" + strconv.FormatFloat(v, 'f', 2, 64) }
func number(v float64) string       { return strconv.FormatFloat(v, 'f', 0, 64) }
func percent(v float64) string      { return strconv.FormatFloat(v, 'f', 1, 64) + " %" }

// over returns the excess of a ratio above 1, in percent.
func over(v float64) float64 { return 100 * (v - 1) }

// Figures that are also in the chart.
var (
	startRunning   = figure{name: "Running", of: func(r Run) float64 { return r.Start.RunningMs }, format: milliseconds}
	burstSeconds   = figure{name: "all Running", of: func(r Run) float64 { return r.Burst.Seconds }, format: seconds}
	burstOver      = figure{name: "cost above the proven minimum", of: func(r Run) float64 { return over(r.Burst.OverBound) }, format: percent}
	scaleSeconds   = figure{name: "stable after", of: func(r Run) float64 { return r.ScaleDown.Seconds }, format: seconds, beyond: func(r Run) bool { return r.ScaleDown.Unrested }}
	scaleOver      = figure{name: "cost when stable, above the proven minimum", of: func(r Run) float64 { return over(r.ScaleDown.OverBound) }, format: percent}
	scaleEvictions = figure{name: "pods evicted", of: func(r Run) float64 { return float64(r.ScaleDown.Evictions) }, format: number}
)

// stages are the steps from a pending to a running pod, in order.
var stages = []figure{
	{name: "Pending", of: func(r Run) float64 { return r.Start.PodMs }, format: milliseconds},
	{name: "NodeClaim", of: func(r Run) float64 { return r.Start.ClaimMs }, format: milliseconds, only: []string{dovetail, karpenter}},
	{name: "Node (NotReady)", of: func(r Run) float64 { return r.Start.NodeMs }, format: milliseconds},
	{name: "Node Ready", of: func(r Run) float64 { return r.Start.ReadyMs }, format: milliseconds},
	{name: "pod bound", of: func(r Run) float64 { return r.Start.BoundMs }, format: milliseconds},
	startRunning,
}

// sections returns all figures.
func sections(s Settings) []section {
	if s.onAWS() {
		return awsSections(s)
	}
	return []section{
		{"One pod that needs a node: time since its Deployment was created", stages},
		{fmt.Sprintf("A burst of %d pods", s.Pods), []figure{
			burstSeconds,
			{name: "nodes", of: func(r Run) float64 { return float64(r.Burst.Nodes) }, format: number},
			{name: "cost per hour", of: func(r Run) float64 { return r.Burst.USD }, format: dollars},
			burstOver,
		}},
		{fmt.Sprintf("The burst scaled down to %d pods", s.Pods/2*3/10*2), []figure{
			scaleSeconds,
			{name: "nodes when stable", of: func(r Run) float64 { return float64(r.ScaleDown.Nodes) }, format: number},
			{name: "cost per hour when stable", of: func(r Run) float64 { return r.ScaleDown.USD }, format: dollars},
			scaleOver,
			scaleEvictions,
			{name: "longest time a replacement pod had no node", of: func(r Run) float64 { return r.ScaleDown.Unbound }, format: seconds},
		}},
	}
}

// spread is the median, minimum and maximum of a figure over the runs of one system.
type spread struct{ median, least, most float64 }

// spreadOf returns the spread over the runs of a system, and false if the system has no runs or not this figure.
func (f figure) spreadOf(runs []Run, system string) (spread, bool) {
	var all []float64
	for _, r := range runs {
		if r.System == system {
			all = append(all, f.of(r))
		}
	}
	if len(all) == 0 || f.only != nil && !slices.Contains(f.only, system) {
		return spread{}, false
	}
	slices.Sort(all)
	median := all[len(all)/2]
	if len(all)%2 == 0 {
		median = (median + all[len(all)/2-1]) / 2
	}
	return spread{median, all[0], all[len(all)-1]}, true
}

// text formats the median, with minimum and maximum if runs differ.
func (f figure) text(runs []Run, system string) string {
	s, ok := f.spreadOf(runs, system)
	if !ok {
		return "–"
	}
	median, least, most := f.mark(runs, system)+f.format(s.median), f.format(s.least), f.format(s.most)
	if s.least == s.most || least == most {
		return median
	}
	if at := strings.LastIndexByte(least, ' '); at > 0 { // the unit follows the maximum
		least = least[:at]
	}
	return fmt.Sprintf("%s (%s to %s)", median, least, most)
}

// mark returns the prefix of a figure that exceeds the measured value in some run.
func (f figure) mark(runs []Run, system string) string {
	if f.beyond != nil && slices.ContainsFunc(runs, func(r Run) bool { return r.System == system && f.beyond(r) }) {
		return "over "
	}
	return ""
}

// ran returns the systems with runs, in the order of systems.
func ran(runs []Run) (out []string) {
	for _, s := range systems {
		if count(runs, s) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// names returns the systems with version and number of runs.
func names(runs []Run) (out []string) {
	for _, s := range ran(runs) {
		at := slices.IndexFunc(runs, func(r Run) bool { return r.System == s })
		text := fmt.Sprintf("%s %s (%d runs)", s, runs[at].Version, count(runs, s))
		if count(runs, s) == 1 {
			text = strings.TrimSuffix(text, "s)") + ")"
		}
		out = append(out, text)
	}
	return out
}

// loaded describes other load on the machine, and is empty if there was none before any run.
func loaded(runs []Run) string {
	const quiet = 20 // percent
	n, most := 0, 0.0
	for _, r := range runs {
		if most = max(most, r.Busy); r.Busy > quiet {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("The machine was loaded: before %d of %d runs, other processes used more than %d %% of its CPUs, up to %.0f %%. Times are longer than on an idle machine; costs and counts are less affected.",
		n, len(runs), quiet, most)
}

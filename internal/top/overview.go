// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// overviewRows is how many reasons, blockers and problems an overview lists of each.
const overviewRows = 5

// Overview writes a View on one screen: sums, operations in progress, what is blocked, reasons of pending pods, and the three commands
// to run next. program is how dovetail was called. Width 0 means no limit.
func Overview(w io.Writer, v *View, width int, program string) error {
	out := append(sums(v, width), problems(v, width, 0)...)
	part := func(title string, rows []Line) {
		if len(rows) == 0 {
			return
		}
		out = append(out, Line{}, text(title, Head))
		if more := len(rows) - overviewRows; more > 1 {
			rows = append(slices.Clone(rows[:overviewRows]), text("and "+strconv.Itoa(more)+" more", Dim))
		}
		for _, row := range rows {
			out = append(out, append(text("  ", Plain), row...))
		}
	}
	lines := func(texts []string) (rows []Line) {
		for _, t := range texts {
			for i, l := range wrap(t, max(0, width-4)) {
				if i > 0 {
					l = "  " + l
				}
				rows = append(rows, text(l, Plain))
			}
		}
		return rows
	}
	part("In progress", lines(v.Underway))
	part("Blocked", lines(v.Blocked))
	var reasons []string
	for i := range v.Pending {
		r := &v.Pending[i]
		reasons = append(reasons, model.Count(len(r.Pods), "pod")+", oldest "+ageText(r.Oldest)+": "+r.Why())
	}
	part("Pending pods", lines(reasons))
	commands := next3(v)
	wide := 0
	for _, c := range commands {
		wide = max(wide, len(c[0]))
	}
	var rows []Line
	for _, c := range commands {
		rows = append(rows, Line{{program + " " + pad(c[0], wide, false), Plain}, {"  " + c[1], Dim}})
	}
	part("Next commands", rows)
	var b strings.Builder
	for _, line := range crop(out, cmp.Or(width, 1<<16)) {
		b.WriteString(line.String())
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// next3 returns the three commands that help most in the state of a cluster, each with what it shows.
func next3(v *View) [][2]string {
	dovetail := slices.ContainsFunc(v.Autoscalers, func(a Autoscaler) bool { return a.Name == Dovetail })
	var out [][2]string
	pools := slices.ContainsFunc(v.Pools, func(r PoolRow) bool { return r.Key != "" })
	if dovetail && !pools && len(v.Reading) == 0 && len(v.Problems) == 0 {
		out = append(out, [2]string{"manifests --nodepool aws", "print an example NodePool: without one, no node is launched (in a sandbox: kwok)"})
	}
	if dovetail && v.Total.Pending > 0 {
		out = append(out, [2]string{"why pods --pending", "reasons and remedies of the pending pods"})
	}
	if dovetail {
		if i := slices.IndexFunc(v.Nodes, func(r NodeRow) bool { return r.Blocked != "" }); i >= 0 {
			out = append(out, [2]string{"why node/" + v.Nodes[i].Name, "why the node is not drained"})
		}
	}
	out = append(out, [2]string{"doctor", "cost, minimum cost, and what explains the gap"})
	if dovetail {
		out = append(out, [2]string{"history", "what was done in the last hour, and why"})
	} else {
		out = append(out, [2]string{"plan --live", "nodes that Dovetail would launch for the pending pods"})
	}
	return append(out, [2]string{"top", "nodes, pods and decisions, live"})[:3]
}

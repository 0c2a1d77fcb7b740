// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// HistoryRow is what happened to one object for one reason. The disruption, drain and removal of a node are one row.
type HistoryRow struct {
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // of the last entry of the row
	What    string    `json:"what"`  // HistoryWord of the last entry
	Subject string    `json:"object"`
	Why     string    `json:"why"`
	Cause   string    `json:"cause"` // Why without what differs between objects
	Count   int       `json:"count"` // entries that were recorded once for several occurrences count each of them

	Before int64 `json:"clusterBeforeMicroUSDPerHour,omitempty"` // cost of all nodes of NodePools before and after What
	After  int64 `json:"clusterAfterMicroUSDPerHour,omitempty"`
}

// HistoryCause is the rows of one word and cause.
type HistoryCause struct {
	What  string    `json:"what"`
	Cause string    `json:"cause"`
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Micro int64     `json:"changedMicroUSDPerHour,omitempty"` // by how much the rows changed the cost of the cluster
}

// Rows returns the entries, with one row for the removal of each node.
func (h *History) Rows() (out []HistoryRow) {
	removals := map[string]int{} // rows by NodeClaim
	for i := range h.Entries {
		e := &h.Entries[i]
		claim, node := removedClaim(e)
		if at, ok := removals[claim]; ok && claim != "" && e.Kind != "move" {
			row := &out[at]
			row.What, row.Until, row.Before, row.After = HistoryWord(e), e.At, e.Before, e.After
			if e.Kind == "remove" {
				delete(removals, claim)
			}
			continue
		}
		row := HistoryRow{At: e.At, Until: e.At, What: HistoryWord(e), Subject: cmp.Or(node, e.Subject), Why: EntryWhy(e), Cause: entryCause(e), Count: max(1, e.Count),
			Before: e.Before, After: e.After}
		if e.Last.After(e.At) {
			row.Until = e.Last
		}
		if claim != "" && e.Kind != "remove" {
			removals[claim] = len(out)
		}
		out = append(out, row)
	}
	return out
}

// removedClaim returns the NodeClaim that an entry is a step of the removal of, and its node if it has one. Both are empty for other entries.
func removedClaim(e *ledger.Entry) (claim, node string) {
	if strings.HasPrefix(e.Outcome, "failed") {
		return "", ""
	}
	find := func(kind string) string {
		for _, o := range append([]string{e.Subject}, e.Related...) {
			if strings.HasPrefix(o, kind) {
				return o
			}
		}
		return ""
	}
	switch e.Kind {
	case "move", "delete", "remove":
		return find("nodeclaim/"), find("node/")
	}
	return "", ""
}

// entryCause returns the reason of an entry without names and figures that differ between the objects of one cause.
func entryCause(e *ledger.Entry) string {
	if e.Kind == ledger.Bind && e.Outcome == "" {
		return "pods bound to their node"
	}
	var out []string
	for _, r := range e.Why {
		s := entrySentence(e, r)
		switch {
		case e.Command != nil && e.Kind == "create":
			s = "replacements for nodes" + with(", ", replacedBecause[r.Code], "")
		case r.Code == plan.Underutilized:
			s = "pods can run on other nodes at lower cost"
		}
		if s = with("NodePool ", r.Pool, ": ") + s; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return e.Outcome
	}
	return strings.Join(out, "; ")
}

// Causes sums rows up by what happened and why, the most frequent first.
func Causes(rows []HistoryRow) (out []HistoryCause) {
	type key struct{ what, cause string }
	at := map[key]int{}
	for i := range rows {
		r := &rows[i]
		k := key{r.What, r.Cause}
		j, ok := at[k]
		if !ok {
			j = len(out)
			at[k] = j
			out = append(out, HistoryCause{What: r.What, Cause: r.Cause})
		}
		c := &out[j]
		c.Count += r.Count
		c.Micro += r.After - r.Before
		if r.Until.After(c.Last) {
			c.Last = r.Until
		}
	}
	slices.SortStableFunc(out, func(a, b HistoryCause) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
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

// History is what was decided from an instant on.
type History struct {
	Since   time.Time      `json:"since"`
	Until   time.Time      `json:"until"`
	Subject string         `json:"subject,omitempty"` // what it is about; empty: the whole cluster
	Entries []ledger.Entry `json:"entries"`           // oldest first

	Now *int64 `json:"costNowMicroUSDPerHour,omitempty"` // what all nodes of NodePools cost at Until; absent: not known
}

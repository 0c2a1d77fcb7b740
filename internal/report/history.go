// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// HistoryJSON writes a history for programs; docs/reference/json.md says what each field means.
func HistoryJSON(w io.Writer, h *History) error {
	rows := h.Rows()
	return writeIndented(w, struct {
		*History
		Rows   []HistoryRow   `json:"rows"`
		Causes []HistoryCause `json:"causes"`
	}{h, append([]HistoryRow{}, rows...), append([]HistoryCause{}, Causes(rows)...)})
}

// shownAt is the instant of a row in the text. That of a removal is when the node was gone, so that the costs of rows follow one another.
func (r *HistoryRow) shownAt() time.Time {
	if r.What == "removed" {
		return r.Until
	}
	return r.At
}

// sortShown sorts rows by the second that the text shows, and those of a second so that the cost before a row is that after the row above, where there is
// such an order.
func sortShown(rows []HistoryRow) {
	second := func(r *HistoryRow) time.Time { return r.shownAt().Truncate(time.Second) }
	slices.SortStableFunc(rows, func(a, b HistoryRow) int { return a.shownAt().Compare(b.shownAt()) })
	cost, known := int64(0), false // after the row above
	for i := 0; i < len(rows); {
		end := i + 1
		for end < len(rows) && second(&rows[end]).Equal(second(&rows[i])) {
			end++
		}
		for ; i < end; i++ {
			left := rows[i:end]
			priced := func(r *HistoryRow) bool { return r.Before != 0 || r.After != 0 }
			next := slices.IndexFunc(left, func(r HistoryRow) bool {
				if !priced(&r) || known {
					return priced(&r) && r.Before == cost
				}
				return r.Before != r.After && !slices.ContainsFunc(left, func(o HistoryRow) bool { return priced(&o) && o.Before != o.After && o.After == r.Before })
			})
			if next > 0 {
				r := left[next]
				copy(left[1:next+1], left[:next])
				left[0] = r
			}
			if priced(&left[0]) {
				cost, known = left[0].After, true
			}
		}
	}
}

// mostHistory is how many rows the text shows; the JSON has all.
const mostHistory = 200

// HistoryText writes a history for people: the sums by cause if they are at most half as many as the rows, the rows, then their sum.
func HistoryText(w io.Writer, h *History) error {
	var b bytes.Buffer
	about := with(" about ", objectName(plan.Object(h.Subject)), "")
	fmt.Fprintf(&b, "%s to %s UTC%s\n\n", h.Since.UTC().Format("2006-01-02 15:04:05"), h.Until.UTC().Format("15:04:05"), about)
	rows := h.Rows()
	sortShown(rows)
	if len(rows) == 0 {
		fmt.Fprintf(&b, "No decisions%s in this period.\n", about)
		_, err := w.Write(b.Bytes())
		return err
	}
	if causes := Causes(rows); 2*len(causes) <= len(rows) {
		t := newTable("TIMES>", "WHAT", "CHANGE IN $/H>", "CAUSE")
		for _, c := range causes {
			t.add(strconv.Itoa(c.Count), c.What, changeText(c.Micro), c.Cause)
		}
		t.write(&b)
		b.WriteByte('\n')
	}
	first := max(0, len(rows)-mostHistory)
	if first > 0 {
		fmt.Fprintf(&b, "  (%d earlier rows left out; -o json has them)\n", first)
	}
	t := newTable("TIME", "WHAT", "OBJECT", "CLUSTER $/H", "WHY")
	for i := first; i < len(rows); i++ {
		r := &rows[i]
		format := "15:04:05"
		if h.Until.Sub(h.Since) > 24*time.Hour {
			format = "Jan 2 15:04:05"
		}
		why := r.Why
		switch took := r.Until.Sub(r.At).Round(time.Second); {
		case r.Count > 1:
			why += fmt.Sprintf(" [%d times until %s]", r.Count, r.Until.UTC().Format("15:04:05"))
		case r.What == "removed" && took > 0:
			why += " [took " + durationText(took) + "]"
		}
		t.add(r.shownAt().UTC().Format(format), r.What, r.Subject, spent(r), why)
	}
	t.write(&b)
	writeDisruptedPods(&b, h)
	fmt.Fprintf(&b, "\n%s\n", historySum(h, rows))
	_, err := w.Write(b.Bytes())
	return err
}

// writeDisruptedPods lists the pods that each disruption of a node moved, in a history of that node. Rows of other histories have only their number.
func writeDisruptedPods(b *bytes.Buffer, h *History) {
	if !strings.HasPrefix(h.Subject, "node/") && !strings.HasPrefix(h.Subject, "nodeclaim/") {
		return
	}
	title := "\nPods on the disrupted node\n"
	for i := range h.Entries {
		if e := &h.Entries[i]; e.Kind == "move" && len(e.Pods) > 0 {
			fmt.Fprintf(b, "%s  %s  %s%s\n", title, e.At.UTC().Format("15:04:05"), strings.Join(e.Pods, ", "), with(" and ", more(e.MorePods), " more"))
			title = ""
		}
	}
}

// more is a number of further things; empty: none.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// changeText is a change of a cost; "-" if there is none.
func changeText(micro int64) string {
	switch {
	case micro < 0:
		return "-" + shortUSD(-micro)
	case micro > 0:
		return "+" + shortUSD(micro)
	}
	return "-"
}

// spent is what the cluster cost an hour before and after.
func spent(r *HistoryRow) string {
	switch {
	case r.Before == 0 && r.After == 0:
		return "-"
	case r.Before == r.After:
		return shortUSD(r.Before)
	}
	return shortUSD(r.Before) + " to " + shortUSD(r.After)
}

// historySum counts what happened, and says how the cost of the nodes changed unless the history is about one object. Rows are in the order of the text.
func historySum(h *History, rows []HistoryRow) string {
	counts, under := map[string]int{}, map[string]string{} // under: the word of a NodeClaim whose deletion is under way
	before, after, priced := int64(0), int64(0), false
	for i := range h.Entries {
		e := &h.Entries[i]
		switch e.Kind {
		case "delete":
			under[e.Subject] = HistoryWord(e)
		case "remove":
			delete(under, e.Subject)
		}
		if word := HistoryWord(e); e.Kind != "delete" || word == "failed" {
			counts[word] += max(1, e.Count)
		}
	}
	for i := range rows {
		if r := &rows[i]; (r.Before != 0 || r.After != 0) && h.Subject == "" {
			if !priced {
				before, priced = r.Before, true
			}
			after = r.After
		}
	}
	for _, word := range under {
		counts["still "+word]++
	}
	var parts []string
	order := []string{"launched", "disrupted", "still draining", "still deleting", "removed", "blocked", "interrupted", "refused", "failed", "noted"}
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		if !slices.Contains(order, word) {
			order = append(order, word)
		}
	}
	for _, word := range order {
		if n := counts[word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	s := strings.Join(parts, ", ")
	switch {
	case priced && h.Now != nil:
		s += "; cost of NodePool nodes: " + shortUSD(before) + "/h before, " + shortUSD(*h.Now) + "/h now"
	case priced:
		s += "; cost of NodePool nodes: " + shortUSD(before) + "/h before, " + shortUSD(after) + "/h after"
	}
	return s + "."
}

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

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// History is what was decided from an instant on.
type History struct {
	Since   time.Time      `json:"since"`
	Until   time.Time      `json:"until"`
	Subject string         `json:"subject,omitempty"` // what it is about; empty: the whole cluster
	Entries []ledger.Entry `json:"entries"`           // oldest first

	Now *int64 `json:"costNowMicroUSDPerHour,omitempty"` // what all nodes of NodePools cost at Until; absent: not known
}

// HistoryJSON writes a history for programs; docs/reference/json.md says what each field means.
func HistoryJSON(w io.Writer, h *History) error {
	rows := h.Rows()
	return writeIndented(w, struct {
		*History
		Rows   []HistoryRow   `json:"rows"`
		Causes []HistoryCause `json:"causes"`
	}{h, append([]HistoryRow{}, rows...), append([]HistoryCause{}, Causes(rows)...)})
}

// historyKinds are what happened, by the kind of an entry.
var historyKinds = map[string]string{
	"create": "launched", "delete": "draining", "remove": "removed", "terminate": "removed", "move": "disrupted", ledger.Refuse: "refused", "verify": "refused",
	"launch": "failed", "abort": "failed", "release": "failed", "evict": "failed", "decide": "failed", "interrupt": "interrupted", ledger.Blocked: "blocked", "restart": "restarted",
	ledger.Bind: "bound", "would create": "withheld", "stand down": "passive", "act": "active", "end": "removed", ledger.Keep: "kept",
}

// HistoryWord says in a word what happened in an entry; docs/reference/json.md has them all.
func HistoryWord(e *ledger.Entry) string {
	switch {
	case strings.HasPrefix(e.Outcome, "failed"):
		return "failed"
	case e.Kind == "launch" && e.Outcome == "done":
		return "launched"
	case e.Kind == "delete" && !slices.ContainsFunc(e.Related, func(o string) bool { return strings.HasPrefix(o, "node/") }):
		return "ending" // the NodeClaim has no node that could be drained
	}
	return or(historyKinds[e.Kind], "told")
}

// Blocker names who refuses an eviction that an entry of kind ledger.Blocked is about; empty: it is another entry.
func Blocker(e *ledger.Entry) string {
	if e.Kind != ledger.Blocked || len(e.Why) == 0 {
		return ""
	}
	if r := e.Why[0]; r.Code == plan.DisruptionBudgetPDB {
		return objectName(plan.ObjectOf("poddisruptionbudget", plan.DetailOf[plan.OfPDB](r).Name))
	}
	return objectName(e.Why[0].Subject)
}

// mostHistory is how many rows the text shows; the JSON has all.
const mostHistory = 200

// HistoryText writes a history for people: the sums by cause if they are at most half as many as the rows, the rows, then their sum.
func HistoryText(w io.Writer, h *History) error {
	var b bytes.Buffer
	about := with(" about ", objectName(plan.Object(h.Subject)), "")
	fmt.Fprintf(&b, "%s to %s UTC%s\n\n", h.Since.UTC().Format("2006-01-02 15:04:05"), h.Until.UTC().Format("15:04:05"), about)
	rows := h.Rows()
	if len(rows) == 0 {
		fmt.Fprintf(&b, "Nothing was decided%s in this time.\n", about)
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
			why += " [after " + durationText(took) + "]"
		}
		t.add(r.At.UTC().Format(format), r.What, r.Subject, spent(r), why)
	}
	t.write(&b)
	fmt.Fprintf(&b, "\n%s\n", historySum(h))
	_, err := w.Write(b.Bytes())
	return err
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

// mostBound is how many pods are named that were bound to a node.
const mostBound = 3

// EntryWhy says of an entry why, for whom, and what became of it, but not how often.
func EntryWhy(e *ledger.Entry) string {
	if e.Kind == ledger.Bind && e.Outcome == "" {
		return boundPods(e)
	}
	why := make([]string, 0, len(e.Why))
	for _, r := range e.Why {
		why = append(why, with("NodePool ", r.Pool, ": ")+entrySentence(e, r))
	}
	s := strings.Join(why, "; ")
	if e.Type != "" && e.Micro > 0 {
		s += " [" + e.Type + ", " + shortUSD(e.Micro) + "/h]"
	}
	if n := len(e.Pods) + e.MorePods; n > 0 && e.Kind != ledger.Refuse {
		s += " [" + model.Count(n, "pod") + "]"
	}
	if e.Outcome != "" && e.Outcome != "done" {
		s += " (" + e.Outcome + ")"
	}
	return strings.TrimSpace(s)
}

// boundPods names pods that were bound.
func boundPods(e *ledger.Entry) string {
	names := e.Pods[:min(len(e.Pods), mostBound)]
	s := strings.Join(names, ", ")
	if more := len(e.Pods) + e.MorePods - len(names); more > 0 {
		s += " and " + strconv.Itoa(more) + " more"
	}
	return s
}

// entrySentence says a reason of an entry: of a disruption command's entries what the whole command does.
func entrySentence(e *ledger.Entry, r plan.Reason) string {
	switch c := e.Command; {
	case c != nil && e.Kind == "create":
		s := "replacement for " + model.Count(c.Nodes, "node")
		if c.Replacements > 1 {
			s = "one of " + strconv.Itoa(c.Replacements) + " replacements for " + model.Count(c.Nodes, "node")
		}
		return s + with(", ", replacedBecause[r.Code], "")
	case c != nil && r.Code == plan.Underutilized:
		does := "removing it"
		switch {
		case c.Nodes == 1 && c.Replacements > 0:
			does = "replacing it"
		case c.Nodes > 1 && c.Replacements > 0:
			does = "replacing " + strconv.Itoa(c.Nodes) + " nodes by " + strconv.Itoa(c.Replacements) + " together"
		case c.Nodes > 1:
			does = "removing " + strconv.Itoa(c.Nodes) + " nodes together"
		}
		return "its pods can run on other nodes at lower cost; " + does + " saves " + shortUSD(c.Saved) + "/h, and the evictions are priced at " + shortUSD(c.Cost) + " once"
	}
	return Sentence(r)
}

// replacedBecause is why nodes are replaced, of their replacement.
var replacedBecause = map[plan.Code]string{
	plan.Underutilized: "whose pods cost less on it", plan.Drifted: "which have drifted", plan.Expired: "which have expired",
}

// historySum counts what happened, and says how the cost of the nodes changed.
func historySum(h *History) string {
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
			counts[word]++
		}
		if e.Before != 0 || e.After != 0 {
			if !priced {
				before, priced = e.Before, true
			}
			after = e.After
		}
	}
	for _, word := range under {
		counts["still "+word]++
	}
	var parts []string
	order := []string{"launched", "disrupted", "still draining", "still ending", "removed", "blocked", "interrupted", "refused", "failed", "told"}
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
		s += "; nodes of NodePools cost " + shortUSD(before) + "/h before and " + shortUSD(*h.Now) + "/h now"
	case priced:
		s += "; nodes of NodePools cost " + shortUSD(before) + "/h before and " + shortUSD(after) + "/h after the last of these"
	}
	return s + "."
}

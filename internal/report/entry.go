// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

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
		return "deleting" // the NodeClaim has no node that could be drained
	}
	return or(historyKinds[e.Kind], "noted")
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

// mostBound is how many pods are named that were bound to a node.
const mostBound = 3

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
		s := "replacement for " + model.Count(c.Nodes, causes[r.Code].replaced+"node")
		if c.Replacements > 1 {
			s = "one of " + strconv.Itoa(c.Replacements) + " replacements for " + model.Count(c.Nodes, causes[r.Code].replaced+"node")
		}
		return s + lowerCost(r)
	case c != nil && r.Code == plan.Underutilized:
		does := "removing it"
		switch {
		case c.Nodes == 1 && c.Replacements > 0:
			does = "replacing it"
		case c.Nodes > 1 && c.Replacements > 0:
			does = "replacing " + strconv.Itoa(c.Nodes) + " nodes with " + strconv.Itoa(c.Replacements)
		case c.Nodes > 1:
			does = "removing " + strconv.Itoa(c.Nodes) + " nodes together"
		}
		return "its pods can run on other nodes at lower cost; " + does + " saves " + shortUSD(c.Saved) + "/h; the evictions cost " + shortUSD(c.Cost) + " once"
	}
	return Sentence(r)
}

func lowerCost(r plan.Reason) string {
	if r.Code == plan.Underutilized {
		return ", at lower cost"
	}
	return ""
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
			s = "replacements for " + causes[r.Code].replaced + "nodes" + lowerCost(r)
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

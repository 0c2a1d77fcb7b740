// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// drainBlockers are who is known to keep nodes that are being deleted from being drained, by node: who refused an eviction
// last, and pods whose annotation keeps them.
func (b *Board) drainBlockers() map[string]string {
	since := map[string]time.Time{} // when the deletion of a node was asked for
	for _, n := range b.nodes {
		if !n.Deleting.IsZero() {
			since[n.Name] = n.Deleting
		}
	}
	for _, c := range b.claims {
		if !c.Deleting.IsZero() && c.Node != "" {
			since[c.Node] = c.Deleting
		}
	}
	out := map[string]string{}
	if len(since) == 0 {
		return out
	}
	for _, p := range b.pods {
		if _, ok := since[p.Node]; ok && p.DoNotDisrupt && !p.Daemon {
			if name := "do-not-disrupt on pod " + p.Namespace + "/" + p.Name; out[p.Node] == "" || name < out[p.Node] {
				out[p.Node] = name
			}
		}
	}
	last := map[string]Decision{}
	take := func(d Decision) {
		node, ok := strings.CutPrefix(d.Subject, "node/")
		if at, known := since[node]; ok && known && d.Blocker != "" && !d.LastAt().Before(at) && !d.LastAt().Before(last[node].LastAt()) {
			last[node] = d
		}
	}
	for _, d := range b.ledger {
		take(d)
	}
	for _, d := range b.events {
		if !b.ledgerKnown || d.By != Dovetail {
			take(d)
		}
	}
	for node, d := range last {
		out[node] = clean(d.Blocker)
	}
	return out
}

// keepEvents are the reasons of events that say why Karpenter or Dovetail keeps a node.
var keepEvents = []string{"Unconsolidatable", "DisruptionBlocked", "ConsolidationRejected"}

// keptNodes are the last decisions to keep a node, by name: of the ledger, or of events if there is none.
func (b *Board) keptNodes() map[string]Decision {
	return b.lastOfNodes(func(d *Decision) bool { return d.Keeps || slices.Contains(keepEvents, d.Kind) })
}

// savings are the last decisions that say what the removal of a node saves, by name of the node.
func (b *Board) savings() map[string]Decision {
	return b.lastOfNodes(func(d *Decision) bool { return d.Micro > 0 })
}

// lastOfNodes returns the last decision about each node that is wanted.
func (b *Board) lastOfNodes(wanted func(*Decision) bool) map[string]Decision {
	out := map[string]Decision{}
	take := func(d Decision) {
		if node, ok := strings.CutPrefix(d.Subject, "node/"); ok && wanted(&d) && !d.LastAt().Before(out[node].LastAt()) {
			out[node] = d
		}
	}
	for _, d := range b.ledger {
		take(d)
	}
	if !b.ledgerKnown {
		for _, d := range b.events {
			take(d)
		}
	}
	return out
}

// drainOf is what nodes that are being drained have in common.
type drainOf struct {
	by   string    // who blocks their drain; empty: nobody is known to
	ends time.Time // when the cloud ends their instances; zero: nobody has announced that
}

// drainSum counts nodes that are being drained, and the pods left on them.
type drainSum struct{ nodes, pods int }

// drainTexts says what is being drained, one line for nodes that have the same in common.
func drainTexts(list map[drainOf]drainSum, now time.Time) (out []string) {
	for _, of := range slices.SortedFunc(maps.Keys(list), func(a, b drainOf) int { return cmp.Or(cmp.Compare(a.by, b.by), a.ends.Compare(b.ends)) }) {
		sum := list[of]
		kind, end := "node", ""
		if !of.ends.IsZero() {
			kind, end = "interrupted node", "; the cloud ends the "+plural(sum.nodes, "instance")+" at "+of.ends.UTC().Format(clockOfDay)
			if !now.Before(of.ends) {
				end = "; the cloud was to end the " + plural(sum.nodes, "instance") + " at " + of.ends.UTC().Format(clockOfDay)
			}
		}
		text := model.Count(sum.nodes, kind) + " draining, "
		if of.by != "" {
			text += "blocked by " + of.by + ", "
		}
		out = append(out, text+model.Count(sum.pods, "pod")+" left"+end)
	}
	return out
}

// plural returns a noun in the number of n.
func plural(n int, noun string) string {
	_, noun, _ = strings.Cut(model.Count(n, noun), " ")
	return noun
}

// readNext fills in what is in progress, what is blocked, and both in one list: launches, nodes to be drained, drains and their blockers,
// instances that end, and pods that fit no node. The lists stay empty if no known autoscaler works with NodeClaims.
func (b *Board) readNext(v *View) {
	if len(v.Reading) > 0 || len(b.claims) == 0 && !slices.ContainsFunc(v.Autoscalers, func(a Autoscaler) bool { return a.Name == Dovetail || a.Name == Karpenter }) {
		return
	}
	launching, blocked, draining := map[string]int{}, map[drainOf]drainSum{}, map[drainOf]drainSum{}
	launches, disrupted := 0, 0
	for i := range v.Nodes {
		switch r := &v.Nodes[i]; {
		case r.State == Launching || r.State == Booting || r.State == Starting:
			step, _, _ := strings.Cut(r.Doing, ":")
			launching[strings.ToLower(step)]++
			launches++
		case r.Disrupted:
			disrupted++
		case r.Blocked != "":
			of := drainOf{r.Blocked, r.ends}
			blocked[of] = drainSum{blocked[of].nodes + 1, blocked[of].pods + r.left}
		case r.State == Draining:
			of := drainOf{"", r.ends}
			draining[of] = drainSum{draining[of].nodes + 1, draining[of].pods + r.left}
		}
	}
	var out []string
	for _, step := range slices.Sorted(maps.Keys(launching)) {
		text := model.Count(launching[step], "node") + " launching"
		if step != "" {
			text += ", " + step
		}
		out = append(out, text)
	}
	switch {
	case disrupted > 0 && launches > 0:
		out = append(out, model.Count(disrupted, "node")+" to be drained when replacements are Ready")
	case disrupted > 0:
		out = append(out, model.Count(disrupted, "node")+" to be drained")
	}
	out = append(out, drainTexts(draining, v.At)...)
	v.Blocked = append(v.Blocked, drainTexts(blocked, v.At)...)
	v.Blocked = append(v.Blocked, b.frozen(v.At)...)
	if n := v.Total.States[Ending]; n > 0 {
		out = append(out, model.Count(n, "instance")+" ending")
	}
	v.Underway = out
	out = slices.Concat(out, v.Blocked)
	if len(out) == 0 {
		out = append(out, "no node is being launched, replaced or drained")
	}
	refused := 0
	for i := range v.Pending {
		if v.Pending[i].Said != "" && !v.Pending[i].waits {
			refused += len(v.Pending[i].Pods)
		}
	}
	if refused > 0 {
		out = append(out, "no node fits "+model.Count(refused, "pending pod"))
	}
	v.Next = out
}

// frozen returns a line for each instant until which disruption budgets of NodePools allow no voluntary disruption.
func (b *Board) frozen(now time.Time) (out []string) {
	pools := map[time.Time][]string{}
	for _, p := range b.pools {
		if until, frozen := disrupt.Frozen(p.Budgets, now); frozen && !p.Deleting {
			pools[until] = append(pools[until], strings.TrimPrefix(p.Key, "nodepool/"))
		}
	}
	for _, until := range slices.SortedFunc(maps.Keys(pools), time.Time.Compare) {
		names := pools[until]
		slices.Sort(names)
		which := "of all " + model.Count(len(names), "NodePool")
		switch {
		case len(names) == 1:
			which = "of NodePool " + names[0]
		case len(names) < len(b.pools):
			which = "of " + model.Count(len(names), "NodePool") + " (" + strings.Join(names[:min(3, len(names))], ", ")
			if len(names) > 3 {
				which += ", …"
			}
			which += ")"
		}
		text := "frozen"
		switch {
		case until.IsZero():
		case until.Sub(now) < 12*time.Hour:
			text += " until " + until.UTC().Format("15:04") + " UTC"
		default:
			text += " until " + until.UTC().Format("2006-01-02 15:04") + " UTC"
		}
		out = append(out, text+": the disruption budgets "+which+" allow no voluntary disruption")
	}
	return out
}

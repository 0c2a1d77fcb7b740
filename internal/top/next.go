// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"maps"
	"slices"
	"strings"
	"time"

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

// readNext fills in what is in progress, what is blocked, and both in one list: launches, nodes to be drained, drains and their blockers,
// instances that end, and pods that fit no node. The lists stay empty if no known autoscaler works with NodeClaims.
func (b *Board) readNext(v *View) {
	if len(v.Reading) > 0 || len(b.claims) == 0 && !slices.ContainsFunc(v.Autoscalers, func(a Autoscaler) bool { return a.Name == Dovetail || a.Name == Karpenter }) {
		return
	}
	launching, blocked, blockedPods := map[string]int{}, map[string]int{}, map[string]int{}
	launches, disrupted, draining, left := 0, 0, 0, 0
	for i := range v.Nodes {
		switch r := &v.Nodes[i]; {
		case r.State == Launching || r.State == Booting || r.State == Starting:
			step, _, _ := strings.Cut(r.Doing, ":")
			launching[strings.ToLower(step)]++
			launches++
		case r.Disrupted:
			disrupted++
		case r.Blocked != "":
			blocked[r.Blocked]++
			blockedPods[r.Blocked] += r.left
		case r.State == Draining:
			draining++
			left += r.left
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
	if draining > 0 {
		out = append(out, model.Count(draining, "node")+" draining, "+model.Count(left, "pod")+" left")
	}
	for _, by := range slices.Sorted(maps.Keys(blocked)) {
		v.Blocked = append(v.Blocked, model.Count(blocked[by], "node")+" draining, blocked by "+by+", "+model.Count(blockedPods[by], "pod")+" left")
	}
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
		if v.Pending[i].Said != "" {
			refused += len(v.Pending[i].Pods)
		}
	}
	if refused > 0 {
		out = append(out, "no node fits "+model.Count(refused, "pending pod"))
	}
	v.Next = out
}

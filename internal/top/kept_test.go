// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestKeptNodes: a node that stays has the last reason to keep it, one that goes has what its command saves, and neither decision is lost or
// shown twice. Events count only if there is no ledger.
func TestKeptNodes(t *testing.T) {
	at := func(minute int) time.Time { return now.Add(time.Duration(minute-60) * time.Minute) }
	b := NewBoard(Cluster{}, Prices{})
	b.SetNode(&Node{Name: "stays", Ready: "True"})
	b.SetNode(&Node{Name: "goes", Ready: "True", Taints: []model.Taint{{Key: model.TaintDisrupted, Effect: "NoSchedule"}}})
	b.SetEvent("1", Decision{At: at(9), By: Karpenter, Kind: "Unconsolidatable", Subject: "node/stays", Text: "by an event"})
	want := func(kept string, saving int64, decisions int) {
		t.Helper()
		v := b.View(now)
		stays, goes := v.Node("stays"), v.Node("goes")
		if stays.Kept != kept || stays.Saving != 0 || goes.Kept != "" || goes.Saving != saving || len(v.Decisions) != decisions {
			t.Errorf("kept because %q and %q, savings %d and %d, %d decisions; want %q and none, 0 and %d, %d", stays.Kept, goes.Kept, stays.Saving, goes.Saving, len(v.Decisions), kept, saving, decisions)
		}
	}
	want("by an event", 0, 1)
	b.SetLedger([]Decision{
		{At: at(2), By: Dovetail, Kind: "kept", Subject: "node/stays", Text: "first", Keeps: true},
		{At: at(1), Last: at(8), By: Dovetail, Kind: "kept", Subject: "node/stays", Text: "again", Keeps: true},
		{At: at(3), By: Dovetail, Kind: "kept", Subject: "node/goes", Text: "before", Keeps: true},
		{At: at(5), By: Dovetail, Kind: "disrupted", Subject: "node/goes", Text: "cheaper elsewhere", Micro: 70_000},
		{At: at(6), By: Dovetail, Kind: "disrupted", Subject: "node/stays", Text: "cancelled since", Micro: 10_000},
	})
	want("again", 70_000, 3)
}

// TestKeptByAnnotation: a node that an annotation keeps is kept, whether an autoscaler has decided on it or not; one that may go is not.
func TestKeptByAnnotation(t *testing.T) {
	for annotation, want := range map[string]string{model.AnnotationDoNotDisrupt: "do-not-disrupt on the node", model.AnnotationScaleDownDisabled: "scale-down-disabled on the node", "other": ""} {
		b := NewBoard(Cluster{}, Prices{})
		b.SetNode(&Node{Name: "n", Ready: "True", Annotations: model.Labels{annotation: "true"}})
		if got := b.View(now).Node("n").Kept; got != want {
			t.Errorf("%s: kept because %q, want %q", annotation, got, want)
		}
		b.SetLedger([]Decision{{At: now, By: Dovetail, Kind: "kept", Subject: "node/n", Text: "by a decision", Keeps: true}})
		if got := b.View(now).Node("n").Kept; got != "by a decision" {
			t.Errorf("%s: kept because %q, want the decision", annotation, got)
		}
	}
}

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

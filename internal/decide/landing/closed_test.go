// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package landing

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// A node that is reserved while it is known to take no pods was never open. One that is seen Ready and reserved at once, after it was seen
// without a reservation, may have been open in between.
func TestClosedSince(t *testing.T) {
	claim := &model.Claim{Name: "c", Labels: model.Labels{model.LabelNodeGroup: "g"}, Reserved: true}
	reserved := model.Taint{Key: model.TaintReserved, Value: "c", Effect: model.NoSchedule}
	node := func(ready bool, taints ...model.Taint) *model.Node {
		return &model.Node{Name: "n", Ready: ready, Taints: taints}
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		seen []*model.Node // a second apart
		want int           // the second from which it counts as closed; -1: it was never open
	}{
		{"reserved while it is not Ready", []*model.Node{node(false), node(false, reserved), node(true, reserved)}, -1},
		{"born unregistered, as a machine that was bought", []*model.Node{node(false, unregisteredTaint), node(true, reserved)}, -1},
		{"open before", []*model.Node{node(false), node(true), node(true, reserved), node(true, reserved)}, 2},
		{"Ready and reserved between two looks", []*model.Node{node(false), node(true, reserved), node(true, reserved)}, 1},
		{"Ready, then not, then reserved", []*model.Node{node(true), node(false), node(false, reserved), node(true, reserved)}, 2},
		{"first seen Ready and reserved, by another process perhaps", []*model.Node{node(true, reserved)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k Closed
			for i, n := range c.seen {
				k = k.Note(start.Add(time.Duration(i)*time.Second), []*cluster.Reservation{{Claim: claim, Node: n}})
			}
			var want time.Time
			if c.want >= 0 {
				want = start.Add(time.Duration(c.want) * time.Second)
			}
			if got := k.bindableFrom("c", 0); !got.Equal(want) {
				t.Errorf("it counts as closed since %s, want %s", got, want)
			}
		})
	}
}

// unregisteredTaint is on the node of a machine that was bought until it is reserved.
var unregisteredTaint = model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}

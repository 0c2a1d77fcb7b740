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
// without a reservation, may have been open in between. To pods that tolerate NoExecute taints, a node that is not registered yet is open, too.
func TestClosedSince(t *testing.T) {
	claim := &model.Claim{Name: "c", Labels: model.Labels{model.LabelNodeGroup: "g"}, Reserved: true}
	reserved := model.Taint{Key: model.TaintReserved, Value: "c", Effect: model.NoSchedule}
	node := func(ready bool, taints ...model.Taint) *model.Node {
		return &model.Node{Name: "n", Ready: ready, Taints: taints}
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		seen  []*model.Node // a second apart
		all   int           // the second from which it counts as closed; -1: it was never open
		early int           // the same for pods that tolerate the taint of unregistered nodes
	}{
		{"reserved while it is not Ready", []*model.Node{node(false), node(false, reserved), node(true, reserved)}, -1, -1},
		{"unregistered, then Ready and reserved between two looks", []*model.Node{node(false, taintUnregistered), node(true, reserved)}, -1, 1},
		{"unregistered, and reserved before it is Ready", []*model.Node{node(false, taintUnregistered), node(false, reserved), node(true, reserved)}, -1, -1},
		{"unregistered and Ready, then reserved", []*model.Node{node(false, taintUnregistered), node(true, taintUnregistered), node(true, reserved), node(true, reserved)}, -1, 2},
		{"unregistered, Ready and without the NoSchedule taint for that, then reserved", []*model.Node{node(false, taintUnregistered),
			node(true, taintUnregistered, model.Taint{Key: taintNotReady, Effect: model.NoExecute}),
			node(true, reserved, model.Taint{Key: taintNotReady, Effect: model.NoExecute}), node(true, reserved)}, -1, 2},
		{"open before", []*model.Node{node(false), node(true), node(true, reserved), node(true, reserved)}, 2, 2},
		{"Ready and reserved between two looks", []*model.Node{node(false), node(true, reserved), node(true, reserved)}, 1, 1},
		{"Ready, then not, then reserved", []*model.Node{node(true), node(false), node(false, reserved), node(true, reserved)}, 2, 2},
		{"first seen Ready and reserved, by another process perhaps", []*model.Node{node(true, reserved)}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k Closed
			for i, n := range c.seen {
				k = k.Note(start.Add(time.Duration(i)*time.Second), []*cluster.Reservation{{Claim: claim, Node: n}})
			}
			for _, x := range []struct {
				pods string
				got  time.Time
				want int
			}{{"all pods", k["c"].all.since, c.all}, {"pods that tolerate NoExecute", k["c"].early.since, c.early}} {
				var want time.Time
				if x.want >= 0 {
					want = start.Add(time.Duration(x.want) * time.Second)
				}
				if !x.got.Equal(want) {
					t.Errorf("it counts as closed to %s since %s, want %s", x.pods, x.got, want)
				}
			}
		})
	}
}

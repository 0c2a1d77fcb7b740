// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"regexp"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A node group's own time without being Ready takes the place of the provider's, for that condition alone.
func TestUnreadyOfGroups(t *testing.T) {
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	in := HealthIn{Repair: []RepairPolicy{{Condition: "Ready", Status: "False", After: 30 * time.Minute}, {Condition: "DiskPressure", Status: "True", After: 40 * time.Minute}}}
	for _, c := range []struct {
		condition, status string
		pool              *model.NodePool
		want              time.Duration
	}{
		{"Ready", "False", &model.NodePool{}, 30 * time.Minute},
		{"Ready", "False", &model.NodePool{Scaling: &model.GroupScaling{}}, 30 * time.Minute},
		{"Ready", "False", &model.NodePool{Scaling: &model.GroupScaling{Unready: 20 * time.Minute}}, 20 * time.Minute},
		{"Ready", "False", &model.NodePool{Scaling: &model.GroupScaling{Unready: time.Hour}}, time.Hour},
		{"DiskPressure", "True", &model.NodePool{Scaling: &model.GroupScaling{Unready: time.Minute}}, 40 * time.Minute},
	} {
		n := &model.Node{Name: "n", Conditions: map[string]model.Condition{c.condition: {Status: c.status, Since: since}}}
		if got, _ := in.ailmentOf(&model.Claim{}, n, c.pool, rankPriorities(in.Repair), since); !got.Due.Equal(since.Add(c.want)) {
			t.Errorf("%s=%s of %+v: broken %s after, want %s", c.condition, c.status, c.pool.Scaling, got.Due.Sub(since), c.want)
		}
	}
}

// As long as a node is not broken, its ailment is of the policy by which it will be first; from then on of the one with the highest
// priority, with the shortest drain of those that count by now. Half an hour outweighs one priority.
func TestAilments(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	in := HealthIn{Repair: []RepairPolicy{
		{Condition: "Network", Status: "False", After: 10 * time.Minute, Drain: 10 * time.Minute},
		{Condition: "Disk", Status: "False", After: 10 * time.Minute, Drain: time.Minute, Priority: 50},
		{Condition: "Kernel", Status: "False", After: 2 * time.Hour, Priority: 90},
		{Condition: "GPU", Status: "False", After: 30 * time.Minute, Drain: 10 * time.Minute},
		{Condition: "GPU", Status: "False", Reason: regexp.MustCompile("XID(46|48)"), After: 10 * time.Minute, Drain: 5 * time.Minute},
		{Condition: "GPU", Status: "False", Reason: regexp.MustCompile("XID48"), After: 20 * time.Minute, Drain: 2 * time.Minute, Priority: 50},
	}}
	bad := func(since time.Duration, reason string) model.Condition {
		return model.Condition{Status: "False", Reason: reason, Since: at(since)}
	}
	several := map[string]model.Condition{"Network": bad(0, "Lost"), "Disk": bad(time.Minute, "IOError"), "Kernel": bad(time.Minute, "Deadlock")}
	for _, c := range []struct {
		name       string
		conditions map[string]model.Condition
		created    time.Duration
		now        time.Duration

		condition, said          string
		due, drain, urgent, next time.Duration // next: 0: none
	}{
		{"before", several, 0, 9 * time.Minute, "Network", "Lost", 10 * time.Minute, 10 * time.Minute, 10 * time.Minute, 10 * time.Minute},
		{"the first alone", several, 0, 10 * time.Minute, "Network", "Lost", 10 * time.Minute, 10 * time.Minute, 10 * time.Minute, 11 * time.Minute},
		{"two", several, 0, 11 * time.Minute, "Disk", "IOError", 10 * time.Minute, time.Minute, -19 * time.Minute, 121 * time.Minute},
		{"three", several, 0, 3 * time.Hour, "Kernel", "Deadlock", 10 * time.Minute, 0, -19 * time.Minute, 0},
		{"no named reason", map[string]model.Condition{"GPU": bad(0, "XID13")}, 0, time.Hour, "GPU", "XID13", 30 * time.Minute, 10 * time.Minute, 30 * time.Minute, 0},
		{"no reason", map[string]model.Condition{"GPU": bad(0, "")}, 0, time.Hour, "GPU", "", 30 * time.Minute, 10 * time.Minute, 30 * time.Minute, 0},
		{"a named reason", map[string]model.Condition{"GPU": bad(0, "NvidiaXID46Error")}, 0, time.Hour, "GPU", "NvidiaXID46Error", 10 * time.Minute, 5 * time.Minute, 10 * time.Minute, 0},
		{"a reason that two policies name", map[string]model.Condition{"GPU": bad(0, "XID48")}, 0, 15 * time.Minute, "GPU", "XID48", 10 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute},
		{"not older than its node", map[string]model.Condition{"Network": {Status: "False"}}, 2 * time.Minute, 0, "Network", "", 12 * time.Minute, 10 * time.Minute, 12 * time.Minute, 12 * time.Minute},
	} {
		n := &model.Node{Name: "n", Created: at(c.created), Conditions: c.conditions}
		got, next := in.ailmentOf(&model.Claim{}, n, &model.NodePool{}, rankPriorities(in.Repair), at(c.now))
		why := plan.DetailOf[plan.OfUnhealthy](got.Cause)
		want := time.Time{}
		if c.next > 0 {
			want = at(c.next)
		}
		if why.Condition != c.condition || string(why.Said) != c.said || !got.Due.Equal(at(c.due)) || got.Drain != c.drain || !got.Urgent.Equal(at(c.urgent)) || !next.Equal(want) {
			t.Errorf("%s: %s (%s), broken at %s, drain %s, urgent %s, again %s", c.name, why.Condition, why.Said, got.Due.Sub(start), got.Drain, got.Urgent.Sub(start), next.Sub(start))
		}
	}
}

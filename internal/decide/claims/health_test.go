// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
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
		if got := in.ailmentOf(n, c.pool); !got.Due.Equal(since.Add(c.want)) {
			t.Errorf("%s=%s of %+v: broken %s after, want %s", c.condition, c.status, c.pool.Scaling, got.Due.Sub(since), c.want)
		}
	}
}

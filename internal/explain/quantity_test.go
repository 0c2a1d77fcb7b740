// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Proposed quantities are ones that a person would write. A limit is never less than what is needed, and a request never more than what fits.
func TestProposedQuantities(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*model.Snapshot, *model.Pod)
	}{
		{"a limit on CPU", "4", func(s *model.Snapshot, _ *model.Pod) {
			s.Pools[0].Limits, s.Pools[0].HasLimit = model.Resources{10}, []bool{true}
			s.Pools[0].Types[0].Capacity = s.Pools[0].Types[0].Capacity.With(model.CPU, 3920)
		}},
		{"a limit on memory", "16Gi", func(s *model.Snapshot, _ *model.Pod) {
			s.Pools[0].Limits, s.Pools[0].HasLimit = model.Resources{0, 1 << 20}, []bool{false, true}
			s.Pools[0].Types[0].Capacity = s.Pools[0].Types[0].Capacity.With(model.Memory, 15861<<20)
		}},
		{"a request for CPU", "7900m", func(s *model.Snapshot, p *model.Pod) {
			s.Pools[0].Types[0].Allocatable = model.Resources{7910, 64 << 30, 0, 110}
			p.Class.Requests = model.Resources{8000, 0, 0, 1}
		}},
		{"a request for little CPU", "910m", func(s *model.Snapshot, p *model.Pod) {
			s.Pools[0].Types[0].Allocatable = model.Resources{910, 64 << 30, 0, 110}
			p.Class.Requests = model.Resources{1000, 0, 0, 1}
		}},
		{"a request for memory", "60Gi", func(s *model.Snapshot, p *model.Pod) {
			s.Pools[0].Types[0].Allocatable = model.Resources{8000, 61858<<20 + 77, 0, 110}
			p.Class.Requests = model.Resources{1000, 64 << 30, 0, 1}
		}},
		{"a request for less memory", "3100Mi", func(s *model.Snapshot, p *model.Pod) {
			s.Pools[0].Types[0].Allocatable = model.Resources{8000, 3185<<20 + 77, 0, 110}
			p.Class.Requests = model.Resources{1000, 4 << 30, 0, 1}
		}},
	} {
		s := waitingCluster()
		p := addPending(s, "a", 1000, true)
		c.change(s, p)
		var got []string
		a := whyPod(t, s, p)
		for _, w := range a.Ways {
			for _, ch := range w.Changes {
				got = append(got, ch.Value)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: the changes set %q, want %s; %+v", c.name, got, c.want, a.Findings)
		}
		for _, f := range a.Findings {
			if f.Change != nil && f.Change.Value != c.want {
				t.Errorf("%s: the finding's change is %+v, want %s", c.name, *f.Change, c.want)
			}
		}
	}
}

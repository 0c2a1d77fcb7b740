// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A zonal shift is told on NodePools that can launch in the zone, once when it begins and once when it ends, also on one that is created meanwhile.
// Nothing is launched in the zone from the moment on at which it is known.
func TestZonalShiftEvents(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		told := func() (out []string) {
			for _, m := range b.made("event") {
				if strings.HasPrefix(m.what, "NodePool ") && strings.Contains(m.what, "ZonalShift") {
					out = append(out, m.what)
				}
			}
			return out
		}
		b.shift(model.ZonalShift{Zone: "a", ZoneID: "az1", ID: "zs-1", Until: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}, model.ZonalShift{Zone: "b", ZoneID: "az2"})
		time.Sleep(time.Minute)
		active := "ZonalShiftActive: Nothing is launched in zone a (az1): the cluster is shifted away from it until 2026-07-01T12:00:00Z"
		want := []string{"NodePool p " + active}
		if have := told(); !slices.Equal(have, want) {
			t.Errorf("have %q, want %q", have, want)
		}
		b.pod("x", "web")
		b.c.Emit(func(s *state.State) {
			q := *s.Pools.ListPools()[0]
			q.Name, q.UID = "q", "uid-q"
			q.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, "q"), model.OneOf(model.LabelInstanceType, "cheap"))
			s.Pools.SetPool(&q)
		})
		time.Sleep(time.Minute)
		want = append(want, "NodePool q "+active)
		if have := told(); !slices.Equal(have, want) {
			t.Errorf("with another NodePool: have %q, want %q", have, want)
		}
		if made := b.made("create"); len(made) > 0 {
			t.Errorf("during the shift: %v", made)
		}
		b.shift()
		time.Sleep(time.Minute)
		have := told()[2:]
		slices.Sort(have)
		for i, pool := range []string{"p", "q"} {
			if cleared := fmt.Sprintf("NodePool %s ZonalShiftCleared: Nodes are launched in zone a (az1) again: the zonal shift has ended", pool); len(have) != 2 || have[i] != cleared {
				t.Errorf("at its end: have %q", have)
			}
		}
		if made := b.made("create"); len(made) != 1 {
			t.Errorf("after the shift: %v, want one machine for the pod", made)
		}
	})
}

// Until the provider has read the shifts, decisions know that there may be some.
func TestZonalShiftsUnread(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.shiftsUnread = true
		b.lead()
		unread := func() (is bool) {
			b.c.Emit(func(s *state.State) { is = s.Snapshot(time.Now()).ShiftsUnread })
			time.Sleep(time.Minute)
			return is
		}
		if !unread() {
			t.Error("the shifts count as read")
		}
		b.mu.Lock()
		b.shiftsUnread = false
		b.mu.Unlock()
		b.shift()
		time.Sleep(time.Minute)
		if unread() {
			t.Error("the shifts do not count as read though they were")
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// statusMap is a ConfigMap that notes when what was written.
type statusMap struct {
	b       *bench
	refused bool
	written []*groupstatus.Status
}

func (m *statusMap) StatusObject() (namespace, name, uid string) {
	if len(m.written) > 0 {
		uid = "uid-status"
	}
	return "kube-system", "status", uid
}

func (m *statusMap) StoreGroupStatus(_ context.Context, s *groupstatus.Status) error {
	m.b.note("status", "")
	if m.refused {
		return errors.New("configmaps \"status\" is forbidden")
	}
	m.written = append(m.written, s)
	return nil
}

// The status is written when there are groups, every ten seconds at most where it changes and every minute where it does
// not; what happens to groups is told on its ConfigMap.
func TestGroupStatusIsWritten(t *testing.T) {
	var m *statusMap
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		time.Sleep(5 * time.Minute)
		if n := len(b.made("status")); n != 0 {
			t.Fatalf("written %d times though there are no groups", n)
		}
		driveGroups(b, groupType("large", 4000, 9, 10))
		time.Sleep(10 * time.Minute)
		if n := len(b.made("status")); n < 9 || n > 11 {
			t.Errorf("written %d times in ten minutes in which nothing happened", n)
		}
		b.bought = append(b.bought, model.Instance{ProviderID: "m-x", ClaimUID: "uid-x", ClaimName: "x", Launched: time.Now()})
		for i := range 60 { // something happens each second
			b.emit(member("x", "large", func(c *model.Claim, n *model.Node) { n.Ready = i%2 == 0 }))
			time.Sleep(time.Second)
		}
		var at []time.Duration
		for _, x := range b.made("status") {
			at = append(at, x.after)
		}
		for i := range at[1:] {
			if at[i+1]-at[i] < groupStatusEvery {
				t.Errorf("written after %s and again after %s", at[i], at[i+1])
			}
		}
		last := m.written[len(m.written)-1]
		if g := last.NodeGroups[0]; g.Name != "large" || g.Health.NodeCounts.Registered.Total != 1 || last.AutoscalerStatus != groupstatus.Running {
			t.Errorf("it says %+v", last)
		}

		b.c.Emit(func(s *state.State) {
			rec, now := b.c.recorder, time.Now()
			late := &model.Claim{Name: "late", UID: "uid-late", ProviderID: "m-late", Pool: "p", Labels: model.Labels{model.LabelNodeGroup: "large"}, Conditions: map[string]model.Condition{}}
			s.SetClaim(late, 1)
			out := &decide.Output{}
			out.Actions = []plan.Action{
				plan.DeleteClaim{Claim: "late", UID: "uid-late", Why: plan.Reason{Code: plan.RegistrationTimeout, Detail: plan.OfTimeout{Within: 15 * time.Minute}}},
				plan.DeleteClaim{Claim: "x", UID: "uid-x", Why: plan.Reason{Code: plan.Empty, Command: "m"}},
			}
			for _, name := range []string{"new-1", "new-2"} {
				out.Actions = append(out.Actions, plan.CreateClaim{Name: name, Pool: s.Pools.FindPool("p"), Requirements: model.NewRequirements(model.OneOf(model.LabelNodeGroup, "large"))})
			}
			rec.Output(now, &model.Snapshot{Claims: []*model.Claim{s.FindClaim("x")}}, out)
			rec.LaunchFailed(late, "no capacity")
		})
		time.Sleep(time.Second)
		got := events(b, "ConfigMap", "ScaleUpTimedOut", "DeleteUnregistered", "FailedToScaleUpGroup", "ScaleDownEmpty", "ScaledUpGroup")
		for _, want := range []string{
			"ConfigMap status ScaleUpTimedOut: Scale-up of group large timed out: no node registered within 15m0s", "ConfigMap status DeleteUnregistered: Terminating instance m-late of group large: no node registered",
			"ConfigMap status FailedToScaleUpGroup: Scale-up of group large failed: no capacity",
			"ConfigMap status ScaleDownEmpty: Scale-down: removing node n-x from group large, since it is empty",
			"ConfigMap status ScaledUpGroup: Scale-up: group large 1->3 (max: 10)",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("not told: %s\ntold: %q", want, got)
			}
		}
	}, func(b *bench, c *Controller) {
		m = &statusMap{b: b}
		c.GroupStatus = m
	})
}

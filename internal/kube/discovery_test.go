// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestNodeGroups: a group that is found gets a pool and a class, which follow its tags and nobody else; one that is not found any more
// is let go, and its pool goes when its last machine has.
func TestNodeGroups(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	ctx, cancel := context.WithCancel(p.ctx)
	finds := make(chan func() ([]NodeGroup, error)) // each look is answered by the test
	done := make(chan error)
	d := &Discovery{Settings: DefaultGroupSettings(), Every: time.Millisecond, Log: slog.New(slog.DiscardHandler), Find: func(ctx context.Context) ([]NodeGroup, error) {
		select {
		case f := <-finds:
			return f()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	go func() { done <- NodeGroups(ctx, p.us, d) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	found := func(groups ...NodeGroup) {
		t.Helper()
		// Twice: what the first look has made is seen by the second.
		for range 2 {
			select {
			case finds <- func() ([]NodeGroup, error) { return groups, nil }:
			case <-p.ctx.Done():
				t.Fatal("groups are not looked for")
			}
		}
	}
	until := func(what string, groups []NodeGroup, ok func(s *state.State) bool) {
		t.Helper()
		stop := make(chan struct{})
		fed := make(chan struct{})
		go func() { // looks that come while the test waits find the same
			defer close(fed)
			for {
				select {
				case finds <- func() ([]NodeGroup, error) { return groups, nil }:
				case <-stop:
					return
				}
			}
		}()
		w.until(what, ok)
		close(stop)
		<-fed
	}
	tags := map[string]string{
		dovetailv1alpha1.TagEnabled: "true", dovetailv1alpha1.TagNodeTemplateLabel + "team": "a", dovetailv1alpha1.TagNodeTemplateTaint + "dedicated": "web:NoSchedule",
	}
	web := []NodeGroup{{Name: "grp-web", Tags: tags}}
	found(web...)
	until("the group's pool", web, func(s *state.State) bool {
		return s.Pool("grp-web") != nil && s.NodeClass(dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, "grp-web") != nil
	})
	pool := w.s.Pool("grp-web")
	if !pool.Ready || pool.Labels["team"] != "a" || len(pool.Taints) != 1 || pool.ConsolidateAfter != 10*time.Minute || pool.ExpireAfter != -1 ||
		pool.ClassKind != dovetailv1alpha1.KindNodeGroupClass || pool.NodeLimit != -1 || pool.LetGo {
		t.Fatalf("pool came out as %+v", pool)
	}

	// Its tags change, and somebody else changes the pool: the tags win, but the weight is the user's.
	tags = maps.Clone(tags)
	tags[dovetailv1alpha1.TagNodeTemplateLabel+"team"] = "b"
	tags[dovetailv1alpha1.TagNodeTemplateOption+dovetailv1alpha1.OptionUnneededTime] = "3m"
	web = []NodeGroup{{Name: "grp-web", Tags: tags}}
	if err := kubectl(nil, "patch", "nodepool", "grp-web", "--type=merge", "-p", `{"spec":{"weight":7,"disruption":{"consolidateAfter":"1s"}}}`); err != nil {
		t.Fatal(err)
	}
	until("the pool as its tags say", web, func(s *state.State) bool {
		x := s.Pool("grp-web")
		return x.Labels["team"] == "b" && x.ConsolidateAfter == 3*time.Minute && x.Weight == 7
	})

	// A pool of that name that is somebody else's is left alone.
	other := []NodeGroup{web[0], {Name: "grp-other"}}
	if err := kubectl([]byte(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"grp-other"},"spec":{"template":{"spec":{"requirements":[],"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}}}}}`), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	until("the other pool", other, func(s *state.State) bool { return s.Pool("grp-other") != nil })
	found(other...)
	found(web...)
	if x := w.s.Pool("grp-other"); x.ClassKind != "KWOKNodeClass" || x.Deleting || x.LetGo {
		t.Fatalf("somebody else's pool came out as %+v", x)
	}

	// A look that fails changes nothing.
	for range 2 {
		finds <- func() ([]NodeGroup, error) { return nil, errors.New("throttled") }
	}

	// With a machine, it is not found any more: let go, and the claim stays. Found again, it is as before.
	pool = w.s.Pool("grp-web")
	must(p.actor.CreateClaim(p.ctx, plan.CreateClaim{Name: "grp-web-1", Pool: pool, Requirements: pool.Requirements}))(t)
	until("its claim", web, func(s *state.State) bool { return s.Claim("grp-web-1") != nil })
	until("the pool let go", nil, func(s *state.State) bool {
		x := s.Pool("grp-web")
		return x.LetGo && x.NodeLimit == 0 && x.ConsolidateAfter == -1 && len(x.Budgets) == 1 && x.Budgets[0].Nodes == 0
	})
	found()
	found()
	if w.s.Pool("grp-web").Deleting || !w.s.Claim("grp-web-1").Deleting.IsZero() {
		t.Fatal("the pool or its claim goes while there is a machine")
	}
	until("the pool as it was", web, func(s *state.State) bool {
		x := s.Pool("grp-web")
		return !x.LetGo && x.NodeLimit == -1 && x.ConsolidateAfter == 3*time.Minute
	})

	// Let go again, its machine leaves for a reason of its own: so do pool and class.
	until("the pool let go again", nil, func(s *state.State) bool { return s.Pool("grp-web").LetGo })
	must(p.actor.DeleteClaim(p.ctx, plan.DeleteClaim{Claim: "grp-web-1", UID: w.s.Claim("grp-web-1").UID}))(t)
	must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{Claim: "grp-web-1", UID: w.s.Claim("grp-web-1").UID, RemoveFinalizer: true}))(t)
	until("all of it gone", nil, func(s *state.State) bool {
		return s.Claim("grp-web-1") == nil && s.Pool("grp-web") == nil && s.NodeClass(dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, "grp-web") == nil
	})
	if w.s.Pool("grp-other") == nil {
		t.Error("somebody else's pool went too")
	}
}

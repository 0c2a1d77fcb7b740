// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const karpenter = "lease kube-system/karpenter-leader-election is held by karpenter-0"

// touched are the calls that change the cluster or the cloud.
func (b *bench) touched() []made {
	var out []made
	for _, kind := range []string{"create", "launch", "delete", "update", "pool"} {
		out = append(out, b.made(kind)...)
	}
	return out
}

func (b *bench) events(reason string) []string {
	var out []string
	for _, m := range b.made("event") {
		if strings.Contains(m.what, " "+reason+": ") {
			out = append(out, m.what)
		}
	}
	return out
}

// A loop that comes where another autoscaler is live touches nothing and says what it would do; when the other is gone it acts by itself.
func TestStandingDownFromTheBeginning(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		beside := 0
		b.c.Background = append(b.c.Background, func(ctx context.Context) { beside++; <-ctx.Done() })
		b.c.SetOtherAutoscalers([]string{karpenter})
		b.lead()
		b.pod("a", "a")
		time.Sleep(time.Minute)
		if have := b.touched(); len(have) > 0 {
			t.Fatalf("did %v", have)
		}
		if beside != 0 {
			t.Error("what runs beside the loop while it acts was begun")
		}
		said := b.events("StandingDown")
		if len(said) != 1 || !strings.Contains(said[0], "a node of type cheap in a") || !strings.Contains(said[0], karpenter) {
			t.Errorf("said %q", said)
		}
		if !b.c.IsReady() {
			t.Error("is not ready")
		}
		a, err := b.c.Answers.Why(t.Context(), "pod/default/a")
		if err != nil || len(a.Facts) == 0 || a.Facts[0].Name != "passive" || !strings.Contains(a.Facts[0].Value, karpenter) {
			t.Errorf("why: %v %+v", err, a.Facts)
		}
		b.c.SetOtherAutoscalers(nil)
		time.Sleep(10 * time.Second)
		if create, launch := b.made("create"), b.made("launch"); len(create) != 1 || len(launch) != 1 {
			t.Errorf("alone: created %v, launched %v, want one of each", create, launch)
		}
		if beside != 1 {
			t.Errorf("what runs beside the loop was begun %d times", beside)
		}
		if a, err := b.c.Answers.Why(t.Context(), "pod/default/a"); err != nil || len(a.Facts) > 0 && a.Facts[0].Name == "passive" {
			t.Errorf("alone, why: %v %+v", err, a.Facts)
		}
	})
}

// A loop that acted buys and launches nothing more once another is live, but sees through what it has bought.
func TestStandingDownWhileActing(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		ended := 0
		b.c.Background = append(b.c.Background, func(ctx context.Context) { <-ctx.Done(); ended++ })
		b.lead()
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		if have := b.made("launch"); len(have) != 1 {
			t.Fatalf("launched %v, want one", have)
		}
		b.launch = func(_ context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: errDown}
		}
		for i := range 4 { // more than the first machine holds: a claim is made, and its launch fails
			b.pod(fmt.Sprintf("b-%d", i), "b")
		}
		time.Sleep(10 * time.Second)
		b.c.SetOtherAutoscalers([]string{karpenter})
		time.Sleep(time.Second)
		launched := len(b.made("launch"))
		if created := b.made("create"); len(created) != 2 || launched < 2 {
			t.Fatalf("created %v, launched %d times", created, launched)
		}
		if ended != 1 {
			t.Errorf("what runs beside the loop was ended %d times", ended)
		}
		b.launch = nil
		for i := range 8 {
			b.pod(fmt.Sprintf("c-%d", i), "c")
		}
		updates := len(b.made("update"))
		b.mu.Lock()
		var bought string
		for name, c := range b.claims {
			if c.ProviderID != "" {
				bought = name
			}
		}
		id := b.claims[bought].ProviderID
		b.mu.Unlock()
		b.c.Emit(func(s *state.State) { // its machine comes up
			s.SetNode(&model.Node{Name: "n", UID: "uid-n", ProviderID: id, Ready: true, Created: time.Now(), Labels: model.Labels{}, Capacity: catalogue[0].Capacity,
				Allocatable: catalogue[0].Allocatable, Taints: []model.Taint{{Key: model.TaintUnregistered, Effect: "NoExecute"}}}, 1)
		})
		time.Sleep(5 * time.Minute)
		if have := b.made("launch"); len(have) != launched {
			t.Errorf("launched %v", have[launched:])
		}
		if have := b.made("create"); len(have) != 2 {
			t.Errorf("created %v", have[2:])
		}
		if have := b.made("delete"); len(have) > 0 {
			t.Errorf("deleted %v", have)
		}
		if have := b.made("node"); len(have) == 0 {
			t.Error("its node came, and was not registered")
		}
		for _, m := range b.made("update")[updates:] {
			if m.what != bought {
				t.Errorf("updated %s, which is not bought", m.what)
			}
		}
		b.c.SetOtherAutoscalers(nil)
		time.Sleep(time.Minute)
		if have := b.made("launch"); len(have) < launched+2 {
			t.Errorf("alone again: launched %v, want what waited and what came meanwhile", have[launched:])
		}
	})
}

// Claims that wait for their turn to be made when another is live are not made, and their pods are bought for when it has gone.
func TestStandingDownMakesNothingThatWaits(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Config.Parallel = 1
		b.createClaim = func(plan.CreateClaim) error {
			time.Sleep(10 * time.Second)
			return nil
		}
		b.lead()
		for i := range 3 * 4 { // three machines
			b.pod(fmt.Sprint("a", i), "a")
		}
		time.Sleep(5 * time.Second)
		if have := b.made("create"); len(have) != 1 {
			t.Fatalf("created %v, want one: the others wait for it", have)
		}
		b.c.SetOtherAutoscalers([]string{karpenter})
		time.Sleep(time.Minute)
		if have := b.made("create"); len(have) != 1 {
			t.Errorf("created %v though another is live", have[1:])
		}
		b.createClaim = nil
		b.c.SetOtherAutoscalers(nil)
		time.Sleep(time.Minute)
		if have := subjects(b.made("create")); len(have) != 3 {
			t.Errorf("created %v, want three machines for twelve pods", have)
		}
	})
}

// Who stands down for weeks sees many pods come and go.
func TestStandingDownForgetsPods(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.SetOtherAutoscalers([]string{"karpenter"})
		b.lead()
		for i := range 10 {
			b.pod(fmt.Sprint("a", i), "a")
			time.Sleep(5 * time.Second)
			b.c.Emit(func(s *state.State) { s.DeletePod(fmt.Sprint("default/a", i)) })
		}
		if told := b.events("StandingDown"); len(told) < 10 {
			t.Fatalf("told %v, want each pod to be", told)
		}
		known := make(chan int, 1)
		b.c.Emit(func(*state.State) { known <- len(b.c.passive.Load().told) })
		if n := <-known; n > 1 {
			t.Errorf("%d pods are remembered, and none is there", n)
		}
	})
}

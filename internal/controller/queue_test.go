// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// With one claim made at a time, and an API server that takes long over each, the last waits longer than any call may take. Another pod alike
// comes meanwhile: what waits for its turn is not bought for again in other company.
func TestWhatWaitsForItsTurnIsNotDecidedAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Config.Parallel = 1
		b.createClaim = func(plan.CreateClaim) error {
			time.Sleep(b.c.Config.CallLimit / 2)
			return nil
		}
		b.lead()
		const machines = 6
		for i := range 4 * machines {
			b.pod(fmt.Sprint("a", i), "a")
		}
		time.Sleep(b.c.Config.CallLimit)
		b.pod("late", "a")
		time.Sleep(10 * b.c.Config.CallLimit)
		if made := b.made("create"); len(made) != machines+1 {
			t.Errorf("%d machines are made for %d pods: %v", len(made), 4*machines+1, made)
		}
	})
}

// With one launch at a time, those of a node class whose calls hang have all the turns there are; those of another class have their own.
func TestAClassWhoseLaunchesHangHoldsUpNoOther(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Config.Parallel = 1
		b.launch = func(ctx context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			if r.Class.Name == "c" {
				<-ctx.Done()
				return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: ctx.Err()}
			}
			return b.buy(r)
		}
		b.lead()
		for i := range 3 * 4 {
			b.pod(fmt.Sprint("a", i), "a")
		}
		time.Sleep(2 * time.Second)
		b.c.Emit(func(s *state.State) {
			pool := *s.Pool("p")
			pool.ClassName = "d"
			s.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "d", UID: "class-d", Generation: 1})
			s.SetPool(&pool)
		})
		time.Sleep(2 * time.Second)
		b.pod("other", "other")
		time.Sleep(2 * time.Second)
		launches := b.made("launch")
		if len(launches) != 2 || launches[1].after > 6*time.Second {
			t.Errorf("launches: %v, want one that hangs and one of the other class", launches)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
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

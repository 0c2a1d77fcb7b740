// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestMovesKeepBuffers: while workloads shrink and their nodes are consolidated, drift or expire, CapacityBuffers keep capacity
// for all their pods, on nodes or on the way. Pods on the move, which kube-scheduler may bind anywhere, take some of it
// for a moment; it is there again soon after. And moves end.
func TestMovesKeepBuffers(t *testing.T) {
	t.Parallel()
	const mostMissing = mostHostWait + 20*time.Second
	moved := map[plan.Code]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode, w.pol.BackOff = landing.Bind, 20*time.Second
		w.pool().ConsolidationPolicy, w.pool().Hash = "WhenEmptyOrUnderutilized", "one"
		w.pool().ExpireAfter = 24 * time.Hour
		w.pool().ConsolidateAfter = time.Duration(rapid.SampledFrom([]int{0, 5}).Draw(t, "consolidateAfter")) * time.Second
		w.SetPool(w.pool())
		for i := range rapid.IntRange(1, 3).Draw(t, "buffers") {
			like := classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("held", i)}, Scheduler: model.DefaultScheduler, Priority: model.VirtualPriority,
				Requests: model.Resources{rapid.SampledFrom([]int64{250, 900, 1500, 3000}).Draw(t, "cpu of a buffer's pod"), 128 << 20, 0, 1}})
			b := &model.Buffer{Namespace: "default", Name: fmt.Sprint("held", i), UID: fmt.Sprint("uid-held", i), Created: epoch, MaxHourMicro: -1, Total: -1,
				Replicas: rapid.IntRange(1, 6).Draw(t, "pods of a buffer"), Ready: model.Condition{Status: "True", Reason: "Resolved"}}
			b.Like = &model.Pod{Namespace: "default", Class: like, Expected: true, Buffer: b.Key()}
			w.SetBuffer(b)
		}
		for _, l := range w.Workloads {
			l.Want = rapid.IntRange(2, 12).Draw(t, "replicas")
		}
		w.settle(6000)
		short := time.Time{} // since when some capacity has been missing
		w.judge = func(_ *model.Snapshot, out *Output) {
			missing := 0
			for _, b := range out.Buffers {
				missing += b.Wanted - b.Ready - b.Coming
			}
			switch {
			case missing == 0:
				short = time.Time{}
			case short.IsZero():
				short = w.Now
			case w.Now.Sub(short) > mostMissing:
				w.fatalf("capacity for %d pods of buffers has been missing for %s", missing, w.Now.Sub(short))
			}
		}
		for _, l := range w.Workloads {
			l.Want = rapid.IntRange(0, l.Want).Draw(t, "fewer replicas")
		}
		w.settle(6000)
		w.Now = w.Now.Add(2 * time.Hour) // what was bought to save money has paid for itself
		w.settle(6000)
		if rapid.Bool().Draw(t, "expire") {
			w.Now = w.Now.Add(w.pool().ExpireAfter)
			w.say("a day has passed")
		} else {
			p := *w.pool()
			p.Hash = "two"
			w.SetPool(&p)
			w.say("the pool's template is another")
		}
		w.settle(6000)
		w.putBack()
		for _, line := range w.history {
			for _, code := range []plan.Code{plan.Underutilized, plan.Empty, plan.Drifted, plan.Expired} {
				if strings.Contains(line, "("+string(code)) {
					moved[code]++
				}
			}
		}
	})
	for _, code := range []plan.Code{plan.Underutilized, plan.Empty, plan.Drifted, plan.Expired} {
		if moved[code] == 0 {
			untested(t, "no node was disrupted for %s: nothing was tested", code)
		}
	}
}

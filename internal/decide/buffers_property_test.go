// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestBuffersGiveWay: with any buffers no more real pods are refused than without, none of them waits for a new node that
// free capacity would have held, and verify, which knows of limits, accepts every plan (see script.decide).
func TestBuffersGiveWay(t *testing.T) {
	held, bought := 0, 0
	for seed := range uint64(40) {
		with, x := drawnDemand(t, seed, true)
		without, _ := drawnDemand(t, seed, false)
		// Pods alike are one as good as another, so they are counted.
		if n, m := countOutcome(with, plan.Refused), countOutcome(without, plan.Refused); n > m {
			t.Errorf("seed %d: %d pods are refused with buffers, %d without", seed, n, m)
		}
		if n, m := countOutcome(with, plan.OnNode), countOutcome(without, plan.OnNode); n < m {
			t.Errorf("seed %d: %d pods start at once on free capacity with buffers, %d without", seed, n, m)
		}
		for _, b := range x.last.Buffers {
			held += b.Ready + b.Coming
		}
		for _, a := range x.last.Actions {
			if c, ok := a.(plan.CreateClaim); ok && len(model.RealPods(c.Pods)) == 0 {
				bought++
				if c.Reserved || len(c.Slots) > 0 {
					t.Errorf("seed %d: %s is for virtual pods and is reserved", seed, c.Name)
				}
			}
		}
	}
	if held == 0 || bought == 0 {
		untested(t, "%d virtual pods had a place, %d nodes were for them alone", held, bought)
	}
}

func countOutcome(of map[string]plan.Outcome, o plan.Outcome) (n int) {
	for _, x := range of {
		if x == o {
			n++
		}
	}
	return n
}

// drawnDemand decides on a drawn cluster, with its buffers or without, and returns what becomes of each real pod that is not
// given a new node.
func drawnDemand(t *testing.T, seed uint64, buffers bool) (map[string]plan.Outcome, *script) {
	r := rand.New(rand.NewPCG(seed, 1))
	x := newScript(t)
	tell := func(format string, args ...any) { x.line(strings.Fields(fmt.Sprintf(format, args...))) }
	tell("pool p limit.cpu=%d", 8+4*r.IntN(10))
	tell("type small cpu=2 mem=8Gi price=0.1")
	tell("type large cpu=8 mem=32Gi price=0.38")
	for i := range r.IntN(3) {
		tell("claim c%d pool=p types=large zones=a launched=+0s registered=+1s initialized=+1s", i)
		tell("node n%d type=large zone=a claim=c%d initialized", i, i)
	}
	for i := range 2 + r.IntN(3) {
		tell("pod w%d x0 cpu=%d mem=%dGi", i, 1+r.IntN(3), 1+r.IntN(8))
		if replicas := r.IntN(7) - 1; buffers { // a recording may have one that no API server accepts
			tell("buffer b%d %d w%d", i, replicas, i)
		}
	}
	tell("at +2s") // they have found their places
	for i := range r.IntN(5) {
		tell("pod real%d x%d cpu=%d mem=%dGi created=+3s", i, 1+r.IntN(4), 1+r.IntN(3), 1+r.IntN(8))
	}
	tell("at +4s")
	out := map[string]plan.Outcome{}
	for _, d := range x.last.Pods {
		out[d.Pod.Name] = d.Outcome
	}
	return out, x
}

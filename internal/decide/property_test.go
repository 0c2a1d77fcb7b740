// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"flag"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestMain has the soak look longer.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("DOVETAIL_SOAK") != "" {
		if err := flag.Set("rapid.checks", "20000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestWorldSettles lets everything go wrong for a while, and then nothing: whatever happened, every pod runs in the end, and
// nothing is left behind.
func TestWorldSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		if rapid.IntRange(0, 3).Draw(t, "consolidates") == 0 {
			w.pool.ConsolidateAfter = 10 * time.Second
		}
		if rapid.IntRange(0, 3).Draw(t, "startup taints") == 0 {
			w.pool.StartupTaints = []model.Taint{startupCNI}
		}
		w.wild = true
		for range rapid.IntRange(10, 150).Draw(t, "wild ticks") {
			w.tick()
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{50, 200, 1000, 5000}).Draw(t, "ms")) * time.Millisecond)
		}
		w.say("from here on nothing goes wrong")
		if !w.settle(3000) {
			w.fatalf("it does not end\n%s", w.remains())
		}
		w.clean()
	})
}

// remains says what is not as it should be in the end.
func (w *world) remains() string {
	var out string
	for _, k := range sortedKeys(w.pods) {
		if p := w.pods[k]; p.Node == "" || !p.Deleting.IsZero() {
			out += "pod " + p.Name + " on " + p.Node + " deleting " + p.Deleting.String() + "\n"
		}
	}
	for _, k := range sortedKeys(w.claims) {
		if c := w.claims[k]; !c.Deleting.IsZero() || !c.Is("Initialized") {
			out += "claim " + c.Name + " deleting " + c.Deleting.String() + "\n"
		}
	}
	return out
}

// clean holds what must be true when all is done.
func (w *world) clean() {
	for _, p := range w.pods {
		if p.Node == "" {
			w.fatalf("pod %s is not bound", p.Name)
		}
	}
	for _, n := range w.nodes {
		for _, t := range n.Taints {
			if t.Key == model.TaintReserved || t.Key == model.TaintUnregistered {
				w.fatalf("node %s bears %s for ever", n.Name, taintText(t))
			}
		}
	}
	owned := map[string]bool{}
	for _, m := range w.machines {
		if !m.gone {
			if w.claimOf(m) == nil {
				w.fatalf("machine %s belongs to nobody", m.id)
			}
			owned[m.claimUID] = true
		}
	}
	for _, c := range w.claims {
		if !owned[c.UID] {
			w.fatalf("claim %s has no machine", c.Name)
		}
	}
}

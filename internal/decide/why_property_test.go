// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// some draws words, each or none.
func some(t *rapid.T, words ...string) string {
	w := rapid.SampledFrom(append(make([]string, 3*len(words)), words...)).Draw(t, "option") // mostly none: many obstacles at once hide each other
	if w != "" {
		w = " " + w
	}
	return w
}

// cluster writes a small cluster with things in the way.
func cluster(t *rapid.T) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	pools := []string{"p", "q"}[:rapid.IntRange(1, 2).Draw(t, "pools")]
	for _, p := range pools {
		line("pool %s%s%s%s%s%s%s%s", p, some(t, "taint=team=blue:NoSchedule"), some(t, "limit.cpu=4", "limit.nodes=1", "limit.cpu=12"), some(t, "only=zone:a", "only=disk:ssd"),
			some(t, "after=0s", "after=10m"), some(t, "policy=all", "policy=balanced", "policy=all", "policy=empty"), some(t, "budget=0", "budget=0;;0_0_*_*_*;30m", "budget=50%", "budget=1;Empty"), some(t, "notready"))
	}
	line("type large cpu=8 mem=32Gi price=0.40%s", some(t, "gone=b"))
	line("type medium cpu=4 mem=16Gi price=%s", rapid.SampledFrom([]string{"0.20", "0.25", "0.30"}).Draw(t, "price"))
	line("type small cpu=2 mem=8Gi price=0.10%s", some(t, "zones=b", "gone=a"))
	var nodes []string
	for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
		n, z := fmt.Sprint("n", i), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")
		line("claim c%d pool=%s types=%s zones=%s launched=+0s registered=+5s initialized=+10s%s", i, rapid.SampledFrom(pools).Draw(t, "pool"),
			rapid.SampledFrom([]string{"large", "medium", "small"}).Draw(t, "type"), z, some(t, "keep=+20m"))
		line("node %s type=%s zone=%s claim=c%d initialized%s%s", n, "large", z, i, some(t, "keep", "disabled"), some(t, "taint=own:NoSchedule"))
		nodes = append(nodes, n)
	}
	pod := func(name, where string) {
		line("pod %s cpu=%d mem=1Gi%s%s%s%s%s%s%s%s", name, rapid.SampledFrom([]int{1, 2, 5, 9}).Draw(t, "cpu"), where, some(t, "owner=s00", "owner=w0"), some(t, "select=zone=a", "select=zone=c", "select=disk=ssd", "tolerate=team", "tolerate=team"),
			some(t, "anti=zone", "anti=host", "spread=zone:1", "spread=host:1", "near=zone:w0"), some(t, "volume=disk:b", "volume=disk:d"), some(t, "gpu=1"), some(t, "port=80"), some(t, "unsolved=resourceClaims"))
	}
	for i, n := range nodes {
		for j := range rapid.IntRange(0, 2).Draw(t, "pods on it") {
			pod(fmt.Sprintf("s%d%d", i, j), " on="+n+some(t, "dnd=true", "dnd=10m", "evict=false", "owner=none"))
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "pods waiting") {
		pod(fmt.Sprint("w", i), some(t, "gated"))
	}
	for _, p := range []string{"s00", "s01", "s10"} {
		if rapid.IntRange(0, 3).Draw(t, "budget of pods") == 0 {
			line("pdb b-%s app=%s allowed=%d", p, p, rapid.IntRange(0, 1).Draw(t, "allowed"))
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "DaemonSet") == 0 {
		line("daemon agent port=80")
	}
	return b.String()
}

// lonely are the checks that no edit known here makes pass.
var lonely = []plan.Code{plan.NoPools, plan.NotCheaper, plan.DoesNotPay, plan.NoHome, plan.OutOfCapacity, plan.Nominated, plan.NoPrice}

// TestReasonsAreTrue holds contract 3 on small clusters: what every reason of every object names is taken away, by the change that is offered
// or by time, and then that check passes; and the ways lead where they say.
func TestReasonsAreTrue(test *testing.T) {
	checked, without, ways := map[plan.Code]int{}, map[plan.Code]int{}, map[plan.Kind]int{}
	clusters := 10 // a check: rapid's hundred are too few for every obstacle to be met
	if os.Getenv("DOVETAIL_SOAK") != "" {
		clusters = 1
	}
	rapid.Check(test, func(t *rapid.T) {
		for range clusters {
			text := cluster(t)
			x := newScript(test)
			for _, line := range strings.Split(text, "\n") {
				if f := strings.Fields(line); len(f) > 0 {
					x.line(f)
				}
			}
			x.now = x.when("+60s")
			snap := x.st.Snapshot(x.now)
			ask := func(s *model.Snapshot, now time.Time, subject string) plan.Answer {
				a, err := Why(s, Memory{}, now, x.pol, subject)
				if err != nil {
					t.Fatalf("%s\nwhy %s: %v", text, subject, err)
				}
				return a
			}
			with := func(s *model.Snapshot, changes ...plan.Change) *model.Snapshot {
				for _, ch := range changes {
					next, err := Apply(s, ch)
					if err != nil {
						t.Fatalf("%s\n%v", text, err)
					}
					s = next
				}
				return s
			}
			var subjects []string
			for _, p := range snap.Pending {
				subjects = append(subjects, "pod/"+p.Key())
			}
			for _, n := range snap.Nodes {
				subjects = append(subjects, "node/"+n.Name)
			}
			for _, p := range snap.Pools {
				subjects = append(subjects, "nodepool/"+p.Name)
			}
			for _, subject := range subjects {
				a := ask(snap, x.now, subject)
				for _, f := range a.Findings {
					gone := func(how string, b plan.Answer) {
						checked[f.Reason.Code]++
						if slices.ContainsFunc(b.Findings, func(g plan.Finding) bool {
							return g.Of == f.Of && sameCheck(g.Reason, f.Reason) && g.Reason.Subject == f.Reason.Subject
						}) {
							t.Fatalf("%s\n%s: %s: %s leaves it in the way", text, subject, reason(f.Reason), how)
						}
					}
					if f.Change != nil {
						gone(changeText(*f.Change), ask(with(snap, *f.Change), x.now, subject))
					}
					if !f.Until.IsZero() {
						gone("waiting until "+f.Until.String(), ask(snap, f.Until, subject))
					}
					if f.Change == nil && f.Until.IsZero() {
						without[f.Reason.Code]++
						if !slices.Contains(lonely, f.Reason.Code) {
							t.Fatalf("%s\n%s: %s: nothing takes it away", text, subject, reason(f.Reason))
						}
					}
				}
				for _, w := range a.Ways {
					b := ask(with(snap, w.Changes...), later(x.now, w.After), subject)
					ways[w.Then.Kind]++
					if slices.ContainsFunc(b.Findings, func(f plan.Finding) bool { return f.Of == w.Of }) {
						t.Fatalf("%s\n%s: after %v there is still %v", text, subject, w.Changes, b.Findings)
					}
					if strings.HasPrefix(subject, "pod/") && x.became(with(snap, w.Changes...), x.now, subject) == "" {
						t.Fatalf("%s\n%s: after %v it has no place", text, subject, w.Changes)
					}
				}
			}
		}
	})
	test.Logf("checked %v, without a change %v, ways %v", checked, without, ways)
	if len(checked) < 20 || ways[plan.Buy] == 0 || ways[plan.Fit] == 0 || ways[plan.Replace] == 0 || ways[plan.Leave] == 0 {
		test.Errorf("too little was checked: %v, ways %v", checked, ways)
	}
}

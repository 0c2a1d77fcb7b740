// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// planGangs plans for a cluster, and returns how many pods of each gang have a place and must have one, and the gangs of which none has, sorted. It fails
// if the plan is refused, or depends on more than the cluster.
func planGangs(r *rapid.T, s *model.Snapshot, now time.Time) (out Output, placed, least map[string]int, short []string) {
	out = WhatIf(s, now, DefaultPolicy())
	if _, err := SecondOpinion(s, &out); err != nil {
		r.Fatal(err)
	}
	if again := WhatIf(s, now, DefaultPolicy()); describePlan(&again) != describePlan(&out) {
		r.Fatalf("two plans for one snapshot:\n%s\n%s", describePlan(&out), describePlan(&again))
	}
	placed, least = placedOfGangs(s, &out)
	for _, name := range slices.Sorted(maps.Keys(least)) {
		if placed[name] == 0 {
			short = append(short, name)
		}
	}
	return out, placed, least, short
}

// TestGangsTogether draws clusters with gangs, and holds each plan against what the same cluster's plan is for single pods: of each
// gang enough pods have a place or none, nothing is refused that a plan without gangs places, and a gang that is refused has no place
// beside those that are served. Without gangs that come short the plans are the same.
func TestGangsTogether(t *testing.T) {
	t.Parallel()
	refused, served := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		s := drawGangs(t, r)
		now := epoch.Add(time.Minute)
		out, placed, least, short := planGangs(r, s, now)
		for name, n := range placed {
			if n < least[name] {
				r.Fatalf("%d pods of gang %s are placed, %d must be\n%s", n, name, least[name], describePlan(&out))
			}
		}
		refused, served = refused+len(short), served+len(least)-len(short)
		singly := withoutGangs(s, nil)
		if each := WhatIf(singly, now, DefaultPolicy()); len(short) == 0 {
			if describePlan(&each) != describePlan(&out) {
				r.Fatalf("no gang comes short, and the plan is another one than for single pods:\n%s\n%s", describePlan(&each), describePlan(&out))
			}
		} else if placed, _ := placedOfGangs(s, &each); !slices.ContainsFunc(short, func(name string) bool { return placed[name] < least[name] }) {
			r.Fatalf("gangs %v are refused, and single pods all have a place:\n%s", short, describePlan(&each))
		}
		for _, name := range short {
			out := WhatIf(withoutGangs(s, slices.DeleteFunc(slices.Clone(short), func(o string) bool { return o == name })), now, DefaultPolicy())
			placed, _ := placedOfGangs(s, &out)
			if !slices.ContainsFunc(slices.Sorted(maps.Keys(least)), func(g string) bool { return !(slices.Contains(short, g) && g != name) && placed[g] < least[g] }) {
				r.Fatalf("gang %s is refused, and has a place with those that are served:\n%s", name, describePlan(&out))
			}
		}
	})
	if refused == 0 || served == 0 {
		untested(t, "%d gangs were refused and %d served: nothing was tried", refused, served)
	}
}

// drawGangs draws a cluster: pools with limits, a few standing nodes, gangs of pods of one or two sizes, and single pods.
func drawGangs(t testing.TB, r *rapid.T) *model.Snapshot {
	x := newScript(t)
	say := func(format string, args ...any) { x.line(strings.Fields(fmt.Sprintf(format, args...))) }
	say("pool p limit.cpu=%d", rapid.IntRange(4, 40).Draw(r, "limit"))
	if rapid.Bool().Draw(r, "second pool") {
		say("pool q limit.nodes=%d weight=10", rapid.IntRange(0, 4).Draw(r, "nodes"))
	}
	say("type small cpu=2 mem=8Gi price=0.1 zones=a,b")
	say("type large cpu=8 mem=32Gi price=0.36 zones=a,b")
	for i := range rapid.IntRange(0, 2).Draw(r, "standing") {
		say("claim c%d pool=p types=large launched=+0s registered=+0s initialized=+0s", i)
		say("node n%d type=large zone=a claim=c%d initialized", i, i)
	}
	for g := range rapid.IntRange(1, 6).Draw(r, "gangs") {
		n := rapid.IntRange(1, 6).Draw(r, "pods")
		least := rapid.IntRange(1, n).Draw(r, "least")
		rules := rapid.SampledFrom([]string{"", "", "", " select=topology.kubernetes.io/zone=b", " anti=kubernetes.io/hostname", " priority=5"}).Draw(r, "rules")
		say("pod g%d x%d cpu=%d gang=g%d:%d created=+%ds%s", g, n, rapid.IntRange(1, 3).Draw(r, "cpu"), g, least, rapid.IntRange(0, 5).Draw(r, "age"), rules)
	}
	if n := rapid.IntRange(0, 4).Draw(r, "single"); n > 0 {
		say("pod single x%d cpu=1", n)
	}
	return x.st.Snapshot(epoch.Add(time.Minute))
}

// withoutGangs returns the cluster with pods that belong to no gang, and without the pods of some gangs.
func withoutGangs(s *model.Snapshot, leaveOut []string) *model.Snapshot {
	out := *s
	out.Pending = nil
	for _, p := range s.Pending {
		if !slices.Contains(leaveOut, p.Gang.Name) {
			single := *p
			single.Gang = model.Gang{}
			out.Pending = append(out.Pending, &single)
		}
	}
	return &out
}

// placedOfGangs counts, by gang of the pods of a cluster, those that a plan places, and says how many must be.
func placedOfGangs(s *model.Snapshot, out *Output) (placed, least map[string]int) {
	placed, least = map[string]int{}, map[string]int{}
	gang := map[string]string{}
	for _, p := range s.Pending {
		if p.HasGang() {
			gang[p.UID], least[p.Gang.Name] = p.Gang.Name, p.Gang.Least
		}
	}
	for _, d := range out.Pods {
		if d.Outcome != plan.Refused && d.Outcome != plan.NotOurs && gang[d.Pod.UID] != "" {
			placed[gang[d.Pod.UID]]++
		}
	}
	return placed, least
}

// describePlan writes down where each pod goes and what is launched.
func describePlan(out *Output) string {
	var b strings.Builder
	for _, d := range out.Pods {
		fmt.Fprintln(&b, d.Pod.Key(), d.Outcome, d.Target, d.Reasons)
	}
	for _, a := range out.Actions {
		if c, ok := a.(plan.CreateClaim); ok {
			fmt.Fprintln(&b, c.Name, c.Pool.Name, c.Type, c.Zone, c.PriceMicro, c.Slots)
		}
	}
	return b.String()
}

// BenchmarkGangs plans 200 gangs of 16 pods, with capacity for all of them, with a limit that holds half of them, and with one that holds none;
// each also if all pods of a gang must be in one zone.
func BenchmarkGangs(b *testing.B) {
	for _, domain := range []string{"", " domain=topology.kubernetes.io/zone"} {
		for _, limit := range []int{100_000, 3_200, 30} {
			b.Run(fmt.Sprintf("zones=%v/limit.cpu=%d", domain != "", limit), func(b *testing.B) {
				x := newScript(b)
				say := func(format string, args ...any) { x.line(strings.Fields(fmt.Sprintf(format, args...))) }
				say("pool p limit.cpu=%d", limit)
				for i, price := range []float64{0.1, 0.19, 0.37, 0.73} {
					say("type t%d cpu=%d mem=%dGi price=%.2f zones=a,b,c", i, 2<<i, 8<<i, price)
				}
				for g := range 200 {
					say("pod g%d x16 cpu=2 gang=g%d:16 created=+%ds%s", g, g, g, domain)
				}
				s := x.st.Snapshot(epoch.Add(time.Hour))
				var placed map[string]int
				for b.Loop() {
					out := WhatIf(s, epoch.Add(time.Hour), DefaultPolicy())
					placed, _ = placedOfGangs(s, &out)
				}
				b.ReportMetric(float64(len(placed)), "gangs")
			})
		}
	}
}

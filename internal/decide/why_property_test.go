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

// drawObstacles writes a small cluster with things in the way.
func drawObstacles(t *rapid.T) string {
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
			some(t, "anti=zone", "anti=host", "spread=zone:1", "spread=zone:1:min=3", "spread=host:1", "near=zone:w0"), some(t, "volume=disk:b", "volume=disk:d"), some(t, "gpu=1"), some(t, "port=80"), some(t, "unsolved=resourceClaims"))
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
var lonely = []plan.Code{plan.NoPools, plan.NotCheaper, plan.DoesNotPay, plan.NoHome, plan.OutOfCapacity, plan.Nominated, plan.NoPrice, plan.VolumeTopology, plan.Static}

// weaker returns a change that does a little less; false: it is not one of a number.
func (h *truth) weaker(ch plan.Change) (plan.Change, bool) {
	resource, step := "cpu", int64(-1)
	switch {
	case strings.HasPrefix(ch.Field, "spec.disruption.budgets["), ch.Field == "spec.limits.nodes":
		resource = "pods"
	case ch.Field == "spec.limits.cpu":
		step = -1000 // it is rounded up to whole cores
	case ch.Field == "spec.containers[*].resources.requests[cpu]":
		step = 100 // it may be rounded down to a tenth of a core
	default:
		return ch, false
	}
	d, v := h.x.amount(resource, ch.Value)
	ch.Value = model.FormatAmount(d, v+step)
	return ch, true
}

// truth checks answers, and counts what it has checked.
type truth struct {
	t    *rapid.T
	text string // the cluster's
	x    *script
	snap *model.Snapshot

	checked, without map[plan.Code]int
	ways             map[plan.Kind]int
	smallest         int
	started          map[bool]int // ways that start all pods that wait alike, and others
}

func (h *truth) fatalf(subject, format string, args ...any) {
	h.t.Fatalf("%s\n%s: %s", h.text, subject, fmt.Sprintf(format, args...))
}

// ask asks why on the cluster with changes made.
func (h *truth) ask(subject string, now time.Time, changes ...plan.Change) plan.Answer {
	a, err := Why(h.with(changes), Memory{}, now, h.x.pol, subject)
	if err != nil {
		h.fatalf(subject, "%v", err)
	}
	return a
}

// askAlone asks why a pod waits on the cluster with a change made in which no other pod waits.
func (h *truth) askAlone(subject string, ch plan.Change) plan.Answer {
	all := h.snap
	alone := *all
	alone.Pending = slices.DeleteFunc(slices.Clone(all.Pending), func(p *model.Pod) bool { return "pod/"+p.Key() != subject })
	h.snap = &alone
	defer func() { h.snap = all }()
	return h.ask(subject, h.x.now, ch)
}

func (h *truth) with(changes []plan.Change) *model.Snapshot {
	s := h.snap
	for _, ch := range changes {
		next, err := Apply(s, ch)
		if err != nil {
			h.fatalf("apply", "%v", err)
		}
		s = next
	}
	return s
}

// finding holds one reason: what takes it away does, and no less does.
func (h *truth) finding(subject string, f plan.Finding) {
	if f.Pods > 0 {
		return // of pods, whose own answers are held too
	}
	gone := func(how string, b plan.Answer) {
		h.checked[f.Reason.Code]++
		if slices.ContainsFunc(b.Findings, func(g plan.Finding) bool {
			return g.Of == f.Of && g.Reason == f.Reason
		}) {
			h.fatalf(subject, "%s: %s leaves it in the way", reason(f.Reason), how)
		}
	}
	if f.Change != nil {
		b := h.ask(subject, h.x.now, *f.Change)
		if f.Reason.Code == plan.Limit && f.Of == plan.Demand {
			b = h.askAlone(subject, *f.Change) // what a limit leaves others may take: the ways are for all that wait alike
		}
		gone(changeText(*f.Change), b)
		if less, ok := h.weaker(*f.Change); ok && f.Reason.Code != plan.NoHome {
			h.smallest++
			b := h.ask(subject, h.x.now, less)
			elsewhere := slices.ContainsFunc(b.Alternatives, func(a plan.Alternative) bool { return f.Of == plan.Demand && a.Pool != f.Reason.Pool })
			if !elsewhere && !slices.ContainsFunc(b.Findings, func(g plan.Finding) bool { return g.Of == f.Of && g.Reason.Code == f.Reason.Code }) {
				h.fatalf(subject, "%s: %s would do", reason(f.Reason), changeText(less))
			}
		}
	}
	if !f.Until.IsZero() {
		gone("waiting until "+f.Until.String(), h.ask(subject, f.Until))
	}
	if f.Change == nil && f.Until.IsZero() {
		nothingLeft := f.Reason.Code == plan.Resource && plan.DetailOf[plan.OfSize](f.Reason).Have == 0
		if h.without[f.Reason.Code]++; !nothingLeft && !slices.Contains(lonely, f.Reason.Code) {
			h.fatalf(subject, "%s: nothing takes it away", reason(f.Reason))
		}
	}
}

// way holds one way: nothing is in the way any more, and a pod is placed.
func (h *truth) way(subject string, w plan.Way) {
	h.ways[w.Then.Kind]++
	now := model.LaterOf(h.x.now, w.After)
	if b := h.ask(subject, now, w.Changes...); slices.ContainsFunc(b.Findings, func(f plan.Finding) bool { return f.Of == w.Of }) {
		h.fatalf(subject, "after %v there is still %v", w.Changes, b.Findings)
	}
	if strings.HasPrefix(subject, "pod/") && h.x.became(h.with(w.Changes), now, subject) == "" {
		h.fatalf(subject, "after %v it has no place", w.Changes)
	}
	if w.Starts > 0 {
		h.starts(subject, w)
	}
}

// starts holds how many pods a way is said to start: so many of those that are refused now are not any more.
func (h *truth) starts(subject string, w plan.Way) {
	refused := func(s *model.Snapshot) map[string]bool {
		out := map[string]bool{}
		for _, d := range WhatIf(s, h.x.now, h.x.pol).Pods {
			if d.Outcome == plan.Refused || d.Outcome == plan.NotOurs {
				out[d.Pod.Key()] = true
			}
		}
		return out
	}
	before, after := refused(h.snap), refused(h.with(w.Changes))
	started := 0
	for key := range before {
		if !after[key] {
			started++
		}
	}
	if h.started[w.Starts == w.Waiting]++; w.Starts > w.Waiting || w.Starts > started || w.Waiting > len(before) {
		h.fatalf(subject, "%v is said to start %d of %d pods; of %d refused pods it starts %d", w.Changes, w.Starts, w.Waiting, len(before), started)
	}
}

// TestReasonsAreTrue holds contract 3 on small clusters: what every reason of every object names is taken away, by the change that is offered
// or by time, and then that check passes; no smaller number does; and the ways lead where they say.
func TestReasonsAreTrue(test *testing.T) {
	test.Parallel()
	h := truth{checked: map[plan.Code]int{}, without: map[plan.Code]int{}, ways: map[plan.Kind]int{}, started: map[bool]int{}}
	clusters := 5 // a check: rapid's hundred are too few for every obstacle to be met
	if os.Getenv("DOVETAIL_SOAK") != "" {
		clusters = 1
	}
	rapid.Check(test, func(t *rapid.T) {
		for range clusters {
			h.t, h.text, h.x = t, drawObstacles(t), newScript(test)
			for _, line := range strings.Split(h.text, "\n") {
				if f := strings.Fields(line); len(f) > 0 {
					h.x.line(f)
				}
			}
			h.x.now = h.x.when("+60s")
			h.snap = h.x.st.Snapshot(h.x.now)
			var subjects []string
			for _, p := range h.snap.Pending {
				subjects = append(subjects, "pod/"+p.Key())
			}
			for _, n := range h.snap.Nodes {
				subjects = append(subjects, "node/"+n.Name)
			}
			for _, p := range h.snap.Pools {
				subjects = append(subjects, "nodepool/"+p.Name)
			}
			for _, subject := range subjects {
				a := h.ask(subject, h.x.now)
				for _, f := range a.Findings {
					h.finding(subject, f)
				}
				for _, w := range a.Ways {
					h.way(subject, w)
				}
			}
		}
	})
	test.Logf("checked %v, %d of a number, without a change %v, ways %v, start all %d, some %d", h.checked, h.smallest, h.without, h.ways, h.started[true], h.started[false])
	if len(h.checked) < 18 || h.started[true] == 0 || h.smallest == 0 || h.ways[plan.Buy] == 0 || h.ways[plan.Fit] == 0 || h.ways[plan.Replace] == 0 || h.ways[plan.Leave] == 0 {
		test.Errorf("too little was checked: %v, %d of a number, ways %v", h.checked, h.smallest, h.ways)
	}
}

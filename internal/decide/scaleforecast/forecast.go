// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package scaleforecast records how many pods each workload had, and forecasts from that when a workload scales up or down
// again. Consolidation uses the forecast to limit the time for which a saving counts (disrupt: the horizon).
//
// It never forecasts a number of pods that a workload did not have before, and it is unrelated to spec.replicas of static
// NodePools (decide/pools) and to demand while a node boots (forecast). A Memory is immutable: Sample returns the next one.
//
// Start reading at Memory.
package scaleforecast

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Room that a workload has left is not free for ever: an autoscaler takes it again in some minutes, people each
// morning. What giving its machines back saves ends then; so does what moving its pods saves when it shrinks. So the
// number of each workload's pods is remembered. From how long it stayed below or above a level before follows when it
// is expected to cross it again; for levels that it never came back to, how often it has changed lately says how long
// its present one lasts (changeRate). Nothing else about consolidation depends on what happened before.

// Memory is how many pods workloads had. The zero value knows nothing.
type Memory struct {
	replicas    map[model.Workload]*replicaHistory
	replicasDue time.Time // when they are counted next

	counted podCounts
}

// podCounts is what the latest count found on each node: most nodes are the very same at the next.
type podCounts struct {
	numbers map[model.Workload]int // from 0, so that a workload is found without its name
	nodes   map[*model.Node][]workloadPods
}

// workloadPods is how many pods of a workload there are, and the last one that was counted.
type workloadPods struct {
	of   int // its number
	pods int
	like *model.Pod
}

const (
	replicaSampleEvery = time.Second
	replicaSampleRest  = 200 * time.Microsecond // and so much longer for each pod that was counted: a thousandth of a processor or so
	replicaHistoryAge  = 8 * 24 * time.Hour     // a week and a day: what happens weekly is seen to happen again
	mostReplicaChanges = 128                    // a workload, the latest
	mostWorkloads      = 10_000                 // those that changed last

	// passingWithin is how soon a workload has its number of pods again whose pods were evicted or replaced: a pod is made again when
	// the old one is gone at the latest, mostly after a grace period of 30 seconds. Whether anybody counts meanwhile is chance.
	passingWithin = 45 * time.Second

	// leastEpisodes is how often a workload must have been below a level and come back for that to be expected again.
	leastEpisodes = 2
)

// Sample returns the memory with how many pods each workload has now, those pending included and those being deleted not.
func (m Memory) Sample(s *model.Snapshot, now time.Time) Memory {
	if now.Before(m.replicasDue) {
		return m
	}
	counts, counted := m.counted.count(s)
	of := func(w model.Workload) workloadPods {
		if i, ok := counted.numbers[w]; ok {
			return counts[i]
		}
		return workloadPods{}
	}
	next := maps.Clone(m.replicas)
	if next == nil {
		next = map[model.Workload]*replicaHistory{}
	}
	for w, h := range m.replicas {
		c := of(w)
		if c.pods == 0 && now.Sub(h.changes[len(h.changes)-1].at) > replicaHistoryAge {
			delete(next, w)
			continue
		}
		if c.pods != h.changes[len(h.changes)-1].pods {
			next[w] = h.withChange(replicaChange{now, c.pods}, c.like)
		}
	}
	for w, i := range counted.numbers {
		if c := counts[i]; c.pods > 0 && next[w] == nil {
			next[w] = (&replicaHistory{}).withChange(replicaChange{now, c.pods}, c.like)
		}
	}
	if len(next) > mostWorkloads {
		keys := slices.SortedFunc(maps.Keys(next), func(a, b model.Workload) int {
			if c := next[b].changedAt().Compare(next[a].changedAt()); c != 0 {
				return c
			}
			return a.Compare(b)
		})
		for _, w := range keys[mostWorkloads:] {
			delete(next, w)
		}
	}
	pods := 0
	for _, c := range counts {
		pods += c.pods
	}
	every := (replicaSampleEvery + time.Duration(pods)*replicaSampleRest).Truncate(replicaSampleEvery)
	return Memory{replicas: next, replicasDue: now.Truncate(every).Add(every), counted: counted}
}

// count returns how many pods each workload has, by its number, those pending included, and what the next count begins with.
func (k podCounts) count(s *model.Snapshot) ([]workloadPods, podCounts) {
	if len(k.numbers) > 2*mostWorkloads { // most of them are gone
		k = podCounts{}
	}
	counts := make([]workloadPods, len(k.numbers), len(k.numbers)+1)
	next := podCounts{numbers: k.numbers, nodes: make(map[*model.Node][]workloadPods, len(s.Nodes))}
	number := func(w model.Workload) int {
		i, ok := next.numbers[w]
		if !ok {
			if len(counts) == len(k.numbers) { // the first new one: what an earlier count has is not written to
				if next.numbers = maps.Clone(k.numbers); next.numbers == nil {
					next.numbers = map[model.Workload]int{}
				}
			}
			i = len(counts)
			next.numbers[w], counts = i, append(counts, workloadPods{of: i})
		}
		return i
	}
	add := func(list []workloadPods) {
		for _, c := range list {
			counts[c.of] = workloadPods{c.of, counts[c.of].pods + c.pods, c.like}
		}
	}
	for _, n := range s.Nodes {
		list, ok := k.nodes[n]
		if !ok {
			list = countPods(n.Pods, number)
		}
		next.nodes[n] = list
		add(list)
	}
	add(countPods(s.Pending, number))
	return counts, next
}

// countPods counts the pods of each workload, by the first of them.
func countPods(pods []*model.Pod, number func(model.Workload) int) (out []workloadPods) {
	at := map[int]int{}
	for _, p := range pods {
		w, ok := p.Workload()
		if !ok || !p.IsReschedulable() || p.Expected {
			continue
		}
		k := number(w)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k], out = i, append(out, workloadPods{of: k})
		}
		out[i].pods, out[i].like = out[i].pods+1, p
	}
	return out
}

// withChange returns the history after one more change; like is one of the pods, nil where there is none. A number that comes back within
// passingWithin after a fall has not changed: the fall is forgotten. A rise is not: it will want nodes again.
func (h *replicaHistory) withChange(c replicaChange, like *model.Pod) *replicaHistory {
	for i := len(h.changes) - 1; i > 0 && c.at.Sub(h.changes[i].at) < passingWithin; i-- {
		if h.changes[i].pods > c.pods {
			break
		}
		if h.changes[i-1].pods == c.pods {
			out := &replicaHistory{changes: slices.Clone(h.changes[:i]), requests: h.requests}
			if like != nil {
				out.requests = like.Class.Requests
			}
			return out
		}
	}
	from := 0
	for from < len(h.changes) && (len(h.changes)-from >= mostReplicaChanges || c.at.Sub(h.changes[from].at) > replicaHistoryAge) {
		from++
	}
	out := &replicaHistory{changes: append(slices.Clone(h.changes[from:]), c), requests: h.requests}
	if like != nil {
		out.requests = like.Class.Requests
	}
	return out
}

// AddTo adds to the input of a search when workloads are forecast to scale up or down within a duration, and returns when to
// forecast again: when the first of these forecasts has become twice as long, or is due.
func (m Memory) AddTo(in *disrupt.Input, now time.Time, within time.Duration) (until time.Time) {
	falls := map[model.Workload][]disrupt.ScaleDown{}
	var key []string
	note := func(w model.Workload, what string, c crossing) {
		minutes := bits.Len(uint(c.in / time.Minute))
		key = append(key, fmt.Sprintf("%s %s %d %d", w, what, c.pods, minutes))
		stayed := now.Sub(m.replicas[w].changedAt())
		if c.irregular { // when it has stayed so long as would be said to be longer
			until = model.EarlierOf(until, now.Add(max(time.Minute<<minutes-stayed, replicaSampleEvery)))
		} else { // see timeUntil
			until = model.EarlierOf(until, now.Add(c.in+(stayed+c.in)/4+2*replicaSampleEvery))
		}
	}
	for w, h := range m.replicas {
		pods := 0
		for _, c := range h.rises(now) {
			if c.in < within && c.pods > pods {
				in.ScaleUps = append(in.ScaleUps, disrupt.ScaleUp{Workload: w.String(), After: c.in, Pods: c.pods - pods, Requests: h.requests,
					Irregular: c.irregular})
				pods = c.pods
				note(w, "rises", c)
			}
		}
		pods = 0
		for _, c := range h.drops(now) {
			if c.in < within && c.pods > pods {
				falls[w] = append(falls[w], disrupt.ScaleDown{Workload: w.String(), After: c.in, Share: float64(c.pods) / float64(h.pods())})
				pods = c.pods
				note(w, "drops", c)
			}
		}
	}
	slices.SortFunc(in.ScaleUps, func(a, b disrupt.ScaleUp) int {
		return cmp.Or(cmp.Compare(a.After, b.After), strings.Compare(a.Workload, b.Workload), cmp.Compare(a.Pods, b.Pods))
	})
	slices.Sort(key)
	in.ForecastKey = strings.Join(key, "\n")
	if len(falls) > 0 {
		in.ScaleDowns = func(p *model.Pod) []disrupt.ScaleDown {
			w, _ := p.Workload()
			return falls[w]
		}
	}
	return until
}

// pods is how many there are now.
func (h *replicaHistory) pods() int { return h.changes[len(h.changes)-1].pods }

// rises is when a workload is expected to have one pod more than now, two, four and so on, as far as it ever had them
// or rises lately, soonest first.
func (h *replicaHistory) rises(now time.Time) []crossing {
	most := 0
	for _, c := range h.changes {
		most = max(most, c.pods)
	}
	out := crossings(most-h.pods(), func(k int) (time.Duration, bool) {
		level := h.pods() + k
		return h.timeUntil(now, func(pods int) bool { return pods >= level })
	})
	if r, ok := h.changeRate(now); ok {
		out = r.withNextChange(out, r.pods)
	}
	return out
}

// drops is when a workload is expected to have one pod fewer than now, two, four and so on, as far as it ever had so
// few or falls lately, soonest first.
func (h *replicaHistory) drops(now time.Time) []crossing {
	least := h.pods()
	for _, c := range h.changes {
		least = min(least, c.pods)
	}
	out := crossings(h.pods()-least, func(k int) (time.Duration, bool) {
		level := h.pods() - k
		return h.timeUntil(now, func(pods int) bool { return pods <= level })
	})
	if r, ok := h.changeRate(now); ok {
		out = r.withNextChange(out, min(r.pods, h.pods()))
	}
	return out
}

// crossings asks for one pod, two, four and so on up to a distance, and lists what is expected, soonest first.
func crossings(distance int, until func(pods int) (time.Duration, bool)) (out []crossing) {
	for k := 1; k <= distance; {
		if in, ok := until(k); ok {
			out = append(out, crossing{in: in, pods: k})
		}
		if k == distance {
			break
		}
		k = min(2*k, distance)
	}
	slices.SortStableFunc(out, func(a, b crossing) int { return cmp.Compare(a.in, b.in) })
	return out
}

// timeUntil is how long it is expected to take until the number of pods has crossed a level, as there says of a number.
// It looks at the times before that it took to be there: of those that were longer than this one has been so far, the
// median tells how much longer this one will be. One that was hardly shorter counts too, since no two are equally long:
// it is taken to end now. Where most were shorter, or too few are known, ok is false.
func (h *replicaHistory) timeUntil(now time.Time, there func(pods int) bool) (left time.Duration, ok bool) {
	var took []time.Duration
	var away time.Time // since when it is not there
	for i, c := range h.changes {
		switch {
		case there(c.pods):
			if !away.IsZero() {
				took = append(took, c.at.Sub(away))
			}
			away = time.Time{}
		case away.IsZero() && i > 0: // what was before the first change is not known
			away = c.at
		}
	}
	if away.IsZero() {
		return 0, false
	}
	so := now.Sub(away)
	longer := slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d+d/4+replicaSampleEvery <= so })
	if len(longer) < leastEpisodes || 2*len(longer) < len(took) {
		return 0, false
	}
	slices.Sort(longer)
	return max(0, longer[len(longer)/2]-so), true
}

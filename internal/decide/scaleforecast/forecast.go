// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package scaleforecast records the number of pods of each workload, and uses it to forecast when a workload scales up or
// down again. Consolidation uses the forecast to limit the time for which a saving counts (disrupt: the horizon).
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

// The free capacity that a workload leaves behind is not free forever: an autoscaler may need it again within minutes,
// or users each morning. Savings from removing its nodes end at that time, and savings from moving its pods end when it
// scales down. Therefore, the number of pods of each workload is recorded. The forecast is based on how long it stayed
// below or above a level before. For levels to which it never returned, the frequency of recent changes determines how
// long the current level lasts (changeRate). No other part of consolidation depends on history.

// Memory records the number of pods of each workload over time. The zero value is empty.
type Memory struct {
	replicas    map[model.Workload]*replicaHistory
	replicasDue time.Time // time of the next count

	counted podCounts
}

// podCounts contains the results of the latest count for each node, because most nodes are unchanged at the next count.
type podCounts struct {
	numbers map[model.Workload]int // numbers of workloads, starting at 0, so that counts are not looked up by name
	nodes   map[*model.Node][]workloadPods
}

// workloadPods is the number of pods of a workload, and the last pod that was counted.
type workloadPods struct {
	of   int // number of the workload in podCounts.numbers
	pods int
	like *model.Pod
}

const (
	replicaSampleEvery = time.Second
	replicaSampleRest  = 200 * time.Microsecond // additional interval for each counted pod, which limits counting to about a thousandth of a CPU
	replicaHistoryAge  = 8 * 24 * time.Hour     // a week and a day, so that weekly changes are recognized
	mostReplicaChanges = 128                    // maximum number of recorded changes per workload; the latest are kept
	mostWorkloads      = 10_000                 // maximum number of workloads; those with the latest changes are kept

	// passingWithin is the time within which a workload has the same number of pods again after pods were evicted or
	// replaced. A pod is recreated at the latest when the old one is gone, usually after a grace period of 30 seconds.
	// Whether a count falls into that time is chance.
	passingWithin = 45 * time.Second

	// leastEpisodes is how often a workload must have returned to a level before another return is forecast.
	leastEpisodes = 2
)

// Sample returns the memory with the current number of pods of each workload, including pending pods and excluding pods
// that are being deleted.
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

// count returns the number of pods of each workload, indexed by the number of the workload, including pending pods. It
// also returns the state for the next count.
func (k podCounts) count(s *model.Snapshot) ([]workloadPods, podCounts) {
	if len(k.numbers) > 2*mostWorkloads { // most of them no longer exist
		k = podCounts{}
	}
	counts := make([]workloadPods, len(k.numbers), len(k.numbers)+1)
	next := podCounts{numbers: k.numbers, nodes: make(map[*model.Node][]workloadPods, len(s.Nodes))}
	number := func(w model.Workload) int {
		i, ok := next.numbers[w]
		if !ok {
			if len(counts) == len(k.numbers) { // first new workload: copy, because the numbers of an earlier count must not be modified
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

// countPods returns the number of pods of each workload, ordered by the first pod of each.
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

// withChange returns the history after another change. like is one of the pods, or nil if there is none. If the number
// returns to the value before a decrease within passingWithin, the decrease is removed from the history. An increase is
// kept, because the workload will need nodes again.
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

// AddTo adds the forecast scale-ups and scale-downs of the next within to the input of a search. It returns the time at
// which the forecasts must be computed again.
func (m Memory) AddTo(in *disrupt.Input, now time.Time, within time.Duration) (until time.Time) {
	falls := map[model.Workload][]disrupt.ScaleDown{}
	var key []string
	note := func(w model.Workload, what string, c crossing) {
		minutes := bits.Len(uint(c.in / time.Minute))
		key = append(key, fmt.Sprintf("%s %s %d %d", w, what, c.pods, minutes))
		stayed := now.Sub(m.replicas[w].changedAt())
		if c.irregular { // when it has lasted so long that the forecast would be longer
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

// pods returns the current number of pods.
func (h *replicaHistory) pods() int { return h.changes[len(h.changes)-1].pods }

// rises returns when a workload is forecast to have one more pod than now, two more, four more and so on, soonest
// first, up to the highest number that it has had, and when its next irregular increase is forecast.
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

// drops returns when a workload is forecast to have one pod fewer than now, two fewer, four fewer and so on, soonest
// first, down to the lowest number that it has had, and when its next irregular decrease is forecast.
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

// crossings calls until for 1, 2, 4 and so on up to distance pods, and returns the forecasts, soonest first.
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

// timeUntil forecasts the time until the number of pods satisfies there. It compares the current period in which the
// number does not satisfy there with earlier periods. The forecast is that the current period lasts as long as the
// median of the earlier periods that were longer. A slightly shorter period also counts, because no two periods are
// equally long: then the current period is forecast to end now. ok is false if most earlier periods were shorter, or
// too few are known.
func (h *replicaHistory) timeUntil(now time.Time, there func(pods int) bool) (left time.Duration, ok bool) {
	var took []time.Duration
	var away time.Time // since when the number has not satisfied there
	for i, c := range h.changes {
		switch {
		case there(c.pods):
			if !away.IsZero() {
				took = append(took, c.at.Sub(away))
			}
			away = time.Time{}
		case away.IsZero() && i > 0: // the period before the first change is not known
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

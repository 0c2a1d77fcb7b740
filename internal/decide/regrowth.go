// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Room that a workload has left is not free for ever: an autoscaler takes it again in some minutes, people each morning. What giving its machines
// back saves ends then. So the number of each workload's pods is remembered, and from how long it stayed below a level before follows when it is
// expected to be back there (regrowth). Nothing else about consolidation depends on what happened before.

const (
	replicaSampleEvery = 15 * time.Second
	replicaHistoryAge  = 8 * 24 * time.Hour // a week and a day: what happens weekly is seen to happen again
	mostReplicaChanges = 128                // a workload, the latest
	mostWorkloads      = 10_000             // those that changed last

	// leastEpisodes is how often a workload must have been below a level and come back for that to be expected again.
	leastEpisodes = 2
)

// workloadName names what makes pods: a Deployment, or else the controller itself. One deleted and made again under its name is the same.
type workloadName struct{ namespace, kind, name string }

func (w workloadName) String() string { return strings.ToLower(w.kind) + "/" + w.namespace + "/" + w.name }

func (w workloadName) compare(o workloadName) int {
	return strings.Compare(w.String(), o.String())
}

// workloadOf is the workload that a pod is of; ok is false for one that nobody would make again.
func workloadOf(p *model.Pod) (w workloadName, ok bool) {
	if p.Deployment != "" {
		return workloadName{p.Namespace, "Deployment", p.Deployment}, true
	}
	return workloadName{p.Namespace, p.Owner.Kind, p.Owner.Name}, p.Owner.UID != ""
}

// replicaHistory is how many pods a workload had: the number from each time on, oldest first.
type replicaHistory struct {
	changes  []replicaChange
	requests model.Resources // of one of its pods, the last that was seen
}

type replicaChange struct {
	at   time.Time
	pods int
}

// sampleReplicas notes how many pods each workload has now, those pending included and those being deleted not.
func (st *step) sampleReplicas() {
	if st.now.Before(st.mem.replicasSampled.Add(replicaSampleEvery)) {
		return
	}
	type count struct {
		pods int
		like *model.Pod
	}
	counts := map[workloadName]count{}
	add := func(p *model.Pod) {
		if w, ok := workloadOf(p); ok && disrupt.Moves(p) && !p.Expected {
			counts[w] = count{counts[w].pods + 1, p}
		}
	}
	for _, n := range st.s.Nodes {
		for _, p := range n.Pods {
			add(p)
		}
	}
	for _, p := range st.s.Pending {
		add(p)
	}
	next := maps.Clone(st.mem.replicas)
	if next == nil {
		next = make(map[workloadName]*replicaHistory, len(counts))
	}
	for w, h := range st.mem.replicas {
		if counts[w].pods == 0 && st.now.Sub(h.changes[len(h.changes)-1].at) > replicaHistoryAge {
			delete(next, w)
			continue
		}
		if counts[w].pods != h.changes[len(h.changes)-1].pods {
			next[w] = h.with(replicaChange{st.now, counts[w].pods}, counts[w].like)
		}
	}
	for w, c := range counts {
		if next[w] == nil {
			next[w] = (&replicaHistory{}).with(replicaChange{st.now, c.pods}, c.like)
		}
	}
	if len(next) > mostWorkloads {
		keys := slices.SortedFunc(maps.Keys(next), func(a, b workloadName) int {
			if c := next[b].last().Compare(next[a].last()); c != 0 {
				return c
			}
			return a.compare(b)
		})
		for _, w := range keys[mostWorkloads:] {
			delete(next, w)
		}
	}
	st.mem.replicas, st.mem.replicasSampled = next, st.now
}

// last is when the number changed last.
func (h *replicaHistory) last() time.Time { return h.changes[len(h.changes)-1].at }

// with is the history after one more change; like is one of the pods, nil where there is none.
func (h *replicaHistory) with(c replicaChange, like *model.Pod) *replicaHistory {
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

// regrowth is when workloads are expected to have grown again, within so long: soonest first, then by workload and number of pods.
func (st *step) regrowth(within time.Duration) (out []disrupt.Return) {
	for w, h := range st.mem.replicas {
		pods := 0
		for _, r := range h.returns(st.now) {
			if r.in < within && r.pods > pods {
				out = append(out, disrupt.Return{Workload: w.String(), In: r.in, Pods: r.pods - pods, Requests: h.requests})
				pods = r.pods
			}
		}
	}
	slices.SortFunc(out, func(a, b disrupt.Return) int {
		if a.In != b.In {
			return int(a.In - b.In)
		}
		if a.Workload != b.Workload {
			return strings.Compare(a.Workload, b.Workload)
		}
		return a.Pods - b.Pods
	})
	return out
}

// comeback says that so many more pods than now are expected after so long.
type comeback struct {
	in   time.Duration
	pods int
}

// returns is when a workload is expected to have one pod more than now, two, four and so on, as far as it ever had them: soonest first, and never
// fewer pods later. For each of these levels it looks at the times before that the number was below it. Of those that lasted longer than this one
// has so far, the median tells how much longer this one will. Where most did not last so long, or too few are known, nothing is expected.
func (h *replicaHistory) returns(now time.Time) (out []comeback) {
	current, most := h.changes[len(h.changes)-1].pods, 0
	for _, c := range h.changes {
		most = max(most, c.pods)
	}
	for k := 1; current < most; k = min(2*k, most-current) {
		if in, ok := h.until(current+k, now); ok {
			out = append(out, comeback{in, k})
		}
		if k == most-current {
			break
		}
	}
	slices.SortStableFunc(out, func(a, b comeback) int { return int(a.in - b.in) })
	return out
}

// until is how long it is expected to take until there are at least so many pods; ok is false where nothing tells.
func (h *replicaHistory) until(pods int, now time.Time) (left time.Duration, ok bool) {
	var lasted []time.Duration // how long the number stayed below, each time it came back
	var below time.Time        // since when it is
	for i, c := range h.changes {
		switch {
		case c.pods >= pods:
			if !below.IsZero() {
				lasted = append(lasted, c.at.Sub(below))
			}
			below = time.Time{}
		case below.IsZero() && i > 0: // what was before the first change is not known
			below = c.at
		}
	}
	if below.IsZero() {
		return 0, false
	}
	so := now.Sub(below)
	longer := slices.DeleteFunc(slices.Clone(lasted), func(d time.Duration) bool { return d <= so })
	if len(longer) < leastEpisodes || 2*len(longer) < len(lasted) {
		return 0, false
	}
	slices.Sort(longer)
	return longer[len(longer)/2] - so, true
}

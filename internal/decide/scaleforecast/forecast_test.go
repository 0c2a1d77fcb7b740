// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scaleforecast

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestCrossings: a workload is expected to cross a level after the time that it took before, where it crossed it often enough and mostly took longer
// than this time so far; and one further away, marked ~, at the rate of its last four changes.
func TestCrossings(t *testing.T) {
	begin := time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ about, changes, at, rises, drops string }{
		{"never changed", "0s:10", "1h", "", ""},
		{"fell for the first time", "0s:10 5m:4", "6m", "", ""},
		{"came back once only: that may be chance", "0s:10 5m:4 10m:10 15m:4", "16m", "", ""},
		{"came back after five minutes twice: all are expected four minutes from now", "0s:10 5m:4 10m:10 15m:4 20m:10 25m:4", "26m", "1,2,4,6 in 4m0s", "4~ in 5m20s"},
		{"hardly longer than before: any time now", "0s:10 5m:4 10m:10 15m:4 20m:10 25m:4", "31m", "1,2,4,6 in 0s", "4~ in 7m0s"},
		{"this time it has lasted longer by more than a quarter", "0s:10 5m:4 10m:10 15m:4 20m:10 25m:4", "31m18s", "6~ in 7m6s", "4~ in 7m6s"},
		{"an autoscaler that goes up and down by two soon and by six later", "0s:4 1m:2 2m:4 3m:2 4m:10 5m:2 6m:4 7m:2 10m:10 11m:2", "11m30s", "1,2 in 30s 4,8 in 4m30s", "2~ in 1m50s"},
		{"each noon: half an hour before", "0h:5 0h1m:50 1h:5 24h:50 25h:5 48h:50 49h:5", "71h30m", "1,2,4,8,16,32,45 in 30m0s", "5~ in 22h30m0s"},
		{"deleted and made again", "0s:8 1m:0 2m:8 10m:0 11m:8 20m:0", "20m15s", "1,2,4,8 in 45s", ""},
		{"a job each hour that lasts ten minutes", "0h:2 1h:9 1h10m:2 2h:9 2h10m:2 3h:9 3h10m:2 4h:9", "4h4m", "7~ in 38m0s", "1,2,4,7 in 6m0s"},
		{"a fourth change", "0s:10 5m:4 6m:10 7m:5 8m:9", "8m30s", "6~ in 1m10s", "6~ in 1m10s"},
		{"no more than all its pods", "0s:10 5m:4 6m:10 7m:5 8m:1", "8m30s", "6~ in 1m10s", "1~ in 1m10s"},
		{"still for as long as these took, and longer", "0s:10 5m:4 6m:10 7m:5 8m:9", "13m", "6~ in 5m0s", "6~ in 5m0s"},
		{"pods made one by one: one change", "0s:1 5m:2 5m4s:3 5m8s:5 5m12s:7", "6m", "", ""},
		{"first seen while its pods were being made: no change", "0s:1 4s:5 8s:10 7m:5 8m:9 9m:10", "10m", "", ""},
		{"a rollout that comes to as many pods again: no change", "0s:8 1m:4 2m:8 3m:4 10m:3 10m5s:2 10m9s:4", "11m", "", ""},
		{"evicted twice, and back after 30 seconds: no change", "0s:5 5m:4 5m30s:5 10m:3 10m10s:4 10m31s:5 15m:8", "16m", "", ""},
		{"gone for a minute: a change", "0s:5 5m:4 6m:5 10m:3 11m:5 15m:8", "16m", "3~ in 3m20s", "3~ in 3m20s"},
		{"nothing is known of what was before the first change", "0s:3 5m:10 10m:3", "11m", "", ""},
	} {
		h := &replicaHistory{}
		for _, f := range strings.Fields(c.changes) {
			var n int
			at, text, _ := strings.Cut(f, ":")
			if _, err := fmt.Sscan(text, &n); err != nil {
				t.Fatal(err)
			}
			h = h.withChange(replicaChange{begin.Add(span(t, at)), n}, nil)
		}
		now := begin.Add(span(t, c.at))
		if got := tellCrossings(h.rises(now)); got != c.rises {
			t.Errorf("%s: got rises %q, want %q", c.about, got, c.rises)
		}
		if got := tellCrossings(h.drops(now)); got != c.drops {
			t.Errorf("%s: got drops %q, want %q", c.about, got, c.drops)
		}
	}
}

// tellCrossings lists numbers of pods by when they are expected.
func tellCrossings(list []crossing) string {
	var out []string
	for i, c := range list {
		mark := map[bool]string{true: "~"}[c.irregular]
		if i > 0 && list[i-1].in == c.in {
			out[len(out)-1] = strings.Replace(out[len(out)-1], " in", fmt.Sprintf(",%d%s in", c.pods, mark), 1)
		} else {
			out = append(out, fmt.Sprintf("%d%s in %s", c.pods, mark, c.in))
		}
	}
	return strings.Join(out, " ")
}

func span(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestReplicaHistoryIsBounded: of a workload that changes all the time only the latest changes are kept.
func TestReplicaHistoryIsBounded(t *testing.T) {
	h, at := &replicaHistory{}, time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC)
	for i := range 10 * mostReplicaChanges {
		h = h.withChange(replicaChange{at.Add(time.Duration(i) * time.Minute), i % 7}, nil)
	}
	if n := len(h.changes); n != mostReplicaChanges {
		t.Errorf("%d changes are kept, want %d", n, mostReplicaChanges)
	}
	h = h.withChange(replicaChange{h.changedAt().Add(replicaHistoryAge + time.Hour), 3}, nil)
	if n := len(h.changes); n != 1 {
		t.Errorf("%d changes are kept of which all but one are older than %s", n, replicaHistoryAge)
	}
}

// TestPassingFalls: pods that were evicted and are there again are no change of a workload. A short rise is.
func TestPassingFalls(t *testing.T) {
	at := time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		pods []int // 20 s apart
		kept int
	}{{[]int{8, 6, 8}, 1}, {[]int{8, 6, 5, 8}, 1}, {[]int{8, 6, 7, 8}, 1}, {[]int{8, 6, 6, 6, 8}, 3}, {[]int{4, 8, 4}, 3}, {[]int{4, 8, 4, 8}, 2}, {[]int{8, 4, 9, 8}, 4}} {
		h := &replicaHistory{}
		for i, n := range c.pods {
			h = h.withChange(replicaChange{at.Add(time.Duration(i) * 20 * time.Second), n}, nil)
		}
		if len(h.changes) != c.kept {
			t.Errorf("%v: %d changes are kept, want %d", c.pods, len(h.changes), c.kept)
		}
	}
}

// TestSampleOfTheSameNodes: nodes that are the very same as when pods were counted last are not counted again, and the counts are those of all pods.
func TestSampleOfTheSameNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := func() *model.Pod {
			name := fmt.Sprint("w", rapid.IntRange(0, 4).Draw(t, "workload"))
			p := &model.Pod{Namespace: "default", Owner: model.Owner{Kind: "StatefulSet", Name: name, UID: name}, Class: &model.Class{Requests: model.Resources{int64(rapid.IntRange(1, 9).Draw(t, "cpu"))}}}
			if rapid.IntRange(0, 4).Draw(t, "is deleted") == 0 {
				p.Deleting = time.Unix(1, 0)
			}
			return p
		}
		pods := func(most int) (out []*model.Pod) {
			for range rapid.IntRange(0, most).Draw(t, "pods") {
				out = append(out, pod())
			}
			return out
		}
		s, now := &model.Snapshot{}, time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC)
		for range 4 {
			s.Nodes = append(s.Nodes, &model.Node{Pods: pods(6)})
		}
		var kept Memory
		for range 6 {
			s = &model.Snapshot{Nodes: slices.Clone(s.Nodes), Pending: pods(3)}
			s.Nodes[rapid.IntRange(0, 3).Draw(t, "node")] = &model.Node{Pods: pods(6)}
			forgetful := Memory{replicas: kept.replicas, replicasDue: kept.replicasDue}
			kept = kept.Sample(s, now)
			want := forgetful.Sample(s, now)
			if !reflect.DeepEqual(kept.replicas, want.replicas) || !kept.replicasDue.Equal(want.replicasDue) {
				t.Fatalf("%v, want %v", kept, want)
			}
			now = now.Add(time.Minute)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package demandhistory records the demand of each workload per minute, stores it in ConfigMaps, and backfills
// missing history from an external source.
//
// The loop passes Snapshots to a Keeper, which processes them in its own goroutines, so the loop never waits. Start
// reading at Keeper.Sample, then Keep and Fill.
package demandhistory

import (
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	// shardCount is how many parts the histories are in: each has a lock and a ConfigMap of its own.
	shardCount = 8
	// mostPerShard bounds the memory that all of them take to about 200 MB. Names are spread by a hash, so that 5,000 fit
	// though one part gets more than another.
	mostPerShard = 700
)

// Keeper maintains the demand history of each workload, with one sample at each full minute of the wall clock. It is safe for
// concurrent use.
type Keeper struct {
	log     *slog.Logger
	metrics *counters
	store   Store        // nil: histories end with the process
	past    PastReplicas // nil: there is no other source of history

	due      time.Time   // when the loop samples next; the loop's alone
	sampling atomic.Bool // a sample is being taken in
	sampled  atomic.Bool // one has been
	// readSince is when stored histories were first to be read, in nanoseconds since 1970; 0: not yet.
	readSince atomic.Int64
	shards    [shardCount]shard
	keeping   sync.Mutex
	filling   sync.Mutex
	turn      int // the shard that is looked at first when one is to be written
}

// shard is a part of the histories.
type shard struct {
	mu      sync.RWMutex
	of      *forecast.Histories
	changed bool // demand has changed since it was written
	refused int  // workloads that found no room in the last minute

	read     atomic.Bool // what was stored has been taken over
	restored atomic.Bool // it has been once

	// These are keep's alone.
	readFails int       // times in a row that it could not be read
	stored    bool      // there is something in the store
	written   time.Time // when it was written last
	leftOut   int       // histories that the last write had no room for

	asked map[model.Workload]bool // these the past has been asked for; fill's alone
}

// New returns a Keeper without histories.
func New(log *slog.Logger, to prometheus.Registerer, store Store, past PastReplicas) *Keeper {
	d := &Keeper{log: log, metrics: newCounters(to), store: store, past: past}
	for i := range d.shards {
		d.shards[i].of, d.shards[i].asked = forecast.NewHistories(mostPerShard), map[model.Workload]bool{}
	}
	return d
}

// shardOf returns the part that a workload's history is in. It is the same in each process: where it is stored depends
// on it.
func shardOf(w model.Workload) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(w.String())) // never fails
	return int(h.Sum32() % shardCount)
}

// History returns a copy of a workload's history as of the last full minute, nil if there is none. A copy takes 32 KiB; use
// Forecast if only a forecast is needed.
func (d *Keeper) History(w model.Workload) *forecast.History {
	s := &d.shards[shardOf(w)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.of.Get(w); h != nil {
		return h.Clone()
	}
	return nil
}

// awaitHistory is how long stored histories are waited for, from when they were first to be read.
const awaitHistory = 5 * time.Minute

// IsAwaited reports whether the stored history of a workload has not been read yet. It returns false once reading has failed for
// five minutes.
func (d *Keeper) IsAwaited(w model.Workload, now time.Time) bool {
	if d.store == nil || d.shards[shardOf(w)].restored.Load() {
		return false
	}
	since := d.readSince.Load()
	return since == 0 || now.Sub(time.Unix(0, since)) < awaitHistory
}

// Forecast returns the forecast rise of a workload's demand within lead minutes of now at a quantile; see
// forecast.History.Forecast. ok is false if there is no history.
func (d *Keeper) Forecast(w model.Workload, now time.Time, lead int, level float64) (f forecast.Forecast, ok bool) {
	s := &d.shards[shardOf(w)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.of.Get(w)
	if h == nil {
		return forecast.Forecast{}, false
	}
	return h.Forecast(minuteOf(now), lead, level, nil), true
}

// Len returns the number of workloads with a history.
func (d *Keeper) Len() (n int) {
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		n += s.of.Len()
		s.mu.RUnlock()
	}
	return n
}

// minuteOf returns the minute since 1970 that a time is in.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// Sample records the demand of this minute in the background, and returns when the next minute begins. If the previous sample is
// still being recorded, this minute is skipped and stays unknown.
func (d *Keeper) Sample(now time.Time, snap *model.Snapshot) (next time.Time) {
	if now.Before(d.due) {
		return d.due
	}
	d.due = now.Truncate(time.Minute).Add(time.Minute)
	if !d.sampling.CompareAndSwap(false, true) {
		d.log.Warn("a minute of demand was not recorded: recording the previous minute took too long")
		return d.due
	}
	go func() {
		defer d.sampling.Store(false)
		d.record(minuteOf(now), snap.CountReplicas())
	}()
	return d.due
}

// record takes in the demand of a minute.
func (d *Keeper) record(minute int64, replicas map[model.Workload]int) {
	var parts [shardCount]map[model.Workload]int
	for i := range parts {
		parts[i] = map[model.Workload]int{}
	}
	for w, n := range replicas {
		parts[shardOf(w)][w] = n
	}
	refused, before := 0, 0
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.Lock()
		s.changed = s.changed || s.differs(parts[i])
		o, err := s.of.Observe(minute, parts[i])
		before += s.refused
		refused += o.Refused
		s.refused = o.Refused
		s.mu.Unlock()
		if err != nil { // of counts that are no less than 0, and minutes of this age: it can't fail
			d.log.Error("a minute of demand was not recorded", "error", err.Error())
		}
		d.metrics.dropped.WithLabelValues("gone").Add(float64(len(o.Gone)))
		d.metrics.dropped.WithLabelValues("room").Add(float64(len(o.Dropped)))
		if n := len(o.Dropped); n > 0 {
			d.log.Info("least useful demand histories dropped to make room for other workloads", "histories", n, "example", o.Dropped[0].String(),
				"most", shardCount*mostPerShard)
		}
	}
	if refused > 0 && before == 0 {
		d.log.Warn("some workloads have no demand history: the maximum is reached", "workloads", refused, "most", shardCount*mostPerShard)
	}
	d.metrics.known.Set(float64(d.Len()))
	d.metrics.refused.Set(float64(refused))
	d.sampled.Store(true)
}

// differs reports whether a workload wants another number of replicas than when it was sampled last, or is new.
func (s *shard) differs(replicas map[model.Workload]int) bool {
	for w, n := range replicas {
		if s.of.Get(w) == nil {
			return true
		} else if _, last, _ := s.of.Get(w).Last(); last != min(n, forecast.MaxReplicas) {
			return true
		}
	}
	for w, h := range s.of.All() {
		if _, last, _ := h.Last(); last != 0 && replicas[w] == 0 {
			return true
		}
	}
	return false
}

// PastReplicas provides the desired replicas of workloads in the past.
type PastReplicas interface {
	// Replicas returns the replicas of each minute since 1970, from first to last, both included; -1 if unknown. The result has one
	// number per requested minute.
	Replicas(ctx context.Context, w model.Workload, first, last int64) ([]int, error)
}

// Store stores demand histories across restarts, as numbered maps from keys to bytes.
type Store interface {
	// LoadHistories returns the map with a number, nil if there is none.
	LoadHistories(ctx context.Context, shard int) (map[string][]byte, error)
	// StoreHistories replaces the map with a number. It fails if another process has written it since this one loaded or stored it:
	// then it must be loaded again.
	StoreHistories(ctx context.Context, shard int, entries map[string][]byte) error
}

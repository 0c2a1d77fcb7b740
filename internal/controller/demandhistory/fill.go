// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demandhistory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	askPortion     = 7 * 24 * 60      // minutes that are asked for at once
	askLimit       = 30 * time.Second // for one portion
	askAgain       = time.Minute      // after a failure, and longer each time
	askSlow        = 30 * time.Minute // but no longer than this
	lookForMissing = 10 * time.Minute // how often it is looked for workloads whose history is short
	missingLeast   = 24 * 4           // quarters of an hour: a history that lacks less of four weeks is not filled
	fillShare      = 10               // a tenth of the time at most is spent on filling histories
	fillPortion    = 1000             // minutes taken in between pauses
)

// Fill queries the external source for minutes missing from histories, one workload at a time, until the context ends. After a
// successful query, a workload is not queried again.
func (d *Keeper) Fill(ctx context.Context) {
	if d.past == nil {
		return
	}
	d.filling.Lock() // the last one's query may still be ending
	defer d.filling.Unlock()
	fails := 0
	pause := func(t time.Duration) bool {
		select {
		case <-time.After(t):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for pause(lookForMissing / 10) {
		for _, w := range d.lacking(time.Now()) {
			err := d.fillOne(ctx, w, minuteOf(time.Now())-1, pause)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				d.shards[shardOf(w)].asked[w] = true
				if fails > 0 {
					d.log.Info("Prometheus answers again")
				}
				fails = 0
				continue
			}
			if fails++; fails == 1 {
				d.log.Warn("demand histories can't be backfilled from Prometheus, trying again", "workload", w.String(), "error", err.Error())
			}
			if !pause(min(askSlow, time.Duration(fails)*askAgain)) {
				return
			}
		}
		if !pause(lookForMissing) {
			return
		}
	}
}

// lacking returns the workloads that the past was not asked for and whose history lacks a day of the last four weeks, or
// more: those that want the most replicas first, then by name.
func (d *Keeper) lacking(now time.Time) []model.Workload {
	if !d.sampled.Load() {
		return nil
	}
	wants := map[model.Workload]int{}
	for i := range d.shards {
		s := &d.shards[i]
		if d.store != nil && !s.read.Load() { // what is stored may be all that is needed
			continue
		}
		s.mu.RLock()
		for w, h := range s.of.All() {
			if !s.asked[w] && forecast.QuartersKept-h.KnownQuarters(minuteOf(now)) >= missingLeast {
				_, wants[w], _ = h.Last()
			}
		}
		maps.DeleteFunc(s.asked, func(w model.Workload, _ bool) bool { return s.of.Get(w) == nil })
		s.mu.RUnlock()
	}
	return slices.SortedFunc(maps.Keys(wants), func(a, b model.Workload) int {
		return cmp.Or(cmp.Compare(wants[b], wants[a]), a.Compare(b))
	})
}

// fillOne asks for four weeks of a workload's demand until a minute, in portions, and has them taken over where that is
// more than is known. An error is of a portion that was not answered: then nothing changes.
func (d *Keeper) fillOne(ctx context.Context, w model.Workload, last int64, pause func(time.Duration) bool) error {
	first := last - forecast.QuartersKept*15 + 1
	var replicas []int
	for from := first; from <= last; from += askPortion {
		to := min(last, from+askPortion-1)
		call, cancel := context.WithTimeout(ctx, askLimit)
		portion, err := d.past.Replicas(call, w, from, to)
		cancel()
		if err != nil {
			d.metrics.queries.WithLabelValues("failed").Inc()
			return err
		}
		d.metrics.queries.WithLabelValues("answered").Inc()
		replicas = append(replicas, portion...)
	}
	h := forecast.New()
	began := time.Now()
	for i, n := range replicas {
		if n >= 0 {
			if err := h.Observe(first+int64(i), n); err != nil {
				return err
			}
		}
		if i%fillPortion == fillPortion-1 { // the loop needs the processor too
			if !pause((fillShare - 1) * time.Since(began)) {
				return ctx.Err()
			}
			began = time.Now()
		}
	}
	if h.Known() > 0 && d.shards[shardOf(w)].takeOver(w, h) {
		d.metrics.filled.Inc()
	}
	return nil
}

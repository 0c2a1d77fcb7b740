// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demandhistory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	storeLimit        = 5 * time.Second  // of one call
	writeHistoryEvery = time.Minute      // a write of one shard at most
	rewriteHistory    = time.Hour        // after so long a shard is written though no demand has changed
	mostStoredBytes   = 256 << 10        // a shard, keys included: 2 MiB in all
	mostKeyLength     = 253              // of a ConfigMap
	readHistoryAgain  = 15 * time.Second // after a failure, and longer each time
	readHistorySlow   = 5 * time.Minute  // but no longer than this
	clockSkew         = 5                // minutes that another leader's clock may have been ahead
)

// Keep reads the stored histories, then writes changed ones, one shard per minute in turn, until the context ends.
func (d *Keeper) Keep(ctx context.Context) {
	if d.store == nil {
		return
	}
	d.keeping.Lock() // the last one's call may still be ending
	defer d.keeping.Unlock()
	d.readSince.CompareAndSwap(0, time.Now().UnixNano())
	write := time.NewTicker(writeHistoryEvery)
	defer write.Stop()
	for {
		again := d.readShards(ctx)
		var retry <-chan time.Time
		if again > 0 {
			retry = time.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-retry:
		case <-write.C:
			d.writeShard(ctx, time.Now())
		}
	}
}

// readShards reads the shards that have not been, and returns when to try again; 0: all have been.
func (d *Keeper) readShards(ctx context.Context) (again time.Duration) {
	for i := range d.shards {
		s := &d.shards[i]
		if s.read.Load() {
			continue
		}
		call, cancel := context.WithTimeout(ctx, storeLimit)
		entries, err := d.store.LoadHistories(call, i)
		cancel()
		if ctx.Err() != nil {
			return 0
		}
		if err != nil {
			if s.readFails++; s.readFails == 1 {
				d.log.Warn("stored demand histories can't be read, trying again; recording of their workloads starts again meanwhile", "shard", i, "error", err.Error())
			}
			again = max(again, min(readHistorySlow, time.Duration(s.readFails)*readHistoryAgain))
			continue
		}
		s.stored, s.readFails = entries != nil, 0
		d.restore(s, entries, minuteOf(time.Now()))
		s.read.Store(true)
		s.restored.Store(true)
	}
	return again
}

// restore takes over what was stored. What can't be read is left out: that workload begins anew.
func (d *Keeper) restore(s *shard, entries map[string][]byte, now int64) {
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		w, h, err := readHistory(key, entries[key], now)
		if err != nil {
			d.metrics.reads.WithLabelValues("refused").Inc()
			d.log.Warn("a stored demand history can't be used: recording of its workload starts again", "key", key, "error", err.Error())
			continue
		}
		d.metrics.reads.WithLabelValues("read").Inc()
		s.takeOver(w, h)
	}
}

// takeOver gives a workload a history from elsewhere with the minutes that were observed here since, unless what is
// known here is as much. It reports whether it did.
func (s *shard) takeOver(w model.Workload, h *forecast.History) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.of.Get(w); have != nil {
		if have.Known() >= h.Known() {
			return false
		}
		h.Append(have)
	}
	s.changed = true
	return s.of.Set(w, h)
}

// historyKey returns the key of a workload's history: kind.namespace.name, where only the name may contain dots; ok is
// false for one that is too long for a key of a ConfigMap.
func historyKey(w model.Workload) (key string, ok bool) {
	key = w.Kind + "." + w.Namespace + "." + w.Name
	return key, len(key) <= mostKeyLength
}

// readHistory returns the history that an entry holds, and whose it is.
func readHistory(key string, data []byte, now int64) (w model.Workload, h *forecast.History, err error) {
	parts := strings.SplitN(key, ".", 3)
	if len(parts) < 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return w, nil, fmt.Errorf("key %q is not kind.namespace.name", key)
	}
	w = model.Workload{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
	if h, err = forecast.Decode(data); err != nil {
		return w, nil, err
	}
	last, _, ok := h.Last()
	if !ok {
		return w, nil, errors.New("it is empty")
	}
	if last > now+clockSkew {
		return w, nil, fmt.Errorf("its last minute, %s, is in the future", time.Unix(60*last, 0).UTC().Format(time.RFC3339))
	}
	return w, h, nil
}

// writeShard writes the next shard, in turn, that has something new.
func (d *Keeper) writeShard(ctx context.Context, now time.Time) {
	for range d.shards {
		i := d.turn
		d.turn = (d.turn + 1) % shardCount
		s := &d.shards[i]
		s.mu.RLock()
		due := s.read.Load() && (s.changed || now.Sub(s.written) >= rewriteHistory) && (s.of.Len() > 0 || s.stored)
		s.mu.RUnlock()
		if !due {
			continue
		}
		entries, leftOut := s.encode()
		call, cancel := context.WithTimeout(ctx, storeLimit)
		err := d.store.StoreHistories(call, i, entries)
		cancel()
		if err != nil {
			s.mu.Lock()
			s.changed = true
			s.mu.Unlock()
			s.read.Store(false) // by another leader, or nobody knows what came of it: it is read before it is written again
			if ctx.Err() == nil {
				d.metrics.writes.WithLabelValues("failed").Inc()
				d.log.Warn("demand histories were not stored, trying again", "shard", i, "error", err.Error())
			}
			return
		}
		s.written, s.stored = now, true
		d.metrics.writes.WithLabelValues("written").Inc()
		if leftOut > s.leftOut {
			d.log.Warn("least useful demand histories not stored: the storage is full, and they are lost when this process ends", "shard", i, "histories", leftOut,
				"stored", len(entries), "bytes", mostStoredBytes)
		}
		s.leftOut = leftOut
		sum := 0
		for j := range d.shards {
			sum += d.shards[j].leftOut
		}
		d.metrics.leftOut.Set(float64(sum))
		return
	}
}

// encode returns the histories as they are stored, the most useful ones first as long as there is room, and how many
// are left out. What changes meanwhile counts as changed.
func (s *shard) encode() (entries map[string][]byte, leftOut int) {
	s.mu.Lock()
	s.changed = false
	workloads := s.of.MostUseful()
	s.mu.Unlock()
	entries = map[string][]byte{}
	bytes := 0
	for _, w := range workloads {
		s.mu.RLock()
		h := s.of.Get(w)
		if h != nil {
			h = h.Clone() // encoding takes much longer than copying
		}
		s.mu.RUnlock()
		if h == nil {
			continue
		}
		key, ok := historyKey(w)
		if !ok {
			leftOut++
			continue
		}
		text := h.Encode()
		if bytes+len(key)+len(text) > mostStoredBytes {
			leftOut++
			continue
		}
		bytes += len(key) + len(text)
		entries[key] = text
	}
	return entries, leftOut
}

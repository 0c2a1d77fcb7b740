// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// Store stores past decisions in numbered slots, across restarts.
type Store interface {
	// LoadHistories returns what is stored in a slot, nil if there is nothing.
	LoadHistories(ctx context.Context, slot int) (map[string][]byte, error)
	// StoreHistories replaces what is stored in a slot. It fails if another process has written to the slot since this one
	// loaded or stored it: then it must be loaded again.
	StoreHistories(ctx context.Context, slot int, entries map[string][]byte) error
}

const (
	storeEvery     = 15 * time.Second // how often new decisions are stored: as many are lost when the process is killed
	storeLimit     = 5 * time.Second  // of one call
	storeLastLimit = 2 * time.Second  // how long a process that ends tries to store what is not stored yet

	decisionsKey = "decisions.json.gz" // the entry of a slot that holds decisions
)

// Keeper stores the History of a Ledger.
type Keeper struct {
	past  *History
	store Store
	log   *slog.Logger

	keeping sync.Mutex // held by Keep
	read    [HistorySegments]bool
	failed  map[string]bool // what was said to fail, so that it is said once
}

// NewKeeper returns a Keeper for a Ledger.
func NewKeeper(l *Ledger, store Store, log *slog.Logger) *Keeper {
	return &Keeper{past: l.Past(), store: store, log: log}
}

// Keep reads the stored decisions, then stores new ones, until the context ends. A second call waits until the first one has
// returned.
func (k *Keeper) Keep(ctx context.Context) {
	k.keeping.Lock()
	defer k.keeping.Unlock()
	k.read, k.failed = [HistorySegments]bool{}, map[string]bool{}
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	reopened := false
	for {
		if k.readAll(ctx) && !reopened {
			reopened = true
			k.past.Reopen()
		}
		select {
		case <-ctx.Done():
			if reopened {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLastLimit)
				k.storeNew(last)
				cancel()
			}
			return
		case <-tick.C:
			if reopened {
				k.storeNew(ctx)
			}
		}
	}
}

// readAll reads the slots that have not been read, and reports whether all have been.
func (k *Keeper) readAll(ctx context.Context) bool {
	all := true
	for slot := range k.read {
		if k.read[slot] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, storeLimit)
		entries, err := k.store.LoadHistories(call, slot)
		cancel()
		if k.note("past decisions can't be read, trying again", slot, err) {
			all = false
			continue
		}
		k.read[slot] = true
		k.note("stored decisions are invalid and are discarded", slot, k.past.Restore(slot, entries[decisionsKey], time.Now()))
	}
	return all
}

// storeNew writes the segments that have changed. One that another process has written meanwhile is read again first.
func (k *Keeper) storeNew(ctx context.Context) {
	list, err := k.past.Unstored(time.Now())
	k.note("past decisions can't be encoded", -1, err)
	for _, s := range list {
		call, cancel := context.WithTimeout(ctx, storeLimit)
		err := k.store.StoreHistories(call, s.Slot, map[string][]byte{decisionsKey: s.Data})
		cancel()
		if k.note("past decisions can't be stored, trying again", s.Slot, err) {
			k.read[s.Slot] = false
			continue
		}
		k.past.MarkStored(s)
	}
}

// note logs once that something fails, and again after it has worked. It reports whether it fails.
func (k *Keeper) note(what string, slot int, err error) bool {
	key := what + strconv.Itoa(slot)
	if err != nil && !k.failed[key] {
		k.log.Warn(what, "slot", slot, "error", err.Error())
	}
	k.failed[key] = err != nil
	return err != nil
}

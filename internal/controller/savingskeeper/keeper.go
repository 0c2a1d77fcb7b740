// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package savingskeeper maintains the account of costs and savings (package savings): it passes Snapshots to it,
// stores it in ConfigMaps, and answers queries about it.
//
// It processes Snapshots in its own goroutine, so the loop never waits for it. Without a store, as in shadow mode,
// the account starts with the process. Start reading at Keeper.Sample, then Keep.
package savingskeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/savings"
)

const (
	leastBetween = 2 * time.Second  // samples, though the loop is busy
	mostBetween  = 15 * time.Second // samples, though nothing happens
	mostWaiting  = 16               // Snapshots that are kept until they are taken in; beyond that, what removals save may not be known
	storeEvery   = time.Minute      // as much is counted again, or not known, when the process is killed
	storeLimit   = 5 * time.Second  // of one call

	recentSlot, daysSlot = 0, 1
	key                  = "savings.json.gz" // the entry of a slot
)

// Store stores the account across restarts, as two maps from keys to bytes.
type Store interface {
	// LoadHistories returns the map in a slot, nil if there is none.
	LoadHistories(ctx context.Context, slot int) (map[string][]byte, error)
	// StoreHistories replaces the map in a slot. It fails if another process has written it since this one loaded or stored it:
	// then it must be loaded again.
	StoreHistories(ctx context.Context, slot int, entries map[string][]byte) error
}

// Keeper maintains the account. It is safe for concurrent use.
type Keeper struct {
	log   *slog.Logger
	store Store // nil: the account ends with the process
	// Headroom returns the cost of nodes held for Headrooms, in micro-dollars per hour; nil: none. It must be set before the loop
	// runs.
	Headroom func() int64

	due     time.Time       // when the loop samples next; the loop's alone
	going   map[string]bool // by uid of the claims that commands are to remove, in the last Snapshot: it is being deleted; the loop's alone
	counted time.Time       // when replicas were counted last; sampling's alone
	keeping sync.Mutex

	queue    sync.Mutex
	waiting  []sample // oldest first
	sampling bool     // waiting is being worked off
	missed   bool     // a Snapshot was left out in which a command begins to remove a node

	mu      sync.Mutex
	account *savings.Ledger // nil: what is stored was not read yet
	failing bool            // it is said once
	days    string          // as they were stored last
}

// New returns a Keeper of an account that is first read from a store, unless the store is nil.
func New(log *slog.Logger, store Store) *Keeper {
	k := &Keeper{log: log, store: store}
	if store == nil {
		k.account = &savings.Ledger{}
	}
	return k
}

// sample is a Snapshot that the account is to take in.
type sample struct {
	at     time.Time
	snap   *model.Snapshot
	missed bool
}

// Sample passes a Snapshot to the account in the background, and returns when the next one is due. Snapshots in which a command
// begins to remove or delete a node are never skipped: the next one may show the node without its pods, or no node.
func (k *Keeper) Sample(now time.Time, snap *model.Snapshot) (next time.Time) {
	begins := k.begins(snap)
	if now.Before(k.due) && !begins {
		return k.due.Add(mostBetween - leastBetween)
	}
	k.due = now.Add(leastBetween)
	k.queue.Lock()
	defer k.queue.Unlock()
	if !k.sampling || begins && len(k.waiting) < mostWaiting {
		k.waiting = append(k.waiting, sample{now, snap, k.missed})
		k.missed = false
	} else {
		k.missed = k.missed || begins
	}
	if !k.sampling {
		k.sampling = true
		go k.workOff()
	}
	return now.Add(mostBetween)
}

// begins reports whether a command is to remove a node that none was to remove in the Snapshot before, or has begun to delete it since.
func (k *Keeper) begins(snap *model.Snapshot) (begins bool) {
	var going map[string]bool
	for _, c := range snap.Claims {
		if savings.RemovedBy(c) == "" {
			continue
		}
		if going == nil {
			going = map[string]bool{}
		}
		leaving := !c.Deleting.IsZero()
		going[c.UID] = leaving
		was, known := k.going[c.UID]
		begins = begins || !known || leaving && !was
	}
	k.going = going
	return begins
}

// workOff takes in the Snapshots that wait, one after the other, until there is none.
func (k *Keeper) workOff() {
	for {
		k.queue.Lock()
		if len(k.waiting) == 0 {
			k.sampling = false
			k.queue.Unlock()
			return
		}
		s := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.queue.Unlock()
		k.observe(s)
	}
}

func (k *Keeper) observe(s sample) {
	count := s.at.Sub(k.counted) >= storeEvery
	o, ok := savings.Read(s.at, s.snap, count)
	if !ok {
		return
	}
	if count {
		k.counted = s.at
	}
	o.Missed = s.missed
	if k.Headroom != nil {
		o.Headroom = k.Headroom()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.account != nil {
		k.account.Observe(o)
	}
}

// errNotRead: the account is not known yet.
var errNotRead = errors.New("stored savings have not been read yet; retry in a few seconds. If this persists, check the controller's log, and that it is the leader and not passive")

// Since returns the account from an instant on. It returns an error if the account has not been read yet.
func (k *Keeper) Since(t time.Time) (*savings.Account, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.account == nil {
		return nil, errNotRead
	}
	return k.account.Since(t), nil
}

// Keep reads the stored account, then stores it every minute and when the context ends. Without a store it returns at once.
func (k *Keeper) Keep(ctx context.Context) {
	if k.store == nil {
		return
	}
	k.keeping.Lock() // the last one may still be ending
	defer k.keeping.Unlock()
	k.forget() // another leader may have written since
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		var retry <-chan time.Time
		if err := k.load(ctx); err != nil && ctx.Err() == nil {
			k.say("stored savings can't be read, trying again; savings are unavailable until then", err)
			retry = time.After(storeLimit)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit/2)
			defer cancel()
			k.save(last)
			k.forget() // nobody keeps it from now on
			return
		case <-retry:
		case <-tick.C:
			k.save(ctx)
		}
	}
}

// load reads what is stored, unless it has been.
func (k *Keeper) load(ctx context.Context) error {
	k.mu.Lock()
	known := k.account != nil
	k.mu.Unlock()
	if known {
		return nil
	}
	var parts [2][]byte
	for slot := range parts {
		call, cancel := context.WithTimeout(ctx, storeLimit)
		entries, err := k.store.LoadHistories(call, slot)
		cancel()
		if err != nil {
			return err
		}
		parts[slot] = entries[key]
	}
	l, err := savings.Decode(parts[recentSlot], parts[daysSlot])
	if err != nil { // a newer version's is kept: whoever wants to begin anew deletes the ConfigMaps
		return fmt.Errorf("ConfigMaps dovetail-savings-0 and dovetail-savings-1: %w; delete both to start over", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.account, k.days, k.failing = l, string(parts[daysSlot]), false
	return nil
}

// save stores the account: the days first, if they have changed.
func (k *Keeper) save(ctx context.Context) {
	k.mu.Lock()
	account, stored := k.account, k.days
	k.mu.Unlock()
	if account == nil {
		return
	}
	recent, days, err := k.encode(account)
	put := func(slot int, data []byte) {
		if err != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, storeLimit)
		defer cancel()
		err = k.store.StoreHistories(call, slot, map[string][]byte{key: data})
	}
	if string(days) != stored {
		put(daysSlot, days)
	}
	put(recentSlot, recent)
	switch {
	case errors.Is(err, savings.ErrTooLarge): // reading it again would lose what came since, and be too large again
		k.say("savings can't be stored, and are lost when this process exits", err)
		return
	case err != nil:
		k.forget()
		k.say("savings were not stored, reading them again", err)
		return
	}
	k.mu.Lock()
	k.days, k.failing = string(days), false
	k.mu.Unlock()
}

// encode returns the two parts of the account. The lock is not held while they are encoded.
func (k *Keeper) encode(account *savings.Ledger) (recent, days []byte, err error) {
	for fits := false; !fits && err == nil; {
		k.mu.Lock()
		c := account.Copy()
		k.mu.Unlock()
		if recent, days, err = c.Encode(); err == nil {
			k.mu.Lock()
			fits, err = account.Fit(c)
			k.mu.Unlock()
		}
	}
	return recent, days, err
}

// forget has the account read again: another process has written, or nobody knows what came of a write.
func (k *Keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.account = nil
}

func (k *Keeper) say(what string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.failing {
		k.log.Warn(what, "error", err.Error())
	}
	k.failing = true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package savingskeeper maintains the account of costs and savings (package savings): it feeds Snapshots to the Ledger,
// stores the account in ConfigMaps, and answers queries about it.
//
// It processes Snapshots in its own goroutine, so the loop never waits for it. Without a store, as in shadow mode, the
// account is kept in memory only. Start reading at Keeper.Sample, then Keep.
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
	leastBetween = 2 * time.Second  // minimum time between two samples, even if the loop is busy
	mostBetween  = 15 * time.Second // maximum time between two samples, even if nothing changes
	mostWaiting  = 16               // maximum number of Snapshots that wait to be processed; beyond it, the savings of removals may be unknown
	storeEvery   = time.Minute      // if the process is killed, this much time is counted twice or is unknown
	storeLimit   = 5 * time.Second  // timeout of a call

	recentSlot, daysSlot = 0, 1
	key                  = "savings.json.gz" // key of the entry in each slot
)

// Store stores the account across restarts, as two maps from keys to bytes.
type Store interface {
	// LoadHistories returns the map in a slot, or nil if there is none.
	LoadHistories(ctx context.Context, slot int) (map[string][]byte, error)
	// StoreHistories replaces the map in a slot. It fails if another process has written the map since this process
	// last loaded or stored it. Then it must be loaded again.
	StoreHistories(ctx context.Context, slot int, entries map[string][]byte) error
}

// Keeper maintains the account of costs and savings. It is safe for concurrent use.
type Keeper struct {
	log   *slog.Logger
	store Store // nil: the account is kept in memory only
	// Headroom returns the cost of nodes held for Headrooms, in micro-dollars per hour; nil: none. It must be set
	// before the loop runs.
	Headroom func() int64

	due     time.Time       // when the loop samples next; used by the loop only
	going   map[string]bool // NodeClaims that commands remove, by UID, in the last Snapshot: whether the NodeClaim is being deleted; used by the loop only
	counted time.Time       // time of the last replica count; used by the sampling goroutine only
	keeping sync.Mutex

	queue    sync.Mutex
	waiting  []sample // oldest first
	sampling bool     // a goroutine is processing waiting
	missed   bool     // a Snapshot was skipped in which a command begins to remove a node

	mu      sync.Mutex
	account *savings.Ledger // nil: the stored account has not been read yet
	failing bool            // a failure was logged and has not been resolved; it is logged once
	days    string          // the days part as last stored
}

// New returns a Keeper. If store is not nil, the account is unknown until Keep has read it from store.
func New(log *slog.Logger, store Store) *Keeper {
	k := &Keeper{log: log, store: store}
	if store == nil {
		k.account = &savings.Ledger{}
	}
	return k
}

// sample is a Snapshot to be added to the account.
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

// begins reports whether a command began to remove a node, or to delete a node that it removes, since the last
// Snapshot.
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

// workOff processes the waiting Snapshots in order until none is left.
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

// errNotRead is returned while the account has not been read from the store.
var errNotRead = errors.New("stored savings have not been read yet; retry in a few seconds. If this persists, check the controller's log, and that it is the leader and not passive")

// Since returns the account of the time since t. It returns an error if the account has not been read yet.
func (k *Keeper) Since(t time.Time) (*savings.Account, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.account == nil {
		return nil, errNotRead
	}
	return k.account.Since(t), nil
}

// Keep reads the stored account, then stores it every minute and when ctx is canceled. Without a store, it returns
// immediately.
func (k *Keeper) Keep(ctx context.Context) {
	if k.store == nil {
		return
	}
	k.keeping.Lock() // the previous call may still be ending
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
			k.forget() // it is no longer maintained from now on
			return
		case <-retry:
		case <-tick.C:
			k.save(ctx)
		}
	}
}

// load reads the stored account, unless it is already known.
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
	if err != nil { // an account of a newer version is kept; users delete the ConfigMaps to start over
		return fmt.Errorf("ConfigMaps dovetail-savings-0 and dovetail-savings-1: %w; delete both to start over", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.account, k.days, k.failing = l, string(parts[daysSlot]), false
	return nil
}

// save stores the account. It stores the days first, if they have changed.
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
	case errors.Is(err, savings.ErrTooLarge): // reading the stored account again would lose recent data, and would not make it smaller
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

// encode returns the two parts of the account. The lock is not held during encoding.
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

// forget makes Keep read the account again, because another process has written it, or the result of a write is
// unknown.
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

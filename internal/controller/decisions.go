// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
)

// storeDecisionsEvery is how often past decisions are stored where there are new ones: as many are lost when the process
// is killed.
const storeDecisionsEvery = 15 * time.Second

// storeLastLimit is how long a process that ends tries to store what is not stored yet.
const storeLastLimit = 2 * time.Second

// decisionsKey is the entry of a ConfigMap that holds decisions.
const decisionsKey = "decisions.json.gz"

// decisionKeeper stores the ledger's past.
type decisionKeeper struct {
	*Controller
	read   [ledger.HistorySegments]bool
	failed map[string]bool // what was said to fail, so that it is said once
}

// keepDecisions reads the decisions that are stored, then stores new ones, until the context ends.
func (c *Controller) keepDecisions(ctx context.Context) {
	if c.Decisions == nil {
		return
	}
	c.keepingDecisions.Lock() // the last one's call may still be ending
	defer c.keepingDecisions.Unlock()
	k := &decisionKeeper{Controller: c, failed: map[string]bool{}}
	tick := time.NewTicker(storeDecisionsEvery)
	defer tick.Stop()
	reopened := false
	for {
		if k.readAll(ctx) && !reopened {
			reopened = true
			c.Ledger.Past().Reopen()
		}
		select {
		case <-ctx.Done():
			if reopened {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLastLimit)
				k.store(last)
				cancel()
			}
			return
		case <-tick.C:
			if reopened {
				k.store(ctx)
			}
		}
	}
}

// readAll reads the slots that have not been read, and says whether all have been.
func (k *decisionKeeper) readAll(ctx context.Context) bool {
	all := true
	for slot := range k.read {
		if k.read[slot] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, recallLimit)
		entries, err := k.Decisions.LoadHistories(call, slot)
		cancel()
		if k.note("past decisions can't be read, trying again", slot, err) {
			all = false
			continue
		}
		k.read[slot] = true
		k.note("stored decisions can't be used, and are forgotten", slot, k.Ledger.Past().Restore(slot, entries[decisionsKey], time.Now()))
	}
	return all
}

// store writes the segments that have changed. One that another process has written meanwhile is read again first.
func (k *decisionKeeper) store(ctx context.Context) {
	list, err := k.Ledger.Past().Unstored(time.Now())
	k.note("past decisions can't be encoded", -1, err)
	for _, s := range list {
		call, cancel := context.WithTimeout(ctx, recallLimit)
		err := k.Decisions.StoreHistories(call, s.Slot, map[string][]byte{decisionsKey: s.Data})
		cancel()
		if k.note("past decisions can't be stored, trying again", s.Slot, err) {
			k.read[s.Slot] = false
			continue
		}
		k.Ledger.Past().MarkStored(s)
	}
}

// note says once that something fails, and again after it has worked; it returns whether it fails.
func (k *decisionKeeper) note(what string, slot int, err error) bool {
	key := what + strconv.Itoa(slot)
	if err != nil && !k.failed[key] {
		k.Log.Warn(what, "slot", slot, "error", err.Error())
	}
	k.failed[key] = err != nil
	return err != nil
}

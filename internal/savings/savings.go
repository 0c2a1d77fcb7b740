// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package savings accounts for what the nodes of NodePools have cost, and what they would have cost without Dovetail.
// docs/design/0022-savings.md defines each amount.
//
// Ledger integrates the observed state (Observation) over time. Invariants:
//
//   - No second of a node or of a removed node is counted twice, despite restarts and leader changes: each is counted
//     from where its own count ended, and the data is stored atomically.
//   - The reference cost minus the cost equals the sum over causes.
//   - Amounts do not depend on how often the state is observed, provided it is observed when it changes.
//   - Unknown data (a price, a time without a controller) is counted as unknown, never estimated.
//
// The package reads no clock and stores nothing itself. Start reading at Ledger.Observe, then moves.go.
package savings

import (
	"cmp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Series is the key of separate amounts. Its fields are empty for amounts without a machine.
type Series struct {
	Pool         string `json:"nodepool,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
}

// Rates are the prices of a machine in micro-dollars per hour; 0: unknown.
type Rates struct {
	Paid     int64 `json:"paid,omitempty"`     // with NodeOverlays
	Catalog  int64 `json:"catalog,omitempty"`  // the provider's price for its capacity type
	OnDemand int64 `json:"onDemand,omitempty"` // the provider's on-demand price
}

// list returns the provider's price. It is the price paid if nothing else is known: then no saving is claimed.
func (r *Rates) list() int64 { return cmp.Or(r.Catalog, r.Paid) }

// atOnDemand returns the provider's on-demand price. It is the provider's if that is not known: then no saving is claimed.
func (r *Rates) atOnDemand() int64 { return cmp.Or(r.OnDemand, r.list()) }

// Machine is a running machine of a NodeClaim.
type Machine struct {
	UID string // UID of its NodeClaim
	Series
	Rates
	Launched time.Time
}

// Candidate is a machine that a consolidation command will remove.
type Candidate struct {
	Command string
	UID     string
	Series
	Rates
	Leaving bool      // it is being deleted: the command can no longer be cancelled
	Expires time.Time // when it would have been replaced in any case; zero: never
	Pods    []Share
}

// Share is the share of a workload's pods in a machine, in millionths.
type Share struct {
	Workload model.Workload
	PPM      int64
}

// Replacement is a machine launched for a consolidation command.
type Replacement struct {
	Command string
	Machine
}

// Observation is the state of the cluster at an instant.
type Observation struct {
	Now          time.Time
	Machines     []Machine
	Candidates   []Candidate
	Replacements []Replacement
	Replicas     map[model.Workload]int // desired pods of workloads; nil: not counted this time
	Headroom     int64                  // micro-dollars per hour of nodes held for Headrooms
	Missed       bool                   // a command may have begun to delete a node without an Observation that shows it
}

// Ledger is the account. The zero value is empty; it starts with its first Observation.
type Ledger struct {
	until    int64 // all is counted until then, in seconds since 1970; 0: nothing was observed
	resumed  int64 // machines that this Ledger has not seen yet are counted until then
	running  int64 // machines counted when it was last observed
	machines map[string]*meter
	moves    map[string]*move // by command
	// unfollowed are the commands whose credit is not counted any more: how many, by when it would have ended, in seconds since 1970.
	unfollowed map[int64]int64
	under      map[string]bool // commands under way when it was last observed
	headroom   int64
	buckets    buckets

	days   []byte // the part of the days as it was encoded last
	daysOf int64  // buckets.daysChanged of it
}

// meter counts a machine.
type meter struct {
	Machine
	first int64 // when it was seen first
	until int64 // it is counted until then
	gone  bool
}

// listedWithin is how late a machine may be seen for the first time after its launch, and how long one that is gone is remembered.
const listedWithin = 3600

// Observe counts the time since the last Observation at the prices of that Observation, and applies the changes since then. An
// Observation that is not after the last one is ignored: if a clock was set back, that time has been counted already.
func (l *Ledger) Observe(o *Observation) {
	now := o.Now.Unix()
	if l.until == 0 {
		l.until, l.resumed = now, now
	}
	if now < l.until {
		return
	}
	l.buckets.advance(now)
	resuming := l.machines == nil
	if resuming {
		l.machines = map[string]*meter{}
		l.countGap(o, now)
	}
	seen := make(map[string]*Machine, len(o.Machines))
	for i := range o.Machines {
		m := &o.Machines[i]
		seen[m.UID] = m
		l.countMachine(m, now)
	}
	for uid, m := range l.machines {
		switch {
		case seen[uid] != nil:
		case !m.gone:
			l.count(m, now)
			m.gone = true
		case now-m.until > listedWithin:
			delete(l.machines, uid)
		}
	}
	l.countMoves(o, now, seen, o.Missed || resuming)
	l.buckets.spread(Series{}, l.until, now, func(s *Sum, seconds int64) { s.Headroom += l.headroom * seconds })
	l.headroom, l.running, l.until = o.Headroom, int64(len(o.Machines)), now
}

// countGap notes the time since the ledger was last kept, and the machines that have ended in it: until when they ran is not known.
func (l *Ledger) countGap(o *Observation, now int64) {
	left := l.running
	for i := range o.Machines {
		if o.Machines[i].Launched.Unix() <= l.until {
			left--
		}
	}
	l.buckets.spread(Series{}, l.until, now, func(s *Sum, seconds int64) {
		s.Unseen += seconds
		s.Ended += max(0, left) * seconds
	})
}

// countMachine counts a machine that runs until now, and takes over its prices.
func (l *Ledger) countMachine(m *Machine, now int64) {
	have := l.machines[m.UID]
	if have == nil {
		have = &meter{Machine: *m, first: now, until: max(m.Launched.Unix(), l.resumed, l.until-listedWithin)}
		l.machines[m.UID] = have
	}
	l.count(have, now)
	have.Machine, have.gone = *m, false
}

func (l *Ledger) count(m *meter, now int64) {
	l.buckets.spread(m.Series, m.until, now, func(s *Sum, seconds int64) { s.add(m.Rates, seconds) })
	m.until = max(m.until, now)
}

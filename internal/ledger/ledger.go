// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package ledger keeps what was decided and why: the last decisions, bounded in number, readable by anybody at any time.
//
// It never decides and never renders: entries hold typed reasons, report makes text of them. A Ledger is safe for concurrent use.
// Start reading at Ledger.
package ledger

import (
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Entry is one thing decided, refused or done.
type Entry struct {
	Seq     uint64        `json:"seq"` // counts up from 1; a gap at the start means that older entries were dropped
	At      time.Time     `json:"at"`
	Kind    string        `json:"kind"`    // create, launch, delete, evict, refuse, error …: the action's kind
	Subject string        `json:"subject"` // pod/NAMESPACE/NAME, nodeclaim/NAME, node/NAME, nodepool/NAME
	Why     []plan.Reason `json:"why"`
	Outcome string        `json:"outcome,omitempty"` // done, failed: …; empty: decided
	Pods    []string      `json:"pods,omitempty"`    // namespace/name, for whom
	Type    string        `json:"instanceType,omitempty"`
	Micro   int64         `json:"priceMicroUSDPerHour,omitempty"`
	Bound   int64         `json:"lowerBoundMicroUSDPerHour,omitempty"`
}

// Ledger is a ring of entries.
type Ledger struct {
	mu   sync.Mutex
	ring []Entry
	next uint64
}

// New makes a ledger that keeps the last size entries.
func New(size int) *Ledger { return &Ledger{ring: make([]Entry, 0, max(size, 1))} }

// Add records an entry and gives it its number.
func (l *Ledger) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	e.Seq = l.next
	if len(l.ring) < cap(l.ring) {
		l.ring = append(l.ring, e)
		return
	}
	l.ring[(l.next-1)%uint64(cap(l.ring))] = e
}

// Entries returns those that keep accepts, oldest first; nil accepts all.
func (l *Ledger) Entries(keep func(Entry) bool) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Entry, 0, len(l.ring))
	start := uint64(0)
	if len(l.ring) == cap(l.ring) {
		start = l.next % uint64(cap(l.ring))
	}
	for i := range l.ring {
		e := l.ring[(start+uint64(i))%uint64(len(l.ring))]
		if keep == nil || keep(e) {
			out = append(out, e)
		}
	}
	return out
}

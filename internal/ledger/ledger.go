// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package ledger keeps what was decided and why: the last decisions, bounded in number, readable by anybody at any time.
//
// It never decides and never renders: entries hold typed reasons, report makes text of them. A Ledger is safe for concurrent use.
// Start reading at Ledger.
package ledger

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Entry is one thing decided, refused or done.
type Entry struct {
	Seq     uint64        `json:"seq"` // counts up from 1; a gap means that older entries were dropped
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

// Keep is the kind of an entry about a machine that was looked at and left alone.
const Keep = "keep"

// About accepts the entries about an object, about what is related to it, and for it: those in which a pod is named, those of a pool.
func About(subject string, related []string) func(Entry) bool {
	kind, name, _ := strings.Cut(subject, "/")
	return func(e Entry) bool {
		switch {
		case e.Subject == subject || slices.Contains(related, e.Subject):
			return true
		case kind == "pod":
			return slices.Contains(e.Pods, name)
		case kind == "nodepool":
			return slices.ContainsFunc(e.Why, func(r plan.Reason) bool { return r.Pool == name })
		}
		return false
	}
}

// Ledger is two rings of entries: what was left alone does not push out what was done.
type Ledger struct {
	mu         sync.Mutex
	done, kept ring
	next       uint64
}

type ring struct {
	entries []Entry
	added   uint64
}

func (r *ring) add(e Entry) {
	r.added++
	if len(r.entries) < cap(r.entries) {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[(r.added-1)%uint64(cap(r.entries))] = e
}

// New makes a ledger that keeps the last size entries, and as many of kind Keep beside them.
func New(size int) *Ledger {
	size = max(size, 1)
	return &Ledger{done: ring{entries: make([]Entry, 0, size)}, kept: ring{entries: make([]Entry, 0, size)}}
}

// Add records an entry and gives it its number.
func (l *Ledger) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	e.Seq = l.next
	if e.Kind == Keep {
		l.kept.add(e)
	} else {
		l.done.add(e)
	}
}

// Entries returns those that keep accepts, oldest first; nil accepts all.
func (l *Ledger) Entries(keep func(Entry) bool) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Entry{}
	for _, r := range []*ring{&l.done, &l.kept} {
		for _, e := range r.entries {
			if keep == nil || keep(e) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

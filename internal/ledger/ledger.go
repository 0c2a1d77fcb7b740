// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package ledger keeps recent decisions and their reasons, bounded in number, for concurrent readers.
//
// It makes no decisions and renders nothing: entries hold typed reasons, which report renders. A Ledger is safe for
// concurrent use. Start reading at Ledger.
package ledger

import (
	"cmp"
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// joinBound adds the pods of an earlier entry about a node to which pods were bound within the last minute.
func (e *Entry) joinBound(was *Entry) bool {
	if e.At.Sub(was.At) > alikeWithin {
		return false
	}
	pods := slices.Clone(was.Pods)
	for _, p := range e.Pods {
		if !slices.Contains(pods, p) {
			pods = append(pods, p)
		}
	}
	e.Pods, e.MorePods = pods, e.MorePods+was.MorePods
	return true
}

// About accepts the entries about an object, about what is related to it, and for it: those in which a pod is named, those of a pool. Of a node or a
// NodeClaim it accepts only what names it; see Ledger.Machine.
func About(subject string, related []string) func(Entry) bool {
	kind, name, _ := strings.Cut(subject, "/")
	names := append([]string{subject}, related...)
	return func(e Entry) bool {
		switch {
		case slices.Contains(names, e.Subject) || slices.ContainsFunc(e.Related, func(r string) bool { return slices.Contains(names, r) }):
			return true
		case kind == "pod":
			return slices.Contains(e.Pods, name)
		case kind == "nodepool":
			return slices.ContainsFunc(e.Why, func(r plan.Reason) bool { return r.Pool == name })
		}
		return false
	}
}

// Ledger consists of two bounded lists of entries, so that decisions to keep nodes do not displace actions.
type Ledger struct {
	mu         sync.Mutex
	size       int
	done, kept entries
	next       uint64
	past       History
}

// entries are kept in the order in which they were added or given again, so that the first is the one to drop.
type entries struct {
	order    list.List                // of *Entry
	standing map[string]*list.Element // by Entry.stands
}

// New returns a Ledger with the last size entries, and as many decisions to keep nodes.
func New(size int) *Ledger {
	l := &Ledger{size: max(size, 1)}
	l.done.standing, l.kept.standing = map[string]*list.Element{}, map[string]*list.Element{}
	return l
}

// Add records an entry and numbers it. A repeated decision increments the count of its entry, which keeps its number.
func (l *Ledger) Add(e Entry) {
	l.past.Add(e)
	limit(&e, limits{pods: 1000, reasons: 100, text: 2000})
	l.mu.Lock()
	defer l.mu.Unlock()
	to := &l.done
	if e.Kind == Keep {
		to = &l.kept
	}
	key := e.stands()
	old, ok := to.standing[key]
	if ok && e.bindsTo() != "" {
		was := old.Value.(*Entry)
		if ok = e.joinBound(was); ok {
			limit(&e, limits{pods: 1000, reasons: 100, text: 2000})
			e.Seq, e.At, e.Last = was.Seq, was.At, e.At
			*was = e
			to.order.MoveToBack(old)
			return
		}
	}
	if ok && key != "" {
		was := old.Value.(*Entry)
		e.Seq, e.At, e.Last, e.Count = was.Seq, was.At, e.At, max(was.Count, 1)+1
		*was = e
		to.order.MoveToBack(old)
		return
	}
	l.next++
	e.Seq = l.next
	added := to.order.PushBack(&e)
	if key != "" {
		to.standing[key] = added
	}
	if to.order.Len() > l.size {
		first := to.order.Front()
		if oldest := to.order.Remove(first).(*Entry); to.standing[oldest.stands()] == first {
			delete(to.standing, oldest.stands())
		}
	}
}

// Past returns the History of one week, including entries that other processes stored.
func (l *Ledger) Past() *History { return &l.past }

// All returns the entries that keep accepts, preceded by those of the Past that the Ledger no longer contains.
func (l *Ledger) All(keep func(Entry) bool) []Entry {
	own := l.Entries(keep)
	type id struct {
		at            int64
		kind, subject string
	}
	have := make(map[id]bool, len(own))
	for _, e := range own {
		have[id{e.At.UnixNano(), e.Kind, e.Subject}] = true
	}
	past := slices.DeleteFunc(l.past.Entries(time.Time{}, keep), func(e Entry) bool {
		return have[id{e.At.UnixNano(), e.Kind, e.Subject}]
	})
	if len(past) == 0 {
		return own
	}
	own = append(past, own...)
	slices.SortStableFunc(own, func(a, b Entry) int { return a.At.Compare(b.At) })
	return own
}

// Machine returns the other names of a machine, if entries connect them: of a node its NodeClaim, of a NodeClaim its node and
// its instance. It is empty for other objects.
func (l *Ledger) Machine(subject string) (others []string) {
	machine := func(s string) bool {
		kind, _, _ := strings.Cut(s, "/")
		return kind == "node" || kind == "nodeclaim" || kind == "instance"
	}
	if !machine(subject) {
		return nil
	}
	for _, e := range l.All(About(subject, nil)) {
		for _, s := range append([]string{e.Subject}, e.Related...) {
			if s != subject && machine(s) && !slices.Contains(others, s) {
				others = append(others, s)
			}
		}
	}
	return others
}

// Entries returns the entries that keep accepts, by number; nil accepts all.
func (l *Ledger) Entries(keep func(Entry) bool) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Entry{}
	for _, in := range []*entries{&l.done, &l.kept} {
		for e := in.order.Front(); e != nil; e = e.Next() {
			if entry := *e.Value.(*Entry); keep == nil || keep(entry) {
				out = append(out, entry)
			}
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

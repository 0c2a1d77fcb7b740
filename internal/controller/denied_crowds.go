// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// crowds are the objects that are written many at once, and refused: one is told for all that the same refuses.
type crowds struct {
	mu sync.Mutex // taken before that of denials
	by map[crowdKey]*crowd
}

// crowdKey names a crowd by the kind of write and by who refuses it.
type crowdKey struct{ verb, kind, refuser string }

// crowd is objects that the same keeps from being written.
type crowd struct {
	refused map[string]time.Time // when each was last refused, by uid

	told  written   // to the one of them that is told; zero: it is to be chosen
	err   error     // that it was last answered with
	count int       // how many the crowd was when that was last told; 0: it was not
	at    time.Time // when it was last told
}

// leave takes an object out of a crowd.
func (c *crowd) leave(w written) {
	if delete(c.refused, w.uid); c.told == w {
		c.told = written{}
	}
}

// noteMany is note for writes to many objects. Of a crowd is told at once, then when it has become twice as large, and again after a while.
func (d *denials) noteMany(verb, kind string, answers []plan.WriteAnswer) {
	cs := &d.crowds
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now, asked := time.Now(), map[*crowd]bool{}
	for _, a := range answers {
		w, of := written{verb, kind, a.Namespace, a.Name, a.UID}, (*crowd)(nil)
		switch {
		case isRefused(a.Err):
			of = cs.join(w, a.Err, now)
			asked[of] = true
		case a.Err != nil && !errors.Is(a.Err, plan.ErrGone):
			continue // whether it is refused, nobody knows
		}
		for key, c := range cs.by {
			if c != of && key.verb == verb && key.kind == kind {
				c.leave(w)
			}
		}
		if of == nil {
			d.note(w, a.Err, 0)
		}
	}
	for key, c := range cs.by {
		maps.DeleteFunc(c.refused, func(_ string, at time.Time) bool { return now.Sub(at) > 2*refusedPause }) // they are gone: it would have been repeated
		size := len(c.refused)
		if _, still := c.refused[c.told.uid]; !still {
			c.told = written{}
		}
		switch {
		case size == 0:
			delete(cs.by, key)
		case asked[c] && c.told.kind != "" && (size >= 2*c.count || now.Sub(c.at) >= refusedPause):
			d.note(c.told, c.err, size-1)
			c.count, c.at = size, now
		}
	}
}

// join adds an object to the crowd of those that the same refuses, and returns it.
func (cs *crowds) join(w written, err error, now time.Time) *crowd {
	key := crowdKey{w.verb, w.kind, refuserOf(w.refusal(err))}
	c := cs.by[key]
	if c == nil {
		c = &crowd{refused: map[string]time.Time{}}
		if cs.by == nil {
			cs.by = map[crowdKey]*crowd{}
		}
		cs.by[key] = c
	}
	c.refused[w.uid] = now
	if c.told.kind == "" {
		c.told, c.count = w, 0
	}
	if c.told == w {
		c.err = err
	}
	return c
}

// refuserOf returns who refuses a write, without what it says of the object: the admission policy or webhook, or the right that is missing.
func refuserOf(said string) string {
	for _, end := range []string{" denied request", " denied the request", " in the namespace "} {
		said, _, _ = strings.Cut(said, end)
	}
	return said
}

// WriteTold records an event if the API server refuses a write to one object outside of the loop, and when it accepts the write
// again. It is safe for concurrent use.
func (c *Controller) WriteTold(verb, kind string, a plan.WriteAnswer) {
	if t, ok := c.Cluster.(*toldCluster); ok { // in shadow mode nothing is written
		t.denials.note(written{verb, kind, a.Namespace, a.Name, a.UID}, a.Err, 0)
	}
}

// WritesTold records events if the API server refuses writes outside of the loop, and when it accepts them again. Writes refused
// for the same reason get one event on one of the objects. It is safe for concurrent use.
func (c *Controller) WritesTold(verb, kind string, answers []plan.WriteAnswer) {
	if t, ok := c.Cluster.(*toldCluster); ok { // in shadow mode nothing is written
		t.denials.noteMany(verb, kind, answers)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disruption

import (
	"maps"
	"time"
)

// Pauses are the NodePools in which consolidation launches no replacement, because it removed a node with pods there or cancelled a command a moment
// ago. Where pods keep coming and going, each removal would otherwise make another replacement pay, and the next change would undo it
// (docs/design/0018). Pauses are replaced and never changed in place; the zero value has none.
type Pauses map[string]pause // by NodePool

// pause is one that lasts, by further removals, since an instant and until another.
type pause struct{ since, until time.Time }

// PauseLimits is how long a pause lasts after the last removal, and how long it lasts at most, however many removals follow.
type PauseLimits struct{ Length, Most time.Duration }

// Until returns until when consolidation launches no replacement in a NodePool; zero or past: it may now.
func (ps Pauses) Until(pool string) time.Time { return ps[pool].until }

// With returns the pauses after consolidation removed nodes of a NodePool at an instant. A removal that is told again changes nothing.
func (ps Pauses) With(pool string, at time.Time, limits PauseLimits) Pauses {
	p := ps[pool]
	if !at.Before(p.until) {
		p.since = at
	}
	until := at.Add(limits.Length)
	if most := p.since.Add(limits.Most); until.After(most) {
		until = most
	}
	if !until.After(p.until) || limits.Length <= 0 {
		return ps
	}
	next := maps.Clone(ps)
	if next == nil {
		next = Pauses{}
	}
	next[pool] = pause{p.since, until}
	return next
}

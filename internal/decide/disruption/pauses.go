// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disruption

import (
	"maps"
	"time"
)

// Pauses are the NodePools in which consolidation launches no replacement, because it recently removed a node with pods there or
// cancelled a command. If pods are continually created and deleted, each removal would otherwise make another replacement
// worthwhile, and the next change would undo it (docs/design/0018). Pauses are replaced, never modified; the zero value has none.
type Pauses map[string]pause // by NodePool

// pause is one that lasts, by further removals, since an instant and until another.
type pause struct{ since, until time.Time }

// PauseLimits configures the length of a pause after the last removal, and its maximum regardless of further removals.
type PauseLimits struct{ Length, Most time.Duration }

// Until returns the end of the pause of a NodePool; zero or past: there is no pause.
func (ps Pauses) Until(pool string) time.Time { return ps[pool].until }

// With returns the pauses after consolidation removed nodes of a NodePool at an instant. Repeating a removal changes nothing.
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

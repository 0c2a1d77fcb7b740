// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// whole is all of a machine, in millionths.
const whole = 1_000_000

const (
	// mostCredit is how long a removed node that would never have expired is taken to have stayed: NodePools' default expireAfter.
	mostCredit = 720 * time.Hour
	mostShares = 100 // workloads whose pods a credit follows: more than that are taken to end at once
)

// move is a consolidation command: the nodes that it has removed would have cost, and its replacements cost instead.
type move struct {
	Command string `json:"command"`
	Series
	Until  int64               `json:"until"`          // it is counted until then
	Ends   int64               `json:"ends,omitempty"` // when the first of the removed nodes would have been replaced in any case; 0: none is removed yet
	Going  map[string]*removal `json:"going,omitempty"`
	Gone   []string            `json:"gone,omitempty"` // uids of claims
	New    map[string]Rates    `json:"new,omitempty"`
	Shares []share             `json:"shares,omitempty"` // of the removed nodes

	Paid     int64 `json:"paid,omitempty"`     // removed less launched, in micro-dollars per hour
	OnDemand int64 `json:"onDemand,omitempty"` // the same at on-demand prices
}

// removal is a node that a command is to remove, by the uid of its claim.
type removal struct {
	Rates
	Ends    int64   `json:"ends"`
	Leaving bool    `json:"leaving,omitempty"` // it is being deleted: the command can't be taken back
	Shares  []share `json:"shares,omitempty"`
}

// share is the part of the removed nodes that a workload's pods took.
type share struct {
	Workload string `json:"workload"`
	Weight   int64  `json:"weight"`   // its part times the on-demand price of the nodes
	Replicas int    `json:"replicas"` // that it wanted then
	Left     int64  `json:"left"`     // the fewest since, in millionths of these
}

// left returns how much of the removed nodes the pods would still have needed, in millionths.
func (m *move) left() int64 {
	if m.Ends == 0 {
		return whole
	}
	var sum, left int64
	for _, s := range m.Shares {
		sum += s.Weight
		left += s.Weight / whole * s.Left
	}
	if sum < whole {
		return 0
	}
	return min(whole, left/(sum/whole))
}

// countMoves counts all credits until now, and takes in which commands have begun, removed and launched machines. seen are the machines that
// run.
func (l *Ledger) countMoves(o *Observation, now int64, seen map[string]bool) {
	replicas := map[string]int{}
	for w, n := range o.Replicas {
		replicas[w.String()] = n
	}
	under := map[string]bool{} // commands that are seen to be under way
	for _, m := range l.moves {
		l.countMove(m, now)
	}
	for i := range o.Replacements {
		r := &o.Replacements[i]
		under[r.Command] = true
		m := l.move(r.Command, r.Series, now)
		if _, known := m.New[r.UID]; !known {
			if m.New == nil {
				m.New = map[string]Rates{}
			}
			m.New[r.UID] = r.Rates
			m.Paid -= r.Paid
			m.OnDemand -= cmp.Or(r.OnDemand, r.Catalog)
			l.credit(m.Series, max(r.Launched.Unix(), l.resumed), now, -r.Paid, -cmp.Or(r.OnDemand, r.Catalog))
		}
	}
	named := map[string]bool{} // candidates that are still to go
	for i := range o.Candidates {
		c := &o.Candidates[i]
		under[c.Command], named[c.UID] = true, true
		m := l.move(c.Command, c.Series, now)
		if slices.Contains(m.Gone, c.UID) || !seen[c.UID] {
			continue
		}
		if m.Going[c.UID] == nil {
			m.addCandidate(c, now, replicas)
		}
		m.Going[c.UID].Leaving = m.Going[c.UID].Leaving || c.Leaving
	}
	for id, m := range l.moves {
		for _, uid := range slices.Sorted(maps.Keys(m.Going)) {
			switch x := m.Going[uid]; {
			case !seen[uid] && x.Leaving:
				m.remove(uid, x)
				delete(m.Going, uid)
			case !seen[uid] || !named[uid]: // it has gone by itself, or its command is taken back
				delete(m.Going, uid)
			}
		}
		if o.Replicas != nil {
			for i := range m.Shares {
				s := &m.Shares[i]
				s.Left = min(s.Left, whole*int64(replicas[s.Workload])/int64(max(1, s.Replicas)))
			}
		}
		ended := len(m.Gone) == 0 || now >= m.Ends || m.left() == 0
		if !under[id] && len(m.Going) == 0 && ended {
			delete(l.moves, id)
		}
	}
	l.dropSmallest(under)
}

// move returns the record of a command, which it makes if there is none.
func (l *Ledger) move(id string, s Series, now int64) *move {
	m := l.moves[id]
	if m == nil {
		m = &move{Command: id, Series: s, Until: now}
		if l.moves == nil {
			l.moves = map[string]*move{}
		}
		l.moves[id] = m
	}
	return m
}

// addCandidate takes in a node that the command is to remove.
func (m *move) addCandidate(c *Candidate, now int64, replicas map[string]int) {
	x := &removal{Rates: c.Rates, Ends: now + int64(mostCredit/time.Second)}
	if !c.Expires.IsZero() {
		x.Ends = min(x.Ends, max(1, c.Expires.Unix()))
	}
	for _, p := range c.Pods {
		s := share{Workload: p.Workload.String(), Weight: p.PPM * cmp.Or(c.OnDemand, c.Paid), Replicas: replicas[p.Workload.String()], Left: whole}
		if s.Replicas == 0 || len(x.Shares) >= mostShares { // nobody follows how many there are: they are taken to have ended
			s = share{Weight: s.Weight, Replicas: 1}
		}
		x.Shares = append(x.Shares, s)
	}
	if m.Going == nil {
		m.Going = map[string]*removal{}
	}
	m.Going[c.UID], m.Series = x, c.Series
}

// remove takes in that a node is gone.
func (m *move) remove(uid string, x *removal) {
	m.Paid += x.Paid
	m.OnDemand += cmp.Or(x.OnDemand, x.Catalog)
	m.Gone = append(m.Gone, uid)
	if m.Ends == 0 || x.Ends < m.Ends {
		m.Ends = x.Ends
	}
	for _, s := range x.Shares {
		if i := slices.IndexFunc(m.Shares, func(o share) bool { return o.Workload == s.Workload }); i >= 0 {
			m.Shares[i].Weight += s.Weight
			m.Shares[i].Left = min(m.Shares[i].Left, s.Left)
		} else {
			m.Shares = append(m.Shares, s)
		}
	}
}

// countMove counts a credit until now, or until its end.
func (l *Ledger) countMove(m *move, now int64) {
	to := now
	if m.Ends != 0 {
		to = min(now, m.Ends)
	}
	left := m.left()
	l.credit(m.Series, m.Until, to, m.Paid*left/whole, m.OnDemand*left/whole)
	m.Until = max(m.Until, now)
}

// credit counts what removed nodes would have cost more than their replacements, in micro-dollars per hour.
func (l *Ledger) credit(s Series, from, to, paid, onDemand int64) {
	l.buckets.spread(s, from, to, func(sum *Sum, seconds int64) {
		sum.Removed += paid * seconds
		sum.RemovedOnDemand += onDemand * seconds
	})
}

// dropSmallest drops the smallest credits and debits when there are too many: from then on they are not counted.
func (l *Ledger) dropSmallest(under map[string]bool) {
	if len(l.moves) <= mostMoves {
		return
	}
	ids := slices.SortedFunc(maps.Keys(l.moves), func(a, b string) int {
		x, y := l.moves[a].OnDemand, l.moves[b].OnDemand
		return cmp.Or(cmp.Compare(max(x, -x), max(y, -y)), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-mostMoves] {
		if !under[id] {
			delete(l.moves, id)
		}
	}
}

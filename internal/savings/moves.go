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
	mostShares = 100  // workloads whose pods a credit follows: more than that are taken to end at once
	mostMoves  = 1000 // commands that are followed at once, but for those under way
)

// move is a consolidation command: the nodes that it has removed would have cost, and its replacements cost instead.
type move struct {
	Command  string              `json:"command"`
	Until    int64               `json:"until"`              // it is counted until then
	Ends     int64               `json:"ends,omitempty"`     // when the first of the removed nodes would have been replaced in any case; 0: none is removed yet
	Said     int64               `json:"said,omitempty"`     // until then it is in Sum.NoCredit
	Unknown  bool                `json:"unknown,omitempty"`  // a node was removed whose price is not known, or that may have been removed by something else
	Stripped bool                `json:"stripped,omitempty"` // there was no room for its Shares
	Going    map[string]*removal `json:"going,omitempty"`    // by uid of the claim
	Gone     []string            `json:"gone,omitempty"`     // uids of claims
	New      map[string]*arrival `json:"new,omitempty"`      // by uid of the claim
	Removed  []part              `json:"removed,omitempty"`
	Shares   []share             `json:"shares,omitempty"` // of the removed nodes
}

// removal is a node that a command is to remove.
type removal struct {
	Series
	Rates           // those first known
	Ends    int64   `json:"ends"`
	Leaving bool    `json:"leaving,omitempty"` // it is being deleted: the command can't be taken back
	Shares  []share `json:"shares,omitempty"`  // their weights are parts of the machine, in millionths
}

// arrival is a replacement.
type arrival struct {
	Series
	Rates      // those first known
	Ended bool `json:"ended,omitempty"` // while the command had still nodes to remove: it launches another, or is taken back
}

// part is what the removed nodes of a series cost, in micro-dollars per hour.
type part struct {
	Series
	Paid     int64 `json:"paid"`
	OnDemand int64 `json:"onDemand"`
}

// left returns how much of the removed nodes the pods need now, in millionths.
func (m *move) left() int64 { return m.needed(func(s *share) int64 { return s.Now }) }

// needed returns the mean of a figure of the shares by their weights.
func (m *move) needed(of func(*share) int64) int64 {
	if m.Ends == 0 || m.Stripped {
		return whole
	}
	var sum, needed float64
	for i := range m.Shares {
		s := &m.Shares[i]
		sum += float64(s.Weight)
		needed += float64(float64(s.Weight) * float64(of(s))) // rounded on every architecture
	}
	if sum <= 0 {
		return 0
	}
	return min(whole, int64(needed/sum))
}

// isUnknown reports whether a price that a credit needs is not known, or what became of its nodes.
func (m *move) isUnknown() bool {
	if m.Unknown || m.Stripped {
		return true
	}
	for _, a := range m.New {
		if !a.Ended && a.Paid == 0 {
			return true
		}
	}
	return false
}

// isOver reports whether nothing is to be credited any more at an instant, whatever comes.
func (m *move) isOver(now int64) bool {
	return len(m.Going) == 0 && (len(m.Gone) == 0 || now >= m.Ends || m.needed(func(s *share) int64 { return s.Left }) == 0)
}

// countMoves counts all credits until now, and takes in which commands have begun, removed and launched machines. seen are the machines that
// run. missed: something may have happened that no Observation has shown.
func (l *Ledger) countMoves(o *Observation, now int64, seen map[string]*Machine, missed bool) {
	replicas := map[string]int{}
	for w, n := range o.Replicas {
		replicas[w.String()] = n
	}
	l.countUnfollowed(now)
	for _, m := range l.moves {
		l.countMove(m, now)
	}
	under := map[string]bool{} // commands that are seen to be under way
	l.under = under
	for i := range o.Replacements {
		r := &o.Replacements[i]
		under[r.Command] = true
		l.addReplacement(l.move(r.Command, now), r, now)
	}
	named := map[string]bool{} // candidates that are still to go
	for i := range o.Candidates {
		c := &o.Candidates[i]
		under[c.Command], named[c.UID] = true, true
		m := l.move(c.Command, now)
		if !slices.Contains(m.Gone, c.UID) && seen[c.UID] != nil {
			m.addCandidate(c, now, replicas)
		}
	}
	for id, m := range l.moves {
		m.follow(seen, named, missed)
		if o.Replicas != nil {
			for i := range m.Shares {
				m.Shares[i].note(replicas[m.Shares[i].Workload], now)
			}
		}
		if !under[id] && m.isOver(now) {
			delete(l.moves, id)
		}
	}
	if n := len(l.moves) - mostMoves; n > 0 {
		l.unfollowSmallest(n)
	}
}

// move returns the record of a command, which it makes if there is none.
func (l *Ledger) move(id string, now int64) *move {
	m := l.moves[id]
	if m == nil {
		m = &move{Command: id, Until: now}
		if l.moves == nil {
			l.moves = map[string]*move{}
		}
		l.moves[id] = m
	}
	return m
}

// addReplacement takes in a replacement of a command, from its launch if it was not seen before.
func (l *Ledger) addReplacement(m *move, r *Replacement, now int64) {
	if m.New[r.UID] != nil {
		return
	}
	if m.New == nil {
		m.New = map[string]*arrival{}
	}
	m.New[r.UID] = &arrival{Series: r.Series, Rates: r.Rates}
	from := now // it is counted already as far as it was seen before
	if l.machines[r.UID].first == now {
		from = max(r.Launched.Unix(), l.resumed)
	}
	if m.isUnknown() {
		l.countUnknown(m, from, now)
	} else {
		l.credit(r.Series, from, now, -r.Paid, -r.atOnDemand())
	}
}

// addCandidate takes in a node that the command is to remove.
func (m *move) addCandidate(c *Candidate, now int64, replicas map[string]int) {
	if x := m.Going[c.UID]; x != nil {
		x.Leaving = x.Leaving || c.Leaving
		if x.Paid == 0 {
			x.Rates = c.Rates
		}
		return
	}
	x := &removal{Series: c.Series, Rates: c.Rates, Leaving: c.Leaving, Ends: now + int64(mostCredit/time.Second)}
	if !c.Expires.IsZero() {
		x.Ends = min(x.Ends, max(1, c.Expires.Unix()))
	}
	for _, p := range c.Pods {
		if m.Stripped {
			break
		}
		s := share{Workload: p.Workload.String(), Weight: p.PPM, Replicas: replicas[p.Workload.String()], Left: whole, Now: whole}
		if s.Replicas == 0 || len(x.Shares) >= mostShares { // nobody follows how many there are: they are taken to have ended
			s = share{Weight: s.Weight, Replicas: 1}
		}
		x.Shares = append(x.Shares, s)
	}
	if m.Going == nil {
		m.Going = map[string]*removal{}
	}
	m.Going[c.UID] = x
}

// follow takes in which of the command's nodes are gone, and which of its replacements. missed: a node may have been deleted without an
// Observation that shows it.
func (m *move) follow(seen map[string]*Machine, named map[string]bool, missed bool) {
	for _, uid := range slices.Sorted(maps.Keys(m.Going)) {
		switch x := m.Going[uid]; {
		case seen[uid] == nil && (x.Leaving || missed):
			m.Unknown = m.Unknown || !x.Leaving || x.Paid == 0
			m.remove(uid, x)
			delete(m.Going, uid)
		case seen[uid] == nil || !named[uid]: // it has gone by itself, or its command is taken back
			delete(m.Going, uid)
		}
	}
	for uid, a := range m.New {
		switch r := seen[uid]; {
		case r == nil:
			a.Ended = a.Ended || len(m.Going) > 0 // later its pods have another node instead, which costs about as much
		default:
			a.Ended = false
			if a.Paid == 0 {
				a.Rates = r.Rates
			}
		}
	}
}

// remove takes in that a node is gone.
func (m *move) remove(uid string, x *removal) {
	m.Gone = append(m.Gone, uid)
	if m.Ends == 0 || x.Ends < m.Ends {
		m.Ends = x.Ends
	}
	i := slices.IndexFunc(m.Removed, func(p part) bool { return p.Series == x.Series })
	if i < 0 {
		i, m.Removed = len(m.Removed), append(m.Removed, part{Series: x.Series})
	}
	m.Removed[i].Paid += x.Paid
	m.Removed[i].OnDemand += x.atOnDemand()
	for _, s := range x.Shares {
		s.Weight *= max(1, x.atOnDemand())
		if i := slices.IndexFunc(m.Shares, func(o share) bool { return o.Workload == s.Workload }); i >= 0 {
			m.Shares[i].Weight += s.Weight
		} else {
			m.Shares = append(m.Shares, s)
		}
	}
}

// countMove counts a credit until now, or until its end.
func (l *Ledger) countMove(m *move, now int64) {
	from, to := m.Until, now
	if m.Ends != 0 {
		to = min(now, m.Ends)
	}
	switch left := m.left(); {
	case left == 0:
	case m.isUnknown():
		l.countUnknown(m, from, to)
	default:
		for _, p := range m.Removed {
			l.credit(p.Series, from, to, p.Paid*left/whole, p.OnDemand*left/whole)
		}
		for _, uid := range slices.Sorted(maps.Keys(m.New)) {
			if a := m.New[uid]; !a.Ended {
				l.credit(a.Series, from, to, -a.Paid*left/whole, -a.atOnDemand()*left/whole)
			}
		}
	}
	m.Until = max(m.Until, now)
	for i := range m.Shares {
		m.Shares[i].settle(now)
	}
}

// credit counts what a removed node would have cost, or, negative, what a replacement costs, in micro-dollars per hour.
func (l *Ledger) credit(s Series, from, to, paid, onDemand int64) {
	l.buckets.spread(s, from, to, func(sum *Sum, seconds int64) {
		sum.Removed += paid * seconds
		sum.RemovedOnDemand += onDemand * seconds
	})
}

// countUnknown counts the time of a command whose credit is not known, each second once.
func (l *Ledger) countUnknown(m *move, from, to int64) {
	l.buckets.spread(Series{}, max(from, m.Said), to, func(sum *Sum, seconds int64) { sum.NoCredit += seconds })
	m.Said = max(m.Said, to)
}

// countUnfollowed counts the time of the commands that are not followed any more.
func (l *Ledger) countUnfollowed(now int64) {
	for ends, n := range l.unfollowed {
		l.buckets.spread(Series{}, l.until, min(now, ends), func(sum *Sum, seconds int64) { sum.NoCredit += n * seconds })
		if ends <= now {
			delete(l.unfollowed, ends)
		}
	}
}

// unfollowSmallest gives up the smallest credits and debits, of commands that are over: from then on it is not known what they save. It returns
// how many it has given up.
func (l *Ledger) unfollowSmallest(n int) (gone int) {
	size := func(id string) (x int64) {
		for _, p := range l.moves[id].Removed {
			x += p.OnDemand
		}
		for _, a := range l.moves[id].New {
			x -= a.atOnDemand()
		}
		return max(x, -x)
	}
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(l.moves)), func(id string) bool {
		return l.under[id] || len(l.moves[id].Going) > 0 || len(l.moves[id].Gone) == 0
	})
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
	for _, id := range ids[:min(n, len(ids))] {
		if l.unfollowed == nil {
			l.unfollowed = map[int64]int64{}
		}
		l.unfollowed[floor(l.moves[id].Ends+hour-1, hour)]++ // hours, so that there are few
		delete(l.moves, id)
		gone++
	}
	return gone
}

// strip forgets all but which machines a command has to do with: then it is not known what it saves. It reports whether there was something
// to forget.
func (m *move) strip() bool {
	was := m.Stripped
	m.Stripped, m.Shares = true, nil
	for _, x := range m.Going {
		x.Shares = nil
	}
	return !was
}

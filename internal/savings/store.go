// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// MostStoredBytes is the maximum size of a part of a Ledger.
const MostStoredBytes = 512 << 10

const (
	format          = 1
	mostDecodedSize = 64 << 20 // of what is read
)

// stored is a Ledger as it is stored, in two parts: the days, which change once a day, and everything else. Days are written first.
type stored struct {
	Format   int             `json:"format"`
	Until    int64           `json:"until"`
	Running  int64           `json:"running,omitempty"`
	Headroom int64           `json:"headroom,omitempty"`
	Moves    []*move         `json:"moves,omitempty"`
	Buckets  []*storedBucket `json:"buckets,omitempty"`

	Unfollowed map[int64]int64 `json:"unfollowed,omitempty"`
}

type storedBucket struct {
	Start  int64       `json:"start"`
	Length int64       `json:"length"`
	Sums   []storedSum `json:"sums"`
}

type storedSum struct {
	Series
	Sum
}

// Encode returns the two parts of the ledger, of at most MostStoredBytes each. Both parts must be stored, the days first. Data that
// exceeds the limit is coarsened: NodePools of the oldest time are merged, the smallest credits are dropped, and that time is
// counted as unknown. Copy, Copy.Encode and Fit are the steps of Encode; Copy.Encode does not need the ledger.
func (l *Ledger) Encode() (recent, days []byte, err error) { return l.encodeWithin(MostStoredBytes) }

func (l *Ledger) encodeWithin(most int) (recent, days []byte, err error) {
	for fits := false; !fits && err == nil; {
		c := l.Copy()
		if recent, days, err = c.Encode(); err == nil {
			fits, err = l.fitWithin(c, most)
		}
	}
	return recent, days, err
}

// Copy is a copy of a Ledger at an instant, for encoding.
type Copy struct {
	recent, days *stored // days: nil if they are encoded already
	daysOf       int64
	recentBytes  []byte
	daysBytes    []byte
}

// Copy returns a copy of all data to store. It contains the days only if they may have changed since they were encoded.
func (l *Ledger) Copy() *Copy {
	c := &Copy{recent: l.recentPart(), daysOf: l.buckets.daysChanged, daysBytes: l.days}
	if l.days == nil || c.daysOf != l.daysOf {
		c.days = l.daysPart()
	}
	return c
}

// Encode returns the two parts, of any size.
func (c *Copy) Encode() (recent, days []byte, err error) {
	if c.recentBytes, err = c.recent.encode(); err == nil && c.days != nil {
		c.daysBytes, err = c.days.encode()
	}
	return c.recentBytes, c.daysBytes, err
}

// Fit reports whether the parts of an encoded copy are small enough. If not, it coarsens the ledger, and the caller must copy it
// again.
func (l *Ledger) Fit(c *Copy) (fits bool, err error) { return l.fitWithin(c, MostStoredBytes) }

func (l *Ledger) fitWithin(c *Copy, most int) (fits bool, err error) {
	l.days, l.daysOf = c.daysBytes, c.daysOf
	fits = true
	if n := len(c.daysBytes); n > most {
		fits, err = false, l.shrinkDays(n)
	}
	if n := len(c.recentBytes); n > most && err == nil {
		fits, err = false, l.shrinkRecent(c.recent, n)
	}
	return fits, err
}

// ErrTooLarge is returned if the data is too large and cannot be coarsened further.
var ErrTooLarge = errors.New("the data is too large and cannot be reduced further")

func (l *Ledger) shrinkDays(size int) error {
	if !l.buckets.coarsen(true) {
		return fmt.Errorf("days take %d bytes: %w", size, ErrTooLarge)
	}
	return nil
}

// shrinkRecent leaves something out of the commands or of the minutes and hours, whichever are more.
func (l *Ledger) shrinkRecent(r *stored, size int) error {
	sums := 0
	for _, b := range r.Buckets {
		sums += len(b.Sums)
	}
	details := 0
	for _, m := range r.Moves {
		details += 1 + len(m.Going) + len(m.Gone) + len(m.New) + len(m.Shares)
		for _, x := range m.Going {
			details += len(x.Shares)
		}
	}
	if details < sums && l.buckets.coarsen(false) || l.unfollowSmallest(len(l.moves)/4+1) > 0 {
		return nil
	}
	stripped := false
	for _, m := range l.moves {
		stripped = m.strip() || stripped
	}
	if !stripped && !l.buckets.coarsen(false) {
		return fmt.Errorf("minutes, hours and commands take %d bytes: %w", size, ErrTooLarge)
	}
	return nil
}

// recentPart returns a copy of all but the days.
func (l *Ledger) recentPart() *stored {
	r := &stored{Format: format, Until: l.until, Running: l.running, Headroom: l.headroom, Unfollowed: maps.Clone(l.unfollowed)}
	for _, id := range slices.Sorted(maps.Keys(l.moves)) {
		r.Moves = append(r.Moves, l.moves[id].clone())
	}
	r.Buckets = l.copyBuckets(false)
	return r
}

// daysPart returns a copy of the days.
func (l *Ledger) daysPart() *stored {
	d := &stored{Format: format, Until: l.until, Buckets: l.copyBuckets(true)}
	if n := len(d.Buckets); n > 0 {
		d.Until = d.Buckets[n-1].Start + day
	}
	return d
}

func (l *Ledger) copyBuckets(days bool) (out []*storedBucket) {
	for _, start := range slices.Sorted(maps.Keys(l.buckets.of)) {
		b := l.buckets.of[start]
		if (b.length == day) != days {
			continue
		}
		x := &storedBucket{Start: start, Length: b.length}
		for _, s := range sortedSeries(b.sums) {
			x.Sums = append(x.Sums, storedSum{s, *b.sums[s]})
		}
		out = append(out, x)
	}
	return out
}

// clone returns a copy that shares nothing that changes.
func (m *move) clone() *move {
	c := *m
	c.Gone, c.Removed, c.Shares = slices.Clone(m.Gone), slices.Clone(m.Removed), slices.Clone(m.Shares)
	c.Going, c.New = maps.Clone(m.Going), maps.Clone(m.New)
	for uid, x := range c.Going {
		y := *x
		y.Shares = slices.Clone(x.Shares)
		c.Going[uid] = &y
	}
	for uid, a := range c.New {
		b := *a
		c.New[uid] = &b
	}
	return &c
}

func (s *stored) encode() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(s); err != nil {
		return nil, fmt.Errorf("encode savings: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("encode savings: %w", err)
	}
	return b.Bytes(), nil
}

// Decode returns the ledger from two parts returned by Encode; nil or empty: no data. It returns an error if a part is invalid. The
// days must be from a ledger stored at the same time or shortly after; hours that a day already contains are dropped.
func Decode(recent, days []byte) (*Ledger, error) {
	r, err := decode(recent)
	if err != nil {
		return nil, err
	}
	d, err := decode(days)
	if err != nil {
		return nil, err
	}
	l := &Ledger{until: r.Until, resumed: r.Until, running: r.Running, headroom: r.Headroom, unfollowed: r.Unfollowed}
	if r.Until == 0 && len(d.Buckets) > 0 { // only the days are there: nothing later is known
		l.until, l.resumed = d.Until, d.Until
	}
	l.buckets = buckets{at: l.until, of: map[int64]*bucket{}, series: map[Series]bool{}}
	for _, m := range r.Moves {
		if m != nil && m.Command != "" {
			if l.moves == nil {
				l.moves = map[string]*move{}
			}
			maps.DeleteFunc(m.Going, func(_ string, x *removal) bool { return x == nil })
			maps.DeleteFunc(m.New, func(_ string, a *arrival) bool { return a == nil })
			l.moves[m.Command] = m
		}
	}
	for _, x := range d.Buckets {
		l.restore(x, day)
	}
	if len(l.buckets.of) == len(d.Buckets) { // all of it is kept as it is
		l.days = days
	}
	for _, x := range r.Buckets {
		if x != nil && l.buckets.of[floor(x.Start, day)] != nil && l.buckets.of[floor(x.Start, day)].length == day {
			continue // it is in that day
		}
		l.restore(x, 0)
	}
	return l, nil
}

func (l *Ledger) restore(x *storedBucket, length int64) {
	if x == nil || x.Length != minute && x.Length != hour && x.Length != day || length != 0 && x.Length != length || x.Start < 0 || x.Start%x.Length != 0 || x.Start > l.until {
		return
	}
	b := &bucket{length: x.Length, sums: map[Series]*Sum{}}
	for _, s := range x.Sums {
		b.sums[s.Series] = &s.Sum
		l.buckets.series[s.Series] = true
	}
	l.buckets.of[x.Start] = b
}

func decode(data []byte) (s stored, err error) {
	if len(data) == 0 {
		return s, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(z, mostDecodedSize)).Decode(&s)
	}
	switch {
	case err != nil:
		return stored{}, fmt.Errorf("decode savings: %w", err)
	case s.Format != format:
		return stored{}, fmt.Errorf("decode savings: format %d; this version reads format %d", s.Format, format)
	case s.Until < 0:
		return stored{}, fmt.Errorf("decode savings: counted until %d, which is before 1970", s.Until)
	}
	return s, nil
}

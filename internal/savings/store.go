// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// MostStoredBytes is the most that a part of a Ledger takes.
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

// Encode returns the two parts of the ledger. What is written of them must be both, the days first.
func (l *Ledger) Encode() (recent, days []byte, err error) {
	r := stored{Format: format, Until: l.until, Running: l.running, Headroom: l.headroom}
	for _, id := range slices.Sorted(maps.Keys(l.moves)) {
		r.Moves = append(r.Moves, l.moves[id])
	}
	d := stored{Format: format, Until: l.until}
	for _, start := range slices.Sorted(maps.Keys(l.buckets.of)) {
		b := l.buckets.of[start]
		x := &storedBucket{Start: start, Length: b.length}
		for _, s := range sortedSeries(b.sums) {
			x.Sums = append(x.Sums, storedSum{s, *b.sums[s]})
		}
		if b.length == day {
			d.Buckets = append(d.Buckets, x)
		} else {
			r.Buckets = append(r.Buckets, x)
		}
	}
	if len(d.Buckets) > 0 {
		d.Until = d.Buckets[len(d.Buckets)-1].Start + day
	}
	if recent, err = r.encode(); err == nil {
		days, err = d.encode()
	}
	return recent, days, err
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

// Decode returns the ledger of two parts as Encode makes them; nil or empty: there is none. An error means that a part can't be used. The
// days are those of a ledger that was stored at the same time, or shortly after: then hours that are in a day already are dropped.
func Decode(recent, days []byte) (*Ledger, error) {
	r, err := decode(recent)
	if err != nil {
		return nil, err
	}
	d, err := decode(days)
	if err != nil {
		return nil, err
	}
	l := &Ledger{until: r.Until, resumed: r.Until, running: r.Running, headroom: r.Headroom}
	if r.Until == 0 && len(d.Buckets) > 0 { // only the days are there: nothing later is known
		l.until, l.resumed = d.Until, d.Until
	}
	l.buckets = buckets{at: l.until, of: map[int64]*bucket{}, series: map[Series]bool{}}
	for _, m := range r.Moves {
		if m != nil && m.Command != "" {
			if l.moves == nil {
				l.moves = map[string]*move{}
			}
			l.moves[m.Command] = m
		}
	}
	for _, x := range d.Buckets {
		l.restore(x, day)
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// MaxEncoded is the maximum number of bytes that Encode returns.
const MaxEncoded = 4096

const (
	version  = 1
	checksum = 4 // bytes at the end
)

// fidelity is how much of a History is written, and how exactly.
type fidelity struct {
	minutes, quarters, spikes int     // how many of the last
	demand                    float64 // steps an octave of a quarter's demand; below 16 it is exact
	counts                    float64 // steps an octave of the distributions' counts
	classes                   bool    // whether the distributions by clock and by position are written
}

const fidelities = 6

// fidelityOf returns the i-th fidelity; the next one takes less room.
func fidelityOf(i int) fidelity {
	return [fidelities]fidelity{
		{MinutesKept, QuartersKept, spikesKept, 8, 4, true},
		{2 * hour, QuartersKept, spikesKept, 8, 2, true},
		{hour, QuartersKept, spikesKept, 4, 2, true},
		{maxLead, QuartersKept / 2, spikesKept / 2, 4, 1, true},
		{maxLead, QuartersKept / 4, spikesKept / 4, 2, 1, true},
		{maxLead, QuartersKept / 4, spikesKept / 8, 2, 1, false},
	}[i]
}

// Encode returns the History in at most MaxEncoded bytes: a version, the data, and a checksum. It is lossy: quarters of an hour are
// accurate to between 5 % and 20 %, the counts of distributions to between 10 % and 40 %, depending on the available space. If
// necessary, the oldest minutes, spikes and quarters are omitted, and finally the distributions by clock and position. Forecasts
// for the next minutes are not stored, so nothing is learned from those minutes.
func (h *History) Encode() []byte {
	for i := range fidelities {
		w := newBitWriter()
		n, f := *h, fidelityOf(i)
		n.spikes = h.spikes[max(0, len(h.spikes)-f.spikes):]
		_ = n.walk(w, f)
		body := w.bytes()
		if len(body)+2+checksum > MaxEncoded && i < fidelities-1 {
			continue
		}
		out := append([]byte{version, byte(i)}, body...)
		return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	}
	return nil // not reached: the last fidelity is returned
}

// Decode returns the History from the output of Encode, without what Encode omits. It returns an error for any other data.
func Decode(data []byte) (*History, error) {
	n := len(data) - checksum
	switch {
	case n < 2:
		return nil, fmt.Errorf("history of %d bytes is too short", len(data))
	case data[0] != version:
		return nil, fmt.Errorf("history has format %d; only %d is known", data[0], version)
	case int(data[1]) >= fidelities:
		return nil, fmt.Errorf("history has fidelity %d; only 0 to %d are known", data[1], fidelities-1)
	case binary.BigEndian.Uint32(data[n:]) != crc32.ChecksumIEEE(data[:n]):
		return nil, errors.New("history is damaged: its checksum is wrong")
	}
	h, r := New(), newBitReader(data[2:n])
	if err := h.walk(r, fidelityOf(int(data[1]))); err != nil {
		return nil, fmt.Errorf("history is damaged: %w", err)
	}
	if r.short || len(r.in) > 0 {
		return nil, errors.New("history is damaged: it ends too early or too late")
	}
	if h.known > 0 {
		h.begin()
	}
	return h, nil
}

// walk writes h, or reads it into h. An error says that what was read can't be. In writing it changes nothing that h's
// slices refer to but may round values of h itself.
func (h *History) walk(c coder, f fidelity) error {
	h.first = int64(raw(c, uint64(h.first), 32))
	h.now = int64(raw(c, uint64(h.now), 32))
	h.known = int64(raw(c, uint64(h.known), 32))
	if h.known == 0 {
		*h = *New()
		return nil
	}
	if h.first > h.now || h.known > h.now-h.first+1 {
		return fmt.Errorf("%d minutes known from %d to %d", h.known, h.first, h.now)
	}
	for _, x := range [...]*float64{&h.level, &h.trend, &h.noise, &h.spared} {
		*x = float64(math.Float32frombits(uint32(raw(c, uint64(math.Float32bits(float32(*x))), 32))))
		if !(math.Abs(*x) <= MaxReplicas) { // also where it is not a number
			return errors.New("a level is not a number of replicas")
		}
	}
	if h.noise < 0 || h.spared < 0 {
		return errors.New("the noise or what was spared is negative")
	}
	h.sinceRise = int(raw(c, uint64(min(h.sinceRise, math.MaxInt16)), 15))
	h.rising = raw(c, bitOf(h.rising), 1) == 1
	h.anticipated = raw(c, bitOf(h.anticipated), 1) == 1
	h.sum, h.of = int64(raw(c, uint64(h.sum), 20)), int64(raw(c, uint64(h.of), 4))
	if h.of < 1 || h.sum > h.of*MaxReplicas {
		return errors.New("the last quarter has no mean")
	}
	h.walkMinutes(c, f)
	h.walkQuarters(c, f)
	if err := h.walkSpikes(c); err != nil {
		return err
	}
	h.walkLearned(c, f)
	return nil
}

func bitOf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// walkMinutes codes the last minutes, exactly, each by its difference from the one before.
func (h *History) walkMinutes(c coder, f fidelity) {
	var gap, same flag
	var difference number
	last, context := int32(0), 0
	for m := max(h.first, h.now-int64(f.minutes)+1); m <= h.now; m++ {
		at := &h.minutes[m%MinutesKept]
		if gap.code(c, context&1, *at == unknown) {
			*at = unknown
			context = 1
			continue
		}
		v := last
		if !same.code(c, context>>1, int32(*at) == last) {
			v = last + difference.signed(c, int32(*at)-last)
			context = 2
		} else {
			context = 0
		}
		last = min(MaxReplicas, max(0, v))
		*at = uint16(last)
	}
}

// walkQuarters codes the last quarters, rounded: the mean by its difference from the one before, the peak by that from
// the mean.
func (h *History) walkQuarters(c coder, f fidelity) {
	var gap, same, level flag
	var difference, above number
	last, context := int32(0), 0
	now := h.now / quarter
	for q := max(h.first/quarter, now-int64(f.quarters)+1); q <= now; q++ {
		at := &h.quarters[q%QuartersKept]
		if gap.code(c, context&1, at.mean == unknown) {
			*at = cell{unknown, unknown}
			context = 1
			continue
		}
		mean := demandCode(at.mean, f.demand)
		if same.code(c, context>>1, mean == last) {
			mean, context = last, 0
		} else {
			mean, context = last+difference.signed(c, mean-last), 2
		}
		mean = min(maxDemandCode, max(0, mean))
		over := int32(0)
		if !level.code(c, context>>1, demandCode(at.peak, f.demand) <= mean) {
			over = 1 + int32(above.code(c, uint32(max(1, demandCode(at.peak, f.demand)-mean)-1))&0xFFFF)
		}
		at.mean, at.peak = demandOf(mean, f.demand), demandOf(min(maxDemandCode, mean+over), f.demand)
		last = mean
	}
}

// maxDemandCode is beyond every demandCode.
const maxDemandCode = 1 << 10

// demandCode rounds replicas to so many steps an octave; below 16 it is exact.
func demandCode(n uint16, steps float64) int32 {
	if n < 16 {
		return int32(n)
	}
	return 16 + int32(math.Round(steps*math.Log2(float64(n)/16)))
}

// demandOf returns the replicas of a demandCode.
func demandOf(code int32, steps float64) uint16 {
	if code < 16 {
		return uint16(code)
	}
	return uint16(min(MaxReplicas, math.Round(16*math.Exp2(float64(code-16)/steps))))
}

// walkSpikes codes the spikes, exactly.
func (h *History) walkSpikes(c coder) error {
	var after, base, rise, ramp number
	n := int(raw(c, uint64(len(h.spikes)), 8))
	if n > spikesKept || h.rising && n == 0 {
		return fmt.Errorf("%d spikes", n)
	}
	out, last := make([]spike, 0, n), int64(0)
	for i := range n {
		var s spike
		if i < len(h.spikes) {
			s = h.spikes[i]
		}
		s.at = last + int64(after.code(c, uint32(s.at-last)))
		s.base = uint16(min(MaxReplicas, base.code(c, uint32(s.base))))
		s.rise = uint16(min(MaxReplicas, rise.code(c, uint32(s.rise))))
		s.ramp = uint8(min(spikeMinutes, ramp.code(c, uint32(s.ramp))))
		if s.at > h.now {
			return fmt.Errorf("spike at minute %d, after the last, %d", s.at, h.now)
		}
		last = s.at
		out = append(out, s)
	}
	h.spikes = out
	return nil
}

// walkLearned codes the methods' errors and the distributions. Those of wider classes are the sums of the narrower
// ones.
func (h *History) walkLearned(c coder, f fidelity) {
	var loss number
	var m countModel
	for i := range h.learned {
		l := &h.learned[i]
		last := int32(0)
		l.scored = int64(raw(c, uint64(min(l.scored, errorMinutes)), 14))
		for k := range l.errors {
			for j := range l.errors[k] {
				last = min(maxLossCode, max(0, last+loss.signed(c, lossCode(l.errors[k][j])-last)))
				l.errors[k][j] = lossOf(last)
			}
		}
		m.walk(c, &l.smooth, nil, f.counts)
		m.walk(c, &l.season, nil, f.counts)
		if !f.classes {
			m.walk(c, &l.all, nil, f.counts)
			continue
		}
		walkClasses(c, &m, l.clock[:], f)
		walkClasses(c, &m, l.position[:], f)
		for k := range l.since {
			l.since[k] = sumOf(l.position[k*positionBins : (k+1)*positionBins])
		}
		l.all = sumOf(l.position[:])
	}
}

// walkClasses codes histograms that resemble the one before.
func walkClasses(c coder, m *countModel, all []counts, f fidelity) {
	var before *counts
	for k := range all {
		m.walk(c, &all[k], before, f.counts)
		before = &all[k]
	}
}

// maxLossCode is no less than every lossCode.
const maxLossCode = 64 * 32

// lossCode rounds an error to a 64th of an octave, and to 0 below a ten-thousandth of a replica.
func lossCode(x float32) int32 {
	if x < 1e-4 {
		return 0
	}
	return int32(min(maxLossCode, 1+math.Round(64*math.Log2(float64(x)*1e4))))
}

// lossOf returns the error of a lossCode.
func lossOf(code int32) float32 {
	if code == 0 {
		return 0
	}
	return float32(1e-4 * math.Exp2(float64(code-1)/64))
}

// countModel learns how histograms look like.
type countModel struct {
	none  [8]flag   // no count: by what is near
	size  [2]number // the first count, the count after others
	empty flag
}

// walk codes a histogram, rounded to so many steps an octave; before is a similar one, or nil.
func (m *countModel) walk(c coder, h, before *counts, steps float64) {
	if m.empty.code(c, 0, *h == counts{}) {
		*h = counts{}
		return
	}
	last, zeros := uint32(0), 0
	for i := range h {
		near := 0
		if last > 0 {
			near |= 1
		}
		if before != nil && before[i] > 0 {
			near |= 2
		}
		if before != nil && i+1 < buckets && before[i+1] > 0 {
			near |= 4
		}
		if m.none[near].code(c, min(3, zeros), h[i] == 0) {
			h[i], last = 0, 0
			zeros++
			continue
		}
		code := countCode(h[i], steps)
		var next uint32
		if last == 0 {
			next = m.size[0].code(c, code)
		} else {
			next = uint32(int32(last) + m.size[1].signed(c, int32(code)-int32(last)))
		}
		next = min(maxCountCode, next)
		h[i], last, zeros = countOf(next, steps), next, 0
	}
}

// maxCountCode is beyond every countCode.
const maxCountCode = 64

// countCode rounds a count of 1 to maxCount to so many steps an octave.
func countCode(n uint16, steps float64) uint32 {
	return uint32(math.Round(steps * math.Log2(float64(max(1, n)))))
}

// countOf returns the count of a countCode.
func countOf(code uint32, steps float64) uint16 {
	return uint16(min(maxCount, math.Round(math.Exp2(float64(code)/steps))))
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// drawDemand draws minutes of demand, -1 where there is no observation: stretches of a level, of noise, of a spike at a
// clock time, and gaps.
func drawDemand(t *rapid.T, days int) []int {
	seed := rapid.Uint64().Draw(t, "noise")
	next := func(n int) int { // cheap: there are many
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % max(1, n)
	}
	level := rapid.SampledFrom([]int{0, 1, 20, 300, 70000}).Draw(t, "level")
	noise := rapid.SampledFrom([]int{0, 1, 10, 1000}).Draw(t, "spread")
	spike := rapid.IntRange(0, 500).Draw(t, "spike")
	at := rapid.IntRange(0, day-1).Draw(t, "at")
	gaps := rapid.SliceOfN(rapid.IntRange(0, days*day), 0, 3).Draw(t, "gaps")
	lengths := rapid.SampledFrom([]int{1, 9, 11, 200, 2 * day}).Draw(t, "gap")
	out := make([]int, days*day)
	for i := range out {
		out[i] = level + next(noise+1)
		if m := (i - at + day) % day; m < 20 {
			out[i] += spike
		}
	}
	for _, g := range gaps {
		for i := g; i < min(len(out), g+lengths); i++ {
			out[i] = -1
		}
	}
	return out
}

func observe(t interface{ Fatal(...any) }, h *History, from int64, demand []int) {
	for i, n := range demand {
		if n < 0 {
			continue
		}
		if err := h.Observe(from+int64(i), n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForecastInBounds asks forecasts of any history, after any minute: quantiles rise with their level, nothing is
// negative or beyond bounds, and equal observations give equal answers and equal bytes.
func TestForecastInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demand := drawDemand(t, rapid.IntRange(1, 2).Draw(t, "days"))
		a, b := New(), New()
		observe(t, a, monday, demand)
		observe(t, b, monday, demand)
		lead := rapid.IntRange(-1, 20).Draw(t, "lead")
		level := ServiceLevel(rapid.Int64Range(-1, 200).Draw(t, "waiting"), 1)
		now := monday + int64(len(demand)) - 1
		f, g := a.Forecast(now, lead, level, nil), b.Forecast(now, lead, level, nil)
		if f.Rise != g.Rise || f.Method != g.Method || !slices.Equal(f.Usual, g.Usual) || !slices.Equal(f.Spikes, g.Spikes) || !bytes.Equal(a.Encode(), b.Encode()) {
			t.Fatalf("equal histories differ: %+v, %+v", f, g)
		}
		if f.Rise < 0 || f.Rise > 2*MaxReplicas {
			t.Fatalf("a rise of %d", f.Rise)
		}
		if !slices.IsSortedFunc(f.Usual, func(a, b Quantile) int { return a.Rise - b.Rise }) {
			t.Fatalf("quantiles fall: %v", f.Usual)
		}
		for _, e := range f.Spikes {
			if e.Chance <= 0 || e.Chance > 1 || e.Soon < 0 || e.Soon > 1 || e.Rise < 0 || e.From > e.To {
				t.Fatalf("spike %+v", e)
			}
		}
	})
}

// TestUnknownTeachesNothing counts what was learned: an observation for each minute whose lead time was known to its
// end, less those of spikes that were expected; and no spike spans a gap.
func TestUnknownTeachesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demand := drawDemand(t, 1)
		h := New()
		observe(t, h, monday, demand)
		for i := range leadCount {
			lead, want := int(leadOf(i)), 0
			for m := 0; m+lead < len(demand); m++ {
				if slices.Index(demand[m:m+lead+1], -1) < 0 {
					want++
				}
			}
			got := 0
			for _, n := range h.learned[i].all {
				got += int(n)
			}
			if h.known < day && (got > want*sample || got < want*sample && len(h.spikes) < 3) { // before a day nothing has faded
				t.Fatalf("lead %d: %d observations learned of %d", lead, got/sample, want)
			}
		}
		if n, ok := h.Peak(monday, monday+day); ok != (h.known > 0) || ok && n != min(MaxReplicas, slices.Max(demand)) {
			t.Fatalf("the peak of %d minutes is %d, %t", h.known, n, ok)
		}
		for _, s := range h.spikes {
			if from := s.at - monday - 1; from < 0 || demand[from] < 0 {
				t.Fatalf("spike %+v begins in a gap", s)
			}
		}
	})
}

// TestEncodeFits writes and reads any history: it fits, what is read is written again as the same bytes where nothing
// was left out, and it says the same of the last quarters, the spikes and the rise.
func TestEncodeFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New()
		observe(t, h, monday, drawDemand(t, rapid.IntRange(0, 3).Draw(t, "days")))
		text := h.Encode()
		if len(text) > MaxEncoded {
			t.Fatalf("%d bytes", len(text))
		}
		g, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if again := g.Encode(); text[1] == 0 && !bytes.Equal(again, text) {
			t.Fatalf("%d bytes become %d", len(text), len(again))
		}
		if h.known != g.known || h.now != g.now || h.first != g.first || h.scored() != g.scored() {
			t.Fatalf("%d %d %d become %d %d %d", h.first, h.now, h.known, g.first, g.now, g.known)
		}
		for q := range int64(100) {
			a, b := h.quarterAt(h.now-q*quarter), g.quarterAt(h.now-q*quarter)
			if (a.mean == unknown) != (b.mean == unknown) || a.mean != unknown && math.Abs(float64(a.peak)-float64(b.peak)) > 0.2*float64(a.peak) {
				t.Fatalf("quarter %d: %v becomes %v", q, a, b)
			}
		}
		if text[1] < 3 && !slices.Equal(h.spikes, g.spikes) {
			t.Fatalf("spikes %v become %v", h.spikes, g.spikes)
		}
	})
}

func (h *History) scored() int64 { return min(errorMinutes, h.learned[0].scored) }

// TestWorstFits writes demand in which nothing repeats; only the last fidelities have room for it.
func TestWorstFits(t *testing.T) {
	h, seed := New(), uint64(1)
	for i := range int64(35 * day) {
		seed = seed*6364136223846793005 + 1442695040888963407
		if err := h.Observe(i, int(seed>>33)%(1+int(seed>>20)%MaxReplicas)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range h.learned {
		for k := range h.learned[i].position {
			for j := range h.learned[i].position[k] {
				seed = seed*6364136223846793005 + 1442695040888963407
				h.learned[i].position[k][j] = uint16(seed >> 40)
			}
		}
	}
	text := h.Encode()
	if len(text) > MaxEncoded || text[1] < 3 {
		t.Fatalf("%d bytes at fidelity %d", len(text), text[1])
	}
	if _, err := Decode(text); err != nil {
		t.Fatal(err)
	}
}

// TestForecastAfterRestart goes on with a history that was written and read: what it holds for an hour is what the
// other one holds, nearly.
func TestForecastAfterRestart(t *testing.T) {
	h, seed := New(), uint64(1)
	draw := func(minute int64) int {
		n := 60
		for range 8 {
			seed = seed*6364136223846793005 + 1442695040888963407
			n += int(seed>>33)%9 - 4
		}
		if minute%day >= 9*hour && minute%day < 10*hour {
			n += 100
		}
		return n
	}
	at := int64(monday)
	for ; at < monday+9*day+8*hour+30; at++ {
		_ = h.Observe(at, draw(at))
	}
	g, err := Decode(h.Encode())
	if err != nil {
		t.Fatal(err)
	}
	differs, sum := 0, 0
	for ; at < monday+9*day+9*hour+30; at++ {
		n := draw(at)
		if err := h.Observe(at, n); err != nil {
			t.Fatal(err)
		}
		if err := g.Observe(at, n); err != nil {
			t.Fatal(err)
		}
		a, b := h.Forecast(at, 3, 0.95, nil).Rise, g.Forecast(at, 3, 0.95, nil).Rise
		differs += max(a-b, b-a)
		sum += a
	}
	if sum == 0 || 20*differs > sum {
		t.Fatalf("of %d replicas held, %d differ", sum, differs)
	}
}

// TestSize holds 5,000 histories to the 200 MB that they may take. One of more than 32 KiB would take 40.
func TestSize(t *testing.T) {
	one := unsafe.Sizeof(History{}) + spikesKept*unsafe.Sizeof(spike{})
	if one*5000 > 200e6 || unsafe.Sizeof(History{}) > 32<<10 {
		t.Fatalf("a history takes %d bytes", one)
	}
}

// TestObserveRefuses gives minutes out of order and what is no demand.
func TestObserveRefuses(t *testing.T) {
	h := New()
	for _, x := range []struct {
		minute   int64
		replicas int
		ok       bool
	}{{-1, 1, false}, {10, -1, false}, {10, 5, true}, {10, 5, false}, {9, 5, false}, {1 << 40, 5, false}, {11, 5, true}} {
		before := h.Encode()
		if err := h.Observe(x.minute, x.replicas); (err == nil) != x.ok {
			t.Errorf("Observe(%d, %d): %v", x.minute, x.replicas, err)
		}
		if !x.ok && !bytes.Equal(before, h.Encode()) {
			t.Errorf("Observe(%d, %d) was refused and has changed something", x.minute, x.replicas)
		}
	}
}

// TestDecodeRefuses damages each byte of a history.
func TestDecodeRefuses(t *testing.T) {
	h := New()
	for i := range int64(2 * day) {
		_ = h.Observe(i, int(i%50))
	}
	text := h.Encode()
	for i := range text {
		damaged := slices.Clone(text)
		damaged[i] ^= 0x10
		if _, err := Decode(damaged); err == nil {
			t.Fatalf("byte %d may be anything", i)
		}
		if _, err := Decode(text[:i]); err == nil {
			t.Fatalf("the first %d bytes are enough", i)
		}
	}
}

// FuzzDecode reads anything, with a checksum that is right: an error, or a history that can be used.
func FuzzDecode(f *testing.F) {
	h := New()
	f.Add(h.Encode())
	for i := range int64(3 * day) {
		_ = h.Observe(monday+i, 20+int(i%7)+60*int(min(1, i%day/1000)))
	}
	f.Add(h.Encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		if n := len(text) - checksum; n >= 2 {
			text = binary.BigEndian.AppendUint32(slices.Clone(text[:n]), crc32.ChecksumIEEE(text[:n]))
		}
		h, err := Decode(text)
		if err != nil {
			return
		}
		last, _, _ := h.Last()
		for i := range int64(20) {
			if err := h.Observe(last+1+i*i, 30+int(i)); err != nil && last+1+i*i <= math.MaxUint32 {
				t.Fatal(err)
			}
			h.Forecast(last+1+i*i, 3, 0.98, nil)
		}
		if again := h.Encode(); len(again) > MaxEncoded {
			t.Fatalf("%d bytes", len(again))
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	h := New()
	for i := range b.N {
		_ = h.Observe(int64(i), 50+i*7919%20)
	}
}

func BenchmarkForecast(b *testing.B) {
	h := New()
	for i := range 28 * day {
		n := 50 + i*7919%20
		if i%(3*hour) == 0 {
			n = 300
		}
		_ = h.Observe(int64(i), n)
	}
	b.ResetTimer()
	for range b.N {
		h.Forecast(h.now, 3, 0.98, nil)
	}
}

func BenchmarkEncode(b *testing.B) {
	h := New()
	for i := range 28 * day {
		_ = h.Observe(int64(i), 50+i*7919%20)
	}
	b.ResetTimer()
	for range b.N {
		h.Encode()
	}
}

// BenchmarkFiveThousand has 5,000 workloads with four weeks of history each: what they take in memory, all their forecasts,
// and a minute of their demand.
func BenchmarkFiveThousand(b *testing.B) {
	h := New()
	for i := range 28 * day {
		_ = h.Observe(int64(i), 50+i*7919%20+100*min(1, i%(3*hour)/170))
	}
	text := h.Encode()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all, replicas := NewHistories(5000), map[model.Workload]int{}
	for i := range 5000 {
		w := model.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("workload-", i)}
		one, err := Decode(text)
		if err != nil || !all.Set(w, one) {
			b.Fatal(err)
		}
		replicas[w] = 50 + i%20
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Run("forecasts", func(b *testing.B) {
		for b.Loop() {
			for _, h := range all.All() {
				h.Forecast(h.now, 3, 0.98, nil)
			}
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		b.ReportMetric(float64(len(text)), "bytes-encoded")
	})
	b.Run("minute", func(b *testing.B) {
		minute := h.now
		for b.Loop() {
			minute++
			if o, err := all.Observe(minute, replicas); err != nil || len(o.Dropped) > 0 || o.Refused > 0 {
				b.Fatal(o, err)
			}
		}
	})
}

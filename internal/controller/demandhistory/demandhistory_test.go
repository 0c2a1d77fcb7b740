// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demandhistory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/prometheus/client_golang/prometheus"
)

// shelf is a Store in memory.
type shelf struct {
	mu     sync.Mutex
	shards [shardCount]map[string][]byte
	writes []time.Time
	loads  int
	err    error // of every call
	other  bool  // another leader has written since this one has read
}

func (s *shelf) LoadHistories(_ context.Context, i int) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	s.other = s.other && s.err != nil
	return maps.Clone(s.shards[i]), s.err
}

func (s *shelf) StoreHistories(_ context.Context, i int, entries map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, time.Now())
	if s.err != nil {
		return s.err
	}
	if s.other {
		return errors.New("the object has been modified")
	}
	s.shards[i] = maps.Clone(entries)
	return nil
}

func (s *shelf) entries() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]byte{}
	for _, m := range s.shards {
		maps.Copy(all, m)
	}
	return all
}

// archive is a PastReplicas that answers as a function says.
type archive struct {
	mu     sync.Mutex
	asked  int
	answer func(ctx context.Context, w model.Workload, minute int64) (int, error)
}

func (a *archive) Replicas(ctx context.Context, w model.Workload, first, last int64) (out []int, err error) {
	a.mu.Lock()
	a.asked++
	a.mu.Unlock()
	for m := first; m <= last; m++ {
		n, err := a.answer(ctx, w, m)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// bench is a Keeper in virtual time, with what it has logged.
type bench struct {
	*Keeper
	text     bytes.Buffer
	registry *prometheus.Registry
}

// metric returns a counter or gauge, of a label's value where it has one.
func (b *bench) metric(t *testing.T, name, value string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (value == "" || m.Label[0].GetValue() == value) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, value)
	return 0
}

func newBench(store Store, past PastReplicas) *bench {
	b := &bench{registry: prometheus.NewRegistry()}
	b.Keeper = New(slog.New(slog.NewTextHandler(&b.text, nil)), b.registry, store, past)
	return b
}

// begin has it read, write and fill until the test ends.
func (b *bench) begin(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	go b.Keep(ctx)
	go b.Fill(ctx)
	return func() {
		cancel()
		synctest.Wait()
	}
}

// minutes lets so many minutes pass, each recorded with its demand.
func (b *bench) minutes(n int, demand func(minute int64) map[model.Workload]int) {
	for range n {
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		m := minuteOf(time.Now())
		b.record(m, demand(m))
		synctest.Wait()
	}
}

var webShop = model.Workload{Namespace: "shop", Kind: "Deployment", Name: "web.v1"}

func sawtooth(minute int64) map[model.Workload]int {
	return map[model.Workload]int{webShop: 10 + int(minute%7)}
}

// TestHistoriesSurvive a restart: what is observed before what was stored has been read is added to it.
func TestHistoriesSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		first := newBench(s, nil)
		end := first.begin(t)
		first.minutes(30*60, sawtooth)
		end()
		s.err = errors.New("not now")
		next := newBench(s, nil)
		end = next.begin(t)
		defer end()
		next.minutes(3, sawtooth)
		if h := next.History(webShop); h == nil || h.Known() != 3 {
			t.Fatal("without what was stored it begins anew")
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		next.minutes(10, sawtooth)
		h := next.History(webShop)
		if n := h.Known(); n < 30*60+13-2 {
			t.Errorf("%d minutes known after the restart", n)
		}
		if f, ok := next.Forecast(webShop, time.Now(), 3, 0.95); !ok || f.Rise == 0 {
			t.Errorf("forecast %+v, %t", f, ok)
		}
		if text := next.text.String(); strings.Count(text, "can't be read") != shardCount {
			t.Errorf("said: %s", text)
		}
	})
}

// TestDamagedHistories: what can't be used is said by its key and begins anew; nothing else is lost.
func TestDamagedHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		first := newBench(s, nil)
		end := first.begin(t)
		all := map[model.Workload]int{}
		for i := range 40 {
			all[model.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("w", i)}] = i + 1
		}
		demand := func(m int64) map[model.Workload]int {
			out := map[model.Workload]int{}
			for w, n := range all {
				out[w] = n + int(m%5)
			}
			return out
		}
		first.minutes(60, demand)
		end()
		future := forecast.New()
		if err := future.Observe(minuteOf(time.Now())+1000, 1); err != nil {
			t.Fatal(err)
		}
		bad := map[string][]byte{}
		for i, damage := range []func([]byte) []byte{
			func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			func(b []byte) []byte { b[0] = 99; return b },
			func([]byte) []byte { return nil },
			func([]byte) []byte { return future.Encode() },
			func([]byte) []byte { return forecast.New().Encode() },
		} {
			w := model.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("w", i)}
			key, _ := historyKey(w)
			shard := s.shards[shardOf(w)]
			shard[key] = damage(slices.Clone(shard[key]))
			bad[key] = shard[key]
		}
		s.shards[0]["no-such-key"], bad["no-such-key"] = []byte{1}, nil
		next := newBench(s, nil)
		end = next.begin(t)
		next.minutes(20, demand)
		end()
		for key := range bad {
			if !strings.Contains(next.text.String(), "key="+key) {
				t.Errorf("%s is not said", key)
			}
		}
		if n := next.metric(t, "dovetail_demand_histories_read_total", "refused"); n != float64(len(bad)) {
			t.Errorf("%v refused, want %d", n, len(bad))
		}
		anew := 0
		for w := range all {
			if next.History(w).Known() < 60 {
				anew++
			}
		}
		if anew != len(bad)-1 {
			t.Errorf("%d of 40 workloads began anew, want %d", anew, len(bad)-1)
		}
		if s.entries()["no-such-key"] != nil {
			t.Error("what nobody knows is stored again")
		}
	})
}

// TestHistoryWrites: one write a minute at most whatever fails; a shard that another leader has written is read before it
// is written again; and what never changes is written once an hour.
func TestHistoryWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		b := newBench(s, nil)
		end := b.begin(t)
		defer end()
		calm := false
		demand := func(m int64) map[model.Workload]int {
			out := map[model.Workload]int{}
			for i := range 100 {
				out[model.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("w", i)}] = 1 + i
				if !calm {
					out[model.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("w", i)}] += int(m % 3)
				}
			}
			return out
		}
		b.minutes(20, demand)
		if n := len(s.entries()); n != 100 {
			t.Errorf("%d histories stored, want 100", n)
		}
		loads := s.loads
		s.mu.Lock()
		s.other = true
		s.mu.Unlock()
		b.minutes(3, demand)
		if s.loads == loads || s.other {
			t.Error("what another leader has written was not read")
		}
		s.mu.Lock()
		s.err = errors.New("no")
		s.mu.Unlock()
		b.minutes(20, demand)
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		b.minutes(20, demand)
		for i := 1; i < len(s.writes); i++ {
			if d := s.writes[i].Sub(s.writes[i-1]); d < time.Minute {
				t.Errorf("two writes in %s", d)
			}
		}
		if n := b.metric(t, "dovetail_demand_history_writes_total", "failed"); n < 2 {
			t.Errorf("%v writes failed", n)
		}
		calm = true
		b.minutes(20, demand) // all is written once more
		before := len(s.writes)
		b.minutes(180, demand)
		if n := len(s.writes) - before; n < 2*shardCount || n > 3*shardCount {
			t.Errorf("%d writes in three hours without a change, want one a shard and hour", n)
		}
	})
}

// TestLeastUsefulIsNotStored: where there is no room the histories that spare nothing are left out, and it is said.
func TestLeastUsefulIsNotStored(t *testing.T) {
	b := newBench(&shelf{}, nil)
	s := &b.shards[0]
	seed := uint64(1)
	for i := range 110 { // nearly 3 KiB each: nothing in them repeats
		h := forecast.New()
		for m := range int64(3000) {
			seed = seed*6364136223846793005 + 1442695040888963407
			if err := h.Observe(m, int(seed>>33)%5000); err != nil {
				t.Fatal(err)
			}
		}
		s.of.Set(model.Workload{Namespace: "n", Kind: "Deployment", Name: fmt.Sprint("noise", i)}, h)
	}
	flat := forecast.New()
	for m := range int64(3000) {
		if err := flat.Observe(m, 9000); err != nil {
			t.Fatal(err)
		}
	}
	s.of.Set(model.Workload{Namespace: "n", Kind: "Deployment", Name: "flat"}, flat)
	entries, leftOut := s.encode()
	bytes := 0
	for key, text := range entries {
		bytes += len(key) + len(text)
		if len(text) > forecast.MaxEncoded {
			t.Errorf("%s takes %d bytes", key, len(text))
		}
	}
	if len(entries)+leftOut != 111 || leftOut < 2 || bytes > mostStoredBytes || bytes < mostStoredBytes-2*forecast.MaxEncoded {
		t.Errorf("%d bytes in %d entries, %d left out", bytes, len(entries), leftOut)
	}
	s.read.Store(true)
	b.writeShard(t.Context(), time.Now())
	if !strings.Contains(b.text.String(), "least useful demand histories not stored") || b.metric(t, "dovetail_demand_histories_not_stored", "") != float64(leftOut) {
		t.Errorf("said: %s", b.text.String())
	}
}

// TestFillFromThePast: a history that lacks days is filled, once; its own minutes are kept; and a kind whose past nobody
// knows changes nothing.
func TestFillFromThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger := model.Workload{Namespace: "shop", Kind: "Rollout", Name: "x"}
		a := &archive{answer: func(_ context.Context, w model.Workload, minute int64) (int, error) {
			if w == stranger || minute%1000 == 0 {
				return -1, nil
			}
			return 10 + int(minute%7), nil
		}}
		b := newBench(&shelf{}, a)
		end := b.begin(t)
		defer end()
		b.minutes(120, func(m int64) map[model.Workload]int {
			return map[model.Workload]int{webShop: 10 + int(m%7), stranger: 5}
		})
		h := b.History(webShop)
		if n := h.Known(); n < 28*24*60-100 || n > 28*24*60+200 {
			t.Errorf("%d minutes known", n)
		}
		if last, _, _ := h.Last(); last != minuteOf(time.Now()) {
			t.Errorf("its last minute is %d, want %d", last, minuteOf(time.Now()))
		}
		if n := b.History(stranger).Known(); n != 120 {
			t.Errorf("%d minutes known of a workload without a past", n)
		}
		if a.asked != 8 {
			t.Errorf("%d questions, want 4 of each workload", a.asked)
		}
	})
}

// TestFillFails: a source that hangs or fails is said once, counted, asked less and less often, and changes nothing; when
// it answers again, histories are filled.
func TestFillFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var fault error
		hangs, half := true, false
		a := &archive{}
		a.answer = func(ctx context.Context, _ model.Workload, minute int64) (int, error) {
			mu.Lock()
			h, f, part := hangs, fault, half
			mu.Unlock()
			if h {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			if part && minute > minuteOf(time.Now())-60 {
				return 0, errors.New("the last portion is not to be had")
			}
			return 5, f
		}
		b := newBench(nil, a)
		end := b.begin(t)
		defer end()
		b.minutes(60, sawtooth)
		mu.Lock()
		hangs, fault = false, errors.New("500")
		mu.Unlock()
		b.minutes(60, sawtooth)
		mu.Lock()
		fault, half = nil, true
		mu.Unlock()
		b.minutes(60, sawtooth)
		if n := b.History(webShop).Known(); n != 180 {
			t.Errorf("%d minutes known, want the 180 observed", n)
		}
		if n := strings.Count(b.text.String(), "can't be backfilled from Prometheus"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if n := b.metric(t, "dovetail_prometheus_queries_total", "failed"); n < 5 || n > 40 {
			t.Errorf("%v failures", n)
		}
		mu.Lock()
		half = false
		mu.Unlock()
		b.minutes(60, sawtooth)
		if n := b.History(webShop).Known(); n < 27*24*60 || b.metric(t, "dovetail_demand_histories_filled_total", "") != 1 {
			t.Errorf("%d minutes known", n)
		}
	})
}

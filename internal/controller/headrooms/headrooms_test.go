// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headrooms

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/demandhistory"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/prometheus/client_golang/prometheus"
)

// bench is a cluster with Headrooms that keeps what is written.
type bench struct {
	mu              sync.Mutex
	objects         []headroom.Object
	targets         map[string][]headroom.Target
	unread          error // of Targets
	changed, scaled chan struct{}
	buffers         map[string]map[string]int // by Headroom and workload
	statuses        map[string]*headroom.Status
	writes, events  []string
	keeper          *Keeper
}

func newBench() *bench {
	return &bench{targets: map[string][]headroom.Target{}, changed: make(chan struct{}, 1), scaled: make(chan struct{}, 1), buffers: map[string]map[string]int{}, statuses: map[string]*headroom.Status{}}
}

func (b *bench) List() []headroom.Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.objects)
}

func (b *bench) Changed() <-chan struct{} { return b.changed }
func (b *bench) Scaled() <-chan struct{}  { return b.scaled }

func (b *bench) Targets(_ context.Context, s *headroom.Spec) ([]headroom.Target, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.targets[s.Key()]), b.unread
}

func (b *bench) WriteBuffers(_ context.Context, s *headroom.Spec, holds []headroom.Hold) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := map[string]int{}
	for _, d := range holds {
		if d.Held > 0 {
			now[d.Workload.String()] = d.Held
		}
	}
	if fmt.Sprint(now) != fmt.Sprint(b.buffers[s.Key()]) {
		b.writes = append(b.writes, fmt.Sprintf("%s %v", time.Now().UTC().Format("15:04:05"), now))
	}
	b.buffers[s.Key()] = now
	return nil
}

func (b *bench) WriteStatus(_ context.Context, s *headroom.Status) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.statuses[s.Spec.Key()] = s
	return nil
}

// set has a Headroom come or change; its window opens after an hour of the virtual clock, which begins at midnight.
func (b *bench) set(name string, mode headroom.Mode, generation int64, replicas int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects = slices.DeleteFunc(b.objects, func(o headroom.Object) bool { return o.Name == name })
	b.objects = append(b.objects, headroom.Object{Spec: headroom.Spec{
		Namespace: "shop", Name: name, UID: "uid-" + name, Generation: generation, Mode: mode, Created: time.Unix(int64(len(b.objects)), 0),
		Calendar: []headroom.WindowSpec{{Name: "w", Schedule: "0 1 * * *", Duration: time.Hour, Replicas: replicas, Percent: -1}},
		Learned:  headroom.Learned{WaitingCost: -1, IdleCost: -1}, Limits: headroom.Limits{Replicas: -1, MicroPerHour: -1},
	}})
	slices.SortFunc(b.objects, func(x, y headroom.Object) int { return strings.Compare(x.Name, y.Name) })
	b.changed <- struct{}{}
}

func (b *bench) scale(key string, replicas int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets[key] = []headroom.Target{{
		WorkloadName: headroom.WorkloadName{Namespace: "shop", Kind: "Deployment", Name: "web"}, Replicas: replicas,
		Class: &model.Class{Key: "web", Namespace: "shop", Requests: model.Resources{1000, 1 << 30, 0, 1}},
	}}
	select {
	case b.scaled <- struct{}{}:
	default:
	}
}

// keep keeps the Headrooms until end is called.
func (b *bench) keep(t *testing.T, histories Histories) (end func()) {
	b.keeper = New(b, b, histories, slog.New(slog.DiscardHandler), time.LoadLocation)
	ctx, cancel := context.WithCancel(t.Context())
	go b.keeper.Run(ctx)
	return func() {
		cancel()
		synctest.Wait()
	}
}

// LastSnapshot implements Loop: a cluster without nodes.
func (b *bench) LastSnapshot() *model.Snapshot { return &model.Snapshot{} }

// Event implements Loop.
func (b *bench) Event(kind, _, name, _ string, _ bool, reason, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, kind+" "+name+" "+reason+": "+message)
}

func run(t *testing.T, play func(t *testing.T, h *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newBench()
		end := h.keep(t, demandhistory.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), nil, nil))
		defer end()
		time.Sleep(5 * time.Second)
		play(t, h)
	})
}

// A window is prepared by the time that nodes take, gives way to pods at once when they come, and is given back when
// it has closed. The spike that it was for is met, and one that comes when nothing is held is missed.
func TestHeadroomHoldsForAWindow(t *testing.T) {
	run(t, func(t *testing.T, h *bench) {
		h.scale("shop/h", 40)
		h.set("h", headroom.Active, 1, 300)
		time.Sleep(70 * time.Minute)
		h.scale("shop/h", 200)
		time.Sleep(time.Second)
		h.scale("shop/h", 300)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		want := []string{"00:58:00 map[deployment/shop/web:260]", "01:10:05 map[deployment/shop/web:100]", "01:10:06 map[]"}
		if fmt.Sprint(h.writes) != fmt.Sprint(want) {
			t.Errorf("buffers written\n%s\nwant\n%s", strings.Join(h.writes, "\n"), strings.Join(want, "\n"))
		}
		if events := h.events; len(events) != 1 || !strings.Contains(events[0], "Headroom h SpikeMet") {
			t.Errorf("events: %v", events)
		}
		if r := h.statuses["shop/h"].Memory.LastWeek(); r.Hits != 1 || r.Misses != 0 || r.SparedSeconds != 260*120 {
			t.Errorf("record: %+v", r)
		}
		h.scale("shop/h", 350)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		missed := "Headroom h SpikeMissed: deployment/shop/web rose from 300 to 350 replicas: no capacity was held for 50 of 50 pods, which waited for nodes; a node takes 2m0s"
		if events := h.events; len(events) != 2 || events[1] != missed {
			t.Errorf("events: %v, want the last one %q", events, missed)
		}
		if r := h.statuses["shop/h"].Memory.LastWeek(); r.Hits != 1 || r.Misses != 1 || r.WaitedSeconds != 50*120 {
			t.Errorf("record with a spike missed: %+v", r)
		}
		answer, err := h.keeper.Explain("headroom/shop/h", time.Now())
		if err != nil || len(answer.Facts) < 4 {
			t.Errorf("why: %+v, %v", answer, err)
		}
		if _, err := h.keeper.Explain("headroom/shop/none", time.Now()); err == nil {
			t.Error("why answers about a Headroom that is not there")
		}
	})
}

// Mode Recommend, a second Headroom for the same workload, a target that is gone: the status says it, and nothing is
// written. Headrooms that can't be looked at keep what they hold.
func TestHeadroomBuysNothing(t *testing.T) {
	run(t, func(t *testing.T, h *bench) {
		h.scale("shop/h", 40)
		h.set("h", headroom.Recommend, 1, 300)
		time.Sleep(70 * time.Minute)
		synctest.Wait()
		if s := h.statuses["shop/h"]; len(h.writes) > 0 || s.Output.Held != 260 || !strings.Contains(s.Conditions()[1].Message, "spec.mode is Recommend") {
			t.Errorf("written %v, status %+v", h.writes, s.Conditions())
		}
		h.set("h", headroom.Active, 2, 300)
		time.Sleep(time.Second)
		h.targets["shop/z"] = h.targets["shop/h"]
		h.set("z", headroom.Active, 1, 500)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := h.statuses["shop/z"]; s.Output.Held != 0 || s.Conditions()[0].Reason != headroom.TargetHeldTwice {
			t.Errorf("the second Headroom of a workload: %+v", s.Conditions())
		}
		if s := h.statuses["shop/h"]; s.Output.Held != 260 {
			t.Errorf("the first Headroom of a workload: %+v", s.Conditions())
		}
		h.mu.Lock()
		h.objects = h.objects[:1]
		h.unread = fmt.Errorf("the API server is away")
		h.mu.Unlock()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if h.buffers["shop/h"]["deployment/shop/web"] != 260 || len(h.writes) != 1 {
			t.Errorf("while the API server was away: %v", h.writes)
		}
		h.mu.Lock()
		h.unread = headroom.Problem{Reason: headroom.TargetNotFound, Field: "spec.target.workload", Value: "Deployment shop/web", Why: "there is no such object", Remedy: "Create it"}
		h.targets = map[string][]headroom.Target{}
		h.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := h.statuses["shop/h"]; len(h.buffers["shop/h"]) > 0 || s.Conditions()[0].Reason != headroom.TargetNotFound {
			t.Errorf("a target that is gone: %v %+v", h.buffers, s.Conditions())
		}
	})
}

// Another leader, which knows of the last look what the status keeps: what was held for a forecast stays while stored
// histories are being read, also where that hangs, for five minutes at most; where they are lost it is given back.
// Windows are kept meanwhile.
func TestHeadroomAwaitsHistories(t *testing.T) {
	for _, c := range []struct {
		name string
		load func(context.Context) error
		want []string
	}{
		{"lost", func(context.Context) error { time.Sleep(7 * time.Second); return nil }, []string{"00:00:50 map[]"}}, // 7 s a shard
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, []string{"00:05:00 map[]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newBench()
				demand := demandhistory.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), slowStore(c.load), nil)
				h.scale("shop/h", 40)
				h.set("h", headroom.Active, 1, 300)
				web := h.targets["shop/h"][0].WorkloadName
				h.objects[0].Kept = headroom.Memory{Workloads: map[headroom.WorkloadName]headroom.WorkloadMemory{web: headroom.Restored(40, 60, 0, 0, nil)}}
				h.buffers["shop/h"] = map[string]int{web.String(): 60}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go demand.Keep(ctx)
				defer h.keep(t, demand)()
				time.Sleep(90 * time.Minute)
				synctest.Wait()
				if want := append(c.want, "00:58:00 map[deployment/shop/web:260]"); fmt.Sprint(h.writes) != fmt.Sprint(want) {
					t.Errorf("buffers written\n%s\nwant\n%s", strings.Join(h.writes, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

// slowStore is an empty store of histories that takes its time to answer, or answers with an error.
type slowStore func(context.Context) error

func (load slowStore) LoadHistories(ctx context.Context, _ int) (map[string][]byte, error) {
	return nil, load(ctx)
}

func (slowStore) StoreHistories(context.Context, int, map[string][]byte) error { return nil }

// The 95th percentile of the slowest pool that may be launched for the pods, and the default where none was seen.
func TestLeadTimes(t *testing.T) {
	l := leadTimes{}
	if got := l.of([]string{"a"}); got != headroom.DefaultLead {
		t.Errorf("of nothing: %s", got)
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var claims []*model.Claim
	for i := range 200 {
		c := &model.Claim{Name: fmt.Sprint(i), UID: fmt.Sprint(i), Pool: "a", Created: start.Add(time.Duration(i) * time.Minute)}
		c.Conditions = map[string]model.Condition{lifecycle.Initialized: {Status: "True", Since: c.Created.Add(time.Duration(i) * time.Second)}}
		claims = append(claims, c)
	}
	l.observe(claims[:100])
	if got := l.of([]string{"a", "b"}); got != 94*time.Second+leadMargin {
		t.Errorf("of 0 to 99 seconds: %s", got)
	}
	l.observe(claims)
	l.observe(claims)
	if got := l.of([]string{"a"}); got != 194*time.Second+leadMargin || len(l["a"]) != leadTimesKept {
		t.Errorf("of 100 to 199 seconds: %s of %d", got, len(l["a"]))
	}
}

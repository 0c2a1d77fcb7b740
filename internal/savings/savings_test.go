// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

var begin = time.Date(2026, 7, 1, 9, 58, 0, 0, time.UTC)

var workloads = []model.Workload{{Namespace: "shop", Kind: "Deployment", Name: "web"}, {Namespace: "shop", Kind: "StatefulSet", Name: "db"}}

// town is a drawn cluster, second by second, with a second account of it that adds up each second on its own.
type town struct {
	t        *rapid.T
	now      int // seconds since begin
	machines []*house
	orders   []*order
	replicas []int // of each of workloads
	headroom int64
	changes  int // that concern commands

	seconds []second
	removed map[Series]float64 // the sum of removed, by series
	freeze  bool               // prices stay
	dips    int                // that were over before they counted for good
	missed  bool               // a command's node has gone, and nobody was shown that it deletes it
}

// second is what is true of one.
type second struct{ cost, catalog, onDemand, removed, removedOnDemand, headroom, noPrice, noOnDemand, noCredit int64 }

type house struct {
	Machine
	at        Rates // as a candidate or a replacement: its prices, those first known
	gone      bool
	ended     int
	by        *order // that removes it
	leaving   bool
	parts     []int64 // of each of workloads, in millionths
	expires   int
	replaces  *order
	undebited bool // it has ended before its command had removed all
}

// order is a consolidation command.
type order struct {
	id          string
	began       int
	removed     []*house
	unknown     bool
	replicas    []int // when it began
	left        []int // the fewest that have lasted since its first removal with pods of the workload
	below, most []int // for how many seconds there are fewer, and the most since
}

// isUnderWay reports whether a command has nodes still to remove.
func (w *town) isUnderWay(k *order) bool {
	return slices.ContainsFunc(w.running(), func(h *house) bool { return h.by == k })
}

func (w *town) price() Rates {
	p := int64(4000 * rapid.IntRange(1, 50).Draw(w.t, "price"))
	r := Rates{Paid: p, Catalog: p + int64(4000*rapid.IntRange(-1, 1).Draw(w.t, "overlay")), OnDemand: p + int64(4000*rapid.IntRange(0, 20).Draw(w.t, "discount"))}
	switch rapid.IntRange(0, 15).Draw(w.t, "unknown") {
	case 0, 1:
		r = Rates{}
	case 2:
		r.OnDemand = 0
	case 3:
		r.Catalog = 0
	}
	return r
}

func (w *town) launch(replaces *order) {
	n := len(w.machines)
	h := &house{Machine: Machine{UID: fmt.Sprint("u", n), Series: Series{fmt.Sprint("p", n%3), []string{"on-demand", "spot"}[n%2]}, Rates: w.price(),
		Launched: begin.Add(time.Duration(w.now) * time.Second)}, replaces: replaces, expires: w.now + rapid.SampledFrom([]int{50, 5000, 100_000, 100_000}).Draw(w.t, "expires") + rapid.IntRange(0, 100).Draw(w.t, "and")}
	h.parts = rapid.SampledFrom([][]int64{{whole, 0}, {whole / 2, whole / 2}, {whole / 4, 0}, {0, whole / 3}, {0, 0}}).Draw(w.t, "pods")
	h.at = h.Rates
	w.machines = append(w.machines, h)
}

func (w *town) running() []*house {
	return slices.DeleteFunc(slices.Clone(w.machines), func(h *house) bool { return h.gone })
}

// end has a machine end, by its command or not.
func (w *town) end(h *house, removed bool) {
	h.gone, h.ended = true, w.now
	if k := h.by; k != nil && removed {
		k.removed = append(k.removed, h)
		k.unknown = k.unknown || h.at.Paid == 0
	}
	if h.by != nil || h.replaces != nil {
		w.changes++
	}
	if h.replaces != nil && w.isUnderWay(h.replaces) {
		h.undebited = true
	}
}

// change has something happen.
func (w *town) change() {
	running := w.running()
	pick := func() *house { return running[rapid.IntRange(0, len(running)-1).Draw(w.t, "which")] }
	what := rapid.SampledFrom([]int{4, 7, 0, 3, 4, 7, 3, 1, 2, 9}).Draw(w.t, "what")
	if len(running) == 0 {
		what = 0
	}
	w.missed = false
	switch what {
	case 0:
		w.launch(nil)
	case 1: // it dies by itself
		if h := pick(); !h.leaving {
			w.end(h, false)
		}
	case 2:
		if h := pick(); !w.freeze {
			h.Rates = w.price()
			if h.by == nil && h.replaces == nil || h.at.Paid == 0 {
				h.at = h.Rates
			}
		}
	case 3: // a command begins
		k := &order{id: fmt.Sprint("c", len(w.orders)), began: w.now, replicas: slices.Clone(w.replicas), left: slices.Clone(w.replicas), below: make([]int, len(workloads)), most: make([]int, len(workloads))}
		for range rapid.IntRange(1, 3).Draw(w.t, "nodes") {
			if h := pick(); h.by == nil && h.replaces == nil {
				h.by, h.at = k, h.Rates
			}
		}
		if !w.isUnderWay(k) {
			return
		}
		w.changes++
		w.orders = append(w.orders, k)
		for range rapid.IntRange(0, 2).Draw(w.t, "replacements") {
			w.launch(k)
		}
	case 4: // a command goes on, or is taken back
		h := pick()
		if going := slices.DeleteFunc(running, func(h *house) bool { return h.by == nil }); len(going) > 0 {
			h = going[rapid.IntRange(0, len(going)-1).Draw(w.t, "which of these")]
		}
		k := h.by
		if k == nil {
			return
		}
		w.changes++
		switch x := rapid.IntRange(0, 7).Draw(w.t, "step"); {
		case h.leaving:
			w.end(h, true)
		case x == 0:
			for _, h := range w.running() {
				if h.by == k && !h.leaving {
					h.by = nil
				}
			}
		case x == 1: // nobody has seen that it is being deleted
			w.end(h, true)
			w.missed, k.unknown = true, true
		case x == 2:
			w.launch(k)
		default:
			h.leaving = true
		}
	case 7:
		i := rapid.IntRange(0, len(workloads)-1).Draw(w.t, "workload")
		w.replicas[i] = rapid.SampledFrom([]int{4, 0, 4, 1, 4, 2, 3}).Draw(w.t, "replicas")
		w.changes++
	case 9:
		if !w.freeze {
			w.headroom = int64(rapid.IntRange(0, 9).Draw(w.t, "headroom"))
		}
	}
}

// pass adds up so many seconds, one by one.
func (w *town) pass(seconds int) {
	for range seconds {
		x := second{headroom: w.headroom}
		for _, h := range w.running() {
			if h.Paid == 0 {
				x.noPrice++
				continue
			}
			catalog := cmp.Or(h.Catalog, h.Paid)
			x.cost += h.Paid
			x.catalog += catalog
			x.onDemand += cmp.Or(h.OnDemand, catalog)
			if h.OnDemand == 0 {
				x.noOnDemand++
			}
		}
		for _, k := range w.orders {
			w.addCredit(k, &x)
		}
		w.seconds = append(w.seconds, x)
		w.now++
	}
}

// addCredit adds what a command saves in a second.
func (w *town) addCredit(k *order, x *second) {
	if len(k.removed) == 0 && !w.isUnderWay(k) {
		return
	}
	left, unknown, paid, onDemand := 1.0, k.unknown, int64(0), int64(0)
	of := map[Series]int64{}
	if len(k.removed) > 0 {
		var need, all float64
		for _, h := range k.removed {
			if w.now >= h.expires {
				return
			}
			price := cmp.Or(h.at.OnDemand, h.at.Catalog, h.at.Paid)
			paid += h.at.Paid
			of[h.Series] += h.at.Paid
			onDemand += price
			for i, part := range h.parts {
				weight := float64(part) * float64(max(price, 1))
				all += weight
				if k.replicas[i] > 0 {
					need += weight * float64(min(k.left[i], w.replicas[i])) / float64(k.replicas[i])
				}
			}
		}
		if left = 0; all > 0 {
			left = need / all
		}
		for i := range workloads {
			if !slices.ContainsFunc(k.removed, func(h *house) bool { return h.parts[i] > 0 }) {
				continue
			}
			if w.replicas[i] >= k.left[i] {
				if k.below[i] > 0 {
					w.dips++
				}
				k.below[i], k.most[i] = 0, 0
				continue
			}
			k.below[i]++
			if k.most[i] = max(k.most[i], w.replicas[i]); k.below[i] == 900 {
				k.left[i], k.below[i], k.most[i] = k.most[i], 0, 0
			}
		}
	}
	for _, h := range w.machines {
		if h.replaces == k && !h.undebited {
			unknown = unknown || h.at.Paid == 0
			paid -= h.at.Paid
			of[h.Series] -= h.at.Paid
			onDemand -= cmp.Or(h.at.OnDemand, h.at.Catalog, h.at.Paid)
		}
	}
	switch {
	case left < 1.0/whole:
	case unknown:
		x.noCredit++
	default:
		x.removed += int64(float64(paid) * left)
		x.removedOnDemand += int64(float64(onDemand) * left)
		for s, paid := range of {
			w.removed[s] += float64(paid) * left
		}
	}
}

func (w *town) total() (x second) {
	for _, s := range w.seconds {
		x = second{x.cost + s.cost, x.catalog + s.catalog, x.onDemand + s.onDemand, x.removed + s.removed, x.removedOnDemand + s.removedOnDemand, x.headroom + s.headroom,
			x.noPrice + s.noPrice, x.noOnDemand + s.noOnDemand, x.noCredit + s.noCredit}
	}
	return x
}

// observe shows the town as it is.
func (w *town) observe() *Observation {
	o := &Observation{Now: begin.Add(time.Duration(w.now) * time.Second), Replicas: map[model.Workload]int{}, Headroom: w.headroom, Missed: w.missed}
	for i, x := range workloads {
		o.Replicas[x] = w.replicas[i]
	}
	for _, h := range w.running() {
		o.Machines = append(o.Machines, h.Machine)
		if h.by != nil {
			c := Candidate{Command: h.by.id, UID: h.UID, Series: h.Series, Rates: h.Rates, Leaving: h.leaving, Expires: begin.Add(time.Duration(h.expires) * time.Second)}
			for i, part := range h.parts {
				if part > 0 {
					c.Pods = append(c.Pods, Share{workloads[i], part})
				}
			}
			o.Candidates = append(o.Candidates, c)
		}
		if h.replaces != nil && w.isUnderWay(h.replaces) {
			o.Replacements = append(o.Replacements, Replacement{h.replaces.id, h.Machine})
		}
	}
	return o
}

func newTown(t *rapid.T) *town {
	return &town{t: t, replicas: []int{4, 2}, removed: map[Series]float64{}}
}

// TestLedgerAddsUp compares a ledger with a sum over seconds, however often it is observed in between, and the reference with the sum over
// causes.
func TestLedgerAddsUp(t *testing.T) {
	removed, unknown, dips := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w, often, seldom := newTown(t), &Ledger{}, &Ledger{}
		for range rapid.SampledFrom([]int{5, 20, 60}).Draw(t, "events") {
			w.change()
			seldom.Observe(w.observe())
			often.Observe(w.observe())
			for range rapid.IntRange(0, 3).Draw(t, "looks") {
				w.pass(rapid.IntRange(0, 200).Draw(t, "seconds"))
				often.Observe(w.observe())
			}
			w.pass(rapid.IntRange(0, 1200).Draw(t, "seconds"))
		}
		seldom.Observe(w.observe())
		often.Observe(w.observe())
		want := w.total()
		for name, l := range map[string]*Ledger{"often": often, "seldom": seldom} {
			a := l.Since(begin)
			s := &a.Total
			got := second{s.Cost, s.Catalog, s.OnDemand, s.Removed, s.RemovedOnDemand, s.Headroom, s.NoPrice, s.NoOnDemand, s.NoCredit}
			exact := got
			exact.removed, exact.removedOnDemand = want.removed, want.removedOnDemand
			rounded := int64(w.now) * int64(len(w.machines)) // a part of a price is rounded once a second and machine
			if exact != want || max(got.removed-want.removed, want.removed-got.removed, got.removedOnDemand-want.removedOnDemand, want.removedOnDemand-got.removedOnDemand) > rounded {
				t.Fatalf("observed %s: %+v, want %+v", name, got, want)
			}
			for i, x := range a.Series {
				if off := float64(a.Sums[i].Removed) - w.removed[x]; off > float64(rounded) || off < -float64(rounded) {
					t.Fatalf("observed %s: series %v: removed %d, want %.0f", name, x, a.Sums[i].Removed, w.removed[x])
				}
			}
			causes := a.Causes()
			reference := got.onDemand + got.removedOnDemand - got.headroom
			if causes.Total() != reference-got.cost || s.Reference() != reference {
				t.Fatalf("causes %+v sum up to %d, want %d", causes, causes.Total(), reference-got.cost)
			}
			var periods Sum
			for i, p := range a.Periods {
				periods = periods.Plus(&p.Sum)
				if i > 0 && p.Start.Before(a.Periods[i-1].Start.Add(a.Periods[i-1].Length)) {
					t.Fatalf("period %s overlaps the one before", p.Start)
				}
			}
			if periods != *s {
				t.Fatalf("the periods sum up to %+v, want %+v", periods, *s)
			}
		}
		if want.removed != 0 {
			removed++
		}
		if want.noCredit != 0 {
			unknown++
		}
		dips += w.dips
	})
	if removed == 0 || unknown == 0 || dips == 0 {
		t.Errorf("commands that have removed nodes in %d towns, in %d of unknown saving; %d dips of replicas", removed, unknown, dips)
	}
}

// TestRestartsCountOnce ends controllers at any moment, also between the two writes, and has the next one begin with what is stored. What is
// missing is exactly what machines cost that ended before the next controller looked.
func TestRestartsCountOnce(t *testing.T) {
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		w, l := newTown(t), &Ledger{}
		w.freeze = true
		var recent, days []byte
		stored, changes, missing, lost := 0, 0, int64(0), false
		l.Observe(w.observe())
		save := func(half bool) {
			r, d, err := l.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if days = d; !half {
				recent, stored, changes = r, w.now, w.changes
			}
		}
		save(false)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			w.change()
			l.Observe(w.observe())
			w.pass(rapid.IntRange(0, 1200).Draw(t, "seconds"))
			l.Observe(w.observe())
			if rapid.Bool().Draw(t, "stored") {
				save(false)
			}
			if rapid.IntRange(0, 4).Draw(t, "restart") > 0 {
				continue
			}
			if rapid.Bool().Draw(t, "between two writes") {
				save(true)
			}
			for range rapid.IntRange(0, 3).Draw(t, "events without a controller") {
				w.change()
				w.pass(rapid.IntRange(0, 1200).Draw(t, "seconds"))
			}
			var err error
			if l, err = Decode(recent, days); err != nil {
				t.Fatal(err)
			}
			for _, h := range w.machines {
				launched := int(h.Launched.Sub(begin).Seconds())
				if h.gone && h.ended > stored && launched < h.ended {
					missing += h.Paid * int64(h.ended-max(launched, stored))
					h.ended = 0 // it is missing once
				}
			}
			lost = lost || changes != w.changes // a command was changed, and it isn't known when
			l.Observe(w.observe())
			save(false)
		}
		got, want := l.Since(begin).Total, w.total()
		rounded := int64(w.now) * int64(len(w.machines))
		if off := got.Removed - want.removed; !lost && (off > rounded || off < -rounded || got.NoCredit != want.noCredit) {
			t.Fatalf("removed %d, %d seconds unknown; want %d, %d", got.Removed, got.NoCredit, want.removed, want.noCredit)
		}
		most := int64(0)
		for _, k := range w.orders {
			for _, h := range k.removed {
				most += h.at.Paid * int64(w.now-k.began)
			}
		}
		if got.Removed > most {
			t.Fatalf("%d credited, more than %d, which the removed nodes would have cost", got.Removed, most)
		}
		if !lost {
			known++
		}
		if got.Cost != want.cost-missing {
			t.Fatalf("cost %d, want %d less %d", got.Cost, want.cost, missing)
		}
		if got.Headroom > want.headroom {
			t.Fatalf("headroom %d of %d", got.Headroom, want.headroom)
		}
	})
	if known == 0 {
		t.Error("no town was drawn whose commands are all known")
	}
}

// TestClockSetBack: nothing is counted again when a clock is set back.
func TestClockSetBack(t *testing.T) {
	l := &Ledger{}
	m := []Machine{{UID: "a", Rates: Rates{Paid: 3600}, Launched: begin}}
	for _, s := range []int{0, 100, 40, 60, 99, 150} {
		l.Observe(&Observation{Now: begin.Add(time.Duration(s) * time.Second), Machines: m})
	}
	if got := l.Since(begin).Total.Cost; got != 150*3600 {
		t.Errorf("%d seconds counted, want 150", got/3600)
	}
}

// TestMachineListedLate counts a machine from its launch, also if the cloud lists it late or leaves it out once.
func TestMachineListedLate(t *testing.T) {
	l := &Ledger{}
	m := []Machine{{UID: "a", Rates: Rates{Paid: 3600}, Launched: begin.Add(10 * time.Second)}}
	for s, listed := range []bool{false, false, true, false, true, true} {
		o := &Observation{Now: begin.Add(time.Duration(s) * 10 * time.Second)}
		if listed {
			o.Machines = m
		}
		l.Observe(o)
	}
	if got := l.Since(begin).Total.Cost; got != 40*3600 {
		t.Errorf("%d seconds counted, want 40", got/3600)
	}
}

// TestUnknown: what is not known is said, and costs nothing.
func TestUnknown(t *testing.T) {
	l := &Ledger{}
	spot := Series{"p", model.Spot}
	o := &Observation{Now: begin, Machines: []Machine{{UID: "a", Launched: begin}, {UID: "b", Launched: begin, Series: spot, Rates: Rates{Paid: 100, Catalog: 100}}, {UID: "c", Launched: begin, Rates: Rates{Paid: 7, Catalog: 7, OnDemand: 7}}}}
	l.Observe(o)
	o.Now = begin.Add(time.Minute)
	l.Observe(o)
	recent, days, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if l, err = Decode(recent, days); err != nil {
		t.Fatal(err)
	}
	o.Now, o.Machines = begin.Add(3*time.Minute), o.Machines[:2]
	l.Observe(o)
	want := Sum{Cost: 100*180 + 7*60, Catalog: 100*180 + 7*60, OnDemand: 100*180 + 7*60, NoPrice: 180, NoOnDemand: 180, Ended: 120, Unseen: 120}
	if got := l.Since(begin).Total; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestBoundedSize keeps thirteen months of more series than have room, at prices that do not compress.
func TestBoundedSize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := &Ledger{}
	o := &Observation{Now: begin}
	for i := range 40 {
		o.Machines = append(o.Machines, Machine{UID: fmt.Sprint(i), Series: Series{fmt.Sprint("a-pool-with-a-long-name-", i), model.Spot}, Launched: begin})
	}
	const days = 450
	for range days * 24 {
		l.Observe(o)
		o.Now = o.Now.Add(time.Hour)
		for i := range o.Machines {
			m := &o.Machines[i]
			m.Rates = Rates{rnd.Int64N(1e12), rnd.Int64N(1e12), rnd.Int64N(1e12)} // as of a hundred thousand machines
		}
	}
	o.Replicas = map[model.Workload]int{}
	for i := range mostMoves {
		c := Candidate{Command: fmt.Sprint("c", i), UID: fmt.Sprintf("%x-%x", rnd.Uint64(), rnd.Uint64()), Leaving: i%10 > 0}
		for range mostShares / 2 {
			w := model.Workload{Namespace: "shop", Kind: "Deployment", Name: fmt.Sprintf("%x", rnd.Uint64())}
			o.Replicas[w] = 1
			c.Pods = append(c.Pods, Share{w, 2 * whole / mostShares})
		}
		o.Candidates = append(o.Candidates, c)
		o.Machines = append(o.Machines, Machine{UID: c.UID, Launched: o.Now})
	}
	l.Observe(o)
	recent, past, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d and %d bytes, %d buckets", len(recent), len(past), len(l.buckets.of))
	if len(recent) > MostStoredBytes || len(past) > MostStoredBytes {
		t.Errorf("%d and %d bytes, at most %d", len(recent), len(past), MostStoredBytes)
	}
	a := l.Since(time.Time{})
	if age := o.Now.Sub(a.From); age < 396*24*time.Hour || age > 402*24*time.Hour || len(a.Series) > mostSeries+3 {
		t.Errorf("%s kept of %d series", age, len(a.Series))
	}
	again, err := Decode(recent, past)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Since(time.Time{}).Total; got != a.Total {
		t.Errorf("read again: %+v, want %+v", got, a.Total)
	}
}

// TestBoundedCommands stores more commands than have room: each is credited on, or its time is counted as unknown.
func TestBoundedCommands(t *testing.T) {
	unknown, coarse := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		const price, replicas, life = 3600, 3, 20 * 24 * time.Hour
		commands, each := rapid.SampledFrom([]int{40, 10, 1}).Draw(t, "commands"), rapid.IntRange(1, 4).Draw(t, "nodes of each")
		pods := rapid.SampledFrom([]int{8, 2, 1}).Draw(t, "workloads on each node")
		going := rapid.IntRange(0, commands).Draw(t, "commands under way")
		days := rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "days before")
		most := rapid.SampledFrom([]int{3 << 10, 5 << 10, 10 << 10}).Draw(t, "bytes")
		l, o := &Ledger{}, &Observation{Now: begin, Replicas: map[model.Workload]int{}}
		for i := range rapid.SampledFrom([]int{1, 20}).Draw(t, "NodePools") {
			o.Machines = append(o.Machines, Machine{UID: fmt.Sprint("stays", i), Series: Series{fmt.Sprint("p", i), model.Spot}, Rates: Rates{price, price, price}, Launched: begin})
		}
		staying := len(o.Machines)
		for range days * 24 {
			l.Observe(o)
			o.Now = o.Now.Add(time.Hour)
		}
		began := o.Now
		for c := range commands {
			for range each {
				x := Candidate{Command: fmt.Sprint("command", c), UID: fmt.Sprint("gone", len(o.Machines)), Leaving: true, Rates: Rates{price, price, price}, Expires: began.Add(life)}
				for range pods {
					w := model.Workload{Namespace: "shop", Kind: "Deployment", Name: fmt.Sprintf("%x", rapid.Uint64().Draw(t, "name"))}
					o.Replicas[w] = replicas
					x.Pods = append(x.Pods, Share{w, whole / int64(pods)})
				}
				o.Candidates = append(o.Candidates, x)
				o.Machines = append(o.Machines, Machine{UID: x.UID, Rates: x.Rates, Launched: began})
			}
		}
		l.Observe(o)
		restart := func() {
			recent, past, err := l.encodeWithin(most)
			if errors.Is(err, ErrTooLarge) {
				t.Skip("less has no room")
			}
			if err != nil || len(recent) > most || len(past) > most {
				t.Fatalf("%d and %d bytes, at most %d: %v", len(recent), len(past), most, err)
			}
			if l, err = Decode(recent, past); err != nil {
				t.Fatal(err)
			}
		}
		restart()
		o.Candidates = o.Candidates[:going*each]
		o.Machines = o.Machines[:staying+going*each]
		l.Observe(o)
		o.Machines, o.Candidates = o.Machines[:staying], nil
		l.Observe(o)
		const hours = 4
		for range hours {
			restart()
			o.Now = o.Now.Add(time.Hour)
			l.Observe(o)
		}
		a := l.Since(time.Time{})
		got := a.Total
		rounded := int64(hours * 3600 * commands * each)
		if want := int64(commands) * hours * 3600 * price * int64(each); got.Removed+got.NoCredit*price*int64(each) > want || got.Removed+got.NoCredit*price*int64(each) < want-rounded {
			t.Fatalf("%d credited and %d seconds unknown, want %d in all", got.Removed, got.NoCredit, want)
		}
		if want := int64(days*24+hours) * 3600 * price * int64(staying); got.Cost != want {
			t.Fatalf("cost %d, want %d", got.Cost, want)
		}
		if got.NoCredit > 0 {
			unknown++
		}
		if slices.ContainsFunc(a.Series, func(s Series) bool { return s.Pool == others }) { // fewer are drawn than are kept apart
			coarse++
		}
	})
	if unknown == 0 || coarse == 0 {
		t.Errorf("commands given up in %d ledgers, NodePools joined in %d", unknown, coarse)
	}
}

func gzipped(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // into memory
	_ = z.Close()
	return b.Bytes()
}

// FuzzDecode: whatever is stored is refused, or can be counted on.
func FuzzDecode(f *testing.F) {
	l := &Ledger{}
	l.Observe(&Observation{Now: begin})
	l.Observe(&Observation{Now: begin.Add(time.Minute), Machines: []Machine{{UID: "a", Rates: Rates{Paid: 1}, Launched: begin}}})
	recent, days, err := l.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(recent, days, []byte(nil))
	f.Add([]byte(nil), []byte(nil), []byte(`{"format":1,"until":99,"moves":[null,{"command":"c","shares":[{"weight":9}]}],"buckets":[null,{"start":60,"length":60,"sums":[{}]}]}`))
	f.Fuzz(func(t *testing.T, recent, days, text []byte) {
		if len(text) > 0 {
			recent = gzipped(text)
		}
		l, err := Decode(recent, days)
		if err != nil {
			return
		}
		l.Observe(&Observation{Now: begin, Replicas: map[model.Workload]int{}})
		if _, _, err := l.Encode(); err != nil {
			t.Error(err)
		}
		l.Since(time.Time{})
	})
}

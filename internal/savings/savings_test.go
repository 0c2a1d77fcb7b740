// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

var begin = time.Date(2026, 7, 1, 9, 58, 0, 0, time.UTC)

var web = model.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}

// town is a drawn cluster, second by second, with a second account of it that adds up each second on its own.
type town struct {
	t        *rapid.T
	now      int // seconds since begin
	machines []*house
	replicas int
	headroom int64
	commands int

	seconds []second
	freeze  bool // prices stay
}

// second is what is true of one.
type second struct{ cost, catalog, onDemand, removed, removedOnDemand, headroom int64 }

type house struct {
	Machine
	gone      bool
	ended     int
	command   string // that removes it
	leaving   bool
	fewest    int // replicas since it is gone
	replicas  int // when its command began
	replaces  string
	expires   int
	removedBy bool // it has gone by its command
}

func (w *town) price() Rates {
	p := int64(4000 * rapid.IntRange(1, 50).Draw(w.t, "price"))
	return Rates{Paid: p, Catalog: p + int64(4000*rapid.IntRange(-1, 1).Draw(w.t, "overlay")), OnDemand: p + int64(4000*rapid.IntRange(0, 20).Draw(w.t, "discount"))}
}

func (w *town) launch(replaces string) {
	n := len(w.machines)
	w.machines = append(w.machines, &house{Machine: Machine{UID: fmt.Sprint("u", n), Series: Series{fmt.Sprint("p", n%3), []string{"on-demand", "spot"}[n%2]}, Rates: w.price(),
		Launched: begin.Add(time.Duration(w.now) * time.Second)}, replaces: replaces, expires: w.now + rapid.IntRange(50, 100_000).Draw(w.t, "expires")})
}

func (w *town) running() []*house {
	return slices.DeleteFunc(slices.Clone(w.machines), func(h *house) bool { return h.gone })
}

// change has something happen.
func (w *town) change() {
	running := w.running()
	pick := func() *house { return running[rapid.IntRange(0, len(running)-1).Draw(w.t, "which")] }
	what := rapid.IntRange(0, 6).Draw(w.t, "what")
	if len(running) == 0 {
		what = 0
	}
	switch what {
	case 0:
		w.launch("")
	case 1: // it dies by itself
		if h := pick(); h.command == "" {
			h.gone, h.ended = true, w.now
		}
	case 2:
		if h := pick(); !w.freeze && h.command == "" && h.replaces == "" {
			h.Rates = w.price()
		}
	case 3: // a command begins
		if h := pick(); h.command == "" && h.replaces == "" {
			w.commands++
			h.command, h.replicas = fmt.Sprint("c", w.commands), w.replicas
			if rapid.Bool().Draw(w.t, "with a replacement") {
				w.launch(h.command)
			}
		}
	case 4: // a command goes on, or is taken back
		switch h := pick(); {
		case h.command == "":
		case h.leaving:
			h.gone, h.ended, h.removedBy, h.fewest = true, w.now, true, h.replicas
		case rapid.IntRange(0, 3).Draw(w.t, "taken back") == 0 && !slices.ContainsFunc(w.machines, func(x *house) bool { return x.replaces == h.command }):
			h.command = ""
		default:
			h.leaving = true
		}
	case 5:
		w.replicas = rapid.IntRange(0, 4).Draw(w.t, "replicas")
	case 6:
		if !w.freeze {
			w.headroom = int64(rapid.IntRange(0, 9).Draw(w.t, "headroom"))
		}
	}
	for _, h := range w.machines {
		h.fewest = min(h.fewest, w.replicas)
	}
}

// pass adds up so many seconds, one by one.
func (w *town) pass(seconds int) {
	for range seconds {
		x := second{headroom: w.headroom}
		for _, h := range w.machines {
			if !h.gone {
				x.cost += h.Paid
				x.catalog += h.Catalog
				x.onDemand += h.OnDemand
			}
			if h.removedBy && w.now < h.expires && h.replicas > 0 {
				x.removed += h.Paid * int64(h.fewest) / int64(h.replicas)
				x.removedOnDemand += h.OnDemand * int64(h.fewest) / int64(h.replicas)
			}
			if h.replaces == "" {
				continue
			}
			of := w.machines[slices.IndexFunc(w.machines, func(o *house) bool { return o.command == h.replaces })]
			switch {
			case !of.removedBy:
				x.removed -= h.Paid
				x.removedOnDemand -= h.OnDemand
			case w.now < of.expires && of.replicas > 0:
				x.removed -= h.Paid * int64(of.fewest) / int64(of.replicas)
				x.removedOnDemand -= h.OnDemand * int64(of.fewest) / int64(of.replicas)
			}
		}
		w.seconds = append(w.seconds, x)
		w.now++
	}
}

func (w *town) total() (x second) {
	for _, s := range w.seconds {
		x = second{x.cost + s.cost, x.catalog + s.catalog, x.onDemand + s.onDemand, x.removed + s.removed, x.removedOnDemand + s.removedOnDemand, x.headroom + s.headroom}
	}
	return x
}

// observe shows the town as it is.
func (w *town) observe() *Observation {
	o := &Observation{Now: begin.Add(time.Duration(w.now) * time.Second), Replicas: map[model.Workload]int{web: w.replicas}, Headroom: w.headroom}
	for _, h := range w.running() {
		o.Machines = append(o.Machines, h.Machine)
		if h.command != "" {
			o.Candidates = append(o.Candidates, Candidate{Command: h.command, UID: h.UID, Series: h.Series, Rates: h.Rates, Leaving: h.leaving,
				Expires: begin.Add(time.Duration(h.expires) * time.Second), Pods: []Share{{web, whole}}})
		}
		if h.replaces != "" && slices.ContainsFunc(w.running(), func(o *house) bool { return o.command == h.replaces }) {
			o.Replacements = append(o.Replacements, Replacement{h.replaces, h.Machine})
		}
	}
	return o
}

func newTown(t *rapid.T) *town { return &town{t: t, replicas: 4} }

// TestLedgerAddsUp compares a ledger with a sum over seconds, however often it is observed in between, and the reference with the sum over
// causes.
func TestLedgerAddsUp(t *testing.T) {
	removed := 0
	rapid.Check(t, func(t *rapid.T) {
		w, often, seldom := newTown(t), &Ledger{}, &Ledger{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			w.change()
			seldom.Observe(w.observe())
			often.Observe(w.observe())
			for range rapid.IntRange(0, 3).Draw(t, "looks") {
				w.pass(rapid.IntRange(0, 200).Draw(t, "seconds"))
				often.Observe(w.observe())
			}
			w.pass(rapid.IntRange(0, 2000).Draw(t, "seconds"))
		}
		seldom.Observe(w.observe())
		often.Observe(w.observe())
		want := w.total()
		for name, l := range map[string]*Ledger{"often": often, "seldom": seldom} {
			a := l.Since(begin)
			s := &a.Total
			got := second{s.Cost, s.Catalog, s.OnDemand, s.Removed, s.RemovedOnDemand, s.Headroom}
			exact := got
			exact.removed, exact.removedOnDemand = want.removed, want.removedOnDemand
			rounded := int64(w.now) * int64(len(w.machines)) // a part of a price is rounded once a second and machine
			if exact != want || max(got.removed-want.removed, want.removed-got.removed, got.removedOnDemand-want.removedOnDemand, want.removedOnDemand-got.removedOnDemand) > rounded {
				t.Fatalf("observed %s: %+v, want %+v", name, got, want)
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
	})
	if removed == 0 {
		t.Error("no command was drawn that has removed a node")
	}
}

// TestRestartsCountOnce ends controllers at any moment, also between the two writes, and has the next one begin with what is stored. What is
// missing is exactly what machines cost that ended before the next controller looked.
func TestRestartsCountOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, l := newTown(t), &Ledger{}
		w.freeze = true
		var recent, days []byte
		stored, missing := 0, int64(0)
		l.Observe(w.observe())
		save := func(half bool) {
			r, d, err := l.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if days = d; !half {
				recent, stored = r, w.now
			}
		}
		save(false)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			w.change()
			l.Observe(w.observe())
			w.pass(rapid.IntRange(0, 2000).Draw(t, "seconds"))
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
				w.pass(rapid.IntRange(0, 2000).Draw(t, "seconds"))
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
			l.Observe(w.observe())
			save(false)
		}
		got, want := l.Since(begin).Total, w.total()
		if got.Cost != want.cost-missing {
			t.Fatalf("cost %d, want %d less %d", got.Cost, want.cost, missing)
		}
		if got.Headroom > want.headroom {
			t.Fatalf("headroom %d of %d", got.Headroom, want.headroom)
		}
	})
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
			m.Rates = Rates{rnd.Int64N(1e8), rnd.Int64N(1e8), rnd.Int64N(1e8)}
		}
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

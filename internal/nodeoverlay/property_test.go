// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeoverlay

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// wanted is the second implementation: for each overlay, for each pair of it and another, for each offering on its own.
// It asks nothing of Apply's code but which offerings an overlay matches and what it makes of a price.
func wanted(pools []Pool, overlays []*Overlay) (applied map[string]bool, price func(pool, at, offering int) int64, amount func(pool, at int, d model.Dim) int64) {
	before := func(a, b *Overlay) bool { return a.Weight > b.Weight || a.Weight == b.Weight && a.Name > b.Name }
	matches := func(o *Overlay, pool, at, offering int) bool {
		t := pools[pool].Types[at]
		return o.matchesOffering(&pools[pool], t, &t.Offerings[offering])
	}
	anyMatches := func(o *Overlay, pool, at int) bool {
		for j := range pools[pool].Types[at].Offerings {
			if matches(o, pool, at, j) {
				return true
			}
		}
		return false
	}
	sets := func(o *Overlay, d model.Dim) bool {
		for _, r := range o.Capacity {
			if r.Dim == d {
				return true
			}
		}
		return false
	}
	clash := func(a, b *Overlay) bool {
		for i := range pools {
			for at, t := range pools[i].Types {
				for j := range t.Offerings {
					if a.Price.IsSet() && b.Price.IsSet() && matches(a, i, at, j) && matches(b, i, at, j) {
						return true
					}
				}
				for _, r := range a.Capacity {
					if sets(b, r.Dim) && anyMatches(a, i, at) && anyMatches(b, i, at) {
						return true
					}
				}
			}
		}
		return false
	}
	applied = map[string]bool{}
	for range overlays { // a chain of conflicts is settled from its first on
		for _, o := range overlays {
			ok := o.Invalid == ""
			for _, b := range overlays {
				ok = ok && !(b != o && b.Weight == o.Weight && before(b, o) && applied[b.Name] && clash(b, o))
			}
			applied[o.Name] = ok
		}
	}
	first := func(wants func(o *Overlay) bool) *Overlay {
		var best *Overlay
		for _, o := range overlays {
			if applied[o.Name] && wants(o) && (best == nil || before(o, best)) {
				best = o
			}
		}
		return best
	}
	price = func(pool, at, offering int) int64 {
		v := pools[pool].Types[at].Offerings[offering].PriceMicro
		if o := first(func(o *Overlay) bool { return o.Price.IsSet() && matches(o, pool, at, offering) }); o != nil {
			return o.Price.Apply(v)
		}
		return v
	}
	amount = func(pool, at int, d model.Dim) int64 {
		if o := first(func(o *Overlay) bool { return sets(o, d) && anyMatches(o, pool, at) }); o != nil {
			for _, r := range o.Capacity {
				if r.Dim == d {
					return r.Amount
				}
			}
		}
		return pools[pool].Types[at].Allocatable.At(d)
	}
	return applied, price, amount
}

// hugePages is a resource of drawn overlays that comes out of memory.
const hugePages = model.FirstExtended + 2

func drawPools(t *rapid.T) []Pool {
	var types []*model.InstanceType
	for i := range rapid.IntRange(1, 4).Draw(t, "types") {
		x := &model.InstanceType{Name: fmt.Sprintf("t%d", i), Allocatable: model.Resources{1000, 1 << 30}}
		x.Labels = model.Labels{model.LabelInstanceType: x.Name, "cpu": strconv.Itoa(1 + i)}
		if rapid.Bool().Draw(t, "has one already") {
			x.Allocatable = x.Allocatable.With(model.FirstExtended, 7)
		}
		for _, z := range []string{"a", "b"} {
			for _, c := range []string{model.OnDemand, model.Spot} {
				if rapid.IntRange(0, 3).Draw(t, "offered") > 0 {
					x.Offerings = append(x.Offerings, model.Offering{Zone: z, CapacityType: c, PriceMicro: rapid.Int64Range(1, 5_000_000).Draw(t, "price")})
				}
			}
		}
		types = append(types, x)
	}
	pools := []Pool{{Name: "p0", Labels: model.Labels{"team": "red"}, Types: types}, {Name: "p1", Types: types[1:]}}
	return pools[:rapid.IntRange(1, 2).Draw(t, "pools")]
}

func drawOverlays(t *rapid.T) []*Overlay {
	var out []*Overlay
	for i := range rapid.IntRange(0, 6).Draw(t, "overlays") {
		o := &Overlay{Name: fmt.Sprintf("o%d", i), Weight: int32(rapid.IntRange(0, 2).Draw(t, "weight"))}
		var err error
		switch rapid.IntRange(0, 3).Draw(t, "price") {
		case 1:
			o.Price, err = ReadPrice(rapid.SampledFrom([]string{"0", "0.5", "1.0000005", "2"}).Draw(t, "fixed"))
		case 2, 3:
			o.Price, err = ReadPriceAdjustment(rapid.SampledFrom([]string{"+0.1", "-0.25", "-100%", "+33.3%", "-.5"}).Draw(t, "adjusted"))
		}
		if err != nil {
			t.Fatal(err)
		}
		for d := model.FirstExtended; d < model.FirstExtended+2; d++ {
			if rapid.IntRange(0, 3).Draw(t, "capacity") == 0 {
				o.Capacity = append(o.Capacity, Resource{fmt.Sprintf("r%d", d), d, rapid.Int64Range(0, 3).Draw(t, "amount")})
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "huge pages") == 0 {
			o.Capacity = append(o.Capacity, Resource{"hugepages-2Mi", hugePages, rapid.SampledFrom([]int64{0, 1 << 28, 1 << 31}).Draw(t, "bytes")})
		}
		add := func(key string, op model.Operator, values ...string) {
			r, err := model.NewRequirement(key, op, values...)
			if err != nil {
				t.Fatal(err)
			}
			o.Requirements = o.Requirements.With(r)
		}
		if rapid.Bool().Draw(t, "by type") {
			add(model.LabelInstanceType, model.OpIn, rapid.SliceOfN(rapid.SampledFrom([]string{"t0", "t1", "t2"}), 1, 2).Draw(t, "types")...)
		}
		if rapid.IntRange(0, 2).Draw(t, "by zone") == 0 {
			add(model.LabelZone, rapid.SampledFrom([]model.Operator{model.OpIn, model.OpNotIn}).Draw(t, "op"), "a")
		}
		if rapid.IntRange(0, 2).Draw(t, "by capacity type") == 0 {
			add(model.LabelCapacityType, model.OpIn, rapid.SampledFrom([]string{model.OnDemand, model.Spot}).Draw(t, "capacity type"))
		}
		if rapid.IntRange(0, 4).Draw(t, "by team") == 0 {
			add("team", rapid.SampledFrom([]model.Operator{model.OpExists, model.OpDoesNotExist}).Draw(t, "op"))
		}
		if rapid.IntRange(0, 4).Draw(t, "by cpu") == 0 {
			add("cpu", rapid.SampledFrom([]model.Operator{model.OpGt, model.OpLte}).Draw(t, "op"), "2")
		}
		if rapid.IntRange(0, 9).Draw(t, "invalid") == 0 {
			o.Invalid = "as it is written"
		}
		out = append(out, o)
	}
	return out
}

// TestApply holds Apply against the second implementation, in any order of overlays and pools, and sees that it changes
// nothing that it was given and hands untouched types back as they are.
func TestApply(t *testing.T) {
	changed, conflicts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pools, overlays := drawPools(t), drawOverlays(t)
		var copies [][]model.InstanceType
		for _, p := range pools {
			var c []model.InstanceType
			for _, x := range p.Types {
				y := *x
				y.Offerings = append([]model.Offering{}, x.Offerings...)
				y.Allocatable = x.Allocatable.Clone()
				c = append(c, y)
			}
			copies = append(copies, c)
		}
		applied, price, amount := wanted(pools, overlays)
		types, verdicts := Apply(pools, overlays)
		for _, o := range overlays {
			v := verdicts[o.Name]
			if got := v.Invalid == "" && v.Conflict == ""; got != applied[o.Name] {
				t.Fatalf("%s applied: %t (%q), want %t", o.Name, got, v.Conflict, applied[o.Name])
			}
			if v.Conflict != "" {
				conflicts++
			}
		}
		for i, p := range pools {
			for at, x := range types[i] {
				was := p.Types[at]
				same := true
				for j := range x.Offerings {
					if got, want := x.Offerings[j].PriceMicro, price(i, at, j); got != want {
						t.Fatalf("%s %s offering %d: %d, want %d", p.Name, x.Name, j, got, want)
					}
					same = same && x.Offerings[j].PriceOverlay == ""
				}
				for d := model.FirstExtended; d < model.FirstExtended+2; d++ {
					if got, want := x.Allocatable.At(d), amount(i, at, d); got != want {
						t.Fatalf("%s %s resource %d: %d, want %d", p.Name, x.Name, d, got, want)
					}
				}
				if got, want := x.Allocatable.At(model.Memory), max(0, 1<<30-amount(i, at, hugePages)); got != want {
					t.Fatalf("%s %s: memory %d beside huge pages of %d, want %d", p.Name, x.Name, got, amount(i, at, hugePages), want)
				}
				if x.Allocatable.At(model.CPU) != 1000 {
					t.Fatalf("%s: cpu %d", x.Name, x.Allocatable.At(model.CPU))
				}
				if same = same && len(x.CapacityOverlays) == 0; same != (x == was) {
					t.Fatalf("%s %s: untouched %t, the same value %t", p.Name, x.Name, same, x == was)
				}
				if !same {
					changed++
				}
				c := copies[i][at]
				if !reflect.DeepEqual(c.Offerings, append([]model.Offering{}, was.Offerings...)) || !c.Allocatable.Equal(was.Allocatable) {
					t.Fatalf("%s was changed where it was handed in", was.Name)
				}
			}
		}
		again, _ := Apply(pools, rapid.Permutation(overlays).Draw(t, "order"))
		if !reflect.DeepEqual(again, types) {
			t.Fatal("the order of overlays matters")
		}
	})
	if changed == 0 || conflicts == 0 {
		t.Fatalf("%d changed types and %d conflicts: nothing was tested", changed, conflicts)
	}
}

// TestApplier changes pools and overlays one after the other and compares an Applier's results with those of Apply.
func TestApplier(t *testing.T) {
	kept, conflicts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var a Applier
		pools, overlays := drawPools(t), drawOverlays(t)
		last := map[string][]*model.InstanceType{}
		for range rapid.IntRange(2, 6).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "change") {
			case 0:
				pools = drawPools(t)
			case 1:
				overlays = drawOverlays(t)
			case 2:
				overlays = rapid.Permutation(overlays).Draw(t, "order of overlays")
			case 3:
				pools = rapid.Permutation(pools).Draw(t, "order of pools")
			default:
				pools = slices.Clone(pools)
				p := &pools[rapid.IntRange(0, len(pools)-1).Draw(t, "pool")]
				if p.Types = slices.Clone(p.Types); rapid.Bool().Draw(t, "fewer") {
					p.Types = p.Types[:len(p.Types)/2]
				}
				if rapid.Bool().Draw(t, "label") {
					p.Labels = model.Labels{"team": rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "team")}
				}
			}
			types, verdicts := a.Apply(pools, overlays)
			wantTypes, wantVerdicts := Apply(pools, overlays)
			if !reflect.DeepEqual(verdicts, wantVerdicts) {
				t.Fatalf("verdicts %+v, want %+v", verdicts, wantVerdicts)
			}
			if !reflect.DeepEqual(types, wantTypes) {
				t.Fatalf("the types differ from those of Apply: %+v, want %+v", types, wantTypes)
			}
			for i, p := range pools {
				if was := last[p.Name]; len(was) > 0 && len(types[i]) == len(was) && &was[0] == &types[i][0] && &was[0] != &p.Types[0] {
					kept++
				}
				last[p.Name] = types[i]
			}
			for _, v := range verdicts {
				if v.Conflict != "" {
					conflicts++
				}
			}
		}
	})
	if kept == 0 || conflicts == 0 {
		t.Fatalf("%d lists kept and %d conflicts: nothing was tested", kept, conflicts)
	}
}

// TestApplierEvaluatesChangedPools counts the pools that an Applier evaluates: those of which the list is new. All are
// evaluated if another set of overlays is applied.
func TestApplierEvaluatesChangedPools(t *testing.T) {
	price := func(name, text string, weight int32, pools ...string) *Overlay {
		p, err := ReadPrice(text)
		if err != nil {
			t.Fatal(err)
		}
		o := &Overlay{Name: name, Weight: weight, Price: p}
		if len(pools) > 0 {
			r, err := model.NewRequirement(model.LabelNodePool, model.OpIn, pools...)
			if err != nil {
				t.Fatal(err)
			}
			o.Requirements = o.Requirements.With(r)
		}
		return o
	}
	list := func() []*model.InstanceType {
		return []*model.InstanceType{{Name: "m", Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 5}}}}
	}
	var pools []Pool
	for i := range 100 {
		pools = append(pools, Pool{Name: fmt.Sprintf("p%d", i), Types: list()})
	}
	var a Applier
	var last [][]*model.InstanceType
	evaluated := func(overlays ...*Overlay) int {
		types, _ := a.Apply(pools, overlays)
		n := 0
		for i := range types {
			if last == nil || &last[i][0] != &types[i][0] {
				n++
			}
		}
		last = types
		return n
	}
	all := price("all", "1", 1)
	one := price("one", "2", 1, "p7")
	for _, step := range []struct {
		name     string
		change   func()
		overlays []*Overlay
		want     int
	}{
		{"the first time", func() {}, []*Overlay{all}, 100},
		{"nothing has changed", func() {}, []*Overlay{all}, 0},
		{"one pool has changed", func() { pools[3].Types = list() }, []*Overlay{all}, 1},
		{"a conflict in one pool: another overlay is applied", func() {}, []*Overlay{all, one}, 100},
		{"a pool without the conflict has changed", func() { pools[3].Types = list() }, []*Overlay{all, one}, 1},
	} {
		step.change()
		if got := evaluated(step.overlays...); got != step.want {
			t.Errorf("%s: %d pools evaluated, want %d", step.name, got, step.want)
		}
	}
	pools[7].Types = pools[7].Types[:0:0] // the conflict is gone, so all is applied everywhere
	if types, verdicts := a.Apply(pools, []*Overlay{all, one}); verdicts["all"].Conflict != "" || types[8][0].Offerings[0].PriceMicro != 1_000_000 {
		t.Errorf("without the conflict: %+v, price %d", verdicts["all"], types[8][0].Offerings[0].PriceMicro)
	}
}

func TestPriceBounds(t *testing.T) {
	for _, c := range []struct {
		text string
		from int64
		want int64
	}{
		{"0", 5, LeastPrice}, {"99999999999999999999", 5, mostPrice}, {"0.0000004", 5, LeastPrice}, {"0.0000015", 5, 2}, {"1", math.MaxInt64, 1_000_000},
		{"-100%", 5, LeastPrice}, {"+0%", 5, 5}, {"-0.000001", 5, 4}, {"-1", 5, LeastPrice}, {"+50%", 5, 8}, {"+900000000000000%", 1_000_000, mostPrice},
	} {
		read := ReadPrice
		if c.text[0] == '+' || c.text[0] == '-' {
			read = ReadPriceAdjustment
		}
		p, err := read(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Apply(c.from); got != c.want {
			t.Errorf("%s of %d: %d, want %d", c.text, c.from, got, c.want)
		}
	}
	for _, text := range []string{"", "x", "1e3", "0x1", "1/2", "1_0", ".", "1.2.3", "-1", "+1", " 1"} {
		if _, err := ReadPrice(text); err == nil {
			t.Errorf("price %q is taken", text)
		}
	}
	for _, text := range []string{"", "1", "10%", "+", "-%", "-101%", "+1e3", "--1", "+1%%"} {
		if _, err := ReadPriceAdjustment(text); err == nil {
			t.Errorf("adjustment %q is taken", text)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/casetest"
)

func TestMain(m *testing.M) { casetest.Drawn(m, 100, 500_000) }

// universe are the values that tests look at, some of which no requirement lists; the label may also be absent.
var universe = []string{"", "a", "b", "zz", "-3", "0", "1", "2", "3", "4", "5", "007", "5.5", "9223372036854775807"}

var operators = []Operator{OpIn, OpNotIn, OpExists, OpDoesNotExist, OpGt, OpLt, OpGte, OpLte}

// drawn is a requirement and how it was asked for.
type drawn struct {
	Requirement
	op     Operator
	values []string
}

func drawRequirement(t *rapid.T, key string) drawn {
	d := drawn{op: rapid.SampledFrom(operators).Draw(t, "operator")}
	switch d.op {
	case OpIn, OpNotIn:
		d.values = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "1", "2", "3", "4", "5"}), 1, 6).Draw(t, "values")
	case OpGt, OpLt, OpGte, OpLte:
		d.values = []string{strconv.Itoa(rapid.IntRange(0, 6).Draw(t, "bound"))}
	}
	var err error
	if d.Requirement, err = NewRequirement(key, d.op, d.values...); err != nil {
		t.Fatal(err)
	}
	return d
}

// everywhere calls f for each value of the universe and for absence.
func everywhere(f func(value string, present bool)) {
	for _, v := range universe {
		f(v, true)
	}
	f("", false)
}

// TestMatchesAsKubernetesDoes compares single operators with apimachinery, which knows all but the last two.
func TestMatchesAsKubernetesDoes(t *testing.T) {
	theirs := map[Operator]selection.Operator{OpIn: selection.In, OpNotIn: selection.NotIn, OpExists: selection.Exists,
		OpDoesNotExist: selection.DoesNotExist, OpGt: selection.GreaterThan, OpLt: selection.LessThan}
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawRequirement(t, "k")
		values := slices.Clone(d.values)
		op, known := theirs[d.op]
		if !known { // at least 3 is more than 2
			n, _ := strconv.Atoi(values[0])
			op = selection.GreaterThan
			values[0] = strconv.Itoa(n - 1)
			if d.op == OpLte {
				op = selection.LessThan
				values[0] = strconv.Itoa(n + 1)
			}
		}
		if len(values) == 1 && values[0] == "-1" {
			return // no label value, for them
		}
		r, err := labels.NewRequirement("k", op, values)
		if err != nil {
			t.Fatal(err)
		}
		everywhere(func(v string, present bool) {
			set := labels.Set{}
			if present {
				set["k"] = v
			}
			compared++
			if got, want := d.Matches(v, present), r.Matches(set); got != want {
				t.Fatalf("%s %s %v on %q (present %t): %t, Kubernetes says %t", "k", d.op, d.values, v, present, got, want)
			}
		})
	})
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
}

// TestIntersectIsAnd holds the algebra against the universe: the intersection has what both have, and no more.
func TestIntersectIsAnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all Requirement
		var parts []drawn
		for i := range rapid.IntRange(1, 4).Draw(t, "requirements") {
			d := drawRequirement(t, "k")
			d.MinValues = rapid.IntRange(0, 3).Draw(t, "min values")
			if parts = append(parts, d); i == 0 {
				all = d.Requirement
			} else {
				all = all.Intersect(d.Requirement)
			}
		}
		least := 0
		everywhere(func(v string, present bool) {
			want := true
			for _, p := range parts {
				want = want && p.Matches(v, present)
				least = max(least, p.MinValues)
			}
			if got := all.Matches(v, present); got != want {
				t.Fatalf("%v intersected is %s; %q (present %t): %t, each says %t", parts, all, v, present, got, want)
			}
			if want && all.Empty() {
				t.Fatalf("%s is called empty and has %q (present %t)", all, v, present)
			}
			if want && present && !all.HasValue() {
				t.Fatalf("%s is said to have no value and has %q", all, v)
			}
		})
		if all.MinValues != least {
			t.Fatalf("minValues %d, the greatest asked for is %d", all.MinValues, least)
		}
		if !slices.IsSorted(all.Values) || len(slices.Compact(slices.Clone(all.Values))) != len(all.Values) {
			t.Fatalf("not in normal form: %q", all.Values)
		}
		for _, p := range parts {
			if x, y := all.Intersect(p.Requirement), all; key(x) != key(y) {
				t.Fatalf("%s, a part of it put in again: %s", y, x)
			}
			if x, y := p.Intersect(all), all.Intersect(p.Requirement); key(x) != key(y) {
				t.Fatalf("the order matters: %s, %s", x, y)
			}
		}
	})
}

func key(r Requirement) string { return Requirements{r}.Key() }

// TestEmptyMeansNothing looks for a member wherever a requirement on integers is not called empty.
func TestEmptyMeansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo, hi := rapid.IntRange(-2, 5).Draw(t, "from"), rapid.IntRange(-2, 5).Draw(t, "to")
		var out []string
		for n := -2; n <= 5; n++ {
			if rapid.Bool().Draw(t, "excluded") {
				out = append(out, strconv.Itoa(n))
			}
		}
		must := func(op Operator, values ...string) Requirement {
			r, err := NewRequirement("k", op, values...)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := must(OpGte, strconv.Itoa(lo)).Intersect(must(OpLte, strconv.Itoa(hi))).Intersect(must(OpNotIn, out...))
		found := false
		for n := lo; n <= hi; n++ {
			found = found || r.Matches(strconv.Itoa(n), true)
		}
		if r.Empty() == found {
			t.Fatalf("%s: empty %t, has a member %t", r, r.Empty(), found)
		}
	})
}

func TestEdgesOfTheIntegers(t *testing.T) {
	for _, c := range []struct {
		op    Operator
		value int64
		empty bool
		has   int64
	}{
		{OpGt, math.MaxInt64, true, 0}, {OpLt, math.MinInt64, true, 0},
		{OpGte, math.MaxInt64, false, math.MaxInt64}, {OpLte, math.MinInt64, false, math.MinInt64},
		{OpGt, math.MaxInt64 - 1, false, math.MaxInt64}, {OpLt, math.MinInt64 + 1, false, math.MinInt64},
	} {
		r, err := NewRequirement("k", c.op, strconv.FormatInt(c.value, 10))
		if err != nil {
			t.Fatal(err)
		}
		if r.Empty() != c.empty {
			t.Errorf("%s %d: empty %t", c.op, c.value, r.Empty())
		}
		if !c.empty && !r.Matches(strconv.FormatInt(c.has, 10), true) {
			t.Errorf("%s %d: %d is not in it", c.op, c.value, c.has)
		}
	}
}

func TestRequirementsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		op     Operator
		values []string
		says   string
	}{
		{OpIn, nil, "requirement k: operator In needs at least one value"},
		{OpGt, nil, "requirement k: operator Gt needs exactly one value, has 0"},
		{OpLte, []string{"1", "2"}, "requirement k: operator Lte needs exactly one value, has 2"},
		{OpGt, []string{"x"}, `requirement k: operator Gt needs an integer, has "x"`},
		{"Like", []string{"x"}, `requirement k: unknown operator "Like", use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte`},
	} {
		if _, err := NewRequirement("k", c.op, c.values...); err == nil || err.Error() != c.says {
			t.Errorf("%s %v: %v, want %s", c.op, c.values, err, c.says)
		}
	}
}

// TestRequirementsAreAnd holds conjunctions over several labels against their parts, in any order.
func TestRequirementsAreAnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []Requirement
		for range rapid.IntRange(0, 5).Draw(t, "requirements") {
			parts = append(parts, drawRequirement(t, rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "key")).Requirement)
		}
		all := NewRequirements(parts...)
		l := Labels{}
		for _, k := range []string{"x", "y", "z"} {
			if rapid.Bool().Draw(t, "present") {
				l[k] = rapid.SampledFrom(universe).Draw(t, "value")
			}
		}
		want := true
		for _, p := range parts {
			v, ok := l[p.Key]
			want = want && p.Matches(v, ok)
		}
		if all.Matches(l) != want || (all.Mismatch(l) == nil) != want {
			t.Fatalf("%s on %v: %t, each says %t", all, l, all.Matches(l), want)
		}
		if !slices.IsSortedFunc(all, func(a, b Requirement) int { return map[bool]int{true: -1, false: 1}[a.Key < b.Key] }) {
			t.Fatalf("keys are not sorted and unique: %s", all)
		}
		if other := NewRequirements(rapid.Permutation(parts).Draw(t, "order")...); other.Key() != all.Key() {
			t.Fatalf("the order matters: %s, %s", all, other)
		}
		n := rapid.IntRange(0, len(parts)).Draw(t, "first")
		first := NewRequirements(parts[:n]...)
		before := first.Key()
		if whole := first.With(parts[n:]...); whole.Key() != all.Key() {
			t.Fatalf("in two goes: %s, at once: %s", whole, all)
		}
		if first.Key() != before {
			t.Fatalf("With changed what it was called on: %s", first)
		}
		for _, k := range []string{"x", "y", "z"} {
			i := slices.IndexFunc(all, func(r Requirement) bool { return r.Key == k })
			if got := all.Get(k); (got == nil) != (i < 0) || got != nil && got != &all[i] {
				t.Fatalf("Get %s: %v", k, got)
			}
		}
	})
}

func TestRequirementsReadWell(t *testing.T) {
	must := func(op Operator, values ...string) Requirement {
		r, err := NewRequirement("k", op, values...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	many := must(OpExists)
	many.MinValues = 3
	for want, r := range map[string]Requirement{
		"k In [a b]":            must(OpIn, "b", "a", "b"),
		"k NotIn [a]":           must(OpNotIn, "a"),
		`k In ["" a]`:           must(OpIn, "a", ""),
		`k In [""]`:             must(OpIn, ""),
		`k NotIn [""]`:          must(OpNotIn, ""),
		"k Exists":              must(OpExists),
		"k DoesNotExist":        must(OpDoesNotExist),
		"k Gt 5":                must(OpGt, "5"),
		"k Lt 5":                must(OpLt, "5"),
		"k Gte 6":               must(OpGte, "6"),
		"k Gte 7 Lt 9":          must(OpGt, "5").Intersect(must(OpGte, "7")).Intersect(must(OpLt, "9")).Intersect(must(OpLte, "9")),
		"k NotIn [3] Gt 1 Lt 5": must(OpGt, "1").Intersect(must(OpLt, "5")).Intersect(must(OpNotIn, "3")),
		"k In []":               must(OpIn, "a").Intersect(must(OpIn, "b")),
		"k Exists minValues 3":  many,
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := NewRequirements(must(OpExists), OneOf("a", "x")).String(); got != "a In [x], k Exists" {
		t.Errorf("%q", got)
	}
}

func FuzzNewRequirement(f *testing.F) {
	f.Add("k", "In", "a")
	f.Add("k", "Gt", "9223372036854775807")
	f.Add("k", "Lt", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, k, op, v string) {
		r, err := NewRequirement(k, Operator(op), v)
		if err != nil {
			return
		}
		l := Labels{k: v}
		if got, want := NewRequirements(r).Matches(l), r.Matches(v, true); got != want {
			t.Fatalf("%s on %v: %t, alone %t", r, maps.Clone(l), got, want)
		}
		if x := r.Intersect(r); key(x) != key(r) {
			t.Fatalf("%s with itself is %s", r, x)
		}
	})
}

// A value is found wherever there is one, and satisfies the requirement.
func TestAnyValue(t *testing.T) {
	for _, c := range []struct {
		op     Operator
		values []string
		want   string
	}{
		{OpIn, []string{"b", "a"}, "a"}, {OpExists, nil, "any"}, {OpGt, []string{"3"}, "4"}, {OpLt, []string{"9"}, "8"}, {OpGte, []string{"3"}, "3"},
		{OpNotIn, []string{"any"}, "anyy"}, {OpDoesNotExist, nil, ""}, {OpGt, []string{"9223372036854775807"}, ""},
	} {
		r, err := NewRequirement("example.com/key", c.op, c.values...)
		if err != nil {
			t.Fatal(err)
		}
		have, ok := r.AnyValue()
		if have != c.want || ok != (c.want != "") || ok && !r.Matches(have, true) {
			t.Errorf("%s: %q, %t; want %q", r, have, ok, c.want)
		}
	}
	low, _ := NewRequirement("example.com/key", OpGt, "3")
	not, _ := NewRequirement("example.com/key", OpNotIn, "4", "5")
	both := low.Intersect(not)
	if have, ok := both.AnyValue(); have != "6" || !ok {
		t.Errorf("%s: %q, %t; want 6", both, have, ok)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Labels are the labels of an object. Treated as immutable.
type Labels map[string]string

// MergeLabels returns new labels: those of a, and those of b in their place.
func MergeLabels(a, b Labels) Labels {
	out := make(Labels, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// Requirement is the set of values that one label may have, in normal form. Every Kubernetes operator becomes one of these,
// and the intersection of two is again one:
//
//	In a,b          {a,b}
//	NotIn a,b       all but {a,b}, or absent
//	Exists          all
//	DoesNotExist    none, or absent
//	Gt 5            all, from 6
//	Lt 5            all, up to 4
type Requirement struct {
	Key         string
	Complement  bool     // Values are what is excluded
	Values      []string // sorted, unique
	AllowAbsent bool     // an object without the label matches too
	MinIsGt     bool     // Min is written as Gt of the number before it
	MaxIsLt     bool     // Max is written as Lt of the number after it
	Min, Max    int64    // inclusive bounds on the value read as an integer; math.MinInt64 and MaxInt64 when open
	MinValues   int      // the choice left to the provider must keep this many distinct values; 0: no such rule
}

// Operator is a Kubernetes requirement operator.
type Operator string

// The operators of node affinity, label selectors and NodePool requirements.
const (
	OpIn           Operator = "In"
	OpNotIn        Operator = "NotIn"
	OpExists       Operator = "Exists"
	OpDoesNotExist Operator = "DoesNotExist"
	OpGt           Operator = "Gt"
	OpLt           Operator = "Lt"
	OpGte          Operator = "Gte"
	OpLte          Operator = "Lte"
)

// NewRequirement puts an operator and its values into normal form. It fails for an unknown operator, for In without values, and
// for a bound that is not one integer.
func NewRequirement(key string, op Operator, values ...string) (Requirement, error) {
	r := Requirement{Key: key, Min: math.MinInt64, Max: math.MaxInt64}
	switch op {
	case OpIn:
		if len(values) == 0 {
			return r, fmt.Errorf("requirement %s: operator In needs at least one value", key)
		}
		r.Values = sortedUnique(values)
	case OpNotIn:
		r.Complement, r.AllowAbsent, r.Values = true, true, sortedUnique(values)
	case OpExists:
		r.Complement = true
	case OpDoesNotExist:
		r.AllowAbsent = true
	case OpGt, OpLt, OpGte, OpLte:
		if len(values) != 1 {
			return r, fmt.Errorf("requirement %s: operator %s needs exactly one value, has %d", key, op, len(values))
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return r, fmt.Errorf("requirement %s: operator %s needs an integer, has %q", key, op, values[0])
		}
		r.Complement = true
		switch op {
		case OpGt:
			if n == math.MaxInt64 {
				r.Complement = false // nothing is greater
				break
			}
			r.Min, r.MinIsGt = n+1, true
		case OpGte:
			r.Min = n
		case OpLt:
			if n == math.MinInt64 {
				r.Complement = false
				break
			}
			r.Max, r.MaxIsLt = n-1, true
		case OpLte:
			r.Max = n
		}
	default:
		return r, fmt.Errorf("requirement %s: unknown operator %q, use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte", key, op)
	}
	return r, nil
}

// OneOf is the requirement that a label has one of the values.
func OneOf(key string, values ...string) Requirement {
	return Requirement{Key: key, Values: sortedUnique(values), Min: math.MinInt64, Max: math.MaxInt64}
}

func sortedUnique(v []string) []string {
	out := slices.Clone(v)
	sort.Strings(out)
	return slices.Compact(out)
}

// Matches reports whether an object whose label has this value (or lacks it) satisfies the requirement.
func (r *Requirement) Matches(value string, present bool) bool {
	if !present {
		return r.AllowAbsent
	}
	_, listed := slices.BinarySearch(r.Values, value)
	return listed != r.Complement && r.inBounds(value)
}

// ListsValues reports whether the label must be there with one of the values listed, so that what satisfies the requirement can
// be looked up by them.
func (r *Requirement) ListsValues() bool { return !r.Complement && !r.AllowAbsent && len(r.Values) > 0 }

// HasMinValues reports whether a requirement asks for several values to choose from.
func HasMinValues(r Requirement) bool { return r.MinValues > 0 }

func (r *Requirement) bounded() bool { return r.Min != math.MinInt64 || r.Max != math.MaxInt64 }

func (r *Requirement) inBounds(value string) bool {
	if !r.bounded() {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && r.Min <= n && n <= r.Max
}

// AnyValue returns a value that satisfies the requirement, the same each time: the first that it lists, else the number
// at its bound, else the word "any". It returns false where no value does.
func (r *Requirement) AnyValue() (string, bool) {
	switch {
	case !r.HasValue():
		return "", false
	case !r.Complement:
		return r.Values[0], true
	case r.Min != math.MinInt64:
		for n := r.Min; ; n++ { // ends: at most len(r.Values) numbers are excluded, and one is not
			if v := strconv.FormatInt(n, 10); r.Matches(v, true) {
				return v, true
			}
		}
	case r.Max != math.MaxInt64:
		for n := r.Max; ; n-- {
			if v := strconv.FormatInt(n, 10); r.Matches(v, true) {
				return v, true
			}
		}
	}
	v := "any"
	for !r.Matches(v, true) {
		v += "y"
		if len(v) > 60 {
			return "", false // sixty values of this form are excluded; a label's value is no longer than 63 bytes
		}
	}
	return v, true
}

// Intersect returns what satisfies both. The keys must be equal.
func (r Requirement) Intersect(o Requirement) Requirement {
	out := Requirement{
		Key: r.Key, AllowAbsent: r.AllowAbsent && o.AllowAbsent,
		Min: max(r.Min, o.Min), Max: min(r.Max, o.Max), MinValues: max(r.MinValues, o.MinValues),
	}
	out.MinIsGt = r.MinIsGt && r.Min == out.Min || o.MinIsGt && o.Min == out.Min
	out.MaxIsLt = r.MaxIsLt && r.Max == out.Max || o.MaxIsLt && o.Max == out.Max
	switch {
	case r.Complement && o.Complement:
		out.Complement = true
		out.Values = sortedUnique(append(slices.Clone(r.Values), o.Values...))
	case r.Complement:
		out.Values = without(o.Values, r.Values)
	case o.Complement:
		out.Values = without(r.Values, o.Values)
	default:
		for _, v := range r.Values {
			if _, ok := slices.BinarySearch(o.Values, v); ok {
				out.Values = append(out.Values, v)
			}
		}
	}
	if !out.Complement && out.bounded() {
		kept := out.Values[:0:0]
		for _, v := range out.Values {
			if out.inBounds(v) {
				kept = append(kept, v)
			}
		}
		out.Values, out.Min, out.Max, out.MinIsGt, out.MaxIsLt = kept, math.MinInt64, math.MaxInt64, false, false
	}
	return out
}

func without(v, drop []string) []string {
	var out []string
	for _, s := range v {
		if _, ok := slices.BinarySearch(drop, s); !ok {
			out = append(out, s)
		}
	}
	return out
}

// Empty reports whether nothing, present or absent, can satisfy the requirement. A complement with open or wide bounds is taken to
// have a member; one whose bounds cross, or whose every value inside the bounds is excluded, has none.
func (r *Requirement) Empty() bool {
	if r.AllowAbsent {
		return false
	}
	return !r.HasValue()
}

// HasValue reports whether some present value satisfies the requirement.
func (r *Requirement) HasValue() bool {
	if !r.Complement {
		return len(r.Values) > 0
	}
	if r.Min > r.Max {
		return false
	}
	if r.bounded() && r.Max-r.Min >= 0 && r.Max-r.Min < int64(len(r.Values)) {
		for n := r.Min; n <= r.Max; n++ {
			if r.Matches(strconv.FormatInt(n, 10), true) {
				return true
			}
		}
		return false
	}
	return true
}

// LowerBound returns the lower bound with the operator with which it is written: Gt or Gte. ok is false if there is none.
func (r *Requirement) LowerBound() (op Operator, n int64, ok bool) {
	if r.MinIsGt {
		return OpGt, r.Min - 1, true
	}
	return OpGte, r.Min, r.Min != math.MinInt64
}

// UpperBound returns the upper bound with the operator with which it is written: Lt or Lte. ok is false if there is none.
func (r *Requirement) UpperBound() (op Operator, n int64, ok bool) {
	if r.MaxIsLt {
		return OpLt, r.Max + 1, true
	}
	return OpLte, r.Max, r.Max != math.MaxInt64
}

// String writes the requirement as a person would.
func (r Requirement) String() string {
	var b strings.Builder
	b.WriteString(r.Key)
	switch {
	case !r.Complement && len(r.Values) == 0 && r.AllowAbsent:
		b.WriteString(" DoesNotExist")
	case !r.Complement:
		b.WriteString(" In [" + ValuesText(r.Values) + "]")
	case len(r.Values) > 0:
		b.WriteString(" NotIn [" + ValuesText(r.Values) + "]")
	case !r.bounded():
		b.WriteString(" Exists")
	}
	if op, n, ok := r.LowerBound(); ok {
		b.WriteString(" " + string(op) + " " + strconv.FormatInt(n, 10))
	}
	if op, n, ok := r.UpperBound(); ok {
		b.WriteString(" " + string(op) + " " + strconv.FormatInt(n, 10))
	}
	if r.MinValues > 0 {
		b.WriteString(" minValues " + strconv.Itoa(r.MinValues))
	}
	return b.String()
}

// ValuesText writes values with spaces between them, the empty value as "".
func ValuesText(values []string) string {
	if !slices.Contains(values, "") {
		return strings.Join(values, " ")
	}
	out := slices.Clone(values)
	for i, v := range out {
		if v == "" {
			out[i] = `""`
		}
	}
	return strings.Join(out, " ")
}

// Requirements are one Requirement a key, all of which must hold, sorted by key. As a label selector: empty matches everything.
type Requirements []Requirement

// NewRequirements sorts, and intersects those of one key.
func NewRequirements(rs ...Requirement) Requirements {
	var out Requirements
	return out.With(rs...)
}

// fewRequirements are put into their places one by one; more are sorted first.
const fewRequirements = 16

// With returns the conjunction as a new value.
func (rs Requirements) With(more ...Requirement) Requirements {
	if len(more) == 0 {
		return rs
	}
	if len(more) > fewRequirements {
		return rs.merge(more)
	}
	out := make(Requirements, len(rs), len(rs)+len(more))
	copy(out, rs)
	for _, m := range more {
		i := sort.Search(len(out), func(i int) bool { return out[i].Key >= m.Key })
		if i < len(out) && out[i].Key == m.Key {
			out[i] = out[i].Intersect(m)
			continue
		}
		out = slices.Insert(out, i, m)
	}
	return out
}

// merge is With for many.
func (rs Requirements) merge(more []Requirement) Requirements {
	all := append(append(make([]Requirement, 0, len(rs)+len(more)), rs...), more...)
	slices.SortStableFunc(all, func(a, b Requirement) int { return strings.Compare(a.Key, b.Key) })
	out := all[:0]
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Key == all[0].Key {
			n++
		}
		one := intersectAll(all[:n])
		out, all = append(out, one), all[n:]
	}
	return out
}

// intersectAll returns what satisfies all of a list, whose keys are equal.
func intersectAll(list []Requirement) Requirement {
	if len(list) == 1 {
		return list[0]
	}
	out := Requirement{Key: list[0].Key, Complement: true, AllowAbsent: true, Min: math.MinInt64, Max: math.MaxInt64}
	var excluded []string // put in order once and not with each of the list
	for i := range list {
		if r := list[i]; r.Complement {
			excluded = append(excluded, r.Values...)
			r.Values = nil
			out = out.Intersect(r)
		}
	}
	out.Values = sortedUnique(excluded)
	for i := range list {
		if !list[i].Complement {
			out = out.Intersect(list[i])
		}
	}
	return out
}

// Get returns the requirement on a key, nil if there is none. The result must not be changed.
func (rs Requirements) Get(key string) *Requirement {
	i := sort.Search(len(rs), func(i int) bool { return rs[i].Key >= key })
	if i < len(rs) && rs[i].Key == key {
		return &rs[i]
	}
	return nil
}

// Matches reports whether labels satisfy every requirement.
func (rs Requirements) Matches(l Labels) bool { return rs.Mismatch(l) == nil }

// Mismatch returns the first requirement that labels do not satisfy, nil if all hold.
func (rs Requirements) Mismatch(l Labels) *Requirement {
	for i := range rs {
		v, ok := l[rs[i].Key]
		if !rs[i].Matches(v, ok) {
			return &rs[i]
		}
	}
	return nil
}

// mayMatch reports whether all requirements hold of labels once those that are missing have been set.
func (rs Requirements) mayMatch(l Labels) bool {
	return !slices.ContainsFunc(rs, func(r Requirement) bool {
		v, ok := l[r.Key]
		return ok && !r.Matches(v, true) || !ok && r.Empty()
	})
}

// Key returns a canonical string, for use in a map key.
func (rs Requirements) Key() string {
	b := make([]byte, 0, 128) // one of a few values is not longer
	for i := range rs {
		r := &rs[i]
		if i > 0 {
			b = append(b, ';')
		}
		b = append(strconv.AppendQuote(b, r.Key), ' ')
		b = append(strconv.AppendBool(b, r.Complement), ' ')
		b = append(strconv.AppendBool(b, r.AllowAbsent), ' ')
		b = append(strconv.AppendInt(b, r.Min, 10), ' ')
		b = append(strconv.AppendInt(b, r.Max, 10), ' ')
		b = append(strconv.AppendInt(b, int64(r.MinValues), 10), ' ', '[')
		for j, v := range r.Values {
			if j > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendQuote(b, v)
		}
		b = append(b, ']')
	}
	return string(b)
}

// String writes them separated by commas.
func (rs Requirements) String() string {
	parts := make([]string, len(rs))
	for i, r := range rs {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}

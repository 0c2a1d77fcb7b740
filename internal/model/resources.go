// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Dim is the position of a resource in every Resources vector of one process. The first four are fixed, extended resources
// are interned behind them in the order they are first seen.
type Dim int

// The fixed dimensions.
const (
	CPU              Dim = iota // milli-cores
	Memory                      // bytes
	EphemeralStorage            // bytes
	Pods                        // pod slots
	FirstExtended
)

// FixedNames are the names of the fixed dimensions, in order. A copy is the start of every ResourceNames table.
func FixedNames() []string { return []string{"cpu", "memory", "ephemeral-storage", "pods"} }

// DimOf returns the dimension whose unit amounts of a resource are in: its own for the fixed ones, FirstExtended for all others,
// which are counted in whole pieces.
func DimOf(resource string) Dim {
	switch resource {
	case "cpu":
		return CPU
	case "memory":
		return Memory
	case "ephemeral-storage":
		return EphemeralStorage
	case "pods":
		return Pods
	}
	return FirstExtended
}

// DevicePrefix begins the names of resources that count the devices of dynamic resource allocation (package devices). The Kubernetes API
// knows no such resources: what is written to it leaves them out.
const DevicePrefix = "devices/"

// IsDevice reports whether a resource counts devices of dynamic resource allocation.
func IsDevice(resource string) bool { return strings.HasPrefix(resource, DevicePrefix) }

// Resources is an amount of each resource, by Dim. A vector shorter than the table of names is zero from there on; nil is zero.
type Resources []int64

// At returns the amount of one resource.
func (r Resources) At(d Dim) int64 {
	if int(d) < len(r) {
		return r[d]
	}
	return 0
}

// With returns a copy in which one resource has the given amount.
func (r Resources) With(d Dim, v int64) Resources {
	out := make(Resources, max(len(r), int(d)+1))
	copy(out, r)
	out[d] = v
	return out
}

// Clone returns a copy that shares nothing.
func (r Resources) Clone() Resources { return slices.Clone(r) }

// Add returns the sum as a new vector.
func (r Resources) Add(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	copy(out, r)
	for i, v := range o {
		out[i] += v
	}
	return out
}

// AddInto adds o times n to r in place, growing it if needed, and returns it. Only for vectors the caller owns.
func (r Resources) AddInto(o Resources, n int64) Resources {
	if n := len(o) - len(r); n > 0 {
		r = append(r, make(Resources, n)...)
	}
	for i, v := range o {
		r[i] += v * n
	}
	return r
}

// Sub returns the difference as a new vector; amounts may be negative.
func (r Resources) Sub(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	copy(out, r)
	for i, v := range o {
		out[i] -= v
	}
	return out
}

// Fits reports whether r is at most room in every resource that r asks for. A zero request fits even where the room is negative,
// as kube-scheduler has it.
func (r Resources) Fits(room Resources) bool {
	for i, v := range r {
		if v > 0 && v > room.At(Dim(i)) {
			return false
		}
	}
	return true
}

// Max returns the elementwise maximum as a new vector.
func (r Resources) Max(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	for i := range out {
		out[i] = max(r.At(Dim(i)), o.At(Dim(i)))
	}
	return out
}

// MaxInto raises r in place to o where o has more, growing it if needed, and returns it. Only for vectors the caller owns.
func (r Resources) MaxInto(o Resources) Resources {
	for i, v := range o {
		if i >= len(r) {
			r = append(r, 0)
		}
		r[i] = max(r[i], v)
	}
	return r
}

// Min returns the elementwise minimum as a new vector, a missing amount counting as zero.
func (r Resources) Min(o Resources) Resources {
	out := make(Resources, max(len(r), len(o)))
	for i := range out {
		out[i] = min(r.At(Dim(i)), o.At(Dim(i)))
	}
	return out
}

// IsZero reports whether nothing is asked for.
func (r Resources) IsZero() bool {
	for _, v := range r {
		if v != 0 {
			return false
		}
	}
	return true
}

// Equal compares amounts; trailing zeros do not count.
func (r Resources) Equal(o Resources) bool {
	for i := range max(len(r), len(o)) {
		if r.At(Dim(i)) != o.At(Dim(i)) {
			return false
		}
	}
	return true
}

// Trim returns resources without trailing zeros, so that equal sums look the same however they came about; nil: there are none.
func (r Resources) Trim() Resources {
	for len(r) > 0 && r[len(r)-1] == 0 {
		r = r[:len(r)-1]
	}
	if len(r) == 0 {
		return nil
	}
	return r
}

// Key returns the amounts as a canonical string, for use in a map key.
func (r Resources) Key() string {
	n := len(r)
	for n > 0 && r[n-1] == 0 {
		n--
	}
	b := make([]byte, 0, 8*n)
	for i, v := range r[:n] {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return string(b)
}

// Format writes the non-zero amounts with their names in Kubernetes units: cpu=1500m, memory=2Gi.
func (r Resources) Format(names []string) string {
	var parts []string
	for i, v := range r {
		if v == 0 {
			continue
		}
		name := fmt.Sprintf("resource-%d", i)
		if i < len(names) {
			name = names[i]
		}
		parts = append(parts, name+"="+FormatAmount(Dim(i), v))
	}
	return strings.Join(parts, " ")
}

// FormatAmount writes one amount the way kubectl would.
func FormatAmount(d Dim, v int64) string {
	switch d {
	case CPU:
		if v%1000 == 0 {
			return strconv.FormatInt(v/1000, 10)
		}
		return strconv.FormatInt(v, 10) + "m"
	case Memory, EphemeralStorage:
		for _, u := range []struct {
			suffix string
			size   int64
		}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
			if v != 0 && v%u.size == 0 {
				return strconv.FormatInt(v/u.size, 10) + u.suffix
			}
		}
	}
	return strconv.FormatInt(v, 10)
}

// binaryUnits are the suffixes of amounts of bytes, each 1,024 times the one before.
var binaryUnits = [...]string{"Ki", "Mi", "Gi", "Ti", "Pi"}

// ShortAmount writes an amount for people, with so many decimals at most: CPU in cores, bytes in the largest unit of which there is one.
func ShortAmount(d Dim, v int64, decimals int) string {
	if d == CPU {
		return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64)
	}
	x, unit := float64(v), -1
	if d == Memory || d == EphemeralStorage {
		for math.Abs(x) >= 1024 && unit < len(binaryUnits)-1 {
			x, unit = x/1024, unit+1
		}
	}
	if unit < 0 {
		return strconv.FormatInt(v, 10)
	}
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + binaryUnits[unit]
}

// Count writes a number with its noun, in the plural unless the number is 1.
func Count[N ~int | ~int32 | ~int64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s") || strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun
}

// ParseAmount reads what FormatAmount writes.
func ParseAmount(d Dim, s string) (int64, error) {
	mult := int64(1)
	switch {
	case d == CPU:
		milli, ok := strings.CutSuffix(s, "m")
		if s = milli; !ok {
			mult = 1000
		}
	default:
		for i, u := range []string{"Ki", "Mi", "Gi", "Ti"} {
			if v, ok := strings.CutSuffix(s, u); ok {
				s, mult = v, 1<<(10*(i+1))
				break
			}
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * mult, err
}

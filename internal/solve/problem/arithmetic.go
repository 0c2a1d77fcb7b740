// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import "math/bits"

// MaxDims is the maximum number of resources in one problem, counting only those that some node or instance type has. A
// class that requests another one is refused with a reason.
const MaxDims = 16

// Vec is an amount of each resource, in the order of Input.Dims, followed by the numbers of slots for mutual
// anti-affinity groups, see compileExclusivities.
type Vec [MaxDims]int64

// Unlimited is larger than any real count.
const Unlimited = int64(1) << 40

// PriceShift is the number of fractional bits of a resource price, in micro-dollars per hour and unit: a byte of memory
// costs a few millionths of a micro-dollar.
const PriceShift = 36

// DualShift is the number of fractional bits of a dual price, in micro-dollars per hour and pod.
const DualShift = 12

// Sum128 is a nonnegative 128-bit sum of products of amounts and resource prices (micro-dollars << PriceShift).
type Sum128 struct{ Hi, Lo uint64 }

// AddProduct adds a·b. Neither may be negative.
func (w *Sum128) AddProduct(a, b int64) {
	h, l := bits.Mul64(uint64(a), uint64(b))
	var c uint64
	w.Lo, c = bits.Add64(w.Lo, l, 0)
	w.Hi, _ = bits.Add64(w.Hi, h, c)
}

func (w *Sum128) Add(o Sum128) {
	var c uint64
	w.Lo, c = bits.Add64(w.Lo, o.Lo, 0)
	w.Hi, _ = bits.Add64(w.Hi, o.Hi, c)
}

// Times returns n times the sum. It must not overflow.
func (w Sum128) Times(n int64) Sum128 {
	hi, lo := bits.Mul64(w.Lo, uint64(n))
	return Sum128{hi + w.Hi*uint64(n), lo}
}

func (w Sum128) Less(o Sum128) bool { return w.Hi < o.Hi || w.Hi == o.Hi && w.Lo < o.Lo }

func (w Sum128) Sub(o Sum128) Sum128 {
	lo, b := bits.Sub64(w.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(w.Hi, o.Hi, b)
	return Sum128{hi, lo}
}

// Half returns half the sum, rounded down.
func (w Sum128) Half() Sum128 { return Sum128{w.Hi >> 1, w.Lo>>1 | w.Hi<<63} }

// Micro returns the sum in micro-dollars per hour, rounded down.
func (w Sum128) Micro() int64 { return int64(w.Hi<<(64-PriceShift) | w.Lo>>PriceShift) }

// Dual returns the sum in micro-dollars << DualShift, rounded down.
func (w Sum128) Dual() int64 {
	return int64(w.Hi<<(64-PriceShift+DualShift) | w.Lo>>(PriceShift-DualShift))
}

// PriceSum returns a price in micro-dollars per hour as a Sum128.
func PriceSum(price int64) Sum128 {
	return Sum128{uint64(price) >> (64 - PriceShift), uint64(price) << PriceShift}
}

// RatioLess reports whether a/x < b/y, for nonnegative amounts. A price of zero is better than any other.
func RatioLess(a, x, b, y int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(y))
	h2, l2 := bits.Mul64(uint64(b), uint64(x))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// MulDiv returns a*b/c without overflow, for nonnegative amounts and a quotient that fits.
func MulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}

// FractionLess reports whether a/b < c/d.
func FractionLess(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(d))
	h2, l2 := bits.Mul64(uint64(c), uint64(b))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// IsWithin reports whether a is at most b in every resource. So no request fits on a new node whose DaemonSets request
// more than it has of some resource, even if the request has none of that resource.
func IsWithin(a, b *Vec, nd int) bool {
	for k := range nd {
		if a[k] > b[k] {
			return false
		}
	}
	return true
}

// FitsSlice reports whether a request fits in the free resources of an existing node, a part of a longer list. As in
// kube-scheduler, resources that are not requested may be negative.
func FitsSlice(req *Vec, free []int64) bool {
	for k, v := range free {
		if req[k] > v && req[k] > 0 {
			return false
		}
	}
	return true
}

// TimesIn returns how many times a request fits in an amount, Unlimited if it is empty.
func TimesIn(req, rem *Vec, nd int) int64 {
	n := Unlimited
	for k := range nd {
		if req[k] > 0 {
			n = min(n, rem[k]/req[k])
		}
	}
	return n
}

// AppendWords appends words to a key, byte by byte.
func AppendWords(b []byte, words []uint64) []byte {
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	return b
}

// AppendBools appends one letter per element to a key.
func AppendBools(buf []byte, list []bool) []byte {
	for _, b := range list {
		if b {
			buf = append(buf, 'y')
		} else {
			buf = append(buf, 'n')
		}
	}
	return buf
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import "math/bits"

// MaxDims is how many resources one problem may use, of those that a node or an instance type has. A class that asks
// for a further one is refused, and told so.
const MaxDims = 16

// Vec is an amount of each resource, in the order of Input.Dims; behind those it counts places for mutual
// anti-affinity groups, see compileExclusivities.
type Vec [MaxDims]int64

// Unlimited is a count larger than any that occurs.
const Unlimited = int64(1) << 40

// PriceShift is the number of binary digits behind the point in a resource price, which is in micro-dollars an hour
// for a unit: a byte of memory costs a few millionths of a micro-dollar.
const PriceShift = 36

// DualShift is the number of binary digits behind the point in a dual price, which is in micro-dollars an hour for a
// pod.
const DualShift = 12

// Sum128 is a sum of products of amounts and resource prices (micro-dollars << PriceShift), in 128 bits, not
// negative.
type Sum128 struct{ Hi, Lo uint64 }

// AddProduct adds a·b; neither is negative.
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

// Times returns the sum n times, where that fits.
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

// Half is half the sum, rounded down.
func (w Sum128) Half() Sum128 { return Sum128{w.Hi >> 1, w.Lo>>1 | w.Hi<<63} }

// Micro is the sum in micro-dollars an hour, rounded down.
func (w Sum128) Micro() int64 { return int64(w.Hi<<(64-PriceShift) | w.Lo>>PriceShift) }

// Dual is the sum in micro-dollars << DualShift, rounded down.
func (w Sum128) Dual() int64 {
	return int64(w.Hi<<(64-PriceShift+DualShift) | w.Lo>>(PriceShift-DualShift))
}

// PriceSum is a price in micro-dollars an hour as such a sum.
func PriceSum(price int64) Sum128 {
	return Sum128{uint64(price) >> (64 - PriceShift), uint64(price) << PriceShift}
}

// RatioLess reports whether a/x < b/y, for amounts not negative. A price of zero is better than any.
func RatioLess(a, x, b, y int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(y))
	h2, l2 := bits.Mul64(uint64(b), uint64(x))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// MulDiv is a*b/c without overflow, for amounts not negative and a quotient that fits.
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

// IsWithin reports whether a is no more than b in every resource. So a request is within no new node whose DaemonSets alone ask for more than it
// has of some resource, whether the request asks for that one or not.
func IsWithin(a, b *Vec, nd int) bool {
	for k := range nd {
		if a[k] > b[k] {
			return false
		}
	}
	return true
}

// FitsSlice reports whether a request fits into what a standing node has left, which is part of a longer list. Of what the request doesn't ask
// for there may be less than nothing, as kube-scheduler has it.
func FitsSlice(req *Vec, free []int64) bool {
	for k, v := range free {
		if req[k] > v && req[k] > 0 {
			return false
		}
	}
	return true
}

// TimesIn is how often a request fits into an amount, unlimited where it asks for nothing.
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

// AppendBools appends a letter for each of a list to a key.
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

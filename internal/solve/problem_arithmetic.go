// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "math/bits"

// priceShift is the number of binary digits behind the point in a resource price, which is in micro-dollars an hour
// for a unit: a byte of memory costs a few millionths of a micro-dollar.
const priceShift = 36

// dualShift is the number of binary digits behind the point in a dual price, which is in micro-dollars an hour for a
// pod.
const dualShift = 12

// sum128 is a sum of products of amounts and resource prices (micro-dollars << priceShift), in 128 bits, not
// negative.
type sum128 struct{ hi, lo uint64 }

// addProduct adds a·b; neither is negative.
func (w *sum128) addProduct(a, b int64) {
	h, l := bits.Mul64(uint64(a), uint64(b))
	var c uint64
	w.lo, c = bits.Add64(w.lo, l, 0)
	w.hi, _ = bits.Add64(w.hi, h, c)
}

func (w *sum128) add(o sum128) {
	var c uint64
	w.lo, c = bits.Add64(w.lo, o.lo, 0)
	w.hi, _ = bits.Add64(w.hi, o.hi, c)
}

// times returns the sum n times, where that fits.
func (w sum128) times(n int64) sum128 {
	hi, lo := bits.Mul64(w.lo, uint64(n))
	return sum128{hi + w.hi*uint64(n), lo}
}

func (w sum128) less(o sum128) bool { return w.hi < o.hi || w.hi == o.hi && w.lo < o.lo }

func (w sum128) sub(o sum128) sum128 {
	lo, b := bits.Sub64(w.lo, o.lo, 0)
	hi, _ := bits.Sub64(w.hi, o.hi, b)
	return sum128{hi, lo}
}

// micro is the sum in micro-dollars an hour, rounded down.
func (w sum128) micro() int64 { return int64(w.hi<<(64-priceShift) | w.lo>>priceShift) }

// dual is the sum in micro-dollars << dualShift, rounded down.
func (w sum128) dual() int64 {
	return int64(w.hi<<(64-priceShift+dualShift) | w.lo>>(priceShift-dualShift))
}

// priceSum is a price in micro-dollars an hour as such a sum.
func priceSum(price int64) sum128 {
	return sum128{uint64(price) >> (64 - priceShift), uint64(price) << priceShift}
}

// ratioLess says whether a/x < b/y, for amounts not negative. A price of zero is better than any.
func ratioLess(a, x, b, y int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(y))
	h2, l2 := bits.Mul64(uint64(b), uint64(x))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// mulDiv is a*b/c without overflow, for amounts not negative and a quotient that fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}

// fractionLess says whether a/b < c/d.
func fractionLess(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(d))
	h2, l2 := bits.Mul64(uint64(c), uint64(b))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// isWithin says whether a is no more than b in every resource.
func isWithin(a, b *vec, nd int) bool {
	for k := range nd {
		if a[k] > b[k] {
			return false
		}
	}
	return true
}

// fitsIn says whether a request fits into an amount. Of what it doesn't ask for there may be less than nothing, as
// kube-scheduler has it.
func fitsIn(req, room *vec, nd int) bool {
	for k := range nd {
		if req[k] > room[k] && req[k] > 0 {
			return false
		}
	}
	return true
}

// fitsSlice is fitsIn for an amount that is part of a longer list.
func fitsSlice(req *vec, free []int64) bool {
	for k, v := range free {
		if req[k] > v && req[k] > 0 {
			return false
		}
	}
	return true
}

// timesIn is how often a request fits into an amount, unlimited where it asks for nothing.
func timesIn(req, rem *vec, nd int) int64 {
	n := unlimited
	for k := range nd {
		if req[k] > 0 {
			n = min(n, rem[k]/req[k])
		}
	}
	return n
}

// appendWords appends words to a key, byte by byte.
func appendWords(b []byte, words []uint64) []byte {
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	return b
}

// appendBools appends a letter for each of a list to a key.
func appendBools(buf []byte, list []bool) []byte {
	for _, b := range list {
		if b {
			buf = append(buf, 'y')
		} else {
			buf = append(buf, 'n')
		}
	}
	return buf
}

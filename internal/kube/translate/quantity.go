// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// mostAmount is the largest amount of a resource that is counted: 8 PiB, or as many cores' thousandths. The API server
// takes far larger quantities, of which Quantity's own methods return 0 or even less than 0 once they overflow. A sum of
// five hundred such amounts is still an int64.
const mostAmount = 1 << 53

// AmountOf returns a quantity as an integer, rounded up: 0 if negative, at most mostAmount.
func AmountOf(q resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(mostAmount) >= 0:
		return mostAmount
	}
	return q.Value()
}

// MilliOf is like AmountOf, in thousandths.
func MilliOf(q resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(mostAmount/1000) >= 0:
		return mostAmount
	}
	return q.MilliValue()
}

// wholeOf is AmountOf, rounded down: what there is of a resource that is given out whole.
func wholeOf(q resource.Quantity) int64 {
	n := AmountOf(q)
	if resource.NewQuantity(n, resource.DecimalSI).Cmp(q) > 0 {
		n--
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"math"
	"strconv"
	"strings"
)

// Money is an int64 of micro-dollars everywhere. This file is the only one that writes it as text or reads it.

// maxUSD is the highest amount that can be given. No saving reaches it, and sums of many stay far from overflow.
const maxUSD = 1e6

// ParseDollars reads a decimal number of dollars from 0 to 1000000, such as "0.05", and returns it in micro-dollars. ok is false
// where the value is anything else, the empty string included.
func ParseDollars(value string) (micro int64, ok bool) {
	usd, err := strconv.ParseFloat(value, 64)
	if err != nil || !(usd >= 0 && usd <= maxUSD) {
		return 0, false
	}
	return int64(math.Round(usd * 1e6)), true
}

// FormatMicro writes micro-dollars as dollars without loss and without a dollar sign, such as 0.05. ParseDollars reads it.
func FormatMicro(micro int64) string {
	if micro%1_000_000 == 0 {
		return strconv.FormatInt(micro/1_000_000, 10)
	}
	return strings.TrimRight(fixed(micro, 6), "0")
}

// Dollars writes micro-dollars for people, without a dollar sign: four decimals, or six if four would show nothing.
func Dollars(micro int64) string {
	if micro != 0 && -100 < micro && micro < 100 {
		return fixed(micro, 6)
	}
	return fixed(micro, 4)
}

// ShortDollars writes micro-dollars for a narrow column, with a dollar sign: $0.0765, $12.34, $1,234.
func ShortDollars(micro int64) string {
	switch {
	case micro < 10_000_000:
		return "$" + fixed(micro, 4)
	case micro < 1_000_000_000:
		return "$" + fixed(micro, 2)
	}
	s := strconv.FormatInt((micro+500_000)/1_000_000, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return "$" + s
}

// fixed writes micro-dollars as dollars with 1 to 6 decimals, rounded half away from zero.
func fixed(micro int64, decimals int) string {
	unit := int64(1) // micro-dollars of the last decimal
	for range 6 - decimals {
		unit *= 10
	}
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	n := (micro + unit/2) / unit
	perDollar := 1_000_000 / unit
	return sign + strconv.FormatInt(n/perDollar, 10) + "." + strconv.FormatInt(perDollar+n%perDollar, 10)[1:]
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"strconv"
	"time"
)

// ageText writes a duration in at most two units, as kubectl does.
func ageText(d time.Duration) string {
	pair := func(big int64, unit string, small int64, smallUnit string) string {
		s := strconv.FormatInt(big, 10) + unit
		if small > 0 {
			s += strconv.FormatInt(small, 10) + smallUnit
		}
		return s
	}
	seconds := int64(max(0, d) / time.Second)
	switch {
	case seconds < 120:
		return strconv.FormatInt(seconds, 10) + "s"
	case seconds < 10*60:
		return pair(seconds/60, "m", seconds%60, "s")
	case seconds < 3*3600:
		return strconv.FormatInt(seconds/60, 10) + "m"
	case seconds < 8*3600:
		return pair(seconds/3600, "h", seconds%3600/60, "m")
	case seconds < 48*3600:
		return strconv.FormatInt(seconds/3600, 10) + "h"
	case seconds < 8*86400:
		return pair(seconds/86400, "d", seconds%86400/3600, "h")
	}
	return strconv.FormatInt(seconds/86400, 10) + "d"
}

// cores writes milli-cores as cores: 0.5, 12.3, 1234.
func cores(milli int64) string {
	if milli >= 100_000 || milli%1000 == 0 {
		return strconv.FormatInt((milli+500)/1000, 10)
	}
	return strconv.FormatFloat(float64(milli)/1000, 'f', min(3, decimals(milli)), 64)
}

func decimals(milli int64) int {
	if milli >= 1000 {
		return 1
	}
	n := 3
	for n > 1 && milli%10 == 0 {
		milli /= 10
		n--
	}
	return n
}

// bytesText writes bytes in the unit that leaves few digits: 512Mi, 2.8Ti.
func bytesText(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if f >= 10 || f == float64(int64(f)) {
		return strconv.FormatFloat(f, 'f', 0, 64) + units[i]
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + units[i]
}

// percent writes a share; "-" of nothing.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(part)*100/float64(whole), 'f', 0, 64) + "%"
}

// share is part of whole in thousandths, -1 of nothing.
func share(part, whole int64) int64 {
	if whole <= 0 {
		return -1
	}
	return int64(float64(part) * 1000 / float64(whole))
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

// EditDistance is the Levenshtein distance of two texts in bytes: how many have to be added, left out or replaced in a for it to
// be b. Where that is more than most, it is some number above most.
func EditDistance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1) // distances of what has been read of a to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

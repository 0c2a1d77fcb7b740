// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	unknown     = -1 // replicas of a minute that nothing is known of
	leastPods   = 2
	fallMinutes = 5 // a fall counts when it has lasted so long
)

// readTrace reads counts from a CSV file, plain or gzipped: a column with the number of the step and one with the
// count, or the count alone; a first line that is no number is a heading. It returns counts by the minute, NaN where
// there is none: steps that are left out, and runs of zeros longer than gap.
func readTrace(name string, step, gap time.Duration) ([]float64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open trace (set with -trace): %w", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	var text io.Reader = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("read trace %s: %w", name, err)
		}
		text = z
	}
	counts, err := parseCounts(text)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	counts, err = byMinute(counts, step)
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(counts); {
		to := from
		for to < len(counts) && counts[to] == 0 {
			to++
		}
		if time.Duration(to-from)*time.Minute > gap {
			for i := from; i < to; i++ {
				counts[i] = math.NaN()
			}
		}
		from = max(to, from+1)
	}
	return counts, nil
}

// parseCounts reads the lines of a trace.
func parseCounts(text io.Reader) ([]float64, error) {
	r := csv.NewReader(text)
	r.FieldsPerRecord = -1
	var out []float64
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		count, err := strconv.ParseFloat(row[len(row)-1], 64)
		if err != nil {
			if line == 1 {
				continue
			}
			return nil, fmt.Errorf("line %d: count %q is not a number", line, row[len(row)-1])
		}
		at := len(out)
		if len(row) > 1 {
			if at, err = strconv.Atoi(row[0]); err != nil || at < len(out) || at > 10_000_000 {
				return nil, fmt.Errorf("line %d: step %q is not a number above the previous step", line, row[0])
			}
		}
		for len(out) < at {
			out = append(out, math.NaN())
		}
		out = append(out, count)
	}
	if len(out) == 0 {
		return nil, errors.New("no counts")
	}
	return out, nil
}

// byMinute turns counts of steps into counts of minutes: shorter steps are added up, longer ones divided evenly.
func byMinute(counts []float64, step time.Duration) ([]float64, error) {
	switch {
	case step <= 0 || step%time.Minute != 0 && time.Minute%step != 0:
		return nil, fmt.Errorf("-step %s: must divide a minute, or be a multiple of it", step)
	case step == time.Minute:
		return counts, nil
	}
	var out []float64
	if n := int(step / time.Minute); n > 0 {
		for _, c := range counts {
			for range n {
				out = append(out, c/float64(n))
			}
		}
		return out, nil
	}
	for part := range slices.Chunk(counts, int(time.Minute/step)) {
		sum := 0.0
		for _, c := range part {
			sum += c
		}
		out = append(out, sum)
	}
	return out, nil
}

// podsOf turns counts a minute into the replicas that serve them, as an autoscaler would: the mean of this and the last
// minute, divided by what one pod serves (the 99.5th percentile of that, divided by target), rounded up, at least two;
// and a fall counts only when it has lasted five minutes. A minute without a count is unknown.
func podsOf(counts []float64, target int) ([]int, error) {
	means := make([]float64, len(counts))
	var sorted []float64
	for i, c := range counts {
		means[i] = c
		if i > 0 && !math.IsNaN(counts[i-1]) {
			means[i] = (c + counts[i-1]) / 2
		}
		if !math.IsNaN(c) {
			sorted = append(sorted, means[i])
		}
	}
	slices.Sort(sorted)
	if len(sorted) == 0 || sorted[len(sorted)*995/1000] <= 0 {
		return nil, errors.New("the trace has no counts, or too few that are not 0")
	}
	serves := sorted[len(sorted)*995/1000] / float64(target)
	raw := make([]int, len(counts))
	for i, m := range means {
		raw[i] = unknown
		if !math.IsNaN(m) {
			raw[i] = max(leastPods, int(math.Ceil(m/serves-1e-9)))
		}
	}
	return holdFalls(raw), nil
}

// holdFalls returns the most of each minute and the five before it.
func holdFalls(raw []int) []int {
	out := make([]int, len(raw))
	for i := range raw {
		out[i] = raw[i]
		for j := max(0, i-fallMinutes); j < i && raw[i] != unknown; j++ {
			out[i] = max(out[i], raw[j])
		}
	}
	return out
}

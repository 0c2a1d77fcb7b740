// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReadTrace reads counts in each form that they may have.
func TestReadTrace(t *testing.T) {
	nan := math.NaN()
	for _, x := range []struct {
		name, text string
		step       time.Duration
		want       []float64 // nil: an error
	}{
		{"with steps and a heading", "minute,requests\n0,5\n1,7\n3,9\n", time.Minute, []float64{5, 7, nan, 9}},
		{"counts alone", "5\n7\n", time.Minute, []float64{5, 7}},
		{"half minutes", "1\n2\n3\n4\n", 30 * time.Second, []float64{3, 7}},
		{"two minutes", "4\n6\n", 2 * time.Minute, []float64{2, 2, 3, 3}},
		{"a gap", "5\n0\n0\n0\n7\n0\n", time.Minute, []float64{5, nan, nan, nan, 7, 0}},
		{"no number", "5\nx\n", time.Minute, nil},
		{"out of order", "1,5\n0,7\n", time.Minute, nil},
		{"nothing", "", time.Minute, nil},
		{"a step that is no part of a minute", "5\n", 7 * time.Second, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			if _, err := z.Write([]byte(x.text)); err != nil {
				t.Fatal(err)
			}
			z.Close()
			for _, content := range [][]byte{[]byte(x.text), zipped.Bytes()} {
				file := filepath.Join(t.TempDir(), "trace")
				if err := os.WriteFile(file, content, 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := readTrace(file, x.step, 2*time.Minute)
				if (err == nil) != (x.want != nil) || !slices.EqualFunc(got, x.want, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
					t.Errorf("%v, %v; want %v", got, err, x.want)
				}
			}
		})
	}
	if _, err := readTrace("nowhere", time.Minute, time.Minute); err == nil || !strings.Contains(err.Error(), "-trace") {
		t.Errorf("a trace that is not there: %v", err)
	}
}

// TestPodsOf turns counts into replicas: falls wait five minutes, unknown minutes stay so.
func TestPodsOf(t *testing.T) {
	counts := []float64{100, 100, 100, 0, 0, 0, 0, 0, 0, 0, 0, math.NaN(), 100}
	got, err := podsOf(counts, 10)
	if want := []int{10, 10, 10, 10, 10, 10, 10, 10, 5, 2, 2, unknown, 10}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestNeverWorseThanNothing replays drawn series on both models: what is held never makes anything wait longer, and the
// two models agree roughly.
func TestNeverWorseThanNothing(t *testing.T) {
	for _, s := range drawn(3) {
		if s.clock || s.name == "one-off spikes" {
			continue // they take long, and the others wait as well
		}
		demand, policies := s.demand[:8*day], []policy{{name: "nothing"}, {name: "forecast", price: 49}}
		points, err := replay(demand, 3, 2*day, policies, true, func(Point) {})
		if err != nil {
			t.Fatal(err)
		}
		if points[1].Waiting > points[0].Waiting {
			t.Errorf("%s: waiting %.2f with a forecast, %.2f with nothing", s.name, points[1].Waiting, points[0].Waiting)
		}
	}
	s := clockSeries()
	policies := []policy{{name: "nothing"}, {name: "forecast", price: 49}}
	for _, plain := range []bool{true, false} {
		points, err := replay(s, 1, 2*day, policies, plain, func(Point) {})
		if err != nil {
			t.Fatal(err)
		}
		if points[0].Waiting < 0.1 || points[1].Waiting > 0.05*points[0].Waiting {
			t.Errorf("plain %t: waiting %.3f with a forecast, %.3f with nothing", plain, points[1].Waiting, points[0].Waiting)
		}
	}
}

// clockSeries is four days with a spike at ten o'clock.
func clockSeries() []int {
	out := flat(4, 30)
	for d := range 4 {
		raise(out, d*day+600+d%3-1, 20, 40)
	}
	return out
}

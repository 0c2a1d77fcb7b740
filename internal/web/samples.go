// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/top"
)

// SampleEvery is the interval between samples.
const SampleEvery = 5 * time.Second

// mostSamples is how many are kept: of eight hours.
const mostSamples = int(8 * time.Hour / SampleEvery)

// Sample contains the sums of a cluster at one time.
type Sample struct {
	At      int64   `json:"at"` // Unix time, in seconds
	Dollars float64 `json:"dollarsPerHour"`
	Nodes   int     `json:"nodes"`
	Pending int     `json:"podsPending"`
}

// Samples contains the samples of the last eight hours, for the charts of the page. It is safe for concurrent use.
type Samples struct {
	mu   sync.Mutex
	kept []Sample // oldest first
}

// Add adds a sample of a view.
func (s *Samples) Add(v *top.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == mostSamples {
		s.kept = append(s.kept[:0], s.kept[1:]...)
	}
	s.kept = append(s.kept, Sample{At: v.At.Unix(), Dollars: float64(v.Total.Micro) / 1e6, Nodes: v.Total.Nodes, Pending: v.Total.Pending})
}

// After returns the samples after a Unix time in seconds, oldest first. If there are none, the result is empty, not nil.
func (s *Samples) After(at int64) []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Sample{}
	for _, x := range s.kept {
		if x.At > at {
			out = append(out, x)
		}
	}
	return out
}

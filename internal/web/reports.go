// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"sync"
	"time"
)

// reportLimit is how long a report may take. It goes on after the reader who asked for it has left, for the next one.
const reportLimit = 2 * time.Minute

// maxAges are how old a report may be that is sent again. Doctor reads the whole cluster.
var maxAges = map[string]time.Duration{"doctor": 5 * time.Minute}

const (
	defaultMaxAge = 5 * time.Second  // of the other reports
	forgetAfter   = 10 * time.Minute // reports that nobody has asked for since
)

// wireReport is an answer of /api/report/NAME.
type wireReport struct {
	At      time.Time       `json:"at"`      // when it was complete
	Seconds float64         `json:"seconds"` // how long it took
	Renewed bool            `json:"renewed"` // a newer one is being made
	Report  json.RawMessage `json:"report"`
}

// reports makes each report at most once at a time, and keeps the last of each name and query. It is safe for concurrent use.
type reports struct {
	source Source

	mu   sync.Mutex
	made map[string]*made // by name and query
}

// made is a report that is complete, or being made.
type made struct {
	last    *wireReport // nil: none was ever complete
	making  chan struct{}
	failure error // of the last attempt
}

// read returns a report. One that is too old, or older than the reader accepts, is returned marked as being renewed if there is one;
// otherwise read waits for the report until ctx ends.
func (r *reports) read(ctx context.Context, name string, since time.Duration, after time.Time) (*wireReport, error) {
	key := name + " " + since.String()
	maxAge := maxAges[name]
	if maxAge == 0 {
		maxAge = defaultMaxAge
	}
	r.mu.Lock()
	m := r.made[key]
	if m == nil {
		maps.DeleteFunc(r.made, func(_ string, m *made) bool {
			return m.making == nil && (m.last == nil || time.Since(m.last.At) > forgetAfter)
		})
		m = &made{}
		r.made[key] = m
	}
	fresh := m.last != nil && time.Since(m.last.At) < maxAge && m.last.At.After(after)
	if !fresh && m.making == nil {
		m.making = make(chan struct{})
		go r.renew(context.WithoutCancel(ctx), m, name, since)
	}
	last, making := m.last, m.making
	r.mu.Unlock()
	if last != nil {
		out := *last
		out.Renewed = making != nil
		return &out, nil
	}
	select {
	case <-making:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.last, m.failure
}

// renew makes a report. If that fails, there is none from then on: the reader is told why.
func (r *reports) renew(ctx context.Context, m *made, name string, since time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	begun := time.Now()
	var b, compact bytes.Buffer
	err := r.source.Report(ctx, &b, name, since)
	if err == nil {
		err = json.Compact(&compact, b.Bytes())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m.last, m.failure = nil, err
	if err == nil {
		m.last = &wireReport{At: time.Now().UTC(), Seconds: time.Since(begun).Seconds(), Report: compact.Bytes()}
	}
	close(m.making)
	m.making = nil
}

// write writes a report as JSON.
func (r *reports) write(ctx context.Context, w io.Writer, name string, since time.Duration, after time.Time) error {
	out, err := r.read(ctx, name, since, after)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(out)
}

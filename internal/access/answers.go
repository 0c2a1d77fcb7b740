// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	answerFor     = 2 * time.Second // how long an answer is given again
	mostAnswers   = 16
	mostAnswer    = 1 << 20          // bytes of one that is kept
	answersAtOnce = 2                // that are worked out
	answerWait    = 20 * time.Second // for one's turn
	mostUnsent    = 64 << 20         // bytes of all answers that are being sent; slow readers of large ones wait for each other
)

// Sparing limits next to two concurrent GET requests, and reuses a response for two seconds for the same path and query. Use it
// only for content that is the same for all authorized users; authorization must come before it.
func Sparing(next http.Handler, now func() time.Time) http.Handler {
	kept := newMemory[string, *answer](mostAnswers, now)
	turn := make(chan struct{}, answersAtOnce)
	var unsent atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		key := r.URL.RequestURI()
		a, ok := kept.get(key)
		if !ok {
			ctx, cancel := context.WithTimeout(r.Context(), answerWait)
			defer cancel()
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				busy(w)
				return
			}
			a = answerOf(next, r, kept, key, func() { <-turn })
		}
		size := int64(a.body.Len())
		defer unsent.Add(-size)
		if unsent.Add(size) > mostUnsent && size > 0 {
			busy(w)
			return
		}
		a.writeTo(w)
	})
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests in progress; retry in a few seconds", http.StatusServiceUnavailable)
}

// answerOf works an answer out, or takes it from another who has meanwhile, and gives the turn back.
func answerOf(next http.Handler, r *http.Request, kept *memory[string, *answer], key string, done func()) *answer {
	defer done()
	if a, ok := kept.get(key); ok {
		return a
	}
	a := &answer{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(a, r)
	if a.status == http.StatusOK && a.body.Len() <= mostAnswer && r.Context().Err() == nil {
		kept.put(key, a, answerFor)
	}
	return a
}

// answer is a response that is kept; nothing writes to it once it is.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // who asked is gone
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestCacheOfAServiceThatHangs: who has an old answer waits a little for a new one, and nobody after him for a while.
func TestCacheOfAServiceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, hangs, asked := NewCache[string](cloud.Wall{}, time.Minute), false, 0
		get := func(limit time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return m.Get(ctx, "a", func(ctx context.Context) (string, error) {
				asked++
				if hangs {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "answer", nil
			})
		}
		if v, err := get(time.Minute); v != "answer" || err != nil {
			t.Fatal(v, err)
		}
		first := time.Now()
		hangs = true
		time.Sleep(2 * time.Minute)
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if v, err := get(time.Minute); v != "answer" || err != nil {
					t.Errorf("%q %v, want the old answer", v, err)
				}
			})
		}
		all.Wait()
		if v, at, err := m.GetDated(t.Context(), "a", nil); v != "answer" || err != nil || !at.Equal(first) {
			t.Errorf("%q of %s, %v; want the answer of %s", v, at, err, first)
		}
		if took := time.Since(began); took > staleWait || asked != 2 {
			t.Errorf("it took %s and %d questions", took, asked)
		}
		hangs = false
		time.Sleep(time.Minute)
		if _, err := get(time.Minute); err != nil || asked != 3 {
			t.Errorf("it was asked %d times, %v: want it to be asked again", asked, err)
		}
	})
}

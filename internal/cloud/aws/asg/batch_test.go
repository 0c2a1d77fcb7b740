// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestGather has claims of one plan go on together: when the last of them has come, or none for a while, or the first
// has waited long.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		name      string
		following []int // of the claims in turn, 90 ms after each other: none at the moment in which a wait ends
		want      string
	}{
		{"alone", []int{0}, "0s"},
		{"all come", []int{2, 1, 0}, "180ms 180ms 180ms"},
		{"one never comes", []int{2, 1}, "240ms 240ms"},
		{"a next plan", []int{1, 0, 1, 0}, "90ms 90ms 270ms 270ms"},
		{"many", []int{13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1.17s 1.17s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, begin := &groupState{}, time.Now()
				went := make([]time.Duration, len(c.following))
				for i, n := range c.following {
					go func() {
						time.Sleep(time.Duration(i) * 90 * time.Millisecond)
						if !s.waitForBatch(t.Context(), cloud.Wall{}, n) {
							t.Error("the context lasts, and it says not")
						}
						went[i] = time.Since(begin)
					}()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if have := fmt.Sprint(went); have != "["+c.want+"]" {
					t.Errorf("they went on at %s, want %s", have, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if (&groupState{}).waitForBatch(ctx, cloud.Wall{}, 1) {
			t.Error("the context is over, and it says that it lasts")
		}
	})
}

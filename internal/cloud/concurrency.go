// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import "sync"

// maxConcurrentCalls bounds the calls made at one time where a cloud takes one item a call.
const maxConcurrentCalls = 16

// RunConcurrently calls do for 0 to n-1, at most maxConcurrentCalls at a time, and returns when all calls have returned.
func RunConcurrently(n int, do func(int)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, maxConcurrentCalls)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	wg.Wait()
}

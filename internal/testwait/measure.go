// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package testwait

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// quiet is what measure returns on two quiet processors of a cloud machine of 2025 (3 GHz).
	quiet = 100 * time.Millisecond
	// rounds of work take quiet there.
	rounds = 54
)

// measure returns how long it takes every processor that Go uses to do a fixed piece of work at the same time. It is long enough for the
// operating system to let others have their turns meanwhile.
func measure() time.Duration {
	begin := time.Now()
	var all sync.WaitGroup
	for i := range runtime.GOMAXPROCS(0) {
		all.Go(func() { work(uint64(i)) })
	}
	all.Wait()
	return time.Since(begin)
}

// work sorts numbers: branches and memory, no instructions that some machines have and others don't.
func work(seed uint64) {
	numbers := make([]uint64, 1<<15)
	x := seed*2 + 1
	for range rounds {
		for i := range numbers {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			numbers[i] = x
		}
		slices.Sort(numbers)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"sync"
)

// endedClasses are the classes that were ended, by uid, so that a call that began before makes nothing for one
// afterwards. The zero value is ready for use.
type endedClasses struct {
	mu     sync.Mutex
	making map[string]int // by class uid: how many calls are making something for it
	ended  map[string]bool
}

// beginMaking reports whether something may be made for a class. If so, endMaking is to be called when that is done.
func (o *endedClasses) beginMaking(uid string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended[uid] {
		return false
	}
	if o.making == nil {
		o.making = map[string]int{}
	}
	o.making[uid]++
	return true
}

// endMaking says that what beginMaking allowed is done.
func (o *endedClasses) endMaking(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.making[uid]--; o.making[uid] == 0 {
		delete(o.making, uid)
	}
}

// markEnded says that nothing is to be made for a class any more. false: something is being made for it at this
// moment.
func (o *endedClasses) markEnded(uid string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended == nil {
		o.ended = map[string]bool{}
	}
	o.ended[uid] = true
	return o.making[uid] == 0
}

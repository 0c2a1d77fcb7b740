// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import "sync/atomic"

// Written is a write of what Dovetail keeps for itself, a ConfigMap or a Lease, and what the API server has answered to it or to the read before it. An
// object that was not read has no UID.
type Written struct {
	Kind, Namespace, Name, UID string
	Err                        error
}

// tellsWrites passes on what becomes of writes that no action of a plan makes.
type tellsWrites struct{ to atomic.Pointer[func(Written)] }

// OnWrite has a function called with each write of a ConfigMap or Lease. It may be called from several goroutines at once.
func (t *tellsWrites) OnWrite(f func(Written)) { t.to.Store(&f) }

// Wrote tells of a write.
func (t *tellsWrites) Wrote(w Written) {
	if f := t.to.Load(); f != nil {
		(*f)(w)
	}
}

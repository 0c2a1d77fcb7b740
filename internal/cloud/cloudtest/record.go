// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloudtest

import (
	"context"
	"encoding/json"
	"sync"
)

// Record is an in-memory record of a provider of node groups. It remembers all owners of each machine.
type Record struct {
	mu     sync.Mutex
	text   string
	owners map[string]string // claim uid by provider id
}

// Load implements nodegroups.Records.
func (r *Record) Load(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text, nil
}

// Swap implements nodegroups.Records.
func (r *Record) Swap(_ context.Context, old, text string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != old {
		return false, nil
	}
	r.text = text
	var said struct {
		Groups map[string]struct {
			Owned map[string]struct{ UID string }
		}
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return false, err
	}
	if r.owners == nil {
		r.owners = map[string]string{}
	}
	for _, g := range said.Groups {
		for id, m := range g.Owned {
			r.owners[id] = m.UID
		}
	}
	return true, nil
}

// Launches counts machines by their last recorded claim; machines that never had one count as "unclaimed".
func (r *Record) Launches(machines []string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, id := range machines {
		uid, ok := r.owners[id]
		if !ok {
			uid = "unclaimed"
		}
		out[uid]++
	}
	return out
}

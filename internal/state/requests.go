// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// SetRequest adds or updates a ProvisioningRequest, and interns the classes of its pods. If its pods are unchanged, the placeholder
// pods stay the same.
func (s *State) SetRequest(r *model.ProvisioningRequest, version uint64) {
	s.InFlight.observeVersion(RequestObject(r.Key()), version)
	next := *r
	next.Sets = slices.Clone(r.Sets)
	for i := range next.Sets {
		next.Sets[i].Class = s.internClass(next.Sets[i].Class)
	}
	was := s.requests.rows[r.Key()]
	if was == nil || !next.KeepPlaceholders(was) {
		next.MakePlaceholders()
	}
	s.requests.set(r.Key(), &next)
}

// DeleteRequest removes a ProvisioningRequest by namespace/name.
func (s *State) DeleteRequest(key string) {
	s.requests.delete(key)
	s.InFlight.forgetObject(RequestObject(key))
}

// RequestObject returns the Object of a ProvisioningRequest, given by namespace/name.
func RequestObject(key string) Object { return Object("provisioningrequest/" + key) }

// listPending returns the pending pods and the placeholders of the ProvisioningRequests that are active at an instant, by namespace and name.
func (s *State) listPending(now time.Time) []*model.Pod {
	pending := s.pods.pending.list()
	var have map[string]map[string]int // by uid of the request: its pods, by Class.SlotKey
	for _, r := range s.requests.rows {
		if r.IsActive(now) {
			if have == nil {
				have = map[string]map[string]int{}
			}
			have[r.UID] = map[string]int{}
		}
	}
	if have == nil {
		return pending
	}
	for _, p := range s.pods.byKey {
		if n := have[p.Consumes.UID]; n != nil && !p.Gated && p.Deleting.IsZero() && !p.Failed {
			n[p.Class.SlotKey]++
		}
	}
	out := slices.Clone(pending)
	for _, r := range s.requests.rows {
		if n := have[r.UID]; n != nil {
			out = append(out, r.Placeholders(n)...)
		}
	}
	slices.SortFunc(out, comparePods)
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Interruptions returns the unacknowledged notices of existing machines.
func (m *Model) Interruptions() []machines.Interruption {
	out := []machines.Interruption{}
	for _, in := range m.instances {
		if !in.Goes.IsZero() && !in.Noticed && (in.State == machines.Pending || in.State == machines.Running) {
			out = append(out, machines.Interruption{ProviderID: in.ProviderID, Sent: in.Interrupted, At: in.Goes})
		}
	}
	slices.SortFunc(out, func(a, b machines.Interruption) int {
		switch {
		case a.ProviderID < b.ProviderID:
			return -1
		case a.ProviderID > b.ProviderID:
			return 1
		}
		return 0
	})
	return out
}

// Noticed acknowledges notices. Unknown or already acknowledged ones are ignored.
func (m *Model) Noticed(providerIDs []string, now time.Time) {
	for _, id := range providerIDs {
		if in := m.find(id); in != nil && !in.Goes.IsZero() && !in.Noticed {
			m.record(now, machines.RecordNoticed, in)
		}
	}
}

func (s *Server) interruptions(w http.ResponseWriter, _ *http.Request) {
	var out machines.InterruptionList
	err := s.change(false, func(m *Model, _ time.Time) { out.Interruptions = m.Interruptions() })
	reply(w, out, err)
}

func (s *Server) noticed(w http.ResponseWriter, r *http.Request) {
	var batch machines.NoticedBatch
	if !read(w, r, &batch) {
		return
	}
	err := s.change(true, func(m *Model, now time.Time) { m.Noticed(batch.ProviderIDs, now) })
	reply(w, machines.InterruptionList{Interruptions: []machines.Interruption{}}, err)
}

// reclaim terminates an interrupted machine when it is due.
func (s *Server) reclaim(ctx context.Context, id string) {
	s.mu.Lock()
	in := s.model.Instance(id)
	s.mu.Unlock()
	if s.clock.Wait(ctx, in.Goes.Sub(s.clock.Now())) != nil {
		return
	}
	taken := false
	err := s.change(true, func(m *Model, now time.Time) { taken = m.Terminate(in.ProviderID, now).Error == nil })
	if err == nil && taken {
		s.log.Info("instance interrupted", "machine", id, "claim", in.ClaimName)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// BenchmarkObserve is what the metrics cost a step of a cluster of 10,000 nodes of which one has changed.
func BenchmarkObserve(b *testing.B) {
	s := state.New()
	now := time.Now()
	node := func(i int, created time.Time) *model.Node {
		return &model.Node{Name: fmt.Sprintf("n-%05d", i), UID: fmt.Sprint(i), ProviderID: fmt.Sprint("m-", i), Created: created, Labels: model.Labels{model.LabelNodePool: "p"},
			Allocatable: model.Resources{4000, 16 << 30, 0, 110}, Conditions: map[string]model.Condition{"Ready": {Status: "True"}}}
	}
	for i := range 10_000 {
		s.SetNode(node(i, now), 1)
		s.SetClaim(&model.Claim{Name: fmt.Sprintf("c-%05d", i), UID: fmt.Sprint(i), Pool: "p", ProviderID: fmt.Sprint("m-", i), Conditions: map[string]model.Condition{"Launched": {Status: "True"}}}, 1)
	}
	m := newChanges(registrar{prometheus.NewRegistry(), &Metrics{}}, nil)
	m.observeSnapshot(s.Snapshot(now), nil, now)
	var snaps []*model.Snapshot
	for i := range 2 {
		s.SetNode(node(5000, now.Add(time.Duration(i+1))), 2)
		snaps = append(snaps, s.Snapshot(now))
	}
	b.ResetTimer()
	for i := range b.N {
		m.observeSnapshot(snaps[i%2], nil, now)
	}
}

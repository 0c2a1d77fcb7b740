// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// FuzzRecords: whatever stands in the annotations of a NodeClaim, which whoever edits NodeClaims can write, is passed
// over or read, and steps over it end.
func FuzzRecords(f *testing.F) {
	f.Add(`{"id":"a","cause":"Empty","of":1,"claims":["u"]}`, `{"id":"a","since":"2026-01-01T00:00:00Z"}`, "3")
	f.Add(`{"id":"a","cause":"","of":-1,"hosts":-5}`, `{"id":"b","of":1000000}`, "")
	f.Add(`null`, `{"since":"9999-12-31T23:59:59Z","id":"a"}`, `[{"class":"x","count":-1}]`)
	now := time.Unix(1_760_000_000, 0).UTC()
	f.Fuzz(func(t *testing.T, command, host, slots string) {
		claim := &model.Claim{Name: "default-a", UID: "u", Pool: "default", Created: now.Add(-time.Hour),
			Annotations: model.Labels{cluster.AnnotationCommand: command, cluster.AnnotationHost: host, model.AnnotationReserved: slots}}
		if r, ok := cluster.ReadCommandRecord(claim); ok && r.ID == "" {
			t.Errorf("a record without an id: %+v", r)
		}
		if r, ok := cluster.ReadHostRecord(claim); ok && r.ID == "" {
			t.Errorf("a record without an id: %+v", r)
		}
		pool := &model.NodePool{Name: "default", Ready: true, Replicas: -1, NodeLimit: -1}
		s := &model.Snapshot{ResourceNames: model.FixedNames(), Pools: []*model.NodePool{pool}, Claims: []*model.Claim{claim}}
		mem := Memory{}
		for i := range 3 {
			_, mem = Step(s, mem, now.Add(time.Duration(i)*time.Minute), DefaultPolicy(), Request{})
		}
	})
}

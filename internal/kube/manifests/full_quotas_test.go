// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"slices"
	"testing"
)

// TestFullQuotas: what pods ask for and a ResourceQuota leaves nothing of, and nothing else.
func TestFullQuotas(t *testing.T) {
	m, err := Read("quotas", []byte(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: compute, namespace: shop}
spec: {hard: {requests.cpu: "10", limits.memory: 64Gi, pods: "50", services: "3", requests.storage: 1Ti}}
status:
  hard: {requests.cpu: "10", limits.memory: 64Gi, pods: "50", services: "3", requests.storage: 1Ti}
  used: {requests.cpu: 10500m, limits.memory: 65536Mi, pods: "49", services: "3", requests.storage: 1Ti}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: shop}
spec: {hard: {pods: "0"}}
status: {hard: {pods: "0"}, used: {pods: "0"}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: new, namespace: shop}
spec: {hard: {pods: "1"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []FullQuota{{"shop", "compute", "limits.memory", "64Gi", "64Gi", "128Gi"}, {"shop", "compute", "requests.cpu", "10500m", "10", "20"}}
	if got := m.FullQuotas(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v; skipped %v", got, want, m.Skipped)
	}
}

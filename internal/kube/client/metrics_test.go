// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"testing"
)

func TestDescribeCall(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         apiCall
	}{
		{"GET", "/api/v1/pods", apiCall{"LIST", "", "v1", "pods", ""}},
		{"POST", "/api/v1/namespaces/{namespace}/pods/{name}/eviction", apiCall{"CREATE", "", "v1", "pods", "eviction"}},
		{"GET", "/api/v1/namespaces/{name}", apiCall{"GET", "", "v1", "namespaces", ""}},
		{"PATCH", "/apis/karpenter.sh/v1/nodeclaims/{name}/status", apiCall{"PATCH", "karpenter.sh", "v1", "nodeclaims", "status"}},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}", apiCall{"UPDATE", "coordination.k8s.io", "v1", "leases", ""}},
		{"DELETE", "/api/v1/nodes/{name}", apiCall{"DELETE", "", "v1", "nodes", ""}},
	} {
		if got, ok := describeCall(c.method, c.path); !ok || got != c.want {
			t.Errorf("%s %s: %+v, %t, want %+v", c.method, c.path, got, ok, c.want)
		}
	}
	for _, path := range []string{"/version", "/apis/karpenter.sh/v1", "/api", "/"} {
		if got, ok := describeCall("GET", path); ok {
			t.Errorf("GET %s: %+v, want nothing", path, got)
		}
	}
}

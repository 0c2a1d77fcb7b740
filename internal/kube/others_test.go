// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// The controller's own identity may list these leases and no others; it hears of one that comes and one that goes.
func TestOthersOnPlane(t *testing.T) {
	p := newPlane(t)
	if _, err := p.us.LeasesNamed(p.ctx, []string{"kube-scheduler"}); err == nil || !strings.Contains(err.Error(), "--ignore-other-autoscalers") {
		t.Errorf("a lease that is none of its business: %v", err)
	}
	told := make(chan []string, 16)
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	go p.us.Others(ctx, client.OtherLeases, client.DefaultLease(), func(others []string) { told <- others })
	expect := func(want ...string) {
		t.Helper()
		select {
		case have := <-told:
			if !slices.Equal(have, want) {
				t.Fatalf("told %q, want %q", have, want)
			}
		case <-p.ctx.Done():
			t.Fatalf("never told %q", want)
		}
	}
	expect()
	const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	lease := fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "cluster-autoscaler"},
		"spec": {"holderIdentity": "ca-0", "leaseDurationSeconds": 3600, "renewTime": %q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	if err := p.admin.Coordination.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(lease)).Do(p.ctx).Error(); err != nil {
		t.Fatal(err)
	}
	expect("lease kube-system/cluster-autoscaler is held by ca-0")
	if err := p.admin.Coordination.Delete().AbsPath(path, "cluster-autoscaler").Do(p.ctx).Error(); err != nil {
		t.Fatal(err)
	}
	expect()
}

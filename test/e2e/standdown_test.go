// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// While a lease like Karpenter's is live, a pending pod is told what would be bought and nothing is, neither in the cluster nor in the cloud;
// when the lease goes its machine is bought by itself. Pods of a machine bought before land although another comes meanwhile.
func TestStandDown(t *testing.T) {
	t.Parallel()
	s := own(t)
	e := newEnv(t, s, "stand")
	leases := s.Kube.CoordinationV1().Leases("kube-system")
	holder, seconds := "karpenter-5d7c9-x_1", int32(3600)
	lease := func(name string) {
		t.Helper()
		now := metav1.NewMicroTime(time.Now())
		_, err := leases.Create(e.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}}, metav1.CreateOptions{})
		e.must(err)
		e.until("the controller stands down", func() error { return said(s, "passive: another autoscaler is running", name) })
	}
	lease("karpenter-leader-election")
	e.nodePool(nil)
	e.deploy("first", 1, e.pod("500m", "256Mi"))
	e.until("the pod is told what would be bought", func() error {
		list, err := s.Kube.CoreV1().Events(e.name).List(e.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(ev corev1.Event) bool {
			return ev.Reason == "StandingDown" && strings.Contains(ev.Message, "would be launched for it") && strings.Contains(ev.Message, "kube-system/karpenter-leader-election is held by "+holder)
		}) {
			return fmt.Errorf("there are %d events, none of them says so", len(list.Items))
		}
		return nil
	})
	e.must(said(s, "would act, but another autoscaler is running", `"nodes":1`))
	nothing := func() {
		t.Helper()
		list, err := sandbox.Get[karpv1.NodeClaimList](e.ctx, s, claims)
		e.must(err)
		records, err := s.Journal(e.ctx)
		e.must(err)
		pool := e.pool()
		if len(list.Items) > 0 || len(records) > 0 || len(pool.Status.Conditions) > 0 || pool.Annotations[karpv1.AnnotationNodePoolHash] != "" {
			t.Fatalf("it stands down, and there are %d claims and %d records of the cloud; the pool has %+v", len(list.Items), len(records), pool.Status)
		}
	}
	nothing()
	e.must(leases.Delete(e.ctx, "karpenter-leader-election", metav1.DeleteOptions{}))
	e.podsRun(1)

	lease("cluster-autoscaler")
	e.deploy("second", 1, e.pod("100", "1Gi"))
	e.until("it says what it would do", func() error { return said(s, "would act, but another autoscaler is running", "cluster-autoscaler") })
	if list, err := sandbox.Get[karpv1.NodeClaimList](e.ctx, s, claims); err != nil || len(list.Items) != 1 {
		t.Errorf("%d claims, %v; want the first alone", len(list.Items), err)
	}
	e.must(leases.Delete(e.ctx, "cluster-autoscaler", metav1.DeleteOptions{}))
	e.until("a machine is bought for the second pod", func() error {
		list, err := sandbox.Get[karpv1.NodeClaimList](e.ctx, s, claims)
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("there are %d claims", len(list.Items))
		}
		return err
	})
}

// said looks for a line of the controller's log with all these words.
func said(s *sandbox.Sandbox, words ...string) error {
	tail := s.LogTail(sandbox.Controller, 1000, words[0])
	for line := range strings.Lines(tail) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return nil
		}
	}
	return fmt.Errorf("the log has no line with %q", words)
}

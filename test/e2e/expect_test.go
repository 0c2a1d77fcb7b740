// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExpected: pods that a Deployment is still making are bought for with the first of them, in one plan; where a ResourceQuota keeps them from
// being made nothing is bought for them, and where a LimitRange does, of which nobody knows before, what was bought for them is given back.
func TestExpected(t *testing.T) {
	const pods = 120
	t.Run("all come", func(t *testing.T) {
		e := newEnv(t, shared(t), "all")
		e.nodePool(nil)
		e.deploy("all", pods, e.pod("900m", "3100Mi"))
		e.podsRun(pods)
		launched := e.launches(e.name)
		if len(launched) == 0 || len(launched) > 4 {
			t.Errorf("%d machines were bought, want a few large ones, as for %d pods at once", len(launched), pods)
		}
	})
	t.Run("quota", func(t *testing.T) {
		e := newEnv(t, shared(t), "quota")
		e.nodePool(nil)
		_, err := e.s.Kube.CoreV1().ResourceQuotas(e.name).Create(e.ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}}}, metav1.CreateOptions{})
		e.must(err)
		e.until("the quota is in force", func() error {
			q, err := e.s.Kube.CoreV1().ResourceQuotas(e.name).Get(e.ctx, "few", metav1.GetOptions{})
			if err == nil && q.Status.Hard == nil {
				err = fmt.Errorf("it has no status")
			}
			return err
		})
		e.deploy("few", pods, e.pod("900m", "3100Mi"))
		e.podsRun(5)
		var cpu int64
		for _, n := range e.nodes() {
			cpu += n.Status.Capacity.Cpu().MilliValue()
		}
		if cpu == 0 || cpu > 16_000 {
			t.Errorf("machines of %d mCPU were bought for five pods of 900, want no more than they need", cpu)
		}
	})
	t.Run("none comes", func(t *testing.T) {
		e := newEnv(t, shared(t), "none")
		e.nodePool(map[string]any{"spec.disruption.consolidateAfter": "1s"})
		e.deploy("some", 3, e.pod("900m", "3100Mi"))
		e.podsRun(3)
		// From here on no pod of that size is let in, and nobody who looks at the ReplicaSet knows before it has tried.
		_, err := e.s.Kube.CoreV1().LimitRanges(e.name).Create(e.ctx, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "none"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}}, metav1.CreateOptions{})
		e.must(err)
		e.scale("some", pods)
		e.until("the ReplicaSet says that it can't", func() error {
			list, err := e.s.Kube.AppsV1().ReplicaSets(e.name).List(e.ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, rs := range list.Items {
				for _, c := range rs.Status.Conditions {
					if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
						return nil
					}
				}
			}
			return fmt.Errorf("it does not")
		})
		e.until("what was bought for the three is all there is", func() error {
			var cpu int64
			for _, n := range e.nodes() {
				cpu += n.Status.Capacity.Cpu().MilliValue()
			}
			if cpu == 0 || cpu > 16_000 {
				return fmt.Errorf("%d mCPU", cpu)
			}
			return nil
		})
		e.podsRun(3)
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"strings"
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
		said := fmt.Sprintf("can't create %d pods: ResourceQuota few: the pod requests 1 pods, and 5 of 5 are in use\n    change: resourcequota/%s/few spec.hard[pods]: %d\n", pods-5, e.name, pods)
		e.until("the Deployment is explained by its quota", func() error { return contains(e.why("deployment/"+e.name+"/few"), said) })
		// Once scaled down, its controller tries again, and fewer are missing.
		e.scale("few", 7)
		said = fmt.Sprintf("change: resourcequota/%s/few spec.hard[pods]: 7\n", e.name)
		e.until("the change that is told suffices for what is missing now", func() error { return contains(e.why("deployment/"+e.name+"/few"), said) })
		e.must(e.s.Patch(e.ctx, "/api/v1/namespaces/"+e.name+"/resourcequotas/few", `{"spec":{"hard":{"pods":"7"}}}`))
		// A ResourceQuota doesn't wake the ReplicaSet's controller, which by now may wait for up to 16m40s before it tries again; a change of
		// the ReplicaSet does. The API server's admission may not have seen the ResourceQuota yet, so the ReplicaSet changes until all pods are there.
		tries := 0
		e.until("the ReplicaSet has made its pods", func() error {
			if n := len(e.pods()); n < 7 {
				tries++
				e.touchReplicaSets(tries)
				return fmt.Errorf("it has made %d of 7", n)
			}
			return nil
		})
		e.podsRun(7)
		e.until("nothing is told of the quota", func() error {
			if a := e.why("deployment/" + e.name + "/few"); contains(a, "few spec.hard") == nil || contains(a, "can't create") == nil {
				return fmt.Errorf("it is: %s", a)
			}
			return nil
		})
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
		e.until("the Deployment is explained by its LimitRange", func() error {
			return contains(e.why("deployment/"+e.name+"/some"), "maximum cpu usage per Pod is 100m")
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

// touchReplicaSets changes an annotation of the test's ReplicaSets, so that their controller looks at them at once.
func (e *env) touchReplicaSets(value int) {
	e.t.Helper()
	list, err := e.s.Kube.AppsV1().ReplicaSets(e.name).List(e.ctx, metav1.ListOptions{})
	e.must(err)
	for _, rs := range list.Items {
		e.must(e.s.Patch(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/replicasets/"+rs.Name, fmt.Sprintf(`{"metadata":{"annotations":{"e2e/touched":"%d"}}}`, value)))
	}
}

// contains is an error unless a text has a part.
func contains(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("%q is not in:\n%s", part, text)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// member creates a pod of a pod group of Kueue, of so many pods.
func (e *env) member(name, group string, size int) {
	e.t.Helper()
	t := e.pod("1500m", "1Gi")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kueue.x-k8s.io/pod-group-name": group},
		Annotations: map[string]string{"kueue.x-k8s.io/pod-group-total-count": strconv.Itoa(size)}}, Spec: t.Spec}
	_, err := e.s.Kube.CoreV1().Pods(e.name).Create(e.ctx, p, metav1.CreateOptions{})
	e.must(err)
}

// Pods of a pod group get their nodes together or not at all: none before the last one exists, and none while the NodePool's limit
// has capacity for some of them only. When the limit is raised, all run.
func TestGangs(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "gangs")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.limits.nodes": "2"})
	for i := range 2 {
		e.member(fmt.Sprintf("train-%d", i), "train", 3)
	}
	e.names("pod/"+e.name+"/train-0", plan.GangIncomplete, "train", "2")
	e.member("train-2", "train", 3)
	for i := range 3 {
		e.names(fmt.Sprintf("pod/%s/train-%d", e.name, i), plan.GangTooLarge, "train", "2")
	}
	e.event("Pod", "train-", "FailedScheduling", "needs places for 3 pods at once")
	if n := len(e.launches(e.name)); n > 0 {
		t.Fatalf("%d nodes were launched for a part of a gang", n)
	}
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"3"}}}`))
	e.podsRun(3)
	if n := len(e.launches(e.name)); n != 3 {
		t.Errorf("%d nodes were launched for three pods of which each needs one", n)
	}
}

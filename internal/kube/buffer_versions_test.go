// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"encoding/json"
	"testing"
	"time"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A CapacityBuffer of Cluster Autoscaler's v1alpha1 is seen, and its status is read in that version too.
func TestCapacityBufferVersions(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"old"},"template":{"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"1"}}}]}}}`,
		`{"apiVersion":"autoscaling.x-k8s.io/v1alpha1","kind":"CapacityBuffer","metadata":{"name":"old"},"spec":{"podTemplateRef":{"name":"old"},"replicas":3}}`,
	} {
		if err := kubetest.Kubectl([]byte(text), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	var seen *model.Buffer
	w.until("the buffer", func(s *state.State) bool {
		for _, b := range s.Snapshot(time.Now()).Buffers {
			if b.Name == "old" && b.Replicas == 3 {
				seen = b
			}
		}
		return seen != nil
	})
	_, err := p.actor.UpdateBuffer(p.ctx, plan.UpdateBuffer{Namespace: seen.Namespace, Buffer: seen.Name, UID: seen.UID, Replicas: 3, TemplateName: "old", TemplateGeneration: 1,
		Conditions: map[string]model.Condition{bufferv1beta1.ConditionReadyForProvisioning: {Status: "True", Reason: "Resolved", Since: time.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.admin.Core.Get().AbsPath("/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/default/capacitybuffers/old").Do(p.ctx).Raw()
	var have bufferv1beta1.CapacityBuffer
	if err == nil {
		err = json.Unmarshal(raw, &have)
	}
	if err != nil || have.APIVersion != "autoscaling.x-k8s.io/v1alpha1" || have.Status.Replicas == nil || *have.Status.Replicas != 3 || len(have.Status.Conditions) != 1 {
		t.Fatalf("read as v1alpha1: %s, %v", raw, err)
	}
}

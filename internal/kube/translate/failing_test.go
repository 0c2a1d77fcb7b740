// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestFailingReplicas: what a ReplicaSet can't create, and the amounts of the ResourceQuota as it is now with which it can, whatever its first
// failure said of them.
func TestFailingReplicas(t *testing.T) {
	list := func(amounts ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(amounts); i += 2 {
			out[corev1.ResourceName(amounts[i])] = resource.MustParse(amounts[i+1])
		}
		return out
	}
	quotas := func(hard, used corev1.ResourceList) []*corev1.ResourceQuota {
		return []*corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.ResourceQuotaSpec{Hard: list("pods", "1")}},
			{ObjectMeta: metav1.ObjectMeta{Name: "compute"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}}
	}
	const one = `pods "web-7d4-x" is forbidden: exceeded quota: compute, requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1`
	const two = `pods "web-7d4-x" is forbidden: exceeded quota: compute, requested: limits.memory=1536Mi,requests.cpu=1, used: limits.memory=4Gi,requests.cpu=4, limited: limits.memory=4Gi,requests.cpu=4`
	const denied = `admission webhook "policy.example.com" denied the request: no, exceeded quota: of patience`
	for _, x := range []struct {
		name, message string
		quotas        []*corev1.ResourceQuota
		have          int32
		want          []model.CreationRefusal
	}{
		{"of one resource", one, quotas(list("requests.cpu", "1"), list("requests.cpu", "1")), 2,
			[]model.CreationRefusal{{Said: "ResourceQuota compute: the pod requests 500m requests.cpu, and 1 of 1 are in use", Quota: "compute", Resource: "requests.cpu", Enough: "2500m"}}},
		{"the quota was raised since, not enough", one, quotas(list("requests.cpu", "2"), list("requests.cpu", "2")), 4,
			[]model.CreationRefusal{{Said: "ResourceQuota compute: the pod requests 500m requests.cpu, and 2 of 2 are in use", Quota: "compute", Resource: "requests.cpu", Enough: "2500m"}}},
		{"of two", two, quotas(list("requests.cpu", "4", "limits.memory", "4Gi", "pods", "9"), list("requests.cpu", "4", "limits.memory", "4Gi", "pods", "4")), 3,
			[]model.CreationRefusal{{Said: "ResourceQuota compute: the pod requests 1536Mi limits.memory, and 4Gi of 4Gi are in use", Quota: "compute", Resource: "limits.memory", Enough: "7Gi"},
				{Said: "ResourceQuota compute: the pod requests 1 requests.cpu, and 4 of 4 are in use", Quota: "compute", Resource: "requests.cpu", Enough: "6"}}},
		{"of one of the two by now", two, quotas(list("requests.cpu", "4", "limits.memory", "9Gi"), list("requests.cpu", "4", "limits.memory", "4Gi")), 3,
			[]model.CreationRefusal{{Said: "ResourceQuota compute: the pod requests 1 requests.cpu, and 4 of 4 are in use", Quota: "compute", Resource: "requests.cpu", Enough: "6"}}},
		{"room by now", one, quotas(list("requests.cpu", "9"), list("requests.cpu", "1")), 2,
			[]model.CreationRefusal{{Said: one + "; the quota now allows another pod: kube-controller-manager retries after a back-off of up to 16m40s, or when the ReplicaSet changes"}}},
		{"the quota is gone", one, nil, 2, []model.CreationRefusal{{Said: one}}},
		{"a webhook", denied, quotas(list("pods", "1"), list("pods", "1")), 2, []model.CreationRefusal{{Said: denied}}},
	} {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-7d4", OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web", Controller: new(true)}}},
			Spec:   appsv1.ReplicaSetSpec{Replicas: new(int32(5))},
			Status: appsv1.ReplicaSetStatus{Replicas: x.have, Conditions: []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: x.message}}}}
		want := &model.FailingReplicas{Namespace: "shop", ReplicaSet: "web-7d4", Deployment: "web", Missing: int(5 - x.have), Why: x.want}
		if got := FailingReplicas(rs, x.quotas); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, want)
		}
		if n := WantedReplicas(rs); n != 0 {
			t.Errorf("%s: it is making %d pods, want none", x.name, n)
		}
		rs.Status.Replicas = 5
		if got := FailingReplicas(rs, x.quotas); got != nil {
			t.Errorf("%s, though it has all pods: %+v", x.name, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// failureOf returns the condition by which a ReplicaSet says that it can't create pods, or delete them; nil: it has none.
func failureOf(x *appsv1.ReplicaSet) *appsv1.ReplicaSetCondition {
	i := slices.IndexFunc(x.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
		return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &x.Status.Conditions[i]
}

// WantedReplicas returns the number of pods that a ReplicaSet is creating; 0 if its status reports that it cannot.
func WantedReplicas(x *appsv1.ReplicaSet) int {
	if x.DeletionTimestamp != nil || x.Spec.Replicas == nil || failureOf(x) != nil {
		return 0
	}
	return int(*x.Spec.Replicas)
}

// FailingReplicas returns the pods that a ReplicaSet reports it cannot create; nil: none. quotas are the ResourceQuotas
// of its namespace with their current status, since the ReplicaSet keeps the message of its first failure until it no
// longer fails.
func FailingReplicas(x *appsv1.ReplicaSet, quotas []*corev1.ResourceQuota) *model.FailingReplicas {
	failure := failureOf(x)
	if failure == nil || x.DeletionTimestamp != nil || x.Spec.Replicas == nil || x.Status.Replicas >= *x.Spec.Replicas {
		return nil
	}
	out := &model.FailingReplicas{Namespace: x.Namespace, ReplicaSet: x.Name, Missing: int(*x.Spec.Replicas - x.Status.Replicas)}
	if o := metav1.GetControllerOf(x); o != nil && o.Kind == "Deployment" {
		out.Deployment = o.Name
	}
	out.Why = refusals(failure.Message, out.Missing, quotas)
	return out
}

// exceededQuota matches the message of the API server's quota admission, which names the exceeded resources with the
// requested amounts.
var exceededQuota = regexp.MustCompile(`exceeded quota: ([^,\s]+), requested: (\S+), used: \S+, limited: \S+$`)

// longestBackOff is the longest time after which kube-controller-manager tries a ReplicaSet again. It has the default rate limiter of client-go's
// work queues: 5 ms, doubled at each failure, up to 1000 s. A ResourceQuota that is raised doesn't end it.
const longestBackOff = "16m40s"

// refusals returns why pods can't be created, one for each resource of a ResourceQuota; of anything else the message alone.
func refusals(message string, missing int, quotas []*corev1.ResourceQuota) []model.CreationRefusal {
	asIs := []model.CreationRefusal{{Said: message}}
	m := exceededQuota.FindStringSubmatch(message)
	if m == nil {
		return asIs
	}
	i := slices.IndexFunc(quotas, func(q *corev1.ResourceQuota) bool { return q.Name == m[1] })
	if i < 0 {
		return asIs // deleted since, or not seen yet
	}
	q := quotas[i]
	var out []model.CreationRefusal
	for _, part := range strings.Split(m[2], ",") {
		name, amount, _ := strings.Cut(part, "=")
		asked, err := resource.ParseQuantity(amount)
		if err != nil {
			return asIs
		}
		hard, bounded := q.Spec.Hard[corev1.ResourceName(name)]
		used := q.Status.Used[corev1.ResourceName(name)]
		next, all := used.DeepCopy(), asked.DeepCopy()
		next.Add(asked)
		if !bounded || next.Cmp(hard) <= 0 {
			continue
		}
		all.Mul(int64(missing))
		all.Add(used)
		out = append(out, model.CreationRefusal{Said: exceededText(q, corev1.ResourceName(name), asked, used, hard), Quota: q.Name, Resource: name, Enough: all.String()})
	}
	if len(out) == 0 {
		return []model.CreationRefusal{{Said: message + "; the quota now allows another pod: kube-controller-manager retries after a back-off of up to " + longestBackOff + ", or when the ReplicaSet changes"}}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

func TestDeployment(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	share, none, three := intstr.FromString("25%"), intstr.FromInt32(0), int32(3)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "u", Generation: 4, Annotations: map[string]string{"dovetail.sh/surge": "true"}}}
	d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "then"}
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &share}
	d.Status.ObservedGeneration, d.Status.UpdatedReplicas = 4, 1
	want := model.Deployment{Namespace: "shop", Name: "cart", UID: "u", Surge: "true", Replicas: 1, MaxSurge: 1, RestartedAt: "then"}
	if got := *tr.Deployment(d); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	d.Status.ObservedGeneration = 3
	if !tr.Deployment(d).Rolling {
		t.Error("a change that its controller has not seen is a roll to come")
	}
	d.Status.ObservedGeneration, d.Status.UpdatedReplicas = 4, 0
	if !tr.Deployment(d).Rolling {
		t.Error("no pod of its template yet, and it does not roll")
	}
	d.Spec.Replicas, d.Spec.Strategy.RollingUpdate.MaxSurge = &three, &none
	if got := tr.Deployment(d); got.Replicas != 3 || got.MaxSurge != 0 {
		t.Errorf("%+v, want three replicas and no surge", got)
	}
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if got := tr.Deployment(d); !got.Recreate || got.MaxSurge != 0 {
		t.Errorf("%+v, want Recreate", got)
	}
}

// TestSlotOfRestarted has a Deployment's next ReplicaSet make a pod: it is of another class, and of the same slot.
func TestSlotOfRestarted(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	yes := true
	pod := func(set, hash string, change func(*corev1.Pod)) *model.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: set + "-x", Labels: map[string]string{"app": "cart", "pod-template-hash": hash},
			Annotations:     map[string]string{"kubectl.kubernetes.io/restartedAt": hash, "dovetail.sh/surge": "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: "u", Controller: &yes}}}}
		s := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: s, MatchLabelKeys: []string{"pod-template-hash"}}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart", "pod-template-hash": hash}}}}}}
		if change != nil {
			change(p)
		}
		return tr.Pod(p)
	}
	a, b := pod("cart-1a", "1a", nil), pod("cart-2b", "2b", nil)
	if a.Deployment != "cart" || b.Deployment != "cart" || a.RestartedAt != "1a" || a.Surge != "true" {
		t.Errorf("%+v", a)
	}
	if a.Class.Key == b.Class.Key || a.Class.SlotKey == "" || a.Class.SlotKey != b.Class.SlotKey {
		t.Errorf("classes %s\nand %s\nslots %s\nand %s", a.Class.Key, b.Class.Key, a.Class.SlotKey, b.Class.SlotKey)
	}
	if c := pod("cart-3c", "3c", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }); c.Class.SlotKey == a.Class.SlotKey {
		t.Error("a pod that wants another node is of the same slot")
	}
	if c := pod("other", "1a", nil); c.Deployment != "" {
		t.Errorf("a ReplicaSet of its own is taken for one of Deployment %s", c.Deployment)
	}
}

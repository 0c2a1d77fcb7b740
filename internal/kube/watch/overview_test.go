// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// A clock that is off is told from an answer that was slow and from a server that says whole seconds.
func TestClockSkew(t *testing.T) {
	sent := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		date     time.Time
		took     time.Duration
		want     time.Duration
		withinOf time.Duration
	}{
		{"equal", sent, time.Second, 0, 0},
		{"an hour ahead", sent.Add(-time.Hour), 100 * time.Millisecond, time.Hour, time.Second},
		{"an hour behind", sent.Add(time.Hour), 100 * time.Millisecond, -time.Hour, time.Second},
		{"a slow answer", sent.Add(-4 * time.Second), 8 * time.Second, 0, 0},
		{"four seconds", sent.Add(-4 * time.Second), 0, 0, 0},
		{"a server that does not say", time.Time{}, 0, 0, 0},
	} {
		if d := clockSkew(c.date, sent, sent.Add(c.took)); (d - c.want).Abs() > c.withinOf {
			t.Errorf("%s: %s, want %s", c.name, d, c.want)
		}
	}
}

// What metrics-server says is read in every unit that it may be in.
func TestParseUse(t *testing.T) {
	use, err := parseUse([]byte(`{"items":[{"metadata":{"name":"a"},"usage":{"cpu":"156782941n","memory":"1024Ki"}},{"metadata":{"name":"b"},"usage":{"cpu":"2","memory":"1Gi"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if use["a"] != (top.Amounts{CPU: 157, Memory: 1 << 20}) || use["b"] != (top.Amounts{CPU: 2000, Memory: 1 << 30}) {
		t.Errorf("%+v", use)
	}
	if _, err := parseUse([]byte("<html>")); err == nil {
		t.Error("what is no list is read")
	}
}

// Nodes of the usual clouds name their group and capacity type by labels of their own.
func TestOverviewNode(t *testing.T) {
	o := &overview{}
	for _, c := range []struct {
		labels         map[string]string
		pool, capacity string
	}{
		{map[string]string{"karpenter.sh/nodepool": "a", "karpenter.sh/capacity-type": "spot"}, "nodepool/a", "spot"},
		{map[string]string{"karpenter.sh/provisioner-name": "b"}, "provisioner/b", ""},
		{map[string]string{"eks.amazonaws.com/nodegroup": "c", "eks.amazonaws.com/capacityType": "ON_DEMAND"}, "nodegroup/c", "on-demand"},
		{map[string]string{"cloud.google.com/gke-nodepool": "d", "cloud.google.com/gke-spot": "true"}, "nodegroup/d", "spot"},
		{map[string]string{"kubernetes.azure.com/agentpool": "e", "kubernetes.azure.com/scalesetpriority": "spot"}, "nodegroup/e", "spot"},
		{nil, "", ""},
	} {
		n := o.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: c.labels}, Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3920m"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("58")}}})
		if n.Pool != c.pool || n.CapacityType != c.capacity || n.Allocatable != (top.Amounts{CPU: 3920, Memory: 1 << 30}) || n.Pods != 58 {
			t.Errorf("%v: %+v", c.labels, n)
		}
	}
}

// What a NodeClaim's node cost at launch is a price unless the controller says that it is an estimate.
func TestOverviewClaimPrice(t *testing.T) {
	for want, notes := range map[int64]map[string]string{250_000: {model.AnnotationLaunchPrice: "0.25"}, 0: {model.AnnotationLaunchPrice: "0.25", model.AnnotationLaunchPriceEstimated: "true"}} {
		if got := overviewClaim(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: notes}}).LaunchMicro; got != want {
			t.Errorf("%v: %d micro-dollars, want %d", notes, got, want)
		}
	}
}

// A pod's owner is the Deployment behind its ReplicaSet; one that waits says why.
func TestOverviewPod(t *testing.T) {
	o, yes := &overview{}, true
	p := o.pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-5d4-x", Labels: map[string]string{"pod-template-hash": "5d4"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d4", Controller: &yes}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu."}}},
	})
	if p.Owner != "deployment/web" || p.Requests.CPU != 250 || p.Waits.Reason != "Unschedulable" || p.Waits.Message == "" || p.Starting || p.Daemon {
		t.Errorf("%+v", p)
	}
	d := o.pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "proxy", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: "a"}, Status: corev1.PodStatus{Phase: corev1.PodPending}})
	if !d.Daemon || !d.Starting || d.Node != "a" || d.Waits != (top.Waits{}) {
		t.Errorf("%+v", d)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// TestBufferTargets: CapacityBuffers of a StatefulSet, a ReplicaSet and of what is known by its scale alone (a
// ReplicationController) hold room for one pod more like those that it has.
func TestBufferTargets(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shared(t), "targets")
	e.nodePool(nil)
	one := int32(1)
	template := func(app string) corev1.PodTemplateSpec {
		p := e.pod("500m", "256Mi")
		p.Labels["app"] = app
		return p
	}
	labels := func(app string) map[string]string { return map[string]string{"app": app} }
	_, err := e.s.Kube.AppsV1().StatefulSets(e.name).Create(e.ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels("db")}, Template: template("db")}}, metav1.CreateOptions{})
	e.must(err)
	_, err = e.s.Kube.AppsV1().ReplicaSets(e.name).Create(e.ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels("set")}, Template: template("set")}}, metav1.CreateOptions{})
	e.must(err)
	old := template("old")
	_, err = e.s.Kube.CoreV1().ReplicationControllers(e.name).Create(e.ctx, &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: corev1.ReplicationControllerSpec{Replicas: &one, Selector: labels("old"), Template: &old}}, metav1.CreateOptions{})
	e.must(err)
	e.podsRun(3)
	path := "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/" + e.name + "/capacitybuffers"
	for name, target := range map[string]string{"db": "apiGroup: apps, kind: StatefulSet", "set": "apiGroup: apps, kind: ReplicaSet", "old": "kind: ReplicationController"} {
		e.must(e.s.Create(e.ctx, path, `{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: `+name+`}, spec: {percentage: 100, scalableRef: {`+target+`, name: `+name+`}}}`))
	}
	for _, name := range []string{"db", "set", "old"} {
		e.until("the buffer of "+name+" holds room for one pod", func() error {
			b, err := sandbox.Get[bufferv1beta1.CapacityBuffer](e.ctx, e.s, path+"/"+name)
			if err != nil {
				return err
			}
			if c := conditionOf(b.Status.Conditions, "ReadyForProvisioning"); c == nil || c.Status != metav1.ConditionTrue || b.Status.Replicas == nil || *b.Status.Replicas != 1 {
				return fmt.Errorf("conditions %s, %v replicas", conditionsText(b.Status.Conditions), b.Status.Replicas)
			}
			return nil
		})
	}
	e.must(e.s.Delete(e.ctx, path, ""))
}

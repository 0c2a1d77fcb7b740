// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// The controller's identity can do what the chart gives it and no more.
func TestLeastPrivilege(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "rights")
	us, err := s.As(sandbox.Dovetail)
	e.must(err)
	raw := func(method, path, body string) error {
		return us.CoreV1().RESTClient().Verb(method).AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(e.ctx).Error()
	}
	for what, err := range map[string]error{
		"create a node":             raw("POST", "/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"forged"}}`),
		"create a pod":              raw("POST", "/api/v1/namespaces/"+e.name+"/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"forged"}}`),
		"read secrets":              raw("GET", "/api/v1/secrets", ""),
		"delete all nodepools":      raw("DELETE", pools, ""), // one it may: pools of node groups that are found no more
		"delete a provisioner":      raw("DELETE", provisioners+"/"+e.name, ""),
		"update a node's status":    raw("PUT", "/api/v1/nodes/forged/status", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"forged"}}`),
		"bind a pod":                raw("POST", "/api/v1/namespaces/"+e.name+"/pods/forged/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"forged"},"target":{"kind":"Node","name":"n"}}`),
		"take another's lease":      raw("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", ""),
		"give itself rights":        raw("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/dovetail", "{}"),
		"change the pod policy":     raw("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/dovetail-pod-updates", ""),
		"change the node class":     raw("DELETE", classes+"/default", ""),
		"create a nodepool's scale": raw("PUT", pools+"/"+e.name+"/scale", "{}"),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}

	pod := e.pod("100m", "64Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/own", Operator: corev1.TolerationOpExists}}
	})
	made, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"a": "b"}}, Spec: pod.Spec}, metav1.CreateOptions{})
	e.must(err)
	patch := func(text string) error {
		_, err := us.CoreV1().Pods(e.name).Patch(e.ctx, "pod", types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	test := fmt.Sprintf(`{"op":"test","path":"/metadata/uid","value":%q}`, made.UID)
	for what, p := range map[string]string{
		"a label":                   `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
		"an annotation":             `[{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}]`,
		"an image":                  `[{"op":"replace","path":"/spec/containers/0/image","value":"other"}]`,
		"a finalizer":               `[{"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]`,
		"another toleration":        `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"example.com/x","operator":"Exists","effect":"NoSchedule"}}]`,
		"a toleration of all":       `[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`,
		"NoExecute":                 `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Equal","value":"c","effect":"NoExecute"}}]`,
		"its deadline":              `[{"op":"add","path":"/spec/activeDeadlineSeconds","value":5}]`,
		"its reservation and label": `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Equal","value":"c","effect":"NoSchedule"}},{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
	} {
		if err := patch(p); err == nil || !strings.Contains(err.Error(), "dovetail-pod-updates") {
			t.Errorf("it may change %s of a pod, or the policy does not say why not: %v", what, err)
		}
	}
	e.must(patch(`[` + test + `,{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Equal","value":"claim","effect":"NoSchedule"}}]`))
	now, err := s.Kube.CoreV1().Pods(e.name).Get(e.ctx, "pod", metav1.GetOptions{})
	e.must(err)
	if r := reservations(now); len(r) != 1 || r[0] != "claim" {
		t.Errorf("the reservation's toleration was taken, but the pod has %q", r)
	}
	// The policy is about this identity alone.
	e.must(s.Patch(e.ctx, "/api/v1/namespaces/"+e.name+"/pods/pod", `{"metadata":{"labels":{"x":"y"}}}`))
}

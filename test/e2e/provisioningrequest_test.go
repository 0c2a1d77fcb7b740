// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// requestStatus waits until a condition of a ProvisioningRequest has a status and a reason, and returns its message.
func (e *env) requestStatus(name, condition string, status metav1.ConditionStatus, reason string) string {
	e.t.Helper()
	message := ""
	e.until(fmt.Sprintf("ProvisioningRequest %s has condition %s=%s (%s)", name, condition, status, reason), func() error {
		raw, err := e.s.Kube.CoreV1().RESTClient().Get().AbsPath(e.requestPath() + "/" + name).Do(e.ctx).Raw()
		if err != nil {
			return err
		}
		var r struct {
			Status struct{ Conditions []metav1.Condition }
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, condition)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("conditions: %+v", r.Status.Conditions)
		}
		message = c.Message
		return nil
	})
	return message
}

func (e *env) requestPath() string {
	return "/apis/autoscaling.x-k8s.io/v1/namespaces/" + e.name + "/provisioningrequests"
}

// request creates a PodTemplate and a ProvisioningRequest for so many of its pods.
func (e *env) request(name, class string, pods int, cpu, parameters string) {
	e.t.Helper()
	_, err := e.s.Kube.CoreV1().PodTemplates(e.name).Create(e.ctx, &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Template: e.pod(cpu, "100Mi")}, metav1.CreateOptions{})
	e.must(err)
	e.must(e.s.Create(e.ctx, e.requestPath(), fmt.Sprintf("{apiVersion: autoscaling.x-k8s.io/v1, kind: ProvisioningRequest, metadata: {name: %s}, spec: {provisioningClassName: %s.autoscaling.x-k8s.io, parameters: {%s}, podSets: [{count: %d, podTemplateRef: {name: %s}}]}}",
		name, class, parameters, pods, name)))
}

// A ProvisioningRequest gets nodes for all of its pods or for none. It is provisioned when they are Ready, and they are kept for its pods, also
// when the controller is killed; other pods get a node of their own. One that only checks capacity launches nothing.
func TestProvisioningRequests(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t)
	e := newEnv(t, s, "requests")
	crd, err := os.ReadFile("testdata/provisioningrequests.yaml")
	e.must(err)
	e.must(s.CreateCRD(e.ctx, string(crd)))
	e.killLeader() // kinds are looked for at the start

	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.limits.nodes": "2"})
	e.request("train", "best-effort-atomic-scale-up", 3, "1500m", "")
	if m := e.requestStatus("train", model.RequestProvisioned, metav1.ConditionFalse, "CapacityIsNotFound"); !strings.Contains(m, "only 2 fit") {
		t.Errorf("the message %q does not say how many pods would fit", m)
	}
	if n := len(e.launches(e.name)); n > 0 {
		t.Fatalf("%d nodes were launched for a part of a request", n)
	}
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"4"}}}`))
	e.requestStatus("train", model.RequestProvisioned, metav1.ConditionTrue, "CapacityIsProvisioned")
	held := map[string]bool{}
	for _, n := range e.nodes() {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				held[n.Name] = true
			}
		}
		reserved := false
		for _, t := range n.Spec.Taints {
			reserved = reserved || t.Key == model.TaintReserved
		}
		if !reserved {
			t.Errorf("node %s is not held for the request", n.Name)
		}
	}
	if len(held) != 3 {
		t.Errorf("the request is provisioned with %d Ready nodes, want 3", len(held))
	}

	e.deploy("other", 1, e.pod("1500m", "100Mi"))
	for _, p := range e.podsRun(1) {
		if held[p.Spec.NodeName] {
			t.Errorf("pod %s runs on node %s, which is held for the request", p.Name, p.Spec.NodeName)
		}
	}
	e.killLeader()
	for i := range 3 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("train-", i), Labels: map[string]string{"job": "train"},
			Annotations: map[string]string{"autoscaling.x-k8s.io/consume-provisioning-request": "train"}}, Spec: e.pod("1500m", "100Mi").Spec}
		_, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, p, metav1.CreateOptions{})
		e.must(err)
	}
	for _, p := range e.podsRun(4) {
		if p.Labels["job"] == "train" && !held[p.Spec.NodeName] {
			t.Errorf("pod %s runs on node %s, which was not held for it", p.Name, p.Spec.NodeName)
		}
	}
	e.requestStatus("train", model.RequestExpired, metav1.ConditionTrue, "AllPodsArrived")

	e.request("small", "check-capacity", 2, "100m", "")
	e.requestStatus("small", model.RequestProvisioned, metav1.ConditionTrue, "CapacityIsFound")
	e.request("large", "check-capacity", 1, "1500m", `noRetry: "true"`)
	e.requestStatus("large", model.RequestFailed, metav1.ConditionTrue, "CapacityIsNotFound")
	if n := len(e.launches(e.name)); n != 4 {
		t.Errorf("%d nodes were launched, want 4: three for the request and one for the other pod", n)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

const deniedText = "the platform team says no"

// denials are ways in which other people's admission refuses a write: the reason of a ValidatingAdmissionPolicy, or the code of a webhook's answer, with the object in
// details or without.
var denials = []struct {
	name    string
	reason  metav1.StatusReason // of a policy; empty: a webhook
	code    int32
	details bool
}{
	{name: "policy-invalid", reason: metav1.StatusReasonInvalid},
	{name: "policy-forbidden", reason: metav1.StatusReasonForbidden},
	{name: "webhook-400", code: http.StatusBadRequest},
	{name: "webhook-403", code: http.StatusForbidden},
	{name: "webhook-404", code: http.StatusNotFound}, // as if the object were gone
	{name: "webhook-409", code: http.StatusConflict},
	{name: "webhook-422", code: http.StatusUnprocessableEntity},
	{name: "webhook-422-details", code: http.StatusUnprocessableEntity, details: true},
	{name: "webhook-500", code: http.StatusInternalServerError},
}

// TestDenied has other people's admission refuse each kind of write in each way. The answer is that it is refused, in the words of who refused it: neither that the
// object has changed, after which it would be written again at once and nobody told, nor that it is gone.
func TestDenied(t *testing.T) {
	kubetest.Sandbox(t)
	for _, args := range [][]string{{"apply", "-f", "../../test/e2e/testdata/provisioningrequests.yaml"}, {"wait", "--for=condition=Established", "crd/provisioningrequests.autoscaling.x-k8s.io", "--timeout=60s"}} {
		if err := kubetest.Kubectl(nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlane(t)
	writes := p.deniableWrites(t)
	tried := map[string]bool{}
	for _, w := range writes {
		tried[w.name] = true
	}
	actor := reflect.TypeFor[*write.Actor]()
	for i := range actor.NumMethod() {
		if m := actor.Method(i); m.Type.NumIn() == 3 && m.Type.NumOut() == 2 && m.Type.Out(0).Kind() == reflect.Uint64 && !tried[m.Name] {
			t.Errorf("%s is not tried", m.Name)
		}
	}

	var answer atomic.Pointer[metav1.Status]
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: answer.Load()}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(hook.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))

	for _, d := range denials {
		t.Run(d.name, func(t *testing.T) {
			st := &metav1.Status{Status: metav1.StatusFailure, Code: d.code, Message: deniedText}
			if d.details {
				st.Details = &metav1.StatusDetails{Name: "denied-node", Kind: "nodes", Causes: []metav1.StatusCause{{Field: "spec", Message: deniedText}}}
			}
			answer.Store(st)
			objects := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"denied"},"webhooks":[{"name":"denied.example.com",
				"clientConfig":{"url":%q,"caBundle":%q},"failurePolicy":"Fail","sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":10,
				"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}],"matchConditions":%s}]}`, hook.URL, ca, deniedConditions)
			if d.reason != "" {
				objects = fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"denied"},"spec":{"failurePolicy":"Fail",
					"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]},"matchConditions":%s,
					"validations":[{"expression":"false","message":%q,"reason":%q}]}}
					{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"denied"},"spec":{"policyName":"denied","validationActions":["Deny"]}}`,
					deniedConditions, deniedText, d.reason)
			}
			if err := kubetest.Kubectl([]byte(objects), "create", "-f", "-"); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := kubetest.Kubectl([]byte(objects), "delete", "-f", "-"); err != nil {
					t.Error(err)
				}
				p.untilAdmission(t, "is gone", func(err error) bool { return err == nil })
			}()
			p.untilAdmission(t, "is in force", func(err error) bool { return err != nil && strings.Contains(err.Error(), deniedText) })
			for _, w := range writes {
				_, err := w.do(p.ctx)
				if want := w.want(); !errors.Is(err, want) || !strings.Contains(err.Error(), deniedText) {
					t.Errorf("%s answered %v; want %v with what admission says", w.name, err, want)
				}
				var eviction *plan.EvictionDenied // the controller tells of these: TestDeniedWritesAreTold
				if !errors.Is(err, plan.ErrInvalid) && !errors.As(err, &eviction) {
					t.Errorf("%s answered %v, which is told as no refusal", w.name, err)
				}
			}
		})
	}
}

// deniedConditions restrict admission to what the controller writes into objects of TestDenied.
const deniedConditions = `[{"name":"ours","expression":"request.userInfo.username.contains('dovetail')"},
	{"name":"these","expression":"request.name.startsWith('denied-') || (request.operation == 'CREATE' && has(object.metadata.name) && object.metadata.name.startsWith('denied-'))"}]`

// untilAdmission waits until the API server's admission answers a write of the controller that changes nothing as it should.
func (p *plane) untilAdmission(t *testing.T, what string, holds func(error) bool) {
	t.Helper()
	testwait.Until(t, "the admission of the test "+what, func() error {
		_, err := p.us.Core.Delete().Resource("nodes").Name("denied-node").Body(&metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, DryRun: []string{metav1.DryRunAll}}).Do(p.ctx).Get()
		if holds(err) {
			return nil
		}
		return fmt.Errorf("a dry run answers %v", err)
	})
}

// deniableWrite is one write of the controller, which changes something if nobody refuses it.
type deniableWrite struct {
	name string // of the actor's method
	do   func(context.Context) (uint64, error)
}

// want is what its refusal answers: an eviction is tried again soon, since webhooks refuse one until they have prepared a pod's end.
func (w deniableWrite) want() error {
	if w.name == "Evict" {
		return plan.ErrBlocked
	}
	return plan.ErrInvalid
}

// deniable returns a write by a method of the actor.
func deniable[A any](method func(context.Context, A) (uint64, error), name string, action A) deniableWrite {
	return deniableWrite{name, func(ctx context.Context) (uint64, error) { return method(ctx, action) }}
}

// deniableWrites makes the objects, and returns one write at least for each method of the actor.
func (p *plane) deniableWrites(t *testing.T) []deniableWrite {
	t.Helper()
	w := p.watch(t)
	pool := p.makePool(t, "denied-pool")
	node := p.makeNode(t, "denied-node", corev1.Taint{Key: model.TaintUnregistered, Effect: "NoExecute"})
	pod := p.makePod(t, "denied-pod", nil)
	bare := p.makePod(t, "denied-bare", func(pod *corev1.Pod) { pod.Spec.NodeName = node.Name })
	objects := `{"apiVersion":"karpenter.kwok.sh/v1alpha1","kind":"KWOKNodeClass","metadata":{"name":"denied-class"}}
		{"apiVersion":"karpenter.sh/v1alpha1","kind":"NodeOverlay","metadata":{"name":"denied-overlay"},"spec":{"priceAdjustment":"-10%","requirements":[]}}
		{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"denied-web","namespace":"default"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"denied-web"}},
			"template":{"metadata":{"labels":{"app":"denied-web"}},"spec":{"containers":[{"name":"c","image":"none"}]}}}}
		{"apiVersion":"autoscaling.x-k8s.io/v1beta1","kind":"CapacityBuffer","metadata":{"name":"denied-buffer","namespace":"default"},"spec":{"replicas":1,"podTemplateRef":{"name":"denied-template"}}}
		{"apiVersion":"autoscaling.x-k8s.io/v1beta1","kind":"CapacityQuota","metadata":{"name":"denied-quota"},"spec":{"limits":{"resources":{"cpu":"4"}}}}
		{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"denied-template","namespace":"default"},"template":{"spec":{"containers":[{"name":"c","image":"none"}]}}}
		{"apiVersion":"autoscaling.x-k8s.io/v1","kind":"ProvisioningRequest","metadata":{"name":"denied-request","namespace":"default"},"spec":{"provisioningClassName":"check-capacity.autoscaling.x-k8s.io",
			"podSets":[{"podTemplateRef":{"name":"denied-template"},"count":1}]}}`
	if err := kubetest.Kubectl([]byte(objects), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kubetest.Kubectl([]byte(objects), "delete", "-f", "-", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	var of *model.NodePool
	w.until("the pool and the objects", func(s *state.State) bool {
		of = s.Pools.FindPool("denied-pool")
		return of != nil && s.Pools.FindNodeClass(kwokv1alpha1.Group, kwokv1alpha1.KindKWOKNodeClass, "denied-class") != nil
	})
	if _, err := p.actor.CreateClaim(p.ctx, plan.CreateClaim{Name: "denied-claim", Pool: of, Requirements: of.Requirements}); err != nil {
		t.Fatal(err)
	}
	w.until("the claim", func(s *state.State) bool { return s.FindClaim("denied-claim") != nil })
	claim := w.s.FindClaim("denied-claim")
	t.Cleanup(func() { // it has our finalizer
		if _, err := p.actor.UpdateClaim(context.WithoutCancel(p.ctx), plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, RemoveFinalizer: true}); err != nil && !errors.Is(err, plan.ErrGone) {
			t.Error(err)
		}
	})
	conditions := map[string]model.Condition{"Ready": {Status: "False", Reason: "Denied", Message: "a test"}}
	uid := func(path string) string {
		var out metav1.PartialObjectMetadata
		raw, err := p.admin.Core.Get().SetHeader("Accept", "application/json").AbsPath("/apis/" + path).Do(p.ctx).Raw()
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(out.UID)
	}
	return []deniableWrite{
		deniable(p.actor.CreateClaim, "CreateClaim", plan.CreateClaim{Name: "denied-new", Pool: of, Requirements: of.Requirements}),
		deniable(p.actor.UpdateClaim, "UpdateClaim", plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, Annotations: map[string]string{"a": "b"}}),
		deniable(p.actor.UpdateClaim, "UpdateClaim", plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, ProviderID: "test://2"}),
		deniable(p.actor.UpdateClaim, "UpdateClaim", plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, RemoveFinalizer: true}),
		deniable(p.actor.DeleteClaim, "DeleteClaim", plan.DeleteClaim{Claim: claim.Name, UID: claim.UID}),
		deniable(p.actor.UpdateNode, "UpdateNode", plan.UpdateNode{Node: node.Name, UID: string(node.UID), RemoveTaints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}}),
		deniable(p.actor.UpdateNode, "UpdateNode", plan.UpdateNode{Node: node.Name, UID: string(node.UID), Labels: map[string]string{"a": "b"}}),
		deniable(p.actor.DeleteNode, "DeleteNode", plan.DeleteNode{Node: node.Name, UID: string(node.UID)}),
		deniable(p.actor.Bind, "Bind", plan.Bind{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Node: node.Name}),
		deniable(p.actor.Tolerate, "Tolerate", plan.Tolerate{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Claim: claim.Name}),
		deniable(p.actor.Evict, "Evict", plan.Evict{Namespace: bare.Namespace, Pod: bare.Name, UID: string(bare.UID), Node: node.Name}),
		deniable(p.actor.DeletePod, "DeletePod", plan.DeletePod{Namespace: bare.Namespace, Pod: bare.Name, UID: string(bare.UID), Grace: time.Second}),
		deniable(p.actor.Restart, "Restart", plan.Restart{Namespace: "default", Deployment: "denied-web", UID: uid("apps/v1/namespaces/default/deployments/denied-web"), To: "2026-01-01T00:00:00Z"}),
		deniable(p.actor.UpdatePool, "UpdatePool", plan.UpdatePool{Pool: pool.Name, UID: string(pool.UID), Hash: of.Hash, Nodes: 3, Conditions: conditions}),
		deniable(p.actor.UpdateNodeClass, "UpdateNodeClass", plan.UpdateNodeClass{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: "denied-class", Conditions: conditions}),
		deniable(p.actor.UpdateNodeOverlay, "UpdateNodeOverlay", plan.UpdateNodeOverlay{Overlay: "denied-overlay", UID: uid("karpenter.sh/v1alpha1/nodeoverlays/denied-overlay"), Conditions: conditions}),
		deniable(p.actor.UpdateBuffer, "UpdateBuffer", plan.UpdateBuffer{Namespace: "default", Buffer: "denied-buffer", UID: uid("autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/denied-buffer"), Replicas: 7, TemplateName: "denied-template", Conditions: conditions}),
		deniable(p.actor.UpdateRequest, "UpdateRequest", plan.UpdateRequest{Namespace: "default", Request: "denied-request", UID: uid("autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests/denied-request"), Conditions: conditions}),
		deniable(p.actor.UpdateQuota, "UpdateQuota", plan.UpdateQuota{Quota: "denied-quota", UID: uid("autoscaling.x-k8s.io/v1beta1/capacityquotas/denied-quota"), Generation: 1, Conditions: conditions}),
	}
}

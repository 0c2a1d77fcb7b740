// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Bind binds a pod to a node. It returns ErrConflict if the pod is already bound, is being deleted or has scheduling
// gates. The event is written later, when no pod is being bound.
func (a *Actor) Bind(ctx context.Context, b plan.Bind) (uint64, error) {
	body := &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Pod, UID: types.UID(b.UID)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.Node},
	}
	a.events.bindings.Add(1)
	err := a.c.Core.Post().Namespace(b.Namespace).Resource("pods").Name(b.Pod).SubResource("binding").Body(body).Do(ctx).Error()
	a.events.bindings.Add(-1)
	if err != nil {
		return 0, classify(err, "bind", "pod", model.PodKey(b.Namespace, b.Pod))
	}
	a.events.scheduled(b)
	return 0, nil
}

// Tolerate adds the toleration of a NodeClaim's reservation to a pod, and changes nothing else.
func (a *Actor) Tolerate(ctx context.Context, t plan.Tolerate) (uint64, error) {
	name := model.PodKey(t.Namespace, t.Pod)
	toleration := corev1.Toleration{Key: model.TaintReserved, Operator: corev1.TolerationOpEqual, Value: t.Claim, Effect: corev1.TaintEffectNoSchedule}
	patch := func(ops ...operation) error {
		data, err := json.Marshal(append([]operation{{"test", "/metadata/uid", t.UID}}, ops...))
		if err != nil {
			return fmt.Errorf("write patch: %w", err)
		}
		// A thousand of these may be under way: the answer need not hold the pod, the watch will show it.
		return a.c.Core.Patch(types.JSONPatchType).SetHeader("Accept", partialMetadata).Namespace(t.Namespace).Resource("pods").Name(t.Pod).
			Body(data).Do(ctx).Error()
	}
	err := patch(operation{"add", "/spec/tolerations/-", toleration})
	if err != nil && refusedPatch(err) {
		// Another pod of that name, or one that tolerates nothing: admission gives nearly every pod two tolerations.
		var cur corev1.Pod
		if err := a.c.Core.Get().Namespace(t.Namespace).Resource("pods").Name(t.Pod).Do(ctx).Into(&cur); err != nil {
			return 0, classify(err, "tolerate reservation on", "pod", name)
		}
		if string(cur.UID) != t.UID {
			return 0, gone("tolerate reservation on", "pod", name, t.UID)
		}
		if len(cur.Spec.Tolerations) > 0 {
			return 0, fmt.Errorf("tolerate reservation on pod %q: %w: %w", name, plan.ErrConflict, err)
		}
		err = patch(operation{"test", "/spec/tolerations", nil}, operation{"add", "/spec/tolerations", []corev1.Toleration{toleration}})
	}
	if err != nil {
		return 0, classify(err, "tolerate reservation on", "pod", name)
	}
	return 0, nil
}

// partialMetadata requests a response without spec and status.
const partialMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Evict evicts a pod with the eviction API. It returns ErrBlocked with the message if a PodDisruptionBudget or an
// admission webhook refuses, as a webhook may until it has prepared the deletion of the pod.
func (a *Actor) Evict(ctx context.Context, e plan.Evict) (uint64, error) {
	name := model.PodKey(e.Namespace, e.Pod)
	body := &policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Pod},
		DeleteOptions: deleteOptions(e.UID, nil),
	}
	if e.Grace > 0 {
		seconds := int64(e.Grace / time.Second)
		body.DeleteOptions.GracePeriodSeconds = &seconds
	}
	// No retries in here: the server may say "in 10 seconds", and the loop has better things to do than wait for that.
	err := a.c.Core.Post().MaxRetries(0).Namespace(e.Namespace).Resource("pods").Name(e.Pod).SubResource("eviction").Body(body).Do(ctx).Error()
	switch {
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		said := blockedBy(err)
		if budget, ok := translate.BudgetOf(said); ok {
			return 0, fmt.Errorf("evict pod %q: %w", name, &plan.BudgetBlocks{Budget: e.Namespace + "/" + budget, Said: said})
		}
		return 0, fmt.Errorf("evict pod %q: %w: %s", name, plan.ErrBlocked, said)
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		return 0, fmt.Errorf("evict pod %q: %w: %w", name, plan.ErrBlocked, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), deniedByAdmission(err):
		return 0, fmt.Errorf("evict pod %q: %w", name, &plan.EvictionDenied{Err: err})
	case apierrors.IsConflict(err):
		return 0, fmt.Errorf("evict pod %q: %w: %w", name, plan.ErrGone, err)
	}
	return 0, classify(err, "evict", "pod", name)
}

// blockedBy is the cause's own message, which names the budget; the status' is the same for every budget.
func blockedBy(err error) string {
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Details != nil {
		for _, c := range s.Status().Details.Causes {
			if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
				return c.Message
			}
		}
	}
	return err.Error()
}

// Restart restarts a Deployment with the annotation that kubectl uses. If it has been restarted since the decision,
// nothing is changed.
func (a *Actor) Restart(ctx context.Context, r plan.Restart) (uint64, error) {
	name := r.Namespace + "/" + r.Deployment
	var cur appsv1.Deployment
	if err := a.c.Apps.Get().Namespace(r.Namespace).Resource("deployments").Name(r.Deployment).Do(ctx).Into(&cur); err != nil {
		return 0, classify(err, "restart", "deployment", name)
	}
	if string(cur.UID) != r.UID {
		return 0, gone("restart", "deployment", name, r.UID)
	}
	if cur.Spec.Template.Annotations[model.AnnotationRestartedAt] != r.From {
		return 0, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID, "resourceVersion": cur.ResourceVersion},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{model.AnnotationRestartedAt: r.To}}}},
	})
	if err != nil {
		return 0, fmt.Errorf("write patch: %w", err)
	}
	return 0, classify(a.c.Apps.Patch(types.MergePatchType).Namespace(r.Namespace).Resource("deployments").Name(r.Deployment).Body(data).Do(ctx).Error(),
		"restart", "deployment", name)
}

// DeletePod deletes a pod regardless of PodDisruptionBudgets. The grace period is at least one second: 0 would remove
// the pod from the API server while its containers may still run.
func (a *Actor) DeletePod(ctx context.Context, d plan.DeletePod) (uint64, error) {
	grace := max(1, int64((d.Grace+time.Second-1)/time.Second))
	err := a.c.Core.Delete().Namespace(d.Namespace).Resource("pods").Name(d.Pod).Body(deleteOptions(d.UID, &grace)).Do(ctx).Error()
	return 0, classify(err, "delete", "pod", model.PodKey(d.Namespace, d.Pod))
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// UpdateRequest writes the status of a ProvisioningRequest: conditions, and the time of the next retry.
func (a *Actor) UpdateRequest(ctx context.Context, u plan.UpdateRequest) (uint64, error) {
	k := kind[*unstructured.Unstructured]{
		"provisioningrequest", "provisioningrequests", a.c.Requests, &a.c.Seen.Requests, func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
	}
	if k.client == nil {
		return 0, fmt.Errorf("update provisioningrequest %q: %w", u.Namespace+"/"+u.Request, plan.ErrGone)
	}
	return k.edit(ctx, "update", u.Namespace+"/"+u.Request, u.UID, func(cur *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		var have struct {
			Status struct {
				Conditions               []metav1.Condition
				ProvisioningClassDetails map[string]string
			}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cur.Object, &have); err != nil {
			return nil, fmt.Errorf("read provisioningrequest %s/%s: %w", u.Namespace, u.Request, err)
		}
		list, changed := mergeConditions(have.Status.Conditions, u.Conditions, cur.GetGeneration(), a.now())
		details := map[string]any{}
		set := func(name, value string) {
			switch was, ok := have.Status.ProvisioningClassDetails[name]; {
			case value == "" && ok:
				details[name] = nil
			case value != "" && was != value:
				details[name] = value
			}
		}
		if u.Attempts > 0 {
			set(translate.DetailRetryAt, u.RetryAt.UTC().Format(time.RFC3339))
			set(translate.DetailAttempts, strconv.Itoa(u.Attempts))
		} else {
			set(translate.DetailRetryAt, "")
			set(translate.DetailAttempts, "")
		}
		if !changed && len(details) == 0 {
			return cur, nil
		}
		status := map[string]any{"conditions": list}
		if len(details) > 0 {
			status["provisioningClassDetails"] = details
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.GetUID(), "resourceVersion": cur.GetResourceVersion()}, "status": status}
		return k.patch(ctx, u.Namespace+"/"+u.Request, types.MergePatchType, body, "status")
	})
}

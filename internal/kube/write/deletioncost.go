// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// WriteDeletionCost sets the deletion cost of a pod, or removes Dovetail's. It uses server-side apply, so a value set by
// another manager is kept: plan.ErrConflict.
func (a *Actor) WriteDeletionCost(ctx context.Context, w deletioncost.Write) error {
	meta := map[string]any{"name": w.Pod, "namespace": w.Namespace, "uid": w.UID}
	if w.Cost != "" {
		meta["annotations"] = map[string]string{corev1.PodDeletionCost: w.Cost, model.AnnotationDeletionCost: w.Cost}
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta})
	if err != nil {
		return fmt.Errorf("write deletion cost of pod %s: %w", model.PodKey(w.Namespace, w.Pod), err)
	}
	err = a.c.Core.Patch(types.ApplyYAMLPatchType).SetHeader("Accept", partialMetadata).Namespace(w.Namespace).Resource("pods").Name(w.Pod).
		Param("fieldManager", "dovetail-deletion-cost").Body(body).Do(ctx).Error()
	return classify(err, "write deletion cost of", "pod", model.PodKey(w.Namespace, w.Pod))
}

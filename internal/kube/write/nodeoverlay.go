// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func (a *Actor) overlayKind() kind[*karpv1alpha1.NodeOverlay] {
	return kind[*karpv1alpha1.NodeOverlay]{
		"nodeoverlay", "nodeoverlays", a.c.KarpenterAlpha, &a.c.Seen.Overlays, func() *karpv1alpha1.NodeOverlay { return &karpv1alpha1.NodeOverlay{} },
	}
}

// UpdateNodeOverlay writes the conditions of a NodeOverlay.
func (a *Actor) UpdateNodeOverlay(ctx context.Context, u plan.UpdateNodeOverlay) (uint64, error) {
	k := a.overlayKind()
	return k.edit(ctx, "update", u.Overlay, u.UID, func(cur *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
		list, changed := mergeConditions(cur.Status.Conditions, u.Conditions, cur.Generation, a.now())
		if !changed {
			return cur, nil
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": map[string]any{"conditions": list}}
		return k.patch(ctx, u.Overlay, types.MergePatchType, body, "status")
	})
}

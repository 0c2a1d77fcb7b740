// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

func (w *watcher) followNodeOverlays(ctx context.Context, wg *sync.WaitGroup) {
	c, emit := w.c, w.emit
	follow(ctx, w, wg, source{c.karpenterAlpha, "nodeoverlays", &karpv1alpha1.NodeOverlay{}}, &sync.Mutex{},
		func(k string, o *karpv1alpha1.NodeOverlay) {
			seen(&c.Seen.overlays, k, o)
			m := w.t.NodeOverlay(o)
			emit(func(s *state.State) { s.Pools.SetNodeOverlay(m) })
		},
		func(k string) {
			c.Seen.overlays.delete(k)
			emit(func(s *state.State) { s.Pools.DeleteNodeOverlay(k) })
		})
}

func (a *Actor) overlayKind() kind[*karpv1alpha1.NodeOverlay] {
	return kind[*karpv1alpha1.NodeOverlay]{
		"nodeoverlay", "nodeoverlays", a.c.karpenterAlpha, &a.c.Seen.overlays, func() *karpv1alpha1.NodeOverlay { return &karpv1alpha1.NodeOverlay{} },
	}
}

// UpdateNodeOverlay writes a NodeOverlay's conditions.
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

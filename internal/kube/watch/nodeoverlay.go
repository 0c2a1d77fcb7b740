// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

func (w *watcher) followNodeOverlays(ctx context.Context, wg *sync.WaitGroup) {
	c, emit := w.c, w.emit
	follow(ctx, w, wg, source{c.KarpenterAlpha, "nodeoverlays", &karpv1alpha1.NodeOverlay{}}, &sync.Mutex{},
		func(k string, o *karpv1alpha1.NodeOverlay) {
			client.KeepSeen(&c.Seen.Overlays, k, o)
			m := w.t.NodeOverlay(o)
			if d := c.Seen.Devices; d != nil {
				d.SetOverlay(k, translate.DevicesOf(o))
			}
			emit(func(s *state.State) { s.Pools.SetNodeOverlay(m) })
		},
		func(k string) {
			c.Seen.Overlays.Delete(k)
			if d := c.Seen.Devices; d != nil {
				d.SetOverlay(k, nil)
			}
			emit(func(s *state.State) { s.Pools.DeleteNodeOverlay(k) })
		})
}

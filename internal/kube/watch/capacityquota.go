// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// followQuotas watches CapacityQuotas. wg is done after all initial ones were passed.
func (w *watcher) followQuotas(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, w, wg, source{c.Buffers, "capacityquotas", &bufferv1beta1.CapacityQuota{}}, &sync.Mutex{},
		func(k string, q *bufferv1beta1.CapacityQuota) {
			client.KeepSeen(&c.Seen.CapacityQuotas, k, q)
			l, v := w.t.CapacityQuota(q), translate.ResourceVersion(q.ResourceVersion)
			w.emit(func(s *state.State) { s.SetQuotaLimit(l, v) })
		},
		func(k string) {
			c.Seen.CapacityQuotas.Delete(k)
			w.emit(func(s *state.State) { s.DeleteLimit(translate.QuotaLimitName(k)) })
		})
}

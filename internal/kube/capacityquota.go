// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// followQuotas watches CapacityQuotas. wg is done when each that was there has been told of.
func (w *watcher) followQuotas(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, w, wg, source{c.buffers, "capacityquotas", &bufferv1beta1.CapacityQuota{}}, &sync.Mutex{},
		func(k string, q *bufferv1beta1.CapacityQuota) {
			seen(&c.Seen.capacityQuotas, k, q)
			l, v := w.t.CapacityQuota(q), translate.ResourceVersion(q.ResourceVersion)
			w.emit(func(s *state.State) { s.SetQuotaLimit(l, v) })
		},
		func(k string) {
			c.Seen.capacityQuotas.delete(k)
			w.emit(func(s *state.State) { s.DeleteLimit(translate.QuotaLimitName(k)) })
		})
}

func (a *Actor) quotaKind() kind[*bufferv1beta1.CapacityQuota] {
	return kind[*bufferv1beta1.CapacityQuota]{
		"capacityquota", "capacityquotas", a.c.buffers, &a.c.Seen.capacityQuotas, func() *bufferv1beta1.CapacityQuota { return &bufferv1beta1.CapacityQuota{} },
	}
}

// UpdateQuota writes a CapacityQuota's status.
func (a *Actor) UpdateQuota(ctx context.Context, u plan.UpdateQuota) (uint64, error) {
	k := a.quotaKind()
	return k.edit(ctx, "update", u.Quota, u.UID, func(cur *bufferv1beta1.CapacityQuota) (*bufferv1beta1.CapacityQuota, error) {
		list, _ := mergeConditions(cur.Status.Conditions, u.Conditions, u.Generation, a.now())
		used := map[string]any{}
		if have := cur.Status.Used; have != nil {
			for name := range have.Resources {
				used[name] = nil // what is not limited any more goes
			}
		}
		for name, amount := range u.Used {
			used[name] = amount
		}
		status := map[string]any{"conditions": list, "observedGeneration": u.Generation, "used": map[string]any{"resources": used}}
		body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": status}
		return k.patch(ctx, u.Quota, types.MergePatchType, body, "status")
	})
}

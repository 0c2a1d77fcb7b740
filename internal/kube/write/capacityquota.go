// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func (a *Actor) quotaKind() kind[*bufferv1beta1.CapacityQuota] {
	return kind[*bufferv1beta1.CapacityQuota]{
		"capacityquota", "capacityquotas", a.c.Buffers, &a.c.Seen.CapacityQuotas, func() *bufferv1beta1.CapacityQuota { return &bufferv1beta1.CapacityQuota{} },
	}
}

// UpdateQuota writes the status of a CapacityQuota.
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

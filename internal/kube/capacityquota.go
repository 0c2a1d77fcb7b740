// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// quotaLimit names the limit that a CapacityQuota is.
func quotaLimit(quota string) string { return "capacityquota/" + quota }

// CapacityQuota translates a quota. One that can't hold as it is written limits nothing, and says so in Invalid.
func (t *Translator) CapacityQuota(q *bufferv1beta1.CapacityQuota) *model.CapacityLimit {
	o := &model.Quota{Name: q.Name, UID: string(q.UID), Generation: q.Generation, Resources: slices.Sorted(maps.Keys(q.Spec.Limits.Resources)),
		ObservedGeneration: q.Status.ObservedGeneration, Conditions: conditions(q.Status.Conditions)}
	if u := q.Status.Used; u != nil {
		o.Used = map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(u.Resources)) {
			d, v := t.quotaAmount(name, u.Resources[name])
			o.Used[name] = model.FormatAmount(d, v)
		}
	}
	out := &model.CapacityLimit{Name: quotaLimit(q.Name), Nodes: -1, MicroPerHour: -1, Quota: o}
	if q.Spec.Selector != nil {
		if s := selector(nil, "", q.Spec.Selector); s != nil {
			out.Selector = *s
		} else {
			o.Invalid = "spec.selector is no label selector; correct it"
			return out
		}
	}
	if len(o.Resources) == 0 {
		o.Invalid = "spec.limits.resources names no resource; name cpu, memory, nodes or an extended resource"
	}
	for _, name := range o.Resources {
		amount := q.Spec.Limits.Resources[name]
		if amount.Sign() < 0 || amount.MilliValue()%1000 != 0 && amount.Value() < 1<<50 {
			o.Invalid = "spec.limits.resources." + name + " is " + amount.String() + "; give a whole number of 0 or more"
		}
	}
	if o.Invalid != "" {
		return out
	}
	for _, name := range o.Resources {
		amount := q.Spec.Limits.Resources[name]
		if name == bufferv1beta1.QuotaNodes {
			out.Nodes = amount.Value()
			continue
		}
		out.SetMost(t.quotaAmount(name, amount))
	}
	return out
}

// quotaAmount returns an amount of a resource as vectors hold it; nodes are counted as what has no unit is.
func (t *Translator) quotaAmount(name string, amount resource.Quantity) (model.Dim, int64) {
	if name == bufferv1beta1.QuotaNodes {
		return model.Pods, amount.Value()
	}
	d := t.Table.Dim(name)
	if d == model.CPU {
		return d, amount.MilliValue()
	}
	return d, amount.Value()
}

// followQuotas watches CapacityQuotas. wg is done when each that was there has been told of.
func (w *watcher) followQuotas(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, c, wg, source{c.buffers, "capacityquotas", &bufferv1beta1.CapacityQuota{}}, &sync.Mutex{},
		func(k string, q *bufferv1beta1.CapacityQuota) {
			trim(q)
			seen(&c.capacityQuotas, k, q)
			l, v := w.t.CapacityQuota(q), version(q.ResourceVersion)
			w.emit(func(s *state.State) { s.SetQuotaLimit(l, v) })
		},
		func(k string) {
			c.capacityQuotas.delete(k)
			w.emit(func(s *state.State) { s.DeleteLimit(quotaLimit(k)) })
		})
}

func (a *Actor) quotaKind() kind[*bufferv1beta1.CapacityQuota] {
	return kind[*bufferv1beta1.CapacityQuota]{
		"capacityquota", "capacityquotas", a.c.buffers, &a.c.capacityQuotas, func() *bufferv1beta1.CapacityQuota { return &bufferv1beta1.CapacityQuota{} },
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

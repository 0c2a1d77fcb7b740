// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// QuotaLimitName returns the name of the limit of a CapacityQuota.
func QuotaLimitName(quota string) string { return "capacityquota/" + quota }

// CapacityQuota translates a quota. An invalid quota limits nothing, and has Invalid set.
func (t *Translator) CapacityQuota(q *bufferv1beta1.CapacityQuota) *model.CapacityLimit {
	o := &model.Quota{Name: q.Name, UID: string(q.UID), Generation: q.Generation, Resources: slices.Sorted(maps.Keys(q.Spec.Limits.Resources)),
		ObservedGeneration: q.Status.ObservedGeneration, Conditions: Conditions(q.Status.Conditions)}
	if u := q.Status.Used; u != nil {
		o.Used = map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(u.Resources)) {
			d, v := t.quotaAmount(name, u.Resources[name])
			o.Used[name] = model.FormatAmount(d, v)
		}
	}
	out := &model.CapacityLimit{Name: QuotaLimitName(q.Name), Nodes: -1, MicroPerHour: -1, Quota: o}
	if q.Spec.Selector != nil {
		if s := selector(nil, "", q.Spec.Selector); s != nil {
			out.Selector = *s
		} else {
			o.Invalid = "spec.selector is not a valid label selector; correct it"
			return out
		}
	}
	if len(o.Resources) == 0 {
		o.Invalid = "spec.limits.resources is empty; set cpu, memory, nodes or an extended resource"
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

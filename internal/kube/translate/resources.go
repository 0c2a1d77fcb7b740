// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Resources translates a resource list. pods is the amount of the resource pods if the list does not have it.
func (t *Translator) Resources(list corev1.ResourceList, pods int64) model.Resources {
	out := make(model.Resources, model.FirstExtended, int(model.FirstExtended)+len(list))
	out[model.Pods] = pods
	for _, name := range sortedNames(list) { // new names get their dimensions in an order that doesn't change from run to run
		q := list[name]
		switch name {
		case corev1.ResourceCPU:
			out[model.CPU] = MilliOf(q)
		case corev1.ResourceMemory:
			out[model.Memory] = AmountOf(q)
		case corev1.ResourceEphemeralStorage:
			out[model.EphemeralStorage] = AmountOf(q)
		case corev1.ResourcePods:
			out[model.Pods] = AmountOf(q)
		default:
			v := AmountOf(q)
			if v == 0 {
				continue
			}
			d := t.Table.Dim(string(name))
			for len(out) <= int(d) {
				out = append(out, 0)
			}
			out[d] = v
		}
	}
	return out
}

// ResourceList is the inverse of Resources. It omits amounts of zero, except in fixed dimensions other than Pods, and
// resources that count devices, which do not exist in the API.
func (t *Translator) ResourceList(r model.Resources) corev1.ResourceList {
	names := t.Table.Names()
	out := corev1.ResourceList{}
	for i, v := range r {
		if v == 0 || i >= len(names) || model.IsDevice(names[i]) {
			continue
		}
		switch model.Dim(i) {
		case model.CPU:
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
		case model.Memory, model.EphemeralStorage:
			out[corev1.ResourceName(names[i])] = *resource.NewQuantity(v, resource.BinarySI)
		default:
			out[corev1.ResourceName(names[i])] = *resource.NewQuantity(v, resource.DecimalSI)
		}
	}
	return out
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

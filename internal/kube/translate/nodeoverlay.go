// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/nodeoverlay"
)

// AnnotationResourceSlices on a NodeOverlay defines the devices that nodes of the matching instance types will publish,
// as a YAML list of devices.TypeSlice.
const AnnotationResourceSlices = "dovetail.sh/resource-slices"

// DevicesOf returns the devices that a NodeOverlay defines; nil: none, or it is invalid.
func DevicesOf(o *karpv1alpha1.NodeOverlay) []devices.TypeSlice {
	text := o.Annotations[AnnotationResourceSlices]
	if _, why := CheckNodeOverlay(o); text == "" || why != "" {
		return nil
	}
	out, err := devices.ParseTypeSlices(text)
	if err != nil {
		return nil // CheckNodeOverlay has read it
	}
	return out
}

// NodeOverlay translates a NodeOverlay. An invalid overlay has Invalid set.
func (t *Translator) NodeOverlay(o *karpv1alpha1.NodeOverlay) nodeoverlay.Overlay {
	out := nodeoverlay.Overlay{
		Name: o.Name, UID: string(o.UID), Version: ResourceVersion(o.ResourceVersion), Conditions: Conditions(o.Status.Conditions),
	}
	if o.Spec.Weight != nil {
		out.Weight = *o.Spec.Weight
	}
	if field, why := CheckNodeOverlay(o); why != "" {
		out.Invalid = field + ": " + why
		return out
	}
	for i := range o.Spec.Requirements {
		r, err := overlayRequirement(&o.Spec.Requirements[i])
		if err != nil { // CheckNodeOverlay has read it
			out.Invalid = err.Error()
			return out
		}
		out.Requirements = out.Requirements.With(r)
	}
	switch {
	case o.Spec.Price != nil:
		out.Price, _ = nodeoverlay.ReadPrice(*o.Spec.Price)
	case o.Spec.PriceAdjustment != nil:
		out.Price, _ = nodeoverlay.ReadPriceAdjustment(*o.Spec.PriceAdjustment)
	}
	for _, name := range sortedNames(o.Spec.Capacity) {
		q := o.Spec.Capacity[name]
		out.Capacity = append(out.Capacity, nodeoverlay.Resource{Name: string(name), Dim: t.Table.Dim(string(name)), Amount: wholeOf(q)})
	}
	out.Devices = o.Annotations[AnnotationResourceSlices]
	slices.SortFunc(out.Capacity, func(a, b nodeoverlay.Resource) int { return int(a.Dim) - int(b.Dim) })
	return out
}

func overlayRequirement(r *karpv1alpha1.Requirement) (model.Requirement, error) {
	return Requirement(&karpv1.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
}

// CheckNodeOverlay returns the path of the first invalid field of a NodeOverlay, and the reason; both empty: it is
// valid. It includes the validation rules of the CustomResourceDefinition, which is not applied to overlays in files.
func CheckNodeOverlay(o *karpv1alpha1.NodeOverlay) (field, why string) {
	for i := range o.Spec.Requirements {
		r := &o.Spec.Requirements[i]
		at := "spec.requirements[" + strconv.Itoa(i) + "]"
		if r.Key != karpv1.LabelNodePool {
			if why := restricted(r.Key); why != "" {
				return at + ".key", why
			}
		}
		if errs := validation.IsQualifiedName(r.Key); len(errs) > 0 {
			return at + ".key", fmt.Sprintf("%q is not a valid label key: %s", r.Key, errs[0])
		}
		for _, v := range r.Values {
			if errs := validation.IsValidLabelValue(v); len(errs) > 0 {
				return at + ".values", fmt.Sprintf("%q is not a valid label value: %s", v, errs[0])
			}
		}
		if _, err := overlayRequirement(r); err != nil {
			return at, err.Error()
		}
		if r.Operator == corev1.NodeSelectorOpNotIn && len(r.Values) == 0 {
			return at + ".values", "operator NotIn needs at least one value"
		}
		if strings.HasPrefix(string(r.Operator), "G") || strings.HasPrefix(string(r.Operator), "L") {
			if n, err := strconv.Atoi(r.Values[0]); err != nil || n < 0 {
				return at + ".values", fmt.Sprintf("operator %s needs a whole number of at least 0, has %q", r.Operator, r.Values[0])
			}
		}
		if r.Key == karpv1.LabelCapacityType && r.Operator == corev1.NodeSelectorOpIn &&
			!slices.ContainsFunc(r.Values, func(v string) bool { return v == model.OnDemand || v == model.Spot || v == model.Reserved }) {
			return at + ".values", fmt.Sprintf("none of %q is a capacity type; use on-demand, spot or reserved", r.Values)
		}
	}
	if o.Spec.Price != nil && o.Spec.PriceAdjustment != nil {
		return "spec.price", "price and priceAdjustment exclude each other; give one of them"
	}
	if o.Spec.Price != nil {
		if _, err := nodeoverlay.ReadPrice(*o.Spec.Price); err != nil {
			return "spec.price", err.Error()
		}
	}
	if o.Spec.PriceAdjustment != nil {
		if _, err := nodeoverlay.ReadPriceAdjustment(*o.Spec.PriceAdjustment); err != nil {
			return "spec.priceAdjustment", err.Error()
		}
	}
	for _, name := range sortedNames(o.Spec.Capacity) {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
			return "spec.capacity[" + string(name) + "]", "only extended resources can be added; " + string(name) + " is the instance type's own"
		}
		if q := o.Spec.Capacity[name]; q.Sign() < 0 {
			return "spec.capacity[" + string(name) + "]", "must not be negative"
		}
	}
	if text, ok := o.Annotations[AnnotationResourceSlices]; ok {
		if _, err := devices.ParseTypeSlices(text); err != nil {
			return "metadata.annotations[" + AnnotationResourceSlices + "]", err.Error()
		}
	}
	if w := o.Spec.Weight; w != nil && (*w < 1 || *w > 10000) {
		return "spec.weight", "need a number from 1 to 10000"
	}
	return "", ""
}

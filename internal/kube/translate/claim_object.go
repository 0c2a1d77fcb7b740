// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// ClaimObject returns the NodeClaim object of a CreateClaim action.
func (t *Translator) ClaimObject(c plan.CreateClaim) (*karpv1.NodeClaim, error) {
	p := c.Pool
	if p == nil {
		return nil, errors.New("no pool given")
	}
	reqs, err := wireRequirements(c.Requirements)
	if err != nil {
		return nil, err
	}
	group := referenceGroup(p.ClassGroup, p.Taken)
	out := &karpv1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: karpv1.GroupVersion.String(), Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, Labels: map[string]string{}, Annotations: map[string]string{},
			Finalizers:      []string{karpv1.FinalizerTermination},
			OwnerReferences: []metav1.OwnerReference{PoolReference(p.Name, p.UID)},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints: wireTaints(p.Taints), StartupTaints: wireTaints(p.StartupTaints), Requirements: reqs,
			Resources:    karpv1.ResourceRequirements{Requests: t.ResourceList(c.Requests)},
			NodeClassRef: &karpv1.NodeClassReference{Group: group, Kind: p.ClassKind, Name: p.ClassName},
			ExpireAfter:  wireNillable(p.ExpireAfter),
		},
	}
	if p.TerminationGracePeriod >= 0 {
		out.Spec.TerminationGracePeriod = &metav1.Duration{Duration: p.TerminationGracePeriod}
	}
	maps.Copy(out.Labels, p.Labels)
	out.Labels[karpv1.LabelNodePool] = p.Name
	out.Labels[karpv1.NodeClassLabel(group, p.ClassKind)] = p.ClassName
	if p.Provisioner != "" {
		out.Labels[model.LabelProvisioner] = p.Provisioner
	}
	setRequiredLabels(out.Labels, &c)
	maps.Copy(out.Annotations, p.Annotations)
	maps.Copy(out.Annotations, c.Annotations)
	for _, it := range c.Types {
		if slices.ContainsFunc(it.Offerings, func(o model.Offering) bool { return o.PriceOverlay != "" }) {
			out.Annotations[karpv1alpha1.AnnotationPriceOverlayApplied] = "true"
		}
		if len(it.CapacityOverlays) > 0 {
			out.Annotations[karpv1alpha1.AnnotationCapacityOverlayApplied] = "true"
		}
	}
	if c.MinValuesRelaxed {
		out.Annotations[karpv1.AnnotationMinValuesRelaxed] = "true"
	}
	out.Annotations[karpv1.AnnotationNodePoolHash] = p.Hash
	out.Annotations[karpv1.AnnotationNodePoolHashVersion] = karpv1.NodePoolHashVersion
	if c.Reserved {
		out.Annotations[model.AnnotationReserved] = "true"
	} else {
		out.Annotations[model.AnnotationNotReserved] = cmp.Or(string(c.NoReserve.Code), string(plan.LandingOff))
	}
	if text := t.devicesText(c.Requests); text != "" {
		out.Annotations[AnnotationRequestedDevices] = text
	}
	if len(c.Slots) > 0 {
		if out.Annotations[AnnotationSlots], err = t.SlotsText(c.Slots); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// setRequiredLabels sets the labels that a NodeClaim requires of its node, as far as they are not set. One value is what
// the plan counted on. Of several, or of a bound, one is chosen where nothing else will set the label: a node without it
// has drifted from its NodePool as soon as it is there. What the cloud's types bear comes with the launch.
func setRequiredLabels(labels map[string]string, c *plan.CreateClaim) {
	for i := range c.Requirements {
		r := &c.Requirements[i]
		if _, set := labels[r.Key]; set || r.Key == corev1.LabelHostname {
			continue
		}
		if !r.Complement && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
			continue
		}
		if r.AllowAbsent || model.IsCloudLabel(r.Key, c.Types) {
			continue
		}
		if v, ok := r.AnyValue(); ok {
			labels[r.Key] = v
		}
	}
}

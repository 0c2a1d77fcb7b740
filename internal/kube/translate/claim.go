// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// NodeClaim translates a NodeClaim.
func (t *Translator) NodeClaim(c *karpv1.NodeClaim) *model.Claim {
	out := &model.Claim{
		Name: c.Name, UID: string(c.UID), Pool: c.Labels[karpv1.LabelNodePool], Labels: c.Labels, Annotations: c.Annotations,
		Taints: taints(c.Spec.Taints), StartupTaints: taints(c.Spec.StartupTaints),
		Requests: t.Resources(c.Spec.Resources.Requests, 0), ExpireAfter: nillable(c.Spec.ExpireAfter),
		TerminationGracePeriod: duration(c.Spec.TerminationGracePeriod),
		Created:                c.CreationTimestamp.Time, HasFinalizer: slices.Contains(c.Finalizers, karpv1.FinalizerTermination), OtherFinalizers: otherFinalizers(c.Finalizers),
		ProviderID: c.Status.ProviderID, NodeName: c.Status.NodeName, ImageID: c.Status.ImageID,
		Conditions: Conditions(c.Status.Conditions), Reserved: c.Annotations[model.AnnotationReserved] == "true",
		NoReserve: c.Annotations[model.AnnotationNotReserved],
	}
	out.Deleting = DeletionTime(c)
	if !out.Reserved && out.NoReserve == "" { // Dovetail's have one of both: see ClaimObject
		out.Maker = makerOf(c)
	}
	out.Orphan = out.Pool != "" && c.Annotations[karpv1.AnnotationNodePoolHash] != "" && !slices.ContainsFunc(c.OwnerReferences, IsNodePool)
	if r := c.Spec.NodeClassRef; r != nil {
		out.ClassGroup, _ = ClassGroup(r.Group)
		out.ClassKind, out.ClassName = r.Kind, r.Name
	}
	for i := range c.Spec.Requirements {
		// The API server has checked them; one that it let through and we can't read is as good as not there.
		if r, err := Requirement(&c.Spec.Requirements[i]); err == nil {
			out.Requirements = out.Requirements.With(r)
		}
	}
	if len(c.Status.Capacity) > 0 {
		out.Capacity = t.Resources(c.Status.Capacity, 0)
	}
	if len(c.Status.Allocatable) > 0 {
		out.Allocatable = t.Resources(c.Status.Allocatable, 0)
	}
	out.Requests = t.withDevices(out.Requests, c.Annotations[AnnotationRequestedDevices])
	out.Allocatable = t.withDevices(out.Allocatable, c.Annotations[AnnotationDevices])
	if c.Status.LastPodEventTime != nil {
		out.LastPodEvent = c.Status.LastPodEventTime.Time
	}
	if s := c.Annotations[AnnotationSlots]; s != "" {
		var slots []wireSlot
		if err := json.Unmarshal([]byte(s), &slots); err != nil {
			slots = nil // somebody else's handwriting: no reservation can be read from it
		}
		for _, w := range slots {
			if w.Count < 0 {
				continue // as above
			}
			slot := model.Slot{Class: w.Class, Owner: w.Owner, Count: w.Count, Loose: w.Loose}
			for _, name := range slices.Sorted(maps.Keys(w.Requests)) {
				if t.isDisused(name) {
					continue
				}
				slot.Requests = slot.Requests.AddInto(model.Resources(nil).With(t.Table.Dim(name), w.Requests[name]), 1)
			}
			out.Slots = append(out.Slots, slot)
		}
		slices.SortFunc(out.Slots, func(a, b model.Slot) int {
			return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Owner, b.Owner))
		})
	}
	return out
}

// makerOf names whom a NodeClaim of others is for, in the same way when they create it again.
func makerOf(c *karpv1.NodeClaim) string {
	for _, o := range c.OwnerReferences {
		if !IsNodePool(o) {
			return strings.ToLower(o.Kind) + "/" + o.Name
		}
	}
	return cmp.Or(c.GenerateName, c.Name)
}

// IsNodePool reports whether an owner reference refers to a NodePool.
func IsNodePool(o metav1.OwnerReference) bool {
	return o.Kind == "NodePool" && strings.HasPrefix(o.APIVersion, karpv1.GroupVersion.Group+"/")
}

// PoolReference returns an owner reference to a NodePool.
func PoolReference(pool, uid string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: karpv1.GroupVersion.String(), Kind: "NodePool", Name: pool, UID: types.UID(uid), BlockOwnerDeletion: &yes}
}

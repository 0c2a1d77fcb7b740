// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func (a *Actor) claimKind() kind[*karpv1.NodeClaim] {
	return kind[*karpv1.NodeClaim]{"nodeclaim", "nodeclaims", a.c.Karpenter, &a.c.Seen.Claims, func() *karpv1.NodeClaim { return &karpv1.NodeClaim{} }}
}

// CreateClaim creates a NodeClaim. It succeeds if the NodeClaim already exists, because names are derived from the
// purpose of the launch.
func (a *Actor) CreateClaim(ctx context.Context, c plan.CreateClaim) (uint64, error) {
	claim, err := a.t.ClaimObject(c)
	if err != nil {
		return 0, fmt.Errorf("create nodeclaim %q: %w: %w", c.Name, plan.ErrInvalid, err)
	}
	var out karpv1.NodeClaim
	err = a.c.Karpenter.Post().Resource("nodeclaims").Body(claim).Do(ctx).Into(&out)
	if apierrors.IsAlreadyExists(err) {
		have, err := a.claimKind().get(ctx, c.Name)
		if err != nil {
			return 0, classify(err, "create", "nodeclaim", c.Name)
		}
		return translate.ResourceVersion(have.ResourceVersion), nil
	}
	if err != nil {
		return 0, classify(err, "create", "nodeclaim", c.Name)
	}
	return translate.ResourceVersion(out.ResourceVersion), nil
}

// Claimed reports whether a machine belongs to a NodeClaim, read from the API server and not from the watch.
func (a *Actor) Claimed(ctx context.Context, m plan.Terminate) (bool, error) {
	is := func(c *karpv1.NodeClaim) bool {
		return c.Status.ProviderID == m.ProviderID || c.Annotations[model.AnnotationAdopt] == m.ProviderID || c.Status.ProviderID == "" && string(c.UID) == m.OfUID
	}
	if m.Of != "" {
		have, err := a.claimKind().get(ctx, m.Of)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && is(have), classify(err, "look for", "nodeclaim", m.Of)
	}
	var all karpv1.NodeClaimList
	if err := a.c.Karpenter.Get().Resource("nodeclaims").Do(ctx).Into(&all); err != nil {
		return false, classify(err, "list for machine "+m.ProviderID, "nodeclaims", "")
	}
	return slices.ContainsFunc(all.Items, func(c karpv1.NodeClaim) bool { return is(&c) }), nil
}

// DeleteClaim requests the deletion of a NodeClaim. Its finalizer keeps it until its machine is terminated.
func (a *Actor) DeleteClaim(ctx context.Context, d plan.DeleteClaim) (uint64, error) {
	err := a.c.Karpenter.Delete().Resource("nodeclaims").Name(d.Claim).Body(deleteOptions(d.UID, nil)).Do(ctx).Error()
	return 0, classify(err, "delete", "nodeclaim", d.Claim)
}

// UpdateClaim changes the metadata and the status of a NodeClaim, in at most two requests: none if nothing differs.
func (a *Actor) UpdateClaim(ctx context.Context, u plan.UpdateClaim) (uint64, error) {
	k := a.claimKind()
	return k.edit(ctx, "update", u.Claim, u.UID, func(cur *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
		for k, v := range u.Given {
			if is, ok := cur.Annotations[k]; ok != (v != plan.Unset) || ok && is != v {
				return nil, apierrors.NewConflict(schema.GroupResource{Group: karpv1.Group, Resource: "nodeclaims"}, u.Claim, fmt.Errorf("annotation %s has changed since the decision", k))
			}
		}
		meta, err := claimMetadata(a.t, cur, u)
		if err != nil {
			return nil, err
		}
		status := a.claimStatus(cur, u)
		// What lets the object go comes last, what makes a step durable before the status that speaks of it.
		if !u.RemoveFinalizer && meta != nil {
			if cur, err = k.patch(ctx, u.Claim, types.MergePatchType, meta); err != nil {
				return nil, err
			}
			meta = nil
		}
		if status != nil {
			body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": status}
			if cur, err = k.patch(ctx, u.Claim, types.MergePatchType, body, "status"); err != nil {
				return nil, err
			}
		}
		if meta != nil {
			m := meta["metadata"].(map[string]any)
			m["resourceVersion"] = cur.ResourceVersion
			if cur, err = k.patch(ctx, u.Claim, types.MergePatchType, meta); err != nil {
				return nil, err
			}
		}
		return cur, nil
	})
}

func claimMetadata(t *translate.Translator, cur *karpv1.NodeClaim, u plan.UpdateClaim) (map[string]any, error) {
	annotations := t.DeviceAnnotations(u.Annotations, u.Allocatable)
	if u.SetSlots {
		annotations = maps.Clone(annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[translate.AnnotationSlots] = plan.Unset
		if len(u.Slots) > 0 {
			s, err := t.SlotsText(u.Slots)
			if err != nil {
				return nil, err
			}
			annotations[translate.AnnotationSlots] = s
		}
	}
	m := map[string]any{}
	if d := difference(cur.Annotations, annotations); len(d) > 0 {
		m["annotations"] = d
	}
	if d := difference(cur.Labels, u.Labels); len(d) > 0 {
		m["labels"] = d
	}
	if u.OwnerPool != "" && !slices.ContainsFunc(cur.OwnerReferences, translate.IsNodePool) {
		m["ownerReferences"] = append(slices.Clone(cur.OwnerReferences), translate.PoolReference(u.OwnerPool, u.OwnerUID))
		m["resourceVersion"] = cur.ResourceVersion // as below
	}
	if f, changed := finalizers(cur.Finalizers, karpv1.FinalizerTermination, u.AddFinalizer, u.RemoveFinalizer); changed {
		m["finalizers"] = f
		m["resourceVersion"] = cur.ResourceVersion // the list is replaced: nobody else's may be lost
	}
	if len(m) == 0 {
		return nil, nil
	}
	if len(u.Given) > 0 {
		m["resourceVersion"] = cur.ResourceVersion // Given is true of this one
	}
	m["uid"] = cur.UID
	return map[string]any{"metadata": m}, nil
}

func (a *Actor) claimStatus(cur *karpv1.NodeClaim, u plan.UpdateClaim) map[string]any {
	out := map[string]any{}
	if u.NodeName != "" && u.NodeName != cur.Status.NodeName {
		out["nodeName"] = u.NodeName
	}
	if u.ProviderID != "" && u.ProviderID != cur.Status.ProviderID {
		out["providerID"] = u.ProviderID
	}
	if u.ImageID != "" && u.ImageID != cur.Status.ImageID {
		out["imageID"] = u.ImageID
	}
	if !u.LastPodEvent.IsZero() {
		out["lastPodEventTime"] = metav1.NewTime(u.LastPodEvent)
	}
	if u.Capacity != nil && !a.t.Resources(cur.Status.Capacity, 0).Equal(u.Capacity) {
		out["capacity"] = replaceList(cur.Status.Capacity, a.t.ResourceList(u.Capacity))
	}
	if list := a.t.ResourceList(u.Allocatable); u.Allocatable != nil && !a.t.Resources(cur.Status.Allocatable, 0).Equal(a.t.Resources(list, 0)) {
		out["allocatable"] = replaceList(cur.Status.Allocatable, list)
	}
	if len(u.Conditions) > 0 {
		list, changed := mergeConditions(cur.Status.Conditions, u.Conditions, cur.Generation, a.now(),
			karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized)
		if changed {
			out["conditions"] = list
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

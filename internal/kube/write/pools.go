// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func (a *Actor) poolKind() kind[*karpv1.NodePool] {
	return kind[*karpv1.NodePool]{"nodepool", "nodepools", a.c.Karpenter, &a.c.Seen.Pools, func() *karpv1.NodePool { return &karpv1.NodePool{} }}
}

// UpdatePool writes the status and the hash annotations of a NodePool.
func (a *Actor) UpdatePool(ctx context.Context, u plan.UpdatePool) (uint64, error) {
	k := a.poolKind()
	return k.edit(ctx, "update", u.Pool, u.UID, func(cur *karpv1.NodePool) (*karpv1.NodePool, error) {
		var err error
		if u.Hash != "" {
			want := map[string]string{karpv1.AnnotationNodePoolHash: u.Hash, karpv1.AnnotationNodePoolHashVersion: karpv1.NodePoolHashVersion}
			if d := difference(cur.Annotations, want); len(d) > 0 {
				body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "annotations": d}}
				if cur, err = k.patch(ctx, u.Pool, types.MergePatchType, body); err != nil {
					return nil, err
				}
			}
		}
		status := map[string]any{}
		if want := a.poolResources(u.Resources, u.Nodes); !sameJSON(cur.Status.Resources, want) {
			status["resources"] = replaceList(cur.Status.Resources, want)
		}
		if cur.Status.Nodes == nil || *cur.Status.Nodes != u.Nodes {
			status["nodes"] = u.Nodes
		}
		if u.ClassGeneration != 0 && cur.Status.NodeClassObservedGeneration != u.ClassGeneration {
			status["nodeClassObservedGeneration"] = u.ClassGeneration
		}
		if len(u.Conditions) > 0 {
			list, changed := mergeConditions(cur.Status.Conditions, u.Conditions, cur.Generation, a.now(),
				karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady)
			if changed {
				status["conditions"] = list
			}
		}
		if len(status) == 0 {
			return cur, nil
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": status}
		return k.patch(ctx, u.Pool, types.MergePatchType, body, "status")
	})
}

// poolResources includes the resources that every pool has even if they are zero, as API clients expect.
func (a *Actor) poolResources(r model.Resources, nodes int64) corev1.ResourceList {
	out := a.t.ResourceList(r)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if _, ok := out[name]; !ok {
			out[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	out[karpv1.ResourceNodes] = *resource.NewQuantity(nodes, resource.DecimalSI)
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func (a *Actor) nodeKind() kind[*corev1.Node] {
	return kind[*corev1.Node]{"node", "nodes", a.c.Core, &a.c.Seen.Nodes, func() *corev1.Node { return &corev1.Node{} }}
}

// DeleteNode deletes a node object.
func (a *Actor) DeleteNode(ctx context.Context, d plan.DeleteNode) (uint64, error) {
	err := a.c.Core.Delete().Resource("nodes").Name(d.Node).Body(deleteOptions(d.UID, nil)).Do(ctx).Error()
	return 0, classify(err, "delete", "node", d.Node)
}

// UpdateNode changes a node in one atomic patch. The patch tests that lists are unchanged since it was made, so that no
// taint, finalizer or owner of another writer is lost.
func (a *Actor) UpdateNode(ctx context.Context, u plan.UpdateNode) (uint64, error) {
	k := a.nodeKind()
	return k.edit(ctx, "update", u.Node, u.UID, func(cur *corev1.Node) (*corev1.Node, error) {
		if u.OwnerClaim != "" && cur.Labels[model.LabelRegistered] == "true" {
			return cur, nil // somebody registered it meanwhile: startup taints that are gone must not come back
		}
		ops := nodePatch(cur, u)
		if len(ops) == 0 {
			return cur, nil
		}
		return k.patch(ctx, u.Node, types.JSONPatchType, append([]operation{{"test", "/metadata/uid", cur.UID}}, ops...))
	})
}

func nodePatch(cur *corev1.Node, u plan.UpdateNode) []operation {
	var ops []operation
	ops = mapPatch(ops, "/metadata/labels", cur.Labels, u.Labels)
	ops = mapPatch(ops, "/metadata/annotations", cur.Annotations, u.Annotations)

	taints := slices.DeleteFunc(slices.Clone(cur.Spec.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(u.RemoveTaints, func(r model.Taint) bool { return r.Key == t.Key && r.Effect == string(t.Effect) })
	})
	cordon, add := cur.Spec.Unschedulable, u.AddTaints
	if changesReservation(u) {
		taints, cordon = translate.WithoutReservation(taints, cordon)
		if u.DaemonsOnly && !cordon { // somebody else's cordon stays somebody else's: the taint is written beside it
			add, cordon = asCordon(add), true
		}
	}
	for _, t := range add {
		w := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		i := slices.IndexFunc(taints, func(h corev1.Taint) bool { return h.Key == w.Key && h.Effect == w.Effect })
		switch {
		case i < 0:
			taints = append(taints, w)
		case taints[i].Value != w.Value:
			taints[i] = w
		}
	}
	if !sameJSON(cur.Spec.Taints, taints) {
		ops = listPatch(ops, "/spec/taints", cur.Spec.Taints, taints)
	}
	switch {
	case cordon && !cur.Spec.Unschedulable:
		ops = append(ops, operation{"test", "/spec/unschedulable", nil}, operation{"add", "/spec/unschedulable", true})
	case cur.Spec.Unschedulable && (u.Uncordon || !cordon):
		ops = append(ops, operation{"test", "/spec/unschedulable", true}, operation{"replace", "/spec/unschedulable", false})
	}
	if f, changed := finalizers(cur.Finalizers, karpv1.FinalizerTermination, u.AddFinalizer, u.RemoveFinalizer); changed {
		ops = listPatch(ops, "/metadata/finalizers", cur.Finalizers, f)
	}
	if u.OwnerClaim != "" && !slices.ContainsFunc(cur.OwnerReferences, func(o metav1.OwnerReference) bool { return string(o.UID) == u.OwnerUID }) {
		yes := true
		ops = listPatch(ops, "/metadata/ownerReferences", cur.OwnerReferences, append(slices.Clone(cur.OwnerReferences), metav1.OwnerReference{
			APIVersion: karpv1.GroupVersion.String(), Kind: "NodeClaim", Name: u.OwnerClaim, UID: types.UID(u.OwnerUID), BlockOwnerDeletion: &yes,
		}))
	}
	return ops
}

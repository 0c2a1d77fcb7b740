// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// UpdateNodeClass writes the status or the finalizer of a node class.
func (a *Actor) UpdateNodeClass(ctx context.Context, u plan.UpdateNodeClass) (uint64, error) {
	switch [2]string{u.Group, u.Kind} {
	case [2]string{kwokv1alpha1.Group, kwokv1alpha1.KindKWOKNodeClass}:
		k := kind[*kwokv1alpha1.KWOKNodeClass]{
			"kwoknodeclass", "kwoknodeclasses", a.c.KWOK, &a.c.Seen.KWOKClasses, func() *kwokv1alpha1.KWOKNodeClass { return &kwokv1alpha1.KWOKNodeClass{} },
		}
		return updateClass(ctx, k, "", u, a.now(), func(x *kwokv1alpha1.KWOKNodeClass) ([]metav1.Condition, any) { return x.Status.Conditions, nil })
	case [2]string{awsv1.Group, awsv1.KindEC2NodeClass}:
		k := kind[*awsv1.EC2NodeClass]{
			"ec2nodeclass", "ec2nodeclasses", a.c.AWS, &a.c.Seen.EC2Classes, func() *awsv1.EC2NodeClass { return &awsv1.EC2NodeClass{} },
		}
		return updateClass(ctx, k, awsv1.FinalizerTermination, u, a.now(), func(x *awsv1.EC2NodeClass) ([]metav1.Condition, any) {
			rest := x.Status
			rest.Conditions = nil
			return x.Status.Conditions, rest
		})
	case [2]string{dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass}:
		k := kind[*dovetailv1alpha1.NodeGroupClass]{
			"nodegroupclass", "nodegroupclasses", a.c.Dovetail, &a.c.Seen.GroupClasses, func() *dovetailv1alpha1.NodeGroupClass { return &dovetailv1alpha1.NodeGroupClass{} },
		}
		return updateClass(ctx, k, "", u, a.now(), func(x *dovetailv1alpha1.NodeGroupClass) ([]metav1.Condition, any) { return splitGroupStatus(x.Status) })
	case [2]string{clusterapiv1alpha1.Group, clusterapiv1alpha1.KindClusterAPINodeClass}:
		k := kind[*clusterapiv1alpha1.ClusterAPINodeClass]{
			"clusterapinodeclass", "clusterapinodeclasses", a.c.ClusterAPI, &a.c.Seen.ClusterAPIClasses, func() *clusterapiv1alpha1.ClusterAPINodeClass { return &clusterapiv1alpha1.ClusterAPINodeClass{} },
		}
		return updateClass(ctx, k, "", u, a.now(), func(x *clusterapiv1alpha1.ClusterAPINodeClass) ([]metav1.Condition, any) {
			return splitGroupStatus(x.Status)
		})
	}
	return 0, fmt.Errorf("update node class %s/%s %q: %w: Dovetail doesn't write this kind", u.Group, u.Kind, u.Name, plan.ErrInvalid)
}

// splitGroupStatus splits the status of a class of node groups into conditions and the rest.
func splitGroupStatus(s dovetailv1alpha1.NodeGroupClassStatus) ([]metav1.Condition, any) {
	conditions := s.Conditions
	s.Conditions = nil
	return conditions, s
}

// updateClass writes a node class of one type. finalizer is that of its provider; empty: nothing is made for classes of this kind. status
// splits a status into conditions and the rest; nil: there is nothing else.
func updateClass[T metav1.Object](ctx context.Context, k kind[T], finalizer string, u plan.UpdateNodeClass, now time.Time, status func(T) (conditions []metav1.Condition, rest any)) (uint64, error) {
	if finalizer == "" && (u.AddFinalizer || u.RemoveFinalizer) {
		return 0, fmt.Errorf("update %s %q: %w: this kind has no finalizer", k.name, u.Name, plan.ErrInvalid)
	}
	return k.edit(ctx, "update", u.Name, u.UID, func(cur T) (T, error) {
		if list, changed := finalizers(cur.GetFinalizers(), finalizer, u.AddFinalizer, u.RemoveFinalizer); changed {
			// The list is replaced: nobody else's may be lost.
			meta := map[string]any{"uid": cur.GetUID(), "resourceVersion": cur.GetResourceVersion(), "finalizers": list}
			next, err := k.patch(ctx, u.Name, types.MergePatchType, map[string]any{"metadata": meta})
			if err != nil || u.RemoveFinalizer {
				return next, err
			}
			cur = next
		}
		patch := map[string]any{}
		have, rest := status(cur)
		if list, changed := mergeConditions(have, u.Conditions, cur.GetGeneration(), now); changed {
			patch["conditions"] = list
		}
		if rest != nil && len(u.Status) > 0 {
			if err := statusPatch(rest, u.Status, patch); err != nil {
				return cur, fmt.Errorf("%w: status: %w", plan.ErrInvalid, err)
			}
		}
		if len(patch) == 0 {
			return cur, nil
		}
		next, err := k.patchClassStatus(ctx, cur, patch)
		if err != nil || rest == nil || len(u.Status) == 0 {
			return next, err
		}
		have, rest = status(next)
		stored, err := storedCondition(u.Group, k.resource, rest, u.Status)
		if err != nil || stored.True() && !slices.ContainsFunc(have, func(c metav1.Condition) bool { return c.Type == dovetailv1alpha1.ConditionStored }) {
			return next, err
		}
		list, changed := mergeConditions(have, map[string]model.Condition{dovetailv1alpha1.ConditionStored: stored}, next.GetGeneration(), now)
		if !changed {
			return next, nil
		}
		return k.patchClassStatus(ctx, next, map[string]any{"conditions": list})
	})
}

// patchClassStatus merges into the status of a node class as it was last seen.
func (k kind[T]) patchClassStatus(ctx context.Context, seen T, status map[string]any) (T, error) {
	body := map[string]any{"metadata": map[string]any{"uid": seen.GetUID(), "resourceVersion": seen.GetResourceVersion()}, "status": status}
	return k.patch(ctx, seen.GetName(), types.MergePatchType, body, "status")
}

// storedCondition returns whether the API server has kept all fields of a status that was written. An older CustomResourceDefinition, or one of
// another program, may have fewer fields, and the API server then drops the others without an error.
func storedCondition(group, resource string, have any, written []byte) (model.Condition, error) {
	raw, err := json.Marshal(have)
	if err != nil {
		return model.Condition{}, err
	}
	var kept, want map[string]json.RawMessage
	if err := json.Unmarshal(raw, &kept); err != nil {
		return model.Condition{}, err
	}
	if err := json.Unmarshal(written, &want); err != nil {
		return model.Condition{}, err
	}
	var dropped []string
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if _, ok := kept[field]; !ok {
			dropped = append(dropped, "status."+field)
		}
	}
	if len(dropped) == 0 {
		return model.Condition{Status: "True", Reason: dovetailv1alpha1.ConditionStored}, nil
	}
	return model.Condition{Status: "False", Reason: "FieldsDropped", Message: strings.Join(dropped, ", ") + ": not stored, because CustomResourceDefinition " + resource + "." + group +
		" does not have the fields (it is older than Dovetail, or another program's); run: kubectl apply --server-side --force-conflicts -f charts/dovetail/crds/" + group + "_" + resource + ".yaml"}, nil
}

// statusPatch adds the differences between two statuses to patch: changed fields, and null for removed ones.
func statusPatch(have any, want []byte, patch map[string]any) error {
	raw, err := json.Marshal(have)
	if err != nil {
		return err
	}
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(raw, &before); err != nil {
		return err
	}
	if err := json.Unmarshal(want, &after); err != nil {
		return err
	}
	for field, v := range after {
		if string(before[field]) != string(v) {
			patch[field] = v
		}
	}
	for field := range before {
		if _, ok := after[field]; !ok {
			patch[field] = nil
		}
	}
	return nil
}

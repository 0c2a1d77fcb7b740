// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// giveBackClaims recreates the NodeClaims that Dovetail created for a pool as Karpenter's. First, Dovetail is excluded
// from the pool: it decides nothing new, finishes running operations, and then does nothing.
//
// If a NodeClaim is deleted in this state, Dovetail completes the deletion before the release of the others continues.
func (t *NodePools) giveBackClaims(ctx context.Context, pool string, p rawObject) error {
	held := textOf(write.Field(p, "metadata", "annotations"), translate.AnnotationRelease) == model.ReleaseHold
	for {
		if !held {
			if err := t.hold(ctx, pool, p); err != nil {
				return err
			}
		}
		err := t.giveBackHeld(ctx, pool)
		var deleted *deletedError
		if !errors.As(err, &deleted) {
			return err
		}
		t.Say("NodePool " + pool + ": " + deleted.Error() + "; waiting until Dovetail has removed its node.")
		if err := t.setEntry(ctx, claimEntry+deleted.claim, ""); err != nil { // it is not to be made anew
			return err
		}
		if p, err = t.get(ctx, "nodepools", pool); err != nil {
			return err
		}
		held = false
	}
}

// hold makes Dovetail finish running operations for a pool, and then do nothing for it.
func (t *NodePools) hold(ctx context.Context, pool string, p rawObject) error {
	if err := t.annotate(ctx, p, rawObject{translate.AnnotationRelease: model.ReleaseSettle}); err != nil {
		return err
	}
	t.Say("NodePool " + pool + ": paused in Dovetail; waiting for launches and deletions in progress.")
	if err := t.awaitSettled(ctx, pool); err != nil {
		return err
	}
	p, err := t.get(ctx, "nodepools", pool)
	if err != nil {
		return err
	}
	if err := t.annotate(ctx, p, rawObject{translate.AnnotationRelease: model.ReleaseHold}); err != nil {
		return err
	}
	return sleep(ctx, t.pause().hold)
}

// giveBackHeld recreates the NodeClaims of a pool for which Dovetail does nothing as Karpenter's. It returns a
// deletedError if one of them is being deleted.
func (t *NodePools) giveBackHeld(ctx context.Context, pool string) error {
	entries, err := t.entries(ctx)
	if err != nil {
		return err
	}
	if _, err := t.finishClaims(ctx, pool, entries); err != nil {
		return err
	}
	claims, err := t.list(ctx, "nodeclaims", karpv1.LabelNodePool+"="+pool)
	if err != nil {
		return err
	}
	n := 0
	for _, c := range claims {
		ref, _ := write.Field(c, "spec", "nodeClassRef").(rawObject)
		if _, taken := translate.ClassGroup(textOf(ref, "group")); !taken {
			continue
		}
		b, err := json.Marshal(c)
		if err != nil {
			return err
		}
		name := textOf(c["metadata"], "name")
		if err := t.setEntry(ctx, claimEntry+name, string(b)); err != nil {
			return err
		}
		if err := t.remakeClaim(ctx, name, string(b)); err != nil {
			return err
		}
		n++
	}
	t.Say(fmt.Sprintf("NodePool %s: %d NodeClaims created by Dovetail now belong to Karpenter.", pool, n))
	return nil
}

// finishClaims completes the NodeClaims of a pool that an earlier run has started to recreate, and returns their number.
func (t *NodePools) finishClaims(ctx context.Context, pool string, entries map[string]string) (begun int, err error) {
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if strings.HasPrefix(key, claimEntry) && poolOfEntry(entries[key]) == pool {
			begun++
			if err := t.remakeClaim(ctx, strings.TrimPrefix(key, claimEntry), entries[key]); err != nil {
				return begun, err
			}
		}
	}
	return begun, nil
}

// awaitSettled waits until no NodeClaim of a pool is coming or going.
func (t *NodePools) awaitSettled(ctx context.Context, pool string) error {
	deadline := time.Now().Add(t.Wait)
	since := time.Now()
	for {
		claims, err := t.list(ctx, "nodeclaims", karpv1.LabelNodePool+"="+pool)
		if err != nil {
			return err
		}
		open := ""
		for _, c := range claims {
			if textOf(c["metadata"], "deletionTimestamp") != "" || !hasCondition(c, "Initialized") {
				open = textOf(c["metadata"], "name")
			}
		}
		if open != "" {
			since = time.Now()
		}
		if time.Since(since) >= t.pause().still {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("NodePool %s: after %s NodeClaim %s is still being launched or deleted. See 'kubectl describe nodeclaim %s', then run the same command again. "+
				"To keep the NodePool in Dovetail: kubectl annotate nodepool %s %s-", pool, t.Wait, open, open, pool, translate.AnnotationRelease)
		}
		if err := sleep(ctx, t.pause().look); err != nil {
			return err
		}
	}
}

// remakeClaim recreates a NodeClaim in Karpenter's API group from its stored manifest, and deletes the manifest. An
// earlier run may have been interrupted at any point.
func (t *NodePools) remakeClaim(ctx context.Context, name, written string) error {
	var was rawObject
	if err := json.Unmarshal([]byte(written), &was); err != nil {
		return fmt.Errorf("read ConfigMap %s/%s, key %s: %w", t.Namespace, configMap, claimEntry+name, err)
	}
	alias := textOf(write.Field(was, "spec", "nodeClassRef"), "group")
	group, _ := translate.ClassGroup(alias)
	kind, node := textOf(write.Field(was, "spec", "nodeClassRef"), "kind"), textOf(was["status"], "nodeName")
	before, after := karpv1.NodeClassLabel(alias, kind), karpv1.NodeClassLabel(group, kind)
	relabel := func(o rawObject) {
		if labels, _ := write.Field(o, "metadata", "labels").(rawObject); labels[before] != nil {
			labels[after] = labels[before]
			delete(labels, before)
		}
	}
	have, err := t.get(ctx, "nodeclaims", name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if have != nil && textOf(write.Field(have, "spec", "nodeClassRef"), "group") == alias {
		if textOf(have["metadata"], "deletionTimestamp") != "" {
			return &deletedError{name}
		}
		if err := t.setNodeOwner(ctx, node, "", "", nil); err != nil { // or it would be deleted with its owner
			return err
		}
		if err := t.dropClaim(ctx, name); err != nil {
			return err
		}
		have = nil
	}
	if have == nil {
		next := rawObject{"apiVersion": was["apiVersion"], "kind": was["kind"], "spec": was["spec"],
			"metadata": rawObject{"name": name, "labels": write.Field(was, "metadata", "labels"), "finalizers": []any{karpv1.FinalizerTermination}, "ownerReferences": write.Field(was, "metadata", "ownerReferences")}}
		next["spec"].(rawObject)["nodeClassRef"].(rawObject)["group"] = group
		relabel(next)
		notes := rawObject{}
		had, _ := write.Field(was, "metadata", "annotations").(rawObject)
		for k, v := range had {
			if !strings.HasPrefix(k, "dovetail.sh/") {
				notes[k] = v
			}
		}
		next["metadata"].(rawObject)["annotations"] = notes
		if have, err = t.create(ctx, "nodeclaims", next); err != nil {
			return err
		}
	}
	if textOf(have["status"], "providerID") == "" {
		status, _ := runtime.DeepCopyJSONValue(was["status"]).(rawObject)
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			c.(rawObject)["observedGeneration"] = write.Field(have, "metadata", "generation")
		}
		have, err = t.patch(ctx, "nodeclaims", name, "status", rawObject{"status": status})
		if apierrors.IsNotFound(err) {
			return &deletedError{name}
		}
		if err != nil {
			return err
		}
	}
	if err := t.setNodeOwner(ctx, node, name, textOf(have["metadata"], "uid"), relabel); err != nil {
		return err
	}
	return t.setEntry(ctx, claimEntry+name, "")
}

// dropClaim removes a NodeClaim from the API server without terminating its machine: it removes the finalizer and
// deletes that version. It retries if the finalizer is added again in between.
func (t *NodePools) dropClaim(ctx context.Context, name string) error {
	for {
		c, err := t.get(ctx, "nodeclaims", name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if textOf(c["metadata"], "deletionTimestamp") != "" {
			return &deletedError{name}
		}
		version := textOf(c["metadata"], "resourceVersion")
		if finalizers, _ := write.Field(c, "metadata", "finalizers").([]any); len(finalizers) > 0 {
			c, err = t.patch(ctx, "nodeclaims", name, "", rawObject{"metadata": rawObject{"finalizers": nil, "resourceVersion": version}})
			if apierrors.IsConflict(err) {
				continue
			}
			if apierrors.IsNotFound(err) { // deleted since, and ended by whoever took its finalizer off
				return &deletedError{name}
			}
			if err != nil {
				return err
			}
			version = textOf(c["metadata"], "resourceVersion")
		}
		uid := types.UID(textOf(c["metadata"], "uid"))
		options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
		err = t.Client.Karpenter.Delete().Resource("nodeclaims").Name(name).Body(options).Do(ctx).Error()
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("delete NodeClaim %s: %w", name, err)
		}
	}
}

// setNodeOwner makes a NodeClaim the owner of a node, or no NodeClaim where its uid is empty, and changes the node.
func (t *NodePools) setNodeOwner(ctx context.Context, node, claim, uid string, change func(rawObject)) error {
	if node == "" {
		return nil
	}
	err := t.update(ctx, t.Client.Core, "nodes", node, func(n rawObject) bool {
		owners, _ := write.Field(n, "metadata", "ownerReferences").([]any)
		owners = slices.DeleteFunc(slices.Clone(owners), func(o any) bool { return textOf(o, "kind") == "NodeClaim" })
		if uid != "" {
			owners = append(owners, rawObject{"apiVersion": karpv1.GroupVersion.String(), "kind": "NodeClaim", "name": claim, "uid": uid, "blockOwnerDeletion": true})
		}
		n["metadata"].(rawObject)["ownerReferences"] = owners
		if change != nil {
			change(n)
		}
		return true
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// poolOfEntry returns the NodePool of a NodeClaim stored in an entry of the ConfigMap; empty if the entry is invalid.
func poolOfEntry(entry string) string {
	var claim rawObject
	if json.Unmarshal([]byte(entry), &claim) != nil {
		return ""
	}
	return textOf(write.Field(claim, "metadata", "labels"), karpv1.LabelNodePool)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package takeover moves NodePools from Karpenter to Dovetail and back, and node groups from Cluster Autoscaler and
// back, using the caller's client.
//
// It does not decide what is launched or removed, and never runs in the controller.
//
// Invariants: it may be interrupted after any step, and the same call then completes it; an object that someone
// deleted in the meantime is not recreated. docs/design/0014-takeover.md explains the steps. Start reading at
// NodePools.TakeOver and NodePools.Release.
package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

const (
	configMap  = "dovetail-takeover"
	poolEntry  = "pool."  // with the pool's name: the manifest that it is to have
	goneEntry  = "gone."  // with the pool's name: it was deleted by us, or is about to be
	claimEntry = "claim." // with the claim's name: how it is to be made anew
)

// TakeOver transfers a NodePool to Dovetail. It does nothing if Dovetail already manages the NodePool.
func (t *NodePools) TakeOver(ctx context.Context, pool string) error {
	return t.explain(ctx, pool, t.remake(ctx, pool, func(p rawObject) bool {
		ref, _ := write.Field(p, "spec", "template", "spec", "nodeClassRef").(rawObject)
		group, _ := ref["group"].(string)
		alias := translate.TakenGroups[group]
		changed := alias != ""
		if changed {
			ref["group"] = alias
		}
		for _, key := range []string{translate.AnnotationManagedBy, translate.AnnotationRelease} {
			if notes, _ := write.Field(p, "metadata", "annotations").(rawObject); notes[key] != nil {
				delete(notes, key)
				changed = true
			}
		}
		return changed
	}))
}

// Release returns a NodePool to Karpenter, with every NodeClaim that Dovetail created for it. Karpenter must not run
// meanwhile. A NodePool that Karpenter already manages is only marked.
func (t *NodePools) Release(ctx context.Context, pool string) error {
	return t.explain(ctx, pool, t.release(ctx, pool))
}

func (t *NodePools) release(ctx context.Context, pool string) error {
	p, err := t.get(ctx, "nodepools", pool)
	if apierrors.IsNotFound(err) {
		entries, err := t.entries(ctx)
		if err != nil {
			return err
		}
		begun, err := t.finishClaims(ctx, pool, entries)
		for deleted := (*deletedError)(nil); errors.As(err, &deleted); { // it goes with its node, as the pool does
			if err := t.setEntry(ctx, claimEntry+deleted.claim, ""); err != nil {
				return err
			}
			delete(entries, claimEntry+deleted.claim)
			deleted = nil
			_, err = t.finishClaims(ctx, pool, entries)
		}
		if err != nil {
			return err
		}
		switch {
		case entries[poolEntry+pool] != "":
			p = nil // deleted by an earlier run, which gave its NodeClaims back before that
		case begun > 0:
			return t.vanished(ctx, pool)
		default:
			return noSuchPool(pool)
		}
	} else if err != nil {
		return err
	}
	if ref, _ := write.Field(p, "spec", "template", "spec", "nodeClassRef").(rawObject); ref != nil {
		if _, taken := translate.ClassGroup(textOf(ref, "group")); taken {
			if err := t.giveBackClaims(ctx, pool, p); err != nil {
				return err
			}
		}
	}
	return t.remake(ctx, pool, func(p rawObject) bool {
		ref, _ := write.Field(p, "spec", "template", "spec", "nodeClassRef").(rawObject)
		group, taken := translate.ClassGroup(textOf(ref, "group"))
		notes, _ := write.Field(p, "metadata", "annotations").(rawObject)
		if !taken && textOf(notes, translate.AnnotationManagedBy) == "karpenter" {
			return false
		}
		ref["group"] = group
		if notes == nil {
			notes = rawObject{}
			p["metadata"].(rawObject)["annotations"] = notes
		}
		notes[translate.AnnotationManagedBy] = "karpenter"
		delete(notes, translate.AnnotationRelease)
		return true
	})
}

// remake recreates a pool as changed by change, with its NodeClaims. change returns false if there is nothing to change.
// If the API group of the node class stays the same, only annotations are written.
func (t *NodePools) remake(ctx context.Context, name string, change func(rawObject) bool) error {
	entries, err := t.entries(ctx)
	if err != nil {
		return err
	}
	have, err := t.get(ctx, "nodepools", name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	manifest := entries[poolEntry+name]
	if manifest == "" {
		if have == nil {
			return noSuchPool(name)
		}
		if textOf(have["metadata"], "deletionTimestamp") != "" {
			return t.vanished(ctx, name)
		}
		// The uid says which NodePool of that name the manifest is of. The API server gives the new one a uid of its own.
		want := rawObject{"apiVersion": have["apiVersion"], "kind": have["kind"], "metadata": rawObject{"name": name, "uid": textOf(have["metadata"], "uid")}, "spec": runtime.DeepCopyJSONValue(have["spec"])}
		for _, key := range []string{"labels", "annotations", "ownerReferences", "finalizers"} {
			if v := write.Field(have, "metadata", key); v != nil {
				want["metadata"].(rawObject)[key] = runtime.DeepCopyJSONValue(v)
			}
		}
		before := groupOf(have)
		if !change(want) {
			t.Say("NodePool " + name + ": nothing to do.")
			return nil
		}
		if groupOf(want) == before {
			return t.annotate(ctx, have, write.Field(want, "metadata", "annotations").(rawObject))
		}
		if manifest, err = jsonText(want); err != nil {
			return err
		}
		if err := t.setEntry(ctx, poolEntry+name, manifest); err != nil {
			return err
		}
	} else {
		t.Say("NodePool " + name + ": resuming an interrupted run.")
		if have == nil && entries[goneEntry+name] == "" {
			return t.vanished(ctx, name)
		}
	}
	var want rawObject
	if err := json.Unmarshal([]byte(manifest), &want); err != nil {
		return fmt.Errorf("read ConfigMap %s/%s, key %s: %w", t.Namespace, configMap, poolEntry+name, err)
	}
	if of := textOf(want["metadata"], "uid"); have != nil && of != "" && groupOf(have) != groupOf(want) && textOf(have["metadata"], "uid") != of {
		t.Say("NodePool " + name + ": it was deleted and recreated by another client; starting over with the new one.")
		if err := t.setEntries(ctx, map[string]string{poolEntry + name: "", goneEntry + name: ""}); err != nil {
			return err
		}
		return t.remake(ctx, name, change)
	}
	if have != nil && groupOf(have) != groupOf(want) {
		if err := t.markOthers(ctx, name); err != nil {
			return err
		}
	}
	uid := ""
	if have != nil {
		uid = textOf(have["metadata"], "uid")
	}
	switch gone := entries[goneEntry+name]; {
	case have == nil || groupOf(have) == groupOf(want):
	case gone != "" && gone == uid: // an earlier run has asked for its deletion, or was about to
		t.Say("NodePool " + name + ": waiting for the deletion started by an earlier run.")
		if err := t.setOwners(ctx, name, ""); err != nil {
			return err
		}
		if err := t.deleteOrphaning(ctx, have); err != nil {
			return err
		}
		have = nil
	default:
		// From now on pools are divided: should Karpenter stop in the middle, Dovetail does not take the others for its own.
		if _, taken := translate.ClassGroup(groupOf(have)); !taken && textOf(write.Field(have, "metadata", "annotations"), translate.AnnotationManagedBy) == "" {
			if err := t.annotate(ctx, have, rawObject{translate.AnnotationManagedBy: "karpenter"}); err != nil {
				return err
			}
		}
		if err := t.quiesce(ctx, name, have, want); err != nil {
			return err
		}
		if want, err = t.keepEdits(ctx, name, have, want); err != nil {
			return err
		}
		if manifest, err = jsonText(want); err != nil {
			return err
		}
		// Both at once: without its manifest a NodePool that we have deleted would be lost.
		if err := t.setEntries(ctx, map[string]string{poolEntry + name: manifest, goneEntry + name: uid}); err != nil {
			return err
		}
		t.Say("NodePool " + name + ": deleting it without its NodeClaims.")
		if err := t.setOwners(ctx, name, ""); err != nil { // orphaning goes by what the garbage collector has seen so far
			return err
		}
		if err := t.deleteOrphaning(ctx, have); err != nil {
			return err
		}
		have = nil
	}
	if have == nil {
		t.Say("NodePool " + name + ": recreating it with node class group " + groupOf(want) + ".")
		have, err = t.create(ctx, "nodepools", want)
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("NodePool %s was created by another client during the takeover or release. "+
				"If a tool such as Argo CD or Flux applies it, pause that tool or change the NodePool in its source to spec.template.spec.nodeClassRef.group %s; then run the same command again", name, groupOf(want))
		}
		if err != nil {
			return err
		}
	}
	if err := t.setOwners(ctx, name, textOf(have["metadata"], "uid")); err != nil {
		return err
	}
	return t.setEntries(ctx, map[string]string{poolEntry + name: "", goneEntry + name: ""})
}

// explain returns err, or a VanishedError if err was caused by the deletion of the NodePool during the takeover. Every
// step may be affected by that, so it is checked only here.
func (t *NodePools) explain(ctx context.Context, name string, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || ctx.Err() != nil {
		return err
	}
	entries, entriesErr := t.entries(ctx)
	if entriesErr != nil || entries[goneEntry+name] != "" { // unknown, or deleted by us
		return err
	}
	have, getErr := t.get(ctx, "nodepools", name)
	if apierrors.IsNotFound(getErr) || getErr == nil && textOf(have["metadata"], "deletionTimestamp") != "" {
		return t.vanished(ctx, name)
	}
	if manifest := entries[poolEntry+name]; getErr == nil && manifest != "" {
		var want rawObject
		if of := ""; json.Unmarshal([]byte(manifest), &want) == nil {
			if of = textOf(want["metadata"], "uid"); of != "" && of != textOf(have["metadata"], "uid") {
				return t.vanished(ctx, name)
			}
		}
	}
	return err
}

// noSuchPool is the error for a NodePool that does not exist and is not being handed over.
func noSuchPool(name string) error {
	return fmt.Errorf("NodePool %s not found. List existing ones: kubectl get nodepools", name)
}

// markOthers marks every other NodePool that was never taken over as Karpenter's, so that it stays so while the NodePool
// of the takeover is deleted and recreated.
func (t *NodePools) markOthers(ctx context.Context, name string) error {
	pools, err := t.list(ctx, "nodepools", "")
	if err != nil {
		return err
	}
	for _, p := range pools {
		_, taken := translate.ClassGroup(groupOf(p))
		if textOf(p["metadata"], "name") == name || taken || textOf(write.Field(p, "metadata", "annotations"), translate.AnnotationManagedBy) != "" {
			continue
		}
		if err := t.annotate(ctx, p, rawObject{translate.AnnotationManagedBy: "karpenter"}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// VanishedError is the error for a NodePool that was deleted during its takeover.
type VanishedError struct{ Pool string }

func (e *VanishedError) Error() string {
	return "NodePool " + e.Pool + " was deleted by another client during the handover. " +
		"If that was a mistake, recreate it and run the same command again"
}

// vanished removes the takeover of a NodePool that was deleted meanwhile, and returns a VanishedError. The NodePool is
// not recreated.
func (t *NodePools) vanished(ctx context.Context, name string) error {
	if err := t.setEntries(ctx, map[string]string{poolEntry + name: "", goneEntry + name: ""}); err != nil {
		return err
	}
	return &VanishedError{name}
}

// quiesce prevents Karpenter from launching for a pool and disrupting its nodes, and waits until running operations are
// done. A pool with a fixed number of nodes keeps it.
func (t *NodePools) quiesce(ctx context.Context, name string, have, want rawObject) error {
	if _, taken := translate.ClassGroup(groupOf(have)); !taken {
		guard := rawObject{"uid": textOf(have["metadata"], "uid")} // refused for a NodePool created since
		if _, err := t.patch(ctx, "nodepools", name, "", rawObject{"spec": quiescedSpec(have), "metadata": guard}); err != nil {
			return err
		}
		t.Say("NodePool " + name + ": Karpenter launches no more nodes for it; waiting for launches and deletions in progress.")
	}
	known, since := "", time.Now()
	deadline := time.Now().Add(t.Wait)
	for {
		now, err := t.get(ctx, "nodepools", name)
		if err != nil {
			return err
		}
		if textOf(now["metadata"], "deletionTimestamp") != "" || textOf(now["metadata"], "uid") != textOf(have["metadata"], "uid") {
			return t.vanished(ctx, name)
		}
		claims, err := t.list(ctx, "nodeclaims", karpv1.LabelNodePool+"="+name)
		if err != nil {
			return err
		}
		var names, unsettled []string
		for _, c := range claims {
			id := textOf(c["metadata"], "name")
			names = append(names, id)
			if textOf(c["metadata"], "deletionTimestamp") == "" && !hasCondition(c, "Initialized") {
				unsettled = append(unsettled, id)
			}
		}
		slices.Sort(names)
		if now := strings.Join(names, " "); now != known || len(unsettled) > 0 {
			known, since = now, time.Now()
		}
		if time.Since(since) >= t.pause().still {
			return nil
		}
		if time.Now().After(deadline) && len(unsettled) > 0 {
			if _, taken := translate.ClassGroup(groupOf(have)); !taken {
				if err := t.restore(ctx, name, want); err != nil {
					return err
				}
			}
			return fmt.Errorf("NodePool %s: NodeClaim %s is not Initialized after %s. Nothing was handed over, and the NodePool is unchanged. "+
				"See 'kubectl describe nodeclaim %s', then run the same command again", name, unsettled[0], t.Wait, unsettled[0])
		}
		if err := sleep(ctx, t.pause().look); err != nil {
			return err
		}
	}
}

// quiescedSpec is what quiesce changes of a pool's spec, so that Karpenter does nothing for it.
func quiescedSpec(have rawObject) rawObject {
	spec := rawObject{"disruption": rawObject{"budgets": []any{rawObject{"nodes": "0"}}}}
	if _, static := write.Field(have, "spec").(rawObject)["replicas"]; !static {
		spec["limits"] = rawObject{"cpu": "0"}
	}
	if after := write.Field(have, "spec", "disruption", "consolidateAfter"); after == nil {
		spec["disruption"].(rawObject)["consolidateAfter"] = "0s"
	}
	return spec
}

// keepEdits returns the manifest of a pool with later changes to its spec by others. Fields changed by quiesce have the
// value of the manifest, unless they were changed again.
func (t *NodePools) keepEdits(ctx context.Context, name string, have, want rawObject) (rawObject, error) {
	now, err := t.get(ctx, "nodepools", name)
	if err != nil {
		return nil, err
	}
	if textOf(now["metadata"], "deletionTimestamp") != "" || textOf(now["metadata"], "uid") != textOf(have["metadata"], "uid") {
		return nil, t.vanished(ctx, name)
	}
	spec, edited := carryEdits(have, want, now)
	if !edited {
		return want, nil
	}
	t.Say("NodePool " + name + ": it was changed by another client; the changes are kept.")
	want = runtime.DeepCopyJSON(want)
	want["spec"] = spec
	return want, nil
}

// carryEdits returns the spec of a pool to recreate, and whether it was edited. have is the pool before quiesce, want
// the manifest stored then, now the current pool.
func carryEdits(have, want, now rawObject) (spec rawObject, edited bool) {
	spec = runtime.DeepCopyJSON(now["spec"].(rawObject))
	if _, taken := translate.ClassGroup(groupOf(have)); !taken {
		ours := quiescedSpec(have)
		if limits, ok := ours["limits"].(rawObject); ok {
			resetFields(spec, limits, write.Field(want, "spec"), "limits")
		}
		resetFields(spec, ours["disruption"].(rawObject), write.Field(want, "spec"), "disruption")
	}
	write.Field(spec, "template", "spec", "nodeClassRef").(rawObject)["group"] = groupOf(want)
	return spec, !reflect.DeepEqual(spec, want["spec"])
}

// resetFields resets fields of a spec to the values of a manifest if they still have the written values.
func resetFields(spec, written rawObject, manifest any, object string) {
	at, _ := spec[object].(rawObject)
	for key, value := range written {
		if at == nil || !reflect.DeepEqual(at[key], value) {
			continue
		}
		if was := write.Field(manifest, object, key); was != nil {
			at[key] = runtime.DeepCopyJSONValue(was)
		} else {
			delete(at, key)
		}
	}
	if len(at) == 0 && write.Field(manifest, object) == nil {
		delete(spec, object)
	}
}

// restore gives a pool back what quiesce has changed, as the manifest that it was to have says, and forgets that.
func (t *NodePools) restore(ctx context.Context, name string, want rawObject) error {
	spec := rawObject{"disruption": rawObject{"budgets": write.Field(want, "spec", "disruption", "budgets"), "consolidateAfter": write.Field(want, "spec", "disruption", "consolidateAfter")}, "limits": nil}
	if limits, _ := runtime.DeepCopyJSONValue(write.Field(want, "spec", "limits")).(rawObject); limits != nil {
		if _, ok := limits["cpu"]; !ok {
			limits["cpu"] = nil // takes off what was not there
		}
		spec["limits"] = limits
	}
	meta := rawObject{"annotations": rawObject{translate.AnnotationManagedBy: write.Field(want, "metadata", "annotations", translate.AnnotationManagedBy)}}
	if uid := textOf(want["metadata"], "uid"); uid != "" {
		meta["uid"] = uid
	}
	if _, err := t.patch(ctx, "nodepools", name, "", rawObject{"spec": spec, "metadata": meta}); err != nil {
		return err
	}
	return t.setEntry(ctx, poolEntry+name, "")
}

// deleteOrphaning deletes a pool without its NodeClaims, and waits until it is deleted.
func (t *NodePools) deleteOrphaning(ctx context.Context, have rawObject) error {
	name, uid := textOf(have["metadata"], "name"), types.UID(textOf(have["metadata"], "uid"))
	orphan := metav1.DeletePropagationOrphan
	options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, PropagationPolicy: &orphan, Preconditions: &metav1.Preconditions{UID: &uid}}
	err := t.Client.Karpenter.Delete().Resource("nodepools").Name(name).Body(options).Do(ctx).Error()
	// A conflict is with the uid: another NodePool has the name by now, so this one is gone.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete NodePool %s: %w", name, err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		now, err := t.get(ctx, "nodepools", name)
		if apierrors.IsNotFound(err) || err == nil && textOf(now["metadata"], "uid") != string(uid) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("NodePool %s still exists one minute after its deletion, because of finalizers %v. Check that kube-controller-manager is running, then run the same command again", name, write.Field(now, "metadata", "finalizers"))
		}
		if err := sleep(ctx, t.pause().look/5); err != nil {
			return err
		}
	}
}

// setOwners makes a pool the owner of its NodeClaims, or no pool where the uid is empty.
func (t *NodePools) setOwners(ctx context.Context, pool, uid string) error {
	claims, err := t.list(ctx, "nodeclaims", karpv1.LabelNodePool+"="+pool)
	if err != nil {
		return err
	}
	for _, c := range claims {
		name := textOf(c["metadata"], "name")
		err := t.update(ctx, t.Client.Karpenter, "nodeclaims", name, func(c rawObject) bool {
			owners, _ := write.Field(c, "metadata", "ownerReferences").([]any)
			kept := slices.DeleteFunc(slices.Clone(owners), func(o any) bool { return textOf(o, "kind") == "NodePool" })
			if uid == "" {
				c["metadata"].(rawObject)["ownerReferences"] = kept
				return len(kept) < len(owners)
			}
			if len(owners) == len(kept)+1 && slices.ContainsFunc(owners, func(o any) bool { return textOf(o, "uid") == uid }) {
				return false
			}
			c["metadata"].(rawObject)["ownerReferences"] = append(kept, rawObject{"apiVersion": karpv1.GroupVersion.String(), "kind": "NodePool", "name": pool, "uid": uid, "blockOwnerDeletion": true})
			return true
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// annotate sets Dovetail's annotations of a NodePool to want, and removes the others. Karpenter and Dovetail write the
// status of the pool meanwhile, so on a conflict the pool is read again. It returns an error if the annotations were
// changed by others, or if another pool has the name now.
func (t *NodePools) annotate(ctx context.Context, p rawObject, want rawObject) error {
	notes := rawObject{}
	for _, key := range []string{translate.AnnotationManagedBy, translate.AnnotationRelease} {
		notes[key] = want[key]
	}
	name, seen := textOf(p["metadata"], "name"), p
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		_, conflict := t.patch(ctx, "nodepools", name, "", rawObject{"metadata": rawObject{"annotations": notes, "resourceVersion": textOf(p["metadata"], "resourceVersion")}})
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		var err error
		if p, err = t.get(ctx, "nodepools", name); err != nil {
			return fmt.Errorf("read NodePool %s: %w", name, err)
		}
		if textOf(p["metadata"], "uid") != textOf(seen["metadata"], "uid") {
			return fmt.Errorf("NodePool %s was deleted and recreated by another client. Run the same command again", name)
		}
		for key := range notes {
			if textOf(write.Field(p, "metadata", "annotations"), key) != textOf(write.Field(seen, "metadata", "annotations"), key) {
				return fmt.Errorf("annotation %s of NodePool %s was changed by another client. Run the same command again", key, name)
			}
		}
		return conflict
	})
}

// entries returns the state of running takeovers.
func (t *NodePools) entries(ctx context.Context) (map[string]string, error) {
	var have corev1.ConfigMap
	err := t.Client.Core.Get().Namespace(t.Namespace).Resource("configmaps").Name(configMap).Do(ctx).Into(&have)
	if apierrors.IsNotFound(err) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", t.Namespace, configMap, err)
	}
	return have.Data, nil
}

// setEntry writes one entry; an empty text removes it.
func (t *NodePools) setEntry(ctx context.Context, key, value string) error {
	return t.setEntries(ctx, map[string]string{key: value})
}

// setEntries writes entries in one call; an empty text removes an entry. It creates the ConfigMap if there is none.
func (t *NodePools) setEntries(ctx context.Context, entries map[string]string) error {
	change, kept := rawObject{}, map[string]string{}
	for key, value := range entries {
		if change[key] = nil; value != "" {
			change[key], kept[key] = value, value
		}
	}
	body, err := json.Marshal(rawObject{"data": change})
	if err != nil {
		return err
	}
	configMaps := func(r *rest.Request) *rest.Request { return r.Namespace(t.Namespace).Resource("configmaps") }
	for {
		err := configMaps(t.Client.Core.Patch(types.MergePatchType)).Name(configMap).Body(body).Do(ctx).Error()
		if apierrors.IsNotFound(err) && len(kept) == 0 {
			return nil
		}
		if apierrors.IsNotFound(err) {
			first := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: configMap}, Data: kept}
			err = configMaps(t.Client.Core.Post()).Body(first).Do(ctx).Error()
			if apierrors.IsAlreadyExists(err) {
				continue
			}
		}
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("write ConfigMap %s/%s, which records the handover: namespace %s does not exist. Create it: kubectl create namespace %s", t.Namespace, configMap, t.Namespace, t.Namespace)
		}
		if err != nil {
			return fmt.Errorf("write ConfigMap %s/%s, which records the handover: %w", t.Namespace, configMap, err)
		}
		return nil
	}
}

// jsonText returns an object as JSON.
func jsonText(o rawObject) (string, error) {
	b, err := json.Marshal(o)
	return string(b), err
}

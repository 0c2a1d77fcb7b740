// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// NodeGroups moves node groups from Cluster Autoscaler to Dovetail and back, by the NodeGroupClass that selects them: it
// marks the NodePools, and recreates nothing. While Cluster Autoscaler is running, Dovetail acts only on marked
// NodePools. It may be interrupted after any step, and the same call then completes it.
//
// Start reading at TakeOver and Release. Check reports obstacles.
type NodeGroups struct {
	*NodePools
	Cloud Cloud
	Terms Terms
}

// Cloud reads and changes node groups in the cloud during a takeover.
type Cloud interface {
	// DescribeGroup returns the tags of a group and the provider IDs of its members, or the last segments of those IDs.
	// found is false if the group does not exist.
	DescribeGroup(ctx context.Context, name string) (tags map[string]string, members []string, found bool, err error)
	// ForgetClaims removes the marks that assign members to NodeClaims.
	ForgetClaims(ctx context.Context, members []string) error
}

// handedGroups are groups that are handed over together: those of one NodeGroupClass.
type handedGroups struct {
	class  *dovetailv1alpha1.NodeGroupClass
	groups []string    // by name
	pools  []rawObject // NodePools of the class
}

// Classes returns the names of the NodeGroupClasses that select a group.
func (t *NodeGroups) Classes(ctx context.Context, group string) ([]string, error) {
	var list dovetailv1alpha1.NodeGroupClassList
	if err := t.Client.Dovetail.Get().Resource("nodegroupclasses").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list NodeGroupClasses: %w", err)
	}
	var out []string
	for i := range list.Items {
		if slices.Contains(groupsOfClass(&list.Items[i]), group) {
			out = append(out, list.Items[i].Name)
		}
	}
	return out, nil
}

// groupsOfClass are the names of the groups that a class chooses, by its status and by the names in its terms.
func groupsOfClass(c *dovetailv1alpha1.NodeGroupClass) (out []string) {
	for _, g := range c.Status.Groups {
		out = append(out, g.Name)
	}
	for _, term := range c.Spec.SelectorTerms {
		if term.Name != "" && !slices.Contains(out, term.Name) {
			out = append(out, term.Name)
		}
	}
	slices.Sort(out)
	return out
}

// findExisting is find for a class that must exist.
func (t *NodeGroups) findExisting(ctx context.Context, class string) (*handedGroups, error) {
	h, err := t.find(ctx, class)
	if err == nil && h.class == nil {
		err = fmt.Errorf("NodeGroupClass %s not found. List existing ones: kubectl get nodegroupclasses", class)
	}
	return h, err
}

// find reads a class, its groups and its NodePools. The class is nil if none has the name.
func (t *NodeGroups) find(ctx context.Context, class string) (*handedGroups, error) {
	h := &handedGroups{class: &dovetailv1alpha1.NodeGroupClass{}}
	err := t.Client.Dovetail.Get().Resource("nodegroupclasses").Name(class).Do(ctx).Into(h.class)
	if apierrors.IsNotFound(err) {
		return &handedGroups{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read NodeGroupClass %s: %w", class, err)
	}
	h.groups = groupsOfClass(h.class)
	pools, err := t.groupPools(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		if textOf(write.Field(p, "spec", "template", "spec", "nodeClassRef"), "name") == class {
			h.pools = append(h.pools, p)
		}
	}
	return h, nil
}

// groupPools are all NodePools whose node class is a NodeGroupClass.
func (t *NodeGroups) groupPools(ctx context.Context) ([]rawObject, error) {
	pools, err := t.list(ctx, "nodepools", "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pools, func(p rawObject) bool {
		return textOf(write.Field(p, "spec", "template", "spec", "nodeClassRef"), "kind") != dovetailv1alpha1.KindNodeGroupClass
	}), nil
}

// TakeOver transfers the groups of a class to Dovetail, and removes Cluster Autoscaler's taints from their nodes. Groups
// of other classes remain with Cluster Autoscaler, including after it restarts.
func (t *NodeGroups) TakeOver(ctx context.Context, class string) error {
	h, err := t.findExisting(ctx, class)
	if err != nil {
		return err
	}
	if err := t.markOtherPools(ctx, h, translate.ManagedByClusterAutoscaler); err != nil {
		return err
	}
	for _, p := range h.pools {
		name := textOf(p["metadata"], "name")
		if notes := write.Field(p, "metadata", "annotations"); textOf(notes, translate.AnnotationManagedBy) == translate.ManagedByDovetail && textOf(notes, translate.AnnotationRelease) == "" {
			t.Say("NodePool " + name + ": Dovetail already manages it.")
			continue
		}
		err := t.annotate(ctx, p, rawObject{translate.AnnotationManagedBy: translate.ManagedByDovetail})
		if apierrors.IsNotFound(err) {
			t.Say((&VanishedError{name}).Error() + ".")
			continue
		}
		if err != nil {
			return err
		}
		t.Say("NodePool " + name + ": Dovetail scales its groups now. Their nodes get a NodeClaim each within a minute and stay as they are.")
	}
	cleared, err := t.clearLeftovers(ctx, h.groups)
	if err != nil {
		return err
	}
	if len(cleared) > 0 {
		t.Say("Removed leftovers of Cluster Autoscaler from nodes: " + strings.Join(cleared, ", ") + ".")
	}
	return nil
}

// markOtherPools marks the NodePools of node groups that are of other classes and were never handed over, so that
// they stay as they are: whose mark it is depends on who scales them.
func (t *NodeGroups) markOtherPools(ctx context.Context, h *handedGroups, as string) error {
	all, err := t.groupPools(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if textOf(write.Field(p, "spec", "template", "spec", "nodeClassRef"), "name") == h.class.Name || textOf(write.Field(p, "metadata", "annotations"), translate.AnnotationManagedBy) != "" {
			continue
		}
		if err := t.annotate(ctx, p, rawObject{translate.AnnotationManagedBy: as}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// Release returns the groups of a class to Cluster Autoscaler: Dovetail finishes running operations and starts no new
// ones, deletes its NodeClaims without terminating their instances, and removes its marks from nodes and instances.
func (t *NodeGroups) Release(ctx context.Context, class string) error {
	h, err := t.findExisting(ctx, class)
	if err != nil {
		return err
	}
	if err := t.markOtherPools(ctx, h, translate.ManagedByDovetail); err != nil {
		return err
	}
	for _, p := range h.pools {
		name := textOf(p["metadata"], "name")
		err := t.explain(ctx, name, t.releasePool(ctx, h, name))
		var vanished *VanishedError
		if errors.As(err, &vanished) { // its nodes go with it
			t.Say(vanished.Error() + ".")
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// releasePool releases the groups of one NodePool. If a NodeClaim is deleted while Dovetail does nothing, Dovetail
// completes the deletion before the release of the others continues.
func (t *NodeGroups) releasePool(ctx context.Context, h *handedGroups, name string) error {
	p, err := t.get(ctx, "nodepools", name)
	if err != nil {
		return err
	}
	notes := write.Field(p, "metadata", "annotations")
	if textOf(notes, translate.AnnotationManagedBy) == translate.ManagedByClusterAutoscaler && textOf(notes, translate.AnnotationRelease) == "" {
		t.Say("NodePool " + name + ": Cluster Autoscaler already manages it.")
		return nil
	}
	for held := textOf(notes, translate.AnnotationRelease) == model.ReleaseHold; ; held = false {
		if !held {
			if err := t.holdPool(ctx, name); err != nil {
				return err
			}
		}
		err := t.dropClaims(ctx, h, name)
		var deleted *deletedError
		if err == nil {
			break
		}
		if !errors.As(err, &deleted) {
			return err
		}
		t.Say("NodePool " + name + ": " + deleted.Error() + "; waiting until Dovetail has removed its node.")
	}
	if err := sleep(ctx, t.pause().lists); err != nil { // until the controller no longer takes the instances for its own
		return err
	}
	return t.mark(ctx, name, translate.ManagedByClusterAutoscaler, "")
}

// holdPool makes Dovetail finish running operations for a NodePool, and then do nothing for it.
func (t *NodeGroups) holdPool(ctx context.Context, name string) error {
	if err := t.mark(ctx, name, translate.ManagedByDovetail, model.ReleaseSettle); err != nil {
		return err
	}
	t.Say("NodePool " + name + ": paused in Dovetail; waiting for launches and deletions in progress.")
	if err := t.awaitSettled(ctx, name); err != nil {
		return err
	}
	if err := t.mark(ctx, name, translate.ManagedByDovetail, model.ReleaseHold); err != nil {
		return err
	}
	return sleep(ctx, t.pause().hold)
}

// mark sets on a NodePool which autoscaler scales its groups, and the progress of its release; empty: it is not
// released.
func (t *NodeGroups) mark(ctx context.Context, name, manager, release string) error {
	p, err := t.get(ctx, "nodepools", name)
	if err != nil {
		return err
	}
	notes := rawObject{translate.AnnotationManagedBy: manager}
	if release != "" {
		notes[translate.AnnotationRelease] = release
	}
	return t.annotate(ctx, p, notes)
}

// dropClaims removes the NodeClaims of a NodePool from the API server, and Dovetail's marks from their nodes and
// instances: first from the instances, because an instance with the mark of a missing NodeClaim would be terminated. It
// returns a deletedError if one of the NodeClaims is being deleted.
func (t *NodeGroups) dropClaims(ctx context.Context, h *handedGroups, pool string) error {
	claims, err := t.list(ctx, "nodeclaims", karpv1.LabelNodePool+"="+pool)
	if err != nil {
		return err
	}
	for _, c := range claims {
		if textOf(c["metadata"], "deletionTimestamp") != "" {
			return &deletedError{textOf(c["metadata"], "name")}
		}
	}
	for _, g := range h.groups {
		_, members, found, err := t.Cloud.DescribeGroup(ctx, g)
		if err != nil {
			return err
		}
		if !found || len(members) == 0 {
			continue
		}
		if err := t.Cloud.ForgetClaims(ctx, members); err != nil {
			return err
		}
	}
	for _, c := range claims {
		if err := t.clearNode(ctx, textOf(c["status"], "nodeName")); err != nil {
			return err
		}
		if err := t.dropClaim(ctx, textOf(c["metadata"], "name")); err != nil {
			return err
		}
	}
	t.Say(fmt.Sprintf("NodePool %s: %d NodeClaims removed; their nodes and instances stay.", pool, len(claims)))
	return nil
}

// clearNode removes Dovetail's finalizer, owner, taints, labels and annotations from a node. A missing node is not an
// error.
func (t *NodeGroups) clearNode(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	err := t.changeNode(ctx, name, func(n *corev1.Node) rawObject {
		ours := func(key string) bool {
			return strings.HasPrefix(key, dovetailv1alpha1.Group+"/") || strings.HasPrefix(key, karpv1.Group+"/")
		}
		taints, cordoned := translate.WithoutReservation(n.Spec.Taints, n.Spec.Unschedulable)
		spec := rawObject{"taints": slices.DeleteFunc(taints, func(t corev1.Taint) bool { return ours(t.Key) })}
		if n.Spec.Unschedulable && !cordoned {
			spec["unschedulable"] = nil
		}
		labels, notes := rawObject{}, rawObject{}
		for k := range n.Labels {
			if ours(k) && k != karpv1.LabelCapacityType { // pods may have asked for that one
				labels[k] = nil
			}
		}
		for k := range n.Annotations {
			if ours(k) {
				notes[k] = nil
			}
		}
		finalizers := slices.DeleteFunc(slices.Clone(n.Finalizers), func(f string) bool { return f == karpv1.FinalizerTermination })
		owners := slices.Clone(n.OwnerReferences)
		for i := len(owners) - 1; i >= 0; i-- {
			if owners[i].Kind == "NodeClaim" {
				owners = slices.Delete(owners, i, i+1)
			}
		}
		return rawObject{"metadata": rawObject{"labels": labels, "annotations": notes, "finalizers": finalizers, "ownerReferences": owners}, "spec": spec}
	})
	if err != nil {
		return fmt.Errorf("remove Dovetail's labels, annotations and taints from node %s: %w", name, err)
	}
	return nil
}

// changeNode merges a change into a node, and retries on conflicts. nil: no change. A missing node is not an error.
func (t *NodeGroups) changeNode(ctx context.Context, name string, change func(*corev1.Node) rawObject) error {
	for {
		var n corev1.Node
		err := t.Client.Core.Get().Resource("nodes").Name(name).Do(ctx).Into(&n)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		patch := change(&n)
		if patch == nil {
			return nil
		}
		meta, _ := patch["metadata"].(rawObject)
		if meta == nil {
			meta = rawObject{}
			patch["metadata"] = meta
		}
		meta["resourceVersion"] = n.ResourceVersion
		body, err := jsonOf(patch)
		if err != nil {
			return err
		}
		err = t.Client.Core.Patch(types.MergePatchType).Resource("nodes").Name(name).Body(body).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

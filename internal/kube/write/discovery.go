// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Discovery configures which node groups get NodePools automatically.
type Discovery struct {
	Find     func(context.Context) ([]translate.NodeGroup, error) // returns the current node groups
	Settings translate.GroupSettings
	Every    time.Duration // discovery interval
	Log      *slog.Logger

	// Priorities is the namespace of the ConfigMap with which the expander priority ranks groups; empty: none is read,
	// and users set weights.
	Priorities string
	// Tell reports an event about an object, like Event of Actor. Required if Priorities is set.
	Tell func(kind, namespace, name, uid string, warn bool, reason, message string)

	c      *client.Client
	ranks  ranks
	groups []translate.NodeGroup // when they were last found
	found  bool
	said   map[string]string // the rules that were last told of a pool, so that they are told once
	warned map[string]string // what was last said of an object, so that it is said once
}

// NodeGroups maintains a NodePool and a NodeGroupClass for each discovered node group, until the context ends. It uses
// objects seen by Watch. If a group is no longer discovered, nothing is launched for its NodePool and none of its nodes
// is disrupted; the NodePool and the class are deleted after its last machine is gone.
func NodeGroups(ctx context.Context, c *client.Client, d *Discovery) error {
	d.c = c
	d.warned, d.said = map[string]string{}, map[string]string{}
	if d.Priorities != "" {
		d.followPriorities(ctx)
	}
	wait := client.Backoff(time.Second, d.Every)
	var next time.Time
	for {
		if now := time.Now(); !now.Before(next) {
			groups, err := d.Find(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil: // those known stay as they are
				d.Log.Warn("discovering node groups failed, trying again", "error", err)
				next = now.Add(wait.Step())
			default:
				d.groups, d.found = groups, true
				wait = client.Backoff(time.Second, d.Every)
				next = now.Add(d.Every)
			}
		}
		if d.found {
			if err := d.syncGroups(ctx); err != nil && ctx.Err() == nil {
				d.Log.Warn("writing NodePools for node groups failed, trying again", "error", err)
				if soon := time.Now().Add(wait.Step()); soon.Before(next) {
					next = soon
				}
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-c.Seen.GroupsChanged.C():
			timer.Stop()
		}
	}
}

func (d *Discovery) syncGroups(ctx context.Context) error {
	weights, ranked, err := d.weights()
	if err != nil {
		return err
	}
	wanted, err := translate.WeightedNodeGroups(d.groups, d.Settings, weights)
	if err != nil {
		return err
	}
	var failed []error
	have := map[string]bool{}
	for _, w := range wanted {
		name := w.Pool.Name
		have[name] = true
		why, err := d.writeGroups(ctx, w, ranked)
		if err != nil {
			failed = append(failed, fmt.Errorf("nodepool %q of node group %s: %w", name, strings.Join(w.Groups, ", "), err))
			continue
		}
		if text := strings.Join(w.Class.Spec.Options.Rules(), " "); text != d.said[name] {
			d.said[name] = text
			d.Log.Info("node group discovered, with rules that restrict node removal and eviction", "nodepool", name, "groups", w.Groups, "rules", text)
		}
		if ranked && w.Pool.Spec.Weight == nil && len(weights) > 0 {
			why = append(why, strings.Join(w.Groups, ", ")+": no priority in ConfigMap "+d.Priorities+"/"+translate.PriorityConfigMap+" matches it: it is used last")
		}
		for _, f := range w.Fields {
			if f.Became == "" && !f.Needless {
				why = append(why, f.Group+": "+f.Field+"="+f.Value+": "+f.Why)
			}
		}
		if text := strings.Join(why, "; "); text != d.warned[name] {
			d.warned[name] = text
			if text != "" {
				d.Log.Warn("a node group setting has no effect", "nodepool", name, "what", text)
			}
		}
	}
	for _, pool := range d.c.Seen.Pools.Sorted() {
		if !translate.IsDiscovered(pool) || have[pool.Name] || pool.DeletionTimestamp != nil {
			continue
		}
		if err := d.letGo(ctx, pool); err != nil {
			failed = append(failed, err)
		}
	}
	for _, class := range d.c.Seen.GroupClasses.Sorted() {
		if _, used := d.c.Seen.Pools.Get(class.Name); used || have[class.Name] || !translate.IsDiscovered(class) || class.DeletionTimestamp != nil {
			continue
		}
		err := d.c.Dovetail.Delete().Resource("nodegroupclasses").Name(class.Name).Body(orphaning(class)).Do(ctx).Error()
		if err != nil && !passing(err, true) {
			failed = append(failed, fmt.Errorf("delete nodegroupclass %q: %w", class.Name, err))
		}
	}
	return errors.Join(failed...)
}

// writeGroups makes the objects of groups, or makes those there what they should be; ranked: their weights are not the user's. why says what
// of others' is in the way.
func (d *Discovery) writeGroups(ctx context.Context, w translate.GroupObjects, ranked bool) (why []string, err error) {
	name := w.Pool.Name
	pool, poolThere := d.c.Seen.Pools.Get(name)
	class, classThere := d.c.Seen.GroupClasses.Get(name)
	switch {
	case poolThere && !translate.IsDiscovered(pool):
		return []string{"NodePool " + name + " exists and was not created by node group discovery; rename it, or exclude its group from discovery"}, nil
	case classThere && !translate.IsDiscovered(class):
		return []string{"NodeGroupClass " + name + " exists and was not created by node group discovery; rename it, or exclude its group from discovery"}, nil
	case poolThere && pool.DeletionTimestamp != nil, classThere && class.DeletionTimestamp != nil:
		return nil, nil // it is made again when it has gone
	}
	nextClass := w.Class
	if classThere {
		nextClass = class.DeepCopy()
		nextClass.TypeMeta, nextClass.Spec = w.Class.TypeMeta, w.Class.Spec
	}
	mark(nextClass, w.Groups)
	switch {
	case !classThere:
		err = d.c.Dovetail.Post().Resource("nodegroupclasses").Body(nextClass).Do(ctx).Error()
	case !sameJSON(class.Spec, nextClass.Spec) || !sameMarks(class, nextClass):
		err = d.c.Dovetail.Put().Resource("nodegroupclasses").Name(name).Body(nextClass).Do(ctx).Error()
	}
	if err != nil && !passing(err, classThere) {
		return nil, fmt.Errorf("write nodegroupclass %q: %w", name, err)
	}
	nextPool := w.Pool
	if poolThere {
		nextPool = pool.DeepCopy()
		nextPool.TypeMeta, nextPool.Spec = w.Pool.TypeMeta, w.Pool.Spec
		if !ranked {
			nextPool.Spec.Weight = pool.Spec.Weight // the user's to set
		}
		delete(nextPool.Annotations, dovetailv1alpha1.AnnotationLetGo)
	}
	mark(nextPool, w.Groups)
	err = nil
	switch {
	case !poolThere:
		err = d.c.Karpenter.Post().Resource("nodepools").Body(nextPool).Do(ctx).Error()
	case !sameJSON(pool.Spec, nextPool.Spec) || !sameMarks(pool, nextPool):
		err = d.c.Karpenter.Put().Resource("nodepools").Name(name).Body(nextPool).Do(ctx).Error()
	}
	if err != nil && !passing(err, poolThere) {
		return nil, fmt.Errorf("write nodepool %q: %w", name, err)
	}
	return nil, nil
}

// letGo leaves a pool's machines alone, and takes the pool away once it has none. A claim may be on its way while the pool still
// looks usable, so that is two steps: what the API server has shown as let go gets no claims.
func (d *Discovery) letGo(ctx context.Context, pool *karpv1.NodePool) error {
	next := pool.DeepCopy()
	next.TypeMeta = metav1.TypeMeta{APIVersion: karpv1.GroupVersion.String(), Kind: "NodePool"}
	next.Spec.Limits = karpv1.Limits{karpv1.ResourceNodes: resource.MustParse("0")}
	next.Spec.Disruption.ConsolidateAfter = karpv1.NillableDuration{}
	next.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, dovetailv1alpha1.AnnotationLetGo, karpv1.LabelValueTrue)
	if !sameJSON(pool.Spec, next.Spec) || !sameMarks(pool, next) {
		err := d.c.Karpenter.Put().Resource("nodepools").Name(pool.Name).Body(next).Do(ctx).Error()
		if err != nil && !passing(err, true) {
			return fmt.Errorf("set aside NodePool %q, whose node group no longer exists: %w", pool.Name, err)
		}
		if err == nil {
			d.Log.Info("node group no longer found: nothing is launched in its NodePool, and its nodes are left alone", "nodepool", pool.Name)
		}
		return nil
	}
	for _, claim := range d.c.Seen.Claims.List() {
		if claim.Labels[karpv1.LabelNodePool] == pool.Name {
			return nil
		}
	}
	err := d.c.Karpenter.Delete().Resource("nodepools").Name(pool.Name).Body(orphaning(pool)).Do(ctx).Error()
	if err != nil && !passing(err, true) {
		return fmt.Errorf("delete NodePool %q, whose node group no longer exists: %w", pool.Name, err)
	}
	return nil
}

// orphaning deletes this very object, as it was seen, and nothing that it owns.
func orphaning(o metav1.Object) *metav1.DeleteOptions {
	uid, version, policy := o.GetUID(), o.GetResourceVersion(), metav1.DeletePropagationOrphan
	return &metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &policy,
	}
}

// passing reports whether an error means that an object has changed, or gone if it was there: the watch will tell, and all of it is looked
// at again.
func passing(err error, there bool) bool {
	return !deniedByAdmission(err) && (apierrors.IsConflict(err) || there && apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err))
}

// mark says on an object which groups it was made for.
func mark(o metav1.Object, groups []string) {
	labels, notes := maps.Clone(o.GetLabels()), maps.Clone(o.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if notes == nil {
		notes = map[string]string{}
	}
	labels[dovetailv1alpha1.LabelDiscovered] = karpv1.LabelValueTrue
	notes[dovetailv1alpha1.AnnotationGroups] = strings.Join(groups, ",")
	o.SetLabels(labels)
	o.SetAnnotations(notes)
}

func sameMarks(a, b metav1.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package freeze stops voluntary disruption in NodePools: it adds a disruption budget of 0 nodes to each, and removes exactly those
// budgets again. It writes through a client that the caller connected, and never runs in the controller.
//
// Invariant: an annotation of the NodePool records the budget that was added, in the same write. Start reading at NodePools.Freeze.
package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// Annotation on a NodePool is the disruption budget that Freeze added to it, as JSON.
const Annotation = dovetailv1alpha1.Group + "/freeze"

// Longest is the maximum duration of a freeze. The schedule of a budget recurs each year.
const Longest = 30 * 24 * time.Hour

// NodePools freezes the NodePools of a cluster.
type NodePools struct {
	Client *client.Client
	DryRun bool // the API server validates the changes and stores none
}

// object is an object of the API as JSON decodes it. Fields that this version does not know are kept.
type object = map[string]any

// change modifies a NodePool, and returns a sentence without its name and whether the NodePool is to be written.
type change func(pool object) (string, bool, error)

// Freeze adds a disruption budget of 0 nodes to each NodePool. The budget lasts for duration, rounded up so that it
// ends at a full minute, or indefinitely if duration is 0, and replaces that of an earlier Freeze. If a NodePool cannot
// be written, Freeze continues with the others: it returns one message per NodePool without an error, sorted by name,
// and the joined errors.
func (f *NodePools) Freeze(ctx context.Context, now time.Time, duration time.Duration) ([]string, error) {
	return f.each(ctx, freezing(now, duration))
}

// Undo removes only the budgets that Freeze added. It returns the same results as Freeze.
func (f *NodePools) Undo(ctx context.Context) ([]string, error) { return f.each(ctx, undoing) }

func freezing(now time.Time, duration time.Duration) change {
	added, until := object{"nodes": "0"}, "'dovetail freeze --undo'"
	if duration > 0 {
		start := now.UTC().Truncate(time.Minute)
		end := now.UTC().Add(duration + time.Minute - 1).Truncate(time.Minute)
		added["schedule"] = fmt.Sprintf("%d %d %d %d *", start.Minute(), start.Hour(), start.Day(), start.Month())
		added["duration"] = strings.TrimSuffix(end.Sub(start).String(), "0s")
		until = end.Format("2006-01-02 15:04") + " UTC"
	}
	return func(pool object) (string, bool, error) {
		switch {
		case write.Field(pool, "metadata", "labels", dovetailv1alpha1.LabelDiscovered) == karpv1.LabelValueTrue:
			return "not frozen: Dovetail writes the NodePools of discovered node groups. Stop the controller instead", false, nil
		case write.Field(pool, "metadata", "deletionTimestamp") != nil:
			return "not frozen: it is being deleted", false, nil
		}
		if _, err := unfreeze(pool); err != nil {
			return "", false, err
		}
		text, err := json.Marshal(added)
		if err != nil {
			return "", false, err
		}
		set(pool, slices.Insert(budgets(pool), 0, any(added)), string(text))
		return "frozen until " + until, true, nil
	}
}

func undoing(pool object) (string, bool, error) {
	if write.Field(pool, "metadata", "annotations", Annotation) == nil {
		return "unchanged: 'dovetail freeze' added no budget", false, nil
	}
	found, err := unfreeze(pool)
	if err == nil && !found {
		return "no longer frozen: its budget had already been removed", true, nil
	}
	return "no longer frozen", true, err
}

// unfreeze removes the budget that the annotation of a NodePool records, and the annotation. It reports whether the budget was there.
func unfreeze(pool object) (bool, error) {
	text, ok := write.Field(pool, "metadata", "annotations", Annotation).(string)
	if !ok {
		return false, nil
	}
	var added any
	if err := json.Unmarshal([]byte(text), &added); err != nil {
		return false, fmt.Errorf("annotation %s: %w; remove the annotation and its budget with kubectl edit", Annotation, err)
	}
	all := budgets(pool)
	i := slices.IndexFunc(all, func(b any) bool { return reflect.DeepEqual(b, added) })
	if i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	set(pool, all, "")
	return i >= 0, nil
}

// each changes all NodePools, by name.
func (f *NodePools) each(ctx context.Context, change change) (said []string, err error) {
	list, err := write.DecodeObject(f.Client.Karpenter.Get().Resource("nodepools").Do(ctx).Raw())
	if err != nil {
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	items, _ := list["items"].([]any)
	var names []string
	for _, pool := range items {
		name, _ := write.Field(pool, "metadata", "name").(string)
		names = append(names, name)
	}
	slices.Sort(names)
	var failed []error
	for _, name := range names {
		text, err := f.change(ctx, name, change)
		if err != nil {
			failed = append(failed, fmt.Errorf("change NodePool %s: %w", name, err))
			continue
		}
		said = append(said, "NodePool "+name+": "+text+".")
	}
	return said, errors.Join(failed...)
}

// change changes one NodePool, again if it was written in between.
func (f *NodePools) change(ctx context.Context, name string, change change) (text string, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pool, err := write.DecodeObject(f.Client.Karpenter.Get().Resource("nodepools").Name(name).Do(ctx).Raw())
		if err != nil {
			return err
		}
		var changed bool
		if text, changed, err = change(pool); err != nil || !changed {
			return err
		}
		body, err := json.Marshal(object{
			"metadata": object{"resourceVersion": write.Field(pool, "metadata", "resourceVersion"), "annotations": object{Annotation: write.Field(pool, "metadata", "annotations", Annotation)}},
			"spec":     object{"disruption": object{"budgets": budgets(pool)}},
		})
		if err != nil {
			return err
		}
		r := f.Client.Karpenter.Patch(types.MergePatchType).Resource("nodepools").Name(name).Body(body)
		if f.DryRun {
			r = r.Param("dryRun", "All")
		}
		return r.Do(ctx).Error()
	})
	return text, err
}

// budgets returns the disruption budgets of a NodePool; not nil, because the API server replaces null by the default budget.
func budgets(pool object) []any {
	all, _ := write.Field(pool, "spec", "disruption", "budgets").([]any)
	return append([]any{}, all...)
}

// set sets the budgets of a NodePool and the text of the annotation; empty: none.
func set(pool object, budgets []any, annotation string) {
	child(child(pool, "spec"), "disruption")["budgets"] = budgets
	annotations := child(child(pool, "metadata"), "annotations")
	delete(annotations, Annotation)
	if annotation != "" {
		annotations[Annotation] = annotation
	}
}

// child returns a field of an object that is an object, which is added if it is missing.
func child(o object, key string) object {
	out, ok := o[key].(object)
	if !ok {
		out = object{}
		o[key] = out
	}
	return out
}

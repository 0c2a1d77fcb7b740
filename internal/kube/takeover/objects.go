// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

func (t *NodePools) get(ctx context.Context, resource, name string) (rawObject, error) {
	return write.DecodeObject(t.Client.Karpenter.Get().Resource(resource).Name(name).Do(ctx).Raw())
}

func (t *NodePools) list(ctx context.Context, resource, selector string) ([]rawObject, error) {
	r := t.Client.Karpenter.Get().Resource(resource)
	if selector != "" {
		r = r.Param("labelSelector", selector)
	}
	list, err := write.DecodeObject(r.Do(ctx).Raw())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	items, _ := list["items"].([]any)
	out := make([]rawObject, 0, len(items))
	for _, x := range items {
		o, _ := x.(rawObject)
		o["apiVersion"], o["kind"] = karpv1.GroupVersion.String(), strings.TrimSuffix(textOf(list, "kind"), "List")
		out = append(out, o)
	}
	return out, nil
}

func (t *NodePools) create(ctx context.Context, resource string, o rawObject) (rawObject, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out, err := write.DecodeObject(t.Client.Karpenter.Post().Resource(resource).Body(body).SetHeader("Content-Type", "application/json").Do(ctx).Raw())
	if err != nil {
		return nil, fmt.Errorf("create %s %s: %w", resource, textOf(o["metadata"], "name"), err)
	}
	return out, nil
}

func (t *NodePools) patch(ctx context.Context, resource, name, subresource string, change rawObject) (rawObject, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	r := t.Client.Karpenter.Patch(types.MergePatchType).Resource(resource).Name(name)
	if subresource != "" {
		r = r.SubResource(subresource)
	}
	out, err := write.DecodeObject(r.Body(body).Do(ctx).Raw())
	if err != nil {
		return nil, fmt.Errorf("change %s %s: %w", resource, name, err)
	}
	return out, nil
}

// update reads a rawObject, changes its metadata and writes it, and retries on conflicts. change returns false if there
// is nothing to write.
func (t *NodePools) update(ctx context.Context, c rest.Interface, resource, name string, change func(rawObject) bool) error {
	for {
		have, err := write.DecodeObject(c.Get().Resource(resource).Name(name).SetHeader("Accept", "application/json").Do(ctx).Raw())
		if err != nil {
			return err
		}
		before := runtime.DeepCopyJSON(have)
		if !change(have) {
			return nil
		}
		meta := rawObject{"resourceVersion": textOf(before["metadata"], "resourceVersion"), "ownerReferences": write.Field(have, "metadata", "ownerReferences")}
		labels := rawObject{}
		old, _ := write.Field(before, "metadata", "labels").(rawObject)
		now, _ := write.Field(have, "metadata", "labels").(rawObject)
		for k := range old {
			if now[k] == nil {
				labels[k] = nil
			}
		}
		for k, v := range now {
			if old[k] != v {
				labels[k] = v
			}
		}
		meta["labels"] = labels
		body, err := json.Marshal(rawObject{"metadata": meta})
		if err != nil {
			return err
		}
		err = c.Patch(types.MergePatchType).Resource(resource).Name(name).Body(body).Do(ctx).Error()
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// text returns a field as text, empty where it is none.
func textOf(o any, key string) string {
	s, _ := write.Field(o, key).(string)
	return s
}

func groupOf(pool rawObject) string {
	return textOf(write.Field(pool, "spec", "template", "spec", "nodeClassRef"), "group")
}

// hasCondition reports whether a condition of an rawObject is True.
func hasCondition(o rawObject, name string) bool {
	list, _ := write.Field(o, "status", "conditions").([]any)
	return slices.ContainsFunc(list, func(c any) bool { return textOf(c, "type") == name && textOf(c, "status") == "True" })
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

var errNoPools = errors.New("there is no NodePool. Create one, then run the same command again")

// NodePools moves NodePools from Karpenter to Dovetail and back. It may be interrupted after any step: the state is
// stored in a ConfigMap, and the same call completes it. Objects are read and written as a whole, including unknown
// fields.
type NodePools struct {
	Client    *client.Client
	Namespace string                // namespace of ConfigMap dovetail-takeover
	Wait      time.Duration         // how long to wait for NodeClaims to be created or deleted
	Say       func(sentence string) // reports progress to the user

	pauses pauseTimes // zero: defaultPauses
}

// pauseTimes are the pauses of a takeover that let controllers see its writes.
type pauseTimes struct {
	look  time.Duration // between two looks at what is being waited for
	still time.Duration // for so long no NodeClaim of a pool must appear before the pool is created anew
	hold  time.Duration // in which a controller has seen that it is to do nothing, and its calls have ended
	lists time.Duration // after which the controller has listed the instances anew, whenever it did last
}

var defaultPauses = pauseTimes{look: 500 * time.Millisecond, still: 3 * time.Second, hold: 5 * time.Second, lists: 25 * time.Second}

// pause returns the pauses of this handover.
func (t *NodePools) pause() pauseTimes {
	if t.pauses == (pauseTimes{}) {
		return defaultPauses
	}
	return t.pauses
}

// rawObject is one of the API as it is.
type rawObject = map[string]any

// deletedError is the error for a NodeClaim that was deleted during a release.
type deletedError struct{ claim string }

func (e *deletedError) Error() string { return "NodeClaim " + e.claim + " is being deleted" }

// jsonOf is a patch as it is sent.
func jsonOf(patch rawObject) ([]byte, error) {
	b, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write patch: %w", err)
	}
	return b, nil
}

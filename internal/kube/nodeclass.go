// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// nodeClassKind is a kind of node class that can be watched and whose status can be written.
type nodeClassKind interface {
	is(group, kind string) bool
	where() (gv schema.GroupVersion, resource string)
	follow(ctx context.Context, wg *sync.WaitGroup, t *translate.Translator, emit func(state.Change))
	update(ctx context.Context, u plan.UpdateNodeClass, now time.Time) (uint64, error)
}

// nodeClassKinds are all of them, whether the API server has them or not.
func (c *Client) nodeClassKinds() []nodeClassKind {
	return []nodeClassKind{
		classOf[*kwokv1alpha1.KWOKNodeClass]{
			c: c, gv: kwokv1alpha1.GroupVersion, kindName: kwokv1alpha1.KindKWOKNodeClass,
			kind: kind[*kwokv1alpha1.KWOKNodeClass]{
				"kwoknodeclass", "kwoknodeclasses", c.KWOK, &c.kwokClasses, func() *kwokv1alpha1.KWOKNodeClass { return &kwokv1alpha1.KWOKNodeClass{} },
			},
			translate: (*translate.Translator).KWOKNodeClass,
			status:    func(k *kwokv1alpha1.KWOKNodeClass) ([]metav1.Condition, any) { return k.Status.Conditions, nil },
		},
		classOf[*awsv1.EC2NodeClass]{
			c: c, gv: awsv1.GroupVersion, kindName: awsv1.KindEC2NodeClass,
			kind: kind[*awsv1.EC2NodeClass]{
				"ec2nodeclass", "ec2nodeclasses", c.AWS, &c.ec2Classes, func() *awsv1.EC2NodeClass { return &awsv1.EC2NodeClass{} },
			},
			translate: (*translate.Translator).EC2NodeClass, finalizer: awsv1.FinalizerTermination,
			status: func(k *awsv1.EC2NodeClass) ([]metav1.Condition, any) {
				rest := k.Status
				rest.Conditions = nil
				return k.Status.Conditions, rest
			},
		},
		classOf[*dovetailv1alpha1.NodeGroupClass]{
			c: c, gv: dovetailv1alpha1.GroupVersion, kindName: dovetailv1alpha1.KindNodeGroupClass,
			kind: kind[*dovetailv1alpha1.NodeGroupClass]{
				"nodegroupclass", "nodegroupclasses", c.Dovetail, &c.groupClasses, func() *dovetailv1alpha1.NodeGroupClass { return &dovetailv1alpha1.NodeGroupClass{} },
			},
			translate: (*translate.Translator).NodeGroupClass,
			status: func(k *dovetailv1alpha1.NodeGroupClass) ([]metav1.Condition, any) {
				rest := k.Status
				rest.Conditions = nil
				return k.Status.Conditions, rest
			},
		},
	}
}

// servedClasses are the kinds of node class that the API server has. One that is missing is said, and not waited for: it may not be
// wanted.
func (c *Client) servedClasses(ctx context.Context) ([]nodeClassKind, error) {
	var out []nodeClassKind
	for _, k := range c.nodeClassKinds() {
		gv, resource := k.where()
		ok, err := c.Serves(ctx, gv, resource)
		if err != nil {
			return nil, err
		}
		if !ok {
			c.Log.Warn("a node class kind is not installed and is left out: to use it, apply its CustomResourceDefinition from charts/dovetail/crds and restart",
				"resource", resource+"."+gv.Group, "server", c.Address)
			continue
		}
		out = append(out, k)
	}
	return out, nil
}

// classOf is a nodeClassKind of one type.
type classOf[T interface {
	metav1.Object
	runtime.Object
}] struct {
	c         *Client
	gv        schema.GroupVersion
	kindName  string
	kind      kind[T]
	translate func(*translate.Translator, T) state.NodeClass
	finalizer string                                            // of its provider; empty: nothing is made for classes of this kind
	status    func(T) (conditions []metav1.Condition, rest any) // rest nil: there is nothing else
}

func (k classOf[T]) is(group, kind string) bool { return group == k.gv.Group && kind == k.kindName }

func (k classOf[T]) where() (schema.GroupVersion, string) { return k.gv, k.kind.resource }

func (k classOf[T]) follow(ctx context.Context, wg *sync.WaitGroup, t *translate.Translator, emit func(state.Change)) {
	follow(ctx, k.c, wg, source{k.kind.client, k.kind.resource, k.kind.fresh()}, &sync.Mutex{},
		func(name string, x T) {
			trim(x)
			seen(k.kind.have, name, x)
			k.c.groupsChanged.raise()
			m := k.translate(t, x)
			emit(func(s *state.State) { s.Pools.SetNodeClass(m) })
		},
		func(name string) {
			k.kind.have.delete(name)
			k.c.groupsChanged.raise()
			emit(func(s *state.State) { s.Pools.DeleteNodeClass(k.gv.Group, k.kindName, name) })
		})
}

func (k classOf[T]) update(ctx context.Context, u plan.UpdateNodeClass, now time.Time) (uint64, error) {
	if k.finalizer == "" && (u.AddFinalizer || u.RemoveFinalizer) {
		return 0, fmt.Errorf("update %s %q: %w: this kind has no finalizer", k.kind.name, u.Name, plan.ErrInvalid)
	}
	return k.kind.edit(ctx, "update", u.Name, u.UID, func(cur T) (T, error) {
		if list, changed := finalizers(cur.GetFinalizers(), k.finalizer, u.AddFinalizer, u.RemoveFinalizer); changed {
			// The list is replaced: nobody else's may be lost.
			meta := map[string]any{"uid": cur.GetUID(), "resourceVersion": cur.GetResourceVersion(), "finalizers": list}
			next, err := k.kind.patch(ctx, u.Name, types.MergePatchType, map[string]any{"metadata": meta})
			if err != nil || u.RemoveFinalizer {
				return next, err
			}
			cur = next
		}
		status := map[string]any{}
		have, rest := k.status(cur)
		if list, changed := mergeConditions(have, u.Conditions, cur.GetGeneration(), now); changed {
			status["conditions"] = list
		}
		if rest != nil && len(u.Status) > 0 {
			if err := statusPatch(rest, u.Status, status); err != nil {
				return cur, fmt.Errorf("%w: status: %w", plan.ErrInvalid, err)
			}
		}
		if len(status) == 0 {
			return cur, nil
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.GetUID(), "resourceVersion": cur.GetResourceVersion()}, "status": status}
		return k.kind.patch(ctx, u.Name, types.MergePatchType, body, "status")
	})
}

// statusPatch adds to patch what makes one status the other: fields that differ, and null for those that are gone.
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

// UpdateNodeClass writes a node class's status, or its finalizer.
func (a *Actor) UpdateNodeClass(ctx context.Context, u plan.UpdateNodeClass) (uint64, error) {
	for _, k := range a.c.nodeClassKinds() {
		if k.is(u.Group, u.Kind) {
			return k.update(ctx, u, a.now())
		}
	}
	return 0, fmt.Errorf("update node class %s/%s %q: %w: not a kind this program writes", u.Group, u.Kind, u.Name, plan.ErrInvalid)
}

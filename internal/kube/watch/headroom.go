// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Headrooms are the watched Headrooms and their target workloads.
type Headrooms struct {
	c *client.Client
	t *translate.Translator
}

// NewHeadrooms returns the Headrooms of a cluster.
func NewHeadrooms(c *client.Client, t *translate.Translator) *Headrooms {
	return &Headrooms{c, t}
}

// followHeadrooms watches Headrooms.
func (w *watcher) followHeadrooms(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, w, wg, source{c.Dovetail, "headrooms", &dovetailv1alpha1.Headroom{}}, &sync.Mutex{},
		func(k string, h *dovetailv1alpha1.Headroom) {
			old, had := c.Seen.Headrooms.Get(k)
			client.KeepSeen(&c.Seen.Headrooms, k, h)
			if !had || old.Generation != h.Generation || old.UID != h.UID { // not its status, which we write
				c.Seen.HeadroomChanged.Raise()
			}
		},
		func(k string) { c.Seen.Headrooms.Delete(k); c.Seen.HeadroomChanged.Raise() })
}

// Changed returns a channel that receives a value after a Headroom was created, changed or deleted.
func (x *Headrooms) Changed() <-chan struct{} { return x.c.Seen.HeadroomChanged.C() }

// Scaled returns a channel that receives a value after the desired replicas of a ReplicaSet changed.
func (x *Headrooms) Scaled() <-chan struct{} { return x.c.Seen.ReplicasChanged.C() }

// List returns all Headrooms that are not being deleted, by namespace and name.
func (x *Headrooms) List() []headroom.Object {
	var out []headroom.Object
	for _, h := range x.c.Seen.Headrooms.Sorted() {
		if h.DeletionTimestamp == nil {
			out = append(out, x.t.Headroom(h))
		}
	}
	return out
}

// ListHeadrooms reads the Headrooms of a namespace from the API server; all if it is empty.
func ListHeadrooms(ctx context.Context, c *client.Client, namespace string) ([]dovetailv1alpha1.Headroom, error) {
	var list dovetailv1alpha1.HeadroomList
	err := c.Dovetail.Get().Namespace(namespace).Resource("headrooms").Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("API server %s does not serve headrooms.%s: install the CustomResourceDefinitions of charts/dovetail/crds", c.Address, dovetailv1alpha1.Group)
	}
	if err != nil {
		return nil, fmt.Errorf("list headrooms of API server %s: %w", c.Address, err)
	}
	slices.SortFunc(list.Items, func(a, b dovetailv1alpha1.Headroom) int { return cmp.Compare(translate.Key(&a), translate.Key(&b)) })
	return list.Items, nil
}

// ReadHeadrooms reads all Headrooms of a cluster and their target workloads, by namespace and name.
func ReadHeadrooms(ctx context.Context, c *client.Client, t *translate.Translator) ([]headroom.Targeted, error) {
	list, err := ListHeadrooms(ctx, c, "")
	if err != nil {
		return nil, err
	}
	x := NewHeadrooms(c, t)
	var out []headroom.Targeted
	for i := range list {
		c.Seen.Headrooms.Set(translate.Key(&list[i]), &list[i])
		in := headroom.Targeted{Object: x.t.Headroom(&list[i])}
		var problem headroom.Problem
		if in.Targets, err = x.Targets(ctx, &in.Spec); errors.As(err, &problem) {
			in.Problems = append(in.Problems, problem)
		} else if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

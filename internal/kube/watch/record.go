// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"fmt"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// Recorder receives the objects of a cluster and their changes. Calls for the same object are never concurrent.
type Recorder interface {
	Set(apiVersion, kind, key string, x any)
	Delete(kind, key string)
}

// Recordable are the kinds of a cluster that can be recorded.
type Recordable struct {
	Cluster string   // UID of Namespace kube-system; the address of the API server if it cannot be read
	Kinds   []string // kinds followed by Follow
	Missing []string // kinds that the API server does not have
	Denied  []string // kinds without permission to list and watch

	c     *client.Client
	kinds []objectKind
}

// ReadRecordable determines which kinds an API server has and which of them may be recorded. It returns an error if
// nodes or pods may not.
func ReadRecordable(ctx context.Context, c *client.Client) (*Recordable, error) {
	out := &Recordable{c: c}
	var err error
	if out.Cluster, err = readClusterID(ctx, c); err != nil {
		return nil, err
	}
	for _, k := range kindsFor(c, recorded) {
		gv := k.src.client.APIVersion()
		if k.uses&custom != 0 {
			served, err := c.Serves(ctx, gv, k.src.resource)
			if err != nil {
				return nil, err
			}
			if !served {
				out.Missing = append(out.Missing, k.kind)
				continue
			}
		}
		may := true
		for _, verb := range []string{"list", "watch"} {
			ok, err := c.May(ctx, &authorizationv1.ResourceAttributes{Group: gv.Group, Resource: k.src.resource, Verb: verb})
			if err != nil {
				return nil, err
			}
			may = may && ok
		}
		switch {
		case may:
			out.kinds, out.Kinds = append(out.kinds, k), append(out.Kinds, k.kind)
		case k.kind == "Node" || k.kind == "Pod":
			return nil, fmt.Errorf("API server %s: no permission to list and watch %s in all namespaces; bind a ClusterRole that grants it, such as the one that 'dovetail manifests --mode shadow' prints",
				c.Address, k.src.resource)
		default:
			out.Denied = append(out.Denied, k.kind)
		}
	}
	return out, nil
}

// readClusterID returns the ID of a cluster in recordings. It lists namespaces instead of getting one, because a
// recorder may list them but may lack the right to get one.
func readClusterID(ctx context.Context, c *client.Client) (string, error) {
	var found corev1.NamespaceList
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, metav1.NamespaceSystem).String()
	switch err := c.Core.Get().Resource("namespaces").Param("fieldSelector", only).Do(ctx).Into(&found); {
	case err == nil && len(found.Items) == 1:
		return string(found.Items[0].UID), nil
	case err == nil:
		return c.Address, nil
	case !apierrors.IsForbidden(err):
		return "", fmt.Errorf("read Namespace %s of API server %s: %w", metav1.NamespaceSystem, c.Address, err)
	}
	return c.Address, nil
}

// Watched returns the kinds that a Recorder of Watch receives. Kinds that Watch does not watch are Denied.
func Watched(ctx context.Context, c *client.Client) (*Recordable, error) {
	out := &Recordable{c: c}
	var err error
	if out.Cluster, err = readClusterID(ctx, c); err != nil {
		return nil, err
	}
	for _, k := range kindsFor(c, recorded) {
		if k.kind == "Deployment" {
			out.Denied = append(out.Denied, k.kind)
			continue
		}
		out.kinds, out.Kinds = append(out.kinds, k), append(out.Kinds, k.kind)
	}
	return out, nil
}

// record makes a Recorder receive what is watched.
func (w *watcher) record(to Recorder) {
	if to == nil {
		return
	}
	w.recorder, w.kinds = to, map[string]objectKind{}
	for _, k := range kindsFor(w.c, recorded) {
		w.kinds[k.src.id()] = k
	}
}

// recording returns the handler of changes of an object, which first records it if its kind is recorded.
func recording[T metav1.Object](w *watcher, src source, set func(string, T), gone func(string)) (func(string, T), func(string)) {
	k, ok := w.kinds[src.id()]
	if !ok {
		return set, gone
	}
	version := src.client.APIVersion().String()
	return func(key string, x T) {
			w.recorder.Set(version, k.kind, key, x)
			set(key, x)
		}, func(key string) {
			w.recorder.Delete(k.kind, key)
			gone(key)
		}
}

// Follow passes all objects and every change to a Recorder, until the context ends. synced is closed after all initial
// objects were passed. Its only requests are watches.
func (r *Recordable) Follow(ctx context.Context, to Recorder) (synced <-chan struct{}) {
	ctx = r.c.Logging(ctx)
	w := &watcher{c: r.c}
	var wg sync.WaitGroup
	for _, k := range r.kinds {
		k.follow(ctx, w, &wg, to)
	}
	out := make(chan struct{})
	go func() {
		if waitFor(ctx, &wg) {
			close(out)
		}
	}()
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// requestWatch keeps ProvisioningRequests translated: whenever one, or a PodTemplate of its namespace, changes.
type requestWatch struct {
	w *watcher

	mu       sync.Mutex
	requests map[string]*unstructured.Unstructured
}

// set adds or changes a ProvisioningRequest, after its gang was passed to its pods.
func (rw *requestWatch) set(key string, u *unstructured.Unstructured) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.requests[key] = u
	rw.w.c.Seen.Requests.Set(key, u)
	rw.tell(key, u)
}

func (rw *requestWatch) delete(key string) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	delete(rw.requests, key)
	rw.w.c.Seen.Requests.Delete(key)
	rw.w.emit(func(s *state.State) { s.DeleteRequest(key) })
}

// templateChanged translates the requests of a namespace again, of all if it is empty.
func (rw *requestWatch) templateChanged(namespace string) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	for key, u := range rw.requests {
		if namespace == "" || u.GetNamespace() == namespace {
			rw.tell(key, u)
		}
	}
}

// tell translates a request and tells of it. The caller holds mu.
func (rw *requestWatch) tell(key string, u *unstructured.Unstructured) {
	r := rw.w.t.ProvisioningRequest(u, func(name string) *corev1.PodTemplate { return rw.w.templates.get(u.GetNamespace(), name) })
	if r == nil {
		rw.w.emit(func(s *state.State) { s.DeleteRequest(key) })
		return
	}
	version := translate.ResourceVersion(u.GetResourceVersion())
	rw.w.emit(func(s *state.State) { s.SetRequest(r, version) })
}

// templateWatch keeps PodTemplates, which CapacityBuffers and ProvisioningRequests refer to.
type templateWatch struct {
	mu        sync.Mutex
	templates map[string]*corev1.PodTemplate
	changed   []func(namespace string)
}

func (tw *templateWatch) get(namespace, name string) *corev1.PodTemplate {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	return tw.templates[namespace+"/"+name]
}

func (tw *templateWatch) set(key string, t *corev1.PodTemplate) {
	tw.mu.Lock()
	if tw.templates[key] = t; t == nil {
		delete(tw.templates, key)
	}
	tw.mu.Unlock()
	for _, f := range tw.changed {
		f(translate.NamespaceOf(key))
	}
}

// followTemplates watches PodTemplates. Whoever is to hear of changes has been added before.
func (w *watcher) followTemplates(ctx context.Context, wg *sync.WaitGroup) {
	follow(ctx, w, wg, source{w.c.Core, "podtemplates", &corev1.PodTemplate{}}, &sync.Mutex{},
		func(k string, t *corev1.PodTemplate) { w.templates.set(k, t) },
		func(k string) { w.templates.set(k, nil) })
}

// servedVersion returns the version of a kind of gangs that the API server has; empty: none.
func servedVersion(ctx context.Context, c *client.Client, k *translate.GangKind) (v schema.GroupVersion, err error) {
	for _, v := range k.Versions() {
		if served, err := c.Serves(ctx, v, k.Resource); err != nil || served {
			return v, err
		}
	}
	return schema.GroupVersion{}, nil
}

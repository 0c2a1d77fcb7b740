// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// servedGangs returns the kinds of objects that declare gangs and that the API server has. The others are left out silently: few clusters
// have any.
func (w *watcher) servedGangs(ctx context.Context) (out []followClass, err error) {
	for _, k := range translate.GangKinds() {
		version, err := servedVersion(ctx, w.c, k)
		if err != nil {
			return nil, err
		}
		if version.Empty() {
			continue
		}
		w.c.Seen.GangKinds.Set(k.Version.Group, k)
		from, err := w.c.Gangs(version)
		if err != nil {
			return nil, err
		}
		set := func(key string, u *unstructured.Unstructured) { w.setGang(k.Gang(key), k.Read(u)) }
		remove := func(key string) { w.deleteGang(k.Gang(key)) }
		if k == translate.ProvisioningRequests() {
			w.requests = &requestWatch{w: w, requests: map[string]*unstructured.Unstructured{}}
			w.c.Requests = from
			w.templates.changed = append(w.templates.changed, w.requests.templateChanged)
			set = func(key string, u *unstructured.Unstructured) {
				w.setGang(k.Gang(key), k.Read(u))
				w.requests.set(key, u)
			}
			remove = func(key string) {
				w.requests.delete(key)
				w.deleteGang(k.Gang(key))
			}
		}
		out = append(out, func(ctx context.Context, wg *sync.WaitGroup) {
			follow(ctx, w, wg, source{from, k.Resource, &unstructured.Unstructured{}}, &sync.Mutex{}, set, remove)
		})
	}
	return out, nil
}

// setGang keeps what an object says about a gang, and translates its pods again if it says something else than before.
func (w *watcher) setGang(gang string, o translate.GangObject) {
	if was, ok := w.c.Seen.Gangs.Get(gang); ok && *was == o {
		return // only its status has changed
	}
	w.c.Seen.Gangs.Set(gang, &o)
	w.gangChanged(gang)
}

func (w *watcher) deleteGang(gang string) {
	w.c.Seen.Gangs.Delete(gang)
	w.gangChanged(gang)
}

func (w *watcher) gangChanged(gang string) {
	w.podMu.Lock()
	defer w.podMu.Unlock()
	for _, p := range w.gangPods[gang] {
		w.setPod(p)
	}
}

// rememberGang and forgetGang keep which pods name the object of which gang. The caller holds podMu.
func (w *watcher) rememberGang(key string, p *corev1.Pod) {
	w.forgetGang(key)
	gang := translate.GangNamed(p)
	if gang == "" {
		return
	}
	if w.gangPods[gang] == nil {
		w.gangPods[gang] = map[string]*corev1.Pod{}
	}
	w.gangPods[gang][key], w.gangOfPod[key] = p, gang
}

func (w *watcher) forgetGang(key string) {
	gang, ok := w.gangOfPod[key]
	if !ok {
		return
	}
	delete(w.gangOfPod, key)
	delete(w.gangPods[gang], key)
	if len(w.gangPods[gang]) == 0 {
		delete(w.gangPods, gang)
	}
}

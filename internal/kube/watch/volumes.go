// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// followVolumes watches what volumes are looked up in, and has the pods and nodes that depend on a change translated again.
func (w *watcher) followVolumes(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, w, wg, source{c.Core, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}}, &sync.Mutex{},
		func(k string, x *corev1.PersistentVolumeClaim) {
			class := c.Seen.Volumes.SetClaim(k, x)
			w.claimChanged(k)
			w.storageChanged(class)
		},
		func(k string) { class := c.Seen.Volumes.SetClaim(k, nil); w.claimChanged(k); w.storageChanged(class) })
	follow(ctx, w, wg, source{c.Core, "persistentvolumes", &corev1.PersistentVolume{}}, &sync.Mutex{},
		func(k string, x *corev1.PersistentVolume) {
			class := c.Seen.Volumes.SetVolume(k, x)
			if r := x.Spec.ClaimRef; r != nil {
				w.claimChanged(r.Namespace + "/" + r.Name)
			}
			w.storageChanged(class)
		},
		func(k string) {
			old := c.Seen.Volumes.Volume(k)
			class := c.Seen.Volumes.SetVolume(k, nil)
			if old != nil && old.Spec.ClaimRef != nil {
				w.claimChanged(old.Spec.ClaimRef.Namespace + "/" + old.Spec.ClaimRef.Name)
			}
			w.storageChanged(class)
		})
	follow(ctx, w, wg, source{c.Storage, "storageclasses", &storagev1.StorageClass{}}, &sync.Mutex{},
		func(k string, x *storagev1.StorageClass) { c.Seen.Volumes.SetClass(k, x); w.classChanged() },
		func(k string) { c.Seen.Volumes.SetClass(k, nil); w.classChanged() })
	follow(ctx, w, wg, source{c.Storage, "csidrivers", &storagev1.CSIDriver{}}, &sync.Mutex{},
		func(k string, x *storagev1.CSIDriver) { c.Seen.Volumes.SetDriver(k, x); w.claimChanged("") },
		func(k string) { c.Seen.Volumes.SetDriver(k, nil); w.claimChanged("") })
	follow(ctx, w, wg, source{c.Storage, "csistoragecapacities", &storagev1.CSIStorageCapacity{}}, &sync.Mutex{},
		func(k string, x *storagev1.CSIStorageCapacity) {
			w.storageChanged(c.Seen.Volumes.SetCapacity(k, x))
		},
		func(k string) { w.storageChanged(c.Seen.Volumes.SetCapacity(k, nil)) })
	follow(ctx, w, wg, source{c.Storage, "csinodes", &storagev1.CSINode{}}, &sync.Mutex{},
		func(k string, x *storagev1.CSINode) { c.Seen.CSINodes.Set(k, x); w.csiNodeChanged(k) },
		func(k string) { c.Seen.CSINodes.Delete(k); w.csiNodeChanged(k) })
}

// followAttachments watches which volumes are attached to which node. They are translated by the PersistentVolume known at the time: it
// is bound before it is attached.
func (w *watcher) followAttachments(ctx context.Context, wg *sync.WaitGroup) {
	follow(ctx, w, wg, source{w.c.Storage, "volumeattachments", &storagev1.VolumeAttachment{}}, &sync.Mutex{},
		func(_ string, x *storagev1.VolumeAttachment) {
			a, node := w.t.VolumeAttachment(x)
			w.emit(func(s *state.State) { s.SetAttachment(a, node) })
		},
		func(k string) { w.emit(func(s *state.State) { s.DeleteAttachment(k) }) })
}

// rememberVolumes and forgetVolumes keep which pods use which claim. The caller holds podMu.
func (w *watcher) rememberVolumes(key string, p *corev1.Pod) {
	w.volumePods[key] = p
	for i := range p.Spec.Volumes {
		if name := volume.ClaimName(p, &p.Spec.Volumes[i]); name != "" {
			claim := p.Namespace + "/" + name
			if w.claimUsers[claim] == nil {
				w.claimUsers[claim] = map[string]struct{}{}
			}
			w.claimUsers[claim][key] = struct{}{}
		}
	}
}

func (w *watcher) forgetVolumes(key string) {
	p := w.volumePods[key]
	if p == nil {
		return
	}
	delete(w.volumePods, key)
	for i := range p.Spec.Volumes {
		if name := volume.ClaimName(p, &p.Spec.Volumes[i]); name != "" {
			claim := p.Namespace + "/" + name
			delete(w.claimUsers[claim], key)
			if len(w.claimUsers[claim]) == 0 {
				delete(w.claimUsers, claim)
			}
		}
	}
}

// claimChanged translates again the pods that use a claim, all pods with claims where claim is empty.
func (w *watcher) claimChanged(claim string) {
	w.podMu.Lock()
	defer w.podMu.Unlock()
	if claim == "" {
		for _, p := range w.volumePods {
			w.setPod(p)
		}
		return
	}
	for key := range w.claimUsers[claim] {
		w.setPod(w.volumePods[key])
	}
}

// classChanged translates again what depends on a StorageClass: pods with claims, and pods created from templates, which
// may have ephemeral volumes.
func (w *watcher) classChanged() {
	w.claimChanged("")
	w.defaultsChanged("")
}

// storageChanged translates again the pending pods with a claim of a StorageClass, where another volume can now be bound
// or made, or none any more.
func (w *watcher) storageChanged(class string) {
	if class == "" {
		return
	}
	w.podMu.Lock()
	defer w.podMu.Unlock()
	for _, p := range w.volumePods {
		if p.Spec.NodeName == "" && volume.Awaits(p, class, w.c.Seen.Volumes) {
			w.setPod(p)
		}
	}
}

func (w *watcher) csiNodeChanged(name string) {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	if n, ok := w.c.Seen.Nodes.Get(name); ok {
		w.setNode(n)
	}
}

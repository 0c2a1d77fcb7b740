// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// claimOf names the PersistentVolumeClaim behind a volume, empty where there is none. A generic ephemeral volume has one named
// after the pod.
func claimOf(p *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

func looksUpVolumes(p *corev1.Pod) bool {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// podVolumes fills in Volumes: where a pod's volumes are or may be made, and what they count for.
//
//   - A bound claim's PersistentVolume says on which nodes it can be used.
//   - A claim not bound yet whose StorageClass waits for the first consumer may be made where allowedTopologies say.
//   - A claim not bound yet that is not waiting for a pod, or that isn't there, can't be used by any node: the pod waits for it, and
//     buying a machine would not help.
func (t *Translator) podVolumes(c *model.Class, p *corev1.Pod) {
	if !looksUpVolumes(p) {
		return
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		name := claimOf(p, v)
		if name == "" {
			continue
		}
		out := model.Volume{Claim: p.Namespace + "/" + name}
		refuse := func(why string) { c.Unsolved = append(c.Unsolved, "persistentVolumeClaim "+out.Claim+": "+why) }
		var pvc *corev1.PersistentVolumeClaim
		if t.Lookup != nil {
			pvc = t.Lookup.PersistentVolumeClaim(p.Namespace, name)
		}
		class := ""
		switch {
		case pvc != nil && pvc.Spec.VolumeName != "":
			out.Exclusive, out.OneNode = accessOf(pvc.Spec.AccessModes)
			pv := t.Lookup.PersistentVolume(pvc.Spec.VolumeName)
			if pv == nil {
				refuse("its volume " + pvc.Spec.VolumeName + " is not there")
				break
			}
			if pvc.Status.Phase == corev1.ClaimLost {
				refuse("it has lost its volume " + pvc.Spec.VolumeName)
				break
			}
			out.Handle = pv.Name
			if pv.Spec.CSI != nil {
				out.Driver, out.Handle = pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle
			}
			out.Topology = volumeAffinity(pv)
		case pvc != nil:
			out.Exclusive, out.OneNode = accessOf(pvc.Spec.AccessModes)
			out.Handle = "claim/" + out.Claim
			if pvc.Spec.StorageClassName != nil {
				class = *pvc.Spec.StorageClassName
			}
			t.unboundVolume(&out, class, refuse)
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			// Its claim is made when the pod is; it may not have been seen yet.
			spec := &v.Ephemeral.VolumeClaimTemplate.Spec
			out.Exclusive, out.OneNode = accessOf(spec.AccessModes)
			out.Handle = "claim/" + out.Claim
			if spec.StorageClassName != nil {
				class = *spec.StorageClassName
			}
			t.unboundVolume(&out, class, refuse)
		default:
			refuse("it is not there")
		}
		c.Volumes = append(c.Volumes, out)
	}
	slices.SortFunc(c.Volumes, func(a, b model.Volume) int { return strings.Compare(a.Claim, b.Claim) })
}

// accessOf says whether a volume is for one pod, and whether it is for one node, at a time.
func accessOf(modes []corev1.PersistentVolumeAccessMode) (pod, node bool) {
	return slices.Contains(modes, corev1.ReadWriteOncePod),
		slices.Contains(modes, corev1.ReadWriteOnce) && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}

// unboundVolume is a claim that waits for its first consumer.
func (t *Translator) unboundVolume(out *model.Volume, class string, refuse func(string)) {
	var sc *storagev1.StorageClass
	if t.Lookup != nil {
		sc = t.Lookup.StorageClass(class)
	}
	switch {
	case class == "" && sc == nil:
		refuse("it is not bound and names no storageClass")
	case sc == nil:
		refuse("its storageClass " + class + " is not there")
	case sc.VolumeBindingMode == nil || *sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		refuse("it is not bound, and storageClass " + class + " binds without waiting for a pod")
	default:
		out.Unmade = true
		if sc.Provisioner != "kubernetes.io/no-provisioner" {
			out.Driver = sc.Provisioner
		}
		for i := range sc.AllowedTopologies {
			var rs model.Requirements
			for _, e := range sc.AllowedTopologies[i].MatchLabelExpressions {
				if len(e.Values) > 0 {
					rs = rs.With(model.OneOf(label(e.Key), e.Values...))
				}
			}
			if len(rs) > 0 {
				out.Topology = append(out.Topology, rs)
			}
		}
	}
}

// volumeAffinity are the alternatives of a volume's node affinity. A term that can't be read matches no node.
func volumeAffinity(pv *corev1.PersistentVolume) []model.Requirements {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	out := []model.Requirements{}
	for i := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		term, ok, err := nodeTerm(&pv.Spec.NodeAffinity.Required.NodeSelectorTerms[i], nil, false)
		if err != nil || !ok {
			continue
		}
		if term.Names != nil {
			// By name: as good as the label that every node bears with its name.
			r := *term.Names
			r.Key = corev1.LabelHostname
			term.Requirements = term.Requirements.With(r)
		}
		out = append(out, term.Requirements)
	}
	if len(out) == 0 {
		r := *never()
		r.Key = corev1.LabelHostname
		out = append(out, model.Requirements{r})
	}
	return out
}

// followVolumes watches what volumes are looked up in, and has the pods and nodes that depend on a change translated again.
func (w *watcher) followVolumes(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, c, wg, source{c.core, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}}, &sync.Mutex{},
		func(k string, x *corev1.PersistentVolumeClaim) { trim(x); c.claimsOfPods.set(k, x); w.claimChanged(k) },
		func(k string) { c.claimsOfPods.delete(k); w.claimChanged(k) })
	follow(ctx, c, wg, source{c.core, "persistentvolumes", &corev1.PersistentVolume{}}, &sync.Mutex{},
		func(k string, x *corev1.PersistentVolume) {
			trim(x)
			c.volumes.set(k, x)
			if r := x.Spec.ClaimRef; r != nil {
				w.claimChanged(r.Namespace + "/" + r.Name)
			}
		},
		func(k string) { c.volumes.delete(k) })
	follow(ctx, c, wg, source{c.storage, "storageclasses", &storagev1.StorageClass{}}, &sync.Mutex{},
		func(k string, x *storagev1.StorageClass) { trim(x); c.storageClasses.set(k, x); w.claimChanged("") },
		func(k string) { c.storageClasses.delete(k); w.claimChanged("") })
	follow(ctx, c, wg, source{c.storage, "csinodes", &storagev1.CSINode{}}, &sync.Mutex{},
		func(k string, x *storagev1.CSINode) { trim(x); c.csiNodes.set(k, x); w.csiNodeChanged(k) },
		func(k string) { c.csiNodes.delete(k); w.csiNodeChanged(k) })
}

// followAttachments watches which volumes are attached to which node. They are translated by the PersistentVolume known at the time: it
// is bound before it is attached.
func (w *watcher) followAttachments(ctx context.Context, wg *sync.WaitGroup) {
	follow(ctx, w.c, wg, source{w.c.storage, "volumeattachments", &storagev1.VolumeAttachment{}}, &sync.Mutex{},
		func(_ string, x *storagev1.VolumeAttachment) {
			a, node := w.t.VolumeAttachment(x)
			w.emit(func(s *state.State) { s.SetAttachment(a, node) })
		},
		func(k string) { w.emit(func(s *state.State) { s.DeleteAttachment(k) }) })
}

// VolumeAttachment translates a volume attached to a node, and names that node.
func (t *Translator) VolumeAttachment(x *storagev1.VolumeAttachment) (model.Attachment, string) {
	out := model.Attachment{Name: x.Name}
	if name := x.Spec.Source.PersistentVolumeName; name != nil && t.Lookup != nil {
		if pv := t.Lookup.PersistentVolume(*name); pv != nil && pv.Spec.ClaimRef != nil {
			out.Claim = pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name
		}
	}
	return out, x.Spec.NodeName
}

// rememberVolumes and forgetVolumes keep which pods use which claim. The caller holds podMu.
func (w *watcher) rememberVolumes(key string, p *corev1.Pod) {
	w.volumePods[key] = p
	for i := range p.Spec.Volumes {
		if name := claimOf(p, &p.Spec.Volumes[i]); name != "" {
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
		if name := claimOf(p, &p.Spec.Volumes[i]); name != "" {
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

func (w *watcher) csiNodeChanged(name string) {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	if n, ok := w.c.nodes.get(name); ok {
		w.setNode(n)
	}
}

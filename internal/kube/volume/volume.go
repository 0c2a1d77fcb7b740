// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package volume contains all rules about volumes: the state of a pod's PersistentVolumeClaims, the nodes on which
// kube-scheduler would allow them, and the attach limits that apply.
//
// It converts API objects to model.Volumes, and makes no requests. Its terms and rules are those of kube-scheduler's
// plugins VolumeBinding, VolumeZone, NodeVolumeLimits and VolumeRestrictions. Start reading at OfPod.
package volume

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagevolume "k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// translator turns in-tree volumes into those of the CSI drivers that have replaced the in-tree plugins.
var translator = csitranslation.New()

// ClaimName returns the name of the PersistentVolumeClaim of a pod's volume; empty: none.
func ClaimName(p *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v)
	}
	return ""
}

// OfPod returns the volumes of a pod that affect its node, sorted by claim. A pod without a name stands for all pods of
// a template: each of them has its own ephemeral volumes.
func OfPod(p *corev1.Pod, ix *Index) []model.Volume {
	var out []model.Volume
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if p.Name == "" && v.Ephemeral != nil {
			if of, ok := ofTemplate(p, v, ix); ok {
				out = append(out, of)
			}
		} else if name := ClaimName(p, v); name != "" {
			out = append(out, ofClaim(p, v, name, ix))
		} else if inline, ok := inlineVolume(v, p.Namespace); ok {
			out = append(out, inline)
		}
	}
	for i := range out {
		out[i].Registers = out[i].Problem.Kind == "" && ix.requiresRegistration(&out[i])
	}
	slices.SortFunc(out, func(a, b model.Volume) int {
		return cmp.Or(strings.Compare(a.Claim, b.Claim), strings.Compare(a.Driver, b.Driver), strings.Compare(a.Handle, b.Handle))
	})
	return slices.CompactFunc(out, func(a, b model.Volume) bool {
		return a.Claim == b.Claim && a.Driver == b.Driver && a.Handle == b.Handle
	})
}

// inlineVolume returns a volume that the pod itself names, where a CSI driver has replaced its plugin: it counts for the
// driver's limit, and kube-scheduler asks nothing else of it.
func inlineVolume(v *corev1.Volume, namespace string) (out model.Volume, ok bool) {
	if !translator.IsInlineMigratable(v) {
		return out, false
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(nil, v)
	if err != nil {
		return out, false
	}
	if v.VsphereVolume != nil && v.VsphereVolume.StoragePolicyName != "" {
		v = v.DeepCopy() // the library ends the process where a volume has a policy, which is no part of its handle
		v.VsphereVolume.StoragePolicyName = ""
	}
	pv, err := translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), v, namespace)
	if err != nil || pv == nil || pv.Spec.CSI == nil {
		return out, false
	}
	return model.Volume{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle, InTree: plugin}, true
}

// ofClaim returns the volume behind a claim, in whichever state that is.
func ofClaim(p *corev1.Pod, v *corev1.Volume, name string, ix *Index) model.Volume {
	out := model.Volume{Claim: p.Namespace + "/" + name}
	problem := func(kind model.VolumeProblemKind, object, words string, args ...any) model.Volume {
		out.Problem = model.VolumeProblem{Kind: kind, Object: object, Words: fmt.Sprintf(words, args...)}
		return out
	}
	claim := ix.Claim(out.Claim)
	if claim == nil && v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim = claimOfTemplate(p, name, v.Ephemeral.VolumeClaimTemplate) // it is made once the pod is there
	}
	if claim == nil {
		return problem(model.ClaimMissing, "", "persistentvolumeclaim %q not found", name)
	}
	out.Exclusive, out.OneNode = accessOf(claim.Spec.AccessModes)
	out.Exclusive = out.Exclusive && v.Ephemeral == nil // nobody else uses that of an ephemeral volume
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return problem(model.ClaimLost, volumeObject(claim.Spec.VolumeName), "persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return problem(model.ClaimDeleting, "", "persistentvolumeclaim %q is being deleted", name)
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(p, claim); err != nil {
			return problem(model.ClaimNotOwned, "", "%s", err)
		}
	}
	if isBound(claim) {
		pv := ix.Volume(claim.Spec.VolumeName)
		if pv == nil {
			return problem(model.VolumeMissing, volumeObject(claim.Spec.VolumeName), "persistentvolume %q not found", claim.Spec.VolumeName)
		}
		boundTo(&out, pv, v.Ephemeral == nil)
		if pv.DeletionTimestamp != nil && ix.attaches(out.Driver) {
			out.Problem = model.VolumeProblem{Kind: model.VolumeDeleting, Object: volumeObject(pv.Name)}
		}
		return out
	}
	class := storagevolume.GetPersistentVolumeClaimClass(claim)
	sc := ix.Class(class)
	const unbound = "pod has unbound immediate PersistentVolumeClaims"
	switch {
	case claim.Spec.VolumeName != "":
		return problem(model.ClaimPrebound, volumeObject(claim.Spec.VolumeName), unbound)
	case class == "":
		return problem(model.ClaimNoClass, "", unbound)
	case sc == nil:
		return problem(model.ClassMissing, "storageclass/"+class, unbound)
	case sc.VolumeBindingMode == nil || *sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return problem(model.ClaimUnbound, "storageclass/"+class, unbound)
	}
	awaiting(&out, claim, sc, ix)
	return out
}

func volumeObject(name string) string { return "persistentvolume/" + name }

// isBound reports whether claim and volume have found each other, as kube-scheduler sees it.
func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, storagevolume.AnnBindCompleted)
}

// claimOfTemplate returns the claim that the controller of ephemeral volumes will make for a pod.
func claimOfTemplate(p *corev1.Pod, name string, t *corev1.PersistentVolumeClaimTemplate) *corev1.PersistentVolumeClaim {
	yes := true
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.Namespace, Labels: t.Labels, Annotations: t.Annotations, CreationTimestamp: p.CreationTimestamp,
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes}},
		},
		Spec: t.Spec,
	}
}

// ofTemplate returns where the ephemeral volumes of the pods of a template can be made; false if that may be anywhere. Nothing is shared
// between the pods, and what they attach is not counted.
func ofTemplate(p *corev1.Pod, v *corev1.Volume, ix *Index) (out model.Volume, ok bool) {
	if v.Ephemeral.VolumeClaimTemplate == nil {
		return out, false
	}
	sc := ix.Class(storagevolume.GetPersistentVolumeClaimClass(claimOfTemplate(p, v.Name, v.Ephemeral.VolumeClaimTemplate)))
	if sc == nil {
		return out, false
	}
	there := placesOfClass(sc.AllowedTopologies)
	if there.anywhere() {
		return out, false
	}
	toCome := there.common()
	out.Claim, out.Topology = p.Namespace+"/"+v.Name, toCome.list()
	if !there.equal(toCome) {
		out.Standing = there.list()
	}
	return out, true
}

// accessOf reports whether a volume is for one pod, and whether it is for one node, at a time.
func accessOf(modes []corev1.PersistentVolumeAccessMode) (pod, node bool) {
	return slices.Contains(modes, corev1.ReadWriteOncePod),
		slices.Contains(modes, corev1.ReadWriteOnce) && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}

// boundTo fills in what a PersistentVolume says: which driver attaches it, and where. kube-scheduler looks at the zone
// labels of volumes whose claim the pod names, not at those of ephemeral ones.
func boundTo(out *model.Volume, pv *corev1.PersistentVolume, hasZoneLabels bool) {
	out.Handle = pv.Name
	csi := pv
	if pv.Spec.CSI == nil && translator.IsPVMigratable(pv) {
		if plugin, err := translator.GetInTreePluginNameFromSpec(pv, nil); err == nil {
			if t, err := translator.TranslateInTreePVToCSI(klog.Background(), pv); err == nil && t.Spec.CSI != nil {
				csi, out.InTree = t, plugin
			}
		}
	}
	if csi.Spec.CSI != nil {
		out.Driver, out.Handle = csi.Spec.CSI.Driver, csi.Spec.CSI.VolumeHandle
	}
	// On nodes whose kubelet leaves the volume to the CSI driver, as new nodes do, the driver's own label counts, on others that of Kubernetes.
	there, migrated := placesOfVolume(pv), placesOfVolume(csi)
	toCome := migrated.common()
	if csi != pv {
		toCome = toCome.and(there.common())
	}
	if zones := zoneLabels(pv); hasZoneLabels && len(zones) > 0 {
		toCome = toCome.and(places{zones})
		either := places{zones}.or(withoutZones())
		there, migrated = there.and(either), migrated.and(either)
	}
	if !toCome.anywhere() {
		out.Topology = toCome.list()
	}
	if !there.equal(toCome) {
		out.Standing = there.list()
	}
	if !migrated.equal(there) {
		out.Migrated = migrated.list()
	}
}

// awaiting fills in where the volume of a claim that waits for its first pod may come to be: where a volume is that can
// be bound to it, or where one can be made.
func awaiting(out *model.Volume, claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, ix *Index) {
	out.Unmade, out.Handle, out.Driver = true, "claim/"+out.Claim, sc.Provisioner
	if translator.IsMigratableIntreePluginByName(sc.Provisioner) {
		if driver, err := translator.GetCSINameFromInTreeName(sc.Provisioner); err == nil {
			out.Driver, out.InTree = driver, sc.Provisioner
		}
	}
	there, toCome := places{}, places{}
	selected := claim.Annotations[storagevolume.AnnSelectedNode]
	if selected == "" {
		found := ix.choiceOf(claim)
		there, toCome, out.Kept = found.places, found.places.common(), found.kept
	}
	canMake := sc.Provisioner != "" && sc.Provisioner != storagevolume.NotSupportedProvisioner
	if canMake {
		at := placesOfClass(sc.AllowedTopologies)
		free, maybe := storageFor(claim, sc, ix)
		there = there.or(at.and(free))
		toCome = toCome.or(at.common().and(free.common().or(maybe)))
		if !free.anywhere() {
			out.Reported = sc.Name
		}
	}
	if selected != "" { // kube-scheduler has chosen the node, and the volume is being made for it
		there = there.and(places{{model.OneOf(corev1.LabelHostname, selected)}})
		toCome = there.common()
	}
	if there.nowhere() && toCome.nowhere() {
		switch {
		case canMake:
			out.Problem = model.VolumeProblem{Kind: model.StorageTooSmall, Object: "storageclass/" + sc.Name, Words: "node(s) did not have enough free storage"}
		case out.Kept != "":
			out.Problem = model.VolumeProblem{Kind: model.VolumeKept, Object: volumeObject(out.Kept)}
		default:
			out.Problem = model.VolumeProblem{Kind: model.VolumeNotFound, Object: "storageclass/" + sc.Name, Words: "node(s) didn't find available persistent volumes to bind"}
		}
		return
	}
	if !toCome.anywhere() {
		out.Topology = toCome.list()
	}
	if !there.equal(toCome) {
		out.Standing = there.list()
	}
}

// Awaits reports whether a pod has a claim with a StorageClass that waits for its first consumer.
func Awaits(p *corev1.Pod, class string, ix *Index) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		name := ClaimName(p, v)
		if name == "" {
			continue
		}
		claim := ix.Claim(p.Namespace + "/" + name)
		if claim == nil && v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			claim = claimOfTemplate(p, name, v.Ephemeral.VolumeClaimTemplate)
		}
		if claim != nil && !isBound(claim) && storagevolume.GetPersistentVolumeClaimClass(claim) == class {
			return true
		}
	}
	return false
}

// Attached translates a VolumeAttachment. As in kube-scheduler, it counts toward a limit if its volume is a CSI volume.
func Attached(x *storagev1.VolumeAttachment, ix *Index) model.Attachment {
	out := model.Attachment{Name: x.Name}
	if x.Spec.Source.PersistentVolumeName == nil {
		return out
	}
	pv := ix.Volume(*x.Spec.Source.PersistentVolumeName)
	if pv == nil {
		return out
	}
	if r := pv.Spec.ClaimRef; r != nil {
		out.Claim = r.Namespace + "/" + r.Name
	}
	if pv.Spec.CSI != nil {
		out.Driver, out.Handle = x.Spec.Attacher, pv.Spec.CSI.VolumeHandle
	}
	return out
}

// LooksUp reports whether other objects affect where a volume of a pod can be used.
func LooksUp(p *corev1.Pod, v *corev1.Volume) bool {
	return ClaimName(p, v) != "" || translator.IsInlineMigratable(v)
}

// OfNode returns the CSI drivers registered on a node (sorted, never nil), the attach limit of each, and the in-tree
// plugins whose volumes the kubelet migrates to CSI drivers.
func OfNode(n *storagev1.CSINode) (drivers []string, limits map[string]int64, migrated []string) {
	drivers = []string{}
	for i := range n.Spec.Drivers {
		drivers = append(drivers, n.Spec.Drivers[i].Name)
		if a := n.Spec.Drivers[i].Allocatable; a != nil && a.Count != nil {
			if limits == nil {
				limits = map[string]int64{}
			}
			limits[n.Spec.Drivers[i].Name] = int64(*a.Count)
		}
	}
	for plugin := range strings.SplitSeq(n.Annotations[corev1.MigratedPluginsAnnotationKey], ",") {
		if plugin != "" {
			migrated = append(migrated, plugin)
		}
	}
	slices.Sort(drivers)
	slices.Sort(migrated)
	return drivers, limits, migrated
}

// Settle applies the PersistentVolume controller to claims and volumes that no cluster has seen: it binds a claim to the
// volume that it names, if it exists and is free, and makes unclaimed volumes available.
func (ix *Index) Settle() {
	for _, pv := range sortedValues(ix, ix.volumes) {
		if pv.Status.Phase == "" && pv.Spec.ClaimRef == nil {
			pv = pv.DeepCopy()
			pv.Status.Phase = corev1.VolumeAvailable
			ix.SetVolume(pv.Name, pv)
		}
	}
	for _, c := range ix.Claims() {
		pv := ix.Volume(c.Spec.VolumeName)
		if c.Spec.VolumeName == "" || isBound(c) || pv == nil || pv.Spec.ClaimRef != nil && !storagevolume.IsVolumeBoundToClaim(pv, c) {
			continue
		}
		bound := c.DeepCopy()
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, storagevolume.AnnBindCompleted, "yes")
		ix.SetClaim(c.Namespace+"/"+c.Name, bound)
	}
}

// DefaultCSINode marks the migrated in-tree plugins of the drivers on a CSINode that was not written by a kubelet.
func DefaultCSINode(n *storagev1.CSINode) {
	if _, ok := n.Annotations[corev1.MigratedPluginsAnnotationKey]; ok {
		return
	}
	var plugins []string
	for i := range n.Spec.Drivers {
		if plugin, err := translator.GetInTreeNameFromCSIName(n.Spec.Drivers[i].Name); err == nil {
			plugins = append(plugins, plugin)
		}
	}
	if len(plugins) > 0 {
		slices.Sort(plugins)
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, corev1.MigratedPluginsAnnotationKey, strings.Join(plugins, ","))
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package volume

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagevolume "k8s.io/component-helpers/storage/volume"
)

// Index holds the objects that say what volumes there are, and finds them by name and by StorageClass. It may be used
// by several goroutines. The zero value is empty. Objects in it are never changed.
type Index struct {
	mu         sync.Mutex
	claims     map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes    map[string]*corev1.PersistentVolume      // by name
	classes    map[string]*storagev1.StorageClass
	drivers    map[string]*storagev1.CSIDriver
	capacities map[string]*storagev1.CSIStorageCapacity // by namespace/name

	claimsOf, volumesOf, capacitiesOf byClass
	matches                           map[string]map[string]string // by class: the volume kept for a claim; missing: to be worked out
}

// byClass are the keys of objects of each StorageClass. A volume counts if it may still be bound to a claim, a claim if it
// waits for a pod.
type byClass map[string]map[string]bool

func (b byClass) set(class, key string, on bool) {
	switch {
	case on && b[class] == nil:
		b[class] = map[string]bool{key: true}
	case on:
		b[class][key] = true
	default:
		delete(b[class], key)
	}
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
		drivers: map[string]*storagev1.CSIDriver{}, capacities: map[string]*storagev1.CSIStorageCapacity{},
		claimsOf: byClass{}, volumesOf: byClass{}, capacitiesOf: byClass{}, matches: map[string]map[string]string{},
	}
}

// SetClaim adds or changes a claim, or forgets it where x is nil. It returns the StorageClass in which another claim
// may now find a volume that it did not find before, or no longer finds one; empty: none.
func (ix *Index) SetClaim(key string, x *corev1.PersistentVolumeClaim) (class string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if old := ix.claims[key]; old != nil && awaitsVolume(old) {
		class = ix.claimChanged(old, key, false)
	}
	if x == nil {
		delete(ix.claims, key)
		return class
	}
	ix.claims[key] = x
	if awaitsVolume(x) {
		class = cmp.Or(ix.claimChanged(x, key, true), class)
	}
	return class
}

func (ix *Index) claimChanged(x *corev1.PersistentVolumeClaim, key string, there bool) (class string) {
	class = storagevolume.GetPersistentVolumeClaimClass(x)
	ix.claimsOf.set(class, key, there)
	delete(ix.matches, class)
	if len(ix.volumesOf[class]) == 0 {
		return "" // nothing that claims could take from each other
	}
	return class
}

// SetVolume adds or changes a PersistentVolume, or forgets it where x is nil. It returns the StorageClass in which
// claims may now find another volume; empty: none.
func (ix *Index) SetVolume(name string, x *corev1.PersistentVolume) (class string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if old := ix.volumes[name]; old != nil && isToBeBound(old) {
		class = storagevolume.GetPersistentVolumeClass(old)
		ix.volumesOf.set(class, name, false)
		delete(ix.matches, class)
	}
	if x == nil {
		delete(ix.volumes, name)
		return class
	}
	ix.volumes[name] = x
	if isToBeBound(x) {
		class = storagevolume.GetPersistentVolumeClass(x)
		ix.volumesOf.set(class, name, true)
		delete(ix.matches, class)
	}
	return class
}

// SetClass adds or changes a StorageClass, or forgets it where x is nil.
func (ix *Index) SetClass(name string, x *storagev1.StorageClass) { setIn(ix, ix.classes, name, x) }

// SetDriver adds or changes a CSIDriver, or forgets it where x is nil.
func (ix *Index) SetDriver(name string, x *storagev1.CSIDriver) { setIn(ix, ix.drivers, name, x) }

func setIn[T any](ix *Index, m map[string]*T, key string, x *T) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if x == nil {
		delete(m, key)
		return
	}
	m[key] = x
}

// SetCapacity adds or changes a CSIStorageCapacity, or forgets it where x is nil. It returns the StorageClass that it
// is about.
func (ix *Index) SetCapacity(key string, x *storagev1.CSIStorageCapacity) (class string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if old := ix.capacities[key]; old != nil {
		class = old.StorageClassName
		ix.capacitiesOf.set(class, key, false)
	}
	if x == nil {
		delete(ix.capacities, key)
		return class
	}
	ix.capacities[key] = x
	ix.capacitiesOf.set(x.StorageClassName, key, true)
	return x.StorageClassName
}

// Claim returns a claim by namespace/name, nil if there is none.
func (ix *Index) Claim(key string) *corev1.PersistentVolumeClaim { return getFrom(ix, ix.claims, key) }

// Volume returns a PersistentVolume, nil if there is none.
func (ix *Index) Volume(name string) *corev1.PersistentVolume { return getFrom(ix, ix.volumes, name) }

// Class returns a StorageClass, nil if there is none.
func (ix *Index) Class(name string) *storagev1.StorageClass { return getFrom(ix, ix.classes, name) }

// Driver returns a CSIDriver, nil if there is none.
func (ix *Index) Driver(name string) *storagev1.CSIDriver { return getFrom(ix, ix.drivers, name) }

func getFrom[T any](ix *Index, m map[string]*T, key string) *T {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return m[key]
}

// Claims returns all claims by namespace/name.
func (ix *Index) Claims() []*corev1.PersistentVolumeClaim { return sortedValues(ix, ix.claims) }

// Classes returns all StorageClasses by name.
func (ix *Index) Classes() []*storagev1.StorageClass { return sortedValues(ix, ix.classes) }

func sortedValues[T any](ix *Index, m map[string]*T) []*T {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	out := make([]*T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

// Len returns how many objects there are.
func (ix *Index) Len() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return len(ix.claims) + len(ix.volumes) + len(ix.classes) + len(ix.drivers) + len(ix.capacities)
}

// capacitiesOfClass returns what a driver reports for a StorageClass, by namespace/name.
func (ix *Index) capacitiesOfClass(class string) []*storagev1.CSIStorageCapacity {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	out := make([]*storagev1.CSIStorageCapacity, 0, len(ix.capacitiesOf[class]))
	for _, k := range slices.Sorted(maps.Keys(ix.capacitiesOf[class])) {
		out = append(out, ix.capacities[k])
	}
	return out
}

// volumesFor returns the volumes that a claim which waits for a pod can be bound to. Where several claims want the
// same volumes, each volume is kept for one of them, the oldest claims first, so that no more pods are expected to find
// a volume than will.
func (ix *Index) volumesFor(claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolume {
	class, key := storagevolume.GetPersistentVolumeClaimClass(claim), claim.Namespace+"/"+claim.Name
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var out []*corev1.PersistentVolume
	for _, name := range slices.Sorted(maps.Keys(ix.volumesOf[class])) {
		if pv := ix.volumes[name]; canBind(claim, pv) {
			out = append(out, pv)
		}
	}
	rivals := len(ix.claimsOf[class])
	if !ix.claimsOf[class][key] {
		rivals++ // the claim of an ephemeral volume that is still to be made
	}
	if len(out) == 0 || rivals <= 1 || rivals > mostRivals || len(ix.volumesOf[class]) > mostRivals {
		return out
	}
	match, ok := ix.matches[class]
	if !ok {
		match = ix.matchClass(class)
		ix.matches[class] = match
	}
	if name, ok := match[key]; ok {
		return []*corev1.PersistentVolume{ix.volumes[name]}
	}
	taken := map[string]bool{}
	for _, name := range match {
		taken[name] = true
	}
	return slices.DeleteFunc(out, func(pv *corev1.PersistentVolume) bool { return taken[pv.Name] })
}

// mostRivals is how many claims, and how many volumes, of one StorageClass are divided among each other.
const mostRivals = 200

// matchClass keeps a volume for each claim of a class, as far as there are enough: a maximum matching in which the
// oldest claims come first. The caller holds mu.
func (ix *Index) matchClass(class string) map[string]string {
	claims := slices.SortedFunc(maps.Keys(ix.claimsOf[class]), func(a, b string) int {
		x, y := ix.claims[a].CreationTimestamp, ix.claims[b].CreationTimestamp
		return cmp.Or(x.Compare(y.Time), strings.Compare(a, b))
	})
	names := slices.SortedFunc(maps.Keys(ix.volumesOf[class]), func(a, b string) int { // the smallest first, as kube-scheduler takes them
		x, y := ix.volumes[a].Spec.Capacity[corev1.ResourceStorage], ix.volumes[b].Spec.Capacity[corev1.ResourceStorage]
		return cmp.Or(x.Cmp(y), strings.Compare(a, b))
	})
	holder := map[string]string{} // claim by volume
	var seen map[string]bool
	var find func(claim string) bool
	find = func(claim string) bool {
		for _, name := range names {
			if seen[name] || !canBind(ix.claims[claim], ix.volumes[name]) {
				continue
			}
			seen[name] = true
			if other, ok := holder[name]; !ok || find(other) {
				holder[name] = claim
				return true
			}
		}
		return false
	}
	for _, c := range claims {
		seen = map[string]bool{}
		find(c)
	}
	out := make(map[string]string, len(holder))
	for name, claim := range holder {
		out[claim] = name
	}
	return out
}

// awaitsVolume reports whether a claim is neither bound nor promised to a volume nor being provisioned.
func awaitsVolume(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Annotations[storagevolume.AnnSelectedNode] == ""
}

// isToBeBound reports whether a volume may still be bound to a claim.
func isToBeBound(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp == nil && pv.Status.Phase != corev1.VolumeBound && pv.Status.Phase != corev1.VolumeReleased && pv.Status.Phase != corev1.VolumeFailed
}

// canBind reports whether kube-scheduler would bind the claim to the volume, wherever that can be used.
func canBind(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	anywhere := *pv
	anywhere.Spec.NodeAffinity = nil
	found, err := storagevolume.FindMatchingVolume(claim, []*corev1.PersistentVolume{&anywhere}, &corev1.Node{}, nil, true, true)
	return err == nil && found != nil
}

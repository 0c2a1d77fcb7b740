// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package volume

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagevolume "k8s.io/component-helpers/storage/volume"
	"k8s.io/csi-translation-lib/plugins"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Index stores the objects that define volumes, and finds them by name and by StorageClass. It is safe for concurrent
// use. The zero value is empty. Stored objects are never changed.
type Index struct {
	mu         sync.Mutex
	claims     map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes    map[string]*corev1.PersistentVolume      // by name
	classes    map[string]*storagev1.StorageClass
	drivers    map[string]*storagev1.CSIDriver
	capacities map[string]*storagev1.CSIStorageCapacity // by namespace/name

	claimsOf, volumesOf, capacitiesOf byClass
	chosen                            map[string]map[string]choice // by class and claim; a class that is missing is still to be worked out
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
		claimsOf: byClass{}, volumesOf: byClass{}, capacitiesOf: byClass{}, chosen: map[string]map[string]choice{},
	}
}

// SetClaim adds, changes or (nil) removes a PersistentVolumeClaim. It returns the StorageClass in which other claims may
// now find a volume that they did not find before, or no longer find one; empty: none.
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
	delete(ix.chosen, class)
	if len(ix.volumesOf[class]) == 0 {
		return "" // nothing that claims could take from each other
	}
	return class
}

// SetVolume adds, changes or (nil) removes a PersistentVolume. It returns the StorageClass in which claims may now find
// another volume; empty: none.
func (ix *Index) SetVolume(name string, x *corev1.PersistentVolume) (class string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if old := ix.volumes[name]; old != nil && isToBeBound(old) {
		class = storagevolume.GetPersistentVolumeClass(old)
		ix.volumesOf.set(class, name, false)
		delete(ix.chosen, class)
	}
	if x == nil {
		delete(ix.volumes, name)
		return class
	}
	ix.volumes[name] = x
	if isToBeBound(x) {
		class = storagevolume.GetPersistentVolumeClass(x)
		ix.volumesOf.set(class, name, true)
		delete(ix.chosen, class)
	}
	return class
}

// SetClass adds, changes or (nil) removes a StorageClass.
func (ix *Index) SetClass(name string, x *storagev1.StorageClass) { setIn(ix, ix.classes, name, x) }

// SetDriver adds, changes or (nil) removes a CSIDriver.
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

// SetCapacity adds or updates a CSIStorageCapacity, or removes it if x is nil. It returns the name of its StorageClass.
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

// attaches reports whether volumes of a CSI driver are attached to a node before it can use them, as they are unless its CSIDriver
// says otherwise.
func (ix *Index) attaches(driver string) bool {
	d := ix.Driver(driver)
	return driver != "" && (d == nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired)
}

// requiresRegistration reports whether kube-scheduler lets pods that use a volume go only to nodes on which its driver is registered: its
// CSIDriver says so. Of in-tree volumes, kube-scheduler counts those of five plugins as their driver's.
func (ix *Index) requiresRegistration(v *model.Volume) bool {
	switch v.InTree {
	case "", plugins.AWSEBSInTreePluginName, plugins.PortworxVolumePluginName, plugins.GCEPDInTreePluginName, plugins.AzureDiskInTreePluginName, plugins.CinderInTreePluginName:
	default:
		return false
	}
	d := ix.Driver(v.Driver)
	return d != nil && d.Spec.PreventPodSchedulingIfMissing != nil && *d.Spec.PreventPodSchedulingIfMissing
}

func getFrom[T any](ix *Index, m map[string]*T, key string) *T {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return m[key]
}

// Claims returns all claims by namespace/name.
func (ix *Index) Claims() []*corev1.PersistentVolumeClaim { return sortedValues(ix, ix.claims) }

// Classes returns every StorageClass, by name.
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

// Len returns the number of objects.
func (ix *Index) Len() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return len(ix.claims) + len(ix.volumes) + len(ix.classes) + len(ix.drivers) + len(ix.capacities)
}

// capacitiesOfClass returns the CSIStorageCapacities of a StorageClass, by namespace/name.
func (ix *Index) capacitiesOfClass(class string) []*storagev1.CSIStorageCapacity {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	out := make([]*storagev1.CSIStorageCapacity, 0, len(ix.capacitiesOf[class]))
	for _, k := range slices.Sorted(maps.Keys(ix.capacitiesOf[class])) {
		out = append(out, ix.capacities[k])
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

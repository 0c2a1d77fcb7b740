// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// storageFor returns where the storage that a driver reports holds the volume of a claim, and where nodes to come may
// bring storage of their own: a driver reports for a node or a zone only once a node of it is there. Both allow any node
// where the driver does not have kube-scheduler look at what it reports.
func storageFor(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, ix *Index) (free, maybe places) {
	size, asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	driver := ix.Driver(sc.Provisioner)
	if !asks || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, nil
	}
	free = places{}
	var unknown model.Requirements // what labels of a node say that nothing is reported for it yet
	for _, c := range ix.capacitiesOfClass(sc.Name) {
		if c.NodeTopology == nil {
			continue // no node can use it
		}
		rs, ok := placesOfSelector(c.NodeTopology)
		if !ok {
			continue
		}
		limit := c.Capacity
		if c.MaximumVolumeSize != nil {
			limit = c.MaximumVolumeSize
		}
		if limit != nil && limit.Value() >= size.Value() {
			if len(rs) == 0 {
				return nil, nil // on any node
			}
			free = free.or(places{rs})
			continue
		}
		if len(rs) == 0 {
			return free, places{} // it is what every node has
		}
		if r, ok := otherThan(rs); ok {
			unknown = unknown.With(r)
		}
	}
	if len(unknown) == 0 {
		return free, nil
	}
	return free, places{unknown}.common()
}

// otherThan returns a requirement that nodes of another part of the topology meet: of several labels by the one that
// tells most. False: none is known.
func otherThan(rs model.Requirements) (model.Requirement, bool) {
	rank := func(r model.Requirement) int { // a label of single nodes tells more than the zone, that more than the region
		return slices.Index([]string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}, commonKey(r.Key))
	}
	best := rs[0]
	for _, r := range rs[1:] {
		if rank(r) < rank(best) {
			best = r
		}
	}
	if !best.ListsValues() {
		return best, false
	}
	best.Complement, best.AllowAbsent = true, true
	return best, true
}

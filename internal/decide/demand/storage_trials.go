// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// mostStorageTrials is how many nodes are in flight at a time for volumes of a StorageClass whose driver reports free storage
// on no node: whether it will on a new one, only a new one shows.
const mostStorageTrials = 2

// HoldBackStorage returns the pods of new nodes that wait until it is known whether the driver of their StorageClass reports free
// storage on other new nodes, including nodes with reservations; nil: none. Pods of a gang never wait, because a part of a gang
// cannot be tried.
func HoldBackStorage(nodes []solve.NewNode, reservations map[string]*cluster.Reservation) (held map[*model.Pod]plan.Reason) {
	var trials map[string]int // by StorageClass
	for i := range nodes {
		here := map[string]bool{}
		for _, p := range nodes[i].Pods {
			v := awaitedStorage(p.Class)
			if v == nil || p.IsVirtual() {
				continue
			}
			if trials == nil {
				trials = storageTrials(reservations)
			}
			if trials[v.Reported] < mostStorageTrials || p.IsPlacedTogether() {
				here[v.Reported] = true
				continue
			}
			if held == nil {
				held = map[*model.Pod]plan.Reason{}
			}
			held[p] = plan.Reason{Code: plan.VolumeStorage, Pool: nodes[i].Pool, Detail: plan.OfVolumeStorage{StorageClass: v.Reported, Claim: v.Claim, Tried: true}}
		}
		for class := range here {
			trials[class]++
		}
	}
	return held
}

// storageTrials counts the claims in flight that wait for pods with such volumes, by StorageClass.
func storageTrials(reservations map[string]*cluster.Reservation) map[string]int {
	out := map[string]int{}
	for _, r := range reservations {
		here := map[string]bool{}
		for _, p := range r.Pods {
			if v := awaitedStorage(p.Class); v != nil && p.Node == "" && !here[v.Reported] {
				here[v.Reported] = true
				out[v.Reported]++
			}
		}
	}
	return out
}

// awaitedStorage returns the first volume of a class that awaits storage, nil if there is none.
func awaitedStorage(c *model.Class) *model.Volume {
	i := slices.IndexFunc(c.Volumes, func(v model.Volume) bool { return v.AwaitsStorage() })
	if i < 0 {
		return nil
	}
	return &c.Volumes[i]
}

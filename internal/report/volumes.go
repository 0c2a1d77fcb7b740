// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// claimProblem says in which state a claim is that no node can use, and what kube-scheduler says of it.
func claimProblem(r plan.OfVolumeClaim) string {
	object := r.Object.Name()
	var state string
	switch r.Problem {
	case model.ClaimMissing:
		state = "does not exist"
	case model.ClaimDeleting:
		state = "is being deleted"
	case model.ClaimLost:
		state = "lost its PersistentVolume " + object
	case model.ClaimNotOwned:
		state = "was not created for this pod, whose ephemeral volume needs a claim of that name"
	case model.ClaimNoClass:
		state = "is not bound and has no StorageClass"
	case model.ClassMissing:
		state = "is not bound, and its StorageClass " + object + " does not exist"
	case model.ClaimUnbound:
		state = "is not bound, and StorageClass " + object + " creates volumes without waiting for a pod"
	case model.ClaimPrebound:
		state = "requests PersistentVolume " + object + " and is not bound to it"
	case model.VolumeMissing:
		state = "is bound to PersistentVolume " + object + ", which does not exist"
	case model.VolumeDeleting:
		state = "is bound to PersistentVolume " + object + ", which is being deleted: its driver attaches it to no other node"
	case model.VolumeNotFound:
		state = "needs an existing PersistentVolume of StorageClass " + object + "; none that fits is left"
	case model.VolumeKept:
		state = "is not bound, and PersistentVolume " + object + ", which it could use, may be bound to another PVC first"
	case model.StorageTooSmall:
		state = "needs more storage than the driver of StorageClass " + object + " reports"
	default:
		state = "can't be used"
	}
	return "PVC " + r.Claim + " " + state + with(" (kube-scheduler: ", string(r.Said), ")")
}

// storageShort says that the storage which a driver reports is too small wherever a node could be launched.
func storageShort(r plan.OfVolumeStorage) string {
	if r.Tried {
		return "PVC " + r.Claim + " needs storage that the driver of StorageClass " + r.StorageClass + " doesn't report on any node yet; two nodes are launched to check"
	}
	return "PVC " + r.Claim + " needs more storage than the driver of StorageClass " + r.StorageClass + " reports for the zones of the NodePool (kube-scheduler: node(s) did not have enough free storage)"
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nodeSpec is what a node boots as, as far as its size depends on it.
type nodeSpec struct {
	imageID   string
	os        string // as kubernetes.io/os says
	family    string // of images, whose rules say what is kept for the kubelet
	kubelet   *kubeletConfig
	storage   int64            // ephemeral, in bytes
	resources map[string]int64 // what its owner says that it has, over what is known of the type
}

// typeBuilder says what nodes of an EC2 instance type will have: capacity, and what of it pods may use.
type typeBuilder struct {
	aws    *account
	memory *nodeMemory
}

// loadMemory has what was learned of nodes' memory at hand. Where that fails estimates do.
func (b *typeBuilder) loadMemory(ctx context.Context) {
	if err := b.memory.loadOnce(ctx); err != nil {
		b.aws.log.Warn("what was learned of nodes' memory can't be read, estimates are used", "error", err)
	}
}

// build makes a type without offerings; nil where pods would have no room.
func (b *typeBuilder) build(t *typeInfo, n nodeSpec) *offeredType {
	out := &offeredType{typeInfo: t, imageID: n.imageID, maxPods: n.kubelet.maxPodsOn(t, n.family, int64(b.aws.config.ReservedENIs))}
	it := &model.InstanceType{Name: t.name, Labels: maps.Clone(t.labels), Boots: n.imageID}
	it.Labels[model.LabelOS] = n.os
	memory, ok := b.memory.bytesOf(t.name, n.imageID)
	if !ok {
		memory = estimateMemory(t, b.aws.config.VMMemoryOverhead)
	}
	it.Capacity = model.Resources{model.CPU: t.cpus * 1000, model.Memory: memory, model.EphemeralStorage: n.storage, model.Pods: out.maxPods}
	for _, more := range []map[string]int64{t.extendedResources, n.resources} {
		for _, name := range slices.Sorted(maps.Keys(more)) {
			it.Capacity = it.Capacity.With(b.aws.resources.Dim(name), more[name])
		}
	}
	it.Allocatable = it.Capacity.Sub(n.kubelet.reservedResources(it.Capacity))
	for d, v := range it.Allocatable {
		it.Allocatable[d] = max(0, v)
	}
	if it.Allocatable.At(model.CPU) == 0 || it.Allocatable.At(model.Memory) == 0 || it.Allocatable.At(model.Pods) == 0 {
		return nil
	}
	out.instanceType = it
	return out
}

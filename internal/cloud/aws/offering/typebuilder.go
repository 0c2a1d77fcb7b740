// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package offering

import (
	"context"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// NodeSpec is what a node boots as, as far as its size depends on it.
type NodeSpec struct {
	ImageID   string
	OS        string // as kubernetes.io/os says
	Family    string // of images, whose rules say what is kept for the kubelet
	Kubelet   *nodeclass.KubeletConfig
	Podless   int64            // network interfaces of the default card that pods get no addresses from
	Storage   int64            // ephemeral, in bytes
	Volumes   int64            // EBS volumes that it boots with; 0: the root volume
	Resources map[string]int64 // what its owner says that it has, over what is known of the type
}

// DriverEBS is the CSI driver that attaches EBS volumes.
const DriverEBS = "ebs.csi.aws.com"

// TypeBuilder works out what nodes of an EC2 instance type will have: capacity, and what of it pods may use.
type TypeBuilder struct {
	aws    *awsapi.Account
	memory *catalogue.NodeMemory
}

// NewTypeBuilder makes a TypeBuilder over what was learned of nodes' memory.
func NewTypeBuilder(a *awsapi.Account, memory *catalogue.NodeMemory) *TypeBuilder {
	return &TypeBuilder{aws: a, memory: memory}
}

// LoadMemory has what was learned of nodes' memory at hand. Where that fails it is logged, and estimates are used.
func (b *TypeBuilder) LoadMemory(ctx context.Context) {
	if err := b.memory.LoadOnce(ctx); err != nil {
		b.aws.Log.Warn("the recorded memory of nodes can't be read; using estimates", "error", err)
	}
}

// Build makes a type without offerings; nil where pods would have no room.
func (b *TypeBuilder) Build(t *catalogue.TypeInfo, n NodeSpec) *Type {
	out := &Type{TypeInfo: t, ImageID: n.ImageID, Kubelet: n.Kubelet, MaxPods: n.Kubelet.MaxPodsOn(t, n.Family, n.Podless)}
	it := &model.InstanceType{Name: t.Name, Labels: maps.Clone(t.Labels), Boots: n.ImageID}
	it.Labels[model.LabelOS] = n.OS
	memory, ok := b.memory.BytesOf(t.Name, n.ImageID)
	if !ok {
		memory = catalogue.EstimateMemory(t, b.aws.Config.VMMemoryOverhead)
	}
	it.Capacity = model.Resources{model.CPU: t.CPUs * 1000, model.Memory: memory, model.EphemeralStorage: n.Storage, model.Pods: out.MaxPods}
	for _, more := range []map[string]int64{t.ExtendedResources, n.Resources} {
		for _, name := range slices.Sorted(maps.Keys(more)) {
			it.Capacity = it.Capacity.With(b.aws.Resources.Dim(name), more[name])
		}
	}
	it.Allocatable = it.Capacity.Sub(n.Kubelet.ReservedResources(it.Capacity))
	for name, v := range n.Resources {
		if model.IsHugePages(name) {
			it.Allocatable[model.Memory] -= v
		}
	}
	for d, v := range it.Allocatable {
		it.Allocatable[d] = max(0, v)
	}
	if it.Allocatable.At(model.CPU) == 0 || it.Allocatable.At(model.Memory) == 0 || it.Allocatable.At(model.Pods) == 0 {
		return nil
	}
	it.CSILimits = map[string]int64{DriverEBS: t.EBSVolumes(max(1, n.Volumes))}
	out.InstanceType = it
	return out
}

// Version is a number that changes whenever Build may come to another result for the same arguments.
func (b *TypeBuilder) Version() int { return b.memory.ChangeCount() }

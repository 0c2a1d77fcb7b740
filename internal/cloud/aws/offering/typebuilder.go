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

// NodeSpec contains the node settings that determine its allocatable resources.
type NodeSpec struct {
	ImageID   string
	OS        string // value of kubernetes.io/os
	Family    string // AMI family, which determines the resources reserved for the kubelet
	Kubelet   *nodeclass.KubeletConfig
	Podless   int64            // network interfaces of the default card without pod addresses
	Storage   int64            // ephemeral storage in bytes
	Volumes   int64            // EBS volumes at boot; 0: only the root volume
	Resources map[string]int64 // resources set by the user, which override those of the type
}

// DriverEBS is the CSI driver that attaches EBS volumes.
const DriverEBS = "ebs.csi.aws.com"

// TypeBuilder computes the capacity and the allocatable resources of nodes of an EC2 instance type.
type TypeBuilder struct {
	aws    *awsapi.Account
	memory *catalogue.NodeMemory
}

// NewTypeBuilder returns a TypeBuilder that uses the observed memory of nodes.
func NewTypeBuilder(a *awsapi.Account, memory *catalogue.NodeMemory) *TypeBuilder {
	return &TypeBuilder{aws: a, memory: memory}
}

// LoadMemory loads the observed memory of nodes. If it fails, the error is logged and estimates are used.
func (b *TypeBuilder) LoadMemory(ctx context.Context) {
	if err := b.memory.LoadOnce(ctx); err != nil {
		b.aws.Log.Warn("the recorded memory of nodes can't be read; using estimates", "error", err)
	}
}

// Build returns a type without offerings; nil if pods would have no capacity.
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

// Version returns a number that changes when Build may return another result for the same arguments.
func (b *TypeBuilder) Version() int { return b.memory.ChangeCount() }

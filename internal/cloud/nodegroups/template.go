// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// template are the properties of a group's nodes.
type template struct {
	typeName    string
	zone        string // noZone: the server does not say
	capacity    string // capacity type
	typeLabels  model.Labels
	nodeLabels  model.Labels // of its nodes, besides those of the type, zone and capacity type
	taints      []model.Taint
	resources   model.Resources
	allocatable model.Resources
	priceMicro  int64 // 0: not known
	options     *Options
	csiLimits   map[string]int64 // of volumes, by CSI driver
	devices     map[string]int64 // of type gpu, by DRA driver
	problem     string
}

// noZone stands for the zone of a group whose server names none. Its nodes get no such label.
const noZone = "none"

// defaultPods is how many pods a node takes that does not say; Kubernetes' value.
const defaultPods = 110

// readTemplate translates a server's description of a group's nodes. Errors that the server must correct are problems of
// the template.
func (p *Provider) readTemplate(name string, d Description) *template {
	if d.Node == nil {
		return &template{problem: d.Problem}
	}
	node := d.Node
	t := &template{typeName: node.Labels[model.LabelInstanceType], zone: node.Labels[model.LabelZone], capacity: node.Labels[model.LabelCapacityType], typeLabels: model.Labels{}, nodeLabels: model.Labels{},
		priceMicro: d.PriceMicro, options: d.Options, csiLimits: d.CSILimits, devices: d.Devices, problem: d.Problem}
	if t.typeName == "" {
		t.typeName = name
	}
	if t.zone == "" {
		t.zone = noZone
	}
	if t.capacity != model.Spot {
		t.capacity = model.OnDemand
	}
	t.typeLabels[model.LabelInstanceType] = t.typeName
	for key, otherwise := range map[string]string{model.LabelArch: "amd64", model.LabelOS: "linux"} {
		if t.typeLabels[key] = node.Labels[key]; t.typeLabels[key] == "" {
			t.typeLabels[key] = otherwise
		}
	}
	for k, v := range node.Labels {
		switch k {
		case model.LabelInstanceType, model.LabelArch, model.LabelOS, model.LabelZone, model.LabelCapacityType, corev1.LabelHostname, model.LabelNodeGroup:
		default:
			t.nodeLabels[k] = v
		}
	}
	for _, x := range node.Spec.Taints {
		t.taints = append(t.taints, model.Taint{Key: x.Key, Value: x.Value, Effect: string(x.Effect)})
	}
	capacity := node.Status.Capacity
	if len(capacity) == 0 {
		capacity = node.Status.Allocatable
	}
	allocatable := node.Status.Allocatable
	if len(allocatable) == 0 {
		allocatable = capacity
	}
	for _, x := range []struct {
		from corev1.ResourceList
		to   *model.Resources
	}{{capacity, &t.resources}, {allocatable, &t.allocatable}} {
		for name, q := range x.from {
			v, err := catalog.ParseQuantity(string(name), q.String())
			if err != nil || v < 0 {
				t.problem = fmt.Sprintf("the server's template node: resource %s: %s is not a valid amount", name, q.String())
				return t
			}
			*x.to = x.to.With(p.resources.Dim(string(name)), v)
		}
		if x.to.At(model.Pods) == 0 {
			*x.to = x.to.With(model.Pods, defaultPods)
		}
	}
	t.allocatable = t.allocatable.Min(t.resources)
	if t.problem == "" && (t.allocatable.At(model.CPU) <= 0 || t.allocatable.At(model.Memory) <= 0) {
		t.problem = "the server's template node has no CPU or no memory"
	}
	return t
}

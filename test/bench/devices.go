// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// gpuTypes are instance types with 8 devices each.
var gpuTypes = []struct {
	name, model, memory string
	cores               int64
	price               int64 // micro-dollars an hour
}{
	{"g8.small", "l4", "24Gi", 96, 8_144_000}, {"g8.large", "l40s", "48Gi", 192, 16_288_000}, {"p8.small", "a100", "40Gi", 96, 21_958_000},
	{"p8.large", "a100", "80Gi", 96, 27_447_000}, {"p9", "h100", "80Gi", 192, 55_040_000},
}

// gpuClaims are the resource claims of the pods.
var gpuClaims = []struct {
	name, expression string
	count            int
	share            int // of 20 pods
}{
	{"one", "", 1, 7}, {"two", "", 2, 3}, {"four", "", 4, 2}, {"eight", "", 8, 1},
	{"one-40", `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`, 1, 3},
	{"two-a100", `device.attributes["gpu.example.com"].model == "a100"`, 2, 2},
	{"eight-80", `device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`, 8, 1},
	{"four-h100", `device.attributes["gpu.example.com"].model == "h100"`, 4, 1},
}

// claimingManifests are n pods with resource claims, as objects of the API server. The pods of a claim request one of three amounts of CPU and memory.
func claimingManifests(n int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
`)
	for _, t := range gpuTypes {
		fmt.Fprintf(&b, "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata:\n  name: %s\n  annotations:\n    dovetail.sh/resource-slices: |\n      - driver: gpu.example.com\n        devices:\n", t.name)
		for i := range 8 {
			fmt.Fprintf(&b, "        - {name: gpu-%d, attributes: {model: {string: %s}}, capacity: {memory: {value: %s}}}\n", i, t.model, t.memory)
		}
		fmt.Fprintf(&b, "spec:\n  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [%s]}]\n", t.name)
	}
	var names []string
	for _, c := range gpuClaims {
		fmt.Fprintf(&b, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {namespace: default, name: %s}\nspec:\n  spec:\n    devices:\n      requests:\n      - name: gpu\n        exactly:\n          deviceClassName: gpu\n          count: %d\n", c.name, c.count)
		if c.expression != "" {
			fmt.Fprintf(&b, "          selectors: [{cel: {expression: '%s'}}]\n", c.expression)
		}
		for range c.share {
			names = append(names, c.name)
		}
	}
	for i := range n {
		claim, cpu := names[i*7%len(names)], 1+i/len(names)%3
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: p%04d}\nspec:\n  resourceClaims: [{name: gpu, resourceClaimTemplateName: %s}]\n  containers: [{name: c, image: i, resources: {claims: [{name: gpu}], requests: {cpu: %d, memory: %dGi}}}]\n", i, claim, cpu, 4*cpu)
	}
	return b.String()
}

// claims measures planning of pods with resource claims on instance types with 8 devices, including translation of the objects and
// verification of the plan.
func claims(n, runs int, ratio float64, limit time.Duration) (row, error) {
	set, err := manifests.Read("claims", []byte(claimingManifests(n)))
	if err != nil {
		return row{}, err
	}
	var out decide.Output
	var failed error
	c := measure(runs, func() {
		s := state.New()
		set.Feed(s)
		var types []*model.InstanceType
		for _, t := range gpuTypes {
			var has model.Resources
			has = has.With(model.CPU, t.cores*1000).With(model.Memory, t.cores*8<<30).With(model.Pods, 110)
			types = append(types, &model.InstanceType{Name: t.name, Capacity: has, Allocatable: has, Labels: model.Labels{model.LabelInstanceType: t.name, model.LabelArch: "amd64", model.LabelOS: "linux"},
				Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: t.price, Available: true, Remaining: -1}}})
		}
		s.Pools.SetTypes("default", types)
		snap := s.Snapshot(start)
		out = decide.WhatIf(snap, start, decide.DefaultPolicy())
		failed = approve.Verify(snap, &out).Demand
	})
	r := row{pods: n, provenBy: out.Cost.ProvenBy, whole: c.cpu, clock: c.clock, bytes: c.bytes / uint64(n), allocs: c.allocs}
	if out.Cost.BoundMicroPerHour > 0 {
		r.ratio = float64(out.Cost.NewMicroPerHour) / float64(out.Cost.BoundMicroPerHour)
	}
	if left := n - placed(out); left > 0 {
		r.note = fmt.Sprintf("%d refused", left)
	}
	r.met = r.note == "" && r.ratio > 0 && r.ratio <= ratio && r.whole <= limit
	return r, failed
}

// placed returns the number of pods planned on new nodes.
func placed(out decide.Output) (n int) {
	if out.Result != nil {
		for i := range out.Result.New {
			n += len(out.Result.New[i].Pods)
		}
	}
	return n
}

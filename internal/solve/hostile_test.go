// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// However many resources one tenant makes up, the pods of another namespace get the nodes that they get without them,
// and each of the tenant's pods is refused for a resource that it asks for itself.
func TestMadeUpResources(t *testing.T) {
	const madeUp = 1000
	gpu := model.Dim(len(model.FixedNames()) + madeUp) // its name came last
	names := model.FixedNames()
	for i := range madeUp {
		names = append(names, fmt.Sprint("example.com/r", i))
	}
	names = append(names, "nvidia.com/gpu")
	small := model.Resources{}.With(model.CPU, 1000).With(model.Memory, 1<<30).With(model.Pods, 1)
	pod := func(ns, name string, r model.Resources) *model.Pod {
		return &model.Pod{Namespace: ns, Name: name, UID: ns + name, Class: &model.Class{Namespace: ns, Key: ns + name, Requests: r}}
	}
	others := []*model.Pod{pod("science", "train-0", small.With(gpu, 1)), pod("science", "train-1", small.With(gpu, 2)), pod("shop", "web", small)}
	var tenants []*model.Pod
	for i := range madeUp {
		r := small.With(model.Dim(len(model.FixedNames())+i), 1)
		if i%2 == 0 {
			r = r.With(gpu, 1) // beside a resource that there is
		}
		tenants = append(tenants, pod("tenant", fmt.Sprintf("p-%04d", i), r))
	}
	eight := model.Resources{}.AddInto(small, 8)
	offerings := []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 1_000_000, Available: true, Remaining: -1}}
	types := []*model.InstanceType{
		{Name: "gpu", Labels: model.Labels{}, Allocatable: eight.With(gpu, 4), Offerings: offerings},
		{Name: "plain", Labels: model.Labels{}, Allocatable: eight, Offerings: offerings},
	}
	answer := func(demand []*model.Pod) Result {
		pool := Pool{NodePool: &model.NodePool{Name: "default", Ready: true, Replicas: -1, NodeLimit: -1, Types: types}, NodesLeft: -1}
		node := ExistingNode{Name: "n", Labels: model.Labels{}, Free: small}
		res, _ := Solve(&Problem{ResourceNames: names, Demand: demand, Pools: []Pool{pool}, Nodes: []ExistingNode{node}}, Memory{}, DefaultPolicy())
		return res
	}
	alone, together := answer(others), answer(append(tenants, others...))
	if len(alone.New) == 0 || len(alone.OnNodes) == 0 || len(alone.Refused) != 0 {
		t.Fatalf("without the tenant: %d new nodes, %d pods refused", len(alone.New), len(alone.Refused))
	}
	if !reflect.DeepEqual(alone.New, together.New) || !reflect.DeepEqual(alone.OnNodes, together.OnNodes) {
		t.Errorf("with the tenant:\n%+v\n%+v\nwithout:\n%+v\n%+v", together.New, together.OnNodes, alone.New, alone.OnNodes)
	}
	if len(together.Refused) != madeUp {
		t.Fatalf("%d pods refused, want the tenant's %d", len(together.Refused), madeUp)
	}
	for _, x := range together.Refused {
		if x.Pod.Namespace != "tenant" || x.Reasons[0].Code != plan.Resource || x.Pod.Class.Requests.At(dimOf(names, x.Reasons[0].Key)) == 0 {
			t.Errorf("pod %s: %+v", x.Pod.Key(), x.Reasons)
		}
	}
}

// dimOf is the dimension of a resource by name; it is in the table.
func dimOf(names []string, name string) model.Dim {
	for d, n := range names {
		if n == name {
			return model.Dim(d)
		}
	}
	return 0
}

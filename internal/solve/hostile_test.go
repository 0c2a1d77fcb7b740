// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"reflect"
	"runtime"
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
		if x.Pod.Namespace != "tenant" || x.Reasons[0].Code != plan.Resource || x.Pod.Class.Requests.At(dimOf(names, string(plan.DetailOf[plan.OfSize](x.Reasons[0]).Resource))) == 0 {
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

// Pods on nodes each of whose anti-affinity selects others by two labels of its own make a rule each. That must not take
// memory by their number squared: a tenant has thousands of them.
func TestRulesOfPodsOnNodes(t *testing.T) {
	const standing = 600
	small := model.Resources{}.With(model.CPU, 1000).With(model.Memory, 1<<30).With(model.Pods, 1)
	pod := func(i int) *model.Pod {
		id, no := fmt.Sprint("a", i), fmt.Sprint("b", i)
		var rules model.Requirements
		for key, value := range map[string]string{"id": id, "no": no} {
			r, err := model.NewRequirement(key, model.OpNotIn, value)
			if err != nil {
				t.Fatal(err)
			}
			rules = rules.With(r)
		}
		c := &model.Class{Namespace: "tenant", Key: id, Labels: model.Labels{"id": id, "no": no}, Requests: small}
		c.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"tenant"}, Pods: &rules}}}
		return &model.Pod{Namespace: "tenant", Name: id, UID: id, Class: c}
	}
	p := &Problem{ResourceNames: model.FixedNames()}
	for i := range standing {
		p.Nodes = append(p.Nodes, ExistingNode{Name: fmt.Sprint("n", i), Labels: model.Labels{}, Pods: []*model.Pod{pod(i)}})
	}
	for i := range 5 {
		p.Demand = append(p.Demand, pod(standing+i))
	}
	p.Pools = []Pool{{NodePool: &model.NodePool{Name: "default", Ready: true, Replicas: -1, NodeLimit: -1, Types: []*model.InstanceType{{Name: "plain", Labels: model.Labels{},
		Allocatable: small, Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 1_000_000, Available: true, Remaining: -1}}}}}, NodesLeft: -1}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, _ := Solve(p, Memory{}, DefaultPolicy())
	runtime.ReadMemStats(&after)
	if len(res.New) != len(p.Demand) {
		t.Errorf("%d nodes are launched, want one for each of %d pods", len(res.New), len(p.Demand))
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 20 {
		t.Errorf("the plan took %d MiB beside %d pods on nodes, want at most 20", took, standing)
	}
}

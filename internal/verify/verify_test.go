// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// world is a plan without a fault: two pods on a standing node of zone a, two on a machine to buy.
func world() *Input {
	alloc := model.Resources{4000, 8 << 30, 0, 10}
	kind := func(name string, price int64) *model.InstanceType {
		t := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelArch: "amd64"}, Allocatable: alloc, Capacity: alloc}
		for _, z := range []string{"a", "b"} {
			t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: price, Available: true, Remaining: -1})
		}
		return t
	}
	small, other := kind("small", 100), kind("other", 105)
	pool := &model.NodePool{Name: "default", Ready: true, Replicas: -1, Types: []*model.InstanceType{other, small},
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "default"))}
	class := func(app string) *model.Class {
		return &model.Class{Key: app, Namespace: "default", Labels: model.Labels{"app": app}, Requests: model.Resources{1000, 1 << 30, 0, 1}}
	}
	var pods []*model.Pod
	for i := range 4 {
		pods = append(pods, &model.Pod{Namespace: "default", Name: fmt.Sprint("p", i), Class: class("web")})
	}
	standing := &model.Pod{Namespace: "default", Name: "old", Class: class("db")}
	in := &Input{
		ResourceNames: model.FixedNames(),
		Nodes: []ExistingNode{{Name: "node-1", Labels: model.Labels{model.LabelHostname: "node-1", model.LabelZone: "a"}, Free: alloc,
			Pods: []*model.Pod{standing}}},
		Pools:      []Pool{{NodePool: pool, NodesLeft: -1}},
		Namespaces: map[string]model.Labels{"default": {}},
		Demand:     pods,
		OnNodes:    []Placement{{Node: "node-1", Pods: pods[:2]}},
		New: []Machine{{Pool: "default", Type: small, Choices: []*model.InstanceType{small, other}, Zones: []string{"a", "b"},
			CapacityTypes: []string{model.OnDemand}, Pods: pods[2:], PriceMicro: 100,
			Requirements: pool.Requirements.With(model.OneOf(model.LabelZone, "a", "b"))}},
		Cost: plan.Cost{NewMicroPerHour: 100, BoundMicroPerHour: 90},
	}
	return in
}

// anew gives a pod a class of its own, which may then be changed.
func anew(p *model.Pod) *model.Class {
	c := *p.Class
	p.Class = &c
	return &c
}

func pods(app string) model.Selector {
	rs := model.NewRequirements(model.OneOf("app", app))
	return model.Selector{Namespaces: []string{"default"}, Pods: &rs}
}

func TestPlanWithoutFault(t *testing.T) {
	if found := Plan(world()); len(found) > 0 {
		t.Fatal(found)
	}
}

// TestFaults breaks the plan in one place at a time and wants just that rule named.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Input)
		rule  Rule
		says  string
	}{
		{"a pod forgotten", func(in *Input) { in.OnNodes[0].Pods = in.Demand[:1] }, Answer, "0 times"},
		{"a pod placed twice", func(in *Input) { in.New[0].Pods = in.Demand[1:] }, Answer, "2 times"},
		{"a pod nobody asked about", func(in *Input) { in.Demand = in.Demand[1:] }, Answer, "not asked"},
		{"a refusal without a reason", func(in *Input) {
			in.OnNodes[0].Pods = in.Demand[:1]
			in.Refused = []Refusal{{Pod: in.Demand[1]}}
		}, Answer, "without a reason"},
		{"a node that is not there", func(in *Input) { in.OnNodes[0].Node = "node-2" }, Place, "no such node"},
		{"a closed node", func(in *Input) { in.Nodes[0].Closed = true }, Place, "takes no pods"},
		{"a pool that is not ready", func(in *Input) { in.Pools[0].Ready = false }, Place, "nothing may be bought"},
		{"a machine for nobody", func(in *Input) {
			in.New = append(in.New, in.New[0])
			in.New[1].Pods = nil
			in.Cost.NewMicroPerHour = 200
		}, Place, "no pod"},
		{"a taint of the node", func(in *Input) { in.Nodes[0].Taints = []model.Taint{{Key: "k", Effect: model.NoExecute}} }, Admission, "taint"},
		{"a taint of the pool", func(in *Input) { in.Pools[0].Taints = []model.Taint{{Key: "k", Effect: model.NoSchedule}} }, Admission, "taint"},
		{"a selector the node does not meet", func(in *Input) {
			anew(in.Demand[0]).Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "b"))}}
		}, Admission, "affinity"},
		{"a selector one choice of zone does not meet", func(in *Input) {
			anew(in.Demand[2]).Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "b"))}}
		}, Admission, "affinity"},
		{"an open label that may become something else", func(in *Input) {
			in.Nodes[0].Open = model.NewRequirements(model.OneOf(model.LabelZone, "a", "b"))
			anew(in.Demand[0]).Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "a"))}}
		}, Admission, "affinity"},
		{"a volume elsewhere", func(in *Input) {
			anew(in.Demand[0]).Volumes = []model.Volume{{Claim: "v", Topology: []model.Requirements{model.NewRequirements(model.OneOf(model.LabelZone, "b"))}}}
		}, Admission, "volume"},
		{"an in-tree volume elsewhere by the label of the driver that the node's kubelet leaves it to", func(in *Input) {
			in.Nodes[0].Migrated = []string{"intree"}
			anew(in.Demand[0]).Volumes = []model.Volume{{Claim: "v", InTree: "intree", Standing: []model.Requirements{{}}, Migrated: []model.Requirements{model.NewRequirements(model.OneOf("driver", "b"))}}}
		}, Admission, "volume"},
		{"a node without the CSI driver of a volume", func(in *Input) {
			in.Nodes[0].CSIDrivers = []string{"efs"}
			anew(in.Demand[0]).Volumes = []model.Volume{{Claim: "v", Driver: "ebs", Handle: "1", Registers: true}}
		}, Admission, "CSI driver ebs"},
		{"a node without CSINode and the CSI driver of a volume", func(in *Input) {
			anew(in.Demand[0]).Volumes = []model.Volume{{Claim: "v", Driver: "ebs", Handle: "1", Registers: true}}
		}, Admission, "CSI driver ebs"},
		{"a node overfilled", func(in *Input) { in.Nodes[0].Free = model.Resources{1999, 8 << 30, 0, 10} }, Capacity, " of cpu, "},
		{"a node overfilled with the DaemonSet still to come", func(in *Input) {
			in.Daemons = []*model.Daemon{{Name: "d", Class: &model.Class{Requests: model.Resources{2500}}}}
		}, Capacity, " of cpu, "},
		{"a choice too small", func(in *Input) {
			in.New[0].Choices[1].Allocatable = model.Resources{1000, 8 << 30, 0, 10}
		}, Capacity, " of cpu, "},
		{"a port taken", func(in *Input) {
			c := anew(in.Demand[0])
			c.HostPorts = []model.HostPort{{Protocol: "TCP", Port: 80}}
			in.Demand[1].Class = c
		}, Capacity, "port 80"},
		{"volumes beyond the attach limit", func(in *Input) {
			in.Nodes[0].CSILimits = map[string]int64{"ebs": 1}
			anew(in.Demand[0]).Volumes = []model.Volume{{Driver: "ebs", Handle: "1"}}
			anew(in.Demand[1]).Volumes = []model.Volume{{Driver: "ebs", Handle: "2"}}
		}, Capacity, "attaches 2"},
		{"a volume that somebody has to himself", func(in *Input) {
			c := anew(in.Demand[0])
			c.Volumes = []model.Volume{{Claim: "v", Handle: "v", Exclusive: true}}
			in.Demand[2].Class = c
		}, Capacity, "alone"},
		{"a type that is not the pool's", func(in *Input) { in.Pools[0].Types = in.Pools[0].Types[1:] }, Choice, "not one of the pool's"},
		{"a price that is not the cheapest choice's", func(in *Input) {
			in.New[0].PriceMicro, in.Cost.NewMicroPerHour = 105, 105
		}, Choice, "cheapest choice"},
		{"requirements that a choice does not meet", func(in *Input) {
			in.New[0].Requirements = in.New[0].Requirements.With(model.OneOf(model.LabelInstanceType, "other"))
		}, Choice, "don't allow"},
		{"two values of the zone wanted, where the machine may be in one", func(in *Input) {
			r, _ := model.NewRequirement(model.LabelZone, model.OpExists)
			r.MinValues = 2
			in.Pools[0].Requirements, in.New[0].Zones = in.Pools[0].Requirements.With(r), []string{"a"}
		}, Choice, "1 values of " + model.LabelZone},
		{"two NodeClaims of one name", func(in *Input) {
			in.New = append(in.New, in.New[0])
			in.New[0].Claim, in.New[1].Claim = &Claim{Name: "x"}, &Claim{Name: "x"}
		}, Claims, "made twice"},
		{"a NodeClaim that there is", func(in *Input) {
			in.ClaimNames = map[string]bool{"x": true}
			in.New[0].Claim = &Claim{Name: "x", Slots: []model.Slot{{Count: len(in.New[0].Pods)}}}
		}, Claims, "exists"},
		{"more slots than pods", func(in *Input) {
			in.New[0].Claim = &Claim{Name: "x", Slots: []model.Slot{{Count: len(in.New[0].Pods) + 1}}}
		}, Claims, "slots for"},
		{"too few values left", func(in *Input) {
			r, _ := model.NewRequirement(model.LabelInstanceType, model.OpExists)
			r.MinValues = 3
			in.Pools[0].Requirements = in.Pools[0].Requirements.With(r)
		}, Choice, "2 values"},
		{"a limit overshot by the largest choice", func(in *Input) {
			in.Pools[0].Left, in.Pools[0].HasLimit = model.Resources{5000}, []bool{true}
			in.New[0].Choices[1].Capacity = model.Resources{6000}
		}, Limits, "launches 6 of cpu"},
		{"a limit on nodes overshot", func(in *Input) { in.Pools[0].NodesLeft = 0 }, Limits, "1 nodes"},
		{"more machines than are left of an offering", func(in *Input) {
			for i := range in.New[0].Type.Offerings {
				in.New[0].Type.Offerings[i].Remaining = 0
			}
		}, Limits, "of which 0"},
		{"a sum that is wrong", func(in *Input) { in.Cost.NewMicroPerHour = 99 }, Price, "machines cost 100"},
		{"a bound above the cost", func(in *Input) { in.Cost.BoundMicroPerHour = 101 }, Price, "bound 101"},
		{"anti-affinity to a pod on the same host", func(in *Input) {
			anew(in.Demand[0]).AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: pods("web")}}
		}, Topology, "anti-affinity"},
		{"anti-affinity of a standing pod", func(in *Input) {
			anew(in.Nodes[0].Pods[0]).AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelZone, Selector: pods("web")}}
		}, Topology, "has it against"},
		{"affinity to nobody", func(in *Input) {
			anew(in.Demand[0]).Affinity = []model.PodTerm{{TopologyKey: model.LabelZone, Selector: pods("none")}}
		}, Topology, "no pod it selects"},
		{"affinity on a machine whose zone is open", func(in *Input) {
			anew(in.Demand[2]).Affinity = []model.PodTerm{{TopologyKey: model.LabelZone, Selector: pods("db")}}
		}, Topology, "not known"},
		{"a disk still to be made, wanted in two zones", func(in *Input) {
			c := anew(in.Demand[0])
			c.Volumes = []model.Volume{{Claim: "v", Handle: "v", Unmade: true}}
			in.Demand[2].Class, in.New[0].Zones = c, []string{"b"}
		}, Topology, "will be made in zone a"},
		{"a spread that others would exceed if they came first", func(in *Input) {
			in.New[0].Zones = []string{"b"}
			sel := pods("web").Pods
			in.Nodes[0].Pods = nil
			in.OnNodes[0].Pods, in.New[0].Pods = in.Demand[:1], in.Demand[1:]
			anew(in.Demand[1]).Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: sel}}
		}, Topology, "others may come first"},
		{"a spread exceeded", func(in *Input) {
			sel := pods("web").Pods
			in.New[0].Zones = []string{"b"}
			in.OnNodes[0].Pods, in.New[0].Pods = in.Demand[:0:0], in.Demand
			c := anew(in.Demand[0])
			c.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: sel}}
			for _, p := range in.Demand {
				p.Class = c
			}
		}, Topology, "skew at most 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := world()
			c.spoil(in)
			found := Plan(in)
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			named := false
			for _, v := range found {
				named = named || v.Rule == c.rule && strings.Contains(v.String(), c.says)
			}
			if !named {
				t.Fatalf("found %v, want %s: %s", found, c.rule, c.says)
			}
		})
	}
}

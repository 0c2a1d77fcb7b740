// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var faults = []fault{
	{"pod do-not-disrupt", PodDoNotDisrupt, func(c *cluster) string {
		_, pods := c.wasteful(3)
		for _, p := range pods {
			p.DoNotDisrupt = "true"
		}
		return "deployment/shop/waste"
	}, true},
	{"do-not-disrupt on pods whose template has none", PodDoNotDisrupt, func(c *cluster) string {
		_, pods := c.wasteful(3)
		for _, p := range pods {
			p.DoNotDisrupt = "true"
		}
		c.templates = map[string]model.Template{"rs-waste": {}}
		return "deployment/shop/waste"
	}, true},
	{"do-not-disrupt on some pods of a workload", PodDoNotDisrupt, func(c *cluster) string {
		_, pods := c.wasteful(3)
		pods[0].DoNotDisrupt = "true"
		return "deployment/shop/waste"
	}, true},
	{"do-not-disrupt on pods of an older revision", PodDoNotDisrupt, func(c *cluster) string {
		_, pods := c.wasteful(3)
		for _, p := range pods {
			p.DoNotDisrupt = "true"
		}
		c.templates = map[string]model.Template{"rs-waste": {Deployment: "waste", Revision: 1, Annotations: model.Labels{disrupt.DoNotDisrupt: "true"}}, "rs-new": {Deployment: "waste", Revision: 2}}
		return "deployment/shop/waste"
	}, true},
	{"safe-to-evict false", SafeToEvict, func(c *cluster) string {
		_, pods := c.wasteful(3)
		for _, p := range pods {
			p.SafeToEvict = "false"
		}
		return "deployment/shop/waste"
	}, true},
	{"bare pod", NoController, func(c *cluster) string {
		_, pods := c.wasteful(1)
		pods[0].Owner, pods[0].Deployment = model.Owner{}, ""
		return "pod/shop/waste-00"
	}, true},
	{"PDB maxUnavailable 0", PDBNeverAllows, plantPDB("", "0"), true},
	{"PDB maxUnavailable 0%", PDBNeverAllows, plantPDB("", "0%"), true},
	{"PDB minAvailable 100%", PDBNeverAllows, plantPDB("100%", ""), true},
	{"PDB minAvailable of all replicas", PDBNeverAllows, plantPDB("3", ""), true},
	{"several PDBs", SeveralPDBs, func(c *cluster) string {
		_, pods := c.wasteful(3)
		for _, name := range []string{"one", "two"} {
			c.pdbs = append(c.pdbs, &model.PDB{Namespace: "shop", Name: name, Selector: selectorOf(pods), MaxUnavailable: "1", DisruptionsAllowed: 1})
		}
		return "deployment/shop/waste"
	}, true},
	{"node do-not-disrupt", NodeDoNotDisrupt, func(c *cluster) string {
		n, _ := c.wasteful(3)
		n.Annotations[disrupt.DoNotDisrupt] = "true"
		return "nodepool/default"
	}, true},
	{"scale-down-disabled", NodeDoNotDisrupt, func(c *cluster) string {
		n, _ := c.wasteful(3)
		n.Annotations[disrupt.ScaleDownDisabled] = "true"
		return "nodepool/default"
	}, true},
	{"budget 0", BudgetZero, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].Budgets = []model.Budget{{Nodes: 0}}
		return "nodepool/default"
	}, true},
	{"budget 0%", BudgetZero, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].Budgets = []model.Budget{{Nodes: 0, Percent: true}}
		return "nodepool/default"
	}, true},
	{"two budgets of 0, and one for now", BudgetZero, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].Budgets = []model.Budget{{Nodes: 0, Schedule: "0 12 * * *", Duration: 2 * time.Hour}, {Nodes: 0}, {Nodes: 10, Percent: true}, {Nodes: 0, Percent: true}}
		return "nodepool/default"
	}, true},
	{"budget 0 for two days each day", BudgetZero, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].Budgets = []model.Budget{{Nodes: 0, Schedule: "0 12 * * *", Duration: 2 * time.Hour}, {Nodes: 0, Schedule: "@daily", Duration: 48 * time.Hour}}
		return "nodepool/default"
	}, true},
	{"budgets of 0 that follow each other", BudgetZero, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].Budgets = []model.Budget{{Nodes: 0, Schedule: "0 0 * * *", Duration: 13 * time.Hour}, {Nodes: 0, Schedule: "0 12 * * *", Duration: 13 * time.Hour}}
		return "nodepool/default"
	}, true},
	{"budget with a schedule that can't be read", BudgetUnreadable, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].Budgets = []model.Budget{{Nodes: 1, Schedule: "at night", Duration: time.Hour}}
		return "nodepool/default"
	}, true},
	{"consolidation of empty nodes alone", ConsolidationOff, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].ConsolidationPolicy = "WhenEmpty"
		return "nodepool/default"
	}, true},
	{"consolidateAfter Never", ConsolidateNever, func(c *cluster) string {
		c.wasteful(3)
		c.pools[0].ConsolidateAfter = -1
		return "nodepool/default"
	}, true},
	{"static pool", StaticPool, func(c *cluster) string {
		p := c.addPool("static", model.OneOf(model.LabelCapacityType, model.OnDemand))
		p.Weight, p.Replicas = 1, 1
		n := c.addNode("still", "r.16", "a", model.OnDemand, p)
		c.bind(n, c.addWorkload("still", 2, 250, 1<<30)...)
		return "nodepool/static"
	}, true},
	{"static pool of three", StaticPool, func(c *cluster) string {
		p := c.addPool("static", model.OneOf(model.LabelCapacityType, model.OnDemand))
		p.Weight, p.Replicas = 1, 3
		for i := range 3 {
			name := fmt.Sprintf("still%d", i)
			c.bind(c.addNode(name, "r.16", "a", model.OnDemand, p), c.addWorkload(name, 2, 250, 1<<30)...)
		}
		return "nodepool/static"
	}, true},
	{"node of no pool", NodeWithoutPool, func(c *cluster) string {
		n := c.addNode("foreign", "r.16", "a", model.OnDemand, nil)
		c.bind(n, c.addWorkload("foreign", 2, 250, 1<<30)...)
		return "node/foreign"
	}, true},
	{"pod pinned to a node", PinnedToNode, func(c *cluster) string {
		n, pods := c.wasteful(2)
		template(pods, func(cl *model.Class) {
			cl.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelHostname, n.Name))}}
		})
		return "deployment/shop/waste"
	}, true},
	{"spot never allowed", SpotNeverAllowed, func(c *cluster) string {
		*c = cluster{t: c.t, types: c.types}
		c.addPool("default", model.OneOf(model.LabelCapacityType, model.OnDemand))
		c.addWorkload("web", 20, 500, 1<<30)
		c.settle()
		return "nodepool/default"
	}, true},
	{"one instance type", FewTypes, func(c *cluster) string {
		*c = cluster{t: c.t, types: c.types}
		c.addPool("default", model.OneOf(model.LabelCapacityType, model.OnDemand, model.Spot), model.OneOf(model.LabelInstanceType, "r.16"))
		c.addWorkload("web", 20, 500, 1<<30)
		c.settle()
		return "nodepool/default"
	}, true},
	{"one instance type, and labels of the template", FewTypes, func(c *cluster) string {
		*c = cluster{t: c.t, types: c.types}
		p := c.addPool("default", model.OneOf(model.LabelCapacityType, model.OnDemand, model.Spot), model.OneOf(model.LabelInstanceType, "r.16"), model.OneOf("team", "a"))
		p.Labels["team"] = "a" // so its nodes have it, and the translation makes a requirement of it
		c.addWorkload("web", 20, 500, 1<<30)
		c.settle()
		return "nodepool/default"
	}, true},
	{"one pod per node", OnePerNode, func(c *cluster) string {
		*c = cluster{t: c.t, types: c.types}
		c.addPool("default", model.OneOf(model.LabelCapacityType, model.OnDemand, model.Spot))
		pods := c.addWorkload("agent", 12, 250, 256<<20)
		template(pods, func(cl *model.Class) {
			cl.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"shop"}, Pods: selectorOf(pods)}}}
		})
		c.settle()
		return "deployment/shop/agent"
	}, true},
	{"empty node", NodeEmpty, func(c *cluster) string {
		c.addNode("idle", "r.16", "a", model.OnDemand, c.pools[0])
		return "node/idle"
	}, true},
	{"cordoned node", NodeCordoned, func(c *cluster) string {
		n, _ := c.wasteful(3)
		n.Taints = []model.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}}
		return "node/waste"
	}, false},
	{"node not ready", NodeNotReady, func(c *cluster) string {
		n, _ := c.wasteful(3)
		n.Ready, n.ReadySince = false, epoch.Add(-time.Hour)
		return "node/waste"
	}, false},
	{"selector that no pool meets", Unplaceable, func(c *cluster) string {
		pods := c.addWorkload("lost", 2, 250, 1<<30)
		template(pods, func(cl *model.Class) {
			cl.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelArch, "s390x"))}}
		})
		return "deployment/shop/lost"
	}, false},
	{"pool that can buy nothing", PoolBuysNothing, func(c *cluster) string {
		c.addPool("none", model.OneOf(model.LabelInstanceType, "x.1000")).Weight = 7
		return "nodepool/none"
	}, false},
	{"pool without its node class", PoolNotReady, func(c *cluster) string {
		p := c.addPool("dead")
		p.Weight, p.Ready, p.ClassKind, p.ClassName = 7, false, "EC2NodeClass", "gone"
		p.NotReady = model.Condition{Status: "False", Reason: "NodeClassNotFound", Message: "EC2NodeClass gone does not exist"}
		return "nodepool/dead"
	}, false},
	{"limit reached", LimitReached, func(c *cluster) string {
		p := c.pools[0]
		used := int64(0)
		for _, n := range c.nodes {
			used += n.Capacity.At(model.CPU)
		}
		p.Limits, p.HasLimit = model.Resources{used}, []bool{true}
		c.addWorkload("more", 40, 1500, 1<<30)
		return "nodepool/default"
	}, false},
	{"limit leaves too little for replacements", LimitBlocks, func(c *cluster) string {
		p, used := c.scatter(1700), int64(0)
		for _, n := range c.nodes {
			used += n.Capacity.At(model.CPU)
		}
		p.Limits, p.HasLimit = model.Resources{used}, []bool{true}
		return "nodepool/default"
	}, true},
	{"uneven limit leaves too little for replacements", LimitBlocks, func(c *cluster) string {
		p := c.scatter(1700)
		used := c.useOf(&model.CapacityLimit{})
		p.Limits, p.HasLimit = model.Resources{used.At(model.CPU) + 10, used.At(model.Memory) + 10<<20}, []bool{true, true}
		return "nodepool/default"
	}, true},
	{"uneven limit reached", LimitReached, func(c *cluster) string {
		p, used := c.pools[0], c.useOf(&model.CapacityLimit{})
		for _, n := range c.nodes { // as of virtual machines, which have less memory than their type
			n.Capacity = n.Capacity.With(model.Memory, n.Capacity.At(model.Memory)-77<<20)
		}
		p.Limits, p.HasLimit = model.Resources{0, used.At(model.Memory) - 100<<20}, []bool{false, true}
		c.addWorkload("more", 40, 1500, 6<<30)
		return "nodepool/default"
	}, false},
	{"uneven limit near", LimitNear, func(c *cluster) string {
		used := c.useOf(&model.CapacityLimit{})
		c.pools[0].Limits, c.pools[0].HasLimit = model.Resources{0, used.At(model.Memory) + 3<<20}, []bool{false, true}
		return "nodepool/default"
	}, false},
	{"uneven CapacityQuota near", LimitNear, func(c *cluster) string {
		l := c.addQuota("web")
		l.SetMost(model.CPU, c.useOf(l).At(model.CPU)+90)
		return l.Name
	}, false},
	{"limit of nodes leaves no replacement", LimitBlocks, func(c *cluster) string {
		c.scatter(1700).NodeLimit = int64(len(c.nodes))
		return "nodepool/default"
	}, true},
	{"CapacityQuota leaves too little for replacements", LimitBlocks, func(c *cluster) string {
		c.scatter(1700)
		l := c.addQuota("all")
		l.SetMost(model.CPU, c.useOf(l).At(model.CPU))
		return l.Name
	}, true},
	{"limit near", LimitNear, func(c *cluster) string {
		c.pools[0].NodeLimit = int64(len(c.nodes))
		return "nodepool/default"
	}, false},
	{"CapacityQuota reached", LimitReached, func(c *cluster) string {
		l := c.addQuota("web", model.OneOf(model.LabelNodePool, "default"))
		l.SetMost(model.CPU, c.useOf(l).At(model.CPU))
		c.addWorkload("more", 40, 1500, 1<<30)
		return l.Name
	}, false},
	{"CapacityQuota of nodes reached", LimitReached, func(c *cluster) string {
		l := c.addQuota("web")
		l.Nodes = int64(len(c.nodes))
		c.addWorkload("more", 3, 15000, 1<<30)
		return l.Name
	}, false},
	{"CapacityQuota near", LimitNear, func(c *cluster) string {
		l := c.addQuota("web")
		l.Nodes = int64(len(c.nodes))
		return l.Name
	}, false},
	{"CapacityQuota of spot nodes", QuotaCosts, func(c *cluster) string {
		*c = cluster{t: c.t, types: c.types}
		c.addPool("default", model.OneOf(model.LabelCapacityType, model.OnDemand, model.Spot))
		l := c.addQuota("spot", model.OneOf(model.LabelCapacityType, model.Spot))
		l.SetMost(model.CPU, 4000)
		c.addWorkload("web", 40, 500, 1<<30)
		c.settle()
		return l.Name
	}, true},
	{"ResourceQuota used up", ResourceQuotaFull, func(c *cluster) string {
		c.in.FullQuotas = []FullQuota{{"shop", "compute", "requests.cpu", "10", "10", "20"}}
		return "resourcequota/shop/compute"
	}, false},
	{"group at its maximum", GroupAtMaximum, func(c *cluster) string {
		c.addFullGroup("large")
		pods := c.addWorkload("grouped", 1, 250, 1<<28)
		template(pods, func(cl *model.Class) {
			cl.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf("grouped", "yes"))}}
		})
		return "nodegroup/large"
	}, false},
	{"group at its maximum, nobody waits", GroupFull, func(c *cluster) string {
		c.addFullGroup("large")
		return "nodegroup/large"
	}, false},
	{"overlapping pools", OverlappingPools, func(c *cluster) string {
		c.addPool("default2", model.OneOf(model.LabelCapacityType, model.Spot))
		return "nodepool/default2"
	}, false},
	{"claim that gets no node", ClaimStuck, func(c *cluster) string {
		c.claim = append(c.claim, &model.Claim{Name: "stuck", UID: "stuck", Pool: "default", Created: epoch.Add(-time.Hour), Capacity: c.types[0].Capacity, Allocatable: c.types[0].Allocatable,
			Conditions: map[string]model.Condition{"Launched": {Status: "True"}}})
		return "nodeclaim/stuck"
	}, false},
	{"node that drains for long", DeletionStuck, func(c *cluster) string {
		n, pods := c.wasteful(2)
		n.Deleting = epoch.Add(-time.Hour)
		pods[1].DoNotDisrupt = "2h" // it was bound an hour ago
		pods[1].Owner, pods[1].Deployment = model.Owner{}, ""
		return "node/waste"
	}, false},
	{"drain held by a PDB", PDBNeverAllows, func(c *cluster) string {
		subject := plantPDB("", "0")(c)
		c.nodes[len(c.nodes)-1].Deleting = epoch.Add(-time.Minute)
		return subject
	}, true},
	{"drain held by do-not-disrupt", PodDoNotDisrupt, func(c *cluster) string {
		_, pods := c.wasteful(2)
		c.claim[len(c.claim)-1].Deleting = epoch.Add(-time.Minute)
		pods[1].DoNotDisrupt = "true"
		return "deployment/shop/waste"
	}, true},
	{"drain held by several PDBs", SeveralPDBs, func(c *cluster) string {
		n, pods := c.wasteful(2)
		n.Deleting = epoch.Add(-time.Minute)
		for _, name := range []string{"one", "two"} {
			c.pdbs = append(c.pdbs, &model.PDB{Namespace: "shop", Name: name, Selector: selectorOf(pods), MaxUnavailable: "1", DisruptionsAllowed: 1})
		}
		return "deployment/shop/waste"
	}, true},
	{"no requests", NoRequests, func(c *cluster) string {
		template(c.podsOf("deployment/shop/app0"), func(cl *model.Class) { cl.Requests = cl.Requests.With(model.CPU, 0).With(model.Memory, 0) })
		return "deployment/shop/app0"
	}, false},
	{"no memory request", NoRequests, func(c *cluster) string {
		template(c.podsOf("deployment/shop/app1"), func(cl *model.Class) { cl.Requests = cl.Requests.With(model.Memory, 0) })
		return "deployment/shop/app1"
	}, false},
	{"single replica", SingleReplica, func(c *cluster) string {
		c.bind(c.nodes[0], c.addWorkload("alone", 1, 1, 1<<20)...)
		return "deployment/shop/alone"
	}, false},
	{"instance type without a price", PriceUnknown, func(c *cluster) string {
		n := c.addNode("odd", "c.2", "a", model.OnDemand, nil)
		n.Labels[model.LabelInstanceType] = "odd.large"
		return "instancetype/odd.large"
	}, false},
	{"quota of the cloud's account", CloudQuotaReached, func(c *cluster) string {
		c.in.CloudQuotas = []CloudQuota{{Name: "Running On-Demand P instances", Subject: "nodeclaim/old", At: epoch.Add(-11 * time.Minute)},
			{Name: "All F Spot Instance Requests", Size: "32 vCPUs", Subject: "nodeclaim/a", At: epoch.Add(-time.Minute)}}
		return "cloudquota/All F Spot Instance Requests"
	}, false},
	{"two autoscalers", TwoAutoscalers, func(c *cluster) string {
		c.in.Autoscalers = []Autoscaler{{"Karpenter", "kube-system/karpenter-leader-election"}, {"Cluster Autoscaler", "kube-system/cluster-autoscaler"}}
		return "autoscaler/Karpenter"
	}, false},
	{"writes that admission refuses", WriteDenied, func(c *cluster) string {
		const update, remove, refuser = "update the taints of this Node", "delete this Node", "ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: no"
		said := plan.WriteReport{Write: update, Refusal: refuser}
		old := epoch.Add(-16 * time.Minute)
		c.in.Writes = []Write{{"node/b", epoch.Add(-9 * time.Minute), said}, {"node/a", epoch.Add(-time.Minute), said}, {"node/c", epoch.Add(-2 * time.Minute), said}, {"pod/default/a", old, said}}
		accepted := func(subject, write string, at time.Time) Write {
			return Write{subject, at, plan.WriteReport{Write: write}}
		}
		c.in.Writes = append(c.in.Writes, accepted("node/a", update, old), accepted("node/a", remove, epoch), accepted("node/a", "update the labels of this Node", epoch),
			accepted("node/c", update, epoch.Add(-time.Minute)))
		return "node/a"
	}, false},
	{"no right to read PodDisruptionBudgets", MissingRights, func(c *cluster) string {
		c.in.Denied = []Denied{{Resource: "poddisruptionbudgets", Group: "policy", Why: "forbidden"}}
		return "resource/poddisruptionbudgets.policy"
	}, false},
}

// scatter makes it a cluster of four nodes that are larger than their pods need, with nine pods of so much CPU each. It returns its NodePool.
func (c *cluster) scatter(cpu int64) *model.NodePool {
	*c = cluster{t: c.t, types: c.types}
	p := c.addPool("default", model.OneOf(model.LabelCapacityType, model.OnDemand))
	for i := range 4 {
		name := fmt.Sprintf("wide%d", i)
		c.bind(c.addNode(name, "r.16", "a", model.OnDemand, p), c.addWorkload(name, 9, cpu, 2<<30)...)
	}
	return p
}

func cmpName(a, b *model.InstanceType) int {
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// addFullGroup adds a node group at its maximum, with a NodePool of its own.
func (c *cluster) addFullGroup(name string) {
	t := *c.types[0]
	t.Name, t.Labels = "g.large", model.Labels{model.LabelInstanceType: "g.large", "grouped": "yes"}
	t.Offerings = []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 100, Available: true, Remaining: 0, Most: 3, Labels: model.Labels{model.LabelNodeGroup: name}}}
	c.types = append(c.types, &t)
	slices.SortFunc(c.types, func(a, b *model.InstanceType) int { return cmpName(a, b) })
	p := c.addPool(name, model.OneOf("grouped", "yes"), model.OneOf(model.LabelNodeGroup, name))
	p.Weight, p.Labels = 3, model.Labels{"grouped": "yes"}
	for _, q := range c.pools {
		q.Types = c.types
	}
}

// plantPDB puts a PodDisruptionBudget over pods on a node that is too large for them.
func plantPDB(minAvailable, maxUnavailable string) func(*cluster) string {
	return func(c *cluster) string {
		_, pods := c.wasteful(3)
		c.pdbs = append(c.pdbs, &model.PDB{Namespace: "shop", Name: "waste", Selector: selectorOf(pods), MinAvailable: minAvailable, MaxUnavailable: maxUnavailable,
			Healthy: 3, Desired: 3, Expected: 3})
		return "poddisruptionbudget/shop/waste"
	}
}

// addQuota adds a CapacityQuota that limits nothing yet.
func (c *cluster) addQuota(name string, selector ...model.Requirement) *model.CapacityLimit {
	l := &model.CapacityLimit{Name: "capacityquota/" + name, Nodes: -1, MicroPerHour: -1, Quota: &model.Quota{Name: name}, Selector: model.NewRequirements(selector...)}
	c.limits = append(c.limits, l)
	return l
}

// useOf is what the nodes that a limit selects have.
func (c *cluster) useOf(l *model.CapacityLimit) (sum model.Resources) {
	for _, n := range c.nodes {
		if l.Matches(n.Labels) {
			sum = sum.AddInto(n.Capacity, 1)
		}
	}
	return sum
}

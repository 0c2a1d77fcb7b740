// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterview "github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var epoch = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// cluster is a small cluster that a test changes; snapshot makes what Examine reads of it.
type cluster struct {
	t     *testing.T
	types []*model.InstanceType
	pools []*model.NodePool
	nodes []*model.Node
	claim []*model.Claim
	pods  []*model.Pod // bound and pending
	pdbs  []*model.PDB
	in    Input

	limits    []*model.CapacityLimit
	templates map[string]model.Template
}

// families are the instance types of tests: three families of four sizes, a spot price at 40 % of on-demand.
func families() (out []*model.InstanceType) {
	for _, f := range []struct {
		name   string
		memory int64 // GiB per CPU
		price  int64 // of a CPU
	}{{"c", 2, 40_000}, {"m", 4, 48_000}, {"r", 8, 63_000}} {
		for _, cpu := range []int64{2, 4, 8, 16} {
			t := &model.InstanceType{Name: fmt.Sprintf("%s.%d", f.name, cpu), Labels: model.Labels{model.LabelArch: "amd64", model.LabelOS: "linux", "family": f.name}}
			t.Labels[model.LabelInstanceType] = t.Name
			t.Capacity = model.Resources{cpu * 1000, cpu * f.memory << 30, 100 << 30, 110}
			t.Allocatable = model.Resources{cpu*1000 - 100, (cpu*f.memory - 1) << 30, 90 << 30, 110}
			for _, z := range []string{"a", "b"} {
				t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: f.price * cpu, Available: true, Remaining: -1},
					model.Offering{Zone: z, CapacityType: model.Spot, PriceMicro: f.price * cpu * 2 / 5, Available: true, Remaining: -1})
			}
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (c *cluster) addPool(name string, requirements ...model.Requirement) *model.NodePool {
	p := &model.NodePool{Name: name, UID: "uid-" + name, Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1,
		ConsolidateAfter: time.Minute, ConsolidationPolicy: "WhenEmptyOrUnderutilized", Budgets: []model.Budget{{Nodes: 10, Percent: true}},
		Labels: model.Labels{}, Annotations: model.Labels{}, Types: c.types,
		Requirements: model.NewRequirements(append([]model.Requirement{model.OneOf(model.LabelNodePool, name)}, requirements...)...)}
	c.pools = append(c.pools, p)
	return p
}

// addWorkload adds pods of a Deployment that nobody has placed.
func (c *cluster) addWorkload(name string, replicas int, cpu, memory int64) []*model.Pod {
	class := &model.Class{Key: name, Namespace: "shop", Labels: model.Labels{"app": name}, Scheduler: "default-scheduler",
		Requests: model.Resources{cpu, memory, 0, 1}}
	for i := range replicas {
		c.pods = append(c.pods, &model.Pod{Namespace: "shop", Name: fmt.Sprintf("%s-%02d", name, i), UID: fmt.Sprintf("%s-%02d", name, i), Class: class,
			Owner: model.Owner{Kind: "ReplicaSet", Name: name + "-1", UID: "rs-" + name}, Deployment: name, Ready: true, Created: epoch.Add(-time.Hour),
			Unschedulable: epoch.Add(-time.Hour)})
	}
	return c.pods[len(c.pods)-replicas:]
}

func (c *cluster) addNode(name, instanceType, zone, capacityType string, pool *model.NodePool) *model.Node {
	t := disrupt.FindInstanceType(&model.NodePool{Types: c.types}, instanceType)
	n := &model.Node{Name: name, UID: "uid-" + name, ProviderID: "id-" + name, Capacity: t.Capacity, Allocatable: t.Allocatable, Ready: true,
		ReadySince: epoch.Add(-time.Hour), Created: epoch.Add(-2 * time.Hour), LastPodEvent: epoch.Add(-time.Hour), Annotations: model.Labels{}, Labels: model.Labels{
			model.LabelHostname: name, model.LabelZone: zone, model.LabelCapacityType: capacityType, model.LabelInitialized: "true", model.LabelRegistered: "true"}}
	for k, v := range t.Labels {
		n.Labels[k] = v
	}
	if pool != nil {
		n.Labels[model.LabelNodePool], n.Claim = pool.Name, "claim-"+name
		c.claim = append(c.claim, &model.Claim{Name: n.Claim, UID: "uid-" + n.Claim, Pool: pool.Name, NodeName: name, ProviderID: n.ProviderID, Created: n.Created,
			Capacity: t.Capacity, Allocatable: t.Allocatable, Labels: model.Labels{}, Annotations: model.Labels{}, ExpireAfter: -1, TerminationGracePeriod: -1,
			Conditions: map[string]model.Condition{"Launched": {Status: "True"}, "Registered": {Status: "True"}, "Initialized": {Status: "True"}}})
	}
	c.nodes = append(c.nodes, n)
	return n
}

// bind puts pods on a node.
func (c *cluster) bind(n *model.Node, pods ...*model.Pod) {
	for _, p := range pods {
		p.Node, p.Unschedulable, p.Bound, p.ReadySince = n.Name, time.Time{}, epoch.Add(-time.Hour), epoch.Add(-time.Hour)
	}
}

// settle launches nodes for the pods that have none, as decide would.
func (c *cluster) settle() {
	out := decide.WhatIf(c.snapshot(), epoch, decide.DefaultPolicy())
	for i, n := range out.Result.New {
		pool := c.pools[slices.IndexFunc(c.pools, func(p *model.NodePool) bool { return p.Name == n.Pool })]
		node := c.addNode(fmt.Sprintf("n%02d-%d", len(c.nodes), i), n.Type.Name, n.Offering.Zone, n.Offering.CapacityType, pool)
		for _, q := range n.Pods {
			i := slices.IndexFunc(c.pods, func(p *model.Pod) bool { return p.UID == q.UID })
			c.bind(node, c.pods[i])
		}
	}
	if len(out.Result.Refused) > 0 {
		c.t.Fatalf("%d pods of a clean cluster fit nowhere: %+v", len(out.Result.Refused), out.Result.Refused[0].Reasons)
	}
}

func (c *cluster) snapshot() *model.Snapshot {
	s := &model.Snapshot{Templates: model.MarkSuperseded(c.templates), ResourceNames: model.FixedNames(), Claims: c.claim, Pools: c.pools, PDBs: c.pdbs, Limits: c.limits, Namespaces: map[string]model.Labels{"shop": {}}}
	at := map[string]*model.Node{}
	for _, n := range c.nodes {
		own := *n
		own.Pods, own.Used = nil, nil
		at[own.Name] = &own
		s.Nodes = append(s.Nodes, &own)
	}
	slices.SortFunc(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Claims, func(a, b *model.Claim) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.pods, comparePods)
	for _, p := range c.pods {
		if p.Node == "" {
			s.Pending = append(s.Pending, p)
			continue
		}
		n := at[p.Node]
		n.Pods, n.Used = append(n.Pods, p), n.Used.Add(p.Class.Requests)
	}
	return s
}

// examination is what Examine reads of the cluster.
func (c *cluster) examination() Input {
	in := c.in
	in.Snapshot, in.Now, in.Policy, in.Types = c.snapshot(), epoch, decide.DefaultPolicy(), c.types
	return in
}

func (c *cluster) examine() *Report { return Examine(c.examination()) }

// newCluster makes a cluster of a NodePool for both capacity types, with a few workloads packed as decide packs them.
func newCluster(t *testing.T, seed uint64) *cluster {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &cluster{t: t, types: families()}
	c.addPool("default", model.OneOf(model.LabelCapacityType, model.Spot, model.OnDemand))
	for i := range 3 + r.IntN(3) {
		c.addWorkload(fmt.Sprintf("app%d", i), 4+r.IntN(12), 250*(1+r.Int64N(6)), (512<<20)*(1+r.Int64N(6)))
	}
	c.settle()
	return c
}

// wasteful adds a node that is far too large for its few pods, so that what holds it costs dollars. It returns the pods.
func (c *cluster) wasteful(replicas int) (*model.Node, []*model.Pod) {
	n := c.addNode("waste", "r.16", "a", model.OnDemand, c.pools[0])
	pods := c.addWorkload("waste", replicas, 250, 512<<20)
	c.bind(n, pods...)
	return n, pods
}

// template changes the class of pods as a change of their workload's template does.
func template(pods []*model.Pod, change func(*model.Class)) {
	c := *pods[0].Class
	change(&c)
	c.Key += "'"
	for _, p := range pods {
		p.Class = &c
	}
}

func (c *cluster) podsOf(subject string) (out []*model.Pod) {
	for _, p := range c.pods {
		if workloadOf(p) == subject || subject == "pod/"+p.Key() {
			out = append(out, p)
		}
	}
	return out
}

// apply carries out a change on the cluster, as the API server and the controllers would.
func (c *cluster) apply(ch plan.Change) {
	kind, name, _ := strings.Cut(ch.Object, "/")
	switch kind {
	case "nodepool":
		c.applyPool(c.pools[slices.IndexFunc(c.pools, func(p *model.NodePool) bool { return p.Name == name })], ch)
	case "deployment", "pod", "replicaset":
		c.applyPods(c.podsOf(ch.Object), ch)
	case "poddisruptionbudget":
		i := slices.IndexFunc(c.pdbs, func(b *model.PDB) bool { return b.Namespace+"/"+b.Name == name })
		switch ch.Field {
		case "":
			c.pdbs = slices.Delete(c.pdbs, i, i+1)
		case "spec.maxUnavailable":
			c.pdbs[i].MaxUnavailable = ch.Value
		case "spec.minAvailable":
			c.pdbs[i].MinAvailable = ""
		}
	case "node", "nodeclaim":
		c.applyNode(name, ch)
	case "nodegroup":
		for _, t := range c.types {
			for i := range t.Offerings {
				if t.Offerings[i].Labels[model.LabelNodeGroup] == name {
					t.Offerings[i].Remaining++
				}
			}
		}
	case "ec2nodeclass":
		for _, p := range c.pools {
			p.Ready = p.Ready || p.ClassName == name
		}
	case "capacityquota":
		c.applyQuota(c.limits[slices.IndexFunc(c.limits, func(l *model.CapacityLimit) bool { return l.Name == ch.Object })], ch)
	case "resourcequota":
		c.in.FullQuotas = slices.DeleteFunc(c.in.FullQuotas, func(q FullQuota) bool { return q.Namespace+"/"+q.Name == name && ch.Value == q.Twice })
	case "cloudquota":
		c.in.CloudQuotas = slices.DeleteFunc(c.in.CloudQuotas, func(q CloudQuota) bool { return q.Name == name })
	case "writes":
		c.in.Writes = slices.DeleteFunc(c.in.Writes, func(w Write) bool { return w.Text() == ch.Value })
	case "autoscaler":
		c.in.Autoscalers = slices.DeleteFunc(c.in.Autoscalers, func(a Autoscaler) bool { return a.Name == name })
	case "clusterrole":
		c.in.Denied = slices.DeleteFunc(c.in.Denied, func(d Denied) bool { return ch.Value == "list "+d.Resource+"."+d.Group })
	case "catalog":
		t := *c.types[0]
		t.Name = ch.Value
		c.types = append(c.types, &t)
		slices.SortFunc(c.types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	default:
		c.t.Fatalf("the test can't carry out %+v", ch)
	}
}

func (c *cluster) applyQuota(l *model.CapacityLimit, ch plan.Change) {
	v, err := strconv.ParseInt(ch.Value, 10, 64)
	switch {
	case err == nil && ch.Field == "spec.limits.resources.nodes":
		l.Nodes = v
	case err == nil && ch.Field == "spec.limits.resources.cpu":
		l.Most = l.Most.With(model.CPU, v*1000)
	default:
		c.t.Fatalf("the test can't carry out %+v", ch)
	}
}

func (c *cluster) applyPool(p *model.NodePool, ch plan.Change) {
	key, isRequirement := strings.CutPrefix(ch.Field, "spec.template.spec.requirements[")
	key = strings.TrimSuffix(key, "]")
	switch {
	case isRequirement && ch.Op == plan.Add:
		q := p.Requirements.Get(key)
		p.Requirements = replaceRequirement(p.Requirements, model.OneOf(key, append(slices.Clone(q.Values), ch.Value)...))
	case isRequirement:
		p.Requirements = slices.DeleteFunc(slices.Clone(p.Requirements), func(r model.Requirement) bool { return r.Key == key })
	case ch.Field == "spec.disruption.consolidationPolicy":
		p.ConsolidationPolicy = ch.Value
	case ch.Field == "spec.disruption.consolidateAfter":
		p.ConsolidateAfter, _ = time.ParseDuration(ch.Value)
	case strings.HasPrefix(ch.Field, "spec.disruption.budgets["):
		var i int
		if _, err := fmt.Sscanf(ch.Field, "spec.disruption.budgets[%d]", &i); err != nil {
			c.t.Fatalf("%s: %v", ch.Field, err)
		}
		if ch.Op == plan.Remove {
			p.Budgets = slices.Delete(slices.Clone(p.Budgets), i, i+1)
			break
		}
		p.Budgets[i].Nodes, _ = strconv.ParseInt(strings.TrimSuffix(ch.Value, "%"), 10, 64)
		p.Budgets[i].Percent = true
	case ch.Field == "spec.replicas":
		p.Replicas, _ = strconv.ParseInt(ch.Value, 10, 64)
		for _, n := range c.nodesOf(p)[p.Replicas:] {
			c.drain(n)
		}
	case ch.Field == "spec.weight":
		w, _ := strconv.Atoi(ch.Value)
		p.Weight = int32(w)
	case ch.Field == "spec.limits.cpu":
		v, _ := strconv.ParseInt(ch.Value, 10, 64)
		p.Limits = p.Limits.With(model.CPU, v*1000)
	case ch.Field == "spec.limits.memory":
		v, _ := model.ParseAmount(model.Memory, ch.Value)
		p.Limits = p.Limits.With(model.Memory, v)
	case ch.Field == "spec.limits.nodes":
		p.NodeLimit, _ = strconv.ParseInt(ch.Value, 10, 64)
	case strings.HasPrefix(ch.Field, "spec.template.metadata.annotations["):
		clear(p.Annotations)
	default:
		c.t.Fatalf("the test can't carry out %+v", ch)
	}
}

// nodesOf are the nodes of a NodePool.
func (c *cluster) nodesOf(p *model.NodePool) (out []*model.Node) {
	for _, n := range c.nodes {
		if n.Labels[model.LabelNodePool] == p.Name {
			out = append(out, n)
		}
	}
	return out
}

// drain removes a node and leaves its pods pending.
func (c *cluster) drain(n *model.Node) {
	for _, p := range c.pods {
		if p.Node == n.Name {
			p.Node, p.Unschedulable, p.Bound, p.ReadySince, p.Ready = "", epoch, time.Time{}, time.Time{}, false
		}
	}
	c.applyNode(n.Name, plan.Change{Op: plan.Remove})
}

func (c *cluster) applyPods(pods []*model.Pod, ch plan.Change) {
	field := strings.TrimPrefix(ch.Field, "spec.template.")
	switch {
	case ch.Field == "" && ch.Op == plan.Remove:
		for _, p := range pods {
			c.applyNode(p.Node, plan.Change{Op: plan.Remove}) // it was draining, and ends when its last pod has gone
		}
	case field == "metadata.annotations["+disrupt.DoNotDisrupt+"]":
		for _, p := range pods {
			if _, has := c.templates[p.Owner.UID].Annotations[disrupt.DoNotDisrupt]; !has && len(c.templates) > 0 && field != ch.Field {
				continue // nothing changes in the template, so the pods stay
			}
			p.DoNotDisrupt = ch.Value
		}
	case field == "metadata.annotations["+disrupt.SafeToEvict+"]":
		for _, p := range pods {
			p.SafeToEvict = ch.Value
		}
	case strings.HasPrefix(field, "spec.nodeSelector"), strings.HasPrefix(field, "spec.affinity.nodeAffinity"):
		template(pods, func(c *model.Class) { c.Terms = nil })
	case strings.HasPrefix(field, "spec.affinity.podAntiAffinity"):
		template(pods, func(c *model.Class) { c.AntiAffinity = nil })
	case strings.HasSuffix(field, "resources.requests.cpu"):
		template(pods, func(c *model.Class) { c.Requests = c.Requests.With(model.CPU, 100) })
	case strings.HasSuffix(field, "resources.requests.memory"):
		template(pods, func(c *model.Class) { c.Requests = c.Requests.With(model.Memory, 128<<20) })
	case field == "spec.replicas":
		more := *pods[0]
		more.Name, more.UID = more.Name+"-2", more.UID+"-2"
		c.pods = append(c.pods, &more)
	default:
		c.t.Fatalf("the test can't carry out %+v", ch)
	}
}

func (c *cluster) applyNode(name string, ch plan.Change) {
	byClaim := func(n *model.Node) bool { return n.Name == name || n.Claim == name }
	i := slices.IndexFunc(c.nodes, byClaim)
	switch {
	case ch.Field == "" && ch.Op == plan.Remove, ch.Field == "metadata.finalizers":
		c.claim = slices.DeleteFunc(slices.Clone(c.claim), func(cl *model.Claim) bool { return cl.Name == name || cl.NodeName == name })
		if i >= 0 {
			gone := c.nodes[i]
			c.nodes = slices.Delete(slices.Clone(c.nodes), i, i+1)
			c.pods = slices.DeleteFunc(c.pods, func(p *model.Pod) bool { return p.Node == gone.Name })
		}
	case strings.HasPrefix(ch.Field, "metadata.annotations["):
		clear(c.nodes[i].Annotations)
	case ch.Field == "spec.unschedulable":
		c.nodes[i].Taints = nil
	default:
		c.t.Fatalf("the test can't carry out %+v", ch)
	}
}

// selectorOf selects the pods of a workload.
func selectorOf(pods []*model.Pod) *model.Requirements {
	s := model.NewRequirements(model.OneOf("app", pods[0].Class.Labels["app"]))
	return &s
}

// fault is one thing wrong, and what must be found of it.
type fault struct {
	name  string
	code  Code
	plant func(*cluster) (subject string)
	costs bool // dollars
}

// checkAdvice checks the changes of all findings: each once, of requirements that the NodePool has and somebody wrote, on
// objects that are not written anew by a controller.
func checkAdvice(t *testing.T, c *cluster, r *Report) {
	t.Helper()
	for _, f := range r.Findings {
		for i, ch := range f.Changes {
			if slices.Contains(f.Changes[:i], ch) {
				t.Errorf("%s of %s names %+v twice", f.Code, f.Subject, ch)
			}
			if strings.Contains(ch.Field, ".limits.") && (strings.HasSuffix(ch.Value, "m") || strings.HasSuffix(ch.Value, "i") && !strings.HasSuffix(ch.Value, "Gi") && !strings.HasSuffix(ch.Value, "Ti")) {
				t.Errorf("%s of %s proposes %s: want whole cores and Gi", f.Code, f.Subject, ch.Value)
			}
			kind, name, _ := strings.Cut(string(ch.Object), "/")
			switch kind {
			case "nodepool":
				i := slices.IndexFunc(c.pools, func(p *model.NodePool) bool { return p.Name == name })
				key, isRequirement := strings.CutPrefix(ch.Field, "spec.template.spec.requirements[")
				key, _, _ = strings.Cut(key, "]")
				switch {
				case i < 0:
					t.Errorf("%s of %s: there is no NodePool %s to change", f.Code, f.Subject, name)
				case c.pools[i].Discovered, c.pools[i].Provisioner != "":
					t.Errorf("%s of %s: NodePool %s is written anew when somebody edits it: %+v", f.Code, f.Subject, name, ch)
				case isRequirement && ch.Op == plan.Remove && (c.pools[i].Requirements.Get(key) == nil || c.pools[i].ImpliesLabel(key) || c.pools[i].Labels[key] != ""):
					t.Errorf("%s of %s: NodePool %s has no such requirement: %+v", f.Code, f.Subject, name, ch)
				}
			case "pod":
				for _, p := range c.pods {
					if p.Key() == name && p.Owner.Kind != "" && ch.Field != "" && (ch.Op != plan.Remove || !strings.HasPrefix(ch.Field, "metadata.annotations[")) {
						t.Errorf("%s of %s: the controller of pod %s makes it again without the change %+v", f.Code, f.Subject, p.Name, ch)
					}
				}
			}
		}
	}
}

// TestAdviceOnWrittenPools holds that no change is named of a NodePool that is written anew from its node groups or from its
// Provisioner, whatever is found.
func TestAdviceOnWrittenPools(t *testing.T) {
	for _, f := range faults {
		for _, provisioner := range []string{"", "old"} {
			t.Run(f.name+"/"+provisioner, func(t *testing.T) {
				c := newCluster(t, 1)
				subject := f.plant(c)
				for _, p := range c.pools {
					p.Discovered, p.Provisioner = provisioner == "", provisioner
				}
				r := c.examine()
				if find(r, f.code, subject) == nil && f.code != FewTypes { // types of node groups are the groups' own
					t.Errorf("%s of %s is not found", f.code, subject)
				}
				checkAdvice(t, c, r)
			})
		}
	}
}

func TestPlantedFaults(t *testing.T) {
	if len(faults) < 25 {
		t.Fatalf("%d faults, want 25 at least", len(faults))
	}
	for seed := uint64(1); seed <= 3; seed++ {
		for _, f := range faults {
			t.Run(fmt.Sprintf("%s/%d", f.name, seed), func(t *testing.T) {
				c := newCluster(t, seed)
				subject := f.plant(c)
				before := c.examine()
				got := find(before, f.code, subject)
				if got == nil {
					t.Fatalf("%s of %s is not found; found %s", f.code, subject, describe(before))
				}
				if f.costs && got.SavingMicro <= 0 {
					t.Errorf("%s costs nothing: %+v", f.code, got)
				}
				if len(got.Changes) == 0 {
					t.Fatalf("%s names no change: %+v", f.code, got)
				}
				checkAdvice(t, c, before)
				for _, ch := range got.Changes {
					c.apply(ch)
				}
				after := c.examine()
				if f := find(after, f.code, subject); f != nil {
					t.Errorf("after %+v it is still found: %+v", got.Changes, f)
				}
				saved := before.ConsolidatedMicro - after.ConsolidatedMicro
				if f.code == NodeEmpty { // consolidation removes it too
					saved = before.NowMicro - after.NowMicro
				}
				const noise = 100 // of the solver: a hundredth of what the cluster costs
				if got.SavingMicro > 0 && saved < got.SavingMicro-before.NowMicro/noise {
					t.Errorf("%+v saves $%s an hour, but $%s is promised", got.Changes, model.Dollars(saved), model.Dollars(got.SavingMicro))
				}
			})
		}
	}
}

// What keeps pods on an interrupted node keeps its drain from ending only until the cloud ends the instance.
func TestInterruptedNodeIsNotHeld(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		c := newCluster(t, 1)
		n, pods := c.wasteful(2)
		n.Deleting = epoch.Add(-time.Minute)
		for _, p := range pods {
			p.DoNotDisrupt = "true"
		}
		if interrupted {
			c.claim[len(c.claim)-1].Annotations[clusterview.AnnotationInterrupted] = `{"kind":"SpotInterruption","seen":"2026-07-01T11:59:00Z","at":"2026-07-01T12:01:00Z"}`
		}
		if found := find(c.examine(), PodDoNotDisrupt, "deployment/shop/waste") != nil; found == interrupted {
			t.Errorf("interrupted %t: found %t", interrupted, found)
		}
	}
}

// While a rollout adds requests, the pods of the older revision, which it removes, are no reason to change the template.
func TestRequestsOfOlderRevision(t *testing.T) {
	c := newCluster(t, 1)
	pods := c.podsOf("deployment/shop/app0")
	template(pods[:2], func(cl *model.Class) { cl.Requests = cl.Requests.With(model.CPU, 0) })
	for _, p := range pods[:2] {
		p.Owner.UID = "rs-old"
	}
	c.templates = map[string]model.Template{"rs-old": {Deployment: "app0", Revision: 1}, "rs-app0": {Deployment: "app0", Revision: 2}}
	if f := find(c.examine(), NoRequests, "deployment/shop/app0"); f != nil {
		t.Errorf("found %+v", f)
	}
	c.templates["rs-old"] = model.Template{Deployment: "app0", Revision: 3} // rolled back
	if f := find(c.examine(), NoRequests, "deployment/shop/app0"); f == nil || len(f.Pods) != 2 {
		t.Errorf("after a rollback, found %+v, want two pods", f)
	}
}

// A budget that allows nothing for two hours is no finding, whatever other windows there are: the report says when it ends, and the figures are
// for then.
func TestPausedConsolidation(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		c := newCluster(t, seed)
		c.wasteful(3)
		free := c.examine()
		r := rand.New(rand.NewPCG(seed, 2))
		c.pools[0].Budgets = append(c.pools[0].Budgets, model.Budget{Nodes: 0, Percent: r.IntN(2) == 0, Schedule: "30 11 1 7 *", Duration: 2 * time.Hour})
		until := epoch.Add(90 * time.Minute)
		if r.IntN(2) == 0 { // the next one begins before it ends
			c.pools[0].Budgets = append(c.pools[0].Budgets, model.Budget{Nodes: 0, Schedule: "0 13 * * *", Duration: time.Hour})
			until = epoch.Add(2 * time.Hour)
		}
		got := c.examine()
		if len(got.Findings) != len(free.Findings) || got.ConsolidatedMicro != free.ConsolidatedMicro {
			t.Errorf("seed %d: found %s, consolidated $%s; without the budget %s, $%s", seed, describe(got), model.Dollars(got.ConsolidatedMicro), describe(free), model.Dollars(free.ConsolidatedMicro))
		}
		if len(got.Paused) != 1 || got.Paused[0].Subject != "nodepool/default" || !got.Paused[0].Until.Equal(until) {
			t.Errorf("seed %d: paused %+v, want nodepool/default until %s", seed, got.Paused, until)
		}
	}
}

// What the status of a NodePool says of its launches and of its drift is found, in the condition's words, for as long as it is so.
func TestConditionsOfPoolsAreFound(t *testing.T) {
	for code, condition := range map[Code]string{UnusedLaunches: unused.ConditionType, DriftBackOff: decide.ConditionDriftBackOff} {
		for _, status := range []string{"True", "False"} {
			c := newCluster(t, 1)
			c.pools[0].Conditions = map[string]model.Condition{condition: {Status: status, Reason: "Cause", Message: "3 times so far"}}
			f := find(c.examine(), code, "nodepool/default")
			if (f != nil) != (status == "True") || f != nil && (f.Severity != Broken || f.Have != "3 times so far") {
				t.Errorf("%s is %s: %+v", condition, status, f)
			}
		}
	}
}

// Pods whose plan verify refuses are told as such, and not the others; no change is named, as none that people could make helps.
func TestRefusedPlanIsTold(t *testing.T) {
	c := newCluster(t, 1)
	c.addWorkload("refused", 2, 250, 1<<30)
	c.addWorkload("honest", 2, 250, 1<<30)
	x := newExam(c.examination())
	x.plan = func(s *model.Snapshot, now time.Time, pol decide.Policy) (decide.Output, error) {
		left := demand.Withheld{Why: plan.Reason{Code: plan.PlanRefused, Detail: plan.OfPlanRefused{Rule: "capacity", Said: "too small"}}}
		for _, p := range s.Pending {
			if p.Deployment == "refused" {
				left.Pods = append(left.Pods, p)
			}
		}
		return decide.WhatIfWithout(s, now, pol, []demand.Withheld{left}), nil
	}
	x.compare()
	got := x.findUnplaceable()
	if len(got) != 1 || got[0].Subject != "deployment/shop/refused" || got[0].Reason.Code != plan.PlanRefused || len(got[0].Pods) != 2 || len(got[0].Changes) > 0 {
		t.Errorf("found %+v, want the two pods of deployment/shop/refused", got)
	}
}

// Events that tell of one object for many are one finding of as many, whatever number each of them says; what was last said of a write to an object counts, and what is said of
// another write to it doesn't matter.
func TestDeniedWritesOfMany(t *testing.T) {
	const cost, slots, frozen, missing = "set the deletion cost of this Pod", "update the slots of this NodeClaim", "ValidatingAdmissionPolicy 'frozen' denied request: no", "User \"dovetail\" cannot patch resource \"pods\""
	c := newCluster(t, 1)
	denied := func(subject, write string, others int, why string, ago time.Duration) {
		c.in.Writes = append(c.in.Writes, Write{subject, epoch.Add(-ago), plan.WriteReport{Write: write, Others: others, Refusal: why}})
	}
	denied("pod/default/a", cost, 0, frozen, 14*time.Minute)
	denied("pod/default/a", cost, 57, missing, 3*time.Minute)
	denied("pod/default/a", cost, 9, missing, 13*time.Minute)
	denied("pod/default/b", cost, 56, missing, 2*time.Minute)
	denied("nodeclaim/c", slots, 0, frozen, 9*time.Minute)
	c.in.Writes = append(c.in.Writes, Write{"nodeclaim/c", epoch, plan.WriteReport{Write: "update the annotations and status of this NodeClaim"}})
	var got []string
	for _, f := range c.examine().Findings {
		got = append(got, fmt.Sprint(f.Code, " ", f.Subject, " ", f.Key, " ", f.Pods, ": ", f.Have))
	}
	want := []string{"WriteDenied nodeclaim/c 1 []: " + plan.WriteReport{Write: slots, Refusal: frozen}.Text(), "WriteDenied pod/default/a 58 [default/a default/b]: " + plan.WriteReport{Write: cost, Refusal: missing}.Text()}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func find(r *Report, code Code, subject string) *Finding {
	for i := range r.Findings {
		if r.Findings[i].Code == code && r.Findings[i].Subject == subject {
			return &r.Findings[i]
		}
	}
	return nil
}

func describe(r *Report) string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%s %s %s=%s", f.Code, f.Subject, f.Key, f.Have))
	}
	return strings.Join(out, "; ")
}

func TestCleanClusterHasNoFindings(t *testing.T) {
	for seed := uint64(1); seed <= 30; seed++ {
		r := newCluster(t, seed).examine()
		if len(r.Findings) > 0 {
			t.Errorf("seed %d: %s", seed, describe(r))
		}
		if r.Nodes == 0 || r.NowMicro == 0 {
			t.Errorf("seed %d: there was nothing to examine: %+v", seed, r.Compared)
		}
	}
}

// TestFiguresAreOrdered holds the four figures to their order in clusters with several faults at once, and equal input
// to equal output.
func TestFiguresAreOrdered(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		c := newCluster(t, seed)
		_, pods := c.wasteful(3)
		if r.IntN(2) == 0 {
			pods[0].DoNotDisrupt = "true"
		}
		c.nodes[r.IntN(len(c.nodes))].Annotations[disrupt.DoNotDisrupt] = "true"
		a := c.examine()
		if a.LeastMicro > a.RepackedMicro || a.RepackedMicro > a.ConsolidatedMicro || a.ConsolidatedMicro > a.TodayMicro() || a.LeastMicro <= 0 {
			t.Errorf("seed %d: %+v", seed, a.Compared)
		}
		if b := c.examine(); !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: the same cluster examined twice differs", seed)
		}
	}
}

// Pods that wait for a NodePool at its limit keep nobody from hearing what the others could cost: they are set aside and
// named, and what holds the nodes of running pods costs what it costs without them.
func TestPodsAtALimitAreSetAside(t *testing.T) {
	for name, limit := range map[string]func(*model.NodePool, model.Resources, int){
		"cpu": func(p *model.NodePool, used model.Resources, _ int) {
			p.Limits, p.HasLimit = model.Resources{used.At(model.CPU)}, []bool{true}
		},
		"memory": func(p *model.NodePool, used model.Resources, _ int) {
			p.Limits, p.HasLimit = model.Resources{0, used.At(model.Memory)}, []bool{false, true}
		},
		"nodes": func(p *model.NodePool, _ model.Resources, nodes int) { p.NodeLimit = int64(nodes) },
		"less than it has": func(p *model.NodePool, used model.Resources, _ int) {
			p.Limits, p.HasLimit = model.Resources{used.At(model.CPU) - 1}, []bool{true}
		},
	} {
		t.Run(name, func(t *testing.T) { testSetAside(t, limit) })
	}
}

func testSetAside(t *testing.T, limit func(p *model.NodePool, used model.Resources, nodes int)) {
	for seed := uint64(1); seed <= 10; seed++ {
		c := newCluster(t, seed)
		_, pods := c.wasteful(3)
		pods[0].DoNotDisrupt = "true"
		var used model.Resources
		for _, n := range c.nodes {
			used = used.AddInto(n.Capacity, 1)
		}
		limit(c.pools[0], used, len(c.nodes))
		without := c.examine()
		c.addWorkload("waits", 12, 15_800, 8<<30) // more than any node has free
		with := c.examine()
		if len(with.SetAside) != 12 || with.Pending != 12 {
			t.Fatalf("seed %d: %d of %d pending pods are set aside", seed, len(with.SetAside), with.Pending)
		}
		if with.LeastMicro != without.LeastMicro || with.RepackedMicro != without.RepackedMicro || with.ConsolidatedMicro != without.ConsolidatedMicro {
			t.Errorf("seed %d: %+v\nwithout the pods that wait: %+v", seed, with.Compared, without.Compared)
		}
		if find(with, LimitReached, "nodepool/default") == nil || find(with, LimitNear, "nodepool/default") != nil {
			t.Errorf("seed %d: the limit is to be told once, as reached: %s", seed, describe(with))
		}
		was, now := find(without, PodDoNotDisrupt, "deployment/shop/waste"), find(with, PodDoNotDisrupt, "deployment/shop/waste")
		limited := was != nil && slices.Equal(was.AlsoHeld, []Code{LimitBlocks}) // its node needs a replacement
		if was == nil || (was.SavingMicro == 0) != limited || now == nil || now.SavingMicro != was.SavingMicro || !slices.Equal(now.AlsoHeld, was.AlsoHeld) {
			t.Errorf("seed %d: the pod that holds a node: %+v, without the pods that wait: %+v", seed, now, was)
		}
	}
}

// A replacement is launched before the node that it replaces goes, so a limit in full use allows only what needs no replacement, and what that leaves room for. The
// rest of what could be saved is the limit's finding.
func TestLimitsOfReplacements(t *testing.T) {
	for name, limit := range map[string]func(*cluster){
		"cpu": func(c *cluster) {
			c.pools[0].Limits, c.pools[0].HasLimit = model.Resources{16_000 * int64(len(c.nodes))}, []bool{true}
		},
		"nodes": func(c *cluster) { c.pools[0].NodeLimit = int64(len(c.nodes)) },
		"quota": func(c *cluster) { c.addQuota("all").Nodes = int64(len(c.nodes)) },
		"cpu and memory": func(c *cluster) {
			c.pools[0].Limits, c.pools[0].HasLimit = model.Resources{16_000 * int64(len(c.nodes)), 128 << 30 * int64(len(c.nodes))}, []bool{true, true}
		},
		"cpu and quota": func(c *cluster) {
			c.pools[0].Limits, c.pools[0].HasLimit = model.Resources{16_000 * int64(len(c.nodes))}, []bool{true}
			c.addQuota("all").Nodes = int64(len(c.nodes))
		},
	} {
		for cpu, some := range map[int64]bool{1700: false, 1000: true} { // pods of 1000m fit on three of the four nodes
			c := newCluster(t, 1)
			c.scatter(cpu)
			free := c.examine()
			limit(c)
			got := c.examine()
			blocked := find(got, LimitBlocks, "nodepool/default")
			if name == "quota" {
				blocked = find(got, LimitBlocks, c.limits[0].Name)
			}
			switch saved := got.TodayMicro() - got.ConsolidatedMicro; {
			case free.ConsolidatedMicro >= free.TodayMicro() || find(free, LimitBlocks, "nodepool/default") != nil:
				t.Errorf("%s, pods of %dm: without a limit: %s", name, cpu, describe(free))
			case saved > 0 != some:
				t.Errorf("%s, pods of %dm: $%s an hour is saved within the limit", name, cpu, model.Dollars(saved))
			case blocked == nil != (got.ConsolidatedMicro == free.ConsolidatedMicro), blocked != nil && blocked.SavingMicro != got.ConsolidatedMicro-free.ConsolidatedMicro, blocked == nil && !some:
				t.Errorf("%s, pods of %dm: %s; $%s an hour within the limit, $%s without", name, cpu, describe(got), model.Dollars(got.ConsolidatedMicro), model.Dollars(free.ConsolidatedMicro))
			}
			if blocked != nil {
				if len(blocked.Changes) != len(blocked.Others)+1 || (len(blocked.Others) > 0) != strings.Contains(name, " and ") && !some {
					t.Errorf("%s, pods of %dm: limits %+v with %+v", name, cpu, blocked, blocked.Others)
				}
				for _, near := range got.Findings {
					is := func(l Limit) bool { return near.Subject == l.Subject && near.Key == l.Key }
					if near.Code == LimitNear && (is(Limit{Subject: blocked.Subject, Key: blocked.Key}) || slices.ContainsFunc(blocked.Others, is)) {
						t.Errorf("%s, pods of %dm: the limit that blocks is told as near too: %+v", name, cpu, near)
					}
				}
				for _, ch := range blocked.Changes {
					c.apply(ch)
				}
				if after := c.examine(); after.ConsolidatedMicro != free.ConsolidatedMicro {
					t.Errorf("%s, pods of %dm: after %+v consolidation leads to $%s an hour, without a limit to $%s", name, cpu, blocked.Changes, model.Dollars(after.ConsolidatedMicro), model.Dollars(free.ConsolidatedMicro))
				}
			}
		}
	}
}

// A limit that keeps nodes of one NodePool from being replaced holds no node of another: a pod there that may not be disrupted costs nothing, if its node is full.
func TestLimitHoldsItsOwnNodesAlone(t *testing.T) {
	c := newCluster(t, 1)
	c.scatter(1700).NodeLimit = 4
	other := c.addPool("other", model.OneOf(model.LabelCapacityType, model.OnDemand))
	c.bind(c.addNode("full", "c.2", "a", model.OnDemand, other), c.addWorkload("full", 1, 1900, 3<<30)...)
	for _, name := range []string{"wide0", "wide1", "wide2", "wide3", "full"} {
		pods, pool := c.podsOf("deployment/shop/"+name), "default"
		if name == "full" {
			pool, pods[0].DoNotDisrupt = "other", "true"
		}
		template(pods, func(cl *model.Class) {
			cl.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, pool))}}
		})
	}
	r := c.examine()
	if find(r, LimitBlocks, "nodepool/default") == nil {
		t.Fatalf("the limit blocks nothing: %s", describe(r))
	}
	if f := find(r, PodDoNotDisrupt, "deployment/shop/full"); f == nil || f.Severity != Risky || f.SavingMicro != 0 || len(f.AlsoHeld) > 0 {
		t.Errorf("%+v, want nothing that it costs", f)
	}
}

// A number is named of a static NodePool only if all its nodes go: which of them a lower number removes is the controller's choice.
func TestStaticPoolThatKeepsANode(t *testing.T) {
	c := newCluster(t, 1)
	p := c.addPool("static", model.OneOf(model.LabelCapacityType, model.OnDemand))
	p.Weight, p.Replicas = 1, 3
	for i := range 3 {
		name := fmt.Sprintf("still%d", i)
		pods := c.addWorkload(name, 2, 250, 1<<30)
		c.bind(c.addNode(name, "r.16", "a", model.OnDemand, p), pods...)
		if i == 0 {
			template(pods, func(cl *model.Class) {
				cl.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "static"))}}
			})
		}
	}
	if f := find(c.examine(), StaticPool, "nodepool/static"); f == nil || f.Priced || f.SavingMicro != 0 || len(f.Changes) > 0 || f.HeldMicro == 0 {
		t.Errorf("%+v, want no change and nothing promised", f)
	}
}

// TestHeldDrain holds what is said of a PodDisruptionBudget that never allows an eviction to all its pods and nodes, those that are being
// deleted and those without a price too, and the figures to pods staying where they can't be evicted.
func TestHeldDrain(t *testing.T) {
	examine := func(maxUnavailable string, grace time.Duration) *Report {
		c := newCluster(t, 1)
		pods := c.addWorkload("web", 5, 250, 512<<20)
		c.bind(c.addNode("stays", "r.16", "a", model.OnDemand, c.pools[0]), pods[:1]...)
		c.bind(c.addNode("leaves", "r.16", "a", model.OnDemand, c.pools[0]), pods[1:3]...)
		odd := c.addNode("odd", "r.16", "a", model.OnDemand, c.pools[0])
		odd.Labels[model.LabelInstanceType] = "odd.large"
		c.bind(odd, pods[3:]...)
		leaving := c.claim[slices.IndexFunc(c.claim, func(cl *model.Claim) bool { return cl.NodeName == "leaves" })]
		leaving.Deleting, leaving.TerminationGracePeriod = epoch.Add(-time.Minute), grace
		c.pdbs = []*model.PDB{{Namespace: "shop", Name: "web", Selector: selectorOf(pods), MaxUnavailable: maxUnavailable, DisruptionsAllowed: 0, Expected: 5, Healthy: 5}}
		return c.examine()
	}
	r := examine("0", -1)
	f := find(r, PDBNeverAllows, "poddisruptionbudget/shop/web")
	if f == nil || f.Severity != Broken || len(f.Pods) != 5 || len(f.Nodes) != 3 || !slices.Equal(f.Draining, []string{"leaves"}) || f.DrainingMicro != 16*63_000 || f.SavingMicro < f.DrainingMicro {
		t.Errorf("%+v", f)
	}
	if &r.Findings[0] != f {
		t.Errorf("it is not the first: %s", describe(r))
	}
	free := examine("1", -1)
	if f := find(free, PDBNeverAllows, "poddisruptionbudget/shop/web"); f != nil || r.ConsolidatedMicro-free.ConsolidatedMicro < 16*63_000 {
		t.Errorf("%+v, consolidated %d with it and %d without", f, r.ConsolidatedMicro, free.ConsolidatedMicro)
	}
	forced := examine("0", time.Hour)
	if f := find(forced, PDBNeverAllows, "poddisruptionbudget/shop/web"); f == nil || f.Severity == Broken || len(f.Draining) > 0 || forced.ConsolidatedMicro >= r.ConsolidatedMicro {
		t.Errorf("%+v, consolidated %d", f, forced.ConsolidatedMicro)
	}
}

// TestPodsWithoutPools: pods that wait while there is no NodePool are found if the autoscalers that run need one, or nothing is known that could give them
// a node.
func TestPodsWithoutPools(t *testing.T) {
	for _, x := range []struct {
		running []string
		pool    bool // there is one that is not Ready
		bare    bool // there are no nodes
		found   int
	}{{[]string{"Dovetail"}, false, false, 1}, {[]string{"Dovetail"}, true, false, 0}, {[]string{"Karpenter"}, false, false, 1},
		{[]string{"Dovetail", "Cluster Autoscaler"}, false, false, 0}, {nil, false, false, 0}, {nil, false, true, 1}} {
		c := newCluster(t, 1)
		if c.pools = c.pools[:1]; x.pool {
			c.pools[0].Ready = false
		} else {
			c.pools = nil
		}
		if x.bare {
			c.nodes, c.pods = nil, nil
		}
		c.addWorkload("web", 3, 500, 1<<30)
		for _, name := range x.running {
			c.in.Autoscalers = append(c.in.Autoscalers, Autoscaler{Name: name, Lease: "kube-system/" + name})
		}
		n := 0
		for _, f := range c.examine().Findings {
			if f.Code == Unplaceable && f.Reason.Code == plan.NoPools && len(f.Pods) == 3 {
				n++
			}
		}
		if n != x.found {
			t.Errorf("%v: %d findings, want %d", x.running, n, x.found)
		}
	}
}

// TestClusterOfAnotherAutoscaler examines nodes of no NodePool: they are compared with what any instance type offers.
func TestClusterOfAnotherAutoscaler(t *testing.T) {
	c := newCluster(t, 1)
	c.wasteful(3)
	c.pools, c.claim = nil, nil
	for _, n := range c.nodes {
		n.Claim = ""
		delete(n.Labels, model.LabelNodePool)
	}
	r := c.examine()
	if !r.Assumed || r.NowMicro == 0 || r.LeastMicro == 0 || r.ConsolidatedMicro >= r.NowMicro || len(r.Findings) > 0 {
		t.Errorf("%+v %s", r.Compared, describe(r))
	}
	if r.Moves.Removed == 0 || r.Moves.Pods < 3 {
		t.Errorf("moves: %+v", r.Moves)
	}
}

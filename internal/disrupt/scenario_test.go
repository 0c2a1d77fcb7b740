// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

var epoch = time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC) // a Wednesday at noon

// A scenario describes a cluster, one thing a line, and asks. Instants are distances from Wednesday noon.
//
//	pool NAME [policy=empty|balanced|all] [restart=VALUE] [after=DURATION|Never] [budget=N|N%[;REASON,…][;CRON_WITH_UNDERSCORES;DURATION]] [replicas=N]
//	     [rules=local,custom,system:AGE,replicas:N,add:DELAY,delete:DELAY,failure:DELAY,own,cutoff:N]     (of its node groups; own: delays count per group)
//	type NAME cpu=N mem=NGi price=DOLLARS [spot=DOLLARS] [reserved=DOLLARS:N] [zoneb=DOLLARS] [gone]
//	     (offered to every pool, in zone a unless said; gone: not to be had on demand)
//	only KEY=A,B,…                           what every pool requires
//	off                                      no replacement can be reserved
//	no-spot-to-spot                          the feature gate SpotToSpotConsolidation is off
//	tolerate                                 kube-scheduler places the successors of evicted pods
//	set KNOB=DURATION                        horizon, start or boot of the policy
//	node NAME pool=P type=T [annotate=KEY] [quiet=AT] [uninitialized] [nominated] [going] [keep=AT] [grace] [taint=KEY] [capacity=TYPE] [group=NAME]
//	pods NAME [xN] cpu=N mem=NGi on=NODE[,NODE…] [app=A] [bare] [daemon] [dnd=VALUE] [evict=VALUE] [restart=VALUE] [cost=N] [priority=N] [unready] [leaving]
//	     [tolerate=KEY|*] [stays] [apart] [select=KEY:VALUE] [took=DURATION] [volume=NAME] [kind=KIND] [system] [age=DURATION]     (on: in turn; stays: dovetail or Cluster Autoscaler leaves the DaemonSet's pod on the node; took: to start, as measured)
//	pdb NAME app=A allowed=N [unready] [system]
//	returns PODS [xN] in=DURATION            so many pods like these are expected back
//	now AT
//	launched|removed|failed AT [GROUP]       when a node of a node group last was; no group: of any
//	blockers NODE CAUSE [first]              what keeps a node
//	allow POOL CAUSE total=N down=N [going=N]     how many more nodes its budgets let go
//	consolidate [left=[POOL:]N] [in-transit=PODS]   the best commands
//	replace NODE                             the command that replaces it, whatever its price
//	end                                      consolidate until nothing pays any more, and say what that came to
type scenario struct {
	t            failer
	now          time.Time
	pools        []*model.NodePool
	types        []*model.InstanceType
	nodes        []*Candidate
	pods         map[string][]*model.Pod
	pdbs         []*model.PDB
	mem          Memory
	pol          Policy
	unreservable bool // no replacement can be reserved
	unbound      bool // successors are not bound
	activity     map[string]GroupActivity
	scaleUps     []ScaleUp       // pods that are expected back
	choose       func(n int) int // which of so many pods comes, or nodes is taken; nil: the first
	out          strings.Builder
	next         int
}

// failer is a test, or one draw of a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newScenario(t failer) *scenario {
	return &scenario{t: t, now: epoch, pods: map[string][]*model.Pod{}, pol: DefaultPolicy()}
}

func (x *scenario) fatal(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf(format, args...)
}

func (x *scenario) say(format string, args ...any) { fmt.Fprintf(&x.out, format+"\n", args...) }

func (x *scenario) parseDuration(s string) time.Duration {
	if s == "Never" {
		return -1
	}
	d, err := time.ParseDuration(strings.TrimPrefix(s, "+"))
	if err != nil {
		x.fatal("%v", err)
	}
	return d
}

func (x *scenario) parseInt(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		x.fatal("%v", err)
	}
	return n
}

func (x *scenario) withAmount(r model.Resources, k, v string) model.Resources {
	switch k {
	case "cpu":
		if m, ok := strings.CutSuffix(v, "m"); ok {
			return r.With(model.CPU, x.parseInt(m))
		}
		return r.With(model.CPU, x.parseInt(v)*1000)
	case "mem":
		return r.With(model.Memory, x.parseInt(strings.TrimSuffix(v, "Gi"))<<30)
	}
	x.fatal("amount %s=%s", k, v)
	return nil
}

func (x *scenario) poolNamed(name string) *model.NodePool {
	for _, p := range x.pools {
		if p.Name == name {
			return p
		}
	}
	x.fatal("no pool %s", name)
	return nil
}

func (x *scenario) candidateNamed(name string) *Candidate {
	for _, u := range x.nodes {
		if u.Node.Name == name {
			return u
		}
	}
	x.fatal("no node %s", name)
	return nil
}

func (x *scenario) runLine(f []string) {
	name, opts := "", [][2]string{}
	for i, o := range f[1:] {
		k, v, _ := strings.Cut(o, "=")
		if i == 0 && v == "" {
			name = o
			continue
		}
		opts = append(opts, [2]string{k, v})
	}
	switch f[0] {
	case "pool":
		x.addPool(name, opts)
	case "type":
		x.addType(name, opts)
	case "node":
		x.addNode(name, opts)
	case "pods":
		x.addPods(name, opts)
	case "pdb":
		b := &model.PDB{Namespace: "default", Name: name}
		for _, o := range opts {
			switch o[0] {
			case "app":
				q := model.NewRequirements(model.OneOf("app", o[1]))
				b.Selector = &q
			case "allowed":
				b.DisruptionsAllowed = int32(x.parseInt(o[1]))
			case "unready":
				b.AlwaysAllowUnready = true
			case "system":
				b.Namespace = "kube-system"
			}
		}
		x.pdbs = append(x.pdbs, b)
	case "returns":
		r := ScaleUp{Workload: "deployment/default/" + name, Pods: 1, Requests: x.pods[name][0].Class.Requests}
		for _, o := range opts {
			if n, ok := strings.CutPrefix(o[0], "x"); ok && o[1] == "" {
				r.Pods = int(x.parseInt(n))
			} else {
				r.After = x.parseDuration(o[1])
			}
		}
		x.scaleUps = append(x.scaleUps, r)
	case "off":
		x.unreservable, x.unbound = true, true
	case "no-spot-to-spot":
		x.pol.NoSpotToSpot = true
	case "tolerate":
		x.unbound = true
	case "only":
		for i, p := range x.pools {
			q := *p
			q.Requirements = q.Requirements.With(model.OneOf(opts[0][0], strings.Split(opts[0][1], ",")...))
			x.pools[i] = &q
		}
	case "set":
		d := x.parseDuration(opts[0][1])
		switch opts[0][0] {
		case "horizon":
			x.pol.Horizon = d
		case "start":
			x.pol.DefaultStartTime = d
		case "boot":
			x.pol.DefaultBootTime = d
		default:
			x.fatal("knob %s", opts[0][0])
		}
	case "now":
		x.now = epoch.Add(x.parseDuration(name))
	case "launched", "removed", "failed":
		group := ""
		if len(f) > 2 {
			group = f[2]
		}
		if x.activity == nil {
			x.activity = map[string]GroupActivity{}
		}
		a := x.activity[group]
		*map[string]*time.Time{"launched": &a.Launched, "removed": &a.Removed, "failed": &a.Failed}[f[0]] = epoch.Add(x.parseDuration(name))
		x.activity[group] = a
	case "blockers":
		x.say("%s", strings.Join(f, " "))
		for _, r := range x.guard().Blockers(x.candidateOf(x.candidateNamed(name)), plan.Code(f[2]), len(f) > 3) {
			x.say("  %s", reasonText(r))
		}
	case "allow":
		var n NodeCount
		for _, o := range opts[1:] {
			switch o[0] {
			case "total":
				n.Total = x.parseInt(o[1])
			case "going":
				n.Going = x.parseInt(o[1])
			default:
				n.Unavailable = x.parseInt(o[1])
			}
		}
		left, why := AllowedDisruptions(x.poolNamed(name), n, plan.Code(f[2]), x.now)
		x.say("allow %s %s: %d (%s)", name, f[2], left, reasonText(why))
	case "consolidate":
		in := x.input()
		for i, f := range f[1:] {
			k, v, _ := strings.Cut(f, "=")
			switch k {
			case "left":
				pool, n, one := strings.Cut(v, ":")
				if !one {
					n = v
				}
				for p := range in.BudgetLeft {
					if !one || p == pool {
						in.BudgetLeft[p] = x.parseInt(n)
					}
				}
			case "in-transit":
				in.UnboundInTransit = x.pods[v]
			default:
				x.fatal("consolidate option %d %s", i, f)
			}
		}
		var list []*Command
		list, x.mem = Consolidate(in, x.pol, solve.DefaultPolicy(), x.mem)
		x.say("consolidate")
		if len(list) == 0 {
			x.say("  nothing pays")
			for _, u := range in.Candidates {
				if why := x.mem.WhyKept(u.Node.Name); why.Code != "" {
					x.say("  %s: %s", u.Node.Name, reasonText(why))
				}
			}
			return
		}
		for _, m := range list {
			x.describe(m)
		}
		if all := list[0].Batch; all.SavingBoundMicroPerHour > 0 {
			x.say("    saves %s of at most %s with %d evictions", formatDollars(all.SavingMicroPerHour), formatDollars(all.SavingBoundMicroPerHour), all.Evictions)
		}
	case "replace":
		m, why := Replace(x.input(), []*Candidate{x.candidateOf(x.candidateNamed(name))}, plan.Drifted, x.pol, solve.DefaultPolicy())
		x.say("replace %s", name)
		if m == nil {
			x.say("  not possible: %s", reasonText(why))
			return
		}
		x.describe(m)
	case "end":
		x.consolidateToTheEnd()
	default:
		x.fatal("unknown line %q", strings.Join(f, " "))
	}
}

func reasonText(r plan.Reason) string {
	s := string(r.Code)
	f := r.Fields()
	for _, kv := range [][2]string{{"pool", r.Pool}, {"subject", f.Subject}, {"key", f.Key}, {"want", f.Want}, {"have", f.Have}} {
		if kv[1] != "" {
			s += " " + kv[0] + "=" + strconv.Quote(kv[1])
		}
	}
	return s
}

func (x *scenario) describe(m *Command) {
	var from, to []string
	for _, u := range m.Candidates {
		from = append(from, u.Node.Name)
	}
	for _, n := range m.Replacements {
		s := fmt.Sprintf("%s×%d", n.Type.Name, len(n.Pods))
		if n.Offering.CapacityType != model.OnDemand {
			s = n.Offering.CapacityType + " " + s
		}
		for _, t := range n.Choices[1:] {
			s += " or " + t.Name
		}
		if len(n.Zones) > 1 {
			s += " in " + strings.Join(n.Zones, " or ")
		}
		to = append(to, s)
	}
	if len(to) == 0 {
		to = []string{"nothing"}
	}
	x.say("  %s → %s, %d pods on existing nodes, %s → %s an hour", strings.Join(from, " "), strings.Join(to, " "), m.PodsOnExisting, formatDollars(m.OldMicroPerHour), formatDollars(m.NewMicroPerHour))
	for _, pool := range slices.Sorted(maps.Keys(m.BalancedScores)) {
		x.say("    balanced for pool %s: score %.2f", pool, m.BalancedScores[pool])
	}
}

func (x *scenario) addPool(name string, opts [][2]string) {
	p := &model.NodePool{Name: name, UID: name, Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1,
		ConsolidationPolicy: underutilized, Labels: model.Labels{model.LabelNodePool: name},
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, name))}
	for _, o := range opts {
		switch o[0] {
		case "policy":
			p.ConsolidationPolicy = map[string]string{"empty": "WhenEmpty", "balanced": Balanced, "all": underutilized}[o[1]]
		case "most":
			p.Scaling = &model.GroupScaling{UtilizationPercent: int32(x.parseInt(o[1])), GPUPercent: -1}
		case "rules":
			x.rules(p, o[1])
		case "ignore-daemons":
			p.Scaling.IgnoreDaemons = true
		case "after":
			p.ConsolidateAfter = x.parseDuration(o[1])
		case "replicas":
			p.Replicas = x.parseInt(o[1])
		case "restart":
			p.RestartCost = o[1]
		case "budget":
			parts := strings.Split(o[1], ";")
			var b model.Budget
			n, percent := strings.CutSuffix(parts[0], "%")
			b.Nodes, b.Percent = x.parseInt(n), percent
			if len(parts) > 1 && parts[1] != "" {
				b.Reasons = strings.Split(parts[1], ",")
			}
			if len(parts) > 3 {
				b.Schedule, b.Duration = strings.ReplaceAll(parts[2], "_", " "), x.parseDuration(parts[3])
			}
			p.Budgets = append(p.Budgets, b)
		default:
			x.fatal("pool option %s", o[0])
		}
	}
	x.pools = append(x.pools, p)
}

func (x *scenario) addType(name string, opts [][2]string) {
	t := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}}
	o := model.Offering{Zone: "a", CapacityType: model.OnDemand, Available: true, Remaining: -1}
	micro := func(s string) int64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			x.fatal("%v", err)
		}
		return int64(f*1e6 + 0.5)
	}
	var more []model.Offering
	for _, kv := range opts {
		switch kv[0] {
		case "price":
			o.PriceMicro = micro(kv[1])
		case "spot":
			more = append(more, model.Offering{Zone: "a", CapacityType: model.Spot, Available: true, Remaining: -1, PriceMicro: micro(kv[1])})
		case "zoneb":
			more = append(more, model.Offering{Zone: "b", CapacityType: model.OnDemand, Available: true, Remaining: -1, PriceMicro: micro(kv[1])})
		case "reserved":
			price, n, _ := strings.Cut(kv[1], ":")
			more = append(more, model.Offering{Zone: "a", CapacityType: model.Reserved, Available: true, Remaining: x.parseInt(n), PriceMicro: micro(price),
				Labels: model.Labels{"example.com/reservation": "r1"}})
		case "gone":
			o.Available = false
		default:
			t.Allocatable = x.withAmount(t.Allocatable, kv[0], kv[1])
		}
	}
	t.Allocatable = t.Allocatable.With(model.Pods, 110)
	t.Capacity, t.Offerings = t.Allocatable, append([]model.Offering{o}, more...)
	x.types = append(x.types, t)
	slices.SortFunc(x.types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for i, p := range x.pools {
		q := *p
		q.Types = slices.Clone(x.types)
		x.pools[i] = &q
	}
}

func (x *scenario) addNode(name string, opts [][2]string) {
	n := &model.Node{Name: name, UID: name, Ready: true, Annotations: model.Labels{}, Labels: model.Labels{model.LabelHostname: name,
		model.LabelZone: "a", model.LabelCapacityType: model.OnDemand, model.LabelInitialized: "true"}}
	u := &Candidate{Node: n, Claim: &model.Claim{Name: "c-" + name, UID: "c-" + name, TerminationGracePeriod: -1, Annotations: model.Labels{}}, Initialized: true, UnchangedSince: epoch.Add(-time.Hour)}
	for _, o := range opts {
		switch o[0] {
		case "pool":
			u.Pool = x.poolNamed(o[1])
			n.Labels[model.LabelNodePool] = o[1]
		case "type":
			n.Labels[model.LabelInstanceType] = o[1]
			n.Allocatable = FindInstanceType(u.Pool, o[1]).Allocatable
		case "annotate":
			n.Annotations[o[1]] = "true"
		case "quiet":
			u.UnchangedSince = epoch.Add(x.parseDuration(o[1]))
		case "uninitialized":
			u.Initialized = false
			delete(n.Labels, model.LabelInitialized)
		case "nominated":
			u.Nominated = true
		case "going":
			u.CommandID = "m1"
		case "keep":
			u.Claim.Annotations[KeepUntil] = epoch.Add(x.parseDuration(o[1])).Format(time.RFC3339)
		case "grace":
			u.Claim.TerminationGracePeriod = time.Hour
		case "capacity":
			n.Labels[model.LabelCapacityType] = o[1]
		case "group":
			u.Claim.Labels = model.Labels{model.LabelNodeGroup: o[1]}
		case "taint":
			n.Taints = append(n.Taints, model.Taint{Key: o[1], Effect: model.NoSchedule})
		default:
			x.fatal("node option %s", o[0])
		}
	}
	x.nodes = append(x.nodes, u)
}

func (x *scenario) addPods(name string, opts [][2]string) {
	n, on := 1, []string{""}
	class := &model.Class{Namespace: "default", Labels: model.Labels{"app": name}, Requests: model.Resources{}.With(model.Pods, 1), Scheduler: "default-scheduler"}
	pod := model.Pod{Namespace: "default", Class: class, Owner: model.Owner{Kind: "ReplicaSet", Name: name, UID: "rs-" + name}, Ready: true, Bound: epoch.Add(-time.Hour)}
	for _, o := range opts {
		if c, ok := strings.CutPrefix(o[0], "x"); ok && o[1] == "" {
			n = int(x.parseInt(c))
			continue
		}
		switch o[0] {
		case "on":
			on = strings.Split(o[1], ",")
		case "app":
			class.Labels = model.Labels{"app": o[1]}
		case "bare":
			pod.Owner = model.Owner{}
		case "daemon":
			class.Daemon = true
		case "stays":
			pod.DaemonEviction = "false"
		case "tolerate":
			t := model.Toleration{Exists: true}
			if o[1] != "*" {
				t.Key = o[1]
			}
			class.Tolerations = append(class.Tolerations, t)
		case "dnd":
			pod.DoNotDisrupt = o[1]
		case "evict":
			pod.SafeToEvict = o[1]
		case "volume":
			pod.LocalVolume = o[1]
		case "kind":
			pod.Owner.Kind = o[1]
		case "system":
			class.Namespace, pod.Namespace = "kube-system", "kube-system"
		case "age":
			pod.Created = epoch.Add(-x.parseDuration(o[1]))
		case "restart":
			pod.RestartCost = o[1]
		case "cost":
			pod.DisruptionCost = int32(x.parseInt(o[1]))
		case "priority":
			class.Priority = int32(x.parseInt(o[1]))
		case "unready":
			pod.Ready = false
		case "took":
			pod.ReadySince = pod.Bound.Add(x.parseDuration(o[1]))
		case "leaving":
			pod.Deleting = epoch
		case "apart":
			q := model.NewRequirements(model.OneOf("app", name))
			class.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &q}}}
		case "select":
			k, v, _ := strings.Cut(o[1], ":")
			class.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(k, v))}}
		default:
			class.Requests = x.withAmount(class.Requests, o[0], o[1])
		}
	}
	class.Key = fmt.Sprintf("%s %s %v", name, class.Requests.Key(), class.Terms)
	for i := range n {
		p := pod
		p.Name = name
		if n > 1 {
			p.Name += "-" + strconv.Itoa(i)
		}
		p.UID, p.Node = "uid-"+p.Name, on[i%len(on)]
		x.pods[name] = append(x.pods[name], &p)
		if p.Node != "" {
			node := x.candidateNamed(p.Node).Node
			node.Pods = append(node.Pods, &p)
			node.Used = node.Used.Add(class.Requests)
		}
	}
}

// candidateOf is a unit with its pods and price as they are now.
func (x *scenario) candidateOf(u *Candidate) *Candidate {
	slices.SortFunc(u.Node.Pods, model.ComparePodKeys)
	v := NewCandidate(u.Claim, u.Node, x.poolNamed(u.Pool.Name), model.CutoffOf(x.pools))
	v.Initialized, v.UnchangedSince, v.Nominated, v.CommandID = u.Initialized, u.UnchangedSince, u.Nominated, u.CommandID
	return v
}

// guard knows of PodDisruptionBudgets, of what happened to node groups, of expendable pods, and counts pods by their controller.
func (x *scenario) guard() *Eligibility {
	e := NewEligibility(x.pdbs, x.now)
	e.Activity, e.Cutoff = x.activity, model.CutoffOf(x.pools)
	e.CountPods = func(uid string) (n int32) {
		for _, pods := range x.pods {
			for _, p := range pods {
				if p.Owner.UID == uid {
					n++
				}
			}
		}
		return n
	}
	return e
}

// rules adds rules of node groups to a pool.
func (x *scenario) rules(p *model.NodePool, list string) {
	if p.Scaling == nil {
		p.Scaling = &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1}
	}
	for rule := range strings.SplitSeq(list, ",") {
		name, v, _ := strings.Cut(rule, ":")
		switch r := &p.Scaling.Eviction; name {
		case "local":
			r.LocalStorage = true
		case "custom":
			r.CustomControllers = true
		case "system":
			r.SystemPods = x.parseDuration(v)
		case "replicas":
			r.MinReplicas = int32(x.parseInt(v))
		case "add":
			p.Scaling.Delays.AfterAdd = x.parseDuration(v)
		case "delete":
			p.Scaling.Delays.AfterDelete = x.parseDuration(v)
		case "failure":
			p.Scaling.Delays.AfterFailure = x.parseDuration(v)
		case "own":
			p.Scaling.Delays.PerGroup = true
		case "cutoff":
			p.Scaling.Cutoff = model.PriorityCutoff{Set: true, Below: int32(x.parseInt(v))}
		default:
			x.fatal("rule %s", name)
		}
	}
}

func (x *scenario) input() *Input {
	in := &Input{ResourceNames: model.FixedNames(), BudgetLeft: map[string]int64{}, Scope: Wide, PoolTotals: map[string]PoolTotal{}, StartTimes: StartTimes{}, Binds: func([]*model.Pod) bool { return !x.unbound }, ScaleUps: x.scaleUps}
	if x.unreservable {
		in.WhyUnreservable = func(*solve.NewNode) plan.Reason { return plan.Reason{Code: plan.LandingOff} }
	}
	guard := x.guard()
	for _, p := range x.pools {
		in.BudgetLeft[p.Name] = 1000
		in.Pools = append(in.Pools, solve.Pool{NodePool: p, NodesLeft: -1})
	}
	slices.SortFunc(x.nodes, func(a, b *Candidate) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	for _, u := range x.nodes {
		v := x.candidateOf(u)
		n := v.Node
		in.StartTimes.MeasurePods(n)
		in.Nodes = append(in.Nodes, solve.ExistingNode{Name: n.Name, Labels: n.Labels, Taints: n.Taints, Free: n.Allocatable.Sub(n.Used), Allocatable: n.Allocatable, Pods: n.Pods})
		w := in.PoolTotals[v.Pool.Name]
		w.PriceMicro += max(v.PriceMicro, 0)
		w.DisruptionWeight += v.DisruptionWeight()
		in.PoolTotals[v.Pool.Name] = w
		if len(v.Pods) > 0 && len(guard.Blockers(v, plan.Underutilized, true)) == 0 {
			in.Candidates = append(in.Candidates, v)
		}
	}
	return in
}

// touch makes the node another object, as any change of it is.
func (u *Candidate) touch() {
	n := *u.Node
	u.Node, n.Pods = &n, slices.Clone(n.Pods)
}

// clusterPrice is what the cluster costs an hour.
func (x *scenario) clusterPrice() int64 {
	sum := int64(0)
	for _, u := range x.nodes {
		sum += max(x.candidateOf(u).PriceMicro, 0)
	}
	return sum
}

// carryOut does what a command says. Successors are bound to the nodes that the command gives them; where they are not
// (off, tolerate), those without a replacement go to any node that holds them, whichever choose takes.
func (x *scenario) carryOut(m *Command) {
	x.t.Helper()
	for _, u := range m.Candidates {
		x.nodes = slices.DeleteFunc(x.nodes, func(v *Candidate) bool { return v.Node.Name == u.Node.Name })
	}
	place := func(p *model.Pod, to *Candidate) {
		q := *p
		q.Node = to.Node.Name
		if len(p.Class.AntiAffinity) > 0 && slices.ContainsFunc(to.Node.Pods, func(o *model.Pod) bool { return o.Class == p.Class }) {
			x.fatal("node %s has two pods that stand apart", to.Node.Name)
		}
		to.touch()
		to.Node.Pods = append(to.Node.Pods, &q)
		to.Node.Used = to.Node.Used.Add(p.Class.Requests)
		if !to.Node.Used.Fits(to.Node.Allocatable) {
			x.fatal("node %s is overfull", to.Node.Name)
		}
	}
	for _, n := range m.Replacements {
		x.next++
		name := fmt.Sprintf("new%03d", x.next)
		x.addNode(name, [][2]string{{"pool", n.Pool}, {"type", n.Type.Name}, {"capacity", n.Offering.CapacityType}})
		for _, p := range n.Pods {
			place(p, x.candidateNamed(name))
			for _, t := range n.Choices {
				if !x.candidateNamed(name).Node.Used.Fits(t.Allocatable) {
					x.fatal("what comes as a %s does not hold its pods", t.Name)
				}
			}
		}
	}
	var unboundPods []*model.Pod
	for _, a := range m.OnExisting {
		for _, p := range a.Pods {
			if x.unbound {
				unboundPods = append(unboundPods, p)
			} else {
				place(p, x.candidateNamed(a.Node))
			}
		}
	}
	for len(unboundPods) > 0 {
		i := x.chooseOf(len(unboundPods))
		p := unboundPods[i]
		unboundPods = slices.Delete(unboundPods, i, i+1)
		var fits []*Candidate
		for _, u := range x.nodes {
			r := solve.ExistingNode{Name: u.Node.Name, Labels: u.Node.Labels, Taints: u.Node.Taints}
			if p.Class.Requests.Fits(u.Node.Allocatable.Sub(u.Node.Used)) && nodeAdmits(&r, p.Class) {
				fits = append(fits, u)
			}
		}
		if len(fits) == 0 {
			x.fatal("pod %s fits no node", p.Key())
		}
		place(p, fits[x.chooseOf(len(fits))])
	}
}

// chooseOf is one of so many: the first where tie says nothing else.
func (x *scenario) chooseOf(n int) int {
	if x.choose == nil {
		return 0
	}
	return x.choose(n)
}

// consolidateToTheEnd consolidates until nothing pays, and says how many commands that took and how many pods they evicted.
func (x *scenario) consolidateToTheEnd() (commands, pods int) {
	before := x.clusterPrice()
	for ; ; commands++ {
		if commands > 1000 {
			x.fatal("commands don't end")
		}
		var list []*Command
		list, x.mem = Consolidate(x.input(), x.pol, solve.DefaultPolicy(), Memory{})
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			was := x.clusterPrice()
			pods += m.evictions()
			x.carryOut(m)
			if now := x.clusterPrice(); was-now != m.SavingMicroPerHour() || now >= was {
				x.fatal("the command promised to save %d and saved %d", m.SavingMicroPerHour(), was-now)
			}
		}
	}
	x.say("end: %d commands, %d pods evicted, %s → %s an hour on %d nodes", commands, pods, formatDollars(before), formatDollars(x.clusterPrice()), len(x.nodes))
	return commands, pods
}

func runScenario(t testing.TB, input string) string {
	x := newScenario(t)
	for _, line := range strings.Split(input, "\n") {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			x.runLine(f)
		}
	}
	return x.out.String()
}

// TestCases plays the scripts of testdata. See script for the words.
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string { return runScenario(t, input) })
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package verify is a second opinion on a plan: it checks, one rule after the other and without cleverness, that every pod may run
// where the plan puts it, that nothing is overfilled or overspent, and that every pod is answered once.
//
// It shares no code with solve, so that a mistake there is not repeated here, and it never repairs anything: a plan with a
// violation is refused whole (contract 2). Where it must choose, it follows kube-scheduler.
//
// Start reading at Plan.
package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Input is a plan and what it was made from, as plain values.
type Input struct {
	ResourceNames []string
	Rooms         []Room
	Pools         []Pool
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels
	Demand        []*model.Pod

	OnRooms []Placement
	New     []Machine
	Refused []Refusal
	Cost    plan.Cost
}

// Room is a machine that stands or comes.
type Room = model.Room

// Pool is a NodePool and what is left of its limits.
type Pool struct {
	*model.NodePool
	Left      model.Resources
	NodesLeft int64 // negative: not limited
}

// Placement is pods put on a room.
type Placement struct {
	Room string
	Pods []*model.Pod
}

// Machine is one to be bought.
type Machine struct {
	Pool          string
	Type          *model.InstanceType
	Choices       []*model.InstanceType
	Zones         []string
	CapacityTypes []string
	Requirements  model.Requirements
	Pods          []*model.Pod
	PriceMicro    int64
}

// Refusal is a pod not placed.
type Refusal struct {
	Pod     *model.Pod
	Reasons []plan.Reason
}

// Rule names what a violation is of.
type Rule string

// The rules.
const (
	Answer    Rule = "answer"    // every pod is answered once, and a refusal has a reason
	Place     Rule = "place"     // the room or pool exists and takes pods
	Admission Rule = "admission" // taints, labels, names, volumes' places
	Capacity  Rule = "capacity"  // resources, ports, attach limits, exclusive volumes
	Choice    Rule = "choice"    // what a machine may become holds what it is for, and the price is that of the cheapest
	Limits    Rule = "limits"    // of the pool
	Topology  Rule = "topology"  // spread, affinity, anti-affinity
	Price     Rule = "price"     // cost adds up, and no bound is above it
)

// Violation is one broken rule.
type Violation struct {
	Rule   Rule
	Pod    string // where it is about a pod
	Where  string // room, or pool and number of the machine
	Detail string

	pod *model.Pod
}

// String writes it in one line.
func (v Violation) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s: %s", v.Rule, v.Pod, v.Where, v.Detail))
}

// checker gathers violations.
type checker struct {
	in    *Input
	found []Violation
	hosts []*host
	rooms map[string]*Room
	pools map[string]*Pool

	offered  map[string]map[*model.InstanceType]bool // by pool
	variants map[variantKey]*variant
	verdicts map[verdictKey]string
}

// host is a room or a machine with the pods the plan puts there.
type host struct {
	name    string
	labels  model.Labels
	open    map[string]bool // labels it will have, value not certain
	taints  []model.Taint
	pods    []*model.Pod // standing
	planned []*model.Pod
	closed  bool
}

// Plan returns every violation found, none for a plan that may be done.
func Plan(in *Input) []Violation {
	c := &checker{in: in, rooms: map[string]*Room{}, pools: map[string]*Pool{}, offered: map[string]map[*model.InstanceType]bool{},
		variants: map[variantKey]*variant{}, verdicts: map[verdictKey]string{}}
	wanted := map[string]bool{}
	for _, a := range in.OnRooms {
		wanted[a.Room] = true
	}
	for i := range in.Rooms {
		if wanted[in.Rooms[i].Name] {
			c.rooms[in.Rooms[i].Name] = &in.Rooms[i]
		}
	}
	for i := range in.Pools {
		p := &in.Pools[i]
		c.pools[p.Name] = p
		c.offered[p.Name] = map[*model.InstanceType]bool{}
		for _, t := range p.Types {
			c.offered[p.Name][t] = true
		}
	}
	c.answers()
	for i := range in.OnRooms {
		c.room(&in.OnRooms[i])
	}
	for i := range in.New {
		c.machine(i, &in.New[i])
	}
	c.limits()
	c.stock()
	c.exclusive()
	c.cost()
	c.topology()
	return c.found
}

func (c *checker) report(rule Rule, pod *model.Pod, where, format string, args ...any) {
	v := Violation{Rule: rule, Where: where, Detail: fmt.Sprintf(format, args...)}
	if pod != nil {
		v.Pod = pod.Key()
	}
	c.found = append(c.found, v)
}

// answers checks that the pods answered are the pods asked about, each once.
func (c *checker) answers() {
	times := make(map[*model.Pod]int, len(c.in.Demand))
	for _, p := range c.in.Demand {
		times[p] = 0
	}
	answer := func(p *model.Pod, where string) {
		if _, asked := times[p]; !asked {
			c.report(Answer, p, where, "was not asked about")
		}
		times[p]++
	}
	for _, a := range c.in.OnRooms {
		for _, p := range a.Pods {
			answer(p, a.Room)
		}
	}
	for i, m := range c.in.New {
		for _, p := range m.Pods {
			answer(p, machineName(i, &m))
		}
	}
	for _, r := range c.in.Refused {
		answer(r.Pod, "")
		if len(r.Reasons) == 0 {
			c.report(Answer, r.Pod, "", "refused without a reason")
		}
	}
	for _, p := range c.in.Demand {
		if times[p] != 1 {
			c.report(Answer, p, "", "answered %d times", times[p])
		}
	}
}

func machineName(i int, m *Machine) string { return fmt.Sprintf("%s#%d", m.Pool, i) }

// limits charges every machine at the largest of its choices in each resource.
func (c *checker) limits() {
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for i := range c.in.New {
		m := &c.in.New[i]
		var most model.Resources
		for _, t := range m.Choices {
			most = most.Max(t.Capacity)
		}
		used[m.Pool] = used[m.Pool].AddInto(most, 1)
		count[m.Pool]++
	}
	for i := range c.in.Pools {
		p := &c.in.Pools[i]
		if n := count[p.Name]; p.NodesLeft >= 0 && n > p.NodesLeft {
			c.report(Limits, nil, p.Name, "buys %d nodes, %d are left", n, p.NodesLeft)
		}
		for d, limited := range p.HasLimit {
			d := model.Dim(d)
			if have := used[p.Name].At(d); limited && have > 0 && have > p.Left.At(d) {
				c.report(Limits, nil, p.Name, "buys %s of resource %d, %s is left", model.FormatAmount(d, have), d, model.FormatAmount(d, p.Left.At(d)))
			}
		}
	}
}

// stock checks that no more machines are made of an offering than there are, whichever pools offer it.
func (c *checker) stock() {
	type id struct{ t, zone, capacityType, labels string }
	used, left := map[id]int64{}, map[id]int64{}
	for i := range c.in.New {
		m := &c.in.New[i]
		p := c.pools[m.Pool]
		if p == nil {
			continue
		}
		groups, free := map[string]bool{}, false
		c.offers(p, m, func(t *model.InstanceType, o *model.Offering, _ *variant) {
			switch g := o.Labels[model.LabelNodeGroup]; {
			case o.Remaining < 0:
				free = true
			case g != "":
				groups[g] = true
				if n, ok := left[id{labels: g}]; !ok || o.Remaining < n {
					left[id{labels: g}] = o.Remaining
				}
			default:
				k := id{t.Name, o.Zone, o.CapacityType, fmt.Sprint(o.Labels)}
				used[k]++
				left[k] = o.Remaining
			}
		})
		if len(groups) == 1 && !free { // one that several groups may make is counted for none
			for g := range groups {
				used[id{labels: g}]++
			}
		}
	}
	before := len(c.found)
	for k, n := range used {
		if n > left[k] {
			c.report(Limits, nil, k.t, "%d machines of an offering in %s of which %d are left", n, k.zone, left[k])
		}
	}
	slices.SortFunc(c.found[before:], func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
}

// exclusive checks that a volume for one pod is used by one pod.
func (c *checker) exclusive() {
	if !slices.ContainsFunc(c.in.Demand, func(p *model.Pod) bool {
		return slices.ContainsFunc(p.Class.Volumes, func(v model.Volume) bool { return v.Exclusive })
	}) {
		return
	}
	used := map[string]string{}
	for i := range c.in.Rooms {
		if c.in.Rooms[i].Drained {
			continue
		}
		for _, p := range c.in.Rooms[i].Pods {
			for _, v := range p.Class.Volumes {
				if v.Exclusive {
					used[volume(&v)] = p.Key()
				}
			}
		}
	}
	place := func(p *model.Pod, where string) {
		for _, v := range p.Class.Volumes {
			if !v.Exclusive {
				continue
			}
			if by, taken := used[volume(&v)]; taken {
				c.report(Capacity, p, where, "volume %s is %s's alone", v.Claim, by)
			}
			used[volume(&v)] = p.Key()
		}
	}
	for _, a := range c.in.OnRooms {
		for _, p := range a.Pods {
			place(p, a.Room)
		}
	}
	for i, m := range c.in.New {
		for _, p := range m.Pods {
			place(p, machineName(i, &m))
		}
	}
}

func volume(v *model.Volume) string {
	if v.Handle != "" {
		return v.Handle
	}
	return v.Claim
}

// cost adds up.
func (c *checker) cost() {
	var sum int64
	for _, m := range c.in.New {
		sum += m.PriceMicro
	}
	if sum != c.in.Cost.NewMicroPerHour {
		c.report(Price, nil, "", "machines cost %d, the plan says %d", sum, c.in.Cost.NewMicroPerHour)
	}
	if c.in.Cost.BoundMicroPerHour > sum {
		c.report(Price, nil, "", "bound %d is above the cost %d", c.in.Cost.BoundMicroPerHour, sum)
	}
}

// admitted says why a pod of the class may not be on a node with these labels and taints, nothing when it may.
func admitted(class *model.Class, labels model.Labels, open model.Requirements, taints []model.Taint, name string) string {
	if t := model.Untolerated(taints, class.Tolerations); t != nil {
		return fmt.Sprintf("taint %s=%s:%s is not tolerated", t.Key, t.Value, t.Effect)
	}
	if len(class.Terms) > 0 && !slices.ContainsFunc(class.Terms, func(t model.NodeTerm) bool { return termHolds(&t, labels, open, name) }) {
		return "no node affinity term matches"
	}
	for _, v := range class.Volumes {
		if len(v.Topology) > 0 && !slices.ContainsFunc(v.Topology, func(rs model.Requirements) bool { return holds(rs, labels, open) }) {
			return "volume " + v.Claim + " is elsewhere"
		}
	}
	return ""
}

func termHolds(t *model.NodeTerm, labels model.Labels, open model.Requirements, name string) bool {
	if len(t.Requirements) == 0 && t.Names == nil {
		return false
	}
	return (t.Names == nil || t.Names.Matches(name, name != "")) && holds(t.Requirements, labels, open)
}

// holds checks requirements against labels; a label with an open value must satisfy them whatever it becomes.
func holds(rs model.Requirements, labels model.Labels, open model.Requirements) bool {
	for i := range rs {
		if o := open.Get(rs[i].Key); o != nil {
			if !always(o, &rs[i]) {
				return false
			}
			continue
		}
		v, ok := labels[rs[i].Key]
		if !rs[i].Matches(v, ok) {
			return false
		}
	}
	return true
}

// always says whether all that o allows satisfies r: what o allows and r does not is nothing.
func always(o, r *model.Requirement) bool {
	if o.AllowAbsent && !r.AllowAbsent {
		return false
	}
	if !o.Complement {
		for _, v := range o.Values {
			if !r.Matches(v, true) {
				return false
			}
		}
		return true
	}
	both := o.Intersect(*r)
	both.MinValues = o.MinValues
	return both.Complement && both.String() == o.String()
}

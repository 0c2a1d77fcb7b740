// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodegroups implements the rules for node groups:
//
//   - the expander, which chooses a group among several that fit
//   - balancing of similar groups
//   - minimum and maximum sizes
//   - when a node is launched for a pod
//   - the last activity of a group, for delays after scale-up, scale-down and failure
//   - the adoption of existing members by a NodePool
//
// It calls the solver only to test whether a group fits the demand, and starts no action: its results are rankings,
// limits and texts.
//
// Start reading at Expander.
package nodegroups

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Which of several node groups grows is mostly a question of price, and the solver's. A NodeGroupClass may ask for
// other rules, Cluster Autoscaler's expanders: then each group is tried for the whole of the demand by itself, as they
// do, and the groups of one weight that are under the same rules are ranked by what came of it. The solver uses up what
// ranks first; price decides among equals, and between the first of them and pools without such rules.

// The expanders.
const (
	byPrice      = "price"
	byLeastWaste = "least-waste"
	byMostPods   = "most-pods"
	byLeastNodes = "least-nodes"
	byPriority   = "priority"
	byRandom     = "random"
	byOutside    = "grpc"
)

// Query is the query to an external expander: which of several node groups to grow.
type Query struct {
	ResourceNames []string // by Dim
	Options       []Option // at least two
}

// Option is a node group that could grow.
type Option struct {
	Group string
	Nodes int          // number of nodes to add if only this group grows
	Pods  []*model.Pod // pods that would be placed there, sorted by namespace and name
	Pool  *model.NodePool
	First solve.NewNode // the first of the nodes
}

// Answer is the answer of an external expander.
type Answer struct {
	Groups []string // selected groups; the other groups of the query do not grow
}

// Expander ranks node groups by the expanders of their NodeGroupClasses.
type Expander struct {
	View   *cluster.View
	Policy solve.Policy
	Ask    bool    // query an external expander
	Answer *Answer // its answer; nil: none

	options []Option // what Rank would ask an expander outside
	leftOut bool     // Rank has left out a group that the expander outside did not choose
}

// groupOption is a node group that might grow.
type groupOption struct {
	pool   int // of the problem
	group  string
	keys   []float64 // what it is ranked by, less is better
	chance string
	rank   int32
	bought []solve.NewNode // were it the only one
}

// rulesBeforePrice is the rules of a pool's groups that come before price; empty: none.
func rulesBeforePrice(p *model.NodePool) []string {
	if p.Scaling == nil {
		return nil
	}
	list := p.Scaling.Expanders
	if i := slices.Index(list, byPrice); i >= 0 {
		list = list[:i]
	}
	return list
}

// Rank returns the pools of a problem with their node groups ranked.
func (ge *Expander) Rank(in *solve.Problem) []solve.Pool {
	ge.options, ge.leftOut = nil, false
	type kind struct {
		weight int32
		rules  string
	}
	sets := map[kind][]*groupOption{}
	var order []kind
	for i := range in.Pools {
		p := &in.Pools[i]
		rules := rulesBeforePrice(p.NodePool)
		if len(rules) == 0 || !p.Ready {
			continue
		}
		groups := p.NodePool.NodeGroups()
		if len(groups) > 1 && (p.NodesLeft >= 0 || slices.Contains(p.HasLimit, true) || slices.ContainsFunc(p.Requirements, model.HasMinValues)) {
			continue // what counts for all of its groups together can't be counted for each
		}
		k := kind{p.Weight, strings.Join(rules, ",")}
		if sets[k] == nil {
			order = append(order, k)
		}
		for _, g := range groups {
			sets[k] = append(sets[k], &groupOption{pool: i, group: g})
		}
	}
	order = slices.DeleteFunc(order, func(k kind) bool { return len(sets[k]) < 2 })
	if len(order) == 0 {
		return in.Pools
	}
	quick := ge.Policy
	quick.Work = 0
	standing := *in
	standing.Pools = nil
	rest, _ := solve.Solve(&standing, solve.Memory{}, quick)
	if len(rest.Refused) == 0 {
		return in.Pools
	}
	demand := make([]*model.Pod, len(rest.Refused))
	for i, r := range rest.Refused {
		demand[i] = r.Pod
	}
	parts := map[int][]*groupOption{}
	for _, k := range order {
		set := sets[k]
		for _, o := range set {
			p := in.Pools[o.pool]
			p.Group = o.group
			tried, _ := solve.Solve(&solve.Problem{ResourceNames: in.ResourceNames, Demand: demand, Pools: []solve.Pool{p}, Daemons: in.Daemons, Namespaces: in.Namespaces, Limits: in.Limits}, solve.Memory{}, quick)
			o.bought = tried.New
			o.computeKeys(strings.Split(k.rules, ","), p.NodePool, demand, tried.New)
		}
		set = ge.consultOutside(strings.Split(k.rules, ","), in, set)
		slices.SortStableFunc(set, (*groupOption).compare)
		for i, o := range set {
			if i > 0 {
				o.rank = set[i-1].rank
				if set[i-1].compare(o) != 0 {
					o.rank++
				}
			}
			parts[o.pool] = append(parts[o.pool], o)
		}
	}
	ranked := map[int]bool{}
	for _, k := range order {
		for _, o := range sets[k] {
			ranked[o.pool] = true
		}
	}
	var out []solve.Pool
	for i := range in.Pools {
		p := in.Pools[i]
		if !ranked[i] {
			out = append(out, p)
		}
		for _, o := range parts[i] {
			p.Group, p.Rank = o.group, o.rank
			out = append(out, p)
		}
	}
	return out
}

// consultOutside returns the options of a set that may grow: all of them, or where the expander outside has chosen among
// them, those. Where it is to be asked, it notes what: the options that rules before it leave equal to the best.
func (ge *Expander) consultOutside(rules []string, in *solve.Problem, set []*groupOption) []*groupOption {
	at := slices.Index(rules, byOutside)
	if at < 0 || !ge.Ask && ge.Answer == nil {
		return set
	}
	if ge.Answer != nil {
		chosen := slices.DeleteFunc(slices.Clone(set), func(o *groupOption) bool { return !slices.Contains(ge.Answer.Groups, o.group) })
		if len(chosen) == 0 {
			return set
		}
		ge.leftOut = ge.leftOut || len(chosen) < len(set)
		return chosen
	}
	best := slices.MinFunc(set, func(a, b *groupOption) int {
		return slices.Compare(a.keys[:min(len(a.keys), at+1)], b.keys[:min(len(b.keys), at+1)])
	})
	var options []Option
	for _, o := range set {
		if len(o.bought) == 0 || !slices.Equal(o.keys[:min(len(o.keys), at+1)], best.keys[:min(len(best.keys), at+1)]) {
			continue
		}
		x := Option{Group: o.group, Nodes: len(o.bought), Pool: in.Pools[o.pool].NodePool, First: o.bought[0]}
		for _, n := range o.bought {
			x.Pods = append(x.Pods, model.RealPods(n.Pods)...)
		}
		x.Pods = slices.DeleteFunc(x.Pods, func(p *model.Pod) bool { return p.Expected })
		slices.SortFunc(x.Pods, func(a, b *model.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		options = append(options, x)
	}
	if len(options) > 1 {
		slices.SortFunc(options, func(a, b Option) int { return cmp.Compare(a.Group, b.Group) })
		ge.options = append(ge.options, options...)
	}
	return set
}

// Query returns the query to an external expander after the last Rank; nil: none.
func (ge *Expander) Query() *Query {
	if len(ge.options) == 0 {
		return nil
	}
	return &Query{ResourceNames: ge.View.Snapshot.ResourceNames, Options: ge.options}
}

// Refuse returns the refused pods that fit no group, with the reasons of each. If the external expander excluded groups, pods that
// fit one of those wait: they are decided on again at once, with a new query.
func (ge *Expander) Refuse(in *solve.Problem, pools []solve.Pool, refused []solve.Refusal) (final []solve.Refusal, waiting int) {
	if !ge.leftOut || len(refused) == 0 {
		return refused, 0
	}
	quick := ge.Policy
	quick.Work = 0
	demand := make([]*model.Pod, len(refused))
	for i, r := range refused {
		demand[i] = r.Pod
	}
	res, _ := solve.Solve(&solve.Problem{ResourceNames: in.ResourceNames, Demand: demand, Pools: pools, Daemons: in.Daemons, Namespaces: in.Namespaces, Limits: in.Limits}, solve.Memory{}, quick)
	return res.Refused, len(refused) - len(res.Refused)
}

// computeKeys works out what an option is ranked by, from the machines that would be bought of it were it the only one.
func (o *groupOption) computeKeys(rules []string, p *model.NodePool, demand []*model.Pod, bought []solve.NewNode) {
	pods := 0
	var asked, had model.Resources
	for i := range bought {
		n := &bought[i]
		pods += len(n.Pods)
		for _, x := range n.Pods {
			asked = asked.AddInto(x.Class.Requests, 1)
		}
		had = had.AddInto(n.Type.Allocatable, 1)
	}
	none := 0.0 // one that would do for no pod is last, whatever the rules
	if pods == 0 {
		none = 1
	}
	o.keys = append(o.keys, none)
	for _, rule := range rules {
		key := 0.0
		switch rule {
		case byMostPods:
			key = -float64(pods)
		case byLeastNodes:
			key = float64(len(bought))
		case byLeastWaste:
			for _, d := range []model.Dim{model.CPU, model.Memory} {
				if h := had.At(d); h > 0 {
					key += math.Round(float64(h-asked.At(d))/float64(h)*1e6) / 1e6
				}
			}
		case byPriority:
			key = math.Inf(1)
			for _, x := range p.Scaling.Priorities {
				for _, re := range x.Names {
					if re.MatchString(o.group) {
						key = min(key, -float64(x.Priority))
					}
				}
			}
		case byRandom:
			uids := make([]string, len(demand))
			for i, x := range demand {
				uids[i] = x.UID
			}
			slices.Sort(uids)
			o.chance = cluster.HashName(10, append(uids, o.group)...)
			return // nothing is left to the others
		}
		o.keys = append(o.keys, key)
	}
}

// compare orders options from the one to grow first.
func (o *groupOption) compare(x *groupOption) int {
	return cmp.Or(slices.Compare(o.keys, x.keys), strings.Compare(o.chance, x.chance))
}

// Balance distributes machines over similar groups, smallest group first. Groups are similar for a machine if they offer its type
// for the same price, and if their nodes have the same labels, except for labels that may differ. Groups of a NodePool of which
// only a part counts against a limit are not balanced.
func (ge *Expander) Balance(in *solve.Problem, bought []solve.NewNode) {
	var size, coming map[string]int64 // machines by group: those that are there or on their way, those of this plan
	for i := range bought {
		n := &bought[i]
		p := ge.View.Pool(n.Pool)
		if p.Scaling == nil || !p.Scaling.Balance || n.Offering.Labels[model.LabelNodeGroup] == "" || slices.ContainsFunc(p.Requirements, model.HasMinValues) || isSplit(in, n.Pool) {
			continue
		}
		if size == nil {
			size, coming = sizeByGroup(ge.View.Snapshot.Claims), map[string]int64{}
			for j := range bought {
				coming[bought[j].Offering.Labels[model.LabelNodeGroup]]++
			}
		}
		own := n.Offering.Labels[model.LabelNodeGroup]
		coming[own]--
		best := n.Offering
		least := size[own] + coming[own]
		for _, o := range n.Type.Offerings {
			g := o.Labels[model.LabelNodeGroup]
			if g == "" || g == own || !o.Available || o.CapacityType != best.CapacityType || o.PriceMicro != n.Offering.PriceMicro || o.Remaining >= 0 && coming[g] >= o.Remaining ||
				!labelsAlike(n.Offering.Labels, o.Labels, p.Scaling.Ignore) || !podsAllowOffering(n.Pods, o) || isGroupBarred(in, n, g) {
				continue
			}
			if k := size[g] + coming[g]; k < least {
				best, least = o, k
			}
		}
		g := best.Labels[model.LabelNodeGroup]
		coming[g]++
		if g != own {
			switchGroup(n, p, best)
		}
	}
}

// isGroupBarred reports whether no node of a group is launched for some pods of a machine.
func isGroupBarred(in *solve.Problem, n *solve.NewNode, group string) bool {
	return slices.ContainsFunc(in.Pools, func(p solve.Pool) bool {
		return p.Name == n.Pool && slices.ContainsFunc(p.Barred, func(b solve.Bar) bool {
			return b.Group == group && slices.ContainsFunc(n.Pods, func(q *model.Pod) bool { return q.Class.Key == b.Class.Key })
		})
	})
}

// labelsAlike reports whether labels differ in none but the group's name and those that may.
func labelsAlike(a, b model.Labels, ignore []string) bool {
	within := func(a, b model.Labels) bool {
		for k, v := range a {
			if k != model.LabelNodeGroup && b[k] != v && !slices.Contains(ignore, k) {
				return false
			}
		}
		return true
	}
	return within(a, b) && within(b, a)
}

// podsAllowOffering reports whether pods may as well go where an offering is: nothing of theirs depends on the zone, and
// they don't ask for another.
func podsAllowOffering(pods []*model.Pod, o model.Offering) bool {
	for _, p := range pods {
		c := p.Class
		if slices.ContainsFunc(c.Spread, func(s model.SpreadConstraint) bool { return s.TopologyKey != model.LabelHostname }) ||
			slices.ContainsFunc(slices.Concat(c.Affinity, c.AntiAffinity), func(t model.PodTerm) bool { return t.TopologyKey != model.LabelHostname }) ||
			slices.ContainsFunc(c.Volumes, func(v model.Volume) bool { return len(v.Topology) > 0 || v.Unmade }) {
			return false
		}
		if len(c.Terms) > 0 && !slices.ContainsFunc(c.Terms, func(t model.NodeTerm) bool {
			return !slices.ContainsFunc(t.Requirements, func(q model.Requirement) bool {
				v, ok := o.Labels[q.Key]
				if q.Key == model.LabelZone {
					v, ok = o.Zone, true
				}
				return ok && !q.Matches(v, true)
			})
		}) {
			return false
		}
	}
	return true
}

// switchGroup has a machine come from another group.
func switchGroup(n *solve.NewNode, p *model.NodePool, o model.Offering) {
	g := o.Labels[model.LabelNodeGroup]
	from := func(t *model.InstanceType) bool {
		return slices.ContainsFunc(t.Offerings, func(x model.Offering) bool {
			return x.Labels[model.LabelNodeGroup] == g && x.Zone == o.Zone && x.CapacityType == o.CapacityType && x.Available
		})
	}
	n.Offering, n.Zones = o, []string{o.Zone}
	n.Choices = slices.DeleteFunc(slices.Clone(n.Choices), func(t *model.InstanceType) bool { return !from(t) })
	names := make([]string, len(n.Choices))
	for i, t := range n.Choices {
		names[i] = t.Name
	}
	set := map[string]model.Requirement{model.LabelZone: model.OneOf(model.LabelZone, o.Zone), model.LabelInstanceType: model.OneOf(model.LabelInstanceType, names...)}
	for k, v := range o.Labels {
		set[k] = model.OneOf(k, v)
	}
	kept := slices.DeleteFunc(slices.Clone(n.Requirements), func(q model.Requirement) bool { _, ok := set[q.Key]; return ok })
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if q := p.Requirements.Get(k); q != nil {
			kept = kept.With(*q)
		}
		kept = kept.With(set[k])
	}
	n.Requirements = kept
}

// isSplit reports whether a pool of a problem is one of several parts of its NodePool: some of its offerings count against other
// limits than the rest.
func isSplit(in *solve.Problem, pool string) bool {
	return slices.ContainsFunc(in.Pools, func(p solve.Pool) bool { return p.Name == pool && p.Part != "" })
}

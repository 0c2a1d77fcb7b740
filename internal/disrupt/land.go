// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"maps"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// pin leaves a claim of a move that is to save money only those types and zones with which the move still saves enough, whichever of them
// its cloud takes; otherwise a plan's saving could be lost to the choice that the claim leaves. Where a pool wants several values of a
// label kept nothing may be taken away, and the dearest choice must do.
func (s *search) pin(m *Move) plan.Reason {
	spare := m.Saving() - s.least(m.OldMicro)
	if len(m.New) == 0 || m.NewMicro <= 0 || spare < 0 {
		return plan.Reason{}
	}
	share := float64(spare) / float64(m.NewMicro)
	m.New = slices.Clone(m.New)
	worst := int64(0)
	for i := range m.New {
		n := &m.New[i]
		if s.pinned(n.Pool) {
			worst += dearest(n)
			continue
		}
		most := n.PriceMicro + int64(float64(n.PriceMicro)*share)
		narrow(n, most)
		worst += dearest(n)
	}
	if m.OldMicro-worst < s.least(m.OldMicro) {
		return plan.Reason{Code: plan.DoesNotPay, Want: "at least " + dollars(s.least(m.OldMicro)) + " an hour with any of the types kept by minValues",
			Have: dollars(m.OldMicro-worst) + " an hour"}
	}
	res := *m.Result
	res.New = m.New
	m.Result = &res
	return plan.Reason{}
}

// pinned says whether the choices of a pool's claims must stay as they are.
func (s *search) pinned(pool string) bool {
	for i := range s.in.Pools {
		if p := &s.in.Pools[i]; p.Name == pool {
			return slices.ContainsFunc(p.Requirements, func(r model.Requirement) bool { return r.MinValues > 0 })
		}
	}
	return true
}

// offers calls f with each offering that a machine may become in a zone as one of its types.
func offers(n *solve.NewNode, t *model.InstanceType, zone string, f func(*model.Offering)) {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Available && o.Zone == zone && o.CapacityType == n.Offering.CapacityType {
			f(o)
		}
	}
}

// dearest is what the dearest choice of a machine costs.
func dearest(n *solve.NewNode) int64 {
	most := n.PriceMicro
	for _, t := range n.Choices {
		for _, z := range n.Zones {
			offers(n, t, z, func(o *model.Offering) { most = max(most, o.PriceMicro) })
		}
	}
	return most
}

// narrow takes away from a machine first the zones in which its cheapest type costs more than so much, then the types that do anywhere in
// what is left.
func narrow(n *solve.NewNode, most int64) {
	costs := func(t *model.InstanceType, zone string) (out int64) {
		offers(n, t, zone, func(o *model.Offering) { out = max(out, o.PriceMicro) })
		return out
	}
	zones := slices.DeleteFunc(slices.Clone(n.Zones), func(z string) bool { return z != n.Offering.Zone && costs(n.Type, z) > most })
	types := slices.DeleteFunc(slices.Clone(n.Choices), func(t *model.InstanceType) bool {
		return t != n.Type && slices.ContainsFunc(zones, func(z string) bool { return costs(t, z) > most })
	})
	if slices.ContainsFunc(zones, func(z string) bool { return costs(n.Type, z) > most }) {
		zones = []string{n.Offering.Zone}
	}
	if len(zones) == len(n.Zones) && len(types) == len(n.Choices) {
		return
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	reqs := []model.Requirement{model.OneOf(model.LabelInstanceType, names...)}
	if len(zones) > 0 && zones[0] != "" {
		reqs = append(reqs, model.OneOf(model.LabelZone, zones...))
	}
	n.Zones, n.Choices, n.Requirements = zones, types, n.Requirements.With(reqs...)
}

// lands says why the pods of a move may not come to stand as planned; an empty code: they will. A machine that can be kept to its pods is
// theirs. On one that can't, kube-scheduler puts what it likes: then only one machine that holds all pods of the move by itself will do,
// for wherever some of them go, and in whichever order, there is room on it for the others.
func (s *search) lands(m *Move) plan.Reason {
	open, why := s.open(m)
	if len(open) == 0 || len(m.New) == 1 && m.Standing == 0 {
		return plan.Reason{}
	}
	n := &m.New[open[0]]
	return plan.Reason{Code: plan.NotKept, Pool: n.Pool, Subject: "pod/" + n.Pods[0].Key(), Key: string(why.Code),
		Want: "one machine for all pods of the move, or machines kept to theirs", Have: "machines that can't be kept to their pods"}
}

// open are the machines of a move that can't be kept to their pods, and why the first can't.
func (s *search) open(m *Move) (out []int, why plan.Reason) {
	if s.in.NoReserve == nil {
		return nil, why
	}
	for i := range m.New {
		if r := s.in.NoReserve(&m.New[i]); r.Code != "" {
			if out = append(out, i); len(out) == 1 {
				why = r
			}
		}
	}
	return out, why
}

// coming is a machine to buy as a room: what its daemons take is taken off.
func (s *search) coming(n *solve.NewNode, i int) solve.Room {
	r := solve.Room{Name: "new machine " + n.Type.Name + " " + string(rune('0'+i%10)), Labels: model.Labels{}}
	for k := range s.in.Pools {
		if p := &s.in.Pools[k]; p.Name == n.Pool {
			maps.Copy(r.Labels, p.Labels)
			r.Taints = p.Taints
		}
	}
	maps.Copy(r.Labels, n.Type.Labels)
	r.Labels[model.LabelZone], r.Labels[model.LabelCapacityType] = n.Offering.Zone, n.Offering.CapacityType
	least := n.Type.Allocatable
	for _, t := range n.Choices {
		least = least.Min(t.Allocatable)
	}
	r.Allocatable = least
	r.Free = least.Sub(n.Requests)
	for _, p := range n.Pods {
		r.Free = r.Free.AddInto(p.Class.Requests, 1)
	}
	return r
}

// pending are the machines of a move as its pods may take them while they come back: what is free, and how many of each kind are let in.
type pending struct {
	free  []model.Resources
	alloc []model.Resources
	slots []map[kin]int
}

func (s *search) pending(m *Move) pending {
	p := pending{}
	for i := range m.New {
		r := s.coming(&m.New[i], i)
		slots := map[kin]int{}
		for _, x := range m.New[i].Pods {
			slots[kinOf(x)]++
		}
		p.free, p.alloc, p.slots = append(p.free, r.Free), append(p.alloc, r.Allocatable), append(p.slots, slots)
	}
	return p
}

// rank is 0 for pods of a kind that is let in to one of the machines, 1 for others.
func (p *pending) rank(pod *model.Pod) int {
	if slices.ContainsFunc(p.slots, func(s map[kin]int) bool { return s[kinOf(pod)] > 0 }) {
		return 0
	}
	return 1
}

func (p *pending) clone() pending {
	q := pending{alloc: p.alloc}
	for _, r := range p.free {
		q.free = append(q.free, slices.Clone(r))
	}
	for _, m := range p.slots {
		q.slots = append(q.slots, maps.Clone(m))
	}
	return q
}

// short are the pods of a move, by kind, that may find no room. Where machines are bought for others: a pod with a slot is let in to its
// machine and kept from no other, so it may take the room that stands and that another was to have. Mostly it does: it is let in only when
// it has been seen, and kube-scheduler sees it as soon. Where it is late it chooses. Where solve has put pods on standing room: they may
// just as well come to stand elsewhere on it, and stuck says that one of them may then find none. All are placed one by one in each course.
func (s *search) short(m *Move) (short map[kin]int, stuck bool) {
	if m.Standing == 0 || m.Result == nil {
		return nil, false
	}
	if open, _ := s.open(m); len(open) > 0 {
		return nil, false // those have a stricter test
	}
	f := s.f
	defer f.back(f.mark())
	all, _ := s.clear(m.Units)
	planned := s.planned(m)
	short = map[kin]int{}
	for _, way := range []letIn{inTime, late, lateAndFirst} {
		if len(planned) > 0 && s.walk(m, all, planned, true, way, short) {
			return nil, true
		}
		if len(m.New) == 0 {
			break // nobody is let in anywhere
		}
		s.walk(m, all, planned, false, way, short)
	}
	return short, false
}

// letIn is when pods are let in to machines that come for pods of their kind.
type letIn int

const (
	inTime       letIn = iota // before kube-scheduler looks at them: it chooses
	late                      // when they have found no standing room
	lateAndFirst              // and they come before all others, and take of it what they can
)

// order is the pods in their order, or those first of whose kind one is let in somewhere.
func (p *pending) order(pods []*model.Pod, way letIn) []*model.Pod {
	if way != lateAndFirst {
		return pods
	}
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *model.Pod) int { return p.rank(a) - p.rank(b) })
	return pods
}

// walk places pods one by one in each course, on standing room and on the machines of a move that let them in, and notes by kind how many
// find none. Of machines that score the same the first is taken, and where the pods are few the one whose loss the others would feel most in
// another walk; what else chance may do is for ties to find out, when a move is about to be taken. Those that solve has put on standing room come to stand there, or roam; it says whether one of these finds none.
func (s *search) walk(m *Move, pods []*model.Pod, planned map[*model.Pod]int, roam bool, way letIn, short map[kin]int) (stuck bool) {
	f := s.f
	start := f.mark()
	defer f.back(start)
	if !roam {
		for _, p := range pods {
			if i, ok := planned[p]; ok {
				f.take(i, p.Class)
			}
		}
	}
	first := s.pending(m)
	defer func() { f.left = nil }()
	ways := 1
	if len(pods) <= fewPods {
		ways = 2
	}
	for i := range ways * len(courses) {
		c := courses[i%len(courses)]
		mark := f.mark()
		machines := first.clone()
		missing := map[kin]int{}
		come := map[int][]*model.Pod{}
		order := first.order(c.order(pods, f.share), way)
		if i >= len(courses) {
			f.expect(order)
		}
		for _, p := range order {
			k := kinOf(p)
			f.comes(p.Class)
			room, score := -1, math.Inf(-1)
			at, placed := planned[p]
			switch {
			case placed && !roam:
				continue
			case len(f.rooms) == 0:
			case placed:
				f.where = func(j int) bool { return f.near(p.Class, at, j) && f.alone(p.Class, j, come[j]) }
				f.search(1, p.Class, c.manner, &room, &score)
			case f.sticky(p.Class): // no standing room is counted on for it, but it may take some
				f.where = func(j int) bool { return f.alone(p.Class, j, come[j]) }
				f.search(1, p.Class, c.manner, &room, &score)
			case !f.dead[p.Class]:
				f.search(1, p.Class, c.manner, &room, &score)
			}
			f.where = nil
			machine := -1
			for i := range machines.free { // also for one that solve has put on standing room: who of its kind is let in is not settled
				if way != inTime && room >= 0 || machines.slots[i][k] == 0 || !p.Class.Requests.Fits(machines.free[i]) {
					continue
				}
				x := f.rate(machines.free[i], machines.alloc[i], c.manner)
				if room < 0 && machine < 0 || x > score || x == score && f.left != nil {
					machine, score = i, x
				}
			}
			switch {
			case machine >= 0:
				machines.slots[machine][k]--
				machines.free[machine] = machines.free[machine].AddInto(p.Class.Requests, -1)
			case room >= 0:
				come[room] = append(come[room], p)
				f.take(room, p.Class)
			case placed:
				f.back(mark)
				return true
			default:
				missing[k]++
			}
		}
		f.back(mark)
		for k, n := range missing {
			short[k] = max(short[k], n)
		}
	}
	return false
}

// near says whether a pod of a class that solve has put on one machine may stand on another as far as what machines share is concerned: in
// the same zone it is taken to.
func (f *floor) near(c *model.Class, from, to int) bool {
	return from == to || !wider(c) || f.rooms[from].Labels[model.LabelZone] == f.rooms[to].Labels[model.LabelZone]
}

// alone says whether neither a pod on a machine nor one that has come to it keeps a pod of a class away.
func (f *floor) alone(c *model.Class, i int, come []*model.Pod) bool {
	away := func(p *model.Pod) bool { return apart(c, p.Class) }
	return !slices.ContainsFunc(f.rooms[i].Pods, away) && !slices.ContainsFunc(come, away)
}

// wider says whether where a pod may stand depends on something that several machines share. Spread does not count: mostly there is another
// zone that will do as well.
func wider(c *model.Class) bool {
	return len(c.Affinity)+len(c.Volumes)+len(c.Unsolved) > 0 ||
		slices.ContainsFunc(c.AntiAffinity, func(t model.PodTerm) bool { return t.TopologyKey != model.LabelHostname })
}

// apart says whether no machine takes a pod of each of two classes.
func apart(a, b *model.Class) bool {
	repels := func(a, b *model.Class) bool {
		return slices.ContainsFunc(a.AntiAffinity, func(t model.PodTerm) bool { return t.TopologyKey == model.LabelHostname && selects(&t.Selector, b) })
	}
	return repels(a, b) || repels(b, a) || slices.ContainsFunc(a.HostPorts, func(p model.HostPort) bool {
		return slices.ContainsFunc(b.HostPorts, p.Conflicts)
	})
}

// rate is how much a manner likes a machine.
func (f *floor) rate(free, alloc model.Resources, m manner) float64 {
	c, mem := float64(free.At(model.CPU)), float64(free.At(model.Memory))
	if m == leastAllocated {
		return c/float64(max(1, alloc.At(model.CPU))) + mem/float64(max(1, alloc.At(model.Memory)))
	}
	return c/max(1, f.norm[0]) + mem/max(1, f.norm[1])
}

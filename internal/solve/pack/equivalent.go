// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import "github.com/dovetail-sh/dovetail/internal/solve/problem"

// equivalentDemands is demands that a packing need not tell apart: their pods ask for the same, may go to the same
// offers, and no rule between pods says who may be beside whom. Real clusters have many workloads of the same few
// sizes; taken together they are few enough to refine.
type equivalentDemands []*Demand

// groupEquivalentDemands groups demands, in the order of their first.
func groupEquivalentDemands(demands []*Demand) (out []equivalentDemands) {
	type key struct {
		req        problem.Vec
		mask, full int
	}
	at := map[key]int{}
	out = make([]equivalentDemands, 0, len(demands))
	for i, d := range demands {
		one := demands[i : i+1 : i+1]
		if d.Class.RestrictsNeighbours() || d.Class.Separation.Most > 0 {
			out = append(out, one)
			continue
		}
		k := key{req: d.Class.Req, mask: d.Offers.ID, full: -1}
		if d.permitted != nil {
			k.full = d.permitted.ID
		}
		if i, ok := at[k]; ok {
			out[i] = append(out[i], d)
			continue
		}
		at[k] = len(out)
		out = append(out, one)
	}
	return out
}

// combined returns one demand for all of them.
func (x equivalentDemands) combined() *Demand {
	if len(x) == 1 {
		return x[0]
	}
	d := *x[0]
	d.Unbought = countPods(x)
	return &d
}

// podShare is pods of a demand on a machine.
type podShare struct {
	demand *Demand
	count  int64
}

// distribution divides the machines launched for equivalent demands among them.
type distribution struct {
	groups    []equivalentDemands
	remaining []int64    // by group and demand, one behind the other: pods bought for and not given to a machine yet
	start     []int32    // by group: where its demands begin in remaining
	next      []int32    // by group: the first demand with any
	buf       []podShare // scratch
}

// distribute begins with what is left of each group, which falls to its last demands, and counts down
// demand.unbought.
func distribute(groups []equivalentDemands, remaining []int64) *distribution {
	n := 0
	for _, l := range groups {
		n += len(l)
	}
	x := &distribution{groups: groups, remaining: make([]int64, 0, n), start: make([]int32, len(groups)), next: make([]int32, len(groups))}
	for i, l := range groups {
		x.start[i] = int32(len(x.remaining))
		bought := countPods(l) - remaining[i]
		for _, d := range l {
			n := min(d.Unbought, bought)
			x.remaining = append(x.remaining, n)
			bought -= n
			d.Unbought -= n
		}
	}
	return x
}

// nextShare returns the pods of one machine, and for how many copies of it, of so many, they are of the same demands.
// The list is good until it is called again.
func (x *distribution) nextShare(items []Item, copies int64) (out []podShare, n int64) {
	n, out = copies, x.buf[:0]
	for _, it := range items {
		if k := x.firstRemaining(it.Demand) / it.Count; k < n {
			n = max(1, k)
		}
	}
	for _, it := range items {
		for rest := it.Count * n; rest > 0; {
			k := min(rest, x.firstRemaining(it.Demand))
			x.remaining[x.start[it.Demand]+x.next[it.Demand]] -= k
			rest -= k
			out = append(out, podShare{x.groups[it.Demand][x.next[it.Demand]], k / n})
		}
	}
	x.buf = out
	return out, n
}

// firstRemaining is the pods of the first demand of group i that has any.
func (x *distribution) firstRemaining(i int) int64 {
	for int(x.next[i]) < len(x.groups[i]) {
		if n := x.remaining[x.start[i]+x.next[i]]; n > 0 {
			return n
		}
		x.next[i]++
	}
	return 0
}

// GroupEquivalentClasses groups classes that a proof need not distinguish and that have the same worth, by their indexes
// in the list.
func GroupEquivalentClasses(classes []*problem.Class, worth []int64) (out [][]int) {
	type key struct {
		req   problem.Vec
		mask  int
		worth int64
	}
	at := map[key]int{}
	for i, c := range classes {
		k := key{c.Req, c.Filter.Offers.ID, worth[i]}
		if j, ok := at[k]; ok && !c.RestrictsNeighbours() {
			out[j] = append(out[j], i)
			continue
		}
		if !c.RestrictsNeighbours() {
			at[k] = len(out)
		}
		out = append(out, []int{i})
	}
	return out
}

// GroupByRequest groups classes with the same requests and offers, regardless of rules about other pods. It returns the
// first class of each group, and the number of assigned pods of the group.
func GroupByRequest(classes []*problem.Class) (firsts []*problem.Class, pods []int64) {
	type key struct {
		req  problem.Vec
		mask int
	}
	at, last := map[key]int{}, -1
	for _, c := range classes {
		if last < 0 || c.Req != firsts[last].Req || c.Filter.Offers != firsts[last].Filter.Offers { // those of one size follow each other, mostly
			k := key{c.Req, c.Filter.Offers.ID}
			i, ok := at[k]
			if !ok {
				i = len(firsts)
				at[k] = i
				firsts, pods = append(firsts, c), append(pods, 0)
			}
			last = i
		}
		pods[last] += int64(c.Assigned)
	}
	return firsts, pods
}

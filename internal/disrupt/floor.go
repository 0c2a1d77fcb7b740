// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// share is the larger of a class's shares of the largest machine.
func (f *floor) share(c *model.Class) float64 {
	return max(float64(c.Requests.At(model.CPU))/max(1, f.norm[0]), float64(c.Requests.At(model.Memory))/max(1, f.norm[1]))
}

// floor is the free room on nodes that stand, in which the pods of nodes that are to go are placed one by one. Placing is undone to the last
// mark, so that a what-if costs what it touches.
type floor struct {
	ground
	rooms []*solve.Room
	undo  []undo
	fits  map[*model.Class][]int8
	anti  []*model.Class // classes that stand or come, whose anti-affinity keeps others away
	stuck map[*model.Class]bool
	dead  map[*model.Class]bool // fits nowhere though nothing has been placed yet
	work  int64
}

type undo struct {
	room int
	free []int64
}

// ground is that room as numbers. A tree over the machines holds the most that is free below each point, so that a search visits few of
// them. Memory keeps it from one search to the next, in which few machines are different.
type ground struct {
	at    map[string]int // by node name; shared between grounds of the same machines
	nd    int
	free  []int64   // nd numbers a machine; of a closed one all negative
	alloc []float64 // cpu and memory
	norm  [2]float64
	size  int       // leaves of the tree, a power of two
	most  []int64   // nd numbers a point: the largest free below
	fill  []float64 // a number a point: how full, by CPU and memory together, the fullest node below is
}

// newGround is the ground of these machines.
func newGround(rooms []*solve.Room, dims int) ground {
	n := len(rooms)
	f := ground{nd: dims, at: make(map[string]int, n), size: 1, free: make([]int64, n*dims), alloc: make([]float64, n*2)}
	for f.size < n {
		f.size *= 2
	}
	for i, r := range rooms {
		f.at[r.Name] = i
		f.write(i, r)
	}
	f.most, f.fill = make([]int64, 2*f.size*dims), make([]float64, 2*f.size)
	for i := range f.most {
		f.most[i] = math.MinInt64
	}
	for i := range f.fill {
		f.fill[i] = math.Inf(-1)
	}
	for i := range rooms {
		f.leaf(i)
	}
	for k := f.size - 1; k >= 1; k-- {
		f.join(k)
	}
	return f
}

// write notes a machine's room.
func (f *ground) write(i int, r *solve.Room) {
	for d := range f.nd {
		f.free[i*f.nd+d] = r.Free.At(model.Dim(d))
	}
	for d := range 2 {
		f.alloc[i*2+d] = float64(max(1, r.Allocatable.At(model.Dim(d))))
		f.norm[d] = max(f.norm[d], f.alloc[i*2+d])
	}
}

// is says whether a machine's room is still what was written down.
func (f *ground) is(i int, r *solve.Room) bool {
	for d, v := range f.free[i*f.nd : (i+1)*f.nd] {
		if r.Free.At(model.Dim(d)) != v {
			return false
		}
	}
	for d := range 2 {
		if f.alloc[i*2+d] != float64(max(1, r.Allocatable.At(model.Dim(d)))) {
			return false
		}
	}
	return true
}

// clone is a ground that may be written to.
func (f *ground) clone() ground {
	g := *f
	g.free, g.most, g.fill = slices.Clone(f.free), slices.Clone(f.most), slices.Clone(f.fill)
	return g
}

// newFloor is the floor of these rooms, with nothing known of them before.
func newFloor(rooms []solve.Room, dims int) *floor {
	f := &floor{}
	seen := map[*model.Class]bool{}
	for i := range rooms {
		r := &rooms[i]
		if stands(r) {
			f.rooms = append(f.rooms, r)
		}
		if !r.Drained {
			f.anti = repelling(r.Pods, f.anti, seen)
		}
	}
	f.ground = newGround(f.rooms, dims)
	f.begin()
	return f
}

func (f *floor) begin() {
	f.fits, f.stuck = map[*model.Class][]int8{}, map[*model.Class]bool{}
}

// stands says whether pods may be put on a room now.
func stands(r *solve.Room) bool { return !r.InFlight && !r.Closed && !r.Drained }

// repelling adds the classes of pods whose anti-affinity keeps others away, each once.
func repelling(pods []*model.Pod, to []*model.Class, seen map[*model.Class]bool) []*model.Class {
	for _, p := range pods {
		if len(p.Class.AntiAffinity) > 0 && !seen[p.Class] {
			seen[p.Class] = true
			to = append(to, p.Class)
		}
	}
	return to
}

func (f *ground) leaf(i int) {
	k := f.size + i
	free := f.free[i*f.nd : (i+1)*f.nd]
	copy(f.most[k*f.nd:], free)
	f.fill[k] = -float64(free[0])/f.alloc[i*2] - float64(free[1])/f.alloc[i*2+1]
	if free[0] < closed {
		f.fill[k] = math.Inf(-1)
	}
}

func (f *ground) join(k int) {
	a, b := 2*k, 2*k+1
	for d := range f.nd {
		f.most[k*f.nd+d] = max(f.most[a*f.nd+d], f.most[b*f.nd+d])
	}
	f.fill[k] = max(f.fill[a], f.fill[b])
}

func (f *ground) set(i int) {
	f.leaf(i)
	for k := (f.size + i) / 2; k >= 1; k /= 2 {
		f.join(k)
	}
}

// mark is the present; back returns to it.
func (f *floor) mark() int { return len(f.undo) }

func (f *floor) back(mark int) {
	for len(f.undo) > mark {
		u := f.undo[len(f.undo)-1]
		f.undo = f.undo[:len(f.undo)-1]
		copy(f.free[u.room*f.nd:], u.free)
		f.set(u.room)
	}
}

func (f *floor) save(i int) {
	f.undo = append(f.undo, undo{room: i, free: append([]int64(nil), f.free[i*f.nd:(i+1)*f.nd]...)})
}

// closed is less room than any node has.
const closed = math.MinInt64 / 8

// close takes a machine out of the choice.
func (f *floor) close(node string) {
	i, ok := f.at[node]
	if !ok {
		return
	}
	f.save(i)
	for d := range f.nd {
		f.free[i*f.nd+d] = 2 * closed
	}
	f.set(i)
}

// put places one pod of a class on the fullest node that has room for it, and says on which; negative: there is none. Pods whose place depends on
// other pods, ports or volumes are not placed here.
func (f *floor) put(c *model.Class) int {
	if len(f.rooms) == 0 || f.dead[c] || f.sticky(c) {
		return -1
	}
	best, fill := -1, math.Inf(-1)
	f.search(1, c, &best, &fill)
	if best >= 0 {
		f.take(best, c)
	}
	return best
}

// assign places pods, the largest first and each on the fullest node that has room for it. It returns where they went, by room, and those for
// which there is none.
func (f *floor) assign(pods []*model.Pod) (on map[int][]*model.Pod, rest []*model.Pod) {
	on = map[int][]*model.Pod{}
	order := slices.Clone(pods)
	slices.SortStableFunc(order, func(a, b *model.Pod) int { return cmp.Compare(f.share(b.Class), f.share(a.Class)) })
	full := map[*model.Class]bool{}
	for _, p := range order {
		at := -1
		if !full[p.Class] {
			if at = f.put(p.Class); at < 0 {
				full[p.Class] = true
			}
		}
		if at < 0 {
			rest = append(rest, p)
		} else {
			on[at] = append(on[at], p)
		}
	}
	return on, rest
}

// settle notes the classes that fit nowhere at present: they will not while more is placed and closed either.
func (f *floor) settle(classes []*model.Class) {
	mark := f.mark()
	f.dead = map[*model.Class]bool{}
	for _, c := range classes {
		if f.put(c) < 0 {
			f.dead[c] = true
		}
		f.back(mark)
	}
}

func (f *floor) take(i int, c *model.Class) {
	f.save(i)
	for d, v := range c.Requests {
		if d < f.nd {
			f.free[i*f.nd+d] -= v
		}
	}
	f.set(i)
}

func (f *floor) search(k int, c *model.Class, best *int, fill *float64) {
	f.work++
	if f.fill[k] <= *fill || !f.below(k, c) {
		return
	}
	if k >= f.size {
		if i := k - f.size; i < len(f.rooms) && f.admits(c, i) {
			*best, *fill = i, f.fill[k]
		}
		return
	}
	a, b := 2*k, 2*k+1
	if f.fill[b] > f.fill[a] {
		a, b = b, a
	}
	f.search(a, c, best, fill)
	f.search(b, c, best, fill)
}

// below says whether a pod of a class may fit a machine below a point of the tree.
func (f *floor) below(k int, c *model.Class) bool {
	most := f.most[k*f.nd : (k+1)*f.nd]
	for d, v := range c.Requests {
		if v > 0 && (d >= f.nd || v > most[d]) {
			return false
		}
	}
	return true
}

// admits says whether a machine's labels and taints let a class on.
func (f *floor) admits(c *model.Class, i int) bool {
	v := f.fits[c]
	if v == nil {
		v = make([]int8, len(f.rooms))
		f.fits[c] = v
	}
	if v[i] == 0 {
		v[i] = 2
		if admits(c, f.rooms[i]) {
			v[i] = 1
		}
	}
	return v[i] == 1
}

func admits(c *model.Class, r *solve.Room) bool {
	if model.Untolerated(r.Taints, c.Tolerations) != nil {
		return false
	}
	if len(c.Terms) == 0 {
		return true
	}
	for i := range c.Terms {
		t := &c.Terms[i]
		if t.Requirements.Matches(r.Labels) && (t.Names == nil || t.Names.Matches(r.Name, true)) {
			return true
		}
	}
	return false
}

// sticky says whether where a pod may stand depends on more than room, labels and taints: such pods are given a machine of their own
// choice by solve, and no standing room is counted on for them.
func (f *floor) sticky(c *model.Class) bool {
	v, ok := f.stuck[c]
	if !ok {
		v = len(c.Affinity) > 0 || len(c.AntiAffinity) > 0 || len(c.HostPorts) > 0 || len(c.Volumes) > 0 || len(c.Unsolved) > 0
		for _, s := range c.Spread {
			v = v || s.Hard
		}
		for _, o := range f.anti {
			for _, t := range o.AntiAffinity {
				v = v || selects(&t.Selector, c)
			}
		}
		f.stuck[c] = v
	}
	return v
}

// selects says whether a selector may choose pods of a class; one by namespace labels is taken to.
func selects(s *model.Selector, c *model.Class) bool {
	if s.Pods == nil || !s.Pods.Matches(c.Labels) {
		return false
	}
	if s.NamespaceL != nil {
		return true
	}
	for _, n := range s.Namespaces {
		if strings.Compare(n, c.Namespace) == 0 {
			return true
		}
	}
	return false
}

// roomy says whether all pods find room however kube-scheduler has them come to stand: there is room for more of each class than all others
// together can take away. One pod takes away room for at most as many of a class as are needed to ask for as much of each resource.
func (f *floor) roomy(pods []*model.Pod) bool {
	classes := map[*model.Class]int64{}
	for _, p := range pods {
		classes[p.Class]++
	}
	asked := map[*model.Class]bool{}
	for _, p := range pods {
		c := p.Class
		if asked[c] {
			continue
		}
		if asked[c] = true; f.sticky(c) {
			return false
		}
		need := int64(0)
		for o, n := range classes {
			need += n * takes(o, c)
		}
		need += 1 - takes(c, c) // itself has not come yet
		for i := 0; i < len(f.rooms) && need > 0; i++ {
			f.work++
			if n := f.holds(c, i); n > 0 && f.admits(c, i) {
				need -= n
			}
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// takes is for how many of a class at most a pod of another takes the room away.
func takes(other, c *model.Class) int64 {
	most := int64(0)
	for d, v := range c.Requests {
		if v > 0 {
			most = max(most, (other.Requests.At(model.Dim(d))+v-1)/v)
		}
	}
	return most
}

// holds is for how many of a class there is room on a machine, whatever its labels and taints.
func (f *floor) holds(c *model.Class, i int) int64 {
	n := int64(math.MaxInt32) // of one that asks for nothing
	for d, v := range c.Requests {
		switch {
		case v > 0 && d >= f.nd:
			return 0
		case v > 0:
			n = min(n, max(0, f.free[i*f.nd+d])/v)
		}
	}
	return n
}

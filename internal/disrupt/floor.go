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

// manner is how a node is chosen among those that fit: kube-scheduler's default, and the other extreme. What holds under both is
// taken to hold under whatever a cluster has configured.
type manner int

const (
	leastAllocated manner = iota // the node with the largest free share of cpu and memory
	worstFit                     // the node with the most free cpu and memory
	manners
)

// course is one way that eviction and kube-scheduler may go: a manner, and an order of the pods. Evicted together, pods come back in
// any order; the smallest first is the hardest, since they take a little of every node from the large ones.
type course struct {
	manner
	smallFirst bool
}

var courses = [...]course{{leastAllocated, false}, {worstFit, false}, {leastAllocated, true}, {worstFit, true}}

// order is the pods as they come in a course. size is what a pod is measured by.
func (c course) order(pods []*model.Pod, size func(*model.Class) float64) []*model.Pod {
	if !c.smallFirst {
		return pods
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *model.Pod) int { return cmp.Compare(size(a.Class), size(b.Class)) })
	return out
}

// share is the larger of a class's shares of the largest machine.
func (f *floor) share(c *model.Class) float64 {
	return max(float64(c.Requests.At(model.CPU))/max(1, f.norm[0]), float64(c.Requests.At(model.Memory))/max(1, f.norm[1]))
}

// floor is the free room on machines that stand, in which evicted pods are placed one by one. Placing is undone to the last mark,
// so that a what-if costs what it touches.
type floor struct {
	ground
	rooms []*solve.Room
	undo  []undo
	base  int // of undo: what a search begins with
	fits  map[*model.Class][]int8
	anti  []*model.Class // classes that stand or come, whose anti-affinity keeps others away
	stuck map[*model.Class]bool
	dead  map[*model.Class]bool // fits nowhere though nothing has been placed yet
	work  int64

	left  []yet          // of machines that score the same a search answers the one whose loss these would feel most; nil: the first
	alike int            // machines seen in a search that score the same as the one it has found
	where func(int) bool // which machines a search may answer, beside what admits says; nil: all
}

// yet is how many pods of a class have still to come.
type yet struct {
	class *model.Class
	n     int
}

// ties is how many machines that score the same a search looks at.
const ties = 32

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
	score []float64 // manners numbers a point: the best score below
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
	f.most, f.score = make([]int64, 2*f.size*dims), make([]float64, 2*f.size*int(manners))
	for i := range f.most {
		f.most[i] = math.MinInt64
	}
	for i := range f.score {
		f.score[i] = math.Inf(-1)
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
	g.free, g.most, g.score = slices.Clone(f.free), slices.Clone(f.most), slices.Clone(f.score)
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
	s := f.score[k*int(manners):]
	c, m := float64(free[0]), float64(free[1])
	s[leastAllocated] = c/f.alloc[i*2] + m/f.alloc[i*2+1]
	s[worstFit] = c/f.norm[0] + m/f.norm[1]
}

func (f *ground) join(k int) {
	a, b := 2*k, 2*k+1
	for d := range f.nd {
		f.most[k*f.nd+d] = max(f.most[a*f.nd+d], f.most[b*f.nd+d])
	}
	for m := range int(manners) {
		f.score[k*int(manners)+m] = max(f.score[a*int(manners)+m], f.score[b*int(manners)+m])
	}
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

// close takes a machine out of the choice.
func (f *floor) close(node string) {
	i, ok := f.at[node]
	if !ok {
		return
	}
	f.save(i)
	for d := range f.nd {
		f.free[i*f.nd+d] = math.MinInt64 / 4
	}
	f.set(i)
}

// put places one pod of a class as kube-scheduler would, and says where; negative: nowhere. Pods whose place depends on other pods,
// ports or volumes are not placed here.
func (f *floor) put(c *model.Class, m manner) int {
	if len(f.rooms) == 0 || f.dead[c] || f.sticky(c) {
		return -1
	}
	best, score := -1, math.Inf(-1)
	f.search(1, c, m, &best, &score)
	if best >= 0 {
		f.take(best, c)
	}
	return best
}

// settle makes the present what a search begins with, and notes the classes that fit nowhere in it: they will not while
// more is placed and closed either.
func (f *floor) settle(classes []*model.Class) {
	f.base = f.mark()
	f.dead = map[*model.Class]bool{}
	for _, c := range classes {
		if f.put(c, leastAllocated) < 0 {
			f.dead[c] = true
		}
		f.back(f.base)
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

func (f *floor) search(k int, c *model.Class, m manner, best *int, score *float64) {
	f.work++
	s := f.score[k*int(manners)+int(m)]
	if s < *score || s == *score && (f.left == nil || f.alike >= ties) {
		return
	}
	if !f.below(k, c) {
		return
	}
	if k >= f.size {
		i := k - f.size
		if i >= len(f.rooms) || !f.admits(c, i) || f.where != nil && !f.where(i) {
			return
		}
		if s > *score {
			f.alike = 0
		} else if f.alike++; f.loss(c, i) <= f.loss(c, *best) {
			return
		}
		*best, *score = i, s
		return
	}
	a, b := 2*k, 2*k+1
	if f.score[b*int(manners)+int(m)] > f.score[a*int(manners)+int(m)] {
		a, b = b, a
	}
	f.search(a, c, m, best, score)
	f.search(b, c, m, best, score)
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

// tied visits the machines that a search may answer and that score so, until a visit says no.
func (f *floor) tied(k int, c *model.Class, m manner, score float64, visit func(i int) bool) bool {
	f.work++
	if f.score[k*int(manners)+int(m)] < score || !f.below(k, c) {
		return true
	}
	if k < f.size {
		return f.tied(2*k, c, m, score, visit) && f.tied(2*k+1, c, m, score, visit)
	}
	i := k - f.size
	if i >= len(f.rooms) || f.score[k*int(manners)+int(m)] != score || !f.admits(c, i) || f.where != nil && !f.where(i) {
		return true
	}
	return visit(i)
}

// expect has searches reckon with pods that have still to come.
func (f *floor) expect(pods []*model.Pod) {
	f.left = []yet{}
	at := map[*model.Class]int{}
	for _, p := range pods {
		i, ok := at[p.Class]
		if !ok {
			i = len(f.left)
			at[p.Class], f.left = i, append(f.left, yet{class: p.Class})
		}
		f.left[i].n++
	}
}

// comes says that a pod of a class comes now; then it has not still to come.
func (f *floor) comes(c *model.Class) {
	for i := range f.left {
		if f.left[i].class == c {
			f.left[i].n--
			return
		}
	}
}

// loss is for how many of those that have still to come a machine has no room any more once a pod of a class is there, by their size.
func (f *floor) loss(c *model.Class, i int) float64 {
	sum := 0.0
	for _, y := range f.left {
		if y.n <= 0 || !f.admits(y.class, i) {
			continue
		}
		before, after := y.n, y.n
		for d, v := range y.class.Requests {
			if v > 0 && d < f.nd {
				free, takes := f.free[i*f.nd+d], int64(0)
				if d < len(c.Requests) {
					takes = c.Requests[d]
				}
				before, after = min(before, int(max(0, free)/v)), min(after, int(max(0, free-takes)/v))
			}
		}
		if apart(c, y.class) {
			after = 0
		}
		sum += f.share(y.class) * float64(before-after)
	}
	return sum
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

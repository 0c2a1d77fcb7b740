// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// freeCapacity is the free-capacity index: it places pods one by one on existing nodes, as a what-if. Every change
// can be undone back to a mark, so that a what-if costs what it touches.
type freeCapacity struct {
	capacityTree
	nodes []*solve.ExistingNode // those open to pods, in the order of the tree
	undo  []savedNode
	steps int64 // points of the tree and nodes visited

	// repelling are the classes on any node, existing or in flight, whose anti-affinity keeps other pods away.
	repelling []*model.Class
	// unplaceable are the classes that fit no node even before anything is placed.
	unplaceable map[*model.Class]bool

	daemons []*model.Daemon

	admitted    map[*model.Class][]int8 // found so far, by node: 0 not known, 1 yes, 2 no; see admits
	solverNeeds map[*model.Class]bool   // found so far, see needsSolver
	toCome      map[int]model.Resources // found so far, by node; see daemonsToCome
}

type savedNode struct {
	index int
	free  []int64
}

// newFreeCapacity is the index of all nodes that are open to pods.
func newFreeCapacity(nodes []solve.ExistingNode, daemons []*model.Daemon, dims int) *freeCapacity {
	f := emptyFreeCapacity(daemons)
	seen := map[*model.Class]bool{}
	for i := range nodes {
		node := &nodes[i]
		if isOpen(node) {
			f.nodes = append(f.nodes, node)
		}
		if !node.Drained {
			f.repelling = addRepelling(f.repelling, node.Pods, seen)
		}
	}
	f.capacityTree = newCapacityTree(f.nodes, dims)
	return f
}

// emptyFreeCapacity is an index that nodes, tree and repelling classes are still to be given to.
func emptyFreeCapacity(daemons []*model.Daemon) *freeCapacity {
	return &freeCapacity{daemons: daemons, admitted: map[*model.Class][]int8{}, solverNeeds: map[*model.Class]bool{}, toCome: map[int]model.Resources{}}
}

// daemonsToCome is what the pods of DaemonSets request that are not on a node yet, are admitted there and fit. The index does not take it off
// a node's free capacity: few nodes lack a pod, and only those that pods are placed on are asked about.
func (f *freeCapacity) daemonsToCome(i int) model.Resources {
	sum, known := f.toCome[i]
	if known {
		return sum
	}
	node := f.nodes[i]
	free := node.Free
	for _, d := range f.daemons {
		if nodeAdmits(node, d.Class) && d.Pod().Requests.Fits(free) && !slices.ContainsFunc(node.Pods, d.Runs) {
			free, sum = free.Sub(d.Pod().Requests), sum.Add(d.Pod().Requests)
		}
	}
	f.toCome[i] = sum
	return sum
}

// keepForDaemons takes what is still to come of DaemonSets off nodes that have too little left for it once pods are placed there, and notes it in
// kept. It reports whether it did: the pods are to be placed anew then.
func (f *freeCapacity) keepForDaemons(placed map[int][]*model.Pod, mark int, kept map[int]model.Resources) bool {
	var short []int
	for i := range placed {
		if _, done := kept[i]; done {
			continue
		}
		sum, free := f.daemonsToCome(i), f.freeOf(i)
		for d, v := range sum {
			if v > 0 && d < f.dims && v > free[d] {
				short = append(short, i)
				break
			}
		}
	}
	if len(short) == 0 {
		return false
	}
	f.rollback(mark)
	for _, i := range short {
		kept[i] = f.toCome[i]
		f.saveNode(i)
		for d, v := range kept[i] {
			if d < f.dims {
				f.free[i*f.dims+d] -= v
			}
		}
		f.updateNode(i)
	}
	return true
}

// isOpen reports whether pods may be placed on a node now.
func isOpen(node *solve.ExistingNode) bool { return !node.InFlight && !node.Closed && !node.Drained }

// mark is the present state, for rollback.
func (f *freeCapacity) mark() int { return len(f.undo) }

// rollback undoes everything that was placed and closed since a mark.
func (f *freeCapacity) rollback(mark int) {
	for len(f.undo) > mark {
		saved := f.undo[len(f.undo)-1]
		f.undo = f.undo[:len(f.undo)-1]
		copy(f.free[saved.index*f.dims:], saved.free)
		f.updateNode(saved.index)
	}
}

func (f *freeCapacity) saveNode(i int) {
	f.undo = append(f.undo, savedNode{index: i, free: append([]int64(nil), f.freeOf(i)...)})
}

// closeNode takes a node out of the choice. One that is not in the index is out already.
func (f *freeCapacity) closeNode(name string) {
	i, ok := f.indexOf[name]
	if !ok {
		return
	}
	f.saveNode(i)
	for d := range f.dims {
		f.free[i*f.dims+d] = 2 * closedCapacity
	}
	f.updateNode(i)
}

// placePod places one pod of a class on the fullest existing node that fits, and returns the index of the node; -1 if none fits.
// A class that needs the solver is never placed.
func (f *freeCapacity) placePod(c *model.Class) int {
	if len(f.nodes) == 0 || f.unplaceable[c] || f.needsSolver(c) {
		return -1
	}
	best, fill := -1, math.Inf(-1)
	f.findFullest(1, c, &best, &fill)
	if best >= 0 {
		f.saveNode(best)
		for d, v := range c.Requests {
			if d < f.dims {
				f.free[best*f.dims+d] -= v
			}
		}
		f.updateNode(best)
	}
	return best
}

// findFullest looks below a point of the tree for a node that holds a pod of a class and is fuller than the best so
// far.
func (f *freeCapacity) findFullest(k int, c *model.Class, best *int, fill *float64) {
	f.steps++
	if f.maxFill[k] <= *fill || !f.mayFitBelow(k, c) {
		return
	}
	if k >= f.leaves {
		if i := k - f.leaves; i < len(f.nodes) && f.admits(c, i) {
			*best, *fill = i, f.maxFill[k]
		}
		return
	}
	a, b := 2*k, 2*k+1
	if f.maxFill[b] > f.maxFill[a] {
		a, b = b, a
	}
	f.findFullest(a, c, best, fill)
	f.findFullest(b, c, best, fill)
}

// placePods places pods of candidates on the free capacity of existing nodes: the largest pod first, each on the fullest node
// that fits. It returns the placed pods by index of node, and the pods that fit no node, the largest first.
func (f *freeCapacity) placePods(pods []*model.Pod) (placed map[int][]*model.Pod, rest []*model.Pod) {
	placed = map[int][]*model.Pod{}
	bySize := slices.Clone(pods)
	slices.SortStableFunc(bySize, func(a, b *model.Pod) int { return cmp.Compare(f.shareOfLargest(b.Class), f.shareOfLargest(a.Class)) })
	full := map[*model.Class]bool{}
	for _, p := range bySize {
		at := -1
		if !full[p.Class] {
			if at = f.placePod(p.Class); at < 0 {
				full[p.Class] = true
			}
		}
		if at < 0 {
			rest = append(rest, p)
		} else {
			placed[at] = append(placed[at], p)
		}
	}
	return placed, rest
}

// noteUnplaceable finds the classes that fit no node at present: they will not while more is placed and closed either.
func (f *freeCapacity) noteUnplaceable(classes []*model.Class) {
	mark := f.mark()
	f.unplaceable = map[*model.Class]bool{}
	for _, c := range classes {
		if f.placePod(c) < 0 {
			f.unplaceable[c] = true
		}
		f.rollback(mark)
	}
}

// fitsHoweverPlaced reports whether all pods find a node however kube-scheduler places them: for each class there is
// capacity for more pods than all others together can take away. A pod of one class takes away at most as many places
// of another as are needed to request as much of each resource.
func (f *freeCapacity) fitsHoweverPlaced(pods []*model.Pod) bool {
	count := map[*model.Class]int64{}
	for _, p := range pods {
		count[p.Class]++
	}
	checked := map[*model.Class]bool{}
	for _, p := range pods {
		c := p.Class
		if checked[c] {
			continue
		}
		if checked[c] = true; f.needsSolver(c) {
			return false
		}
		need := int64(0)
		for other, n := range count {
			need += n * placesTaken(other, c)
		}
		need += 1 - placesTaken(c, c) // the last pod of the class itself needs one place, and takes none before
		for i := 0; i < len(f.nodes) && need > 0; i++ {
			f.steps++
			if n := f.podsThatFit(i, c, nil); n > 0 && f.admits(c, i) {
				need -= f.podsThatFit(i, c, f.daemonsToCome(i))
			}
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// placesTaken is for how many pods of a class at most one pod of another takes the capacity away.
func placesTaken(other, c *model.Class) int64 {
	most := int64(0)
	for d, v := range c.Requests {
		if v > 0 {
			most = max(most, (other.Requests.At(model.Dim(d))+v-1)/v)
		}
	}
	return most
}

// FindUnplaceable returns one of some pods when they may find no free capacity while the named nodes are closed and
// other pods are in transit too; nil: all find some, however kube-scheduler places them and the others.
func FindUnplaceable(nodes []solve.ExistingNode, daemons []*model.Daemon, dims int, closed []string, pods, others []*model.Pod) *model.Pod {
	f := newFreeCapacity(nodes, daemons, dims)
	for _, n := range closed {
		f.closeNode(n)
	}
	if len(pods) == 0 || f.fitsHoweverPlaced(slices.Concat(others, pods)) {
		return nil
	}
	return pods[0]
}

// HoldsOneOf reports whether an open node may hold one of some pods. Where only the solver could tell, it may.
func HoldsOneOf(node solve.ExistingNode, dims int, pods []*model.Pod) bool {
	f := newFreeCapacity([]solve.ExistingNode{node}, nil, dims)
	checked := map[*model.Class]bool{}
	for _, p := range pods {
		if c := p.Class; !checked[c] {
			checked[c] = true
			if len(f.nodes) > 0 && f.podsThatFit(0, c, nil) > 0 && (f.needsSolver(c) || f.admits(c, 0)) {
				return true
			}
		}
	}
	return false
}

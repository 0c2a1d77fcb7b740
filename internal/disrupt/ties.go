// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Which of machines that score the same kube-scheduler takes is chance. How much is looked at to find out whether chance may leave a pod
// without a home is counted in points: of the tree of free room that were visited, and words of what was noted.
const (
	tiePoints = 200_000 // for one move at most, beside one walk of each kind
	tieSearch = 4       // for all moves of a search, times that
	podPoints = 64      // for each pod of a walk: then a walk in which nothing scores the same is always within the bound
	fewPods   = 200     // a move of more is not drawn often: there a single tie decides little
	minDraws  = 6       // of each walk of a move of few pods that is beyond the bound; one of a move of many
	maxDraws  = 48      // of each, where they cost no more than the bound
)

// ties are the pods of a move, by kind, that may find no room because of ties, or stuck as of short.
//
// Guaranteed where the answer is none and nothing was beyond the bound: in each course (both manners, both orders), and whenever pods are let
// in to what comes, every pod has a home whichever of the machines that score the same each pod before it took. All such choices are
// followed, but two only once where they can't make a difference: machines that are the same for all pods of the move, and states that
// earlier choices have led to already, whichever pod stands where. A move that fits however its pods come to stand needs no search: see
// roomy.
//
// Beyond the bound, which takes many machines that score the same and differ, that much of the choices has been followed without finding
// such a pod, and as many walks again with chance drawn as cost the same (at least one, six where the pods are few). Then a tie may still leave
// a pod without a home: it waits until a machine is bought for it.
//
// Not looked at: scores that kube-scheduler rounds to the same, and where else pods on their way may come to stand.
func (s *search) ties(m *Move) (short map[kin]int, stuck bool) {
	if m.Standing == 0 {
		return nil, false // a slot each
	}
	if open, _ := s.open(m); len(open) > 0 {
		return nil, false // those have a stricter test
	}
	f := s.f
	defer f.back(f.mark())
	pods, _ := s.clear(m.Units)
	planned := s.planned(m)
	slots := map[kin]int{}
	for i := range m.New {
		for _, p := range m.New[i].Pods {
			slots[kinOf(p)]++
		}
	}
	if len(planned) == 0 && f.roomy(pods, slots) {
		return nil, false
	}
	first := s.pending(m)
	short = map[kin]int{}
	var walks []*chances
	for _, way := range []letIn{inTime, late, lateAndFirst} {
		for _, roam := range []bool{true, false} {
			if roam && len(planned) == 0 || !roam && len(m.New) == 0 && len(planned) > 0 {
				continue
			}
			for _, c := range courses {
				walks = append(walks, newChances(f, c, first.order(c.order(pods, f.share), way), first, planned, roam, way, short))
			}
		}
		if len(m.New) == 0 {
			break // nobody is let in anywhere
		}
	}
	same := newAlikes(f, pods, planned)
	points := min(tiePoints, s.tiePoints) / int64(len(walks))
	for _, w := range walks {
		w.same = same
		spent := f.work
		w.walk(points + int64(podPoints*len(pods)))
		stuck = stuck || w.stuck
		s.tiePoints = max(0, s.tiePoints-(f.work-spent))
	}
	return short, stuck
}

// planned are the pods of a move that solve has put on standing room, with the machine.
func (s *search) planned(m *Move) map[*model.Pod]int {
	planned := map[*model.Pod]int{}
	if m.Result != nil {
		for _, a := range m.Result.OnRooms {
			if i, ok := s.f.at[a.Room]; ok {
				for _, p := range a.Pods {
					planned[p] = i
				}
			}
		}
	}
	return planned
}

// roomy says whether all pods for which there are not enough slots find standing room however the others come to stand: there is room for more
// of their class than all others together can take away. One pod takes away room for at most as many of a class as are needed to ask for as
// much of each resource. It is what tells of most large moves, which are beyond any search.
func (f *floor) roomy(pods []*model.Pod, slots map[kin]int) bool {
	kinds, classes := map[kin]int{}, map[*model.Class]int64{}
	for _, p := range pods {
		kinds[kinOf(p)]++
		classes[p.Class]++
	}
	asked := map[*model.Class]bool{}
	for _, p := range pods {
		c := p.Class
		if k := kinOf(p); kinds[k] <= slots[k] || asked[c] {
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

// spot is where a pod may go: a machine that stands, or one that comes, which is negative.
type spot int

func coming(i int) spot { return spot(-1 - i) }

// chances is a walk in one course along all choices that chance has in it.
type chances struct {
	f       *floor
	course  course
	order   []*model.Pod
	come    pending // what comes
	planned map[*model.Pod]int
	roam    bool
	way     letIn
	short   map[kin]int // how many of a kind find no room, at most
	stuck   bool
	lost    *model.Pod            // the first that found none
	excused func(*model.Pod) bool // of which pods it doesn't matter; nil: of none
	same    *alikes

	base  int                  // of the floor's undo
	log   []placed             // pods that have come
	stood int                  // those of them on standing room
	there map[int][]*model.Pod // by machine that stands
	was   map[int][]int64      // what was free on machines before any pod came
	kept  map[int][]*model.Pod // by machine that comes
	seen  map[string]bool      // states in which there was a choice
	until int64                // points
	over  bool                 // more points were needed
	luck  uint64               // the state of chance; 0: all choices are followed
	kinds map[kin]uint64       // numbers
	alike []uint64             // by machine that comes: machines of the same number are the same
}

type placed struct {
	pod *model.Pod
	at  spot
}

func newChances(f *floor, c course, order []*model.Pod, first pending, planned map[*model.Pod]int, roam bool, way letIn, short map[kin]int) *chances {
	return &chances{f: f, course: c, order: order, come: first, planned: planned, roam: roam, way: way, short: short}
}

// walk follows all choices up to so many points, and beyond draws.
func (w *chances) walk(points int64) {
	f := w.f
	defer f.back(f.mark())
	if !w.roam && len(w.planned) > 0 { // those that solve has put somewhere come to stand there
		var others []*model.Pod
		for _, p := range w.order {
			if i, ok := w.planned[p]; ok {
				f.take(i, p.Class)
			} else {
				others = append(others, p)
			}
		}
		w.order = others
	}
	w.base, w.come = f.mark(), w.come.clone()
	w.there, w.was, w.kept, w.seen = map[int][]*model.Pod{}, map[int][]int64{}, map[int][]*model.Pod{}, map[string]bool{}
	w.number()
	w.until = f.work + points
	if w.follow(0) || !w.over {
		return
	}
	least, most := minDraws, maxDraws
	if len(w.order) > fewPods {
		least, most = 1, 1
	}
	w.until = f.work + points
	for n := 0; n < least || n < most && f.work < w.until; n++ {
		w.back(0)
		w.luck = uint64(n + 1)
		if w.follow(0) {
			return
		}
	}
}

// follow has the pods from one on come, and says whether one of them finds no room. Then the rest have come too, in one way.
func (w *chances) follow(from int) (lost bool) {
	for i := from; i < len(w.order); i++ {
		p := w.order[i]
		spots := w.spots(p, i+1 == len(w.order))
		switch {
		case w.over && w.luck == 0:
			return false
		case len(spots) == 0 && w.excused != nil && w.excused(p):
		case len(spots) == 0:
			w.lost = p
			w.lose(i)
			return true
		case len(spots) == 1:
			w.put(p, spots[0])
		case w.luck != 0:
			w.put(p, spots[w.draw(len(spots))])
		case !w.fresh(i):
			return false
		default:
			w.worstFirst(spots, w.order[i+1:])
			for _, at := range spots {
				mark := len(w.log)
				if w.put(p, at); w.follow(i + 1) {
					return true
				}
				if w.back(mark); w.over {
					return false
				}
			}
			return false
		}
	}
	return false
}

// lose counts those that find no room from a pod on.
func (w *chances) lose(from int) {
	missing := map[kin]int{}
	for _, p := range w.order[from:] {
		if spots := w.spots(p, true); len(spots) > 0 {
			w.put(p, spots[0])
		} else if _, put := w.planned[p]; put {
			w.stuck = true
		} else {
			missing[kinOf(p)]++
		}
	}
	for k, n := range missing {
		w.short[k] = max(w.short[k], n)
	}
}

// spots are the places that score highest for a pod; one of those that are the same. With one the first is enough.
func (w *chances) spots(p *model.Pod, one bool) (out []spot) {
	f := w.f
	room, score := -1, math.Inf(-1)
	at, put := w.planned[p]
	look := len(f.rooms) > 0
	switch {
	case put:
		f.where = func(j int) bool { return f.near(p.Class, at, j) && f.alone(p.Class, j, w.there[j]) }
	case f.sticky(p.Class): // no standing room is counted on for it, but it may take some
		f.where = func(j int) bool { return f.alone(p.Class, j, w.there[j]) }
	default:
		look = look && !f.dead[p.Class]
	}
	defer func() { f.where = nil }()
	if look {
		f.search(1, p.Class, w.course.manner, &room, &score)
	}
	best, k := score, kinOf(p)
	if w.way == inTime || room < 0 {
		for i := range w.come.free {
			if w.come.slots[i][k] == 0 || !p.Class.Requests.Fits(w.come.free[i]) {
				continue
			}
			x := f.rate(w.come.free[i], w.come.alloc[i], w.course.manner)
			if x > best {
				best, out = x, out[:0]
			}
			if x == best && !slices.ContainsFunc(out, func(o spot) bool { return w.sameKept(int(-1-o), i) }) {
				out = append(out, coming(i))
			}
		}
	}
	if room < 0 || score < best {
		return out
	}
	if one {
		return append(out, spot(room))
	}
	n := 0
	f.tied(1, p.Class, w.course.manner, score, func(i int) bool {
		n++
		if !slices.ContainsFunc(out, func(o spot) bool { return o >= 0 && w.same.is(int(o), i, w) }) {
			out = append(out, spot(i))
		}
		w.over = w.over || f.work > w.until
		return (w.luck != 0 && n < ties) || (w.luck == 0 && !w.over)
	})
	return out
}

// worstFirst sorts spots by how much those who have still to come would feel their loss.
func (w *chances) worstFirst(spots []spot, rest []*model.Pod) {
	w.f.expect(rest)
	c := w.order[len(w.order)-len(rest)-1].Class
	slices.SortStableFunc(spots, func(a, b spot) int {
		if a < 0 || b < 0 {
			return cmp.Compare(b, a) // what comes is for them alone
		}
		return cmp.Compare(w.f.loss(c, int(b)), w.f.loss(c, int(a)))
	})
	w.f.left = nil
	w.f.work += int64(len(rest))
}

// draw is a number below n, by the generator SplitMix64: its first numbers differ well though the states to begin with are 1, 2, 3 and so on.
func (w *chances) draw(n int) int {
	w.luck += 0x9e3779b97f4a7c15
	x := w.luck
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

func (w *chances) put(p *model.Pod, at spot) {
	w.log = append(w.log, placed{p, at})
	if at < 0 {
		i, k := int(-1-at), kinOf(p)
		w.come.slots[i][k]--
		w.come.free[i] = w.come.free[i].AddInto(p.Class.Requests, -1)
		w.kept[i] = append(w.kept[i], p)
		return
	}
	i := int(at)
	if w.was[i] == nil {
		w.was[i] = slices.Clone(w.f.free[i*w.f.nd : (i+1)*w.f.nd])
	}
	w.f.take(i, p.Class)
	w.there[i] = append(w.there[i], p)
	w.stood++
}

// back takes back all pods that have come since there were n.
func (w *chances) back(n int) {
	for ; len(w.log) > n; w.log = w.log[:len(w.log)-1] {
		x := w.log[len(w.log)-1]
		if x.at < 0 {
			i := int(-1 - x.at)
			w.come.slots[i][kinOf(x.pod)]++
			w.come.free[i] = w.come.free[i].AddInto(x.pod.Class.Requests, 1)
			w.kept[i] = w.kept[i][:len(w.kept[i])-1]
			continue
		}
		i := int(x.at)
		w.there[i] = w.there[i][:len(w.there[i])-1]
		w.stood--
	}
	w.f.back(w.base + w.stood) // it has noted one change for each
}

// fresh says whether the state before a pod comes has not been met before: what is free on machines, whichever of those that are the same it
// is, and who has come there of those who keep others away.
func (w *chances) fresh(i int) bool {
	var is, was, kept []string
	for _, r := range slices.Sorted(maps.Keys(w.was)) { // machines are numbered when they are met first
		if len(w.there[r]) > 0 {
			is, was = append(is, w.same.key(r, w.f.free[r*w.f.nd:(r+1)*w.f.nd], w.there[r])), append(was, w.same.key(r, w.was[r], nil))
		}
	}
	slices.Sort(is)
	slices.Sort(was)
	for r, pods := range w.kept {
		if len(pods) > 0 {
			kept = append(kept, w.keptKey(r, pods))
		}
	}
	slices.Sort(kept)
	key := binary.AppendUvarint(nil, uint64(i))
	for len(is) > 0 || len(was) > 0 { // what is there as it was before, on another machine, is no difference
		switch {
		case len(is) > 0 && len(was) > 0 && is[0] == was[0]:
			is, was = is[1:], was[1:]
		case len(was) == 0 || len(is) > 0 && is[0] < was[0]:
			key = append(append(key, '+'), is[0]...)
			is = is[1:]
		default:
			key = append(append(key, '-'), was[0]...)
			was = was[1:]
		}
	}
	for _, k := range kept {
		key = append(append(key, '*'), k...)
	}
	w.f.work += int64(len(key)/8 + len(w.log))
	if w.over = w.over || w.f.work > w.until; w.seen[string(key)] {
		return false
	}
	w.seen[string(key)] = true
	return true
}

// keptKey is a machine that comes with the pods that have come to it.
func (w *chances) keptKey(i int, pods []*model.Pod) string {
	kinds := make([]uint64, len(pods))
	for j, p := range pods {
		kinds[j] = w.kinds[kinOf(p)]
	}
	slices.Sort(kinds)
	key := binary.AppendUvarint(nil, w.alike[i])
	key = binary.AppendUvarint(key, uint64(len(kinds)))
	for _, k := range kinds {
		key = binary.AppendUvarint(key, k)
	}
	return string(key)
}

// sameKept says whether two machines that come are the same for all that may come still.
func (w *chances) sameKept(i, j int) bool {
	return w.keptKey(i, w.kept[i]) == w.keptKey(j, w.kept[j])
}

// number gives pods of a kind one number, and machines that come and were the same to begin with one.
func (w *chances) number() {
	w.kinds = map[kin]uint64{}
	for _, p := range w.order {
		if _, ok := w.kinds[kinOf(p)]; !ok {
			w.kinds[kinOf(p)] = uint64(len(w.kinds))
		}
	}
	known := map[string]uint64{}
	w.alike = make([]uint64, len(w.come.free))
	for i := range w.alike {
		var slots []uint64
		for k, n := range w.come.slots[i] {
			if id, ok := w.kinds[k]; ok { // of others none comes
				slots = append(slots, id<<32|uint64(n))
			}
		}
		slices.Sort(slots)
		key := []byte(w.come.free[i].Key() + "/" + w.come.alloc[i].Key() + "/")
		for _, x := range slots {
			key = binary.AppendUvarint(key, x)
		}
		id, ok := known[string(key)]
		if !ok {
			id = uint64(len(known))
			known[string(key)] = id
		}
		w.alike[i] = id
	}
}

// alikes tells which machines that stand are the same for the pods of a move, but for what is free.
type alikes struct {
	f       *floor
	classes []*model.Class
	apart   map[*model.Class]uint64 // numbers of those that keep another of them away, or are kept away
	zoned   bool                    // the zone makes a difference
	alone   []bool                  // by class: who stands there makes a difference
	of      map[int]uint64
	known   map[string]uint64
}

func newAlikes(f *floor, pods []*model.Pod, planned map[*model.Pod]int) *alikes {
	a := &alikes{f: f, apart: map[*model.Class]uint64{}, of: map[int]uint64{}, known: map[string]uint64{}}
	at := map[*model.Class]int{}
	for _, p := range pods {
		i, ok := at[p.Class]
		if !ok {
			i = len(a.classes)
			at[p.Class] = i
			a.classes, a.alone = append(a.classes, p.Class), append(a.alone, f.sticky(p.Class))
		}
		if _, ok := planned[p]; ok {
			a.alone[i], a.zoned = true, a.zoned || wider(p.Class)
		}
	}
	for i, c := range a.classes {
		if slices.ContainsFunc(a.classes, func(o *model.Class) bool { return apart(c, o) }) {
			a.apart[c] = uint64(i)
		}
	}
	return a
}

// number is the same for machines that are the same, but for what is free and who has come.
func (a *alikes) number(r int) uint64 {
	if id, ok := a.of[r]; ok {
		return id
	}
	f := a.f
	f.work += int64(len(a.classes))
	key := binary.BigEndian.AppendUint64(nil, math.Float64bits(f.alloc[r*2]))
	key = binary.BigEndian.AppendUint64(key, math.Float64bits(f.alloc[r*2+1]))
	for i, c := range a.classes {
		b := byte(0)
		if f.admits(c, r) {
			b = 1
		}
		if a.alone[i] && !f.alone(c, r, nil) {
			b += 2
		}
		key = append(key, b)
	}
	if a.zoned {
		key = append(key, f.rooms[r].Labels[model.LabelZone]...)
	}
	id, ok := a.known[string(key)]
	if !ok {
		id = uint64(len(a.known))
		a.known[string(key)] = id
	}
	a.of[r] = id
	return id
}

// key is a machine with so much free and these pods come to it.
func (a *alikes) key(r int, free []int64, come []*model.Pod) string {
	key := binary.AppendUvarint(nil, a.number(r))
	for _, v := range free {
		key = binary.BigEndian.AppendUint64(key, uint64(v))
	}
	keepers := a.keepers(come)
	key = binary.AppendUvarint(key, uint64(len(keepers)))
	for _, c := range keepers {
		key = binary.AppendUvarint(key, c)
	}
	return string(key)
}

// keepers are the classes of pods that keep others away or are kept away, by number, each once.
func (a *alikes) keepers(come []*model.Pod) (out []uint64) {
	if len(a.apart) == 0 {
		return nil
	}
	for _, p := range come {
		if i, ok := a.apart[p.Class]; ok && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// is says whether two machines are the same as they are now.
func (a *alikes) is(i, j int, w *chances) bool {
	nd := a.f.nd
	return slices.Equal(a.f.free[i*nd:(i+1)*nd], a.f.free[j*nd:(j+1)*nd]) && a.number(i) == a.number(j) &&
		slices.Equal(a.keepers(w.there[i]), a.keepers(w.there[j]))
}

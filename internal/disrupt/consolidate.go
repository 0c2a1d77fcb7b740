// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Input is what a search for moves may look at.
type Input struct {
	ResourceNames []string
	Units         []*Unit      // those that may go as far as Guard is concerned, by node name
	Rooms         []solve.Room // every machine that stands or comes, as for a solve
	Pools         []solve.Pool
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels
	Left          map[string]int64 // by pool: how many more machines its budgets let go
	Spare         map[string]int64 // by node group: how many more machines its minimum lets go; absent: all
	Transit       []*model.Pod     // pods on their way: standing room is theirs first
	Adrift        []*model.Pod     // those of them that no machine is kept for
	Starts        Starts           // measured
	Boot          time.Duration    // measured; 0: not known
	Whole         map[string]Whole // by pool, for policy Balanced
	Scope         Scope            // how far to look

	NoReserve func(*solve.NewNode) plan.Reason // why a machine can't be kept to its pods (contract 9), an empty code: it can; nil: all can
}

// Whole is all of a pool: what its machines cost, and what disrupting all of them would weigh.
type Whole struct{ PriceMicro, Disruption int64 }

// Move is a set of machines that go, and what comes for them.
type Move struct {
	Cause     plan.Code
	Units     []*Unit         // by node name
	New       []solve.NewNode // reserved for the pods' successors
	Alike     bool            // one machine of the pool comes for each, whatever pods it has: static pools
	Standing  int             // pods that standing room is for
	OldMicro  int64           // per hour
	NewMicro  int64           // per hour
	CostMicro int64           // once
	Gain      int64           // what the saving comes to over the horizon, less the cost
	Problem   *solve.Problem  // what New was solved from; nil where nothing is bought
	Result    *solve.Result
	Why       plan.Reason

	Scores map[string]float64 // of its pools of policy Balanced: the share of their price saved to the share of their pods' weight disturbed

	sure bool // looked at by ties
}

// Saving is what a move saves an hour.
func (m *Move) Saving() int64 { return m.OldMicro - m.NewMicro }

type search struct {
	in   *Input
	pol  Policy
	sol  solve.Policy
	mem  *Memory
	f    *floor
	x    prices
	work int64

	tiePoints int64 // that ties may still look at

	refused solve.Refusal        // the last pod found without a home
	crowded bool                 // a pod that others tell where to stand is on its way to standing room, and where it comes to stand is not known
	seats   map[int][]*model.Pod // by machine: the pods on their way that are taken to come there
}

// Consolidate finds the move that is worth most among those in its scope, nil where none pays.
func Consolidate(in *Input, pol Policy, sol solve.Policy, old Memory) (*Move, Memory) {
	sol.Work = min(sol.Work, pol.Work)
	mem, f := compare(in, old)
	s := &search{in: in, pol: pol, sol: sol, mem: &mem, f: f, tiePoints: tieSearch * tiePoints}
	wide := mem.widen(in, in.Scope)
	most := pol.Narrow
	if wide {
		mem.forget()
		mem.Wide, most = true, pol.Sweep
		for _, u := range in.Units {
			mem.total += max(u.PriceMicro, 0)
		}
	}
	if mem.prices == nil {
		mem.prices = pricesOf(in)
	}
	look, more := s.look(most)
	mem.More = more
	var best *Move
	if len(look) > 0 || wide {
		s.begin(look)
		s.order(look)
		found := s.singles(look)
		if wide {
			found = append(found, s.sets(look)...)
		}
		if best = s.surest(found, look); wide && best != nil {
			best = s.tidied(best, look)
		}
	}
	mem.dirty = mem.dirty || best != nil // what is looked at after it may find more
	f.back(0)
	mem.ground = f.ground // as it stands; from now on nobody writes to it
	if mem.Work = s.work + f.work; wide {
		mem.WideWork = mem.Work
	}
	return best, mem
}

// look are the machines that want a look, at most so many, and whether there are more: first those that have not been looked at, then
// those for which most room has come free.
func (s *search) look(most int) (out []candidate, more bool) {
	var again []candidate // the largest over first
	for i := range s.mem.seen {
		x := &s.mem.seen[i]
		switch {
		case !s.mem.stale(x) || s.in.Left[x.unit.Pool.Name] <= 0: // the budget is told by whoever counts it
		case x.why == nil:
			if len(out) == most {
				return out, true
			}
			out = append(out, candidate{Unit: s.in.Units[i], seen: x})
		default:
			c := candidate{Unit: s.in.Units[i], seen: x, again: true, over: s.mem.grown - x.at - x.short}
			if len(again) == most {
				more = true
				if c.over <= again[most-1].over {
					continue
				}
				again = again[:most-1]
			}
			k, _ := slices.BinarySearchFunc(again, c.over, func(a candidate, over int64) int {
				if a.over >= over {
					return -1
				}
				return 1
			})
			again = slices.Insert(again, k, c)
		}
	}
	n := min(len(again), most-len(out))
	return append(out, again[:n]...), more || n < len(again)
}

// Replace finds what must come for machines that go for another reason than price.
func Replace(in *Input, units []*Unit, cause plan.Code, pol Policy, sol solve.Policy) (*Move, plan.Reason) {
	sol.Work = min(sol.Work, pol.Work)
	mem := Memory{prices: pricesOf(in)}
	s := &search{in: in, pol: pol, sol: sol, mem: &mem, f: newFloor(in.Rooms, len(in.ResourceNames)), tiePoints: tiePoints}
	look := make([]candidate, len(units))
	for i, u := range units {
		look[i].Unit = u
	}
	s.begin(look)
	m, why := s.homes(units, true)
	if m != nil {
		m.Cause = cause
	}
	return m, why
}

// Homes says whether pods that have no machine of their own coming still find standing room one by one, whichever way kube-scheduler
// chooses, also between machines that score the same (as far as ties says), and whoever comes first, while the given nodes are closed and others are on their way, who must not lose theirs; otherwise which
// pod finds none. Those whose place depends on other pods are returned, and those of the others of whom that is so: they are for solve to look
// at, in the rooms returned with them, which are what all the rest leave.
func Homes(rooms []solve.Room, dims int, closed []string, pods, others []*model.Pod) (homeless *model.Pod, unsure, ahead []*model.Pod, left []solve.Room) {
	f := newFloor(rooms, dims)
	going := map[string]bool{}
	for _, n := range closed {
		going[n] = true
		f.close(n)
	}
	all := slices.Concat(others, pods)
	if !f.roomy(all, nil) {
		same := newAlikes(f, all, nil)
		for _, c := range courses {
			lost := map[*model.Pod]bool{}
			for _, p := range f.place(c, others) {
				lost[p] = true
			}
			for _, first := range [][2][]*model.Pod{{others, pods}, {pods, others}} {
				w := newChances(f, c, slices.Concat(c.order(first[0], f.share), c.order(first[1], f.share)), pending{}, nil, false, inTime, map[kin]int{})
				w.same, w.excused = same, func(p *model.Pod) bool { return lost[p] || f.sticky(p.Class) }
				if w.walk(tiePoints/int64(2*len(courses)) + int64(podPoints*len(all))); w.lost != nil {
					return w.lost, nil, nil, nil
				}
				if len(others) == 0 {
					break
				}
			}
		}
	}
	sticky := func(pods []*model.Pod) (out []*model.Pod) {
		for _, p := range pods {
			if f.sticky(p.Class) {
				out = append(out, p)
			}
		}
		return out
	}
	if unsure, ahead = sticky(pods), sticky(others); len(unsure) > 0 {
		left = f.beside(rooms, going, all)
	}
	return nil, unsure, ahead, left
}

// place puts pods as a course has them come, and returns those that find no room; then all is as before. A pod whose place depends on others
// takes room where none of them keeps it away.
func (f *floor) place(c course, pods []*model.Pod) (homeless []*model.Pod) {
	defer f.back(f.mark())
	come := map[int][]*model.Pod{}
	for _, p := range c.order(pods, f.share) {
		if !f.seat(p, c.manner, come) {
			homeless = append(homeless, p)
		}
	}
	return homeless
}

// seat has a pod take room as put does, or, where its place depends on others, where neither those that stand nor those that have come keep it
// away, and says whether there was any.
func (f *floor) seat(p *model.Pod, m manner, come map[int][]*model.Pod) bool {
	room, score := -1, math.Inf(-1)
	switch {
	case len(f.rooms) == 0:
	case f.sticky(p.Class):
		f.where = func(i int) bool { return f.alone(p.Class, i, come[i]) }
		f.search(1, p.Class, m, &room, &score)
		f.where = nil
	default:
		f.search(1, p.Class, m, &room, &score)
	}
	if room < 0 {
		return false
	}
	come[room] = append(come[room], p)
	f.take(room, p.Class)
	return true
}

func (s *search) begin(look []candidate) {
	s.x = s.mem.prices
	s.seats = map[int][]*model.Pod{}
	for _, p := range s.in.Transit {
		if !s.f.sticky(p.Class) {
			s.f.seat(p, leastAllocated, s.seats)
		}
	}
	for _, p := range s.in.Adrift {
		if s.f.sticky(p.Class) && s.f.seat(p, leastAllocated, s.seats) {
			s.crowded = true
		}
	}
	var classes []*model.Class
	known := map[*model.Class]bool{}
	for i := range look {
		for _, p := range look[i].Pods {
			if !known[p.Class] {
				known[p.Class] = true
				classes = append(classes, p.Class)
			}
		}
	}
	s.f.settle(classes)
}

// clear closes the machines of a set and returns the pods on them. Pods on their way that would have come there take other room; homeless is
// one that finds none and has no machine of its own coming.
func (s *search) clear(set []*Unit) (pods []*model.Pod, homeless *model.Pod) {
	var out []*model.Pod
	for _, u := range set {
		s.f.close(u.Node.Name)
		pods = append(pods, u.Pods...)
		if i, ok := s.f.at[u.Node.Name]; ok {
			out = append(out, s.seats[i]...)
		}
	}
	if len(out) == 0 {
		return pods, nil
	}
	seats := maps.Clone(s.seats)
	for i := range seats {
		seats[i] = slices.Clip(seats[i])
	}
	for _, p := range out {
		if !s.f.seat(p, leastAllocated, seats) && homeless == nil && slices.Contains(s.in.Adrift, p) {
			homeless = p
		}
	}
	return pods, homeless
}

// candidate is a unit with what its order follows from.
type candidate struct {
	*Unit
	seen  *seen
	again bool    // looked at before, and room has come free since
	over  int64   // by how much more than it takes
	worth int64   // its pods at the prices of resources
	waste float64 // share of its price that its pods are not worth
}

// order puts those first that have not been looked at, those that are worth least for what they cost before others; then those for
// which most room has come free.
func (s *search) order(look []candidate) {
	for i := range look {
		c := &look[i]
		for _, p := range c.Pods {
			c.worth += s.x.of(p.Class.Requests)
		}
		if c.PriceMicro > 0 {
			c.waste = float64(c.PriceMicro-c.worth) / float64(c.PriceMicro)
		}
	}
	slices.SortStableFunc(look, func(a, b candidate) int {
		switch {
		case a.again != b.again && a.again:
			return 1
		case a.again != b.again:
			return -1
		}
		return cmp.Or(cmp.Compare(b.over, a.over), cmp.Compare(b.waste, a.waste), strings.Compare(a.Node.Name, b.Node.Name))
	})
}

// singles looks at machines one by one: whose pods all find standing room may go at once, for the others a lower bound on what their
// pods cost elsewhere tells most away; what is left is put to the solver.
func (s *search) singles(order []candidate) []*Move {
	var found []*Move
	var asked [2]int // machines not looked at before, and others
	for i := range order {
		c := &order[i]
		set := []*Unit{c.Unit}
		rest := s.rest(set, false)
		least := int64(0)
		for _, p := range rest {
			least += s.x.of(p.Class.Requests)
		}
		cost := s.cost(set, least)
		if saving := c.PriceMicro - least; saving <= 0 {
			s.verdict(c, plan.Reason{Code: plan.NotCheaper, Want: "less than " + dollars(c.PriceMicro), Have: "at least " + dollars(least)}, saving, cost)
			continue
		} else if gain := hourly(saving, s.pol.Horizon) - cost; gain <= 0 {
			s.verdict(c, plan.Reason{Code: plan.DoesNotPay, Want: "more than " + dollars(cost), Have: "at most " + dollars(hourly(saving, s.pol.Horizon))}, saving, cost)
			continue
		}
		if len(rest) > 0 {
			k, limit := 0, s.pol.Confirm
			if c.again {
				k, limit = 1, s.pol.NarrowConfirm
			}
			if asked[k]++; asked[k] > limit {
				s.mem.More = true
				continue
			}
		}
		m := s.single(c, set, cost, false)
		if m == nil {
			continue
		}
		if found = append(found, m); len(found) >= s.pol.Enough {
			s.mem.More = true // one of them is taken, and then the others are looked at again
			break
		}
	}
	return found
}

// single is the move of one machine, nil where it is not worth beginning, and then why is noted.
func (s *search) single(c *candidate, set []*Unit, cost int64, sure bool) *Move {
	m, why := s.homes(set, sure)
	saving := int64(0)
	if m != nil {
		saving, cost = m.Saving(), m.CostMicro
		why = s.worth(m)
	}
	if why.Code != "" {
		s.verdict(c, why, saving, cost)
		return nil
	}
	return m
}

// verdict notes why a machine need not go, with what going would save and cost.
func (s *search) verdict(c *candidate, r plan.Reason, saving, cost int64) {
	r.Pool, r.Subject = c.Pool.Name, cmp.Or(r.Subject, "node/"+c.Node.Name)
	need := max(s.least(c.PriceMicro), int64(float64(cost)/s.pol.Horizon.Hours()))
	s.mem.Told = append(s.mem.Told, c.Node.Name)
	c.seen.why, c.seen.at, c.seen.short = &r, s.mem.grown, max(1, need-saving)
}

// surest is the best of the moves found after which every pod has a home whichever way ties fall. One that ties may spoil is looked at again
// with a machine more for the pods that would have none.
func (s *search) surest(found []*Move, look []candidate) *Move {
	for {
		best := pick(found)
		if best == nil || best.sure {
			return best
		}
		i := slices.Index(found, best)
		if short, stuck := s.ties(best); len(short) == 0 && !stuck {
			best.sure = true
			continue
		}
		var m *Move
		k := slices.IndexFunc(look, func(c candidate) bool { return c.Unit == best.Units[0] })
		if len(best.Units) == 1 && k >= 0 {
			m = s.single(&look[k], best.Units, best.CostMicro, true)
		} else if again, _ := s.homes(best.Units, true); again != nil && s.worth(again).Code == "" {
			m = again
		}
		if m == nil {
			found = slices.Delete(found, i, i+1)
		} else {
			found[i] = m
		}
	}
}

// sets looks at the worst machines together, in growing numbers as far as the budgets allow.
func (s *search) sets(order []candidate) []*Move {
	worst := s.allowed(nil, order)
	var found []*Move
	for k := 2; k <= len(worst); {
		m, _ := s.homes(worst[:k], false)
		if m != nil && s.worth(m).Code == "" {
			found = append(found, m)
		}
		switch next := k + 1 + k/2; {
		case k == len(worst):
			return found
		case next > len(worst):
			k = len(worst)
		default:
			k = next
		}
	}
	return found
}

// allowed adds machines to a set that goes, in their order, as far as the budgets, the minima of node groups and the policy let more go.
func (s *search) allowed(set []*Unit, more []candidate) []*Unit {
	left, spare := map[string]int64{}, map[string]int64{}
	maps.Copy(left, s.in.Left)
	maps.Copy(spare, s.in.Spare)
	out := make([]*Unit, 0, len(set)+len(more))
	add := func(u *Unit) {
		n, bounded := spare[u.Group()]
		if left[u.Pool.Name] > 0 && (!bounded || n > 0) && len(out) < s.pol.Set {
			left[u.Pool.Name]--
			if bounded {
				spare[u.Group()]--
			}
			out = append(out, u)
		}
	}
	for _, u := range set {
		add(u)
	}
	for _, c := range more {
		add(c.Unit)
	}
	return out
}

// tidied is a move that buys machines with the leftovers of earlier purchases taken along, where that pays for them: machines at most half as
// dear as the dearest that comes, which are well used, but whose pods would share a larger one. What comes in the move has such leftovers of its
// own, and with them they would make another move as soon as all are at rest.
func (s *search) tidied(m *Move, look []candidate) *Move {
	most := int64(0)
	for i := range m.New {
		most = max(most, m.New[i].PriceMicro)
	}
	going := map[*Unit]bool{}
	for _, u := range m.Units {
		going[u] = true
	}
	var leftovers []candidate
	for _, c := range look {
		if !going[c.Unit] && c.PriceMicro*2 <= most {
			leftovers = append(leftovers, c)
		}
	}
	set := s.allowed(m.Units, leftovers)
	if len(leftovers) == 0 || len(set) <= len(m.Units) {
		return m
	}
	n, _ := s.homes(set, true)
	if n == nil || s.worth(n).Code != "" || n.Gain <= m.Gain || n.Saving()-m.Saving() < s.least(n.OldMicro-m.OldMicro) {
		return m
	}
	return n
}

// nearly is how much of the best gain a move may miss and be taken before it because it moves fewer pods, in thousandths.
const nearly = 10

// pick is the move that disturbs fewest pods among those that gain nearly the most; nil where there is none.
func pick(found []*Move) *Move {
	most := int64(0)
	for _, m := range found {
		most = max(most, m.Gain)
	}
	var best *Move
	for _, m := range found {
		if m.Gain < most-most*nearly/1000 {
			continue
		}
		if best == nil || m.moved() < best.moved() || m.moved() == best.moved() && m.Gain > best.Gain {
			best = m
		}
	}
	return best
}

func (m *Move) moved() int {
	n := 0
	for _, u := range m.Units {
		n += len(u.Pods)
	}
	return n
}

type kin struct {
	class *model.Class
	owner string
}

func kinOf(p *model.Pod) kin {
	if p.Owner.UID != "" {
		return kin{p.Class, p.Owner.UID}
	}
	return kin{p.Class, p.UID}
}

// rest are the pods of a set for which a machine must be bought: of each kind as many as find no standing room in one course or another,
// so that whichever way it goes there is room kept for all. What the others find is looked at again without them: fewer pods in another
// order may not fit where more did. With ties, the worst that
// kube-scheduler may take among machines that score the same is looked at too, where the pods are few.
func (s *search) rest(set []*Unit, ties bool) []*model.Pod {
	defer s.f.back(s.f.mark())
	all, _ := s.clear(set)
	ways := 1
	if ties && len(all) <= fewPods {
		ways = 2
	}
	slots := map[kin]int{}
	total := 0
	for range 8 {
		others := all
		if total > 0 {
			_, others = split(all, slots)
		}
		more := map[kin]int{}
		for i := range ways * len(courses) {
			c := courses[i%len(courses)]
			short := map[kin]int{}
			mark := s.f.mark()
			if i >= len(courses) {
				s.f.expect(others)
			}
			for _, p := range c.order(others, s.f.share) {
				s.f.comes(p.Class)
				if s.f.put(p.Class, c.manner) < 0 {
					short[kinOf(p)]++
				}
			}
			s.f.left = nil
			s.f.back(mark)
			for k, n := range short {
				more[k] = max(more[k], n)
			}
		}
		for k, n := range more {
			slots[k] += n
			total += n
		}
		if len(more) == 0 || total >= len(all) {
			rest, _ := split(all, slots)
			return rest
		}
	}
	return all
}

// split are the pods that slots are for, the first of each kind, and the others.
func split(pods []*model.Pod, slots map[kin]int) (in, out []*model.Pod) {
	used := map[kin]int{}
	for _, p := range pods {
		if k := kinOf(p); used[k] < slots[k] {
			used[k]++
			in = append(in, p)
		} else {
			out = append(out, p)
		}
	}
	return in, out
}

// homes finds a home for every pod of a set of machines, or says which pod has none. With sure it is one whichever way ties fall: that takes
// longer, and is asked for moves that are about to be taken.
func (s *search) homes(set []*Unit, sure bool) (*Move, plan.Reason) {
	m := &Move{Cause: plan.Underutilized, Units: slices.Clone(set)}
	slices.SortFunc(m.Units, func(a, b *Unit) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	for _, u := range set {
		m.OldMicro += max(u.PriceMicro, 0)
	}
	mark := s.f.mark()
	all, homeless := s.clear(m.Units)
	if s.f.back(mark); homeless != nil {
		return nil, plan.Reason{Code: plan.NoHome, Subject: "pod/" + homeless.Key()}
	}
	rest := s.rest(m.Units, true)
	closed := s.crowded
	for try := 0; ; try++ {
		m.New, m.NewMicro, m.Problem, m.Result, m.Standing = nil, 0, nil, nil, len(all)-len(rest)
		s.work += int64(len(all))
		if len(rest) > 0 {
			if why := s.buy(m, rest, closed); why.Code != "" {
				return nil, why
			}
		}
		if len(rest) == len(all) && m.Standing == 0 {
			break // a slot each: nobody can take another's room
		}
		short, stuck := s.short(m)
		if sure && len(short) == 0 && !stuck {
			short, stuck = s.ties(m)
		}
		if len(short) == 0 && !stuck {
			break
		}
		if !closed && (stuck || len(rest) == len(all)) {
			closed = true // no standing room is counted on for pods that tell each other where to stand
			continue
		}
		slots := map[kin]int{}
		for _, p := range rest {
			slots[kinOf(p)]++
		}
		for k, n := range short {
			slots[k] += n
		}
		was := len(rest)
		if rest, _ = split(all, slots); try == 3 || len(rest) == was {
			rest = all
		}
	}
	m.CostMicro, m.sure = s.cost(set, m.NewMicro)+int64(len(m.New))*s.pol.LaunchMicro, sure
	return m, plan.Reason{}
}

// buy has solve find machines for pods, and standing room for those that only solve can place.
func (s *search) buy(m *Move, rest []*model.Pod, closed bool) plan.Reason {
	sticky := slices.ContainsFunc(rest, func(p *model.Pod) bool { return s.f.sticky(p.Class) })
	p := &solve.Problem{ResourceNames: s.in.ResourceNames, Demand: rest, Pools: s.in.Pools, Daemons: s.in.Daemons, Namespaces: s.in.Namespaces}
	if sticky {
		p.Rooms = s.around(m.Units, closed)
	}
	res := s.solve(p)
	if sticky && slices.ContainsFunc(res.OnRooms, func(a solve.Assignment) bool {
		return slices.ContainsFunc(a.Pods, func(p *model.Pod) bool { return !s.f.sticky(p.Class) })
	}) {
		p.Rooms = s.around(m.Units, true)
		res = s.solve(p)
	}
	if len(res.Refused) > 0 {
		r := res.Refused[0]
		s.refused = r
		why := plan.Reason{Code: plan.NoHome, Subject: "pod/" + r.Pod.Key()}
		if len(r.Reasons) > 0 {
			x := r.Reasons[0]
			why.Key, why.Want, why.Have = string(x.Code)+" "+x.Key, x.Want, x.Have
		}
		return why
	}
	for _, a := range res.OnRooms {
		m.Standing += len(a.Pods)
	}
	m.New, m.NewMicro, m.Problem, m.Result = res.New, res.Cost.NewMicroPerHour, p, &res
	return plan.Reason{}
}

func (s *search) solve(p *solve.Problem) solve.Result {
	res, _ := solve.Solve(p, solve.Memory{}, s.sol) // what an earlier search knew must not change what this one finds
	s.work += res.Stats.Work + int64(len(p.Demand)+len(p.Rooms))
	return res
}

// around are the machines that stay, as solve needs them for what pods tell each other. What pods of the set are counted on to take of
// them one by one is taken off.
func (s *search) around(set []*Unit, closed bool) []solve.Room {
	going := map[string]bool{}
	for _, u := range set {
		going[u.Node.Name] = true
	}
	defer s.f.back(s.f.mark())
	all, _ := s.clear(set)
	out := s.f.beside(s.in.Rooms, going, all)
	if closed {
		for i := range out {
			out[i].Closed = true
		}
	}
	return out
}

// beside are rooms as solve needs them for pods that can't be placed one by one. Only what stands is open; what goes is drained; and what
// the others of these pods take in one course or another, while what goes is closed, is taken off.
func (f *floor) beside(rooms []solve.Room, going map[string]bool, pods []*model.Pod) []solve.Room {
	least := map[int]model.Resources{}
	for _, c := range courses {
		mark := f.mark()
		for _, p := range c.order(pods, f.share) {
			if i := f.put(p.Class, c.manner); i >= 0 {
				free := model.Resources(slices.Clone(f.free[i*f.nd : (i+1)*f.nd]))
				if have, ok := least[i]; ok {
					free = have.Min(free)
				}
				least[i] = free
			}
		}
		f.back(mark)
	}
	out := slices.Clone(rooms)
	for i := range out {
		r := &out[i]
		switch j, ok := f.at[r.Name]; {
		case going[r.Name]:
			r.Closed, r.Drained = true, true
		case !ok:
			r.Closed = true
		case least[j] != nil:
			r.Free = least[j]
		}
	}
	return out
}

// cost is what a move costs once: the pods' restarts at what their resources cost while they start, and old and new machines side by
// side while the new ones come.
func (s *search) cost(set []*Unit, newMicro int64) int64 {
	sum := int64(0)
	for _, u := range set {
		for _, p := range u.Pods {
			start, ok := s.in.Starts[p.Class]
			if !ok {
				start = s.pol.Start
			}
			sum += hourly(s.x.of(p.Class.Requests), start) * Disruption(p) / 1000
		}
	}
	boot := s.in.Boot
	if boot == 0 {
		boot = s.pol.Boot
	}
	return sum + hourly(newMicro, boot)
}

// worth says why a move is not worth beginning; an empty code: it is, and its claims are narrowed to what keeps it so.
func (s *search) worth(m *Move) plan.Reason {
	why := s.pays(m)
	if why.Code == "" {
		why = s.pin(m)
	}
	if why.Code == "" {
		why = s.lands(m)
	}
	return why
}

// least is what a move of machines of this price must save an hour at least.
func (s *search) least(micro int64) int64 {
	return int64(float64(micro) / 1e6 * float64(s.pol.LeastPPM))
}

// pays says why a move is not worth it; an empty code: it is.
func (s *search) pays(m *Move) plan.Reason {
	saving := m.Saving()
	if saving <= 0 {
		return plan.Reason{Code: plan.NotCheaper, Want: "less than " + dollars(m.OldMicro), Have: dollars(m.NewMicro)}
	}
	got := hourly(saving, s.pol.Horizon)
	if least := s.least(m.OldMicro); saving < least {
		return plan.Reason{Code: plan.DoesNotPay, Want: "at least " + dollars(least) + " an hour", Have: dollars(saving) + " an hour"}
	}
	if m.Gain = got - m.CostMicro; m.Gain <= 0 {
		return plan.Reason{Code: plan.DoesNotPay, Want: "more than " + dollars(m.CostMicro), Have: dollars(got)}
	}
	m.Why = plan.Reason{Code: plan.Underutilized, Want: dollars(m.CostMicro) + " once", Have: dollars(saving) + " an hour"}
	return s.balanced(m)
}

// balanced holds a move against the pools of policy Balanced that it takes machines from: the share of the pool's price that is saved
// must be at least half the share of its pods' weight that is disturbed.
func (s *search) balanced(m *Move) plan.Reason {
	price, weight := map[string]int64{}, map[string]int64{}
	var names []string
	for _, u := range m.Units {
		if u.Pool.ConsolidationPolicy != Balanced {
			continue
		}
		if _, ok := price[u.Pool.Name]; !ok {
			names = append(names, u.Pool.Name)
		}
		price[u.Pool.Name] += u.PriceMicro
		weight[u.Pool.Name] += u.Weight()
	}
	slices.Sort(names)
	for _, n := range names {
		w := s.in.Whole[n]
		if w.PriceMicro <= 0 || w.Disruption <= 0 || m.OldMicro <= 0 {
			continue
		}
		saved := float64(m.Saving()) * (float64(price[n]) / float64(m.OldMicro)) / float64(w.PriceMicro)
		moved := float64(weight[n]) / float64(w.Disruption)
		score := saved / moved
		if score < 0.5 {
			return plan.Reason{Code: plan.NotBalanced, Subject: "nodepool/" + n, Key: "spec.disruption.consolidationPolicy",
				Want: "a score of at least 0.5", Have: strconv.FormatFloat(score, 'f', 2, 64)}
		}
		if m.Scores == nil {
			m.Scores = map[string]float64{}
		}
		m.Scores[n] = score
	}
	return plan.Reason{}
}

// Score is the pool and the score that a refusal by policy Balanced is about.
func Score(why plan.Reason) (pool string, score float64, ok bool) {
	if why.Code != plan.NotBalanced {
		return "", 0, false
	}
	pool, ok = strings.CutPrefix(why.Subject, "nodepool/")
	score, err := strconv.ParseFloat(why.Have, 64)
	return pool, score, ok && err == nil
}

// Weight is what disrupting the machine weighs: one, and its pods by Disruption, in thousandths.
func (u *Unit) Weight() int64 {
	w := int64(1000)
	for _, p := range u.Pods {
		w += Disruption(p)
	}
	return w
}

func dollars(micro int64) string { return "$" + strconv.FormatFloat(float64(micro)/1e6, 'f', 4, 64) }

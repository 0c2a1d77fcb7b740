// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"maps"
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
	ResourceNames    []string
	Candidates       []*Candidate // those that may go as far as Guard is concerned, by node name
	Nodes            []solve.Room // every machine that stands or comes, as for a solve
	Pools            []solve.Pool
	Daemons          []*model.Daemon
	Namespaces       map[string]model.Labels
	BudgetLeft       map[string]int64     // by pool: how many more machines its budgets let go
	GroupLeft        map[string]int64     // by node group: how many more machines its minimum lets go; absent: all
	UnboundInTransit []*model.Pod         // pods on their way that no node is kept for: standing room is theirs first
	StartTimes       StartTimes           // measured
	BootTime         time.Duration        // measured; 0: not known
	PoolTotals       map[string]PoolTotal // by pool, for policy Balanced
	ScaleUps         []ScaleUp            // pods that are expected to come back within the horizon, soonest first

	// Expected is equal where Returns and Falls are the same, but for times that differ by less than half: then they are no cause for another search.
	ForecastKey string

	// Falls is how the workload of a pod is expected to shrink within the horizon, soonest first; the same slice for all its pods, empty where it is
	// not. nil: none is.
	ScaleDowns func(*model.Pod) []ScaleDown
	Scope      Scope // how far to look

	// Exact: the successors of pods that are moved get the room that the move gives them, on standing nodes too, for it is reserved and they are
	// bound to it (contract 9). Otherwise kube-scheduler places them, and standing room is counted on only where there is plenty.
	BindsPods       bool
	WhyUnreservable func(*solve.NewNode) plan.Reason // why a machine can't be kept to its pods (contract 9), an empty code: it can; nil: all can
}

// PoolTotal is all of a pool: what its machines cost, and what disrupting all of them would weigh.
type PoolTotal struct{ PriceMicro, DisruptionWeight int64 }

// Command is a set of machines that go, and what comes for them.
type Command struct {
	Cause           plan.Code
	Candidates      []*Candidate       // by node name
	Replacements    []solve.NewNode    // reserved for the pods' successors
	OneForOne       bool               // one machine of the pool comes for each, whatever pods it has: static pools
	OnExisting      []solve.Assignment // standing nodes that pods go to, by name, and which
	PodsOnExisting  int                // how many pods those are
	OldMicroPerHour int64              // per hour
	NewMicroPerHour int64              // per hour
	CostMicro       int64              // once
	GainMicro       int64              // what the saving comes to over the horizon, less the cost
	Problem         *solve.Problem     // where its pods go, for verify; nil where it has none
	Result          *solve.Result
	Why             plan.Reason

	Batch BatchTotals // of the commands that were found with it and begin with it

	BalancedScores map[string]float64 // of its pools of policy Balanced: the share of their price saved to the share of their pods' weight disturbed
}

// BatchTotals sums up commands that begin together.
type BatchTotals struct {
	Candidates              int // machines that were looked at
	Commands, Evictions     int
	SavingMicroPerHour      int64 // an hour
	SavingBoundMicroPerHour int64 // the most that any commands could save an hour that evict no more pods, see savingBound; 0: not reckoned
}

func together(list []*Command) (all BatchTotals) {
	for _, m := range list {
		all.Commands++
		all.Evictions += m.moved()
		all.SavingMicroPerHour += m.SavingMicroPerHour()
	}
	return all
}

// SavingMicroPerHour is what a move saves an hour.
func (m *Command) SavingMicroPerHour() int64 { return m.OldMicroPerHour - m.NewMicroPerHour }

type search struct {
	in   *Input
	pol  Policy
	sol  solve.Policy
	mem  *Memory
	f    *floor
	x    prices
	free int64 // what all free room on machines that stand is worth
	work int64

	launchPrices map[string]int64 // what launchPrice found, by requests and number of pods

	refused solve.Refusal        // the last pod found without a home
	crowded bool                 // a pod that others tell where to stand is on its way to standing room, and where it comes to stand is not known
	seats   map[int][]*model.Pod // by machine: the pods on their way that are taken to come there
}

// Consolidate finds the command that is worth most among those in its scope, and returns the independent commands that it is made of, which are to
// begin together; none where nothing pays.
func Consolidate(in *Input, pol Policy, sol solve.Policy, old Memory) ([]*Command, Memory) {
	sol.Work = min(sol.Work, pol.SolveWork)
	mem, f := compare(in, old)
	s := &search{in: in, pol: pol, sol: sol, mem: &mem, f: f}
	wide := mem.widen(in.Scope)
	most := pol.MaxCandidatesNarrow
	if wide {
		mem.forget()
		mem.WasWide, most = true, pol.MaxCandidatesWide
	}
	if mem.prices == nil {
		mem.prices = pricesOf(in)
	}
	look, more := s.look(most)
	mem.Unfinished = more
	var best *Command
	var out []*Command
	if len(look) > 0 || wide {
		s.begin(look)
		s.order(look)
		found := s.singles(look)
		if wide {
			found = append(found, s.sets(look)...)
		}
		if best = pick(found); wide && best != nil {
			best = s.extended(s.tidied(best, look), look)
		}
		if best != nil {
			out = s.independent(best)
		}
		all := together(out)
		all.Candidates = len(look)
		if wide {
			all.SavingBoundMicroPerHour = s.savingBound(look, all.Evictions)
		}
		for _, m := range out {
			m.Batch = all
			s.account(m)
		}
	}
	mem.dirty = mem.dirty || best != nil // what is looked at after it may find more
	f.back(0)
	mem.ground = f.ground // as it stands; from now on nobody writes to it
	if mem.Work = s.work + f.work; wide {
		mem.LastWideWork = mem.Work
	}
	return out, mem
}

// look are the machines that want a look, at most so many, and whether there are more: first those that have not been looked at, then
// those for which most room has come free.
func (s *search) look(most int) (out []rankedCandidate, more bool) {
	var again []rankedCandidate // the largest over first
	for i := range s.mem.seen {
		x := &s.mem.seen[i]
		switch {
		case !s.mem.stale(x) || s.in.BudgetLeft[x.unit.Pool.Name] <= 0: // the budget is told by whoever counts it
		case x.why == nil:
			if len(out) == most {
				return out, true
			}
			out = append(out, rankedCandidate{Candidate: s.in.Candidates[i], seen: x})
		default:
			c := rankedCandidate{Candidate: s.in.Candidates[i], seen: x, again: true, over: s.mem.grown - x.at - x.short}
			if len(again) == most {
				more = true
				if c.over <= again[most-1].over {
					continue
				}
				again = again[:most-1]
			}
			k, _ := slices.BinarySearchFunc(again, c.over, func(a rankedCandidate, over int64) int {
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
func Replace(in *Input, units []*Candidate, cause plan.Code, pol Policy, sol solve.Policy) (*Command, plan.Reason) {
	sol.Work = min(sol.Work, pol.SolveWork)
	mem := Memory{prices: pricesOf(in)}
	s := &search{in: in, pol: pol, sol: sol, mem: &mem, f: newFloor(in.Nodes, len(in.ResourceNames))}
	look := make([]rankedCandidate, len(units))
	for i, u := range units {
		look[i].Candidate = u
	}
	s.begin(look)
	m, why := s.homes(units)
	if m != nil {
		m.Cause = cause
		s.account(m)
	}
	return m, why
}

// FindUnplaceable says which of some pods may find no standing room while the given nodes are closed and others are on their way; nil: all find some,
// however kube-scheduler has them and the others come to stand.
func FindUnplaceable(rooms []solve.Room, dims int, closed []string, pods, others []*model.Pod) (homeless *model.Pod) {
	f := newFloor(rooms, dims)
	for _, n := range closed {
		f.close(n)
	}
	if len(pods) == 0 || f.roomy(slices.Concat(others, pods)) {
		return nil
	}
	return pods[0]
}

func (s *search) begin(look []rankedCandidate) {
	s.x, s.free = s.mem.prices, 0
	for i := range s.f.rooms {
		s.free += int64(s.freeWorth(i))
	}
	s.seats = map[int][]*model.Pod{}
	for _, p := range s.in.UnboundInTransit {
		if s.f.sticky(p.Class) {
			s.crowded = true
		} else if i := s.f.put(p.Class); i >= 0 {
			s.seats[i] = append(s.seats[i], p)
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
// one that finds none.
func (s *search) clear(set []*Candidate) (pods []*model.Pod, homeless *model.Pod) {
	var out []*model.Pod
	for _, u := range set {
		s.f.close(u.Node.Name)
		pods = append(pods, u.Pods...)
		if i, ok := s.f.at[u.Node.Name]; ok {
			out = append(out, s.seats[i]...)
		}
	}
	for _, p := range out {
		if s.f.put(p.Class) < 0 && homeless == nil {
			homeless = p
		}
	}
	return pods, homeless
}

// rankedCandidate is a unit with what its order follows from.
type rankedCandidate struct {
	*Candidate
	seen  *seen
	again bool    // looked at before, and room has come free since
	over  int64   // by how much more than it takes
	worth int64   // its pods at the prices of resources
	waste float64 // share of its price that its pods are not worth
}

// order puts those first that have not been looked at, those that are worth least for what they cost before others; then those for
// which most room has come free.
func (s *search) order(look []rankedCandidate) {
	for i := range look {
		c := &look[i]
		for _, p := range c.Pods {
			c.worth += s.x.of(p.Class.Requests)
		}
		if c.PriceMicro > 0 {
			c.waste = float64(c.PriceMicro-c.worth) / float64(c.PriceMicro)
		}
	}
	slices.SortStableFunc(look, func(a, b rankedCandidate) int {
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
func (s *search) singles(order []rankedCandidate) []*Command {
	var found []*Command
	var asked [2]int // machines not looked at before, and others
	for i := range order {
		c := &order[i]
		set := []*Candidate{c.Candidate}
		mark := s.f.mark()
		pods, _ := s.clear(set)
		_, rest := s.f.assign(pods)
		s.f.back(mark)
		least := int64(0)
		for _, p := range rest {
			least += s.x.of(p.Class.Requests)
		}
		cost := s.cost(set, least)
		if saving := c.PriceMicro - least; saving <= 0 {
			s.verdict(c, plan.Reason{Code: plan.NotCheaper, Want: "less than " + dollars(c.PriceMicro), Have: "at least " + dollars(least)}, saving, cost)
			continue
		} else if got, workload, in := s.gained(saving, set); got <= cost {
			s.verdict(c, s.tooLittle(saving, cost, got, workload, in), saving, cost)
			continue
		}
		if len(rest) > 0 {
			k, limit := 0, s.pol.MaxSolvesNew
			if c.again {
				k, limit = 1, s.pol.MaxSolvesAgain
			}
			if asked[k]++; asked[k] > limit {
				s.mem.Unfinished = true
				continue
			}
		}
		m := s.single(c, set, cost)
		if m == nil {
			continue
		}
		if found = append(found, m); len(found) >= s.pol.StopAfterFound {
			s.mem.Unfinished = true // one of them is taken, and then the others are looked at again
			break
		}
	}
	return found
}

// single is the move of one machine, nil where it is not worth beginning, and then why is noted.
func (s *search) single(c *rankedCandidate, set []*Candidate, cost int64) *Command {
	m, why := s.homes(set)
	saving := int64(0)
	if m != nil {
		saving, cost = m.SavingMicroPerHour(), m.CostMicro
		why = s.worth(m)
	}
	if why.Code != "" {
		s.verdict(c, why, saving, cost)
		return nil
	}
	return m
}

// verdict notes why a machine need not go, with what going would save and cost.
func (s *search) verdict(c *rankedCandidate, r plan.Reason, saving, cost int64) {
	r.Pool, r.Subject = c.Pool.Name, cmp.Or(r.Subject, "node/"+c.Node.Name)
	need := max(s.least(c.PriceMicro), int64(float64(cost)/s.pol.Horizon.Hours()))
	s.mem.Judged = append(s.mem.Judged, c.Node.Name)
	c.seen.why, c.seen.at, c.seen.short = &r, s.mem.grown, max(1, need-saving)
}

// sets looks at machines together: at as many as can go without anything coming for them, and at the worst ones in growing numbers, as far as
// the budgets allow.
func (s *search) sets(order []rankedCandidate) []*Command {
	var found []*Command
	try := func(set []*Candidate) {
		if m, _ := s.homes(set); m != nil && s.worth(m).Code == "" {
			found = append(found, m)
		}
	}
	if gone := s.removable(order); len(gone) > 1 {
		try(gone)
	}
	worst := s.allowed(nil, order)
	for k := 2; k <= len(worst); {
		try(worst[:k])
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

// removable are machines that can go together with nothing coming for them, since their pods find room on those that stay: one after the other,
// those first that cost most for each dollar that their pods' restarts do, as far as the budgets allow. One that pods of another have come to
// stays.
func (s *search) removable(order []rankedCandidate) (set []*Candidate) {
	defer s.f.back(s.f.mark())
	byReturn := slices.Clone(order)
	restarts := map[*Candidate]int64{}
	for _, c := range byReturn {
		restarts[c.Candidate] = max(1, s.cost([]*Candidate{c.Candidate}, 0))
	}
	slices.SortStableFunc(byReturn, func(a, b rankedCandidate) int {
		return cmp.Compare(float64(b.PriceMicro)/float64(restarts[b.Candidate]), float64(a.PriceMicro)/float64(restarts[a.Candidate]))
	})
	may := s.allowance()
	taken := map[int]bool{} // rooms that pods have come to
	for i := range byReturn {
		c := &byReturn[i]
		at, stands := s.f.at[c.Node.Name]
		if !stands || taken[at] || !may.has(c.Candidate) || hourly(c.PriceMicro, s.pol.Horizon) <= restarts[c.Candidate] {
			continue
		}
		mark := s.f.mark()
		pods, homeless := s.clear([]*Candidate{c.Candidate})
		on, rest := s.f.assign(pods)
		if homeless != nil || len(rest) > 0 {
			s.f.back(mark)
			continue
		}
		for room := range on {
			taken[room] = true
		}
		may.take(c.Candidate)
		set = append(set, c.Candidate)
	}
	return set
}

// remainingBudgets is how many more machines may go in one move: as far as the budgets, the minima of node groups and the policy let them.
type remainingBudgets struct {
	left, spare map[string]int64 // by pool; by node group, absent: all
	most        int
}

func (s *search) allowance() *remainingBudgets {
	return &remainingBudgets{maps.Clone(s.in.BudgetLeft), maps.Clone(s.in.GroupLeft), s.pol.MaxCandidatesPerCommand}
}

func (a *remainingBudgets) has(u *Candidate) bool {
	n, bounded := a.spare[u.NodeGroup()]
	return a.left[u.Pool.Name] > 0 && (!bounded || n > 0) && a.most > 0
}

func (a *remainingBudgets) take(u *Candidate) {
	a.left[u.Pool.Name]--
	if _, bounded := a.spare[u.NodeGroup()]; bounded {
		a.spare[u.NodeGroup()]--
	}
	a.most--
}

// allowed adds machines to a set that goes, in their order, as far as they may.
func (s *search) allowed(set []*Candidate, more []rankedCandidate) []*Candidate {
	may := s.allowance()
	out := make([]*Candidate, 0, len(set)+len(more))
	add := func(u *Candidate) {
		if may.has(u) {
			may.take(u)
			out = append(out, u)
		}
	}
	for _, u := range set {
		add(u)
	}
	for _, c := range more {
		add(c.Candidate)
	}
	return out
}

// tidied is a move that buys machines with the leftovers of earlier purchases taken along, where that pays for them: machines at most half as
// dear as the dearest that comes, which are well used, but whose pods would share a larger one. What comes in the move has such leftovers of its
// own, and with them they would make another move as soon as all are at rest.
func (s *search) tidied(m *Command, look []rankedCandidate) *Command {
	most := int64(0)
	for i := range m.Replacements {
		most = max(most, m.Replacements[i].PriceMicro)
	}
	going := map[*Candidate]bool{}
	for _, u := range m.Candidates {
		going[u] = true
	}
	var leftovers []rankedCandidate
	for _, c := range look {
		if !going[c.Candidate] && c.PriceMicro*2 <= most {
			leftovers = append(leftovers, c)
		}
	}
	set := s.allowed(m.Candidates, leftovers)
	if len(leftovers) == 0 || len(set) <= len(m.Candidates) {
		return m
	}
	n, _ := s.homes(set)
	if n == nil || s.worth(n).Code != "" || n.GainMicro <= m.GainMicro || n.SavingMicroPerHour()-m.SavingMicroPerHour() < s.least(n.OldMicroPerHour-m.OldMicroPerHour) {
		return m
	}
	return n
}

// mostExtensions is how many larger commands are tried for one that is to be carried out.
const mostExtensions = 24

// extended is a command with further machines that are worth taking along, once its pods are where it puts them: those that would be left with
// most of their price unused, alone and in growing numbers, as long as the whole gains by it. Otherwise they would be the next command, once they
// have come to rest, and what they took from this one would move twice.
func (s *search) extended(m *Command, look []rankedCandidate) *Command {
	for tries := 0; tries < mostExtensions; {
		more := s.unused(m, look)
		best := m
		for k := 1; k <= len(more) && tries < mostExtensions; k *= 2 {
			tries++
			set := s.allowed(m.Candidates, more[:k])
			if len(set) <= len(m.Candidates) {
				break
			}
			if n, _ := s.homes(set); n != nil && s.worth(n).Code == "" && n.GainMicro > best.GainMicro && n.SavingMicroPerHour()-m.SavingMicroPerHour() >= s.least(n.OldMicroPerHour-m.OldMicroPerHour) {
				best = n
			}
		}
		if best == m {
			break
		}
		m = best
	}
	return m
}

// unused are the machines that a command leaves, those first of whose price most is not worth what will stand on them.
func (s *search) unused(m *Command, look []rankedCandidate) []rankedCandidate {
	going := map[string]bool{}
	for _, u := range m.Candidates {
		going[u.Node.Name] = true
	}
	comes := map[string]int64{} // worth of the pods that the command puts on a machine
	for _, a := range m.OnExisting {
		for _, p := range a.Pods {
			comes[a.Room] += s.x.of(p.Class.Requests)
		}
	}
	unused := func(c *rankedCandidate) int64 { return c.PriceMicro - c.worth - comes[c.Node.Name] }
	var out []rankedCandidate
	for _, c := range look {
		if !going[c.Node.Name] && unused(&c) > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b rankedCandidate) int { return cmp.Compare(unused(&b), unused(&a)) })
	return out
}

// nearly is how much of the best gain a move may miss and be taken before it because it moves fewer pods, in thousandths.
const nearly = 10

// pick is the move that disturbs fewest pods among those that gain nearly the most; nil where there is none.
func pick(found []*Command) *Command {
	most := int64(0)
	for _, m := range found {
		most = max(most, m.GainMicro)
	}
	var best *Command
	for _, m := range found {
		if m.GainMicro < most-most*nearly/1000 {
			continue
		}
		if best == nil || m.moved() < best.moved() || m.moved() == best.moved() && m.GainMicro > best.GainMicro {
			best = m
		}
	}
	return best
}

func (m *Command) moved() int {
	n := 0
	for _, u := range m.Candidates {
		n += len(u.Pods)
	}
	return n
}

// homes finds a home for every pod of a set of machines, on nodes that stand as far as there is room, else on nodes that come for them; or says
// which pod has none.
func (s *search) homes(set []*Candidate) (*Command, plan.Reason) {
	m := &Command{Cause: plan.Underutilized, Candidates: slices.Clone(set)}
	slices.SortFunc(m.Candidates, func(a, b *Candidate) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	for _, u := range set {
		m.OldMicroPerHour += max(u.PriceMicro, 0)
	}
	defer s.f.back(s.f.mark())
	all, homeless := s.clear(m.Candidates)
	if homeless != nil {
		return nil, plan.Reason{Code: plan.NoHome, Subject: "pod/" + homeless.Key()}
	}
	s.work += int64(len(all))
	mark := s.f.mark()
	on, rest := s.f.assign(all)
	if !s.in.BindsPods && len(on) > 0 {
		if s.f.back(mark); len(rest) > 0 || !s.f.roomy(all) {
			on, rest = nil, all
		}
	}
	for room, pods := range on {
		m.OnExisting = append(m.OnExisting, solve.Assignment{Room: s.f.rooms[room].Name, Pods: pods})
	}
	if len(rest) > 0 {
		if why := s.buy(m, rest); why.Code != "" {
			return nil, why
		}
	}
	m.OnExisting = merge(m.OnExisting)
	for _, a := range m.OnExisting {
		m.PodsOnExisting += len(a.Pods)
	}
	m.CostMicro = s.cost(set, m.NewMicroPerHour) + int64(len(m.Replacements))*s.pol.LaunchMicro
	return m, plan.Reason{}
}

// merge has each room once, by name.
func merge(on []solve.Assignment) (out []solve.Assignment) {
	slices.SortStableFunc(on, func(a, b solve.Assignment) int { return strings.Compare(a.Room, b.Room) })
	for _, a := range on {
		if n := len(out); n > 0 && out[n-1].Room == a.Room {
			out[n-1].Pods = slices.Concat(out[n-1].Pods, a.Pods)
		} else {
			out = append(out, a)
		}
	}
	return out
}

// buy has solve find machines for pods, and standing room for those that only solve can place.
func (s *search) buy(m *Command, rest []*model.Pod) plan.Reason {
	p := &solve.Problem{ResourceNames: s.in.ResourceNames, Demand: rest, Pools: s.in.Pools, Daemons: s.in.Daemons, Namespaces: s.in.Namespaces}
	if slices.ContainsFunc(rest, func(p *model.Pod) bool { return s.f.sticky(p.Class) }) {
		p.Rooms = s.around(m.Candidates)
	}
	res := s.solve(p)
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
	m.OnExisting = append(m.OnExisting, res.OnRooms...)
	m.Replacements, m.NewMicroPerHour, m.Result = res.New, res.Cost.NewMicroPerHour, &res
	return plan.Reason{}
}

// account writes down where all pods of a move go, as a problem and its result, for a check that shares no code with the search.
func (s *search) account(m *Command) {
	var pods []*model.Pod
	going := map[string]bool{}
	for _, u := range m.Candidates {
		pods = append(pods, u.Pods...)
		going[u.Node.Name] = true
	}
	res := solve.Result{OnRooms: m.OnExisting, New: m.Replacements}
	if m.Result != nil {
		res.Cost, res.Stats = m.Result.Cost, m.Result.Stats
	}
	if m.Result = nil; len(pods) == 0 {
		return
	}
	rooms := slices.Clone(s.in.Nodes)
	for i := range rooms {
		if going[rooms[i].Name] {
			rooms[i].Closed, rooms[i].Drained = true, true
		}
	}
	m.Result = &res
	m.Problem = &solve.Problem{ResourceNames: s.in.ResourceNames, Demand: pods, Rooms: rooms, Pools: s.in.Pools, Daemons: s.in.Daemons, Namespaces: s.in.Namespaces}
}

func (s *search) solve(p *solve.Problem) solve.Result {
	res, _ := solve.Solve(p, solve.Memory{}, s.sol) // what an earlier search knew must not change what this one finds
	s.work += res.Stats.Work + int64(len(p.Demand)+len(p.Rooms))
	return res
}

// around are the machines that stay, as solve needs them for what pods tell each other: with what is free now, and those that go drained. Where
// pods are on their way whose place is not known, or successors are not bound to their room, none takes pods.
func (s *search) around(set []*Candidate) []solve.Room {
	going := map[string]bool{}
	for _, u := range set {
		going[u.Node.Name] = true
	}
	out := slices.Clone(s.in.Nodes)
	for i := range out {
		r := &out[i]
		switch j, stands := s.f.at[r.Name]; {
		case going[r.Name]:
			r.Closed, r.Drained = true, true
		case !stands || s.crowded || !s.in.BindsPods:
			r.Closed = true
		default:
			r.Free = slices.Clone(model.Resources(s.f.free[j*s.f.nd : (j+1)*s.f.nd]))
		}
	}
	return out
}

// cost is what a move costs once: the pods' restarts, at what people would pay not to have them and at what their resources cost while they
// start, and old and new machines side by side while the new ones come.
func (s *search) cost(set []*Candidate, newMicro int64) int64 {
	sum := int64(0)
	for _, u := range set {
		for _, p := range u.Pods {
			start, ok := s.in.StartTimes[p.Class]
			if !ok {
				start = s.pol.DefaultStartTime
			}
			sum += s.pol.restartMicro(u.Pool, p) + hourly(s.x.of(p.Class.Requests), start)*EvictionWeight(p)/1000
		}
	}
	boot := s.in.BootTime
	if boot == 0 {
		boot = s.pol.DefaultBootTime
	}
	return sum + hourly(newMicro, boot)
}

// worth says why a move is not worth beginning; an empty code: it is, and its claims are narrowed to what keeps it so.
func (s *search) worth(m *Command) plan.Reason {
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
	return int64(float64(micro) / 1e6 * float64(s.pol.MinSavingPPM))
}

// pays says why a move is not worth it; an empty code: it is.
func (s *search) pays(m *Command) plan.Reason {
	saving := m.SavingMicroPerHour()
	if saving <= 0 {
		return plan.Reason{Code: plan.NotCheaper, Want: "less than " + dollars(m.OldMicroPerHour), Have: dollars(m.NewMicroPerHour)}
	}
	got, workload, in := s.gained(saving, m.Candidates)
	if least := s.least(m.OldMicroPerHour); saving < least {
		return plan.Reason{Code: plan.DoesNotPay, Want: "at least " + dollars(least) + " an hour", Have: dollars(saving) + " an hour"}
	}
	if m.GainMicro = got - m.CostMicro; m.GainMicro <= 0 {
		return s.tooLittle(saving, m.CostMicro, got, workload, in)
	}
	m.Why = plan.Reason{Code: plan.Underutilized, Want: dollars(m.CostMicro) + " once", Have: dollars(saving) + " an hour"}
	return s.balanced(m)
}

// balanced holds a move against the pools of policy Balanced that it takes machines from: the share of the pool's price that is saved
// must be at least half the share of its pods' weight that is disturbed.
func (s *search) balanced(m *Command) plan.Reason {
	price, weight := map[string]int64{}, map[string]int64{}
	var names []string
	for _, u := range m.Candidates {
		if u.Pool.ConsolidationPolicy != Balanced {
			continue
		}
		if _, ok := price[u.Pool.Name]; !ok {
			names = append(names, u.Pool.Name)
		}
		price[u.Pool.Name] += u.PriceMicro
		weight[u.Pool.Name] += u.DisruptionWeight()
	}
	slices.Sort(names)
	for _, n := range names {
		w := s.in.PoolTotals[n]
		if w.PriceMicro <= 0 || w.DisruptionWeight <= 0 || m.OldMicroPerHour <= 0 {
			continue
		}
		saved := float64(m.SavingMicroPerHour()) * (float64(price[n]) / float64(m.OldMicroPerHour)) / float64(w.PriceMicro)
		moved := float64(weight[n]) / float64(w.DisruptionWeight)
		score := saved / moved
		if score < 0.5 {
			return plan.Reason{Code: plan.NotBalanced, Subject: "nodepool/" + n, Key: "spec.disruption.consolidationPolicy",
				Want: "a score of at least 0.5", Have: strconv.FormatFloat(score, 'f', 2, 64)}
		}
		if m.BalancedScores == nil {
			m.BalancedScores = map[string]float64{}
		}
		m.BalancedScores[n] = score
	}
	return plan.Reason{}
}

// BalancedScore is the pool and the score that a refusal by policy Balanced is about.
func BalancedScore(why plan.Reason) (pool string, score float64, ok bool) {
	if why.Code != plan.NotBalanced {
		return "", 0, false
	}
	pool, ok = strings.CutPrefix(why.Subject, "nodepool/")
	score, err := strconv.ParseFloat(why.Have, 64)
	return pool, score, ok && err == nil
}

// DisruptionWeight is what disrupting the machine weighs: one, and its pods by Disruption, in thousandths.
func (u *Candidate) DisruptionWeight() int64 {
	w := int64(1000)
	for _, p := range u.Pods {
		w += EvictionWeight(p)
	}
	return w
}

func dollars(micro int64) string { return "$" + strconv.FormatFloat(float64(micro)/1e6, 'f', 4, 64) }

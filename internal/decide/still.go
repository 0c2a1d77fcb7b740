// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A machine is still when there is nothing to do about it, and only a change can bring something: of its claim, its node or its pool, of what
// its provider says about it, or the passing of an instant that is known. Nearly all machines are, nearly always. What one step has found
// still the next passes over, as long as the objects are the very same ones, which a Snapshot never changes; all others are astir and looked
// at. Of what is still a step needs its room, its unit and its part in its pool's sums, and those are kept too.
//
// Nothing here decides: a step that remembers nothing finds everything astir and decides the same.

// stillness is what is known of a node.
type stillness byte

const (
	astir    stillness = iota
	still              // with its claim
	stranger           // no claim's, and a room like any other
)

// kept is what a step has found out for the next. It is never written to.
type kept struct {
	claims    []*model.Claim
	nodes     []*model.Node
	pools     []*model.NodePool
	shape     *shape
	fleet     *fleet
	drift     map[string]string
	lifecycle lifecycle.Policy
	settle    time.Duration
	repair    []RepairPolicy
	classes   []string

	state []stillness          // by node; and where it is not astir:
	rooms []solve.Room         // its room
	units []*disrupt.Candidate // its unit, nil for a stranger
	until []time.Time          // when it is to be looked at again; zero: never by itself
	next  time.Time            // the first of those
	sums  map[string]sum       // by pool: of what is still
	loud  map[string]*disrupt.Candidate
	away  []int32 // claims that are astir
	noisy []int32 // and nodes
}

// sum is what machines of a pool come to.
type sum struct {
	count    int64
	capacity model.Resources
}

// shape is which nodes and claims belong together, by position in a Snapshot.
type shape struct {
	nodeOf  []int32            // by claim: the only node with its provider id; or none, or several
	claimOf []int32            // by node: the claim it names; or none
	claimAt map[string]int32   // by provider id: the last claim that has it
	byUID   map[string]int32   // claims
	many    map[string][]int32 // by provider id: its nodes, where they are several
}

const (
	none    int32 = -1
	several int32 = -2
)

// fleet is what the cloud's list says beside the claims.
type fleet struct {
	instances []*model.Instance
	shape     *shape
	loose     map[string][]*model.Instance // whose provider id no claim has, by the uid of the claim they bear
	orphans   []*model.Instance            // that no claim wants, those too young to say included
}

func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func newShape(s *model.Snapshot) *shape {
	x := &shape{nodeOf: make([]int32, len(s.Claims)), claimOf: make([]int32, len(s.Nodes)),
		claimAt: make(map[string]int32, len(s.Claims)), byUID: make(map[string]int32, len(s.Claims))}
	var shared map[string][]int32 // claims of one provider id, but for the last
	for i, c := range s.Claims {
		x.nodeOf[i] = none
		if c.UID != "" {
			x.byUID[c.UID] = int32(i)
		}
		if c.ProviderID == "" {
			continue
		}
		if at, ok := x.claimAt[c.ProviderID]; ok {
			if shared == nil {
				shared = map[string][]int32{}
			}
			shared[c.ProviderID] = append(shared[c.ProviderID], at)
		}
		x.claimAt[c.ProviderID] = int32(i)
	}
	for i, n := range s.Nodes {
		x.claimOf[i] = none
		at, ok := x.claimAt[n.ProviderID]
		if ok && n.ProviderID != "" {
			for _, at := range append(shared[n.ProviderID], at) {
				switch have := x.nodeOf[at]; have {
				case none:
					x.nodeOf[at] = int32(i)
				case several:
				default:
					x.nodeOf[at] = several
				}
			}
		}
		switch {
		case n.Claim == "":
		case ok && s.Claims[at].Name == n.Claim:
			x.claimOf[i] = at
		default:
			x.claimOf[i] = claimNamed(s, n.Claim)
		}
	}
	for i, c := range s.Claims {
		if x.nodeOf[i] == several && x.many[c.ProviderID] == nil {
			if x.many == nil {
				x.many = map[string][]int32{}
			}
			for j, n := range s.Nodes {
				if n.ProviderID == c.ProviderID {
					x.many[c.ProviderID] = append(x.many[c.ProviderID], int32(j))
				}
			}
		}
	}
	return x
}

func claimNamed(s *model.Snapshot, name string) int32 {
	i, ok := slices.BinarySearchFunc(s.Claims, name, func(c *model.Claim, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return none
	}
	return int32(i)
}

func nodeNamed(s *model.Snapshot, name string) int32 {
	i, ok := slices.BinarySearchFunc(s.Nodes, name, func(n *model.Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return none
	}
	return int32(i)
}

// claim finds one by name; nil: there is none.
func (st *step) claim(name string) *model.Claim {
	if i := claimNamed(st.s, name); i >= 0 {
		return st.s.Claims[i]
	}
	return nil
}

// claimBy finds one by uid; nil: there is none.
func (st *step) claimBy(uid string) *model.Claim {
	if i, ok := st.shape.byUID[uid]; ok {
		return st.s.Claims[i]
	}
	return nil
}

// position is where a claim stands in the Snapshot.
func (st *step) position(c *model.Claim) int32 {
	if i, ok := st.places[c]; ok {
		return i
	}
	return claimNamed(st.s, c.Name)
}

// node is the claim's node; nil: it has none, or several.
func (st *step) node(c *model.Claim) *model.Node {
	if i := st.position(c); i >= 0 && st.shape.nodeOf[i] >= 0 {
		return st.s.Nodes[st.shape.nodeOf[i]]
	}
	return nil
}

// nodes are all with the claim's provider id.
func (st *step) nodes(at int32) []*model.Node {
	switch i := st.shape.nodeOf[at]; i {
	case none:
		return nil
	case several:
		var out []*model.Node
		for _, i := range st.shape.many[st.s.Claims[at].ProviderID] {
			out = append(out, st.s.Nodes[i])
		}
		return out
	default:
		return st.s.Nodes[i : i+1 : i+1]
	}
}

// newFleet sorts the cloud's machines by whether a claim is theirs.
func newFleet(s *model.Snapshot, x *shape) *fleet {
	f := &fleet{instances: s.Instances, shape: x, loose: map[string][]*model.Instance{}}
	for _, i := range s.Instances {
		at, owned := x.claimAt[i.ProviderID]
		if owned = owned && i.ProviderID != ""; !owned {
			f.loose[i.ClaimUID] = append(f.loose[i.ClaimUID], i)
		}
		// One without a claim's uid is not ours: another autoscaler bought it, and whoever has its claim ends it.
		if i.Gone || i.ClaimUID == "" || owned && (s.Claims[at].UID == i.ClaimUID || s.Claims[at].Name == i.ClaimName) {
			continue
		}
		// A claim has one machine. Another that bears its name was bought beside it, or made in its likeness by hand.
		if at, ok := x.byUID[i.ClaimUID]; ok && (s.Claims[at].ProviderID == "" || s.Claims[at].ProviderID == i.ProviderID) {
			continue
		}
		if at := claimNamed(s, i.ClaimName); at >= 0 && s.Claims[at].ProviderID == i.ProviderID {
			continue
		}
		f.orphans = append(f.orphans, i)
	}
	return f
}

// machines are a claim's in the cloud's list: those with its provider id, and those that bear its uid and are no other claim's.
func (st *step) machines(at int32) []*model.Instance {
	c := st.s.Claims[at]
	var out []*model.Instance
	if last, ok := st.shape.claimAt[c.ProviderID]; ok && last == at {
		list := st.s.Instances
		i, _ := slices.BinarySearchFunc(list, c.ProviderID, func(x *model.Instance, id string) int { return strings.Compare(x.ProviderID, id) })
		for ; i < len(list) && list[i].ProviderID == c.ProviderID; i++ {
			out = append(out, list[i])
		}
	}
	if loose := st.fleet.loose[c.UID]; c.UID != "" && len(loose) > 0 {
		out = append(out, loose...)
		slices.SortStableFunc(out, func(a, b *model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	}
	return out
}

// recall finds out what of the last step still holds, and what is astir.
func (st *step) recall() {
	s, old := st.s, st.mem.kept
	st.poolNamed = make(map[string]*model.NodePool, len(s.Pools))
	for _, p := range s.Pools {
		st.poolNamed[p.Name] = p
	}
	if old == nil {
		old = &kept{}
	}
	k := &kept{claims: s.Claims, nodes: s.Nodes, pools: s.Pools, drift: s.Drift, lifecycle: st.pol.Lifecycle, settle: st.pol.Settle, repair: st.pol.Repair, classes: st.pol.Classes,
		loud: old.loud}
	st.kept = k
	changedClaims, likeClaims := changes(old.claims, s.Claims, func(a, b *model.Claim) bool {
		return a.Name == b.Name && a.UID == b.UID && a.ProviderID == b.ProviderID
	})
	changedNodes, likeNodes := changes(old.nodes, s.Nodes, func(a, b *model.Node) bool {
		return a.Name == b.Name && a.ProviderID == b.ProviderID && a.Claim == b.Claim
	})
	known := old.shape != nil && old.lifecycle == st.pol.Lifecycle && old.settle == st.pol.Settle && slices.Equal(old.repair, st.pol.Repair) && slices.Equal(old.classes, st.pol.Classes)
	if old.shape != nil && likeClaims && likeNodes {
		k.shape, st.shape = old.shape, old.shape
	} else {
		k.shape = newShape(s)
		st.shape = k.shape
	}
	if k.fleet = old.fleet; k.fleet == nil || k.fleet.shape != k.shape || !same(k.fleet.instances, s.Instances) {
		k.fleet = newFleet(s, k.shape)
	}
	st.fleet = k.fleet
	switch {
	case !known:
		n := len(s.Nodes)
		k.state, k.rooms, k.units, k.until, k.sums = make([]stillness, n), make([]solve.Room, n), make([]*disrupt.Candidate, n), make([]time.Time, n), map[string]sum{}
		st.owned = true
	case k.shape == old.shape:
		k.state, k.rooms, k.units, k.until, k.sums, k.next = old.state, old.rooms, old.units, old.until, old.sums, old.next
		for _, i := range changedClaims {
			if p := k.shape.nodeOf[i]; p >= 0 && k.state[p] == still {
				st.stir(p)
			}
		}
		for _, p := range changedNodes {
			st.stir(p)
		}
	default:
		st.carry(old)
	}
	if !same(old.pools, s.Pools) {
		st.repool(old.pools)
	}
	if reflect.ValueOf(s.Drift).Pointer() != reflect.ValueOf(old.drift).Pointer() {
		for p, u := range k.units {
			if k.state[p] == still && s.Drift[u.Claim.UID] != "" {
				st.stir(int32(p))
			}
		}
	}
	if old.fleet == nil || !same(old.fleet.instances, s.Instances) {
		for _, i := range s.Instances {
			if i.Unreserved == nil {
				continue
			}
			if at, ok := k.shape.claimAt[i.ProviderID]; ok {
				if p := k.shape.nodeOf[at]; p >= 0 && lifecycle.Unreserved(s.Claims[at], s.Nodes[p], i) != nil {
					st.stir(p)
				}
			}
		}
	}
	if !k.next.IsZero() && !st.now.Before(k.next) {
		for p, t := range k.until {
			if k.state[p] != astir && !t.IsZero() && !st.now.Before(t) {
				st.stir(int32(p))
			}
		}
	}
	if st.owned {
		k.list()
		k.first()
	} else {
		k.away, k.noisy = old.away, old.noisy
	}
	st.stirring()
	st.at(k.next)
}

// repool has machines looked at whose pool is another one. Where no more of it has changed than its status, which each purchase does, only what
// refers to it is made anew.
func (st *step) repool(old []*model.NodePool) {
	k := st.kept
	alike := map[*model.NodePool]*model.NodePool{} // what a pool was, to what it is; nil: something else
	for _, was := range old {
		if is := st.poolNamed[was.Name]; is == was || is != nil && likewise(was, is) {
			alike[was] = is
		}
	}
	for p, u := range k.units {
		if k.state[p] != still {
			continue
		}
		switch is := alike[u.Pool]; is {
		case u.Pool:
		case nil:
			st.stir(int32(p))
		default:
			st.own()
			v := *u
			v.Pool = is
			k.units[p] = &v
		}
	}
}

// likewise says whether two states of a pool are the same but for its status.
func likewise(a, b *model.NodePool) bool {
	x, y := *a, *b
	for _, p := range []*model.NodePool{&x, &y} {
		p.StatusResources, p.StatusNodes, p.StatusHash, p.StatusClassGeneration, p.Conditions = nil, 0, "", 0, nil
	}
	return reflect.DeepEqual(x, y)
}

// changes lists what of a list is not the very same as it was; like: what takes its place is as good as it to whoever asks.
func changes[T any](old, now []*T, as func(a, b *T) bool) (changed []int32, like bool) {
	if len(old) != len(now) {
		return nil, false
	}
	if same(old, now) {
		return nil, true
	}
	for i, x := range now {
		if x == old[i] {
			continue
		}
		if !as(old[i], x) {
			return nil, false
		}
		changed = append(changed, int32(i))
	}
	return changed, true
}

// carry takes over what is known of machines that are the very same, though others have come or gone.
func (st *step) carry(old *kept) {
	k, s := st.kept, st.s
	n := len(s.Nodes)
	k.state, k.rooms, k.units, k.until, k.sums = make([]stillness, n), make([]solve.Room, n), make([]*disrupt.Candidate, n), make([]time.Time, n), cloned(old.sums)
	st.owned = true
	k.next = old.next
	i := 0
	for j, was := range old.nodes {
		if old.state[j] == astir {
			continue
		}
		for i < n && s.Nodes[i] != was && s.Nodes[i].Name < was.Name {
			i++
		}
		u := old.units[j]
		if i < n && s.Nodes[i] == was {
			at := k.shape.claimOf[i]
			if u == nil && at < 0 || u != nil && at >= 0 && s.Claims[at] == u.Claim && k.shape.nodeOf[at] == int32(i) {
				k.state[i], k.rooms[i], k.units[i], k.until[i] = old.state[j], old.rooms[j], u, old.until[j]
				continue
			}
		}
		if u != nil {
			k.add(u, -1)
		}
	}
}

// add counts a machine that is still, or that is no more. The sums are the step's own by then.
func (k *kept) add(u *disrupt.Candidate, n int64) {
	x := k.sums[u.Pool.Name]
	if x = (sum{x.count + n, x.capacity.AddInto(u.Claim.Capacity, n)}); x.count > 0 {
		k.sums[u.Pool.Name] = x
	} else {
		delete(k.sums, u.Pool.Name)
	}
}

func cloned(m map[string]sum) map[string]sum {
	out := make(map[string]sum, len(m))
	for k, v := range m {
		out[k] = sum{v.count, v.capacity.Clone()}
	}
	return out
}

// trim takes off trailing zeros, so that equal sums look the same however they came about.
func trim(r model.Resources) model.Resources {
	for len(r) > 0 && r[len(r)-1] == 0 {
		r = r[:len(r)-1]
	}
	if len(r) == 0 {
		return nil
	}
	return r
}

// own makes what is known the step's own, to be changed.
func (st *step) own() {
	if k := st.kept; !st.owned {
		st.owned = true
		k.state, k.rooms, k.units, k.until, k.sums = slices.Clone(k.state), slices.Clone(k.rooms), slices.Clone(k.units), slices.Clone(k.until), cloned(k.sums)
	}
}

// stir has a node looked at.
func (st *step) stir(p int32) {
	k := st.kept
	if k.state[p] == astir {
		return
	}
	st.own()
	if u := k.units[p]; u != nil {
		k.add(u, -1)
	}
	k.state[p], k.units[p], k.until[p], k.rooms[p] = astir, nil, time.Time{}, solve.Room{}
}

// list finds what is astir.
func (k *kept) list() {
	k.away, k.noisy = nil, nil
	for p, x := range k.state {
		if x == astir {
			k.noisy = append(k.noisy, int32(p))
		}
	}
	for i, p := range k.shape.nodeOf {
		if p < 0 || k.state[p] != still || k.shape.claimOf[p] != int32(i) {
			k.away = append(k.away, int32(i))
		}
	}
}

// stirring has what is astir looked at.
func (st *step) stirring() {
	st.loud = st.kept.noisy
	st.astir, st.places = make([]*model.Claim, len(st.kept.away)), make(map[*model.Claim]int32, len(st.kept.away))
	for j, i := range st.kept.away {
		c := st.s.Claims[i]
		st.astir[j], st.places[c] = c, i
	}
}

// rouse has machines looked at that no object of theirs says anything about: another's does.
func (st *step) rouse(claims []*model.Claim) {
	any := false
	for _, c := range claims {
		if i := st.position(c); i >= 0 {
			if p := st.shape.nodeOf[i]; p >= 0 && st.kept.state[p] == still {
				st.stir(p)
				any = true
			}
		}
	}
	if any {
		st.kept.list()
		st.stirring()
	}
}

// first finds when something is to be looked at again that is still.
func (k *kept) first() {
	k.next = time.Time{}
	for p, t := range k.until {
		if k.state[p] != astir && !t.IsZero() && (k.next.IsZero() || t.Before(k.next)) {
			k.next = t
		}
	}
}

// idle is a claim that lifecycle has nothing to do for before an instant; zero: ever.
type idle struct {
	at    int32
	until time.Time
}

// keep remembers for the next step what this one has found still.
func (st *step) keep() {
	k := st.kept
	for _, x := range st.idle {
		c, p := st.s.Claims[x.at], st.shape.nodeOf[x.at]
		u := st.base[c]
		if u == nil || p < 0 || st.shape.claimOf[p] != x.at || !st.rests(u) {
			continue
		}
		st.own()
		k.state[p], k.units[p], k.until[p], k.rooms[p] = still, u, x.until, st.nodeRoom(u.Node, c, nil)
		k.add(u, 1)
	}
	for _, p := range st.loud {
		if n := st.s.Nodes[p]; st.shape.claimOf[p] < 0 && n.Deleting.IsZero() && st.now.Sub(n.Created) >= strange {
			st.own()
			k.state[p], k.rooms[p] = stranger, st.nodeRoom(n, nil, nil)
		}
	}
	if st.owned {
		k.list()
		k.first()
	}
	k.loud = nil
	for c, u := range st.base {
		if p := st.shape.nodeOf[st.position(c)]; p < 0 || k.units[p] != u {
			if k.loud == nil {
				k.loud = map[string]*disrupt.Candidate{}
			}
			k.loud[c.Name] = u
		}
	}
	st.mem.kept = k
}

// rests says whether nothing in this package has anything to do about a machine that lifecycle has nothing to do for, before either changes.
// Every check of a single machine is in here: what it passes over must be seen by it.
func (st *step) rests(u *disrupt.Candidate) bool {
	c, n, p := u.Claim, u.Node, u.Pool
	switch {
	case c.Provisional, c.SlotsUnsure, !c.Deleting.IsZero(), !n.Deleting.IsZero(), !n.Ready, c.ProviderID == "", c.Capacity.IsZero(),
		n.Labels[model.LabelRegistered] != "true", n.Labels[model.LabelInitialized] != "true",
		!c.Is(lifecycle.Launched), !c.Is(lifecycle.Registered), !c.Is(lifecycle.Initialized),
		c.Is(lifecycle.Terminating), c.Is(lifecycle.Disrupted), c.Is(drifted),
		c.Annotations[AnnotationMove] != "", c.Annotations[AnnotationHost] != "", c.Annotations[AnnotationInterrupted] != "", c.Annotations[lifecycle.TerminationTime] != "",
		st.held[c.Name] != nil, st.moveOf[c.Name] != "", st.taken[c.Name] != nil,
		c.ExpireAfter >= 0 && !st.now.Before(c.Created.Add(c.ExpireAfter)),
		len(p.Types) > 0 && u.PriceMicro < 0,
		!disrupt.HasWorkloadPods(n) && p.ConsolidateAfter >= 0 && p.Replicas < 0,
		c.Annotations[hashAnnotation] != "" && c.Annotations[hashVersionAnnotation] != hashVersion && p.Hash != "",
		st.sick(n, p).cause.Code != "":
		return false
	}
	for _, t := range n.Taints {
		if t.Key == model.TaintDisrupted || t.Key == model.TaintReserved || t.Key == model.TaintUnregistered {
			return false
		}
	}
	reason, _ := st.driftOf(u)
	return reason == ""
}

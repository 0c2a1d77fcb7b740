// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// SecondOpinion is what the controller asks about a plan before it does anything (contract 2).
var SecondOpinion func(*model.Snapshot, *Output) ([]RefusedBinding, error)

// world is a small cluster with everything that Step is at work in: an API server, a scheduler, kubelets, workloads, a cloud, and
// a controller that sees it all late, whose calls fail or whose answers are lost, and that dies now and then. It runs in virtual
// time and has no luck but what rapid draws.
type world struct {
	t         *rapid.T
	now       time.Time
	limit     *model.CapacityLimit // over the cluster; nil: none
	wild      bool                 // things go wrong
	sickly    bool                 // and kubelets die, for good: where more do than may be repaired at once, they stay as they are
	mostMicro int64                // the dearest that claims under a limit were together
	only      map[string]bool      // of all that may, these; nil: everything

	// The API server.
	version   uint64
	pods      map[string]*model.Pod
	nodes     map[string]*model.Node
	claims    map[string]*model.Claim
	pool      *model.NodePool
	others    []*model.NodePool // NodePools beside it, of the same instance types
	buffers   []*model.Buffer
	nodeOwner map[string]string // by node name: claim uid

	workloads []*workload
	serial    int

	// The cloud.
	machines map[string]*machine // by claim uid
	aside    map[string]time.Time
	types    []*model.InstanceType

	// The controller.
	st     *state.State
	mem    Memory
	pol    Policy
	watch  [5][]func(*state.State) // pods, nodes, claims, budgets of pods, ReplicaSets: each in order, but not with each other
	calls  []*call
	listed time.Time
	next   time.Time
	acted  bool

	judge func(*model.Snapshot, *Output) // looks at each decision
	did   func(plan.Action)              // and at each thing done, before its effect

	preempted func(*model.Pod) // is told of each pod that the scheduler deletes for another
	told      map[string]int   // by workload: how many pods its ReplicaSet is to have
	kept      map[string]int   // by workload that has a PodDisruptionBudget: how many of its pods must be healthy

	keeps     bool             // what decide has learned outlives the controller
	learned   *LearnedCapacity // as it was stored last
	adversary *adversary       // nil: there is none

	loose    bool // some pods tolerate every taint, or have no controller
	bindings int  // pods bound by the controller
	refused  int  // bindings that verify was against
	created  int  // claims ever made
	history  []string
	launches map[string]int // by claim uid: machines ever bought
}

type workload struct {
	name     string
	class    *model.Class
	want     int
	stateful bool   // its pods' names come again
	bare     bool   // its pods have no controller that anybody could see
	hold     string // their karpenter.sh/do-not-disrupt
	grace    time.Duration
}

type machine struct {
	id, claimUID, claimName string
	pool                    string
	typ                     *model.InstanceType
	zone                    string
	launched                time.Time
	gone                    bool
	boot                    time.Duration // to the node
	ready                   time.Duration // from there to Ready; negative: never
	node                    string
	doomed                  time.Time // when the cloud takes it away; zero: it does not
}

type call struct {
	action plan.Action
	begun  bool // the effect is there, the answer is not
	err    error
	ver    uint64
	due    int // ticks
	try    int
}

const (
	watchPods = iota
	watchNodes
	watchClaims
	watchPDBs
	watchReplicas
)

// newWorld makes an empty cluster with workloads that want pods. Loose ones tolerate everything, so that nothing can be kept for or
// from them.
func newWorld(t *rapid.T, loose bool) *world {
	w := &world{t: t, now: epoch, pods: map[string]*model.Pod{}, nodes: map[string]*model.Node{}, claims: map[string]*model.Claim{},
		nodeOwner: map[string]string{}, machines: map[string]*machine{}, aside: map[string]time.Time{}, told: map[string]int{}, launches: map[string]int{}, pol: DefaultPolicy()}
	w.loose = loose
	w.pol.Repair = []RepairPolicy{{Condition: "Ready", Status: "False", After: 30 * time.Second}}
	w.pol.Landing = rapid.SampledFrom([]Landing{LandBind, LandBind, LandTolerate, LandOff}).Draw(t, "landing")
	for _, d := range []struct {
		name  string
		cpu   int64
		price int64
	}{{"large", 8000, 380_000}, {"medium", 4000, 195_000}, {"small", 2000, 100_000}} {
		x := &model.InstanceType{Name: d.name, Labels: model.Labels{model.LabelInstanceType: d.name},
			Capacity: model.Resources{d.cpu, d.cpu << 22, 0, 20}, Allocatable: model.Resources{d.cpu - 100, d.cpu << 22, 0, 20}}
		for _, z := range []string{"a", "b"} {
			x.Offerings = append(x.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: d.price, Available: true, Remaining: -1})
		}
		w.types = append(w.types, x)
	}
	w.pool = &model.NodePool{Name: "p", UID: "uid-p", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
		Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p")), Types: w.types}
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		c := model.Class{Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("w", i)}, Scheduler: model.DefaultScheduler,
			Requests: model.Resources{rapid.SampledFrom([]int64{250, 900, 1500, 3000}).Draw(t, "cpu"), 128 << 20, 0, 1}}
		switch kind := rapid.IntRange(0, 6).Draw(t, "kind of pods"); {
		case kind == 6:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelHostname, MaxSkew: 1, Hard: true, Selector: &sel}}
		case kind == 1:
			c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "b"))}}
		case kind == 3:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}}}
		case kind == 4:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: &sel}}
		case kind == 2 && loose:
			c.Tolerations = []model.Toleration{{Exists: true, Effect: model.NoSchedule}}
		}
		w.workloads = append(w.workloads, &workload{name: fmt.Sprint("w", i), class: classOf(c), want: rapid.IntRange(0, 8).Draw(t, "replicas"),
			stateful: rapid.IntRange(0, 2).Draw(t, "stateful") == 2, bare: loose && rapid.IntRange(0, 4).Draw(t, "bare") == 4})
	}
	w.restart()
	return w
}

func (w *world) chance(what string, percent int) bool {
	return w.wild && (w.only == nil || w.only[what]) && rapid.IntRange(0, 99).Draw(w.t, what) >= 100-percent
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("+%s ", w.now.Sub(epoch))+fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.history, "\n"))
}

// restart makes a new controller that lists everything.
func (w *world) restart() {
	w.st, w.mem, w.calls, w.watch, w.listed, w.next = state.New(), Memory{}, nil, [5][]func(*state.State){}, time.Time{}, time.Time{}
	w.st.SetNow(w.now)
	if w.learned != nil {
		w.mem = w.mem.WithLearned(*w.learned, w.st.Resources().Dim)
	}
	w.st.SetNamespace("default", nil)
	w.st.Pools.SetPool(w.pool)
	for _, p := range w.others {
		w.st.Pools.SetPool(p)
	}
	for _, b := range w.buffers {
		w.st.SetBuffer(b, 1)
	}
	if w.limit != nil {
		w.st.SetLimit(w.limit)
	}
	for _, k := range sortedKeys(w.claims) {
		w.st.SetClaim(w.claims[k], w.version)
	}
	for _, k := range sortedKeys(w.nodes) {
		w.st.SetNode(w.nodes[k], w.version)
	}
	for _, k := range sortedKeys(w.pods) {
		w.st.SetPod(w.pods[k])
	}
	for _, l := range w.workloads {
		w.st.SetReplicas("uid-"+l.name, w.told[l.name])
	}
	w.watch[watchPDBs] = nil
	for _, l := range w.workloads {
		if _, ok := w.kept[l.name]; ok {
			w.st.SetPDB(w.budgetOf(l))
		}
	}
}

// healthy are the pods of a workload that run.
func (w *world) healthy(l *workload) (n int) {
	for _, p := range w.pods {
		if p.Class == l.class && p.Node != "" && p.Deleting.IsZero() {
			n++
		}
	}
	return n
}

// budgetOf is a workload's PodDisruptionBudget as its controller would write it now.
func (w *world) budgetOf(l *workload) *model.PDB {
	q := model.NewRequirements(model.OneOf("app", l.name))
	n := w.healthy(l)
	return &model.PDB{Namespace: "default", Name: l.name, Selector: &q, DisruptionsAllowed: int32(max(0, n-w.kept[l.name])), Healthy: int32(n), Desired: int32(w.kept[l.name])}
}

// mayGo reports whether the API server lets a pod be evicted.
func (w *world) mayGo(p *model.Pod) bool {
	for _, l := range w.workloads {
		if least, ok := w.kept[l.name]; ok && p != nil && p.Class == l.class && p.Node != "" && p.Deleting.IsZero() {
			return w.healthy(l) > least
		}
	}
	return true
}

// budgets writes what has changed in the status of PodDisruptionBudgets.
func (w *world) budgets() {
	for _, l := range w.workloads {
		if _, ok := w.kept[l.name]; ok {
			b := w.budgetOf(l)
			w.watch[watchPDBs] = append(w.watch[watchPDBs], func(s *state.State) { s.SetPDB(b) })
		}
	}
}

// crash ends the controller: of its calls, some have been made and some have not.
func (w *world) crash() {
	w.say("the controller dies")
	for _, c := range w.calls {
		if !c.begun && rapid.Bool().Draw(w.t, "call made before death") {
			w.do(c.action)
		}
	}
	w.restart()
}

// The API server: each write is a new version, told to the watch.

func (w *world) setPod(p *model.Pod) {
	w.version++
	w.pods[p.Key()] = p
	w.watch[watchPods] = append(w.watch[watchPods], func(s *state.State) { s.SetPod(p) })
}

func (w *world) dropPod(p *model.Pod) {
	w.version++
	delete(w.pods, p.Key())
	w.watch[watchPods] = append(w.watch[watchPods], func(s *state.State) { s.DeletePod(p.Key()) })
}

func (w *world) setNode(n *model.Node) {
	w.version++
	v := w.version
	w.nodes[n.Name] = n
	w.watch[watchNodes] = append(w.watch[watchNodes], func(s *state.State) { s.SetNode(n, v) })
}

func (w *world) dropNode(name string) {
	w.version++
	delete(w.nodes, name)
	delete(w.nodeOwner, name)
	w.watch[watchNodes] = append(w.watch[watchNodes], func(s *state.State) { s.DeleteNode(name) })
	for _, k := range sortedKeys(w.pods) { // the pod garbage collector
		if p := w.pods[k]; p.Node == name {
			w.dropPod(p)
		}
	}
}

func (w *world) setClaim(c *model.Claim) {
	w.version++
	v := w.version
	w.claims[c.Name] = c
	w.watch[watchClaims] = append(w.watch[watchClaims], func(s *state.State) { s.SetClaim(c, v) })
}

func (w *world) dropClaim(c *model.Claim) {
	w.version++
	delete(w.claims, c.Name)
	w.watch[watchClaims] = append(w.watch[watchClaims], func(s *state.State) { s.DeleteClaim(c.Name) })
	for _, k := range sortedKeys(w.nodes) { // the garbage collector: owned nodes go too
		if w.nodeOwner[k] == c.UID {
			w.deleteNode(w.nodes[k])
		}
	}
}

func (w *world) deleteNode(n *model.Node) {
	if !n.HasFinalizer {
		w.dropNode(n.Name)
		return
	}
	if n.Deleting.IsZero() {
		m := *n
		m.Deleting = w.now
		w.setNode(&m)
	}
}

func (w *world) deleteClaim(c *model.Claim) {
	if !c.HasFinalizer {
		w.dropClaim(c)
		return
	}
	if c.Deleting.IsZero() {
		d := *c
		d.Deleting = w.now
		w.setClaim(&d)
	}
}

func (w *world) deletePod(p *model.Pod, grace time.Duration) {
	if p.Node == "" {
		w.dropPod(p)
		return
	}
	q := *p
	q.Deleting = w.now.Add(grace)
	w.setPod(&q)
}

var errCloud = errors.New("the cloud is not well")

// do carries an action out.
func (w *world) do(action plan.Action) (uint64, error) {
	if w.did != nil {
		w.did(action)
	}
	switch a := action.(type) {
	case plan.CreateClaim:
		return w.createClaim(a)
	case plan.LaunchClaim:
		return w.launch(a)
	case plan.DeleteClaim:
		c := w.claims[a.Claim]
		if c == nil || c.UID != a.UID {
			return 0, plan.ErrGone
		}
		w.deleteClaim(c)
		return 0, nil
	case plan.UpdateClaim:
		return w.updateClaim(a)
	case plan.UpdateNode:
		return w.updateNode(a)
	case plan.DeleteNode:
		n := w.nodes[a.Node]
		if n == nil || n.UID != a.UID {
			return 0, plan.ErrGone
		}
		w.deleteNode(n)
		return w.version, nil
	case plan.Bind:
		return w.bind(a)
	case plan.Tolerate:
		p := w.pods[a.Namespace+"/"+a.Pod]
		if p == nil || p.UID != a.UID {
			return 0, plan.ErrGone
		}
		if w.chance("toleration refused", 10) {
			return 0, plan.ErrInvalid
		}
		if !slices.Contains(p.Reservations, a.Claim) {
			q := *p
			q.Reservations = append(slices.Clip(q.Reservations), a.Claim)
			w.setPod(&q)
		}
		return w.version, nil
	case plan.Evict:
		p := w.pods[a.Namespace+"/"+a.Pod]
		if w.chance("eviction blocked", 40) || !w.mayGo(p) {
			return 0, plan.ErrBlocked
		}
		if p == nil {
			return 0, plan.ErrGone
		}
		return w.removePod(a.Namespace+"/"+a.Pod, a.UID, p.GracePeriod)
	case plan.DeletePod:
		return w.removePod(a.Namespace+"/"+a.Pod, a.UID, a.Grace)
	case plan.Terminate:
		for _, m := range w.machines {
			if m.id == a.ProviderID {
				m.gone = true
			}
		}
		return 0, nil
	case plan.UpdatePool:
		i := slices.IndexFunc(w.others, func(p *model.NodePool) bool { return p.Name == a.Pool })
		at := &w.pool
		if i >= 0 {
			at = &w.others[i]
		}
		p := **at
		p.StatusResources, p.StatusNodes, p.StatusHash, p.Conditions = a.Resources, a.Nodes, a.Hash, a.Conditions
		*at = &p
		w.st.Pools.SetPool(&p)
		return 0, nil
	}
	w.fatalf("unknown action %T", action)
	return 0, nil
}

// bind is what the API server does with a binding: it looks at the pod alone.
func (w *world) bind(a plan.Bind) (uint64, error) {
	p := w.pods[a.Namespace+"/"+a.Pod]
	switch {
	case p == nil || p.UID != a.UID:
		return 0, plan.ErrGone
	case p.Node != "" || !p.Deleting.IsZero():
		return 0, plan.ErrConflict
	case w.chance("binding refused", 3) || w.adversary.refusesPod(w, p, a.Node):
		return 0, plan.ErrInvalid
	}
	q := *p
	q.Node, q.Bound = a.Node, w.now
	w.bindings++
	w.setPod(&q)
	if n := w.nodes[a.Node]; n != nil && !w.loose {
		var used model.Resources
		for _, p := range w.pods {
			if p.Node == n.Name {
				used = used.Add(p.Class.Requests)
			}
		}
		if !used.Fits(n.Allocatable) {
			w.fatalf("binding %s overfills node %s", p.Name, n.Name)
		}
	}
	return w.version, nil
}

func (w *world) removePod(key, uid string, grace time.Duration) (uint64, error) {
	p := w.pods[key]
	if p == nil || p.UID != uid {
		return 0, plan.ErrGone
	}
	if p.Deleting.IsZero() || p.Deleting.After(w.now.Add(grace)) {
		w.deletePod(p, grace)
	}
	return 0, nil
}

func (w *world) createClaim(a plan.CreateClaim) (uint64, error) {
	if w.claims[a.Name] != nil {
		return w.version, nil // AlreadyExists
	}
	if w.adversary.refusesClaim(a) {
		w.say("claim %s is refused", a.Name)
		if w.adversary.forgets {
			return 0, plan.ErrInvalid
		}
		w.st.RecordUnmadeClaim(model.UnmadeClaim{Claim: a.Name, Pool: a.Pool.Name, Slots: LaunchSlots(a), At: w.now, Message: "denied"})
		return 0, plan.ErrInvalid
	}
	w.created++
	w.say("claim %s is made", a.Name)
	labels := maps.Clone(a.Pool.Labels)
	labels[model.LabelNodePool] = a.Pool.Name
	if q := a.Requirements.Get(teamLabel); q != nil && len(q.Values) == 1 {
		labels[teamLabel] = q.Values[0]
	}
	w.setClaim(&model.Claim{
		Name: a.Name, UID: fmt.Sprintf("uid-%s-%d", a.Name, w.created), Pool: a.Pool.Name, Requirements: a.Requirements, Labels: labels, Annotations: edited(a.Annotations, map[string]string{hashAnnotation: a.Pool.Hash, hashVersionAnnotation: hashVersion}),
		StartupTaints: a.Pool.StartupTaints, Requests: a.Requests, ExpireAfter: a.Pool.ExpireAfter, TerminationGracePeriod: a.Pool.TerminationGracePeriod, Created: w.now,
		HasFinalizer: true, Conditions: map[string]model.Condition{}, Reserved: a.Reserved, Slots: a.Slots, NoReserve: string(a.NoReserve.Code),
	})
	w.adversary.claimMade(w, a)
	return w.version, nil
}

// launch buys the cheapest machine that the claim, as the controller knows it, allows; a second time it answers the first one.
func (w *world) launch(a plan.LaunchClaim) (uint64, error) {
	c := w.st.FindClaim(a.Claim)
	if c == nil || c.UID != a.UID {
		return 0, plan.ErrGone
	}
	m := w.machines[a.UID]
	if m == nil {
		if w.chance("no capacity", 10) {
			q := c.Requirements.Get(model.LabelInstanceType)
			for _, n := range q.Values {
				w.aside[n] = w.now.Add(30 * time.Second)
			}
			w.offer()
			w.say("no capacity for %s", a.Claim)
			w.st.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: "InsufficientCapacity", Message: "none left"})
			return 0, nil
		}
		m = w.buy(c)
		w.machines[a.UID] = m
		w.launches[a.UID]++
		w.say("machine %s (%s) is bought", m.id, m.typ.Name)
		if w.chance("answer of the launch lost", 10) {
			w.st.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: "Unknown", Message: "connection reset"})
			return 0, errCloud
		}
	}
	if m.gone {
		w.st.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: "NotFound", Message: "it is gone"})
		return 0, nil
	}
	return w.updateClaim(plan.UpdateClaim{Claim: a.Claim, UID: a.UID, ProviderID: m.id, Capacity: m.typ.Capacity, Allocatable: m.typ.Allocatable,
		Labels:     map[string]string{model.LabelInstanceType: m.typ.Name, model.LabelZone: m.zone, model.LabelCapacityType: model.OnDemand},
		Conditions: map[string]model.Condition{lifecycle.Launched: {Status: "True", Reason: lifecycle.Launched}}})
}

func (w *world) buy(c *model.Claim) *machine {
	types, zones := c.Requirements.Get(model.LabelInstanceType), c.Requirements.Get(model.LabelZone)
	m := &machine{claimUID: c.UID, claimName: c.Name, pool: c.Pool, launched: w.now, boot: 3 * time.Second, ready: time.Second}
	for _, t := range w.types {
		cheaper := m.typ == nil || t.Offerings[0].PriceMicro < m.typ.Offerings[0].PriceMicro
		if cheaper && types.Matches(t.Name, true) && c.Requests.Fits(t.Allocatable) {
			m.typ = t
		}
	}
	if m.typ == nil {
		w.fatalf("claim %s: none of its types %v holds what it asks for, %v", c.Name, types.Values, c.Requests)
	}
	for _, z := range []string{"a", "b"} {
		if m.zone == "" && (zones == nil || zones.Matches(z, true)) {
			m.zone = z
		}
	}
	w.serial++
	m.id = fmt.Sprint("m", w.serial)
	switch {
	case w.adversary.keepsFromJoining(c):
		m.boot = -1
	case w.chance("never registers", 5):
		m.boot = -1
	case w.chance("never ready", 5):
		m.ready = -1
	case w.chance("slow to boot", 30):
		m.boot = time.Duration(rapid.IntRange(1, 90).Draw(w.t, "boot")) * time.Second
	}
	return m
}

// offer tells the controller what can be had.
func (w *world) offer() {
	p := *w.pool
	p.Types = nil
	for _, t := range w.types {
		if until, ok := w.aside[t.Name]; ok && w.now.Before(until) {
			x := *t
			x.Offerings = slices.Clone(t.Offerings)
			for i := range x.Offerings {
				x.Offerings[i].Available = false
			}
			t = &x
		}
		p.Types = append(p.Types, t)
	}
	w.pool = &p
	w.st.Pools.SetPool(&p)
}

func (w *world) updateClaim(a plan.UpdateClaim) (uint64, error) {
	have := w.claims[a.Claim]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	c := *have
	if a.NodeName != "" {
		c.NodeName = a.NodeName
	}
	if a.ProviderID != "" {
		c.ProviderID = a.ProviderID
	}
	if a.Capacity != nil {
		c.Capacity, c.Allocatable = a.Capacity, a.Allocatable
	}
	if !a.LastPodEvent.IsZero() {
		c.LastPodEvent = a.LastPodEvent
	}
	if a.SetSlots {
		c.Slots = a.Slots
	}
	c.Labels, c.Annotations = edited(c.Labels, a.Labels), edited(c.Annotations, a.Annotations)
	c.Conditions = maps.Clone(c.Conditions)
	for k, v := range a.Conditions {
		old := c.Conditions[k]
		v.Since = old.Since
		if old.Status != v.Status {
			v.Since = w.now
		}
		c.Conditions[k] = v
	}
	if a.RemoveFinalizer {
		if m := w.machines[c.UID]; m != nil && !m.gone && (c.ProviderID != "" || w.now.Sub(m.launched) > time.Minute) {
			w.fatalf("claim %s is let go while its machine %s runs", c.Name, m.id)
		}
		w.say("claim %s is let go", c.Name)
		c.HasFinalizer = false
		if !c.Deleting.IsZero() {
			w.dropClaim(&c)
			return w.version, nil
		}
	}
	w.setClaim(&c)
	return w.version, nil
}

func edited(have model.Labels, change map[string]string) model.Labels {
	out := model.Labels{}
	maps.Copy(out, have)
	for k, v := range change {
		if v == plan.Unset {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func (w *world) updateNode(a plan.UpdateNode) (uint64, error) {
	have := w.nodes[a.Node]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	n := *have
	n.Labels, n.Annotations = edited(n.Labels, a.Labels), edited(n.Annotations, a.Annotations)
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return slices.ContainsFunc(slices.Concat(a.RemoveTaints, a.AddTaints), func(r model.Taint) bool { return r.Key == t.Key && r.Effect == t.Effect })
	})
	n.Taints = append(n.Taints, a.AddTaints...)
	n.DaemonsOnly = n.HasTaint(model.TaintReserved) && (a.DaemonsOnly || n.DaemonsOnly && len(a.AddTaints) == 0)
	if a.OwnerUID != "" {
		w.nodeOwner[n.Name] = a.OwnerUID
	}
	n.HasFinalizer = n.HasFinalizer || a.AddFinalizer
	if a.RemoveFinalizer {
		n.HasFinalizer = false
		if !n.Deleting.IsZero() {
			w.dropNode(n.Name)
			return w.version, nil
		}
	}
	w.say("node %s: %s", n.Name, describeAction(a))
	w.setNode(&n)
	return w.version, nil
}

var (
	notReady   = model.Taint{Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}
	bootstrap  = model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}
	startupCNI = model.Taint{Key: "cni", Effect: model.NoSchedule}
)

// kubelets make nodes of machines, and let pods end.
func (w *world) kubelets() {
	for _, uid := range sortedKeys(w.machines) {
		m := w.machines[uid]
		n := w.nodes[m.node]
		if !m.doomed.IsZero() && !w.now.Before(m.doomed) && !m.gone {
			m.gone = true
			w.say("machine %s is taken away", m.id)
		}
		switch {
		case m.gone:
			if n != nil && n.Ready {
				w.setReady(n, false)
			} else if n != nil && w.now.Sub(n.ReadySince) > 5*time.Second {
				w.deleteNode(n) // the cloud's node controller
			}
		case m.node == "" && m.boot >= 0 && !w.now.Before(m.launched.Add(m.boot)):
			m.node = "n-" + m.id
			w.setNode(&model.Node{Name: m.node, UID: "uid-" + m.node, ProviderID: m.id, Created: w.now, Capacity: m.typ.Capacity, Allocatable: m.typ.Allocatable,
				Labels:      model.Labels{model.LabelHostname: m.node, model.LabelInstanceType: m.typ.Name, model.LabelZone: m.zone, model.LabelCapacityType: model.OnDemand, model.LabelNodePool: m.pool},
				Annotations: model.Labels{}, Taints: append([]model.Taint{bootstrap, notReady}, w.pool.StartupTaints...)})
			w.say("node %s has come", m.node)
		case n != nil && !n.Ready && m.ready >= 0 && !w.now.Before(n.Created.Add(m.ready)):
			w.setReady(n, true)
		case n != nil && n.Ready && slices.Contains(n.Taints, startupCNI):
			k := *n
			k.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t == startupCNI })
			w.setNode(&k)
		}
	}
	for _, k := range sortedKeys(w.pods) {
		p := w.pods[k]
		if p.Node != "" && w.nodes[p.Node] == nil { // the pod garbage collector: it was bound as its node went
			w.dropPod(p)
			continue
		}
		if p.Node == "" || p.Deleting.IsZero() || w.now.Before(p.Deleting) {
			continue
		}
		for _, m := range w.machines {
			if m.node == p.Node && !m.gone {
				w.dropPod(p)
			}
		}
	}
}

func (w *world) setReady(n *model.Node, ready bool) {
	m := *n
	m.Ready, m.ReadySince = ready, w.now
	m.Conditions = map[string]model.Condition{"Ready": {Status: map[bool]string{true: "True", false: "False"}[ready], Since: w.now}}
	m.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t == notReady })
	if !ready {
		m.Taints = append(m.Taints, notReady)
	}
	w.say("node %s: Ready %t", n.Name, ready)
	w.setNode(&m)
}

// controllers keep as many pods of each workload as are wanted.
func (w *world) controllers() {
	for _, l := range w.workloads {
		var have []*model.Pod
		for _, k := range sortedKeys(w.pods) {
			if p := w.pods[k]; p.Class == l.class && p.Deleting.IsZero() {
				have = append(have, p)
			}
		}
		if w.told[l.name] != l.want {
			w.version++
			w.told[l.name] = l.want
			want := l.want
			w.watch[watchReplicas] = append(w.watch[watchReplicas], func(s *state.State) { s.SetReplicas("uid-"+l.name, want) })
		}
		more := l.want - len(have)
		if more > 1 && w.chance("pods are made one by one", 50) {
			more = 1
		}
		for range more {
			w.serial++
			p := &model.Pod{Namespace: "default", Seen: uint64(w.serial), Name: fmt.Sprintf("%s-%d", l.name, w.serial), UID: fmt.Sprintf("uid-%s-%d", l.name, w.serial), Class: l.class,
				Created: w.now, GracePeriod: max(time.Second, l.grace), DoNotDisrupt: l.hold, Owner: model.Owner{Kind: "ReplicaSet", Name: l.name, UID: "uid-" + l.name}}
			for n := 0; l.stateful; n++ {
				if p.Name = fmt.Sprintf("%s-%d", l.name, n); w.pods[p.Key()] == nil {
					break
				}
			}
			if l.bare {
				p.Owner = model.Owner{}
			}
			w.setPod(p)
		}
		sort.SliceStable(have, func(i, j int) bool { return have[i].Node == "" && have[j].Node != "" })
		for i := range len(have) - l.want {
			w.deletePod(have[i], time.Second)
		}
	}
}

// scheduler binds what fits, to the emptiest node, the pods of the highest priority first. For one that does not fit it
// has pods of a lower priority deleted, where there is a node that holds it then; of the rest it says that they do not fit.
func (w *world) scheduler() {
	used := map[string]model.Resources{}
	for _, p := range w.pods {
		if p.Node != "" {
			used[p.Node] = used[p.Node].Add(p.Class.Requests)
		}
	}
	keys := sortedKeys(w.pods)
	on := map[string][]*model.Pod{}
	for _, k := range keys {
		on[w.pods[k].Node] = append(on[w.pods[k].Node], w.pods[k])
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(w.pods[b].Class.Priority, w.pods[a].Class.Priority) })
	for _, k := range keys {
		p := w.pods[k]
		if p == nil || p.Node != "" || !p.Deleting.IsZero() {
			continue
		}
		tolerations := slices.Clone(p.Class.Tolerations)
		for _, c := range p.Reservations {
			tolerations = append(tolerations, model.Toleration{Key: model.TaintReserved, Value: c, Effect: model.NoSchedule})
		}
		best, free, preempt := "", int64(-1), victims{}
		for _, name := range sortedKeys(w.nodes) {
			n := w.nodes[name]
			room := n.Allocatable.Sub(used[name])
			if model.Untolerated(n.Taints, tolerations) != nil || w.adversary.refusesPod(w, p, name) ||
				len(p.Class.Terms) > 0 && !p.Class.Terms[0].Requirements.Matches(n.Labels) || !w.topology(p.Class, n) {
				continue
			}
			if !p.Class.Requests.Fits(room) {
				if v := w.victimsOn(name, p.Class, room, on[name]); p.Class.Preempts && len(v.pods) > 0 && (preempt.node == "" || v.lessThan(preempt)) {
					preempt = v
				}
				continue
			}
			if room.At(model.CPU) > free {
				best, free = name, room.At(model.CPU)
			}
		}
		q := *p
		switch {
		case best != "":
			q.Node, q.Bound, q.Nominated = best, w.now, "" // seen by those that come after
			used[best] = used[best].Add(p.Class.Requests)
		case preempt.node != "":
			for _, v := range preempt.pods {
				if v.Deleting.IsZero() {
					if w.preempted != nil {
						w.preempted(v)
					}
					w.deletePod(v, max(time.Second, v.GracePeriod))
				}
			}
			used[preempt.node] = used[preempt.node].Add(p.Class.Requests)
			if p.Nominated == preempt.node {
				continue
			}
			q.Nominated = preempt.node
		case p.Nominated != "":
			q.Nominated = ""
		case p.Unschedulable.IsZero():
			q.Unschedulable = w.now
		default:
			continue
		}
		w.setPod(&q)
	}
}

// victims are the pods that kube-scheduler deletes on a node for a pod of higher priority.
type victims struct {
	node    string
	pods    []*model.Pod
	highest int32
	sum     int64
}

// lessThan reports whether kube-scheduler prefers v: first the lowest priority of the most important victim, then the lowest sum, then the fewest.
func (v victims) lessThan(o victims) bool {
	return cmp.Or(cmp.Compare(v.highest, o.highest), cmp.Compare(v.sum, o.sum), cmp.Compare(len(v.pods), len(o.pods))) < 0
}

// victimsOn returns the pods of lower priority on a node without which a pod of class c fits into what is free there, those of the lowest priority
// first; none: it doesn't fit without them either. Pods that are ending already count as victims that cost nothing.
func (w *world) victimsOn(node string, c *model.Class, room model.Resources, on []*model.Pod) victims {
	var lower []*model.Pod
	for _, p := range on {
		if p.Node == node && p.Class.Priority < c.Priority {
			lower = append(lower, p)
			room = room.Add(p.Class.Requests)
		}
	}
	if !c.Requests.Fits(room) {
		return victims{}
	}
	// Those that can stay do, the most important first.
	slices.SortStableFunc(lower, func(a, b *model.Pod) int {
		if a.Deleting.IsZero() != b.Deleting.IsZero() {
			if a.Deleting.IsZero() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Class.Priority, a.Class.Priority), cmp.Compare(a.Key(), b.Key()))
	})
	v := victims{node: node, highest: math.MinInt32}
	for _, p := range lower {
		if left := room.Sub(p.Class.Requests); c.Requests.Fits(left) {
			room = left
			continue
		}
		v.pods = append(v.pods, p)
		if p.Deleting.IsZero() {
			v.highest, v.sum = max(v.highest, p.Class.Priority), v.sum+int64(p.Class.Priority)+1<<31
		}
	}
	return v
}

// topology reports whether a node will do for a class that keeps its pods apart, or spreads them over zones or hosts.
func (w *world) topology(c *model.Class, n *model.Node) bool {
	if len(c.AntiAffinity)+len(c.Spread) == 0 || len(c.Spread) > 0 && !c.Spread[0].Hard {
		return true
	}
	key := model.LabelZone
	if len(c.Spread) > 0 {
		key = c.Spread[0].TopologyKey
	}
	zones := map[string]int{}
	for _, o := range w.nodes {
		zones[o.Labels[key]] += 0
	}
	for _, p := range w.pods {
		if p.Class != c || p.Node == "" {
			continue
		}
		o := w.nodes[p.Node]
		if len(c.AntiAffinity) > 0 && (p.Node == n.Name || o != nil && c.AntiAffinity[0].TopologyKey == model.LabelZone && o.Labels[model.LabelZone] == n.Labels[model.LabelZone]) {
			return false
		}
		if o != nil && p.Deleting.IsZero() {
			zones[o.Labels[key]]++
		}
	}
	least := math.MaxInt
	for _, n := range zones {
		least = min(least, n)
	}
	return len(c.Spread) == 0 || zones[n.Labels[key]]+1-least <= int(c.Spread[0].MaxSkew)
}

// deliver hands the controller what its watches have.
func (w *world) deliver() {
	for i := range w.watch {
		n := len(w.watch[i])
		if w.chance("watch lags", 25) {
			n = rapid.IntRange(0, n).Draw(w.t, "events")
		}
		for _, ev := range w.watch[i][:n] {
			ev(w.st)
		}
		w.watch[i] = slices.Clone(w.watch[i][n:])
	}
}

// answer finishes calls that are due.
func (w *world) answer() {
	var left []*call
	for _, c := range w.calls {
		if !c.begun {
			c.begun = true
			switch {
			case w.chance("call fails", 8):
				c.err = errCloud
			default:
				if c.ver, c.err = w.do(c.action); c.err == nil && w.chance("answer lost", 5) {
					c.err = errCloud
				}
			}
		}
		if c.due--; c.due > 0 {
			left = append(left, c)
			continue
		}
		key := c.action.Key()
		switch {
		case c.err == nil:
			w.st.InFlight.RecordAnswer(key, c.ver, w.now.Add(15*time.Second))
			if l, ok := c.action.(plan.LaunchClaim); ok && c.ver == 0 {
				w.st.InFlight.EndAction(l.Key())
			}
			if t, ok := c.action.(plan.Terminate); ok {
				uid := ""
				if cl := w.st.FindClaim(t.Claim); cl != nil {
					uid = cl.UID
				}
				w.st.MarkInstanceGone(t.ProviderID, uid)
			}
			if _, ok := c.action.(plan.UpdatePool); ok {
				w.st.InFlight.EndAction(key)
			}
			if u, ok := c.action.(plan.UpdateClaim); ok && u.SetSlots {
				w.st.Overlay.ConfirmSlots(u.Claim)
			}
		case errors.Is(c.err, plan.ErrGone):
			w.st.InFlight.RecordAnswer(key, 0, w.now.Add(time.Second))
			if a, ok := c.action.(plan.Bind); ok {
				w.st.Overlay.DropBinding(a.Namespace+"/"+a.Pod, a.UID)
			}
		default:
			if a, ok := c.action.(plan.CreateClaim); ok && c.try < 7 && !errors.Is(c.err, plan.ErrInvalid) { // it may have been made: until it has come, the same again, as the controller does
				if have := w.st.FindClaim(a.Name); have != nil && have.Provisional {
					record(w.st, a, w.now)
					left = append(left, &call{action: a, due: 2, try: c.try + 1})
				}
				continue
			}
			failed(w.st, c.action, w.now.Add(time.Second), !errors.Is(c.err, errCloud))
			if a, ok := c.action.(plan.Bind); ok && errors.Is(c.err, plan.ErrInvalid) {
				w.st.Overlay.RefuseBinding(a.Namespace+"/"+a.Pod, a.UID)
			}
			if a, ok := c.action.(plan.Tolerate); ok && errors.Is(c.err, plan.ErrInvalid) {
				w.st.Overlay.RefuseToleration(a.Namespace+"/"+a.Pod, a.UID)
			}
		}
	}
	w.calls = left
}

// list asks the cloud for its machines; a list lags up to two seconds behind.
func (w *world) list() {
	if w.now.Sub(w.listed) < time.Second || w.chance("list fails", 20) {
		return
	}
	w.listed = w.now
	var out []*model.Instance
	for _, uid := range sortedKeys(w.machines) {
		m := w.machines[uid]
		if w.now.Sub(m.launched) < 2*time.Second && w.chance("not listed yet", 50) || m.gone && w.chance("gone and not listed", 50) {
			continue
		}
		out = append(out, &model.Instance{ProviderID: m.id, ClaimUID: m.claimUID, ClaimName: m.claimName, Launched: m.launched, Gone: m.gone})
	}
	w.st.SetInstances(out, w.now)
}

// control decides, and begins what was decided.
func (w *world) control() {
	w.st.SetNow(w.now)
	w.st.ExpireActions(w.now)
	look := !w.chance("no look at demand", 30)
	snap := w.st.Snapshot(w.now)
	req := Request{Solve: look}
	out, mem := stepTwice(snap, w.mem, w.now, w.pol, req, w.fatalf)
	refused, err := SecondOpinion(snap, &out)
	if len(refused) > 0 && err == nil {
		again := slices.DeleteFunc(slices.Clone(refused), RefusedBinding.KeepsSlot)
		if !w.loose && len(again) > 0 {
			w.fatalf("verify is against bindings: %v", again)
		}
		w.refused += len(again)
		if req.NotBound = again; len(again) > 0 {
			out, mem = stepTwice(snap, w.mem, w.now, w.pol, req, w.fatalf)
		}
		if refused, err = SecondOpinion(snap, &out); len(refused) > 0 { // these wait for the next step
			out.Actions = slices.DeleteFunc(out.Actions, func(a plan.Action) bool {
				b, ok := a.(plan.Bind)
				return ok && slices.ContainsFunc(refused, func(r RefusedBinding) bool { return r.Pod == b.UID })
			})
		}
	}
	w.mem, w.next, w.acted = mem, out.Next, false
	if w.keeps && !w.chance("what is learned is not stored", 20) {
		l := mem.Learned(snap.ResourceNames)
		w.learned = &l
	}
	if w.judge != nil {
		w.judge(snap, &out)
	}
	if !out.Next.IsZero() && !out.Next.After(w.now) {
		w.fatalf("to look again at %s, which is not after now, %s", out.Next, w.now)
	}
	for _, k := range out.Kept {
		w.say("kept: %s %s %s", k.Node, k.Cause, reason(k.Why))
	}
	if err != nil {
		w.fatalf("the plan is refused: %v", err)
	}
	for _, a := range out.Actions {
		if _, ok := a.(plan.UpdatePool); !ok {
			w.acted = true
			w.say("decided: %s", describeAction(a))
		}
		record(w.st, a, w.now)
		c := &call{action: a, due: 1}
		if w.chance("slow call", 25) {
			c.due += rapid.IntRange(1, 8).Draw(w.t, "ticks")
		}
		w.calls = append(w.calls, c)
	}
}

// mischief is what people and clouds do.
func (w *world) mischief() {
	if w.chance("scale", 20) {
		l := rapid.SampledFrom(w.workloads).Draw(w.t, "workload")
		l.want = rapid.IntRange(0, 7).Draw(w.t, "replicas")
		w.say("%s is scaled to %d", l.name, l.want)
	}
	if w.chance("a pod is deleted", 10) && len(w.pods) > 0 {
		p := w.pods[rapid.SampledFrom(sortedKeys(w.pods)).Draw(w.t, "pod")]
		w.say("pod %s is deleted", p.Name)
		w.deletePod(p, time.Second)
	}
	if w.chance("a claim is deleted", 3) && len(w.claims) > 0 {
		c := w.claims[rapid.SampledFrom(sortedKeys(w.claims)).Draw(w.t, "claim")]
		w.say("claim %s is deleted", c.Name)
		w.deleteClaim(c)
	}
	if w.chance("a node is deleted", 3) && len(w.nodes) > 0 {
		n := w.nodes[rapid.SampledFrom(sortedKeys(w.nodes)).Draw(w.t, "node")]
		w.say("node %s is deleted", n.Name)
		w.deleteNode(n)
	}
	if w.chance("a node is taken away by force", 2) && len(w.nodes) > 0 {
		n := rapid.SampledFrom(sortedKeys(w.nodes)).Draw(w.t, "node")
		w.say("node %s is taken away by force", n)
		w.dropNode(n)
	}
	if w.chance("a machine is interrupted", 3) && len(w.claims) > 0 {
		c := *w.claims[rapid.SampledFrom(sortedKeys(w.claims)).Draw(w.t, "claim")]
		if m := w.machines[c.UID]; m != nil && !m.gone && c.ProviderID != "" && m.doomed.IsZero() {
			n := Notice{Kind: rapid.SampledFrom([]string{"SpotInterruption", "ScheduledChange", StateChange}).Draw(w.t, "kind"), Seen: w.now}
			m.doomed = w.now.Add(2 * time.Minute)
			if rapid.Bool().Draw(w.t, "time said") {
				n.At = m.doomed
			}
			text, err := n.Text()
			if err != nil {
				w.fatalf("%v", err)
			}
			c.Annotations = edited(c.Annotations, map[string]string{AnnotationInterrupted: text})
			w.say("machine %s of claim %s is interrupted: %s", m.id, c.Name, n.Kind)
			w.setClaim(&c)
		}
	}
	if w.sickly && w.chance("a kubelet dies", 2) && len(w.machines) > 0 {
		m := w.machines[rapid.SampledFrom(sortedKeys(w.machines)).Draw(w.t, "machine")]
		if n := w.nodes[m.node]; n != nil && n.Ready && !m.gone {
			m.ready = -1
			w.setReady(n, false)
		}
	}
	if w.chance("a machine dies", 3) && len(w.machines) > 0 {
		m := w.machines[rapid.SampledFrom(sortedKeys(w.machines)).Draw(w.t, "machine")]
		w.say("machine %s dies", m.id)
		m.gone = true
	}
	if w.chance("crash", 4) {
		w.crash()
	}
}

// tick is one round of everybody.
func (w *world) tick() {
	w.mischief()
	w.adversary.act(w)
	w.controllers()
	w.kubelets()
	if !w.chance("scheduler is slow", 30) {
		w.scheduler()
	}
	for n, until := range w.aside {
		if !w.now.Before(until) {
			delete(w.aside, n)
			w.offer()
		}
	}
	w.budgets()
	w.deliver()
	w.list()
	w.answer()
	w.deliver()
	w.control()
	w.check()
}

// check is what holds at every moment.
func (w *world) check() {
	charged := model.Resources{}
	for _, c := range w.claims {
		most := c.Capacity
		if most.IsZero() {
			for _, t := range w.types {
				if q := c.Requirements.Get(model.LabelInstanceType); q.Matches(t.Name, true) {
					most = most.Max(t.Capacity)
				}
			}
		}
		charged = charged.Add(most)
	}
	if len(w.pool.HasLimit) > 0 && charged.At(model.CPU) > w.pool.Limits.At(model.CPU) {
		w.fatalf("the pool's limit of %d is exceeded: %d", w.pool.Limits.At(model.CPU), charged.At(model.CPU))
	}
	w.checkLimit(charged)
	for uid, n := range w.launches {
		if n > 1 {
			w.fatalf("%d machines were bought for claim %s", n, uid)
		}
	}
}

// checkLimit checks that the limit over the cluster holds, of claims charged with this capacity: nodes, CPU and dollars.
func (w *world) checkLimit(charged model.Resources) {
	l := w.limit
	if l == nil {
		return
	}
	if n := int64(len(w.claims)); n > l.Nodes {
		w.fatalf("the limit of %d nodes is exceeded: %d", l.Nodes, n)
	}
	if v := charged.At(model.CPU); v > l.Most.At(model.CPU) {
		w.fatalf("the limit of %d milli-CPU is exceeded: %d", l.Most.At(model.CPU), v)
	}
	micro := int64(0)
	for _, c := range w.claims {
		dearest := int64(0)
		for _, t := range w.types {
			if q := c.Requirements.Get(model.LabelInstanceType); c.Labels[model.LabelInstanceType] == t.Name || c.Labels[model.LabelInstanceType] == "" && q.Matches(t.Name, true) {
				for _, o := range t.Offerings {
					if q := c.Requirements.Get(model.LabelZone); q == nil || q.Matches(o.Zone, true) {
						dearest = max(dearest, o.PriceMicro)
					}
				}
			}
		}
		micro += dearest
	}
	if w.mostMicro = max(w.mostMicro, micro); micro > l.MicroPerHour {
		w.fatalf("the limit of %d micro-dollars an hour is exceeded: %d", l.MicroPerHour, micro)
	}
}

// quiet reports whether nothing happens any more but by the clock.
func (w *world) quiet() bool {
	return len(w.calls) == 0 && !w.acted && !slices.ContainsFunc(w.watch[:], func(events []func(*state.State)) bool { return len(events) > 0 })
}

// settle lets the world run without faults until nothing is left to happen, and says whether that came to an end.
func (w *world) settle(rounds int) bool {
	w.wild = false
	calm := 0
	for range rounds {
		w.tick()
		if !w.quiet() {
			calm = 0
			w.now = w.now.Add(100 * time.Millisecond)
			continue
		}
		if calm++; calm > 3 && w.still() {
			return true
		}
		step := time.Second
		if calm > 3 && !w.next.IsZero() { // nobody is at work: on to the next moment that anybody waits for
			step = max(step, min(w.next.Sub(w.now), 20*time.Second))
		}
		w.now = w.now.Add(step)
	}
	return false
}

// still reports whether the only thing to wait for is distant.
func (w *world) still() bool {
	if len(w.aside) > 0 {
		return false
	}
	for _, p := range w.pods {
		if p.Node == "" && !w.mayPend(p) || !p.Deleting.IsZero() {
			return false
		}
	}
	for _, c := range w.claims {
		if !c.Deleting.IsZero() || !c.Is(lifecycle.Initialized) && w.now.Before(c.Created.Add(w.pol.Lifecycle.RegistrationTimeout+time.Minute)) {
			return false
		}
	}
	for _, n := range w.nodes {
		if !n.Deleting.IsZero() {
			return false
		}
	}
	for _, m := range w.machines {
		if m.gone && w.nodes[m.node] != nil || !m.gone && !m.doomed.IsZero() || !m.gone && w.claimOf(m) == nil {
			return false
		}
	}
	return w.next.IsZero() || w.next.Sub(w.now) > time.Minute
}

// mayPend reports whether nobody need find a node for a pod.
func (w *world) mayPend(p *model.Pod) bool {
	return model.CutoffOf([]*model.NodePool{w.pool}).IsExpendable(p)
}

func (w *world) claimOf(m *machine) *model.Claim {
	for _, c := range w.claims {
		if c.UID == m.claimUID {
			return c
		}
	}
	return nil
}

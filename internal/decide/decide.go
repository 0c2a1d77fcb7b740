// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package decide is one step of the whole: from a Snapshot, a Memory, an instant and a Policy to a Plan and the next Memory.
//
// It composes lifecycle (each claim's next step), demand (which pods need a machine, which have one coming) and solve (what to
// buy for the rest). It is a pure function: no clock, no I/O, no goroutine, no order of a map in an output. Equal inputs give
// equal plans.
//
// Invariants: a pod with a slot on a machine that is coming is never bought for again; a limit is never exceeded, claims whose
// creation is under way included; a claim's name says what it is for, so that making it twice makes it once.
//
// Start reading at Step.
package decide

import (
	"slices"
	"sort"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Policy are the knobs of a step.
type Policy struct {
	Lifecycle          lifecycle.Policy
	Solve              solve.Policy
	Disrupt            disrupt.Policy
	SearchInterval     time.Duration // machines are looked at for consolidation at most this often
	FullSearchInterval time.Duration // where little has changed, all of them together are looked at after this long
	QuietWait          time.Duration // machines that will be at rest this soon are waited for, and not longer than this in all
	InTransitWait      time.Duration // pods on their way to standing room are waited for this long before more are sent
	CommandTimeout     time.Duration // a move whose replacements are not ready by then is taken back
	TaintSettleDelay   time.Duration // a node tainted for a move is looked at again after this long: what was just being bound shows by then
	BackOff            time.Duration // a machine whose move failed is not moved again for this long
	Landing            Landing       // contract 9
	// LandingSchedulers are the schedulers, by spec.schedulerName, whose pods we may bind.
	LandingSchedulers   []string
	NodeClasses         []string      // node classes that the provider serves, group/kind; claims of others are left alone. Empty: all
	OrphanGrace         time.Duration // a machine without a claim is left alone this long after its launch
	PoolStatusInterval  time.Duration // a pool's status is written at most this often
	LandingGrace        time.Duration // how long kube-scheduler has for pods of an unreserved machine once it is usable
	DisagreementAfter   time.Duration // a pod that was to fit a standing node and is still pending after this long is bought for
	DisagreementRetry   time.Duration // and what kube-scheduler would not use for it is tried again after this long
	SchedulerWait       time.Duration // how long kube-scheduler is waited for to look at a new pod; then whether it fits is found here
	AnticipateFor       time.Duration // pods that a ReplicaSet is to have are bought for this long after it has made the last; 0: not before they are there
	SmallNodeDelay      time.Duration // how long a pod may wait for others to share a machine with, while more of them come
	EmptySlotGrace      time.Duration // a slot on a usable node for which no pod is left is kept this long for a successor
	EvictionConcurrency int           // pods on their way at a time: asked to go, and not yet bound again
	EvictionRetries     int           // of those that were asked before and did not go, how many are asked again in one step

	InterruptionNotice    time.Duration  // a machine of which its cloud has not said when it takes it away is gone this long after it said so
	InterruptionBatchIdle time.Duration  // machines interrupted this soon after each other are replaced together
	Repair                []RepairPolicy // which nodes are broken; the provider's
	RepairGrace           time.Duration  // a broken node is replaced first and within budgets for this long; then it is ended by force
}

// DefaultPolicy is what the controller runs with.
func DefaultPolicy() Policy {
	l := lifecycle.DefaultPolicy()
	l.ExpireGrace = 10 * time.Minute
	return Policy{
		Lifecycle: l, Solve: solve.DefaultPolicy(), Landing: LandBind, LandingSchedulers: []string{defaultScheduler},
		Disrupt: disrupt.DefaultPolicy(), SearchInterval: time.Second, FullSearchInterval: 5 * time.Minute, QuietWait: 30 * time.Second, InTransitWait: time.Minute, CommandTimeout: 10 * time.Minute, TaintSettleDelay: 500 * time.Millisecond, BackOff: 5 * time.Minute,
		InterruptionNotice: 2 * time.Minute, InterruptionBatchIdle: 100 * time.Millisecond, RepairGrace: 10 * time.Minute,
		OrphanGrace: 30 * time.Second, PoolStatusInterval: time.Second, LandingGrace: 5 * time.Second, DisagreementAfter: 20 * time.Second, DisagreementRetry: 10 * time.Minute, EmptySlotGrace: 3 * time.Second, SchedulerWait: 250 * time.Millisecond, SmallNodeDelay: 2 * time.Second, AnticipateFor: model.ExpectFor, EvictionConcurrency: 50, EvictionRetries: 500,
	}
}

// Memory is what makes the next step cheap or calm. The zero value is valid.
type Memory struct {
	solve               solve.Memory
	placements          map[string]placement                // by pod uid: the standing node it is expected on
	largestNode         largestNode                         // what the stream of pods has bought
	delayedSince        map[string]time.Time                // by pod uid: since when it waits for company
	anticipated         map[string]anticipatedPods          // by uid of the ReplicaSet: its pods as they will be
	poolStatusAt        map[string]time.Time                // by pool uid: when its status was last written
	reservedClaims      map[string]bool                     // by claim: pods were to come to it at the last step
	emptySlotsSince     map[string]time.Time                // by claim: since when it has slots without pods
	disagreements       map[string]disagreement             // by pod uid: nodes that kube-scheduler would not use for it, or verify
	registrations       map[string]registrations            // by pool uid
	nodelessSince       map[string]time.Time                // by claim uid: since when it is registered and has no node
	interruptionsSolved map[string]bool                     // by claim uid: interrupted, and its pods have been decided on
	landedAt            map[string]time.Time                // by claim: when a pod of its reservation was last seen running elsewhere
	shortfalls          map[poolType]shortfall              // machines that came with less than was promised
	claimSizes          map[string]model.Resources          // by claim whose machine has not come: the most that it may have
	lostSlots           []lostSlots                         // of machines that did so, before it is known to which pods
	podShortfalls       map[string]podShortfall             // by pod uid
	learnedChanges      int                                 // changes of short and mishaps
	reducedPools        map[*model.NodePool]*model.NodePool // pools some of whose types count for less because of that, by what they were

	consolidation  disrupt.Memory
	quietWaitSince time.Time // since when machines that will be at rest soon are waited for
	quietWaitFresh bool      // and some of them are at rest
	searchedAt     time.Time // when machines were last looked at for consolidation
	searchedAllAt  time.Time // and when all of them, and sets
	startTimes     disrupt.StartTimes
	bootTime       time.Duration // that machines take to come; 0: none has been seen to
	measuredAt     time.Time     // when they were

	replicas    map[workloadName]*replicaHistory // how many pods workloads had
	replicasDue time.Time                        // when they are counted next

	backOffs     map[string]backOff          // by claim uid: not to be moved for now
	unwritten    map[string]unwrittenCommand // by claim uid: the move it goes in, where no object says so yet
	hosts        map[string]podsByHost       // by move: standing nodes that are to take its pods, until their reservation is written
	lostCommands map[string]bool             // moves that only replacements on their way out speak of
	taintedAt    map[string]time.Time        // by move: when all its nodes were first seen tainted
	evictions    map[string]eviction         // by pod uid: the pods asked to go that have not gone, or just now

	unchanged *unchangedNodes // of what has not changed
}

type placement struct {
	node  string
	since time.Time
}

type disagreement struct {
	nodes []string
	since time.Time   // of the first
	why   plan.Reason // what verify had against the last one; an empty code: it was kube-scheduler
}

// Request says what kind of step is wanted.
type Request struct {
	Solve       bool // look at demand too, not only at claims
	OngoingOnly bool // don't, though a pod has lost the machine that was coming for it
	BatchOpen   bool // pods still stream in, and demand is looked at again within a second

	// Refused are the claims, by uid, of moves that verify refused when this step was decided before: they are left alone for a while,
	// longer each time, and no other move is begun in this step.
	Refused []string

	// NotBound are bindings that verify refused when this step was decided before: their pods are decided on again.
	NotBound []RefusedBinding

	NoteBlockers bool // say what blocks disruption too

	// Halt takes back the moves that have not begun to delete, and begins none, for this reason; empty: they go on.
	PassiveReason string
}

// Output is a Plan and what it was solved from, for verify.
type Output struct {
	plan.Plan
	Problem  *solve.Problem // nil where nothing was solved
	Result   *solve.Result
	Commands []StartedCommand // begun in this step
	Waiting  int              // pods that are left to the next look at demand, which must come within a second
	Notes    []plan.Note      // to tell people
	Kept     []Kept           // machines that were looked at and left alone
}

// Step decides.
func Step(s *model.Snapshot, mem Memory, now time.Time, pol Policy, req Request) (Output, Memory) {
	return decided(s, mem, now, pol, req, false)
}

// decided is Step; less: a machine was found to have come with less than was promised, and what it was bought for has no room now.
func decided(s *model.Snapshot, mem Memory, now time.Time, pol Policy, req Request, less bool) (Output, Memory) {
	st := newStep(s, mem, now, pol)
	st.closeRefusedBindings(req.NotBound)
	st.readInterruptions()
	st.readCommands()
	st.readNodeHealth()
	st.advanceClaims()
	if st.shortfallFound { // with what is known now of its type, all of it is another decision
		mem.shortfalls, mem.lostSlots, mem.learnedChanges = st.mem.shortfalls, st.mem.lostSlots, st.mem.learnedChanges
		return decided(s, mem, now, pol, req, true)
	}
	st.shortfallFound, st.batchOpen = less, req.BatchOpen
	st.admitPods()
	st.terminateOrphans()
	st.adoptGroupMembers()
	bereft, alarmed := st.findLostReservations(), st.interruptedPodsDue()
	st.solveDemand(!req.OngoingOnly && (req.Solve || bereft || alarmed || len(req.NotBound) > 0))
	for _, uid := range req.Refused {
		st.backOffClaim(uid, pol.BackOff)
	}
	st.passiveReason = req.PassiveReason
	st.disruptNodes(!req.OngoingOnly && len(req.Refused) == 0)
	if req.NoteBlockers {
		st.noteBlockers()
	}
	st.writePoolStatus()
	st.paceEvictions()
	st.rewriteUnsureSlots()
	st.dropInFlight()
	st.rememberClaimSizes()
	st.saveUnchanged()
	st.out.Pods = slices.DeleteFunc(st.out.Pods, func(d plan.PodDecision) bool { return d.Pod.Expected }) // there is nobody to tell
	return st.out, st.mem
}

type step struct {
	s   *model.Snapshot
	mem Memory
	now time.Time
	pol Policy
	out Output

	poolByName     map[string]*model.NodePool
	unchanged      *unchangedNodes // what is still, for this step and the next
	ownsUnchanged  bool            // and it is this step's own by now
	claims         *claimIndex
	instances      *instanceIndex
	dirtyClaims    []*model.Claim         // all claims but those of machines that are still
	dirtyPosition  map[*model.Claim]int32 // where these stand in the Snapshot
	dirtyNodes     []int32                // nodes that are neither still nor strangers
	idleClaims     []idleClaim
	baseCandidates map[*model.Claim]*disrupt.Candidate // units of machines astir as they are remembered

	decided             map[string]bool // keys of the actions decided on so far
	shortfallFound      bool            // a machine has come with less than was promised
	batchOpen           bool            // Request.More
	passiveReason       string          // see Request
	schedulerRefusedAll bool            // kube-scheduler is taken to have refused every pod that is its own: see WhatIf

	reservations     map[string]*reservation // by claim name
	covered          map[string]bool         // by pod uid: it has a slot
	unschedulable    map[*model.Class]bool   // kube-scheduler has refused a pod of it that is still pending
	awaitsPods       map[string]bool         // nodes and claims that pending pods are expected on
	anticipated      []*model.Pod            // made when asked for
	anticipatedKnown bool
	demandClasses    map[classOwner]bool
	classHashes      map[*model.Class]string // ClassHash
	slotKeyPod       *model.Pod              // of which key is the slot
	slotKey          slotKey

	interrupted     map[string]*interrupted  // by claim name: machines that their cloud takes away
	unhealthyNodes  map[string]unhealthyNode // by claim name
	healthByPool    map[string]*[2]int       // by pool: its nodes, and those that are ill
	commands        map[string]*command      // moves under way, by id
	commandOfClaim  map[string]string        // by claim that goes in one: its id
	candidates      []*disrupt.Candidate     // by node name
	dirtyCandidates []*disrupt.Candidate     // those of machines astir
	budgetCounts    map[string]disrupt.NodeCount
	guard           *disrupt.Eligibility
	taintedAt       map[string]time.Time // the next Memory.tainted
	namedClaims     map[string]bool      // claims named in this step

	deployments  map[string]*model.Deployment // by key; made when asked for
	successors   map[string]bool              // Deployments with a pod of their last restart; made when asked for
	leavers      []*model.Pod                 // made when asked for
	leaversKnown bool
}

func newStep(s *model.Snapshot, mem Memory, now time.Time, pol Policy) *step {
	st := &step{s: s, mem: mem, now: now, pol: pol, namedClaims: map[string]bool{}, decided: map[string]bool{}}
	st.applyShortfalls()
	st.loadUnchanged()
	st.followSlowEvictions()
	return st
}

func (st *step) addAction(a plan.Action) {
	st.out.Actions = append(st.out.Actions, a)
	st.decided[a.Key()] = true
}

func (st *step) addNote(n plan.Note) { st.out.Notes = append(st.out.Notes, n) }

func (st *step) wakeAt(t time.Time) {
	if t.IsZero() {
		return
	}
	if st.out.Next.IsZero() || t.Before(st.out.Next) {
		st.out.Next = t
	}
}

// advanceClaims asks lifecycle for every claim's next step.
func (st *step) advanceClaims() {
	st.readReservations()
	nodeless, landing := map[string]time.Time{}, map[string]time.Time{}
	for _, c := range st.dirtyClaims {
		if st.isForeign(c) {
			continue
		}
		at := st.positionOf(c)
		in := lifecycle.Input{
			Claim: c, Pool: st.poolByName[c.Pool], Instances: st.instancesAt(at), InstancesAt: st.s.InstancesAt,
			Awaited: st.reservations[c.Name].awaitedPods(), Now: st.now, Policy: st.pol.Lifecycle,
		}
		if c.ProviderID != "" {
			in.Nodes = st.nodesAt(at)
		}
		if len(in.Nodes) == 0 && c.Is(lifecycle.Registered) {
			since, ok := st.mem.nodelessSince[c.UID]
			if !ok {
				since = st.now
			}
			nodeless[c.UID], in.NodelessSince = since, since
		}
		if in.Pool != nil && len(in.Nodes) == 1 && (!c.Is(lifecycle.Consistent) || !in.Nodes[0].Capacity.Equal(c.Capacity)) {
			in.Type = disrupt.FindInstanceType(in.Pool, c.Labels[model.LabelInstanceType])
		}
		if f, ok := st.s.Failures[c.UID]; ok {
			in.Failure = &f
		}
		if h := st.reservations[c.Name]; h != nil && c.Reserved {
			in.Coming, in.Landed = st.landingStatus(h)
			if !in.Landed.IsZero() {
				landing[c.Name] = in.Landed
			}
		}
		if st.isForRevocableCommand(c) { // its move, which has not asked anybody to go yet, sees to it
			in.Awaited, in.Coming = max(in.Awaited, 1), true
		}
		if !c.Deleting.IsZero() {
			in.Rolls = st.rolloutsOfClaim(c, in.Nodes)
		}
		out := lifecycle.Next(in)
		for _, a := range out.Actions {
			st.addAction(a)
		}
		if c.Pool != "" && !c.Is(lifecycle.Registered) {
			st.recordRegistration(c, out.Actions)
		}
		if len(out.Actions) == 0 {
			st.idleClaims = append(st.idleClaims, idleClaim{at, out.Next})
		}
		st.wakeAt(out.Next)
	}
	st.mem.nodelessSince, st.mem.landedAt = nodeless, landing
}

// isForeign says whether a claim is another provider's: of its machine nothing is known here, not even that there is none, so it is left to
// whoever serves its class.
func (st *step) isForeign(c *model.Claim) bool {
	return len(st.pol.NodeClasses) > 0 && c.ClassKind != "" && !slices.Contains(st.pol.NodeClasses, c.ClassGroup+"/"+c.ClassKind)
}

// terminateOrphans ends machines whose claim is gone, and lets go of their nodes.
func (st *step) terminateOrphans() {
	for _, i := range st.instances.orphans {
		if due := i.Launched.Add(st.pol.OrphanGrace); st.now.Before(due) {
			st.wakeAt(due)
			continue
		}
		st.addAction(plan.Terminate{ProviderID: i.ProviderID, Of: i.ClaimName, OfUID: i.ClaimUID, Why: plan.Reason{Code: plan.Orphan, Subject: i.ClaimName}})
	}
	st.releaseOrphanNodes()
}

// releaseOrphanNodes lets go of nodes that are being deleted and wait for our finalizer, when neither a claim nor a machine is left that could
// see to it: somebody took the claim's finalizer off by hand.
func (st *step) releaseOrphanNodes() {
	var alive map[string]bool
	for _, p := range st.dirtyNodes {
		n := st.s.Nodes[p]
		if n.Deleting.IsZero() || !n.HasFinalizer || n.ProviderID == "" || n.Claim != "" {
			continue
		}
		if alive == nil {
			alive = make(map[string]bool, len(st.s.Instances))
			for _, i := range st.s.Instances {
				alive[i.ProviderID] = !i.Gone
			}
		}
		if alive[n.ProviderID] {
			continue
		}
		if due := n.Deleting.Add(st.pol.OrphanGrace); !st.s.InstancesAt.After(due) {
			continue // the next list tells
		}
		st.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Orphan, Subject: n.ProviderID}})
	}
}

// writePoolStatus writes what has changed in the pools' status.
func (st *step) writePoolStatus() {
	at := map[string]time.Time{}
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for name, x := range st.unchanged.sums {
		used[name], count[name] = x.capacity.Clone(), x.count
	}
	for _, c := range st.dirtyClaims {
		if c.Pool == "" || c.Provisional || c.ProviderID == "" {
			continue
		}
		used[c.Pool] = used[c.Pool].AddInto(c.Capacity, 1)
		count[c.Pool]++
	}
	for _, p := range st.s.Pools {
		last := st.mem.poolStatusAt[p.UID]
		due := last.Add(st.pol.PoolStatusInterval)
		a := plan.UpdatePool{Pool: p.Name, UID: p.UID, Conditions: poolConditions(p), Resources: trimZeros(used[p.Name]), Nodes: count[p.Name], Hash: p.Hash, ClassGeneration: p.ClassGeneration}
		if r := st.registrationCondition(p); r.Status != "" {
			a.Conditions[registrationHealthy] = r
		}
		if !poolStatusDiffers(p, a) {
			at[p.UID] = last
			continue
		}
		if st.now.Before(due) {
			at[p.UID] = last
			st.wakeAt(due)
			continue
		}
		at[p.UID] = st.now
		st.addAction(a)
	}
	st.mem.poolStatusAt = at
}

func poolConditions(p *model.NodePool) map[string]model.Condition {
	out := map[string]model.Condition{
		"ValidationSucceeded": {Status: "True", Reason: "ValidationSucceeded"},
		"NodeClassReady":      {Status: "True", Reason: "NodeClassReady"},
	}
	if p.Ready {
		return out
	}
	name, reason := "NodeClassReady", p.NotReady.Reason
	if reason == "NodePoolValidationFailed" {
		name = "ValidationSucceeded"
	}
	out[name] = model.Condition{Status: "False", Reason: reason, Message: p.NotReady.Message}
	return out
}

func poolStatusDiffers(p *model.NodePool, a plan.UpdatePool) bool {
	if p.StatusNodes != a.Nodes || !p.StatusResources.Equal(a.Resources) || p.StatusHash != a.Hash ||
		a.ClassGeneration != 0 && p.StatusClassGeneration != a.ClassGeneration {
		return true
	}
	for k, want := range a.Conditions {
		have := p.Conditions[k]
		if have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message {
			return true
		}
	}
	return false
}

// dropInFlight leaves out what is in flight already, and has the loop look again when a failed action may be repeated.
func (st *step) dropInFlight() {
	kept := st.out.Actions[:0]
	said := make(map[string]bool, len(st.out.Actions))
	for _, a := range st.out.Actions {
		if said[a.Key()] {
			continue // two writes to one thing would race: the second is for the next step, which sees the first
		}
		said[a.Key()] = true
		if until, flying := st.s.InFlight[a.Key()]; flying {
			st.wakeAt(until)
			continue
		}
		kept = append(kept, a)
	}
	st.out.Actions = kept
}

func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

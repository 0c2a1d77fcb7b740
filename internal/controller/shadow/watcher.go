// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shadow

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// command is a disruption command decided on in shadow mode that the other has not begun.
type command struct {
	at         time.Time
	begun      time.Time     // when the other was seen to have begun it; zero: it has not
	candidates []string      // uids of NodeClaims
	actions    []plan.Action // that are taken to be under way
}

// seenSnapshot is what the cluster looked like at an instant.
type seenSnapshot struct {
	at   time.Time
	snap *model.Snapshot
}

// candidateUIDs returns the uids of the NodeClaims that a command removes.
func candidateUIDs(m *decide.StartedCommand) []string {
	out := make([]string, 0, len(m.Candidates))
	for _, u := range m.Candidates {
		out = append(out, u.Claim.UID)
	}
	return out
}

// Watcher follows the decisions of shadow mode until the cluster shows the actual outcome, and sums up the differences. Only the
// loop uses it. Its size is bounded by the cluster and by the constants above.
type Watcher struct {
	state  *state.State
	loop   Loop
	others []string
	since  time.Time // when the cluster was first seen; zero: not yet
	at     time.Time // up to when dollars are summed up

	claims      map[string]*claim      // by uid: all NodeClaims that there are
	byNode      map[string]*claim      // the same, by name of the node
	launches    map[string]*launch     // open, by the name of Dovetail's NodeClaim
	disruptions map[string]*disruption // by uid of the NodeClaim: decided, as long as that is there
	bindings    map[string]*binding    // open, by pod uid

	commands  map[plan.CommandID]*command  // that the other has not begun, by id
	dropped   []plan.CommandID             // ids of those that are forgotten, and decide does not know yet
	begun     map[plan.CommandID]time.Time // the other's commands, by id: when they were last heard of
	lastBegun time.Time                    // when the last of them was first seen
	recent    []seenSnapshot               // of the last milliseconds, the latest last
	slots     map[string]time.Time         // by NodeClaim: when slots were decided on that it is shown with since
	going     map[string]plan.CommandID    // the ids of those that delete NodeClaims, by uid of these; empty: it is not known

	differences []*difference // as long as the nodes run that differ

	out    report.Shadow
	delays []float64 // seconds, of the latest pods that would have run sooner; a ring
	delay  int       // where the next goes
}

func New(s *state.State, loop Loop, now time.Time) *Watcher {
	return &Watcher{
		state: s, loop: loop, claims: map[string]*claim{}, byNode: map[string]*claim{}, launches: map[string]*launch{},
		disruptions: map[string]*disruption{}, bindings: map[string]*binding{}, out: report.Shadow{From: now},
		commands: map[plan.CommandID]*command{}, begun: map[plan.CommandID]time.Time{}, going: map[string]plan.CommandID{}, slots: map[string]time.Time{},
	}
}

// launch is a node that Dovetail would have launched.
type launch struct {
	at    time.Time
	name  string
	kind  nodeKind
	text  string
	micro int64
	pods  []waitingPod // without a node so far
	alone bool         // it was not decided on for pending pods
	of    []string     // uids of the NodeClaims that it replaces; none: it replaces none
	all   []string     // keys of the pods, for people
	on    []*claim     // that its pods came to
	done  bool         // each pod has a node, or is gone, or was waited for long enough
}

// nodeKind is what is compared of two nodes: neither zone nor price.
type nodeKind struct{ pool, instanceType, capacityType string }

// waitingPod is a pod that waits for a node.
type waitingPod struct{ key, uid string }

// difference is the price of Dovetail's nodes less that of the nodes launched for the same pods.
type difference struct {
	micro int64
	on    []*claim
}

const (
	// holdFor is how long what was decided in shadow mode is taken to be under way, so that the same is not decided
	// again, unless the cluster shows before what became of it.
	holdFor = 5 * time.Minute
	// pauseFor is the same for a pod that would be bound, and for what else is not compared.
	pauseFor = 30 * time.Second
	// stepFor is the same for a step in the life of a NodeClaim or its node, which whoever launched it takes care of, and
	// for a command that the other has begun: it shows by then.
	stepFor = time.Second
	// burst is how far apart two autoscalers see the same at most: what is due within it is due, and what the other
	// writes within it is taken to be of one decision.
	burst = 30 * time.Millisecond
	// tryFor is how long is spent at most on finding the instant at which the other decided, plus one decision.
	tryFor = 500 * time.Millisecond
	// lookAgain is how long after a change the cluster is looked at again, since pods may land without one that is
	// decided on.
	lookAgain = time.Second
)

// Loop is the part of the deciding loop that shadow mode uses. All methods are called in the loop's goroutine.
type Loop interface {
	// IsWatching reports whether the cluster has been read, and this process leads.
	IsWatching() bool
	// Decide makes and verifies a decision, and updates the loop's memory. The returned time is when to decide again without
	// changes; zero: not needed.
	Decide(now time.Time, snap *model.Snapshot, req decide.Request) (decide.Output, time.Time)
	// Try makes a decision from the loop's memory without updating it.
	Try(now time.Time, snap *model.Snapshot, req decide.Request) decide.Output
	// CloseBatches ends all batch windows, and reports whether there were pods to decide on.
	CloseBatches(now time.Time) bool
	// CheckDrift asks the provider at intervals for drifted machines, and returns when it does so next.
	CheckDrift(now time.Time, snap *model.Snapshot) time.Time
	// Rest delays the next step in proportion to the duration of the step that started at began.
	Rest(began time.Time)
}

// claim is a NodeClaim of whoever acts.
type claim struct {
	name, node, pool string
	uid              string
	first            time.Time // when it was first seen
	before           bool      // it was there when watching began
	micro            int64     // price an hour; 0: not known yet
	kind             nodeKind  // what it is; zero: not known yet
	text             string    // the same, for people
	initialized      time.Time // when that was first seen
	deleting         bool
	explained        bool // it is the answer to a decision of Dovetail, or was told as a disagreement
	charged          bool // its price stands beside that of a decision of Dovetail
	interrupted      bool
	sooner           bool // it came while there were pods that Dovetail may not have decided on yet
}

// disruption is a NodeClaim that Dovetail would have disrupted.
type disruption struct {
	at       time.Time
	command  plan.CommandID // its id; empty: of none
	claim    string
	node     string
	text     string
	micro    int64 // its share of the saving, an hour
	resolved bool
}

// binding is a pod that Dovetail would have bound.
type binding struct {
	at   time.Time
	pod  waitingPod
	node string
}

// tooMany reports whether another decision is not followed, and counts that.
func (s *Watcher) tooMany() bool {
	if len(s.launches)+len(s.disruptions)+len(s.bindings) < mostOpen {
		return false
	}
	s.out.Decisions.NoAnswer++
	return true
}

// agree counts decisions that are the same.
func (s *Watcher) agree(n int) {
	s.out.Decisions.Compared += n
	s.out.Decisions.Agreed += n
}

// disagree counts and keeps one decision that differs.
func (s *Watcher) disagree(at time.Time, kind, subject, ours, theirs string) {
	s.tellDisagreement(1, report.ShadowDisagreement{At: at, Kind: kind, Subject: subject, Dovetail: ours, Other: theirs})
}

// tellDisagreement counts decisions that differ, and keeps what they are together.
func (s *Watcher) tellDisagreement(n int, d report.ShadowDisagreement) {
	s.out.Decisions.Compared += n
	s.out.Disagreements = append(s.out.Disagreements, d)
	if n := len(s.out.Disagreements); n > mostDisagreements {
		s.out.Disagreements = slices.Clone(s.out.Disagreements[n-mostDisagreements:])
	}
}

// countDelay counts how much sooner a pod's node was decided on by Dovetail.
func (s *Watcher) countDelay(d time.Duration) {
	switch x := d.Seconds(); {
	case x > sameSeconds:
		s.out.Pods.Sooner++
		s.out.Pods.SecondsSaved += x
		if len(s.delays) < mostDelays {
			s.delays = append(s.delays, x)
		} else {
			s.delays[s.delay%mostDelays] = x
		}
		s.delay++
	case x < -sameSeconds:
		s.out.Pods.Later++
	default:
		s.out.Pods.Same++
	}
}

func dollars(micro int64) float64 { return float64(micro) / 1e6 }

// describeNode says what a node is, for people.
func describeNode(k nodeKind, zone string, micro int64) string {
	return fmt.Sprintf("%s (%s) of NodePool %s in %s, $%s an hour", k.instanceType, k.capacityType, k.pool, zone, model.Dollars(micro))
}

const (
	followFor         = 15 * time.Minute // a decision that the other has not taken by then, it does not take
	settleAfter       = 3 * time.Minute  // a node whose pods all came from elsewhere by then was launched by the other alone
	freshFor          = 3 * time.Second  // younger pods may not have been decided on yet
	mostDisagreements = 500              // that are kept
	mostDelays        = 10000            // of the latest pods, for the median
	mostOpen          = 10000            // decisions that are followed at once; more are counted and let go
	sameSeconds       = 0.1              // seconds: a smaller difference is none
)

// dropClaim no longer takes a NodeClaim to be on its way that was only decided.
func (s *Watcher) dropClaim(name string) {
	s.state.InFlight.EndAction(plan.CreateClaim{Name: name}.Key())
	s.state.Overlay.DropProvisionalClaim(name)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// callLanes bound how many calls are under way at once: a lane for each kind of call, and for each namespace (an admission
// webhook may take its time there) or node class where one that hangs must not hold up the others. A call is in a lane while its token is in the channel. Only the loop
// looks lanes up; calls wait in goroutines of their own.
type callLanes struct {
	byName     map[lane]chan struct{}
	launches   map[nodeClass]*callTurns
	background chan struct{} // the lane interruptedLane, also for notices: what can wait while machines are bought
	sweepAt    int           // when there are so many lanes, those are forgotten that nothing is in
}

func newCallLanes() *callLanes {
	background := make(chan struct{}, 4)
	return &callLanes{byName: map[lane]chan struct{}{interruptedLane: background}, launches: map[nodeClass]*callTurns{}, background: background}
}

// lane names what may wait for each other: calls of a kind, in one namespace or for one node class.
type lane struct {
	kind      plan.CallKind
	namespace string // empty: of no namespace, or of all together
	class     nodeClass
	notices   string // uid of the claim that notices are written into
}

// nodeClass is a node class, and the node group if a claim is of one.
type nodeClass struct{ group, kind, name, nodeGroup string }

// classOf returns the node class of a claim; nil: of none.
func classOf(c *model.Claim) nodeClass {
	if c == nil {
		return nodeClass{}
	}
	return nodeClass{c.ClassGroup, c.ClassKind, c.ClassName, c.Labels[model.LabelNodeGroup]}
}

// poolOf returns the NodePool of a claim; empty: it has none, or is not known.
func poolOf(c *model.Claim) string {
	if c == nil {
		return ""
	}
	return c.Pool
}

// findLane returns the lane of a name, which holds width calls at once where it is made by this.
func (l *callLanes) findLane(name lane, width int) chan struct{} {
	places := l.byName[name]
	if places == nil {
		if len(l.byName) >= max(l.sweepAt, fewLanes) { // most of them of namespaces and classes that are gone
			maps.DeleteFunc(l.byName, func(k lane, places chan struct{}) bool { return k != interruptedLane && len(places) == 0 })
			l.sweepAt = 2 * len(l.byName)
		}
		places = make(chan struct{}, width)
		l.byName[name] = places
	}
	return places
}

// findLaunchTurns returns the turns of launches for a node class or node group: namespaces take them in turn, and those
// for one class hold up no other's.
func (l *callLanes) findLaunchTurns(claim *model.Claim, width int) *callTurns {
	class := classOf(claim)
	turns := l.launches[class]
	if turns == nil {
		turns = newCallTurns(width, 0)
		l.launches[class] = turns
	}
	return turns
}

// interruptedLane is the lane of what is written into the claims and nodes of machines that are taken away: those to come in their stead go first.
var interruptedLane = lane{kind: plan.CallInterrupted}

// enterLane waits for a place in a lane; false: the context ended first.
func enterLane(ctx context.Context, places chan struct{}) (leave func(), ok bool) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	case <-ctx.Done():
		return nil, false
	}
}

// laneOfClaim is the lane in which a NodeClaim is created: that of the namespace of its first pod, so that a tenant that
// needs thousands of nodes at once keeps nobody else's claim waiting behind its own. Claims for no pod have one together.
func laneOfClaim(a plan.CreateClaim) lane {
	if len(a.Pods) == 0 {
		return lane{kind: plan.CallCreateClaim}
	}
	return lane{kind: plan.CallCreateClaim, namespace: a.Pods[0].Namespace}
}

// fewLanes are kept though nothing is in them.
const fewLanes = 1000

// callTurns has calls to the API server take turns by namespace, so that a tenant whose pods need thousands of them
// keeps nobody else's waiting: so many are under way at once that the server, which knows one client alone, need not
// queue them, and of those that wait the next is that of the namespace which had its turn longest ago. A namespace alone
// has all turns. Of its calls those come first that make NodeClaims: a pod waits for that one, and a node needs a dozen
// further calls while it boots.
//
// With a limit it is no gate: a call that takes longer has its turn counted as over, so that calls that hang keep nobody
// waiting for longer.
type callTurns struct {
	mu      sync.Mutex
	width   int
	limit   time.Duration            // how long a call keeps its turn at most; 0: for as long as it takes
	busy    int                      // turns that are not over
	waiting map[string][]waitingCall // by namespace, in order
	order   []string                 // namespaces with calls that wait, the next one first
}

// waitingCall is a call that waits for its turn, which is given by closing the channel.
type waitingCall struct {
	turn  chan struct{}
	first bool // before the others of its namespace
}

// slowCall is how long a call to the API server keeps its turn at most.
const slowCall = 250 * time.Millisecond

// callTurn is one that was given. done ends it; it may be called again.
type callTurn struct {
	done   func()
	waited bool // another's turn had to end first
}

func newCallTurns(width int, limit time.Duration) *callTurns {
	return &callTurns{width: width, limit: limit, waiting: map[string][]waitingCall{}}
}

// take waits for a turn of a namespace, which limits concurrent API calls. first puts the call before calls of the namespace
// without it. ok is false if the context ended.
func (t *callTurns) take(ctx context.Context, namespace string, first bool) (callTurn, bool) {
	t.mu.Lock()
	if t.busy < t.width {
		t.busy++
		t.mu.Unlock()
		return callTurn{done: t.begin()}, true
	}
	turn := make(chan struct{})
	if len(t.waiting[namespace]) == 0 {
		t.order = append(t.order, namespace)
	}
	at := len(t.waiting[namespace])
	if i := slices.IndexFunc(t.waiting[namespace], func(c waitingCall) bool { return !c.first }); first && i >= 0 {
		at = i
	}
	t.waiting[namespace] = slices.Insert(t.waiting[namespace], at, waitingCall{turn, first})
	t.mu.Unlock()
	select {
	case <-turn:
		return callTurn{done: t.begin(), waited: true}, true
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.IndexFunc(t.waiting[namespace], func(c waitingCall) bool { return c.turn == turn })
	if i >= 0 {
		t.setWaiting(namespace, slices.Delete(t.waiting[namespace], i, i+1))
	}
	t.mu.Unlock()
	if i < 0 { // it was given just now
		t.end()
	}
	return callTurn{}, false
}

// begin returns what ends a turn that was given, once.
func (t *callTurns) begin() (done func()) {
	var once sync.Once
	end := func() { once.Do(t.end) }
	if t.limit == 0 {
		return end
	}
	timer := time.AfterFunc(t.limit, end)
	return func() {
		timer.Stop()
		end()
	}
}

// end gives a turn that is over to the next call that waits.
func (t *callTurns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.busy--
		return
	}
	namespace := t.order[0]
	t.order = append(t.order[1:], namespace)
	close(t.waiting[namespace][0].turn)
	t.setWaiting(namespace, t.waiting[namespace][1:])
}

// setWaiting changes which calls of a namespace wait; where none do, nothing is kept of it.
func (t *callTurns) setWaiting(namespace string, calls []waitingCall) {
	if len(calls) > 0 {
		t.waiting[namespace] = calls
		return
	}
	delete(t.waiting, namespace)
	t.order = slices.DeleteFunc(t.order, func(x string) bool { return x == namespace })
}

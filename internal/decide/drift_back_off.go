// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// driftBackOff keeps nodes from being replaced for drift again and again, when something edits a NodePool or its node class back and
// forth. It doesn't ask what is edited: what counts is that nodes drift that were launched after the last drift began. The first
// time, nodes are replaced at once. From the second on, what a NodePool asks for must have been the same for a while before a node
// is replaced for drift: firstDriftRest, doubled each time. A count is forgotten when nothing has changed for driftCountKept after that.
// Counts outlive the process: see LearnedCapacity.
type driftBackOff struct {
	*draft
	mem *driftMemory
}

// driftMemory is what driftBackOff remembers from step to step.
type driftMemory struct {
	pools   map[string]driftCount // by pool uid
	changes int                   // of pools, counted: see LearnedChanges
}

// driftCount is how often in a row nodes of a NodePool drifted that were launched after the last drift began.
type driftCount struct {
	Times   int       `json:"times"`
	Begun   time.Time `json:"begun"`         // when the last drift began
	Was     string    `json:"was,omitempty"` // hash of the template that its first node was launched from
	Target  string    `json:"target"`        // what the NodePool asks for: see driftTarget
	Class   int64     `json:"class"`         // generation of its node class
	Changed time.Time `json:"changed"`       // since when it asks for that
}

// How long what a NodePool asks for must have been the same before nodes are replaced for drift, and how long a count is kept after that.
const (
	firstDriftRest   = time.Minute
	longestDriftRest = time.Hour
	driftCountKept   = time.Hour
)

// rest is how long what the NodePool asks for must have been the same.
func (x driftCount) rest() time.Duration {
	if x.Times < 2 {
		return 0
	}
	return model.Backoff(firstDriftRest, x.Times-2, longestDriftRest)
}

// driftTarget names what a pool asks its nodes to be, but for what its node class says.
func driftTarget(p *model.NodePool) string {
	return cluster.HashName(13, p.Hash, p.ClassKind, p.ClassName, p.Requirements.String())
}

// aims returns the count with what its pool asks for now.
func (x driftCount) aims(p *model.NodePool, now time.Time) driftCount {
	target, class := driftTarget(p), p.ClassGeneration
	if class == 0 {
		class = x.Class // it has not been read yet
	}
	if x.Target != target || x.Class != class {
		x.Target, x.Class, x.Changed = target, class, now
	}
	return x
}

// read notes which pools with a count ask for something else than before, and forgets counts of pools that have been left alone.
func (db *driftBackOff) read() {
	if len(db.mem.pools) == 0 {
		return
	}
	next := map[string]driftCount{}
	for _, p := range db.Snapshot.Pools {
		x, ok := db.mem.pools[p.UID]
		if !ok {
			continue
		}
		x = x.aims(p, db.Now)
		end := model.LaterOf(x.Begun, x.Changed).Add(x.rest() + driftCountKept)
		if !db.Now.Before(end) {
			continue
		}
		if x.Times >= 2 { // its condition ends then
			db.wakeAt(end)
		}
		next[p.UID] = x
	}
	if !maps.Equal(next, db.mem.pools) {
		db.mem.pools = next
		db.mem.changes++
	}
}

// count notes that a machine has drifted now.
func (db *driftBackOff) count(u *disrupt.Candidate) {
	x, ok := db.mem.pools[u.Pool.UID]
	hash := u.Claim.Annotations[hashAnnotation]
	if ok && (!u.Claim.Created.After(x.Begun) || hash != "" && hash == x.Was && hash != u.Pool.Hash) {
		return // it is part of the last drift: launched before, or from the template before
	}
	x = x.aims(u.Pool, db.Now)
	x.Times, x.Begun, x.Was = x.Times+1, db.Now, hash
	next := maps.Clone(db.mem.pools)
	if next == nil {
		next = map[string]driftCount{}
	}
	next[u.Pool.UID] = x
	db.mem.pools = next
	db.mem.changes++
}

// heldUntil is the earliest instant at which a drifted machine may be replaced; zero: it may be now.
func (db *driftBackOff) heldUntil(u *disrupt.Candidate) time.Time {
	x := db.mem.pools[u.Pool.UID]
	if x.Times < 2 {
		return time.Time{}
	}
	if until := model.LaterOf(x.Changed, u.Claim.Conditions[lifecycle.Drifted].Since).Add(x.rest()); db.Now.Before(until) {
		return until
	}
	return time.Time{}
}

// blocker returns why a drifted machine is not replaced yet, false if nothing is against it here.
func (db *driftBackOff) blocker(u *disrupt.Candidate) (plan.Reason, bool) {
	until := db.heldUntil(u)
	if until.IsZero() {
		return plan.Reason{}, false
	}
	x := db.mem.pools[u.Pool.UID]
	return plan.Reason{Code: plan.DriftBackOff, Pool: u.Pool.Name, Subject: plan.ObjectOf("nodepool", u.Pool.Name),
		Detail: plan.OfDriftBackOff{Times: x.Times, Rest: x.rest(), Changed: until.Add(-x.rest())}}, true
}

// ConditionDriftBackOff is the condition of a NodePool's status that says that its nodes are not replaced for drift at once.
const ConditionDriftBackOff = "DriftBackOff"

// condition is what a pool's status should say of its back-off; an empty one: nothing, what it says stays.
func (db *driftBackOff) condition(p *model.NodePool) model.Condition {
	x := db.mem.pools[p.UID]
	if x.Times < 2 {
		if p.Conditions[ConditionDriftBackOff].True() {
			return model.Condition{Status: "False", Reason: "Stable", Message: "its nodes have not drifted again"}
		}
		return model.Condition{}
	}
	return model.Condition{Status: "True", Reason: "ChangesTooOften", Message: "nodes drifted soon after they were launched (" + strconv.Itoa(x.Times) +
		" times): drifted nodes are replaced when the NodePool and its node class have been unchanged for " + x.rest().String()}
}

const (
	hashAnnotation        = model.AnnotationPoolHash
	hashVersionAnnotation = model.AnnotationPoolHashVersion
	hashVersion           = model.PoolHashVersion
)

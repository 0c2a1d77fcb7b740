// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// index is the snapshot and what is looked up in it. It is built before the first stage and read by all; only markClaimsDirty adds to the
// lists of what is dirty, when a disruption command names a claim that looks unchanged by itself.
type index struct {
	s   *model.Snapshot
	now time.Time
	pol Policy

	poolByName    map[string]*model.NodePool
	claims        *claimIndex
	instances     *instanceIndex
	dirtyClaims   []*model.Claim               // all claims but those of unchanged machines
	dirtyPosition map[*model.Claim]int32       // where these stand in the Snapshot
	dirtyNodes    []int32                      // nodes that are neither unchanged nor unowned, by position in the Snapshot
	deployments   map[string]*model.Deployment // by key; nil before it is asked for
}

// draft is the plan under construction: what the stages have decided so far, and when to look again.
type draft struct {
	*index
	out     Output
	decided map[string]bool // keys of the actions in out
}

// unchangedMachines passes over machines about which nothing has changed since the step before.
type unchangedMachines struct {
	*draft
	mem           *unchangedMemory
	candidates    *candidates
	commands      *disruptionCommands
	drift         *driftConditions
	health        *nodeHealth
	interruptions *interruptions
	nodes         *solverView
	reservations  *reservations

	unchanged     *unchangedNodes // for this step and the next
	ownsUnchanged bool            // it is this step's own by now, and may be written to
	idleClaims    []idleClaim
}

// podTable says of each pod which class it is in: see podClasses.
type podTable struct {
	*draft
	commands      *disruptionCommands
	demand        *demandStage
	interruptions *interruptions
	pacing        *evictionPacing
	reservations  *reservations
	rollouts      *rollouts

	covered             map[string]bool       // by uid: pods that have a slot
	unschedulable       map[*model.Class]bool // classes of which kube-scheduler has refused a pod that is still pending
	schedulerRefusedAll bool                  // kube-scheduler is taken to have refused every pod that is its own: see WhatIf
	anticipated         []*model.Pod          // valid where anticipatedKnown
	anticipatedKnown    bool
	demandClasses       map[classOwner]bool // nil before it is asked for
	leavers             []*model.Pod        // valid where leaversKnown
	leaversKnown        bool

	classHashes map[*model.Class]string // ClassHash
	slotKeyPod  *model.Pod              // the pod whose key slotKey is
	slotKey     slotKey
}

// reservations are the slots that claims hold for pods, and the pods that are let in.
type reservations struct {
	*draft
	mem           *reservationMemory
	commands      *disruptionCommands
	demand        *demandStage
	disagreements *schedulerDisagreements
	interruptions *interruptions
	pods          *podTable
	shortfalls    *capacityShortfalls

	byClaim map[string]*reservation // by claim name
}

// schedulerDisagreements are nodes that hold a pod by every check made here and that kube-scheduler, or verify, has not let it go to.
type schedulerDisagreements struct {
	*draft
	mem    *disagreementMemory
	demand *demandStage
}

// solverView is the cluster's nodes and claims in flight as the solver takes them.
type solverView struct {
	*draft
	commands      *disruptionCommands
	interruptions *interruptions
	memo          *unchangedMachines
	purchases     *purchases
	reservations  *reservations
}

// purchases is what may still be bought, and makes the claims for what is.
type purchases struct {
	*draft
	mem          *purchaseMemory
	memo         *unchangedMachines
	reservations *reservations

	namedClaims map[string]bool // names given to claims of static pools in this step
}

// capacityShortfalls are machines that came with less for pods than was promised.
type capacityShortfalls struct {
	*draft
	mem          *shortfallMemory
	pods         *podTable
	reservations *reservations

	found bool // one was found in this step: what was bought for its pods has no capacity now
}

// interruptions are the machines that their cloud takes away.
type interruptions struct {
	*draft
	mem          *interruptionMemory
	commands     *disruptionCommands
	demand       *demandStage
	reservations *reservations

	byClaim map[string]*interrupted // by claim name; nil: there are none
}

// nodeHealth is which nodes are unhealthy, and repairs them.
type nodeHealth struct {
	*draft
	memo *unchangedMachines

	byClaim      map[string]unhealthyNode // by claim name
	healthByPool map[string]*[2]int       // by pool: its nodes, and those of them that are unhealthy
}

// disruptionCommands are the disruption commands under way, and starts new ones.
type disruptionCommands struct {
	*draft
	mem           *commandMemory
	candidates    *candidates
	interruptions *interruptions
	memo          *unchangedMachines
	nodes         *solverView
	pods          *podTable
	purchases     *purchases
	reservations  *reservations

	byID          map[string]*command
	ofClaim       map[string]string    // by name of a claim that a command deletes: the command's id
	taintedAt     map[string]time.Time // the next memory's
	passiveReason string               // why commands are taken back and none is begun; empty: they go on
}

// candidates are the machines of NodePools as disruption looks at them, and how many of each pool its budgets let go.
type candidates struct {
	*draft
	commands      *disruptionCommands
	demand        *demandStage
	interruptions *interruptions
	memo          *unchangedMachines
	reservations  *reservations
	rollouts      *rollouts

	all          []*disrupt.Candidate                // by node name
	dirty        []*disrupt.Candidate                // those of machines that have changed, by node name
	base         map[*model.Claim]*disrupt.Candidate // those of machines that have changed as the next step may take them over
	budgetCounts map[string]disrupt.NodeCount        // by pool
	guard        *disrupt.Eligibility
}

// disruptionSearch looks for machines whose pods can be had for less.
type disruptionSearch struct {
	*draft
	mem          *searchMemory
	candidates   *candidates
	commands     *disruptionCommands
	forecast     *replicaForecast
	nodes        *solverView
	pods         *podTable
	purchases    *purchases
	reservations *reservations
}

// requiredDisruption replaces machines that must go: broken, expired, drifted.
type requiredDisruption struct {
	*draft
	candidates *candidates
	commands   *disruptionCommands
	health     *nodeHealth
	search     *disruptionSearch
	static     *staticPools
}

// driftConditions finds the machines that have drifted.
type driftConditions struct {
	*draft
	candidates *candidates
}

// staticPools keeps pools with spec.replicas at that number.
type staticPools struct {
	*draft
	candidates    *candidates
	commands      *disruptionCommands
	interruptions *interruptions
	purchases     *purchases
}

// replicaForecast is how many pods workloads had, and when they are expected to grow and to shrink.
type replicaForecast struct {
	*draft
	mem *forecastMemory
}

// rollouts finds the pods whose successor comes before they go.
type rollouts struct {
	*draft
	interruptions *interruptions

	successors map[string]bool // by key: Deployments with a pod of their last restart; nil before it is asked for
}

// evictionPacing lets only so many pods go at a time.
type evictionPacing struct {
	*draft
	mem           *pacingMemory
	interruptions *interruptions
	pods          *podTable
}

// claimLifecycle asks lifecycle for every claim's next step.
type claimLifecycle struct {
	*draft
	mem           *lifecycleMemory
	commands      *disruptionCommands
	memo          *unchangedMachines
	registrations *registrations
	reservations  *reservations
	rollouts      *rollouts
}

// registrations is how many of each pool's last machines became nodes.
type registrations struct {
	*draft
	mem *registrationMemory
}

// poolStatus writes the status of NodePools.
type poolStatus struct {
	*draft
	mem           *statusMemory
	memo          *unchangedMachines
	registrations *registrations
}

// orphanedMachines sees to machines and nodes without a claim.
type orphanedMachines struct {
	*draft
}

// blockerNotes tells people what blocks disruption.
type blockerNotes struct {
	*draft
	candidates *candidates
	commands   *disruptionCommands
}

// demandStage finds the pods that need a machine and have none coming, and buys for them.
type demandStage struct {
	*draft
	mem           *demandMemory
	commands      *disruptionCommands
	disagreements *schedulerDisagreements
	nodes         *solverView
	pods          *podTable
	purchases     *purchases
	reservations  *reservations
	shortfalls    *capacityShortfalls

	batchOpen  bool            // Request.BatchOpen
	awaitsPods map[string]bool // by name: nodes and claims that pending pods are expected on
}

// explanation is a step that only looks.
type explanation struct {
	*step
}

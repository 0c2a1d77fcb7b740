// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Memory is what makes the next step cheap or calm: a part for each stage that remembers something, read and written by
// that stage. The zero value is valid. What is in it is replaced and never changed in place, so that a step that is
// dropped leaves no trace.
type Memory struct {
	unchanged     unchangedMemory
	interruptions interruptionMemory
	reservations  reservationMemory
	shortfalls    shortfallMemory
	disagreements disagreementMemory
	lifecycle     lifecycleMemory
	registrations registrationMemory
	status        statusMemory
	demand        demandMemory
	purchases     purchaseMemory
	commands      commandMemory
	forecast      forecastMemory
	search        searchMemory
	pacing        pacingMemory
}

type unchangedMemory struct {
	last *unchangedNodes // nil: nothing is known, and every machine is looked at
}

type interruptionMemory struct {
	solved map[string]bool // by uid of an interrupted claim: its pods have been decided on
}

type reservationMemory struct {
	awaited         map[string]bool      // by claim: pods were to come to it at the last step
	emptySlotsSince map[string]time.Time // by claim: since when it has slots that no pod is left for
	landedAt        map[string]time.Time // by claim: when a pod of its reservation was last on its way or came

	schedulerLandedAt time.Time // when kube-scheduler last bound a pod to a node that is reserved for it
}

type shortfallMemory struct {
	byType       map[poolType]shortfall
	byPod        map[string]podShortfall             // by pod uid
	lost         []lostSlots                         // of machines that came short, until it is known for which pods
	changes      int                                 // of byType and byPod, counted: what is kept for the next process is written when it grows
	reducedPools map[*model.NodePool]*model.NodePool // pools some of whose types count for less, by what they were
}

type disagreementMemory struct {
	byPod map[string]disagreement // by pod uid
}

type lifecycleMemory struct {
	nodelessSince map[string]time.Time // by claim uid: since when it is registered and has no node
}

type registrationMemory struct {
	byPool map[string]registrationHistory // by pool uid
}

type statusMemory struct {
	writtenAt map[string]time.Time // by pool uid
}

type demandMemory struct {
	solve        solve.Memory
	placements   map[string]placement       // by pod uid: the standing node that it is expected on
	anticipated  map[string]anticipatedPods // by uid of the ReplicaSet
	largestNode  largestNode
	delayedSince map[string]time.Time // by pod uid: since when it waits for others to share a machine with
}

type purchaseMemory struct {
	claimSizes map[string]model.Resources // by claim whose machine has not come: the most capacity that it may have
}

type commandMemory struct {
	unwritten map[string]unwrittenCommand // by claim uid: the command that it goes in, where no object says so yet
	hosts     map[string]podsByHost       // by command: standing nodes that are to take its pods, until their reservation is written
	lost      map[string]bool             // commands that only replacements on their way out speak of
	taintedAt map[string]time.Time        // by command: when all its nodes were first seen tainted
	backOffs  map[string]backOff          // by claim uid
}

type forecastMemory struct {
	replicas    map[workloadName]*replicaHistory
	replicasDue time.Time // when they are counted next
}

type searchMemory struct {
	consolidation  disrupt.Memory
	quietWaitSince time.Time // since when machines that come to rest soon are waited for; zero: none is
	quietWaitFresh bool      // and some have come to rest since
	searchedAt     time.Time // when machines were last looked at for consolidation
	searchedAllAt  time.Time // and when all of them, and sets
	startTimes     disrupt.StartTimes
	bootTime       time.Duration // that machines take to come; 0: none has been seen to
	measuredAt     time.Time     // when startTimes and bootTime were
}

type pacingMemory struct {
	evictions map[string]eviction // by uid: the pods that were asked to go and have not, or have just now
}

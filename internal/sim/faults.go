// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Luck draws numbers: all random choices of a Cluster.
type Luck interface {
	// Draw returns a number from 0 to n-1. what describes its use, for readers.
	Draw(what string, n int) int
}

// Faults configures the faults that happen. The zero value: none.
type Faults struct {
	Luck      Luck
	Odds      map[Fault]int // percentage per opportunity
	Adversary Adversary     // nil: none
}

// Adversary works against some launches. See package sim/adversary.
type Adversary interface {
	Act(*Cluster) // called in each round
	RefusesClaim(plan.CreateClaim) bool
	ClaimMade(*Cluster, plan.CreateClaim)
	KeepsFromJoining(*model.Claim) bool
	KeepsDriverOut(*Machine) bool // no CSI driver ever runs on its node
	RefusesPod(*model.Pod) bool   // as kube-scheduler and admission do
}

func (f *Faults) refusesPod(p *model.Pod) bool {
	return f.Adversary != nil && f.Adversary.RefusesPod(p)
}

// Fault is a fault that happens at random.
type Fault string

// The faults.
const (
	// Actions of users and clouds, per tick.
	Scaled             Fault = "scale"
	PodDeleted         Fault = "a pod is deleted"
	ClaimDeleted       Fault = "a claim is deleted"
	NodeDeleted        Fault = "a node is deleted"
	NodeTakenAway      Fault = "a node is taken away by force"
	MachineInterrupted Fault = "a machine is interrupted"
	MachineDies        Fault = "a machine dies"
	KubeletDies        Fault = "a kubelet dies"
	Crash              Fault = "crash" // of the controller

	// Delays of the cluster.
	PodsOneByOne    Fault = "pods are made one by one"
	SchedulerIsSlow Fault = "scheduler is slow"
	SchedulerLags   Fault = "scheduler hears of a change late"
	BindingIsLate   Fault = "scheduler's binding is late"
	NoCapacityLeft  Fault = "no capacity"
	NeverRegisters  Fault = "never registers"
	NeverReady      Fault = "never ready"
	SlowToBoot      Fault = "slow to boot"
	AgentIsEarly    Fault = "startup taints are removed before the node is Ready"
	PodEndsLate     Fault = "a pod ends late" // not usual
	NeverBack       Fault = "a node is not back from a reboot"

	// Calls.
	EvictionBlocked   Fault = "eviction blocked"
	BindingRefused    Fault = "binding refused"
	TolerationRefused Fault = "toleration refused"
	SlowCall          Fault = "slow call"
	CallFails         Fault = "call fails"
	AnswerLost        Fault = "answer lost"
	LaunchAnswerLost  Fault = "answer of the launch lost"
	RebootNotCalled   Fault = "a reboot is noted, and the cloud is not asked" // a reboot is recorded without a call to the cloud, because the controller crashes in between or the call is lost

	// Observations and actions of the controller.
	WatchLags        Fault = "watch lags"
	ListFails        Fault = "list fails"
	NotListedYet     Fault = "not listed yet"
	GoneAndNotListed Fault = "gone and not listed"
	NoLookAtDemand   Fault = "no look at demand"
	NotStored        Fault = "what is learned is not stored"
)

// Usual returns the odds of all faults, except the failure of a kubelet, from which nothing recovers.
func Usual() map[Fault]int {
	return map[Fault]int{
		Scaled: 20, PodDeleted: 10, ClaimDeleted: 3, NodeDeleted: 3, NodeTakenAway: 2, MachineInterrupted: 3, MachineDies: 3, Crash: 4,
		PodsOneByOne: 50, SchedulerIsSlow: 30, SchedulerLags: 30, BindingIsLate: 20, NoCapacityLeft: 10, NeverRegisters: 5, NeverReady: 5, SlowToBoot: 30, AgentIsEarly: 50,
		EvictionBlocked: 40, BindingRefused: 3, TolerationRefused: 10, SlowCall: 25, CallFails: 8, AnswerLost: 5, LaunchAnswerLost: 10, RebootNotCalled: 10, NeverBack: 10,
		WatchLags: 25, ListFails: 20, NotListedYet: 50, GoneAndNotListed: 50, NoLookAtDemand: 30, NotStored: 20,
	}
}

// Only returns the usual odds of the given faults only.
func Only(faults ...Fault) map[Fault]int {
	odds := Usual()
	maps.DeleteFunc(odds, func(f Fault, _ int) bool { return !slices.Contains(faults, f) })
	return odds
}

// Happens reports whether a fault happens this time.
func (f *Faults) Happens(what Fault) bool {
	return f.Odds[what] > 0 && f.Luck.Draw(string(what), 100) >= 100-f.Odds[what]
}

// draw returns a number from 0 to n-1.
func (f *Faults) draw(what string, n int) int { return f.Luck.Draw(what, n) }

// delays returns how long a machine takes to join, and from there to be Ready; negative: it never does.
func (f *Faults) delays(c *Cluster, x *model.Claim) (boot, ready time.Duration) {
	boot, ready = c.Boot, c.Readiness
	if c.Delays != nil {
		boot, ready = c.Delays(x)
	}
	switch {
	case f.Adversary != nil && f.Adversary.KeepsFromJoining(x), f.Happens(NeverRegisters):
		return -1, ready
	case f.Happens(NeverReady):
		return boot, -1
	case f.Happens(SlowToBoot):
		return time.Duration(1+f.draw("boot", 90)) * time.Second, ready
	}
	return boot, ready
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// registrations is how many of each pool's last machines became nodes.
type registrations struct {
	*draft
	mem *registrationMemory
}

// registrationMemory is what registrations remembers from step to step.
type registrationMemory struct {
	byPool map[string]registrationHistory // by pool uid
}

// registrationHealthy is the condition of a NodePool that reports whether its machines become nodes. Nothing depends on
// it.
const registrationHealthy = "NodeRegistrationHealthy"

// Of the last machines of a pool as many are looked at, and so many failures are too many, as in the reference.
const (
	registrationWindow       = 4
	registrationFailureLimit = 2
)

// registrationHistory is the last machines of a pool that registered or failed to, under one template and one
// generation of its node class.
type registrationHistory struct {
	basis string
	last  []registration // oldest first
}

type registration struct {
	uid    string // of the claim: told again, it is the same one
	failed bool
}

// record takes note of what lifecycle decided about a claim that was to become a node.
func (rg *registrations) record(c *model.Claim, actions []plan.Action) {
	p := rg.Pool(c.Pool)
	if p == nil {
		return
	}
	for _, a := range actions {
		switch a := a.(type) {
		case plan.UpdateClaim:
			if a.Conditions[lifecycle.Registered].True() && !c.Is(lifecycle.Registered) {
				rg.add(p, registration{c.UID, false})
			}
		case plan.DeleteClaim:
			if a.Why.Code == plan.RegistrationTimeout || a.Why.Code == plan.LaunchTimeout {
				rg.add(p, registration{c.UID, true})
			}
		}
	}
}

// add notes one registration, or failure, of a pool's machine.
func (rg *registrations) add(p *model.NodePool, r registration) {
	have := rg.mem.byPool[p.UID]
	if basis := cluster.LaunchBasis(p); have.basis != basis {
		have = registrationHistory{basis: basis}
	}
	if slices.Contains(have.last, r) {
		return
	}
	last := append(slices.Clone(have.last), r)
	have.last = last[max(0, len(last)-registrationWindow):]
	all := make(map[string]registrationHistory, len(rg.mem.byPool)+1)
	for _, q := range rg.Snapshot.Pools {
		if x, ok := rg.mem.byPool[q.UID]; ok {
			all[q.UID] = x
		}
	}
	all[p.UID] = have
	rg.mem.byPool = all
}

// condition is what a pool's status should say about it; an empty one: nothing is known, what it says stays. What was
// judged under another template or node class is not known any more.
func (rg *registrations) condition(p *model.NodePool) model.Condition {
	have, ok := rg.mem.byPool[p.UID]
	if !ok || have.basis != cluster.LaunchBasis(p) {
		if now := p.Conditions[registrationHealthy]; now.Status != "" && p.ClassGeneration != 0 && (p.StatusClassGeneration != p.ClassGeneration || p.StatusHash != p.Hash) {
			return model.Condition{Status: "Unknown", Reason: "AwaitingRegistration", Message: "no node was launched since the NodePool or its node class changed"}
		}
		return model.Condition{}
	}
	failed := 0
	for _, r := range have.last {
		if r.failed {
			failed++
		}
	}
	if failed >= registrationFailureLimit {
		return model.Condition{Status: "False", Reason: "RegistrationFailed",
			Message: strconv.Itoa(failed) + " of the last " + strconv.Itoa(len(have.last)) + " NodeClaims did not register in time; see their events"}
	}
	return model.Condition{Status: "True", Reason: registrationHealthy}
}

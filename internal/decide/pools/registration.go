// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pools

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// RegistrationHealthy is the condition of a NodePool that reports whether its machines register as nodes. It influences no
// decision.
const RegistrationHealthy = "NodeRegistrationHealthy"

// Of the last machines of a pool as many are looked at, and so many failures are too many, as in the reference.
const (
	registrationWindow       = 4
	registrationFailureLimit = 2
)

// Registrations count how many of each NodePool's last machines registered as nodes. The zero value is empty.
type Registrations struct {
	byPool map[string]registrationHistory // by pool uid
}

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

// Note returns the registrations updated with a step's lifecycle actions of NodeClaims, in their order.
func (rg Registrations) Note(v *cluster.View, actions []plan.Action) Registrations {
	waiting := func(claim string) (*model.Claim, *model.NodePool) {
		if c := v.Claim(claim); c != nil && c.Pool != "" && !c.Is(lifecycle.Registered) {
			return c, v.Pool(c.Pool)
		}
		return nil, nil
	}
	for _, a := range actions {
		switch a := a.(type) {
		case plan.UpdateClaim:
			if c, p := waiting(a.Claim); p != nil && a.Conditions[lifecycle.Registered].True() {
				rg = rg.with(v, p, registration{c.UID, false})
			}
		case plan.DeleteClaim:
			if c, p := waiting(a.Claim); p != nil && (a.Why.Code == plan.RegistrationTimeout || a.Why.Code == plan.LaunchTimeout) {
				rg = rg.with(v, p, registration{c.UID, true})
			}
		}
	}
	return rg
}

// with returns the registrations with one more, or one more failure, of a pool's machine. NodePools that are gone are
// forgotten.
func (rg Registrations) with(v *cluster.View, p *model.NodePool, r registration) Registrations {
	have := rg.byPool[p.UID]
	if basis := cluster.LaunchBasis(p); have.basis != basis {
		have = registrationHistory{basis: basis}
	}
	if slices.Contains(have.last, r) {
		return rg
	}
	last := append(slices.Clone(have.last), r)
	have.last = last[max(0, len(last)-registrationWindow):]
	all := make(map[string]registrationHistory, len(rg.byPool)+1)
	for _, q := range v.Snapshot.Pools {
		if x, ok := rg.byPool[q.UID]; ok {
			all[q.UID] = x
		}
	}
	all[p.UID] = have
	return Registrations{all}
}

// condition returns what a pool's status should say about its registrations; an empty one: nothing is known, what it says
// stays. What was judged under another template or node class is not known any more.
func (rg Registrations) condition(p *model.NodePool) model.Condition {
	have, ok := rg.byPool[p.UID]
	if !ok || have.basis != cluster.LaunchBasis(p) {
		if now := p.Conditions[RegistrationHealthy]; now.Status != "" && p.ClassGeneration != 0 && (p.StatusClassGeneration != p.ClassGeneration || p.StatusHash != p.Hash) {
			return model.Condition{Status: "Unknown", Reason: "AwaitingRegistration", Message: "no node has been launched since the NodePool or its node class changed"}
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
	return model.Condition{Status: "True", Reason: RegistrationHealthy}
}

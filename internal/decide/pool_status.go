// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// poolStatus writes the status of NodePools.
type poolStatus struct {
	*draft
	mem           *statusMemory
	driftBackOff  *driftBackOff
	memo          *unchangedMachines
	registrations *registrations
	unused        *unused.Launches
}

// statusMemory is what poolStatus remembers from step to step.
type statusMemory struct {
	writtenAt map[string]time.Time // by pool uid
}

// write writes what has changed in the pools' status.
func (ps *poolStatus) write() {
	at := map[string]time.Time{}
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for name, x := range ps.Unchanged {
		used[name], count[name] = x.Capacity.Clone(), x.Count
	}
	for _, c := range ps.DirtyClaims {
		if c.Pool == "" || !isInStatus(c) {
			continue
		}
		used[c.Pool] = used[c.Pool].AddInto(c.Capacity, 1)
		count[c.Pool]++
	}
	for _, p := range ps.Snapshot.Pools {
		last := ps.mem.writtenAt[p.UID]
		due := last.Add(ps.pol.PoolStatusInterval)
		a := plan.UpdatePool{Pool: p.Name, UID: p.UID, Conditions: poolConditions(p), Resources: used[p.Name].Trim(), Nodes: count[p.Name], Hash: p.Hash, ClassGeneration: p.ClassGeneration}
		if r := ps.registrations.condition(p); r.Status != "" {
			a.Conditions[registrationHealthy] = r
		}
		if v := ps.unused.Condition(p); v.Status != "" {
			a.Conditions[unused.ConditionType] = v
		}
		if v := ps.driftBackOff.condition(p); v.Status != "" {
			a.Conditions[ConditionDriftBackOff] = v
		}
		if !poolStatusDiffers(p, a) {
			at[p.UID] = last
			continue
		}
		if ps.Now.Before(due) {
			at[p.UID] = last
			ps.wakeAt(due)
			continue
		}
		at[p.UID] = ps.Now
		ps.addAction(a)
	}
	ps.mem.writtenAt = at
}

// isInStatus reports whether the status of its pool counts a claim.
func isInStatus(c *model.Claim) bool { return !c.Provisional && c.ProviderID != "" }

// poolConditions returns the conditions of a NodePool's status that say whether it may buy.
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

// poolStatusDiffers reports whether a pool's status is another than an action would write.
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

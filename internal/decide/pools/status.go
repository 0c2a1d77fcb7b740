// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pools computes the status of NodePools (conditions, resources, node count, registration rate of recent
// launches) and scales static NodePools (spec.replicas).
//
// It never launches for a pod, and does not compute limits (packages limits and decide). Every function is pure: it
// reads a View and its arguments, and returns actions and the state to keep.
//
// Invariants: a status is written only if it changes, and at most once per interval; a static NodePool never exceeds a
// limit.
//
// Start reading at Status and ScaleStatic.
package pools

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// StatusIn is the input of Status.
type StatusIn struct {
	Interval      time.Duration // minimum interval between writes of a NodePool's status
	Registrations Registrations
	Conditions    func(*model.NodePool) map[string]model.Condition // further conditions of a NodePool, by type; a condition without a status is not written
}

// StatusMemory is the state that Status keeps between steps. The zero value is valid.
type StatusMemory struct {
	writtenAt map[string]time.Time // by pool uid
}

// Status writes the changed status of NodePools, in the order of the Snapshot.
func Status(v *cluster.View, in StatusIn, mem StatusMemory) (out plan.Part, next StatusMemory) {
	at := map[string]time.Time{}
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for name, x := range v.Unchanged {
		used[name], count[name] = x.Capacity.Clone(), x.Count
	}
	for _, c := range v.DirtyClaims {
		if c.Pool == "" || !CountsInStatus(c) {
			continue
		}
		used[c.Pool] = used[c.Pool].AddInto(c.Capacity, 1)
		count[c.Pool]++
	}
	for _, p := range v.Snapshot.Pools {
		last := mem.writtenAt[p.UID]
		due := last.Add(in.Interval)
		a := plan.UpdatePool{Pool: p.Name, UID: p.UID, Conditions: readiness(p), Resources: used[p.Name].Trim(), Nodes: count[p.Name], Hash: p.Hash, ClassGeneration: p.ClassGeneration}
		if r := in.Registrations.condition(p); r.Status != "" {
			a.Conditions[RegistrationHealthy] = r
		}
		for name, c := range in.Conditions(p) {
			if c.Status != "" {
				a.Conditions[name] = c
			}
		}
		if !statusDiffers(p, a) {
			at[p.UID] = last
			continue
		}
		if v.Now.Before(due) {
			at[p.UID] = last
			out.WakeAt(due)
			continue
		}
		at[p.UID] = v.Now
		out.Add(a)
	}
	return out, StatusMemory{at}
}

// CountsInStatus reports whether the status of a NodePool counts a NodeClaim.
func CountsInStatus(c *model.Claim) bool { return !c.Provisional && c.ProviderID != "" }

// readiness returns the conditions of a NodePool's status that say whether nodes may be launched from it.
func readiness(p *model.NodePool) map[string]model.Condition {
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

// statusDiffers reports whether a pool's status is another than an action would write.
func statusDiffers(p *model.NodePool, a plan.UpdatePool) bool {
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

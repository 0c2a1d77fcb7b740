// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"maps"
	"slices"
	"time"
)

// mischief is what people and clouds do.
func (c *Cluster) mischief() {
	f := &c.Faults
	if f.Happens(Scaled) {
		l := c.Workloads[f.draw("workload", len(c.Workloads))]
		l.Want = f.draw("replicas", 8)
		c.mishap(Scaled, l.Name)
	}
	if f.Happens(PodDeleted) && len(c.Pods) > 0 {
		p := one(f, "pod", c.Pods)
		c.mishap(PodDeleted, p.Name)
		c.DeletePod(p, time.Second)
	}
	if f.Happens(ClaimDeleted) && len(c.Claims) > 0 {
		x := one(f, "claim", c.Claims)
		c.mishap(ClaimDeleted, x.Name)
		c.DeleteClaim(x)
	}
	if f.Happens(NodeDeleted) && len(c.Nodes) > 0 {
		n := one(f, "node", c.Nodes)
		c.mishap(NodeDeleted, n.Name)
		c.DeleteNode(n)
	}
	if f.Happens(NodeTakenAway) && len(c.Nodes) > 0 {
		n := one(f, "node", c.Nodes)
		c.mishap(NodeTakenAway, n.Name)
		c.DropNode(n.Name)
	}
	if f.Happens(MachineInterrupted) && len(c.Claims) > 0 {
		x := one(f, "claim", c.Claims)
		if m := c.Machines[x.UID]; m != nil && !m.Gone && x.ProviderID != "" && m.Doomed.IsZero() && c.Notices != nil {
			kind := []string{"SpotInterruption", "ScheduledChange", "StateChange"}[f.draw("kind", 3)]
			c.mishap(MachineInterrupted, x.Name+" "+kind)
			c.Interrupt(x, m, kind, f.draw("time said", 2) == 1)
		}
	}
	if f.Happens(KubeletDies) && len(c.Machines) > 0 {
		m := one(f, "machine", c.Machines)
		c.mishap(KubeletDies, m.ID)
		c.failNode(m)
	}
	if f.Happens(MachineDies) && len(c.Machines) > 0 {
		m := one(f, "machine", c.Machines)
		c.mishap(MachineDies, m.ID)
		c.End(m)
	}
	if f.Happens(Crash) && c.Controller != nil {
		c.mishap(Crash, "")
		c.Controller.crash()
	}
}

func (c *Cluster) mishap(f Fault, object string) {
	c.Tell(Event{Kind: Mishap, Object: object, Text: string(f)})
}

// one draws one of several.
func one[T any](f *Faults, what string, of map[string]T) T {
	return of[slices.Sorted(maps.Keys(of))[f.draw(what, len(of))]]
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	// lostAfter is how long the node of a machine that ended is not Ready before the cloud's controller deletes it.
	lostAfter = 5 * time.Second
	// outOfCapacity is how long an offering is not offered after a launch has found none left.
	outOfCapacity = 30 * time.Second
	// recountedAfter is how long the cloud takes to say that a machine of a limited offering has come or gone.
	recountedAfter = 2 * time.Second
	// listedAfter is how long the cloud lists a machine that ended.
	listedAfter = time.Hour
)

// launch buys the cheapest machine that a claim allows and that can be had, or says why none is: model.LaunchFailure's kind.
func (c *Cluster) launch(x *model.Claim) (*Machine, model.LaunchFailure) {
	gone := c.Faults.Happens(NoCapacityLeft)
	m := &Machine{ClaimUID: x.UID, ClaimName: x.Name, Pool: x.Pool, Launched: c.Now}
	var short []Offered
	known := 0 // without capacity: the cloud is not asked for these
	allows := func(key, value string) bool {
		q := x.Requirements.Get(key)
		return q == nil || q.Matches(value, true)
	}
	for _, t := range c.typesOf(x.Pool) {
		if !allows(model.LabelInstanceType, t.Name) || !x.Requests.Fits(t.Allocatable) {
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !allows(model.LabelZone, o.Zone) || !allows(model.LabelCapacityType, o.CapacityType) || !allows(model.LabelNodeGroup, o.Labels[model.LabelNodeGroup]) {
				continue
			}
			if k := (Offered{t.Name, o.Zone, o.CapacityType}); c.isAside(k) {
				known++
			} else if left, limited := c.left(k); gone || c.Short[k] || limited && left == 0 {
				short = append(short, k)
			} else if m.Type == nil || o.PriceMicro < m.Offering.PriceMicro {
				m.Type, m.Offering = t, o
			}
		}
	}
	if len(short) > 0 {
		c.setAside(short...)
	}
	if m.Type != nil || len(short) > 0 {
		c.Asked++
	}
	if m.Type == nil && len(short)+known > 0 {
		c.Tell(Event{Kind: NoCapacity, Object: x.Name})
		return nil, model.LaunchFailure{Kind: "InsufficientCapacity", Message: "none left"}
	}
	if m.Type == nil {
		c.Tell(Event{Kind: Violated, Object: x.Name, Text: fmt.Sprintf("none of its types holds what it asks for, %v", x.Requests)})
		return nil, model.LaunchFailure{Kind: "InvalidRequest", Message: "no type holds it"}
	}
	c.Serial++
	m.ID = fmt.Sprint("m", c.Serial)
	m.name = "n-" + m.ID
	if c.Identify != nil {
		_, id, node := c.Identify(x.Name)
		m.ID, m.name = cmp.Or(id, m.ID), cmp.Or(node, m.name)
	}
	m.boot, m.ready = c.Faults.delays(c, x)
	c.Machines[x.UID] = m
	if m.boot >= 0 {
		c.due.add(c.Now.Add(m.boot), func() { c.join(m) })
	}
	c.Tell(Event{Kind: Launched, Machine: m, Object: m.ID, Text: m.Type.Name})
	c.recount(m)
	return m, model.LaunchFailure{}
}

// setAside has offerings not offered for a while.
func (c *Cluster) setAside(offerings ...Offered) {
	for _, k := range offerings {
		c.aside[k] = c.Now.Add(outOfCapacity)
	}
	c.due.add(c.Now.Add(outOfCapacity), c.restock)
	c.offer()
}

// left returns how many more machines of an offering can be had; false: any number.
func (c *Cluster) left(k Offered) (n int64, limited bool) {
	most, limited := c.Reserved[k]
	if !limited {
		return -1, false
	}
	for _, m := range c.Machines {
		if !m.Gone && k == (Offered{m.Type.Name, m.Offering.Zone, m.Offering.CapacityType}) {
			most--
		}
	}
	return int64(max(0, most)), true
}

// LimitOffering limits an offering to n machines. NodePools are updated shortly after.
func (c *Cluster) LimitOffering(k Offered, n int) {
	c.Reserved[k] = n
	c.due.add(c.Now.Add(recountedAfter), c.offer)
}

// recount has NodePools told how many machines are left of a limited offering, when one of its machines has come or gone.
func (c *Cluster) recount(m *Machine) {
	if _, limited := c.Reserved[Offered{m.Type.Name, m.Offering.Zone, m.Offering.CapacityType}]; limited {
		c.due.add(c.Now.Add(recountedAfter), c.offer)
	}
}

func (c *Cluster) typesOf(pool string) []*model.InstanceType {
	if c.TypesOf != nil {
		return c.TypesOf(pool)
	}
	return c.Types
}

// AddMachine adds a machine that was launched earlier for a NodeClaim. If it has no node, its node registers after boot and becomes
// Ready after a further ready. node is the name of that node; empty: a new name.
func (c *Cluster) AddMachine(m *Machine, node string, boot, ready time.Duration) {
	m.name, m.boot, m.ready = cmp.Or(node, "n-"+m.ID), boot, ready
	c.Machines[m.ClaimUID] = m
	if m.Node != "" {
		c.joined[m.Node] = m
		c.nodeOwner[m.Node] = m.ClaimUID
		return
	}
	c.due.add(c.Now.Add(boot), func() { c.join(m) })
}

// restock has what was set aside offered again when its time is up.
func (c *Cluster) restock() {
	maps.DeleteFunc(c.aside, func(_ Offered, until time.Time) bool { return !c.Now.Before(until) })
	c.offer()
}

// isAside reports whether a launch has found no capacity of an offering a moment ago.
func (c *Cluster) isAside(k Offered) bool { return c.Now.Before(c.aside[k]) }

// offer tells NodePools what can be had.
func (c *Cluster) offer() {
	for _, p := range c.NodePools {
		q := *p
		q.Types = nil
		for _, t := range c.typesOf(p.Name) {
			x := *t
			x.Offerings = slices.Clone(t.Offerings)
			for i := range x.Offerings {
				o := &x.Offerings[i]
				k := Offered{t.Name, o.Zone, o.CapacityType}
				if left, limited := c.left(k); limited {
					o.Remaining, o.Available = left, left > 0
					t = &x
				}
				if c.isAside(k) {
					o.Available = false
					t = &x
				}
			}
			q.Types = append(q.Types, t)
		}
		c.SetPool(&q)
	}
}

// Interrupt makes the cloud announce an interruption of a machine in two minutes. If the cloud needs the capacity for others, the offering is marked
// unavailable, as in the controller.
func (c *Cluster) Interrupt(x *model.Claim, m *Machine, kind string, saysWhen bool) {
	if kind == "SpotInterruption" {
		c.setAside(Offered{m.Type.Name, m.Offering.Zone, m.Offering.CapacityType})
	}
	m.Doomed = c.Now.Add(2 * time.Minute)
	at := time.Time{}
	if saysWhen {
		at = m.Doomed
	}
	c.due.add(m.Doomed, func() { c.End(m) })
	y := *x
	y.Annotations = Edited(x.Annotations, c.Notices(kind, c.Now, at))
	c.SetClaim(&y)
}

// End terminates a machine. Its node becomes not Ready at once, and is deleted soon after.
func (c *Cluster) End(m *Machine) {
	if !m.Gone {
		m.Gone = true
		c.Tell(Event{Kind: Ended, Machine: m, Object: m.ID})
		c.recount(m)
		c.due.add(c.Now, func() { c.loseNode(m) })
		c.due.add(c.Now.Add(listedAfter), func() { c.forget(m) })
	}
}

// forget has the cloud list a machine no longer that ended, once its NodeClaim is gone too.
func (c *Cluster) forget(m *Machine) {
	if c.ClaimOf(m) != nil {
		c.due.add(c.Now.Add(listedAfter), func() { c.forget(m) })
		return
	}
	delete(c.Machines, m.ClaimUID)
}

// instances lists the cloud's machines as model has them.
func (c *Cluster) instances() []*model.Instance {
	var out []*model.Instance
	for _, uid := range slices.Sorted(maps.Keys(c.Machines)) {
		m := c.Machines[uid]
		if c.Now.Sub(m.Launched) < 2*time.Second && c.Faults.Happens(NotListedYet) || m.Gone && c.Faults.Happens(GoneAndNotListed) {
			continue
		}
		out = append(out, &model.Instance{ProviderID: m.ID, ClaimUID: m.ClaimUID, ClaimName: m.ClaimName, Launched: m.Launched, Gone: m.Gone})
	}
	return out
}

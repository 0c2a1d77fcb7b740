// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Settle advances time without faults until no events are left, and reports whether this took at most the given number of ticks.
func (c *Cluster) Settle(ticks int) bool {
	c.Faults.Odds = nil
	calm := 0
	for range ticks {
		c.Tick()
		if !c.Controller.IsQuiet() {
			calm = 0
			c.Now = c.Now.Add(100 * time.Millisecond)
			continue
		}
		if calm++; calm > 3 && c.isStill() {
			return true
		}
		step := time.Second
		if next := c.Controller.Next; calm > 3 && !next.IsZero() { // nobody is at work: on to the next moment that anybody waits for
			step = max(step, min(next.Sub(c.Now), 20*time.Second))
		}
		c.Now = c.Now.Add(step)
	}
	return false
}

// Run advances time by d, in steps of up to ten seconds while nothing happens, and returns the cost of the machines during this
// time, in micro-dollars.
func (c *Cluster) Run(d time.Duration) (micro float64) {
	for end := c.Now.Add(d); c.Now.Before(end); {
		c.Tick()
		step := 200 * time.Millisecond
		if c.Controller.IsQuiet() {
			step = min(max(time.Second, c.Controller.Next.Sub(c.Now)), 10*time.Second)
		}
		step = min(step, end.Sub(c.Now))
		micro += float64(c.MicroPerHour()) * step.Hours()
		c.Now = c.Now.Add(step)
	}
	return micro
}

// ticksAtOnce is how many ticks Rest gives an instant.
const ticksAtOnce = 200

// Rest ticks at the instant Now until nothing more happens at it.
func (c *Cluster) Rest() error {
	for n, before := 0, uint64(0); n == 0 || c.version != before || !c.Controller.IsQuiet(); n++ {
		if n == ticksAtOnce {
			return fmt.Errorf("at %s nothing comes to rest within %d decisions", c.Now, ticksAtOnce)
		}
		before = c.version
		c.tick(true)
	}
	return nil
}

// Play advances time until an instant, from one event to the next. The controller decides when it is due (Controller.dueAt), and
// all actions decided at an instant are carried out at that instant. If passes is not nil, it is called before each span without
// events; Play ends if it returns false. Play can be called again after an error.
func (c *Cluster) Play(until time.Time, passes func(time.Duration) bool) error {
	x := c.Controller
	for c.Now.Before(until) {
		c.Happen()
		if due := x.dueAt(); !due.IsZero() && !due.After(c.Now) {
			err := c.Rest()
			if x.batch = (batch{heard: x.told, calm: x.urgent}); err != nil {
				x.batch.due = c.Now.Add(x.Batch.Most)
				return err
			}
		}
		next := until
		for _, t := range []time.Time{c.NextEvent(), x.dueAt()} {
			if !t.IsZero() && t.Before(next) {
				next = model.LaterOf(t, c.Now.Add(1))
			}
		}
		if passes != nil && !passes(next.Sub(c.Now)) {
			return nil
		}
		c.Now = next
	}
	return nil
}

// isStill reports whether the only thing to wait for is distant.
func (c *Cluster) isStill() bool {
	if len(c.aside) > 0 {
		return false
	}
	for _, p := range c.Pods {
		if p.Node == "" && !c.MayPend(p) || !p.Deleting.IsZero() {
			return false
		}
	}
	for _, x := range c.Claims {
		if !x.Deleting.IsZero() || !x.Is(lifecycle.Initialized) && c.Now.Before(x.Created.Add(c.Patience)) {
			return false
		}
	}
	for _, n := range c.Nodes {
		if !n.Deleting.IsZero() {
			return false
		}
	}
	for _, m := range c.Machines {
		if m.Gone && c.Nodes[m.Node] != nil || !m.Gone && !m.Doomed.IsZero() || !m.Gone && c.ClaimOf(m) == nil {
			return false
		}
	}
	next := c.Controller.Next
	return next.IsZero() || next.Sub(c.Now) > time.Minute
}

// MayPend reports whether a pod may stay without a node.
func (c *Cluster) MayPend(p *model.Pod) bool { return model.CutoffOf(c.NodePools).IsExpendable(p) }

// Tick runs one round at the instant Now: first the rest of the cluster, then the controller processes watch events, finishes
// calls, decides, and begins new calls.
func (c *Cluster) Tick() { c.tick(false) }

func (c *Cluster) tick(onlyNews bool) {
	c.Happen()
	if c.Controller != nil {
		c.Controller.tick(onlyNews)
	}
}

// Happen runs one round without the controller: faults and due events happen, then workloads and kube-scheduler act.
func (c *Cluster) Happen() {
	c.mischief()
	if c.Faults.Adversary != nil {
		c.Faults.Adversary.Act(c)
	}
	c.runWorkloads()
	c.due.run(c.Now)
	if c.Controllers != nil {
		c.Controllers.Act()
	}
	if !c.Faults.Happens(SchedulerIsSlow) {
		c.schedulePods()
	}
	c.updateBudgets()
	if c.Controllers != nil {
		c.Controllers.UpdateBudgets()
	}
}

// NextEvent returns the time of the next event that is already certain; zero: none.
func (c *Cluster) NextEvent() time.Time {
	next := c.due.next()
	if c.Controllers != nil {
		next = model.EarlierOf(next, c.Controllers.Next())
	}
	return next
}

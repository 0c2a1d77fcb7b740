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

var (
	notReady   = model.Taint{Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}
	registered = model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute}
)

// join has a machine's kubelet create its node, which is Ready some time later.
func (c *Cluster) join(m *Machine) {
	if m.Gone {
		return
	}
	taints := []model.Taint{notReady}
	labels := model.Labels{}
	p := c.Pool(m.Pool)
	if p == nil || p.Labels[model.LabelNodeGroup] == "" { // a node group's user data says nothing of Dovetail
		taints = append(taints, registered)
		labels[model.LabelDoNotSyncTaints] = "true"
	}
	if p != nil {
		taints = append(taints, p.StartupTaints...)
	}
	m.Node = m.name
	c.joined[m.Node] = m
	c.Tell(Event{Kind: Joined, Machine: m, Object: m.Node})
	maps.Copy(labels, m.Type.Labels)
	maps.Copy(labels, m.Offering.Labels)
	maps.Copy(labels, model.Labels{model.LabelHostname: m.Node, model.LabelInstanceType: m.Type.Name, model.LabelZone: m.Offering.Zone,
		model.LabelCapacityType: m.Offering.CapacityType, model.LabelNodePool: m.Pool})
	c.SetNode(&model.Node{Name: m.Node, UID: "uid-" + m.Node, ProviderID: m.ID, Created: c.Now, BootID: "boot-" + m.ID, Capacity: m.Type.Capacity, Allocatable: m.Type.Allocatable,
		Labels: labels, Annotations: model.Labels{}, Taints: taints})
	if m.ready >= 0 {
		c.due.add(c.Now.Add(m.ready), func() { c.becomeReady(m) })
		if p != nil && len(p.StartupTaints) > 0 && c.Faults.Happens(AgentIsEarly) {
			c.due.add(c.Now.Add(m.ready/2), func() { c.removeStartupTaints(m) })
		}
	}
}

// startDrivers has the agents of CSI drivers register on a node that has become Ready. kubelet sets the driver's label first, then its entry in CSINode.
func (c *Cluster) startDrivers(m *Machine) {
	for _, d := range c.Drivers {
		if c.Faults.Adversary != nil && c.Faults.Adversary.KeepsDriverOut(m) {
			continue
		}
		edit := func(change func(*model.Node)) func() {
			return func() {
				if n := c.Nodes[m.Node]; n != nil && !m.Gone {
					k := *n
					change(&k)
					c.SetNode(&k)
				}
			}
		}
		c.due.add(c.Now.Add(d.After), edit(func(k *model.Node) { k.Labels = Edited(k.Labels, map[string]string{d.Label: m.Offering.Zone}) }))
		c.due.add(c.Now.Add(d.After+driverEntryAfter), edit(func(k *model.Node) {
			k.CSIDrivers = slices.Sorted(slices.Values(append(slices.Clip(k.CSIDrivers), d.Name)))
		}))
	}
}

// driverEntryAfter is how long a driver's entry in CSINode comes after its label.
const driverEntryAfter = 300 * time.Millisecond

func (c *Cluster) becomeReady(m *Machine) {
	if n := c.Nodes[m.Node]; n != nil && !n.Ready && !m.Gone && m.ready >= 0 {
		c.setReady(n, true)
		c.startDrivers(m)
		if p := c.Pool(m.Pool); p != nil && len(p.StartupTaints) > 0 {
			c.due.add(c.Now.Add(1), func() { c.removeStartupTaints(m) })
		}
	}
}

func (c *Cluster) setReady(n *model.Node, ready bool) {
	m, status := *n, "False"
	m.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t == notReady })
	if ready {
		status = "True"
	} else {
		m.Taints = append(m.Taints, notReady)
	}
	m.Ready, m.ReadySince = ready, c.Now
	m.Conditions = maps.Clone(n.Conditions)
	if m.Conditions == nil {
		m.Conditions = map[string]model.Condition{}
	}
	m.Conditions["Ready"] = model.Condition{Status: status, Since: c.Now}
	c.Tell(Event{Kind: Ready, Object: n.Name, Text: status})
	c.SetNode(&m)
}

// SetReady makes the kubelet of a node report whether the node is Ready.
func (c *Cluster) SetReady(node string, ready bool) {
	if n := c.Nodes[node]; n != nil && n.Ready != ready {
		c.setReady(n, ready)
	}
}

// SetCondition makes a node report a condition with a status.
func (c *Cluster) SetCondition(node, condition, status string) {
	n := c.Nodes[node]
	if n == nil || n.Conditions[condition].Status == status {
		return
	}
	m := *n
	m.Conditions = maps.Clone(n.Conditions)
	m.Conditions[condition] = model.Condition{Status: status, Since: c.Now}
	c.SetNode(&m)
}

// reboot restarts a machine, once what speaks of it has been written. Its node is not Ready until it is back: with another boot ID, and with nothing
// wrong. Its pods stay.
func (c *Cluster) reboot(a plan.Reboot) (uint64, error) {
	version, err := c.updateClaim(a.Note)
	if err != nil {
		return 0, err
	}
	if c.Faults.Happens(RebootNotCalled) {
		return 0, ErrUnknown
	}
	m, n := c.Machines[a.UID], c.Nodes[a.Node]
	if m == nil || m.Gone || n == nil {
		return version, nil
	}
	c.Tell(Event{Kind: Rebooted, Machine: m, Object: n.Name})
	c.setReady(n, false)
	if c.Faults.Happens(NeverBack) {
		m.ready = -1
		return version, nil
	}
	c.due.add(c.Now.Add(time.Duration(20+c.Faults.draw("seconds to boot", 60))*time.Second), func() {
		n := c.Nodes[m.Node]
		if n == nil || m.Gone {
			return
		}
		is := *n
		is.BootID += "'"
		is.Conditions = map[string]model.Condition{}
		m.ready = max(m.ready, 0)
		c.setReady(&is, true)
	})
	return version, nil
}

// failNode has a kubelet die for good: its node is there and not Ready.
func (c *Cluster) failNode(m *Machine) {
	if n := c.Nodes[m.Node]; n != nil && n.Ready && !m.Gone {
		m.ready = -1
		c.setReady(n, false)
	}
}

// loseNode has the node of a machine that ended be not Ready, and has the cloud's controller delete it soon after.
func (c *Cluster) loseNode(m *Machine) {
	n := c.Nodes[m.Node]
	switch {
	case n == nil:
		return
	case n.Ready:
		c.setReady(n, false)
	case c.Now.Sub(n.ReadySince) > lostAfter:
		c.DeleteNode(n)
		return
	}
	c.due.add(c.Nodes[m.Node].ReadySince.Add(lostAfter+1), func() { c.loseNode(m) })
}

// podStart is how long the containers of a pod take to run after it was bound, if somebody may come before that.
const podStart = time.Second

// resizeAfter is how long after it was bound a pod is resized in place.
const resizeAfter = 20 * time.Second

// resizePod has a pod that is being bound resized in place later on, if its workload's pods are.
func (c *Cluster) resizePod(p *model.Pod) {
	i := slices.IndexFunc(c.Workloads, func(l *Workload) bool { return l.Class == p.Class && l.Resized != nil })
	if i < 0 {
		return
	}
	c.due.add(c.Now.Add(resizeAfter), func() {
		now := c.Pods[p.Key()]
		if now == nil || now.UID != p.UID || now.Node != p.Node || !now.Deleting.IsZero() {
			return
		}
		q := *now
		q.Class = c.Workloads[i].Resized
		c.SetPod(&q)
	})
}

// startPod has a kubelet start a pod that is being bound: beside an adversary that takes a moment, in which the node may go.
func (c *Cluster) startPod(p *model.Pod) {
	c.resizePod(p)
	if c.Faults.Adversary == nil {
		return
	}
	p.Starting = true
	c.due.add(c.Now.Add(podStart), func() {
		now, m := c.Pods[p.Key()], c.joined[p.Node]
		if now == nil || now.UID != p.UID || now.Node != p.Node || c.Nodes[p.Node] == nil || m == nil || m.Gone {
			return
		}
		q := *now
		q.Starting = false
		c.SetPod(&q)
	})
}

// RunsPods reports whether any pod has run on an existing node.
func (c *Cluster) RunsPods(node string) bool {
	for _, p := range c.on[node] {
		if !p.Starting {
			return true
		}
	}
	return false
}

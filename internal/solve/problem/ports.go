// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// hostPorts keeps pods apart that want one port of their node.
var hostPorts = NodeConstraint{
	Name:     "host ports",
	concerns: func(_ *Input, c *Class) bool { return !c.Ports.IsEmpty() },
	add:      func(used *Occupancy, c *Class) { used.Ports = used.Ports.Take(&c.Ports) },
	allows: func(used *Occupancy, c *Class, on NodeTraits) int64 {
		switch {
		case c.Ports.IsEmpty():
			return Unlimited
		case used.Ports.Refuse(&c.Ports), on.DaemonPorts != nil && c.Ports.ConflictsWith(on.DaemonPorts):
			return 0
		}
		return mostAlone(c)
	},
	fits:  func(used *Occupancy, o *Offer) bool { return !used.Ports.Refuse(&o.Ports) },
	alone: mostAlone,
	dominates: func(a, b *NodeTraits) bool {
		return a.DaemonPorts.IsEmpty()
	},
	explain: func(u *Usage, c *Class, pool int) *plan.Reason {
		for i := range c.Spec.HostPorts {
			for _, d := range u.inst.Daemons {
				if !c.Ports.ConflictsWith(&d.Ports) {
					continue
				}
				for _, p := range d.Spec.Pod().HostPorts {
					if p.Conflicts(c.Spec.HostPorts[i]) {
						return &plan.Reason{Code: plan.HostPortConflict, Detail: plan.OfHostPort{DaemonSet: d.Spec.Namespace + "/" + d.Spec.Name, Port: plan.PortOf(p)}}
					}
				}
			}
		}
		return nil
	},
}

// mostAlone returns how many pods of a class one node holds: those that only read from a disk share it.
func mostAlone(c *Class) int64 {
	if c.Ports.ConflictsWith(&c.Ports) {
		return 1
	}
	return Unlimited
}

// compilePorts numbers the ports and notes which of them classes and DaemonSets use.
func (s *problemCompiler) compilePorts() {
	s.in.ports.ids = map[portKey]int32{}
	each := func(number func(p *model.HostPort)) {
		for _, c := range s.inst.Classes {
			for i := range c.Spec.HostPorts {
				number(&c.Spec.HostPorts[i])
			}
		}
		for _, d := range s.in.Given.Daemons {
			for i := range d.Class.HostPorts {
				number(&d.Class.HostPorts[i])
			}
		}
	}
	add := func(k portKey) {
		if _, ok := s.in.ports.ids[k]; !ok {
			s.in.ports.ids[k] = int32(len(s.in.ports.ids))
		}
	}
	each(func(p *model.HostPort) { add(keyOf(p, "")) })
	each(func(p *model.HostPort) {
		if !isWhole(p) {
			add(keyOf(p, everyAddress))
		}
		if !isWhole(p) && p.Disk == "" {
			add(keyOf(p, p.IP))
		}
	})
	for _, c := range s.inst.Classes {
		c.Ports = s.in.ports.useOf(c.Spec.HostPorts)
	}
}

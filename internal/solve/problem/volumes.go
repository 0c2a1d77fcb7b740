// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// volumeLimits keeps a node from having more volumes of a CSI driver attached than the driver can.
var volumeLimits = NodeConstraint{
	Name:     "volume limits",
	concerns: func(_ *Input, c *Class) bool { return len(c.CsiVolumes) > 0 },
	add:      func(used *Occupancy, c *Class) { used.addVolumes(c.Spec) },
	allows: func(used *Occupancy, c *Class, on NodeTraits) int64 {
		if _, ok := volumesFit(c, used, on.CSILimits); !ok {
			return 0
		}
		return Unlimited
	},
	fits: func(used *Occupancy, o *Offer) bool {
		for driver, handles := range used.Handles {
			if limit, ok := o.CSILimits[driver]; ok && int64(len(handles)) > limit {
				return false
			}
		}
		return true
	},
	dominates: func(a, b *NodeTraits) bool { return limitsNoLess(a.CSILimits, b.CSILimits) },
	explain: func(u *Usage, c *Class, pool int) *plan.Reason {
		if len(c.CsiVolumes) == 0 {
			return nil
		}
		var out *plan.Reason // of the offer with room that attaches most
		most := int64(-1)
		lo, hi := u.catalog.PoolOfferRange(pool)
		for i := lo; i < hi; i++ {
			o := &u.catalog.Offers[i]
			if !c.Offers.Contains(i) || !IsWithin(&c.Req, o.Allocatable, u.in.NumDims) {
				continue
			}
			driver, ok := volumesFit(c, &Occupancy{}, o.CSILimits)
			if ok {
				return nil
			}
			if limit := o.CSILimits[driver]; limit > most {
				most = limit
				out = &plan.Reason{Code: plan.VolumeLimit, Detail: plan.OfVolumeLimit{InstanceType: o.InstanceType.Name, Driver: driver, Want: len(c.CsiVolumes),
					Have: int(limit)}}
			}
		}
		return out
	},
}

// limitsNoLess reports whether no limit is lower than the same one of b, by driver; a driver without one has no limit.
func limitsNoLess(a, b map[string]int64) bool {
	for driver, n := range a {
		if m, ok := b[driver]; !ok || m > n {
			return false
		}
	}
	return true
}

// exclusiveVolumes keeps a pod away from a volume that another pod has for itself. It is asked before a node is looked
// for: see PlaceablePods.
var exclusiveVolumes = NodeConstraint{
	explain: func(u *Usage, c *Class, pool int) *plan.Reason {
		if v := u.ExclusiveVolumeInUse(c); v != nil {
			return &plan.Reason{Code: plan.VolumeExclusive, Detail: plan.OfVolumeExclusive{Claim: v.Claim}}
		}
		return nil
	},
}

// addVolumes adds the volumes that one pod of the class has attached.
func (used *Occupancy) addVolumes(c *model.Class) {
	for i := range c.Volumes {
		if v := &c.Volumes[i]; v.Driver != "" {
			used.addHandle(v.Driver, v.Handle)
		}
	}
}

func (used *Occupancy) addHandle(driver, handle string) {
	if used.Handles == nil {
		used.Handles = map[string]map[string]bool{}
	}
	if used.Handles[driver] == nil {
		used.Handles[driver] = map[string]bool{}
	}
	used.Handles[driver][handle] = true
}

// leaving is how many volumes of a driver are attached that no pod uses any more. kube-scheduler counts them too.
func (used *Occupancy) leaving(driver string) (n int) {
	for i := range used.attached {
		if a := &used.attached[i]; a.Driver == driver && !used.Handles[driver][a.Handle] {
			n++
		}
	}
	return n
}

// volumesFit reports whether the volumes of a pod may be attached in addition to existing ones, and if not, whose limit
// they exceed. A volume attached twice counts once.
func volumesFit(c *Class, used *Occupancy, limits map[string]int64) (string, bool) {
	for i := range c.CsiVolumes {
		v := &c.CsiVolumes[i]
		limit, ok := limits[v.Driver]
		if !ok || slices.ContainsFunc(c.CsiVolumes[:i], func(u model.Volume) bool { return u.Driver == v.Driver }) {
			continue // no limit known, or this driver is done
		}
		added := map[string]bool{}
		for j := range c.CsiVolumes[i:] {
			if w := &c.CsiVolumes[i+j]; w.Driver == v.Driver && !used.Handles[w.Driver][w.Handle] {
				added[w.Handle] = true
			}
		}
		if len(added) > 0 && int64(len(used.Handles[v.Driver])+used.leaving(v.Driver)+len(added)) > limit {
			return v.Driver, false
		}
	}
	return "", true
}

// compileVolumesInUse collects the volumes that one pod alone may use and that one does use.
func (s *problemCompiler) compileVolumesInUse() {
	wanted := false
	for _, c := range s.inst.Classes {
		for _, v := range c.Spec.Volumes {
			wanted = wanted || v.Exclusive
		}
	}
	if !wanted {
		return
	}
	s.inst.InitialVolumesInUse = map[string]bool{}
	for _, x := range s.inst.Nodes.List {
		if x.Drained {
			continue
		}
		for _, p := range x.Pods {
			for _, v := range p.Class.Volumes {
				if v.Exclusive {
					s.inst.InitialVolumesInUse[v.ID()] = true
				}
			}
		}
	}
}

// UseExclusiveVolumes records that a pod of the class uses its volumes.
func (s *Usage) UseExclusiveVolumes(c *Class) {
	for i := range c.Spec.Volumes {
		if c.Spec.Volumes[i].Exclusive && s.volumesInUse != nil {
			s.volumesInUse[c.Spec.Volumes[i].ID()] = true
		}
	}
}

// ReleaseExclusiveVolumes reverts UseExclusiveVolumes.
func (s *Usage) ReleaseExclusiveVolumes(c *Class) {
	for i := range c.Spec.Volumes {
		if c.Spec.Volumes[i].Exclusive {
			delete(s.volumesInUse, c.Spec.Volumes[i].ID())
		}
	}
}

// ExclusiveVolumeInUse returns the first volume of the class that another pod uses exclusively, nil if there is none.
func (s *Usage) ExclusiveVolumeInUse(c *Class) *model.Volume {
	for i := range c.Spec.Volumes {
		if v := &c.Spec.Volumes[i]; v.Exclusive && s.volumesInUse[v.ID()] {
			return v
		}
	}
	return nil
}

// PlaceablePods returns how many more pods of a class may be placed at all: none if the class cannot be placed, at most
// one if its pods use a volume that only one pod may use.
func (s *Usage) PlaceablePods(c *Class) int {
	if c.Unplaced() == 0 || c.Unsolvable != "" || len(c.Missing) > 0 || c.Spec.Daemon || len(c.Spec.Unsolved) > 0 || c.Spec.VolumeProblem() != nil || c.Spec.Excess.What != "" {
		return 0
	}
	for i := range c.Spec.Volumes {
		if c.Spec.Volumes[i].Exclusive {
			if c.Assigned > 0 || s.ExclusiveVolumeInUse(c) != nil {
				return 0
			}
			return min(1, c.Unplaced())
		}
	}
	return c.Unplaced()
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Demand is the pods of one class for which machines must be launched, all with the same set of offers. Its pods are
// already counted in their topology domains.
type Demand struct {
	Class      *problem.Class
	Offers     *problem.OfferSet            // allowed offers
	permitted  *problem.OfferSet            // where offers is only what the class would rather have: all it may have; else nil
	Unbought   int64                        // pods without a machine yet
	total      int64                        // pods that it was made for
	assignment *topology.TopologyAssignment // where its pods are counted; nil where no topology ties the class

	collectedFor *problem.OfferSet // the offer set that it was collected for; see demandCollector
	next         *Demand           // another demand of the class, collected before
}

// releaseUnbought reverts the placement, and the exclusive use of volumes, of pods without a machine.
func (d *Demand) releaseUnbought(u *problem.Usage) {
	switch {
	case d.Unbought == 0:
	case d.Class.AsGroup == nil:
		d.Class.Assigned -= int(d.Unbought)
		u.ReleaseExclusiveVolumes(d.Class)
	default:
		for _, c := range d.Class.AsGroup.Members {
			c.Assigned = 0
			u.ReleaseExclusiveVolumes(c)
		}
	}
}

// countPods returns the number of pods of demands without a machine.
func countPods(demands []*Demand) (n int64) {
	for _, d := range demands {
		n += d.Unbought
	}
	return n
}

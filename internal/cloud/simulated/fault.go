// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"slices"
	"sort"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// hits reports whether a fault affects an offering.
func hits(f machines.Fault, k cloud.OfferingKey) bool {
	return (f.InstanceType == "" || f.InstanceType == k.InstanceType) && (f.Zone == "" || f.Zone == k.Zone) &&
		(f.CapacityType == "" || f.CapacityType == k.CapacityType)
}

func (f *activeFault) over(now time.Time) bool {
	return !f.until.IsZero() && !now.Before(f.until) || f.Count > 0 && f.left <= 0
}

// AddFault adds a fault.
func (m *Model) AddFault(f machines.Fault, now time.Time) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if f.Kind == machines.Interrupt {
		m.interrupt(f, now)
		return nil
	}
	a := &activeFault{Fault: f, left: f.Count}
	if f.Duration > 0 {
		a.until = now.Add(time.Duration(f.Duration))
	}
	m.faults = append(m.faults, a)
	return nil
}

// ClearFaults removes all faults. Machines that are already affected stay so.
func (m *Model) ClearFaults() { m.faults = nil }

// Faults returns the remaining faults, oldest first, with Count as the remaining number of occurrences.
func (m *Model) Faults(now time.Time) []machines.Fault {
	m.faults = slices.DeleteFunc(m.faults, func(f *activeFault) bool { return f.over(now) })
	out := make([]machines.Fault, len(m.faults))
	for i, f := range m.faults {
		out[i] = f.Fault
		if f.Count > 0 {
			out[i].Count = f.left
		}
	}
	return out
}

// CallFault returns the first fault of this kind that affects a call, and counts the occurrence.
func (m *Model) CallFault(kind, call string, now time.Time) (machines.Fault, bool) {
	for _, f := range m.faults {
		if f.Kind == kind && !f.over(now) && (f.Call == "" || f.Call == call) {
			f.left--
			return f.Fault, true
		}
	}
	return machines.Fault{}, false
}

// offeringFault returns the first fault of this kind that affects an offering, and counts the occurrence if take is set.
func (m *Model) offeringFault(kind string, k cloud.OfferingKey, now time.Time, take bool) *activeFault {
	for _, f := range m.faults {
		if f.Kind == kind && !f.over(now) && hits(f.Fault, k) {
			if take {
				f.left--
			}
			return f
		}
	}
	return nil
}

// interrupt announces the end of machines.
func (m *Model) interrupt(f machines.Fault, now time.Time) {
	var hit []*machines.Instance
	for _, in := range m.instances {
		if in.ClaimUID != "" && (in.State == machines.Pending || in.State == machines.Running) && in.Goes.IsZero() && hits(f, offeringOf(in)) {
			hit = append(hit, in)
		}
	}
	sort.Slice(hit, func(i, j int) bool {
		if !hit[i].Launched.Equal(hit[j].Launched) {
			return hit[i].Launched.Before(hit[j].Launched)
		}
		return hit[i].ID < hit[j].ID
	})
	if f.Count > 0 && len(hit) > f.Count {
		hit = hit[:f.Count]
	}
	after := time.Duration(f.Delay)
	if after == 0 {
		after = interruptAfter
	}
	for _, in := range hit {
		m.recordUntil(now, machines.RecordInterrupted, in, now.Add(after))
	}
}

// interruptAfter is the default notice period, the same as for EC2 spot instances.
const interruptAfter = 2 * time.Minute

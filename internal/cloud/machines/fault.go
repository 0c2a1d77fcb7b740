// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package machines

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Kinds of fault.
const (
	// OutOfCapacity: a launch finds no capacity in the offerings that match.
	OutOfCapacity = "out-of-capacity"
	// NeverRegisters: a machine launched in an offering that matches never gets a Node.
	NeverRegisters = "never-registers"
	// NeverReady: its Node comes without kwok.x-k8s.io/node, so nothing makes it Ready.
	NeverReady = "never-ready"
	// Throttle: a call is refused, to be repeated after Delay.
	Throttle = "throttle"
	// LostReply: a call has its effect, then the connection is closed without an answer.
	LostReply = "lost-reply"
	// Stall: a call waits for Delay before anything else.
	Stall = "stall"
	// ListLag: machines launched less than Delay ago are not listed.
	ListLag = "list-lag"
)

// MaxListLag is the longest ListLag, and what the provider states as its list delay.
const MaxListLag = 10 * time.Second

// Fault is something that goes wrong, as often as Count says (0: always) and for as long as Duration says (0: until cleared).
type Fault struct {
	Kind string `json:"kind"`

	// OutOfCapacity, NeverRegisters, NeverReady, Interrupt: which offerings; an empty field matches all.
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	Call  string   `json:"call,omitempty"` // Throttle, LostReply, Stall: launch, instances, terminate or offerings; empty: any
	Delay Duration `json:"delay,omitzero"` // Throttle, Stall, ListLag, Interrupt (0: two minutes)

	Count    int      `json:"count,omitempty"`
	Duration Duration `json:"duration,omitzero"`
}

// FaultList is the body of /v1/faults.
type FaultList struct {
	Faults []Fault `json:"faults"`
}

// Calls that faults can hit.
const (
	CallLaunch    = "launch"
	CallInstances = "instances"
	CallTerminate = "terminate"
	CallOfferings = "offerings"
)

// Validate says what is wrong with the fault.
func (f Fault) Validate() error {
	switch f.Kind {
	case OutOfCapacity, NeverRegisters, NeverReady, Interrupt:
	case Throttle, LostReply, Stall:
		if f.Call != "" && !slices.Contains([]string{CallLaunch, CallInstances, CallTerminate, CallOfferings}, f.Call) {
			return fmt.Errorf("fault %s: call: %q: use launch, instances, terminate or offerings", f.Kind, f.Call)
		}
	case ListLag:
		if time.Duration(f.Delay) > MaxListLag {
			return fmt.Errorf("fault %s: delay: %s: at most %s", f.Kind, time.Duration(f.Delay), MaxListLag)
		}
	default:
		return fmt.Errorf("fault: kind: %q: use %s, %s, %s, %s, %s, %s, %s or %s", f.Kind,
			OutOfCapacity, NeverRegisters, NeverReady, Interrupt, Throttle, LostReply, Stall, ListLag)
	}
	if f.Count < 0 {
		return fmt.Errorf("fault %s: count: %d: need at least 0", f.Kind, f.Count)
	}
	return nil
}

func (f Fault) hits(k cloud.OfferingKey) bool {
	return (f.InstanceType == "" || f.InstanceType == k.InstanceType) && (f.Zone == "" || f.Zone == k.Zone) &&
		(f.CapacityType == "" || f.CapacityType == k.CapacityType)
}

// activeFault is a fault being had.
type activeFault struct {
	Fault
	until time.Time // zero: not limited
	left  int       // with Count
}

func (f *activeFault) over(now time.Time) bool {
	return !f.until.IsZero() && !now.Before(f.until) || f.Count > 0 && f.left <= 0
}

// AddFault begins a fault.
func (m *Model) AddFault(f Fault, now time.Time) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if f.Kind == Interrupt {
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

// ClearFaults ends all faults; machines that have theirs keep it.
func (m *Model) ClearFaults() { m.faults = nil }

// Faults are those still to be had, oldest first; Count is what is left of it.
func (m *Model) Faults(now time.Time) []Fault {
	m.faults = slices.DeleteFunc(m.faults, func(f *activeFault) bool { return f.over(now) })
	out := make([]Fault, len(m.faults))
	for i, f := range m.faults {
		out[i] = f.Fault
		if f.Count > 0 {
			out[i].Count = f.left
		}
	}
	return out
}

// CallFault takes the first fault of this kind that hits a call.
func (m *Model) CallFault(kind, call string, now time.Time) (Fault, bool) {
	for _, f := range m.faults {
		if f.Kind == kind && !f.over(now) && (f.Call == "" || f.Call == call) {
			f.left--
			return f.Fault, true
		}
	}
	return Fault{}, false
}

// offeringFault finds the first fault of this kind that hits an offering, and takes it if told to.
func (m *Model) offeringFault(kind string, k cloud.OfferingKey, now time.Time, take bool) *activeFault {
	for _, f := range m.faults {
		if f.Kind == kind && !f.over(now) && f.hits(k) {
			if take {
				f.left--
			}
			return f
		}
	}
	return nil
}

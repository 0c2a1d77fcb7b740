// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package machines

import (
	"fmt"
	"slices"
	"time"
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
	// Interrupt: machines that match are taken away after Delay, and a notice says so at once. It hits running machines, the oldest first,
	// as many as Count says (0: all), and none that are launched later.
	Interrupt = "interrupt"
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

	Call  string   `json:"call,omitempty"` // Throttle, LostReply, Stall: launch, instances, terminate, reboot or offerings; empty: any
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
	CallReboot    = "reboot"
	CallOfferings = "offerings"
)

// Validate returns what is wrong with the fault.
func (f Fault) Validate() error {
	switch f.Kind {
	case OutOfCapacity, NeverRegisters, NeverReady, Interrupt:
	case Throttle, LostReply, Stall:
		if f.Call != "" && !slices.Contains([]string{CallLaunch, CallInstances, CallTerminate, CallReboot, CallOfferings}, f.Call) {
			return fmt.Errorf("fault %s: call: %q: use launch, instances, terminate, reboot or offerings", f.Kind, f.Call)
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

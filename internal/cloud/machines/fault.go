// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package machines

import (
	"fmt"
	"slices"
	"time"
)

// Kinds of Fault.
const (
	// OutOfCapacity means that no matching offering has capacity for a launch.
	OutOfCapacity = "out-of-capacity"
	// NeverRegisters means that a machine launched in a matching offering never gets a Node.
	NeverRegisters = "never-registers"
	// NeverReady means that the Node is created without kwok.x-k8s.io/node, so it never becomes Ready.
	NeverReady = "never-ready"
	// Throttle means that a call is rejected, with Delay as the delay before a retry.
	Throttle = "throttle"
	// LostReply means that a call takes effect, but the connection is closed before the response is sent.
	LostReply = "lost-reply"
	// Stall means that a call waits for Delay before it is processed.
	Stall = "stall"
	// ListLag means that machines launched less than Delay ago are not listed.
	ListLag = "list-lag"
	// Interrupt means that matching machines are interrupted after Delay, with an immediate notice. It affects running
	// machines, oldest first, at most Count (0: all), and none launched later.
	Interrupt = "interrupt"
)

// MaxListLag is the maximum ListLag, and the list delay that the provider reports.
const MaxListLag = 10 * time.Second

// Fault is an injected fault, which occurs Count times (0: always) and lasts for Duration (0: until cleared).
type Fault struct {
	Kind string `json:"kind"`

	// OutOfCapacity, NeverRegisters, NeverReady, Interrupt: matching offerings; an empty field matches all.
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

// Calls that faults can affect.
const (
	CallLaunch    = "launch"
	CallInstances = "instances"
	CallTerminate = "terminate"
	CallReboot    = "reboot"
	CallOfferings = "offerings"
)

// Validate returns an error if the fault is invalid.
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

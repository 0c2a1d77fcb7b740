// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Mode is whether a Headroom buys.
type Mode string

// The modes.
const (
	Off       Mode = "Off"
	Recommend Mode = "Recommend" // all is worked out and nothing bought
	Active    Mode = "Active"
)

// Spec is a Headroom as a person wrote it.
type Spec struct {
	Namespace, Name, UID string
	Generation           int64
	Created              time.Time
	Mode                 Mode
	Template             bool // the target is a PodTemplate, which has no replicas of its own
	Calendar             []WindowSpec
	Learned              Learned
	Limits               Limits
}

// Key is namespace/name.
func (s *Spec) Key() string { return s.Namespace + "/" + s.Name }

// WindowSpec is a window of the calendar as it is written. Replicas and Percent are negative where not given.
type WindowSpec struct {
	Name, Schedule, TimeZone string
	Duration                 time.Duration
	Replicas, Percent        int
	AsLastTime               bool
}

// Learned is how waiting is priced against idling; a cost that is negative is not given. TimeZone is the IANA name of
// the zone whose clock recurring spikes follow.
type Learned struct {
	Disabled              bool
	TimeZone              string
	WaitingCost, IdleCost int64
}

// Limits bound what a Headroom holds in sum.
type Limits struct {
	Replicas     int     // negative: none
	Resources    []Limit // in the order of their names
	MicroPerHour int64   // negative: none
}

// Limit is of one resource.
type Limit struct {
	Name string
	Dim  model.Dim
	Most int64
}

// WorkloadName names a workload of a namespace: a kind, such as Deployment or PodTemplate, a name, and the kind's API
// group.
type WorkloadName struct{ Namespace, Kind, Name, Group string }

// String returns kind/namespace/name, the kind in lower case.
func (w WorkloadName) String() string {
	return strings.ToLower(w.Kind) + "/" + w.Namespace + "/" + w.Name
}

// Workload is what room is held for, as it is now.
type Workload struct {
	WorkloadName
	Replicas int               // that it asks for, those without a node included; 0 for a PodTemplate
	Bound    int               // of its pods, those on a node
	Requests model.Resources   // of one pod
	Priority int32             // of its pods
	Prices   []Machine         // on which its pods can be; none: the price is not known
	History  *forecast.History // nil: none is kept
	// HistoryAwaited says that what was recorded of its demand before this process is still to be read: what History
	// says may not be all.
	HistoryAwaited bool
}

// Machine is an instance type as it can be launched for the pods of one workload.
type Machine struct {
	Pods         int   // how many fit on an empty one
	MicroPerHour int64 // its lowest price
}

// Cost is what room for n pods costs by the hour when all of it has to be launched on nodes of one instance type; false
// where no price is known.
func (w *Workload) Cost(n int) (micro int64, ok bool) {
	for _, m := range w.Prices {
		if m.Pods < 1 {
			continue
		}
		c := int64((n+m.Pods-1)/m.Pods) * m.MicroPerHour
		if !ok || c < micro {
			micro, ok = c, true
		}
	}
	return micro, ok
}

// Problem is why a Headroom can't be carried out: a field, its value, what is wrong and what to do.
type Problem struct {
	Reason string // of the condition Ready, in one word
	Field  string
	Value  string
	Why    string
	Remedy string
}

// The reasons.
const (
	InvalidSpec       = "InvalidSpec"
	TargetNotFound    = "TargetNotFound"
	TargetHeldTwice   = "TargetHeldTwice"
	TargetNotReadable = "TargetNotReadable"
)

// Error returns the problem as a sentence.
func (p Problem) Error() string {
	text := p.Field
	if p.Value != "" {
		text += " " + p.Value
	}
	return text + ": " + p.Why + ". " + p.Remedy + "."
}

// Object is a Headroom as the API server has it.
type Object struct {
	Spec
	Problems []Problem // of what can't be read at all
	Kept     Memory    // what its status keeps of the last look
}

// Target is a workload that a Headroom is for, as the API server has it.
type Target struct {
	WorkloadName
	Replicas int
	Class    *model.Class // of one of its pods; nil: not known
}

// Targeted is a Headroom with the workloads that it is for.
type Targeted struct {
	Object  // what can't be resolved is among its Problems
	Targets []Target
}

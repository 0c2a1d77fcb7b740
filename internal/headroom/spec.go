// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Mode defines whether a Headroom launches nodes.
type Mode string

// The modes.
const (
	Off       Mode = "Off"
	Recommend Mode = "Recommend" // compute everything, launch nothing
	Active    Mode = "Active"
)

// Spec is the parsed spec of a Headroom.
type Spec struct {
	Namespace, Name, UID string
	Generation           int64
	Created              time.Time
	Mode                 Mode
	Template             bool // the target is a PodTemplate, which has no replicas
	Calendar             []WindowSpec
	Learned              Learned
	Limits               Limits
}

// Key returns namespace/name.
func (s *Spec) Key() string { return s.Namespace + "/" + s.Name }

// WindowSpec is a calendar window as specified. Replicas and Percent are negative if unset.
type WindowSpec struct {
	Name, Schedule, TimeZone string
	Duration                 time.Duration
	Replicas, Percent        int
	AsLastTime               bool
}

// Learned configures the cost of waiting relative to idling; a negative cost is unset. TimeZone is the IANA name of the zone that
// recurring spikes follow.
type Learned struct {
	Disabled              bool
	TimeZone              string
	WaitingCost, IdleCost int64
}

// Limits limit the total capacity that a Headroom holds.
type Limits struct {
	Replicas     int     // negative: no limit
	Resources    []Limit // sorted by name
	MicroPerHour int64   // micro-dollars per hour; negative: no limit
}

// Limit is the limit of one resource.
type Limit struct {
	Name string
	Dim  model.Dim
	Most int64
}

// WorkloadName identifies a workload: a namespace, a kind such as Deployment or PodTemplate, a name, and the API group of the kind.
type WorkloadName struct{ Namespace, Kind, Name, Group string }

// String returns kind/namespace/name, with the kind in lower case.
func (w WorkloadName) String() string {
	return strings.ToLower(w.Kind) + "/" + w.Namespace + "/" + w.Name
}

// Workload is the current state of a workload for which capacity is held.
type Workload struct {
	WorkloadName
	Replicas int               // requested replicas, including replicas without a node; 0 for a PodTemplate
	Bound    int               // number of its pods on a node
	Requests model.Resources   // per pod
	Priority int32             // priority of its pods
	Prices   []Machine         // instance types for its pods; none: price unknown
	History  *forecast.History // nil: no history
	// HistoryAwaited: demand recorded before this process started has not been read yet, so History may be incomplete.
	HistoryAwaited bool
}

// Machine is an instance type as launched for the pods of one workload.
type Machine struct {
	Pods         int   // number of pods that fit on an empty node
	MicroPerHour int64 // lowest price, in micro-dollars per hour
}

// Cost returns the hourly cost of capacity for n pods, in micro-dollars, if all of it is launched on nodes of one instance type; ok
// is false if no price is known.
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

// Problem is an error in a Headroom: a field, its value, what is wrong, and the remedy.
type Problem struct {
	Reason string // reason of condition Ready, in CamelCase
	Field  string
	Value  string
	Why    string
	Remedy string
}

// Reasons of problems.
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

// Object is a Headroom as stored in the API server.
type Object struct {
	Spec
	Problems []Problem // errors that prevent parsing
	Kept     Memory    // Memory of the last evaluation, stored in its status
}

// Target is a target workload of a Headroom, as stored in the API server.
type Target struct {
	WorkloadName
	Replicas int
	Class    *model.Class // class of its pods; nil: unknown
}

// Targeted is a Headroom with its target workloads.
type Targeted struct {
	Object  // unresolved targets are among its Problems
	Targets []Target
}

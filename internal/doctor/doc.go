// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package doctor examines a cluster: what its nodes cost, what they could cost at least, and what stands between.
//
// A Snapshot goes in and findings come out, as typed data; report writes them for people. What a blocker costs is found
// by asking decide for the same cluster without it. The package reads no API server and no clock, and changes nothing.
//
// Invariants: LeastMicro <= RepackedMicro <= ConsolidatedMicro <= NowMicro. A finding names a change wherever one
// exists, and after that change the same examination no longer makes the finding. Equal inputs give equal reports.
//
// Start reading at Examine.
package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Input is all that an examination looks at. It is never written to.
type Input struct {
	Snapshot *model.Snapshot
	Now      time.Time
	Policy   decide.Policy

	// Types are instance types with prices, by name. They price nodes of no NodePool, and where there is no NodePool
	// that may launch nodes they are what a repacked cluster is made of.
	Types []*model.InstanceType

	FullQuotas []FullQuota // ResourceQuotas that leave pods nothing of a resource

	Denied      []Denied     // kinds that could not be read
	Autoscalers []Autoscaler // those that hold their lease
	CloudQuotas []CloudQuota // quotas of the cloud's account that launches were refused for
}

// CloudQuota is a quota of the cloud's account for which a launch was refused, as the autoscaler's event says.
type CloudQuota struct {
	Name    string    // as the cloud calls it
	Size    string    // empty: not said
	Subject string    // of the last event: nodeclaim/NAME …
	At      time.Time // of the last event
}

// Denied is a kind of objects that could not be read, and so was taken as having none.
type Denied struct {
	Resource string `json:"resource"` // plural, as in a rule of a ClusterRole
	Group    string `json:"group"`    // API group; empty: core
	Why      string `json:"why"`
}

// FullQuota is a resource of which a ResourceQuota leaves nothing. Pods that ask for more are refused before they are
// there, so that nothing says how many they would be.
type FullQuota struct {
	Namespace, Name, Resource string
	Used, Hard                string // quantities
	Twice                     string // of Hard
}

// Autoscaler is a node autoscaler that is live.
type Autoscaler struct {
	Name  string `json:"name"`
	Lease string `json:"lease"` // namespace/name of the lease that it holds
}

// Severity says what a finding does to a cluster. The lower comes first.
type Severity int

// The severities.
const (
	Broken Severity = iota // something does not work: pods wait, a pool can launch nothing
	Costly                 // something costs dollars
	Risky                  // something may go wrong, or makes the figures uncertain
)

// String names a severity as JSON has it.
func (s Severity) String() string { return [...]string{"broken", "costly", "risky"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Code names a kind of finding.
type Code string

// Finding is one thing wrong with the cluster, or in the way of a cheaper one.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`        // what it is about: deployment/NAMESPACE/NAME, nodepool/NAME …
	Key      string   `json:"key,omitempty"`  // field, annotation or resource
	Have     string   `json:"have,omitempty"` // what that is now
	Pods     []string `json:"pods,omitempty"` // namespace/name of those concerned, sorted
	Nodes    []string `json:"nodes,omitempty"`

	// Draining are those of Nodes that are being deleted, which this keeps from being drained for good; DrainingMicro is what they cost.
	Draining      []string `json:"nodesDraining,omitempty"`
	DrainingMicro int64    `json:"drainingMicroUSDPerHour,omitempty"`

	// HeldMicro is what Nodes cost, in micro-dollars an hour. SavingMicro is what the cluster would cost less after
	// consolidation without this finding, all others left as they are; it is known where Priced, and 0 where something
	// else holds the same nodes: AlsoHeld are the codes of that.
	HeldMicro   int64  `json:"heldMicroUSDPerHour,omitempty"`
	SavingMicro int64  `json:"savingMicroUSDPerHour,omitempty"`
	Priced      bool   `json:"priced,omitempty"`
	AlsoHeld    []Code `json:"alsoHeldBy,omitempty"`

	// Changes are the edits that end it, all of them needed; none: it has no remedy that is an edit of an object.
	Changes []plan.Change `json:"changes,omitempty"`
	Reason  plan.Reason   `json:"reason,omitzero"` // of a pod that fits nowhere
}

// Report is what an examination found.
type Report struct {
	Compared
	Pools       int          `json:"nodePools"`
	Autoscalers []Autoscaler `json:"autoscalers,omitempty"`
	Findings    []Finding    `json:"findings"` // broken first, then by saving, code and subject
}

// Examine reads a cluster and returns what it found. A cluster without nodes and pods has no findings.
func Examine(in Input) *Report {
	x := newExam(in)
	x.compare()
	out := &Report{Compared: x.compared, Pools: len(in.Snapshot.Pools), Autoscalers: in.Autoscalers}
	out.Findings = x.findHolds()
	for _, find := range []func() []Finding{
		x.findUnplaceable, x.findUnusedLaunches, x.findDriftBackOffs, x.findCloudQuotas, x.findPools, x.findOverlaps, x.findLimits, x.findFullGroups, x.findQuotas, x.findFullQuotas, x.findSpot, x.findFewTypes, x.findOnePerNode,
		x.findNodes, x.findEmptyNodes, x.findClaims, x.findStuckDeletions, x.findNoRequests, x.findSingleReplicas,
		x.findUnpriced, x.findAutoscalers, x.findDenied,
	} {
		out.Findings = append(out.Findings, find()...)
	}
	slices.SortStableFunc(out.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(b.SavingMicro, a.SavingMicro),
			cmp.Compare(b.HeldMicro, a.HeldMicro), strings.Compare(string(a.Code), string(b.Code)), strings.Compare(a.Subject, b.Subject))
	})
	return out
}

// Problems counts the findings that are broken or costly.
func (r *Report) Problems() int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Severity != Risky {
			n++
		}
	}
	return n
}

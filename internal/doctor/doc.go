// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package doctor examines a cluster: the cost of its nodes, its minimum cost, and what explains the difference. It
// takes a Snapshot and returns findings as typed data, which report renders. The cost of a blocker is the difference
// to a decision for the same cluster without it.
//
// The package reads no API server and no clock, and changes nothing.
//
// Invariants: LeastMicro <= RepackedMicro <= ConsolidatedMicro <= NowMicro. If a change resolves a finding, the
// finding names it, and the same examination after the change no longer has the finding. Equal inputs give equal
// reports. Start reading at Examine.
package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/explain"
)

// String names a severity as JSON has it.
func (s Severity) String() string { return [...]string{"broken", "costly", "risky"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

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
	out.Findings = append(x.findHolds(), x.compared.Blocked...)
	for _, f := range x.compared.Blocked {
		x.waitedFor[f.Subject+" "+f.Key] = true
		for _, o := range f.Others {
			x.waitedFor[o.Subject+" "+o.Key] = true
		}
	}
	for _, find := range []func() []Finding{
		x.findUnplaceable, x.findUnusedLaunches, x.findDriftBackOffs, x.findCloudQuotas, x.findPools, x.findOverlaps, x.findLimits, x.findFullGroups, x.findQuotas, x.findFullQuotas, x.findSpot, x.findFewTypes, x.findOnePerNode,
		x.findNodes, x.findEmptyNodes, x.findClaims, x.findStuckDeletions, x.findNoRequests, x.findSingleReplicas,
		x.findUnpriced, x.findAutoscalers, x.findDenied, x.findDeniedWrites,
	} {
		out.Findings = append(out.Findings, find()...)
	}
	withDrift := explain.WithDrift(in.Snapshot, in.Now, in.Policy)
	for i := range out.Findings {
		f := &out.Findings[i]
		for j := range f.Changes {
			f.Changes[j] = withDrift(f.Changes[j])
		}
		f.Changes = explain.AtSource(in.Snapshot, f.Changes)
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

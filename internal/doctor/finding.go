// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Input contains everything that an examination reads. It is read-only.
type Input struct {
	Snapshot *model.Snapshot
	Now      time.Time
	Policy   decide.Policy

	// Types are instance types with prices, by name. They price nodes that belong to no NodePool. If no NodePool may
	// launch nodes, a repacked cluster consists of these types.
	Types []*model.InstanceType

	FullQuotas []FullQuota // ResourceQuotas that are used up for a resource

	Denied      []Denied     // kinds that could not be read
	Autoscalers []Autoscaler // node autoscalers that hold their Lease
	CloudQuotas []CloudQuota // quotas of the cloud account because of which launches failed

	Writes []Write // writes by Dovetail that the API server rejected, or accepted after an earlier rejection
}

// Write is a write by Dovetail, as reported by an event.
type Write struct {
	Subject string // subject of the event: node/NAME, pod/NAMESPACE/NAME …
	At      time.Time
	plan.WriteReport
}

// Autoscaler is a running node autoscaler.
type Autoscaler struct {
	Name  string `json:"name"`
	Lease string `json:"lease"` // namespace/name of the Lease that it holds
}

// Severity is the impact of a finding on the cluster. Lower values are listed first.
type Severity int

// Severities of findings.
const (
	Broken Severity = iota // something does not work: pods are pending, or a NodePool cannot launch nodes
	Costly                 // something causes avoidable cost
	Risky                  // something may fail, or makes the figures uncertain
)

// Code identifies a kind of finding.
type Code string

// Finding is a problem of the cluster, or something that prevents a cheaper cluster.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`               // the affected object: deployment/NAMESPACE/NAME, nodepool/NAME …
	Key      string   `json:"key,omitempty"`         // field, annotation or resource
	Have     string   `json:"have,omitempty"`        // current value of Key
	Others   []Limit  `json:"otherLimits,omitempty"` // of LimitBlocks: limits that must also be raised for the saving
	Pods     []string `json:"pods,omitempty"`        // namespace/name of the affected pods, sorted
	Nodes    []string `json:"nodes,omitempty"`

	// Draining lists those of Nodes that are being deleted and that this finding keeps from being drained indefinitely.
	// DrainingMicro is their cost.
	Draining      []string `json:"nodesDraining,omitempty"`
	DrainingMicro int64    `json:"drainingMicroUSDPerHour,omitempty"`

	// HeldMicro is the cost of Nodes, in micro-dollars per hour. SavingMicro is the additional saving by consolidation
	// if this finding were fixed and all others remained. It is known if Priced is true, and 0 if other findings hold
	// the same nodes. AlsoHeld lists the codes of those findings.
	HeldMicro   int64  `json:"heldMicroUSDPerHour,omitempty"`
	SavingMicro int64  `json:"savingMicroUSDPerHour,omitempty"`
	Priced      bool   `json:"priced,omitempty"`
	AlsoHeld    []Code `json:"alsoHeldBy,omitempty"`

	// Changes are the edits that fix the problem. All of them are needed. If empty, no edit of an object fixes it.
	Changes []plan.Change `json:"changes,omitempty"`
	Reason  plan.Reason   `json:"reason,omitzero"` // reason why a pod fits nowhere
}

// Limit is a limit that must be raised in addition to the limit of a finding.
type Limit struct {
	Subject string `json:"subject"`
	Key     string `json:"key"`
	Have    string `json:"have"` // what the limit leaves
}

// hold is an obstacle that keeps nodes from being changed.
type hold struct {
	code      Code
	subject   string
	key, have string
	pods      map[string]bool
	nodes     map[*model.Node]bool
	changes   []plan.Change
	edit      func(*model.Snapshot) // edit that ends the hold; nil: allowing the removal of its nodes ends it
}

// templateChange returns the change of a pod's field, made in the pod template of its workload.
func templateChange(p *model.Pod, field string, op plan.Op, value string) []plan.Change {
	object := workloadOf(p)
	if !strings.HasPrefix(object, "pod/") {
		field = "spec.template." + field
	}
	return []plan.Change{{Object: object, Field: field, Op: op, Value: value}}
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// Compared compares the current cluster with a repacked one. Prices are in micro-dollars per hour, and include only
// nodes with a known price.
type Compared struct {
	Nodes    int `json:"nodes"`
	Unpriced int `json:"nodesWithoutPrice"`
	Pods     int `json:"pods"` // number of pods that are scheduled, or waiting to be scheduled
	Pending  int `json:"podsPending"`

	NowMicro          int64 `json:"nowMicroUSDPerHour"`
	ConsolidatedMicro int64 `json:"consolidatedMicroUSDPerHour"` // after consolidation, with all obstacles left in place
	RepackedMicro     int64 `json:"repackedMicroUSDPerHour"`     // if every pod may be rescheduled
	LeastMicro        int64 `json:"leastMicroUSDPerHour"`        // lower bound: no packing of the same pods costs less

	// PendingMicro is the cost of nodes for the currently pending pods. The three figures after NowMicro include it.
	// They are compared with the sum of NowMicro and PendingMicro.
	PendingMicro int64 `json:"pendingMicroUSDPerHour,omitempty"`

	// SetAside lists the pending pods, as namespace/name, for which no node can be launched at present. No figure
	// includes nodes for them: if they were packed with the others, they would only take capacity from running pods.
	SetAside []string `json:"podsSetAside,omitempty"`

	// Assumed reports that a NodePool is assumed, because none may launch nodes. See Input.Types.
	Assumed bool `json:"assumedPool,omitempty"`

	// Blocked are the limits that leave too little for replacements, as findings. A replacement is launched before its
	// node is removed. The figures include only what is possible within these limits.
	Blocked []Finding `json:"blockedByLimits,omitempty"`

	// Paused are the NodePools whose disruption budgets allow no consolidation now, but will later. The figures apply
	// to that later time.
	Paused []Pause `json:"paused,omitempty"`

	Moves         Moves `json:"moves"`       // changes that reach ConsolidatedMicro
	RepackedMoves Moves `json:"repackMoves"` // changes that reach RepackedMicro
}

// CloudQuota is a quota of the cloud account because of which a launch failed, as reported by an event of the
// autoscaler.
type CloudQuota struct {
	Name    string    // name used by the cloud
	Size    string    // empty: unknown
	Subject string    // subject of the last event: nodeclaim/NAME …
	At      time.Time // time of the last event
}

// Denied is a kind of objects that could not be read. It is treated as if there were none.
type Denied struct {
	Resource string `json:"resource"` // plural, as in a ClusterRole rule
	Group    string `json:"group"`    // API group; empty: core
	Why      string `json:"why"`
}

// FullQuota is a resource of which a ResourceQuota leaves nothing. Pods that request more are rejected when they are
// created, so their number is unknown.
type FullQuota struct {
	Namespace, Name, Resource string
	Used, Hard                string // quantities
	Twice                     string // twice the value of Hard
}

// Pause is a disruption budget that allows no consolidation for some time.
type Pause struct {
	Subject string    `json:"subject"` // nodepool/NAME
	Field   string    `json:"field"`   // field of the budget
	Until   time.Time `json:"until"`   // when the budgets of the NodePool allow consolidation again
}

// Moves are the node changes from one set of nodes to another.
type Moves struct {
	Removed  int       `json:"nodesRemoved"`
	Names    []string  `json:"nodes"`    // names of the removed nodes, in order
	Launched []Machine `json:"launched"` // highest total price first
	Pods     int       `json:"podsRescheduled"`
}

// workloadOf returns the workload that recreates a pod and has its pod template, or the pod itself if it has none.
func workloadOf(p *model.Pod) string {
	if w, ok := p.Workload(); ok {
		return w.String()
	}
	return "pod/" + p.Key()
}

// Machine is a number of nodes of one offering.
type Machine = plan.Machine

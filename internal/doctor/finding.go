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

	Writes []Write // writes of Dovetail that the API server refused, or accepted after it had refused them
}

// Write is what an event reports of a write of Dovetail.
type Write struct {
	Subject string // of the event: node/NAME, pod/NAMESPACE/NAME …
	At      time.Time
	plan.WriteReport
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

// Code names a kind of finding.
type Code string

// Finding is one thing wrong with the cluster, or in the way of a cheaper one.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`               // what it is about: deployment/NAMESPACE/NAME, nodepool/NAME …
	Key      string   `json:"key,omitempty"`         // field, annotation or resource
	Have     string   `json:"have,omitempty"`        // what that is now
	Others   []Limit  `json:"otherLimits,omitempty"` // of LimitBlocks: only with these raised too the saving is there
	Pods     []string `json:"pods,omitempty"`        // namespace/name of those concerned, sorted
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

// Limit is a limit next to the one that a finding is about.
type Limit struct {
	Subject string `json:"subject"`
	Key     string `json:"key"`
	Have    string `json:"have"` // what it leaves
}

// hold is one thing that keeps nodes as they are.
type hold struct {
	code      Code
	subject   string
	key, have string
	pods      map[string]bool
	nodes     map[*model.Node]bool
	changes   []plan.Change
	edit      func(*model.Snapshot) // what ends it is no node that may go alone, but this; nil: it is
}

// templateChange is a change of a pod's field, made in the template that it comes from.
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

// Compared is today's cluster beside a repacked one. Prices are in micro-dollars an hour, and of nodes whose price is
// known.
type Compared struct {
	Nodes    int `json:"nodes"`
	Unpriced int `json:"nodesWithoutPrice"`
	Pods     int `json:"pods"` // that a scheduler placed, or is to place
	Pending  int `json:"podsPending"`

	NowMicro          int64 `json:"nowMicroUSDPerHour"`
	ConsolidatedMicro int64 `json:"consolidatedMicroUSDPerHour"` // with all that holds nodes left as it is
	RepackedMicro     int64 `json:"repackedMicroUSDPerHour"`     // when every pod may be rescheduled
	LeastMicro        int64 `json:"leastMicroUSDPerHour"`        // lower bound: no packing of the same pods costs less

	// PendingMicro is what nodes for pods that are pending now cost; it is in the three figures after NowMicro, which
	// are then compared with the sum of both.
	PendingMicro int64 `json:"pendingMicroUSDPerHour,omitempty"`

	// SetAside are the pending pods, by namespace/name, for which no node can be launched as things stand. No figure has
	// what nodes for them would cost: packed with the others they would only take capacity from pods that run.
	SetAside []string `json:"podsSetAside,omitempty"`

	// Assumed says that there is no NodePool to launch from, so that one is assumed: see Input.Types.
	Assumed bool `json:"assumedPool,omitempty"`

	// Blocked are the limits that leave too little for replacements, as findings: a replacement is launched before the node that it replaces goes. Only what is
	// possible within them is in the figures.
	Blocked []Finding `json:"blockedByLimits,omitempty"`

	// Paused are the NodePools whose disruption budgets allow no consolidation now, but do later. The figures are for then.
	Paused []Pause `json:"paused,omitempty"`

	Moves         Moves `json:"moves"`       // to what ConsolidatedMicro costs
	RepackedMoves Moves `json:"repackMoves"` // to what RepackedMicro costs
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

// Pause is a disruption budget that allows no consolidation for some time.
type Pause struct {
	Subject string    `json:"subject"` // nodepool/NAME
	Field   string    `json:"field"`   // of the budget
	Until   time.Time `json:"until"`   // when the budgets of the NodePool allow consolidation again
}

// Moves is how one set of nodes becomes another.
type Moves struct {
	Removed  int       `json:"nodesRemoved"`
	Launched []Machine `json:"launched"` // dearest in sum first
	Pods     int       `json:"podsRescheduled"`
}

// workloadOf names what makes a pod again, and has the template that its spec comes from; the pod itself where nothing
// does.
func workloadOf(p *model.Pod) string {
	if w, ok := p.Workload(); ok {
		return w.String()
	}
	return "pod/" + p.Key()
}

// Machine is so many nodes of one offering.
type Machine = plan.Machine

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"time"
)

// Slot is capacity on a NodeClaim that is reserved for pods of one class and one owner (contract 9).
type Slot struct {
	Class    string // hash of Class.Key
	Owner    string // uid of the pods' controller; for a pod without one, the pod's uid
	Count    int
	Requests Resources // of one pod
	Loose    bool      // the pods tolerate every taint, so no reservation keeps them on the node
}

// Claim is a NodeClaim.
type Claim struct {
	Name, UID     string
	Pool          string // empty: standalone
	Requirements  Requirements
	Labels        Labels
	Annotations   Labels
	Taints        []Taint
	StartupTaints []Taint
	Requests      Resources

	ClassGroup, ClassKind, ClassName string

	ExpireAfter            time.Duration // negative: Never
	TerminationGracePeriod time.Duration // of the NodeClaim: how long its drain waits for pods, from Deleting on. Copied from the NodePool at launch; negative: no limit. See lifecycle.Deadline

	Created      time.Time
	Deleting     time.Time // zero: not being deleted
	HasFinalizer bool

	OtherFinalizers []string // finalizers of other controllers

	ProviderID  string
	NodeName    string
	ImageID     string
	Capacity    Resources // status
	Allocatable Resources

	Conditions   map[string]Condition
	LastPodEvent time.Time

	// Exact landing (contract 9).
	Reserved    bool
	Slots       []Slot // sorted by class, owner
	SlotsUnsure bool   // the last write of Slots had no response, so it is unknown whether they were stored
	NoReserve   string // why it was launched without a reservation; empty: it has one

	// Maker identifies the creator of a NodeClaim that Dovetail did not create: its controller, the prefix of its generated
	// name, or its name. Empty: Dovetail created it.
	Maker string

	// Orphan: the NodeClaim was created for a NodePool, but no NodePool owns it, for example after a deletion with
	// --cascade=orphan.
	Orphan bool

	// Provisional: the NodeClaim is planned and being created; UID is empty.
	Provisional bool
}

// Is reports whether a condition of the NodeClaim is True.
func (c *Claim) Is(condition string) bool { return c.Conditions[condition].True() }

// IsStartupTaint reports whether a taint is a startup taint of the NodeClaim.
func (c *Claim) IsStartupTaint(t Taint) bool {
	return slices.ContainsFunc(c.StartupTaints, func(s Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// NodeGroup returns the node group in which the NodeClaim's machine was or will be launched. Empty: none, or not decided yet.
func (c *Claim) NodeGroup() string {
	if c == nil {
		return ""
	}
	if g := c.Labels[LabelNodeGroup]; g != "" {
		return g
	}
	if q := c.Requirements.Get(LabelNodeGroup); q != nil && !q.Complement && len(q.Values) == 1 {
		return q.Values[0]
	}
	return ""
}

// LaunchPriceMicro returns the price of the NodeClaim's node at launch in micro-dollars per hour. 0: unknown, or c is nil.
func (c *Claim) LaunchPriceMicro() int64 {
	if c == nil {
		return 0
	}
	return LaunchPriceMicro(c.Annotations)
}

// LaunchPriceMicro returns the launch price that the controller stored in these annotations, in micro-dollars per hour. 0:
// none, or an estimate.
func LaunchPriceMicro(annotations map[string]string) int64 {
	if annotations[AnnotationLaunchPriceEstimated] == "true" {
		return 0
	}
	micro, _ := ParseDollars(annotations[AnnotationLaunchPrice])
	return micro
}

// AnnotatedPriceMicro returns the price of a node with these annotations in micro-dollars per hour. 0: none.
func AnnotatedPriceMicro(annotations map[string]string) int64 {
	micro, _ := ParseDollars(annotations[AnnotationPrice])
	return micro
}

// Instance is a machine as listed by its cloud.
type Instance struct {
	ProviderID string
	ClaimUID   string // empty: it was not launched for a NodeClaim of this cluster, and must not be garbage-collected
	ClaimName  string
	Launched   time.Time
	Gone       bool // shutting down or terminated
	Coming     bool `json:",omitempty"` // requested from a node group, but not started yet

	// Unreserved are the labels to change because the capacity reservation that the NodeClaim names has ended. An empty value
	// removes the label. nil: nothing changes. Shared, never modified.
	Unreserved Labels

	// For a member of a node group without a NodeClaim, if one may be created for it.
	ClassKind, Class string // the node class of its group; empty: no NodeClaim is created

	Labels Labels // type, zone, capacity type, group
	// Replacing: the cloud is replacing the members of the group, or may be. No pod needs the new members yet, so they get a
	// NodeClaim only if the node class still requires it, to keep nodes of the group from being removed.
	Replacing bool

	// GivenUp is when this member was found to be a late start for a NodeClaim that no longer exists. It is terminated unless
	// a NodeClaim is created for it. Zero: it is not.
	GivenUp time.Time
}

// Outage is a time in which the cloud did not say which machines there are.
type Outage struct{ From, To time.Time }

// UnmadeClaim is a NodeClaim that the API server, or an admission policy, has refused.
type UnmadeClaim struct {
	Claim, Pool, Group string // the pool by name
	Slots              []Slot
	At                 time.Time
	Message            string
}

// LaunchFailure is why the last launch of a claim failed.
type LaunchFailure struct {
	Kind    string // as in cloud.Kind
	Message string
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Provider launches and terminates machines. All methods are safe for concurrent use.
type Provider interface {
	// Traits returns constant properties of the provider.
	Traits() Traits

	// Offerings returns what a pool with this node class may launch: sorted by type name, and the offerings of each type by zone,
	// then capacity type. It may contain types that the pool's requirements exclude; the solver excludes them. A price of 0 is
	// unknown: Priced replaces it. The result is shared and read-only. While nothing changes, the same slice is returned, so callers
	// can compare its address.
	//
	// Errors: NotReady if the class cannot be used, Throttled, Denied, Unknown.
	Offerings(ctx context.Context, pool *model.NodePool, class NodeClass) ([]*model.InstanceType, error)

	// Launch launches one machine per request: the cheapest available offering that the request allows or, for spot, one that
	// the cloud prefers because of its capacity at little more. Results are in the order of the requests. A repeated request
	// with the same ClaimUID (concurrent, after a lost response, or after a restart of either side) launches nothing and
	// returns the result of the first one; if that machine is gone, NotFound. If the context ends, items get its error; their
	// machines may have been launched, which a repeated request reports. Errors of an item: InsufficientCapacity with the
	// offerings without capacity, NotFound, NotReady, Throttled, Denied, Unknown.
	Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult

	// List returns every machine with a NodeClaim of this cluster, by provider ID. It contains a launched machine at most
	// Traits.ListDelay after Launch returned. A machine that is gone is missing or has Gone set. Errors: Throttled, Denied,
	// Unknown.
	List(ctx context.Context) ([]model.Instance, error)

	// Terminate terminates machines. Errors are in the order of the IDs: nil if this call terminates the machine, NotFound if
	// it is unknown or already being terminated.
	Terminate(ctx context.Context, providerIDs []string) []error
}

// Traits are constant properties of a provider.
type Traits struct {
	Name    string
	Classes []ClassKind // node classes it serves
	// NodeLabels are the keys of labels that only this provider's nodes have. Node metrics have them as labels.
	NodeLabels []string
	ListDelay  time.Duration // maximum lag of List behind Launch; the absence of a younger machine means nothing
}

// Serves reports whether the provider serves node classes of this group and kind.
func (t Traits) Serves(group, kind string) bool {
	for _, c := range t.Classes {
		if c.Group == group && c.Kind == kind {
			return true
		}
	}
	return false
}

// ClassKind is a kind of node class.
type ClassKind struct{ Group, Kind string }

// NodeClass is a node class as stored in the API server. Only its provider reads Spec.
type NodeClass struct {
	Group, Kind, Name, UID string
	Generation             int64
	Created                time.Time // zero: not known
	Annotations            model.Labels
	Spec                   []byte // JSON of the object's spec; empty: an empty spec
}

// LaunchRequest is a request for one machine.
type LaunchRequest struct {
	ClaimName, ClaimUID string    // ClaimUID is the idempotency key
	ClaimCreated        time.Time // creation time of the NodeClaim; zero: unknown, treated as now
	Pool                string    // empty: standalone claim
	Class               NodeClass

	// Allowed offerings: those that satisfy Requirements, with a type in Types, a zone in Zones and a capacity type in
	// CapacityTypes (an empty list allows all), and whose allocatable resources cover Requests.
	Requirements  model.Requirements
	Types         []string
	Zones         []string
	CapacityTypes []string
	Requests      model.Resources

	// Prices are prices of some of these offerings in micro-dollars per hour, set by NodeOverlays. They replace the
	// provider's prices in the choice of the cheapest offering.
	Prices map[OfferingKey]int64

	// Properties of the node when it registers. The provider adds the labels of the selected offering, and the bootstrap
	// taint karpenter.sh/unregistered:NoExecute.
	NodeLabels    model.Labels
	Annotations   model.Labels
	Taints        []model.Taint
	StartupTaints []model.Taint

	// Unavailable are offerings that recently had no capacity. A provider does not request them, unless it already did for
	// this NodeClaim. If no other is allowed, it returns InsufficientCapacity with them. Read-only.
	Unavailable map[OfferingKey]bool
	// ShiftedZones are zones in which nothing is launched now, even with capacity.
	ShiftedZones []string
	// Following is the number of launches from the same node group that will follow shortly. A provider that serves several
	// at once may wait for them.
	Following int
}

// PriceMicro returns the price of an offering for the request, in micro-dollars per hour.
func (r *LaunchRequest) PriceMicro(instanceType string, o *model.Offering) int64 {
	if v, ok := r.Prices[OfferingKey{InstanceType: instanceType, Zone: o.Zone, CapacityType: o.CapacityType}]; ok {
		return v
	}
	return o.PriceMicro
}

// LaunchResult is the result of one request. If Err is nil, a machine was launched, and the other fields describe it.
type LaunchResult struct {
	ClaimUID string
	Err      error

	// ProviderID is the ID of the machine. It and all other fields are empty if the cloud accepted the launch but does not
	// know the machine yet (the desired size of a node group was raised). A repeated request launches nothing, and returns
	// the machine once it is known. Until then, List contains a placeholder with the ClaimUID, and Terminate of the
	// placeholder cancels the launch.
	ProviderID   string
	InstanceType string
	Zone         string
	CapacityType string
	PriceMicro   int64
	Modelled     bool // the price is an estimate
	ImageID      string
	Capacity     model.Resources
	Allocatable  model.Resources
	Annotations  model.Labels // annotations for the NodeClaim, by which the provider recognizes later how it was launched
	Labels       model.Labels // labels of the offering: instance type, zone, capacity type, architecture, OS, region, and provider-specific labels

	// Unavailable are allowed offerings that would have been cheaper, but had no capacity.
	Unavailable []OfferingKey
}

// OfferingKey identifies an offering.
type OfferingKey struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Group        string `json:"group,omitempty"` // node group of the offering; empty: none
	Full         bool   `json:"full,omitempty"`  // the group is at its maximum size, which its offerings report as Remaining
}

// String returns type/zone/capacity type.
func (k OfferingKey) String() string {
	s := k.InstanceType + "/" + k.Zone + "/" + k.CapacityType
	if k.Group != "" {
		s += " of group " + k.Group
	}
	return s
}

// Less reports whether k sorts before o: by type, zone, capacity type, group.
func (k OfferingKey) Less(o OfferingKey) bool {
	if k.InstanceType != o.InstanceType {
		return k.InstanceType < o.InstanceType
	}
	if k.Zone != o.Zone {
		return k.Zone < o.Zone
	}
	if k.CapacityType != o.CapacityType {
		return k.CapacityType < o.CapacityType
	}
	if k.Group != o.Group {
		return k.Group < o.Group
	}
	return !k.Full && o.Full
}

// IsUnavailable reports whether nothing is launched now in an offering of a node group, because it recently had no capacity
// (in this group or in any), or because of a zonal shift. group is empty for an offering without a node group.
func (r *LaunchRequest) IsUnavailable(k OfferingKey, group string) bool {
	if slices.Contains(r.ShiftedZones, k.Zone) {
		return true
	}
	alone := k
	alone.Group = group
	full := alone
	full.Full = true
	return r.Unavailable[k] || r.Unavailable[alone] || r.Unavailable[full]
}

// Drifter is a provider that detects machines that no longer match their node class.
type Drifter interface {
	// Drifted returns one reason per query, in order; empty: no drift.
	Drifted(ctx context.Context, queries []DriftQuery) ([]string, error)
}

// DriftQuery is a NodeClaim and its current node class.
type DriftQuery struct {
	Claim *model.Claim
	Class NodeClass
}

// Repairer is a provider that defines which node conditions mean that a machine is broken.
type Repairer interface {
	// RepairPolicies returns the policies; with legacy, those of Karpenter before v1.15, which ignore reasons.
	RepairPolicies(legacy bool) []RepairPolicy
}

// RepairPolicy defines that a node is broken if a condition has this status for the duration After, and how long its drain
// waits for pods; 0: not at all.
type RepairPolicy struct {
	Condition, Status string
	Reason            *regexp.Regexp // reason of the condition; nil: any reason that matches no other policy of this condition and status
	After, Drain      time.Duration
	Priority          int  // nodes with higher priority are repaired first
	Reboot            bool // reboot instead of replace, if the provider is a Rebooter
}

// Rebooter is a provider that restarts machines in place.
type Rebooter interface {
	// Reboot requests the restart of a machine, and returns when the cloud has accepted it. The caller requests it only once.
	// Errors: NotFound, Throttled and Denied, if the machine is not restarted; Unknown, if it may be.
	Reboot(ctx context.Context, providerID string) error
}

// Interrupter is a provider that receives interruption notices.
type Interrupter interface {
	// Interruptions passes each notice to handle, until the context ends or the source fails. A notice is done if handle
	// returns nil; otherwise it is delivered again.
	Interruptions(ctx context.Context, handle func(context.Context, Interruption) error) error
}

// Kinds of Interruption, used as reasons of disruptions.
const (
	SpotInterruption = "SpotInterruption"
	// ReservationInterruption: the owner of the machine's capacity reservation reclaims it, or its capacity block ends.
	ReservationInterruption = "CapacityReservationInterruption"
	Rebalance               = "Rebalance" // a rebalance recommendation: the machine may be interrupted
	ScheduledChange         = "ScheduledChange"
	StateChange             = "StateChange" // the machine is stopping, or has stopped
	// InstanceStatusFailed and SystemStatusFailed: the machine fails the cloud's status checks, of the instance or of the
	// underlying hardware.
	InstanceStatusFailed = "InstanceStatusFailed"
	SystemStatusFailed   = "SystemStatusFailed"
)

// Interruption is one notice.
type Interruption struct {
	ProviderID string
	Kind       string    // SpotInterruption, …
	At         time.Time // when the machine is interrupted; zero: unknown
	Sent       time.Time // when the cloud sent it; zero: unknown
	Stops      bool      // for StateChange: the machine is being stopped, not terminated
}

// Learner is a provider that learns the real memory of nodes, which its catalogue does not contain.
type Learner interface {
	// Learn reports the memory of a node by instance type and image, in bytes. After an error, report it again.
	Learn(ctx context.Context, instanceType, image string, memoryBytes int64) error
}

// ClassStatuser is a provider whose node classes have a status. The controller writes it.
type ClassStatuser interface {
	ClassStatus(ctx context.Context, class NodeClass) (ClassStatus, error)
}

// ClassStatus is the desired status of a node class.
type ClassStatus struct {
	Conditions map[string]model.Condition // by type; Since is ignored
	Status     []byte                     // JSON of additional status fields; empty: none
}

// ClassEnder is a provider that creates resources for node classes, and deletes them with the class.
type ClassEnder interface {
	// EndsClasses reports whether the provider creates resources for classes of this kind. Such a class gets a finalizer
	// before it is used, so that EndClass is called before it is deleted.
	EndsClasses(group, kind string) bool

	// EndClass deletes the resources of a class that is being deleted and that no NodeClaim uses. It is idempotent: missing
	// resources are not errors. Nothing is created for the class afterwards. Errors: Throttled, Denied, Unknown.
	EndClass(ctx context.Context, class NodeClass) error
}

// QuotaTeller is a provider that knows which quotas of its account are exhausted.
type QuotaTeller interface {
	// ReachedQuota returns the quota that prevents launches of an instance type and capacity type now, with the remedy;
	// empty: none is known.
	ReachedQuota(t *model.InstanceType, capacityType string) string
}

// ZoneShifter is a provider whose cloud can shift the cluster away from impaired zones. SetAside prevents launches there.
type ZoneShifter interface {
	// ZonalShifts returns the active shifts as last read, by zone, without a request. read is false if they have not been
	// read yet.
	ZonalShifts() (shifts []model.ZonalShift, read bool)

	// WatchZonalShifts keeps the result of ZonalShifts up to date until the context ends, and calls changed after each
	// change.
	WatchZonalShifts(ctx context.Context, changed func())
}

// Decorator is a Provider that wraps another one.
type Decorator interface {
	Provider
	Unwrap() Provider
}

// As returns an optional interface (Drifter, Repairer, Rebooter, Interrupter, Learner, ClassStatuser, ClassEnder,
// QuotaTeller, ZoneShifter) of a provider or of a provider that it wraps.
func As[T any](p Provider) (T, bool) {
	for {
		if t, ok := p.(T); ok {
			return t, true
		}
		d, ok := p.(Decorator)
		if !ok {
			var none T
			return none, false
		}
		p = d.Unwrap()
	}
}

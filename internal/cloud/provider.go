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

// Provider sells machines. All methods are safe for concurrent use.
type Provider interface {
	// Traits are fixed facts about the provider.
	Traits() Traits

	// Offerings says what a pool with this node class may buy: sorted by type name, each type's offerings by zone, then
	// capacity type. Types that the pool's requirements exclude may be there; the solver excludes them. A price of 0 is one that the provider does
	// not know: Priced puts another in its place. The result is shared
	// and must not be changed; as long as nothing has changed it is the same slice, so a caller may compare its address.
	//
	// Errors: NotReady when the class can't be bought with, Throttled, Denied, Unknown.
	Offerings(ctx context.Context, pool *model.NodePool, class NodeClass) ([]*model.InstanceType, error)

	// Launch buys one machine for each request: the cheapest available offering that the request allows, or for spot one that the
	// cloud prefers for its capacity at little more. Results are in the order of the requests. A second request with the same ClaimUID, also a concurrent one, one after a lost reply, or one
	// after a restart of either side, buys nothing and answers what the first one bought; when that machine is gone by then,
	// the answer is NotFound. A context that ends leaves items with its error; their machines may or may not have been bought,
	// and repeating the request tells.
	//
	// Errors of an item: InsufficientCapacity with the offerings that had none, NotFound, NotReady, Throttled, Denied, Unknown.
	Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult

	// List is every machine that bears one of our claims, by provider id. It shows what Launch made at most Traits.ListDelay
	// after Launch answered, and a machine that is gone either with Gone set or not at all.
	//
	// Errors: Throttled, Denied, Unknown.
	List(ctx context.Context) ([]model.Instance, error)

	// Terminate ends machines. Errors are in the order of the ids: nil when the machine is on its way out because of this call,
	// NotFound when it is unknown or was already on its way out.
	Terminate(ctx context.Context, providerIDs []string) []error
}

// Traits are fixed facts about a provider.
type Traits struct {
	Name    string
	Classes []ClassKind // node classes it serves
	// NodeLabels are the keys of the labels that the provider's nodes have beside those that all nodes have. The metrics of
	// nodes bear them.
	NodeLabels []string
	ListDelay  time.Duration // how long List may lag behind Launch; a younger machine's absence means nothing
}

// Serves reports whether node classes of this group and kind are the provider's.
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

// NodeClass is a node class as the API server has it. Only its own provider reads Spec.
type NodeClass struct {
	Group, Kind, Name, UID string
	Generation             int64
	Created                time.Time // zero: not known
	Annotations            model.Labels
	Spec                   []byte // JSON of the object's spec; empty: an empty spec
}

// LaunchRequest asks for one machine.
type LaunchRequest struct {
	ClaimName, ClaimUID string    // ClaimUID is the idempotency key
	ClaimCreated        time.Time // when the claim was made; zero: not known, taken to be now
	Pool                string    // empty: standalone claim
	Class               NodeClass

	// What may be bought: every offering that satisfies Requirements, whose type is in Types, zone in Zones and capacity type
	// in CapacityTypes (an empty list allows all), and whose allocatable holds Requests.
	Requirements  model.Requirements
	Types         []string
	Zones         []string
	CapacityTypes []string
	Requests      model.Resources

	// Prices are what some of these offerings count as, in micro-dollars an hour, instead of what the provider takes them to cost:
	// NodeOverlays say so. The cheapest is then the cheapest by these.
	Prices map[OfferingKey]int64

	// How the node has to look when it registers. The provider adds the labels of the offering it chose and the bootstrap
	// taint karpenter.sh/unregistered:NoExecute.
	NodeLabels    model.Labels
	Annotations   model.Labels
	Taints        []model.Taint
	StartupTaints []model.Taint

	// Unavailable are offerings that had no capacity a moment ago. A provider asks for none of them, but where it has asked for this claim
	// before, and answers InsufficientCapacity that names them if there is no other. The caller must not change it.
	Unavailable map[OfferingKey]bool
	// ShiftedZones are zones in which nothing is launched now, available or not.
	ShiftedZones []string
	// Following is how many more launches from the same node group are about to be asked for, their claims being under way: a provider
	// that serves several at once may wait a moment for them.
	Following int
}

// PriceMicro is what an offering counts as for the request, in micro-dollars an hour.
func (r *LaunchRequest) PriceMicro(instanceType string, o *model.Offering) int64 {
	if v, ok := r.Prices[OfferingKey{InstanceType: instanceType, Zone: o.Zone, CapacityType: o.CapacityType}]; ok {
		return v
	}
	return o.PriceMicro
}

// LaunchResult is what became of one request. With Err nil a machine was bought and the rest describes it.
type LaunchResult struct {
	ClaimUID string
	Err      error

	// ProviderID is the machine's. It is empty where the cloud has accepted the launch but can't tell yet which machine it will be
	// (a node group's desired size was raised); so is everything else then. The same request, made again, buys nothing and tells when
	// it is known. Until then List shows a placeholder with the claim's UID, and Terminate of that gives the machine up.
	ProviderID   string
	InstanceType string
	Zone         string
	CapacityType string
	PriceMicro   int64
	Modelled     bool // the price is a model's, not a published one
	ImageID      string
	Capacity     model.Resources
	Allocatable  model.Resources
	Annotations  model.Labels // for the claim, so that the provider can tell later what it was bought as
	Labels       model.Labels // single-valued labels of the offering: type, zone, capacity type, arch, os, region, provider's

	// Unavailable are offerings that were allowed and would have been cheaper, but had no capacity.
	Unavailable []OfferingKey
}

// OfferingKey names an offering.
type OfferingKey struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Group        string `json:"group,omitempty"` // a node group, where it is one's alone; empty: the cloud's
	Full         bool   `json:"full,omitempty"`  // the group has as many machines as it may, so its offerings tell how many more it may have
}

// String writes type/zone/capacity type.
func (k OfferingKey) String() string {
	s := k.InstanceType + "/" + k.Zone + "/" + k.CapacityType
	if k.Group != "" {
		s += " of group " + k.Group
	}
	return s
}

// Less orders offerings by type, zone, capacity type.
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

// IsUnavailable reports whether nothing is launched now in an offering of a node group: it had no capacity a moment ago, in this group
// or in any, or its zone is shifted away from. The group is empty for an offering of the cloud's.
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

// Drifter is a provider that can tell when a machine no longer is what its node class asks for.
type Drifter interface {
	// Drifted answers in the order of the queries: the reason, empty where there is no drift.
	Drifted(ctx context.Context, queries []DriftQuery) ([]string, error)
}

// DriftQuery is one claim and its class as it is now.
type DriftQuery struct {
	Claim *model.Claim
	Class NodeClass
}

// Repairer is a provider that knows which node conditions mean that a machine is broken.
type Repairer interface {
	// RepairPolicies returns the policies; legacy: those of Karpenter before v1.15, which know no reasons.
	RepairPolicies(legacy bool) []RepairPolicy
}

// RepairPolicy says that a node whose condition has had this status for this long is broken, and how long the drain of such a
// node waits for its pods; 0: not at all.
type RepairPolicy struct {
	Condition, Status string
	Reason            *regexp.Regexp // of the condition; nil: a reason that matches no other policy of the condition and status
	After, Drain      time.Duration
	Priority          int  // which of several broken nodes is repaired first: the higher
	Reboot            bool // it is rebooted, if the provider is a Rebooter, and not replaced
}

// Rebooter is a provider that restarts machines in place.
type Rebooter interface {
	// Reboot asks for the restart of a machine, and returns when the cloud has accepted that. It is no more than asked for once by whoever calls.
	//
	// Errors: NotFound, Throttled and Denied, after which the machine is not restarted, and Unknown, after which it may be.
	Reboot(ctx context.Context, providerID string) error
}

// Interrupter is a provider that is told in advance about machines it will lose.
type Interrupter interface {
	// Interruptions hands each notice to handle, until the context ends or the source fails. A notice for which handle
	// returns nil is done with; any other comes again.
	Interruptions(ctx context.Context, handle func(context.Context, Interruption) error) error
}

// Kinds of Interruption, as the reasons of disruptions have them.
const (
	SpotInterruption = "SpotInterruption"
	// ReservationInterruption is of a machine in a reservation that its owner takes back, or in a block that ends.
	ReservationInterruption = "CapacityReservationInterruption"
	Rebalance               = "Rebalance" // a recommendation: the machine may be taken back
	ScheduledChange         = "ScheduledChange"
	StateChange             = "StateChange" // the machine is stopping, or has stopped
	// InstanceStatusFailed and SystemStatusFailed are of a machine that fails the cloud's own checks: of what runs on it, and
	// of the hardware below.
	InstanceStatusFailed = "InstanceStatusFailed"
	SystemStatusFailed   = "SystemStatusFailed"
)

// Interruption is one notice.
type Interruption struct {
	ProviderID string
	Kind       string    // SpotInterruption, …
	At         time.Time // when the machine goes; zero: not said
	Sent       time.Time // when the cloud sent it; zero: not said
	Stops      bool      // of StateChange: the machine is being stopped, which is less than ended
}

// Learner is a provider whose catalogue can't know how much memory a node will have, and wants to be told.
type Learner interface {
	// Learn says that a node of a type, booted from an image, has so much memory. An error: tell it again.
	Learn(ctx context.Context, instanceType, image string, memoryBytes int64) error
}

// ClassStatuser is a provider whose node classes have a status to be written; the controller writes it.
type ClassStatuser interface {
	ClassStatus(ctx context.Context, class NodeClass) (ClassStatus, error)
}

// ClassStatus is what a node class's status should say.
type ClassStatus struct {
	Conditions map[string]model.Condition // by type; Since is ignored
	Status     []byte                     // JSON of further status fields; empty: none
}

// ClassEnder is a provider that makes things for a node class which go with it.
type ClassEnder interface {
	// EndsClasses reports whether something is made for classes of this kind. Such a class bears a finalizer before it is asked about, so that
	// EndClass is called before it goes.
	EndsClasses(group, kind string) bool

	// EndClass takes away what was made for a class that is being deleted and that no claim uses any more. Nothing is made for it again.
	// What is not there is no error: done twice, it is done once.
	//
	// Errors: Throttled, Denied, Unknown.
	EndClass(ctx context.Context, class NodeClass) error
}

// QuotaTeller is a provider that knows which quotas of its account are reached.
type QuotaTeller interface {
	// ReachedQuota says which quota keeps instances of a type and capacity type from being launched now, and what to do about it;
	// empty: none is known to.
	ReachedQuota(t *model.InstanceType, capacityType string) string
}

// ZoneShifter is a provider whose cloud is told to move the cluster away from impaired zones. SetAside keeps launches out of them.
type ZoneShifter interface {
	// ZonalShifts returns the shifts in effect now, as last read, by zone. It calls nothing. read false: they have not been read yet, and may be soon.
	ZonalShifts() (shifts []model.ZonalShift, read bool)

	// WatchZonalShifts keeps what ZonalShifts returns up to date until the context ends, and calls changed after each change.
	WatchZonalShifts(ctx context.Context, changed func())
}

// Decorator is a Provider around another one.
type Decorator interface {
	Provider
	Unwrap() Provider
}

// As finds an optional interface (Drifter, Repairer, Rebooter, Interrupter, Learner, ClassStatuser, ClassEnder,
// QuotaTeller, ZoneShifter) in a provider or in what it decorates.
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

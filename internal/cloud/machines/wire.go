// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package machines

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// The protocol, JSON over HTTP:
//
//	GET    /healthz
//	POST   /v1/launch     LaunchBatch      answers LaunchAnswer
//	GET    /v1/instances  ?all=true        answers InstanceList; with all also those terminated
//	POST   /v1/terminate  TerminateBatch   answers TerminateAnswer
//	POST   /v1/reboot     RebootRequest    answers Instance
//	GET    /v1/offerings  If-None-Match    answers OfferingList, or 304
//	GET    /v1/journal    ?after=SEQ       answers Records, one a line
//	POST   /v1/faults     FaultList        adds faults
//	GET    /v1/faults                      answers FaultList
//	DELETE /v1/faults                      clears all
//	GET    /v1/interruptions               answers InterruptionList: notices not done with
//	POST   /v1/interruptions  NoticedBatch says which are done with
//	POST   /v1/base-node  BaseNode         answers Instance
//
// Quantities are Kubernetes quantities, durations are Go's (1m30s), money is micro-dollars per hour. A call that failed as a
// whole answers ErrorAnswer with a status: 400 Denied, 404 NotFound, 429 Throttled, 500 Unknown, 503 NotReady.

// Duration is a duration with a text format in JSON.
type Duration time.Duration

// MarshalJSON returns the format 1m30s.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON parses the format 1m30s.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("need a duration such as \"1m30s\", have %s", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("need a duration such as \"1m30s\", have %q", s)
	}
	*d = Duration(v)
	return nil
}

// Taint is a node taint.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// LaunchBatch requests one machine per element.
type LaunchBatch struct {
	Requests []LaunchRequest `json:"requests"`
}

// PricedOffering is the price of an offering for one request.
type PricedOffering struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	PriceMicro   int64  `json:"priceMicroUSDPerHour"`
}

// LaunchRequest requests one machine: the cheapest offering with a listed type, zone and capacity type. An empty list of
// zones or capacity types allows all.
type LaunchRequest struct {
	ClaimUID          string              `json:"claimUID"` // the idempotency key
	ClaimName         string              `json:"claimName"`
	Pool              string              `json:"pool,omitempty"`
	Types             []string            `json:"types"`
	Zones             []string            `json:"zones,omitempty"`
	CapacityTypes     []string            `json:"capacityTypes,omitempty"`
	Prices            []PricedOffering    `json:"prices,omitempty"`           // prices for the choice of the cheapest offering, where they differ from the catalog's
	Unavailable       []cloud.OfferingKey `json:"unavailable,omitempty"`      // not used: they recently had no capacity
	RegistrationDelay Duration            `json:"registrationDelay,omitzero"` // in addition to the boot delay of the server
	Labels            model.Labels        `json:"labels,omitempty"`           // labels of the node, in addition to those of the offering
	Annotations       model.Labels        `json:"annotations,omitempty"`
	Taints            []Taint             `json:"taints,omitempty"` // taints of the node, in addition to karpenter.sh/unregistered
}

// LaunchAnswer has one result per request, in order.
type LaunchAnswer struct {
	Results []LaunchResult `json:"results"`
}

// LaunchResult is the result of one request.
type LaunchResult struct {
	ClaimUID    string              `json:"claimUID"`
	Instance    *Instance           `json:"instance,omitempty"`
	Unavailable []cloud.OfferingKey `json:"unavailable,omitempty"` // cheaper offerings without capacity
	Error       *Error              `json:"error,omitempty"`
}

// State is the lifecycle state of a machine.
type State string

// States of a machine.
const (
	Pending      State = "pending"       // booting; has no Node yet
	Running      State = "running"       // has its Node
	ShuttingDown State = "shutting-down" // terminated; its Node is being deleted
	Terminated   State = "terminated"
)

// Instance is a machine.
type Instance struct {
	ID           string    `json:"id"`
	ProviderID   string    `json:"providerID"`
	ClaimUID     string    `json:"claimUID,omitempty"` // empty: a base node
	ClaimName    string    `json:"claimName,omitempty"`
	Pool         string    `json:"pool,omitempty"`
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	PriceMicro   int64     `json:"priceMicroUSDPerHour"`
	Modelled     bool      `json:"priceModelled,omitempty"`
	ImageID      string    `json:"imageID"`
	State        State     `json:"state"`
	Launched     time.Time `json:"launched"`
	Registers    time.Time `json:"registers"`            // when its Node is created
	Terminated   time.Time `json:"terminated,omitzero"`  // when its termination was requested
	Interrupted  time.Time `json:"interrupted,omitzero"` // when its interruption was announced
	Goes         time.Time `json:"goes,omitzero"`        // when it is interrupted
	Noticed      bool      `json:"noticed,omitempty"`    // the interruption notice was acknowledged
	Reboots      int       `json:"reboots,omitempty"`    // number of requested restarts
	Node         NodeSpec  `json:"node"`

	NeverRegisters bool `json:"neverRegisters,omitempty"` // a fault
	NeverReady     bool `json:"neverReady,omitempty"`     // a fault
}

// InstanceList is the response of /v1/instances, by ID.
type InstanceList struct {
	Instances []Instance `json:"instances"`
}

// TerminateBatch terminates machines by provider ID.
type TerminateBatch struct {
	ProviderIDs []string `json:"providerIDs"`
}

// TerminateAnswer has one result per ID, in order.
type TerminateAnswer struct {
	Results []TerminateResult `json:"results"`
}

// TerminateResult is the result for one ID.
type TerminateResult struct {
	ProviderID string `json:"providerID"`
	Error      *Error `json:"error,omitempty"`
}

// RebootRequest requests the restart of a machine with a Node. Each call is another restart.
type RebootRequest struct {
	ProviderID string `json:"providerID"`
}

// BaseNode requests a machine without a claim. Its Node has no Karpenter labels or taints. The name makes the request
// idempotent.
type BaseNode struct {
	InstanceType string `json:"instanceType"`
	Name         string `json:"name,omitempty"` // name of the Node; default: derived from the type
	Zone         string `json:"zone,omitempty"` // default: the first zone
}

// OfferingList is the catalog.
type OfferingList struct {
	Catalog    string         `json:"catalog"`
	Region     string         `json:"region,omitempty"`
	PricesAsOf string         `json:"pricesAsOf,omitempty"`
	Types      []InstanceType `json:"types"`
}

// InstanceType is an instance type of the catalog.
type InstanceType struct {
	Name        string            `json:"name"`
	Labels      model.Labels      `json:"labels"`
	Capacity    map[string]string `json:"capacity"`
	Allocatable map[string]string `json:"allocatable"`
	Offerings   []Offering        `json:"offerings"`
}

// Offering is an offering of an instance type.
type Offering struct {
	Zone         string       `json:"zone"`
	CapacityType string       `json:"capacityType"`
	PriceMicro   int64        `json:"priceMicroUSDPerHour"`
	Modelled     bool         `json:"priceModelled,omitempty"`
	Available    bool         `json:"available"` // according to the catalog; exhausted capacity shows at launch
	Labels       model.Labels `json:"labels,omitempty"`
}

// Error is a cloud.Error in the protocol.
type Error struct {
	Kind      cloud.Kind          `json:"kind"`
	Message   string              `json:"message"`
	Offerings []cloud.OfferingKey `json:"offerings,omitempty"`
	After     Duration            `json:"after,omitzero"`
}

// ErrorAnswer is the response to a call that failed as a whole.
type ErrorAnswer struct {
	Error Error `json:"error"`
}

// Interruption is an unacknowledged interruption notice.
type Interruption struct {
	ProviderID string    `json:"providerID"`
	Sent       time.Time `json:"sent"`
	At         time.Time `json:"at"` // when the machine is interrupted
}

// InterruptionList is the response of /v1/interruptions, by provider ID.
type InterruptionList struct {
	Interruptions []Interruption `json:"interruptions"`
}

// NoticedBatch acknowledges notices by provider ID.
type NoticedBatch struct {
	ProviderIDs []string `json:"providerIDs"`
}

// Boot returns the Node to create after the last start of the machine.
func (in *Instance) Boot() NodeSpec {
	n := in.Node
	n.BootID = fmt.Sprintf("%s/%d", in.ProviderID, in.Reboots)
	return n
}

// NodeSpec is a Node to create.
type NodeSpec struct {
	Name        string            `json:"name"`
	ProviderID  string            `json:"providerID"`
	BootID      string            `json:"bootID,omitempty"` // changes with each restart
	Labels      model.Labels      `json:"labels"`
	Annotations model.Labels      `json:"annotations,omitempty"`
	Taints      []Taint           `json:"taints,omitempty"`
	Capacity    map[string]string `json:"capacity"`    // Kubernetes quantities
	Allocatable map[string]string `json:"allocatable"` // Kubernetes quantities
}

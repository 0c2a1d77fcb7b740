// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Action is one change to the cluster or the cloud. This file contains all implementations.
type Action interface {
	// Key identifies the effect: actions with equal keys have the same effect, and an action in flight is not started again.
	Key() model.ActionKey
	// Because returns the reason.
	Because() Reason
}

// CreateClaim creates a NodeClaim, which stores the intent before any call to a cloud.
type CreateClaim struct {
	Name         string
	Pool         *model.NodePool // source of labels, annotations, taints, node class, durations and hash
	Requirements model.Requirements
	Requests     model.Resources
	Slots        []model.Slot // sorted; empty if not reserved
	Reserved     bool
	NoReserve    Reason // why it is not reserved, if Reserved is false
	Pods         []*model.Pod
	Annotations  map[string]string // in addition to the pool's
	Type         string            // the cheapest instance type, which PriceMicro refers to
	Types        []*model.InstanceType
	Zone         string
	CapacityType string
	PriceMicro   int64
	Why          Reason

	MinValuesRelaxed bool // Requirements have fewer values than the pool's minValues
}

// LaunchClaim launches the NodeClaim's instance, with the NodeClaim's UID as the idempotency key.
type LaunchClaim struct {
	Claim, UID string
	Why        Reason
}

// DeleteClaim deletes a NodeClaim; lifecycle then drains the node and terminates the instance.
type DeleteClaim struct {
	Claim, UID string
	Why        Reason
}

// Unset as the value of a label or annotation removes it. The empty string is a normal value.
const Unset = "\x00"

// UpdateClaim changes a NodeClaim's metadata and status. Nil and zero fields are not changed.
type UpdateClaim struct {
	Claim, UID      string
	AddFinalizer    bool
	RemoveFinalizer bool
	Annotations     map[string]string // set; Unset removes
	Labels          map[string]string
	NodeName        string
	ProviderID      string
	ImageID         string
	LastPodEvent    time.Time
	Capacity        model.Resources
	Allocatable     model.Resources
	Conditions      map[string]model.Condition // Since is ignored: set when the status changes
	Slots           []model.Slot               // with SetSlots
	SetSlots        bool
	Given           map[string]string // annotations at the time of the decision (Unset for missing ones); if one has changed, nothing is written
	OwnerPool       string            // set an owner reference to this NodePool if there is none to any
	OwnerUID        string
	Why             Reason
}

// UpdateNode changes a node in one atomic patch, conditional on the node's UID.
type UpdateNode struct {
	Node, UID       string
	Labels          map[string]string // set; Unset removes
	Annotations     map[string]string
	AddTaints       []model.Taint
	RemoveTaints    []model.Taint // by key and effect
	DaemonsOnly     bool          // store the reservation in AddTaints as a cordon, which admits only DaemonSet pods
	Uncordon        bool          // uncordon the node
	AddFinalizer    bool
	RemoveFinalizer bool
	OwnerClaim      string // set an owner reference to this NodeClaim
	OwnerUID        string
	Why             Reason
}

// Reboot restarts the instance of a NodeClaim in place. First Note is written to the NodeClaim. If the NodeClaim already has
// model.AnnotationBootID, or changed since the decision, nothing is done, so a reboot is requested once.
type Reboot struct {
	Claim, UID, Node   string
	ProviderID, BootID string      // BootID: of the node before the reboot
	Note               UpdateClaim // written to the NodeClaim before the request
	Why                Reason
}

// DeleteNode deletes a Node object.
type DeleteNode struct {
	Node, UID string
	Why       Reason
}

// Bind binds a pod to a node, as kube-scheduler would (contract 9). The pod's UID is a precondition: a pod that is bound
// already, or another pod with the same name, is not changed.
type Bind struct {
	Namespace, Pod, UID string
	Node                string
	Claim               string // NodeClaim of the node
	Why                 Reason
}

// Tolerate adds a toleration for a NodeClaim's reservation to a pod (contract 9).
type Tolerate struct {
	Namespace, Pod, UID string
	Claim               string
	Why                 Reason
}

// Evict evicts a pod through the eviction API, which enforces PodDisruptionBudgets.
type Evict struct {
	Namespace, Pod, UID string
	Node                string
	Grace               time.Duration // grace period; 0: the pod's own
	Why                 Reason
}

// Restart restarts a Deployment, which replaces its pods before it deletes them, depending on its strategy. From and To are
// the previous and the new restart annotation; if the annotation is no longer From, the restart has been done.
type Restart struct {
	Namespace, Deployment, UID string
	From, To                   string
	Pod                        string // for which
	Node                       string
	Why                        Reason
}

// DeletePod deletes a pod with a grace period, ignoring PodDisruptionBudgets, only if the node's termination deadline
// requires it.
type DeletePod struct {
	Namespace, Pod, UID string
	Node                string
	Grace               time.Duration
	Why                 Reason
}

// Terminate terminates an instance.
type Terminate struct {
	ProviderID string
	Claim      string // its NodeClaim; empty for an orphan
	Of, OfUID  string // for an orphan: name and UID of its former NodeClaim
	Why        Reason
}

// UpdatePool writes a NodePool's status and hash annotations. Since of Conditions is ignored: it is set when the status
// changes.
type UpdatePool struct {
	Pool, UID       string
	Conditions      map[string]model.Condition
	Resources       model.Resources // total capacity of its nodes and of NodeClaims in flight
	Nodes           int64
	Hash            string
	ClassGeneration int64 // of the node class; 0: unknown, not changed
	Why             Reason
}

// UpdateNodeClass writes a node class's status, or its finalizer.
type UpdateNodeClass struct {
	Group, Kind, Name string
	UID               string // empty: any object with this name
	AddFinalizer      bool
	RemoveFinalizer   bool
	Conditions        map[string]model.Condition
	Status            []byte // JSON of additional fields to replace; empty: none
	Why               Reason
}

// UpdateNodeOverlay writes a NodeOverlay's conditions. Since is ignored: it is set when the status changes.
type UpdateNodeOverlay struct {
	Overlay, UID string
	Conditions   map[string]model.Condition
	Why          Reason
}

// UpdateBuffer writes a CapacityBuffer's status. Since of Conditions is ignored: it is set when the status changes.
type UpdateBuffer struct {
	Namespace, Buffer, UID string
	Conditions             map[string]model.Condition
	Replicas               int // negative: not set
	TemplateName           string
	TemplateGeneration     int64
	Why                    Reason
}

// Key implements Action.
func (a UpdateBuffer) Key() model.ActionKey { return model.ActionKey("buffer/" + a.UID) }

// Because implements Action.
func (a UpdateBuffer) Because() Reason { return a.Why }

// UpdateRequest writes a ProvisioningRequest's status. Since of Conditions is ignored: it is set when the status changes.
type UpdateRequest struct {
	Namespace, Request, UID string
	Conditions              map[string]model.Condition
	RetryAt                 time.Time // no retry before this time; see Attempts
	Attempts                int       // number of times that capacity was released; 0: RetryAt is not written
	Why                     Reason
}

// Key implements Action.
func (a UpdateRequest) Key() model.ActionKey { return model.ActionKey("provisioningrequest/" + a.UID) }

// Because implements Action.
func (a UpdateRequest) Because() Reason { return a.Why }

// UpdateQuota writes a CapacityQuota's status. Since of Conditions is ignored: it is set when the status changes.
type UpdateQuota struct {
	Quota, UID string
	Generation int64
	Used       map[string]string // by resource
	Conditions map[string]model.Condition
	Why        Reason
}

// Key implements Action.
func (a UpdateQuota) Key() model.ActionKey { return model.ActionKey("quota/" + a.UID) }

// Because implements Action.
func (a UpdateQuota) Because() Reason { return a.Why }

// Key implements Action.
func (a UpdateNodeOverlay) Key() model.ActionKey { return model.ActionKey("overlay/" + a.UID) }

// Because implements Action.
func (a UpdateNodeOverlay) Because() Reason { return a.Why }

// Key implements Action.
func (a UpdatePool) Key() model.ActionKey { return model.ActionKey("pool/" + a.UID) }

// Key implements Action.
func (a UpdateNodeClass) Key() model.ActionKey {
	key := model.ActionKey("class/" + a.Group + "/" + a.Kind + "/" + a.Name)
	if a.AddFinalizer || a.RemoveFinalizer {
		return "finalizer of " + key // does not wait for a status update in flight, or vice versa
	}
	return key
}

// Because implements Action.
func (a UpdatePool) Because() Reason { return a.Why }

// Because implements Action.
func (a UpdateNodeClass) Because() Reason { return a.Why }

// Key implements Action.
func (a CreateClaim) Key() model.ActionKey { return model.ActionKey("create/" + a.Name) }

// Key implements Action.
func (a LaunchClaim) Key() model.ActionKey { return model.ActionKey("launch/" + a.UID) }

// Key implements Action.
func (a DeleteClaim) Key() model.ActionKey { return model.ActionKey("delete/" + a.UID) }

// Key implements Action.
func (a UpdateClaim) Key() model.ActionKey {
	if a.SetSlots {
		return model.ActionKey("slots/" + a.UID) // not to wait for a status that is under way
	}
	return model.ActionKey("claim/" + a.UID)
}

// Key implements Action.
func (a Reboot) Key() model.ActionKey { return model.ActionKey("reboot/" + a.UID + "/" + a.BootID) }

// Because implements Action.
func (a Reboot) Because() Reason { return a.Why }

// Key implements Action.
func (a UpdateNode) Key() model.ActionKey { return model.ActionKey("node/" + a.UID) }

// Key implements Action.
func (a DeleteNode) Key() model.ActionKey { return model.ActionKey("deletenode/" + a.UID) }

// Key implements Action. It does not contain the node, because a pod is bound only once.
func (a Bind) Key() model.ActionKey { return model.ActionKey("bind/" + a.UID) }

// Because implements Action.
func (a Bind) Because() Reason { return a.Why }

// Key implements Action.
func (a Tolerate) Key() model.ActionKey { return model.ActionKey("tolerate/" + a.UID + "/" + a.Claim) }

// Key implements Action.
func (a Evict) Key() model.ActionKey { return model.ActionKey("evict/" + a.UID) }

// Key implements Action.
func (a Restart) Key() model.ActionKey { return model.ActionKey("restart/" + a.UID + "/" + a.From) }

// Because implements Action.
func (a Restart) Because() Reason { return a.Why }

// Key implements Action.
func (a DeletePod) Key() model.ActionKey { return model.ActionKey("deletepod/" + a.UID) }

// Key implements Action.
func (a Terminate) Key() model.ActionKey { return model.ActionKey("terminate/" + a.ProviderID) }

// Because implements Action.
func (a CreateClaim) Because() Reason { return a.Why }

// Because implements Action.
func (a LaunchClaim) Because() Reason { return a.Why }

// Because implements Action.
func (a DeleteClaim) Because() Reason { return a.Why }

// Because implements Action.
func (a UpdateClaim) Because() Reason { return a.Why }

// Because implements Action.
func (a UpdateNode) Because() Reason { return a.Why }

// Because implements Action.
func (a DeleteNode) Because() Reason { return a.Why }

// Because implements Action.
func (a Tolerate) Because() Reason { return a.Why }

// Because implements Action.
func (a Evict) Because() Reason { return a.Why }

// Because implements Action.
func (a DeletePod) Because() Reason { return a.Why }

// Because implements Action.
func (a Terminate) Because() Reason { return a.Why }

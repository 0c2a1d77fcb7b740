// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Action is one change to the cluster or the cloud. The concrete types below are all there are.
type Action interface {
	// Key names the effect: two actions with equal keys have the same effect, and one in flight is not begun again.
	Key() model.ActionKey
	// Because says why.
	Because() Reason
}

// CreateClaim makes a NodeClaim: durable intent, before any call to a cloud.
type CreateClaim struct {
	Name         string
	Pool         *model.NodePool // labels, annotations, taints, class, times and hash are taken from it
	Requirements model.Requirements
	Requests     model.Resources
	Slots        []model.Slot // sorted; empty where not reserved
	Reserved     bool
	NoReserve    Reason // why not reserved, where Reserved is false
	Pods         []*model.Pod
	Annotations  map[string]string // beside the pool's
	Type         string            // the cheapest choice, what the price is of
	Types        []*model.InstanceType
	Zone         string
	CapacityType string
	PriceMicro   int64
	Why          Reason

	MinValuesRelaxed bool // Requirements ask for fewer values than the pool's minValues
}

// LaunchClaim asks the cloud for the claim's machine, with the claim's uid as the idempotency key.
type LaunchClaim struct {
	Claim, UID string
	Why        Reason
}

// DeleteClaim deletes a NodeClaim; its finalizer then drains the node and ends the machine.
type DeleteClaim struct {
	Claim, UID string
	Why        Reason
}

// Unset stands for a value in a change of labels or annotations: there is to be none. The empty value is one like any other.
const Unset = "\x00"

// UpdateClaim changes a NodeClaim's metadata and status. Nil and zero fields are left alone.
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
	Given           map[string]string // annotations as they were when this was decided, Unset for one that was not there: if one is another by now, nothing is written
	OwnerPool       string            // set an owner reference to this NodePool, where it has none to any
	OwnerUID        string
	Why             Reason
}

// UpdateNode changes a node: one patch, all or nothing, tested against the node's uid.
type UpdateNode struct {
	Node, UID       string
	Labels          map[string]string // set; Unset removes
	Annotations     map[string]string
	AddTaints       []model.Taint
	RemoveTaints    []model.Taint // by key and effect
	DaemonsOnly     bool          // the reservation among AddTaints is written as a cordon, which keeps all pods out but those of DaemonSets
	Uncordon        bool          // let pods be scheduled to it again
	AddFinalizer    bool
	RemoveFinalizer bool
	OwnerClaim      string // set an owner reference to this NodeClaim
	OwnerUID        string
	Why             Reason
}

// Reboot restarts the instance of a claim in place. Before the cloud is asked, the claim is given Note, which speaks of it; a claim that has
// model.AnnotationBootID already, or not what Note was decided on, is left alone: it is asked for once, whoever else decides the same.
type Reboot struct {
	Claim, UID, Node   string
	ProviderID, BootID string      // BootID: of the node before
	Note               UpdateClaim // what is written into the claim before
	Why                Reason
}

// DeleteNode deletes a node object.
type DeleteNode struct {
	Node, UID string
	Why       Reason
}

// Bind binds a pod to a node, as kube-scheduler would (contract 9). The pod's uid is a precondition: a pod that is bound already, or another
// one of its name, is left alone.
type Bind struct {
	Namespace, Pod, UID string
	Node                string
	Claim               string // NodeClaim of the node
	Why                 Reason
}

// Tolerate adds the toleration of a claim's reservation to a pod (contract 9).
type Tolerate struct {
	Namespace, Pod, UID string
	Claim               string
	Why                 Reason
}

// Evict asks the eviction API to remove a pod; PodDisruptionBudgets are the API server's to enforce.
type Evict struct {
	Namespace, Pod, UID string
	Node                string
	Grace               time.Duration // how long the pod has to end; 0: as long as it asks for
	Why                 Reason
}

// Restart has a Deployment make its pods anew, each before the old one goes (as its strategy says). From and To are the annotation by
// which it was restarted last and will be now: where it is not From any more, it has been done.
type Restart struct {
	Namespace, Deployment, UID string
	From, To                   string
	Pod                        string // for which
	Node                       string
	Why                        Reason
}

// DeletePod deletes a pod with a grace period, past PodDisruptionBudgets: only when a node's termination deadline forces it.
type DeletePod struct {
	Namespace, Pod, UID string
	Node                string
	Grace               time.Duration
	Why                 Reason
}

// Terminate ends an instance.
type Terminate struct {
	ProviderID string
	Claim      string // NodeClaim it belongs to; empty for an orphan
	Of, OfUID  string // of an orphan: the NodeClaim that it bears the name and uid of
	Why        Reason
}

// UpdatePool writes a NodePool's status and its hash annotations. Conditions' Since is ignored: set when the status changes.
type UpdatePool struct {
	Pool, UID       string
	Conditions      map[string]model.Condition
	Resources       model.Resources // sum of the capacity of its nodes and of claims in flight
	Nodes           int64
	Hash            string
	ClassGeneration int64 // of the node class; 0: not known, left alone
	Why             Reason
}

// UpdateNodeClass writes a node class's status, or its finalizer.
type UpdateNodeClass struct {
	Group, Kind, Name string
	UID               string // empty: whichever bears the name
	AddFinalizer      bool
	RemoveFinalizer   bool
	Conditions        map[string]model.Condition
	Status            []byte // JSON of further fields, which replace those there; empty: they stay
	Why               Reason
}

// UpdateNodeOverlay writes a NodeOverlay's conditions; their Since is ignored: set when the status changes.
type UpdateNodeOverlay struct {
	Overlay, UID string
	Conditions   map[string]model.Condition
	Why          Reason
}

// UpdateBuffer writes a CapacityBuffer's status. Conditions' Since is ignored: set when the status changes.
type UpdateBuffer struct {
	Namespace, Buffer, UID string
	Conditions             map[string]model.Condition
	Replicas               int // negative: there are none to tell
	TemplateName           string
	TemplateGeneration     int64
	Why                    Reason
}

// Key implements Action.
func (a UpdateBuffer) Key() model.ActionKey { return model.ActionKey("buffer/" + a.UID) }

// Because implements Action.
func (a UpdateBuffer) Because() Reason { return a.Why }

// UpdateRequest writes a ProvisioningRequest's status. Conditions' Since is ignored: set when the status changes.
type UpdateRequest struct {
	Namespace, Request, UID string
	Conditions              map[string]model.Condition
	RetryAt                 time.Time // capacity is not looked for before; see Attempts
	Attempts                int       // how often capacity was given up; 0: RetryAt is not written
	Why                     Reason
}

// Key implements Action.
func (a UpdateRequest) Key() model.ActionKey { return model.ActionKey("provisioningrequest/" + a.UID) }

// Because implements Action.
func (a UpdateRequest) Because() Reason { return a.Why }

// UpdateQuota writes a CapacityQuota's status. Conditions' Since is ignored: set when the status changes.
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
		return "finalizer of " + key // not to wait for a status that is under way, nor the status for it
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

// Key implements Action. It does not name the node: a pod is bound to one node only.
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

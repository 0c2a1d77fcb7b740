// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Owner is the controller of a pod.
type Owner struct {
	Kind, Name, UID string
}

// Consumed identifies the ProvisioningRequest that a pod consumes.
type Consumed struct {
	Request string // namespace/name; empty: none
	UID     string // empty: the request is unknown
}

// Pod contains the properties of a pod that affect decisions.
type Pod struct {
	Namespace, Name, UID string
	Class                *Class
	First                *Class // class before its first in-place resize; nil: never resized
	Successor            *Class // class of its replacement: Class, but at least as large as First; nil: Class
	ByVPA                bool   // resized in place by VPA, which sets the requests of its replacement
	Owner                Owner
	Node                 string // bound to; empty: not bound
	Nominated            string // status.nominatedNodeName
	Created              time.Time
	Seen                 uint64    // resource version when first seen, which is the order of creation and of kube-scheduler's queue
	Unschedulable        time.Time // when kube-scheduler last reported it unschedulable; zero: never
	Refusal              string    // message of that report
	Bound                time.Time // last transition time of the PodScheduled condition; zero: not bound
	Deleting             time.Time // deletionTimestamp; zero: not being deleted
	EndsWithNamespace    bool      // Deleting is the deletion time of its namespace; the pod itself is not being deleted yet
	GracePeriod          time.Duration
	Terminal             bool          // Succeeded or Failed
	Failed               bool          // Failed
	Starting             bool          // bound, and no container has started yet
	Finalizers           []string      // finalizers
	Ready                bool          // condition Ready
	Gated                bool          // has scheduling gates
	Mirror               bool          // static pod
	ReadySince           time.Time     // last transition of condition Ready to True; zero: not Ready
	DoNotDisrupt         string        // value of karpenter.sh/do-not-disrupt
	DoNotEvict           bool          // DoNotDisrupt is true because of the older annotation karpenter.sh/do-not-evict
	SafeToEvict          string        // value of cluster-autoscaler.kubernetes.io/safe-to-evict
	LocalVolume          string        // first local volume that no annotation marks as safe to lose; empty: none
	DaemonEviction       string        // of a DaemonSet's pod: value of cluster-autoscaler.kubernetes.io/enable-ds-eviction
	ScaleUpDelay         time.Duration // value of cluster-autoscaler.kubernetes.io/pod-scale-up-delay; 0: none, or it can't be read
	ReservedFor          string        // NodeClaim in its dovetail.sh/reserved toleration; the last one if there are several
	Reservations         []string
	Tolerating           string // NodeClaim whose toleration is being written, or may have been written without a response; empty: none
	Deployment           string // name of the Deployment whose ReplicaSet controls it; empty: none
	RestartedAt          string // restart annotation from its template
	Surge                string // value of dovetail.sh/surge
	Unreservable         bool   // the API server rejected its toleration, so no reservation admits it
	Unbindable           bool   // the API server rejected its binding by Dovetail
	Binding              string // node of a binding in flight; empty: none
	Expected             bool   // not created yet: expected from its ReplicaSet, or virtual
	Buffer               string // namespace/name of its CapacityBuffer, if it is a virtual pod, which is never created; empty: a real pod
	DisruptionCost       int32  // karpenter.sh/disruption-cost, or controller.kubernetes.io/pod-deletion-cost
	DeletionCost         string // value of controller.kubernetes.io/pod-deletion-cost; empty: none
	OwnDeletionCost      string // value of AnnotationDeletionCost, written by Dovetail; empty: none
	RestartCost          string // value of dovetail.sh/restart-cost, see ParseRestartCost; empty: not given
	Gang                 Gang   `json:",omitzero"` // its gang; zero: none

	Consumes    Consumed `json:",omitzero"`  // the ProvisioningRequest that it consumes
	Placeholder bool     `json:",omitempty"` // placeholder for a pod of a ProvisioningRequest that does not exist yet; never bound
}

// DeletionCostValue returns the deletion cost as the ReplicaSet controller reads it: 0 if the value is not a 32-bit integer.
func (p *Pod) DeletionCostValue() int32 {
	n, err := strconv.ParseInt(p.DeletionCost, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// IsLetIn reports whether a pod tolerates the reservation of a NodeClaim, or may soon. Tolerations are never removed.
func (p *Pod) IsLetIn(claim string) bool {
	return p.Tolerating == claim && claim != "" || slices.Contains(p.Reservations, claim)
}

// LetInBy returns the NodeClaims whose reservations a pod tolerates, or may soon.
func (p *Pod) LetInBy() []string {
	if p.Tolerating == "" {
		return p.Reservations
	}
	return append(slices.Clip(p.Reservations), p.Tolerating)
}

// PodKey returns the key of a pod: namespace/name.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// Key returns namespace/name.
func (p *Pod) Key() string { return PodKey(p.Namespace, p.Name) }

// ComparePodKeys compares pods by key.
func ComparePodKeys(a, b *Pod) int { return strings.Compare(a.Key(), b.Key()) }

// IsVirtual reports whether a pod is a virtual pod of a CapacityBuffer.
func (p *Pod) IsVirtual() bool { return p.Buffer != "" }

// DefaultScheduler is the default of spec.schedulerName.
const DefaultScheduler = "default-scheduler"

// RealPods returns the pods that are not virtual: the list itself if none is.
func RealPods(pods []*Pod) []*Pod {
	if !slices.ContainsFunc(pods, (*Pod).IsVirtual) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), (*Pod).IsVirtual)
}

// VirtualPods returns the virtual pods of a list.
func VirtualPods(pods []*Pod) (out []*Pod) {
	for _, p := range pods {
		if p.IsVirtual() {
			out = append(out, p)
		}
	}
	return out
}

// IsWorkload reports whether a scheduler selects the pod's node: it is neither a DaemonSet pod nor a static pod.
func (p *Pod) IsWorkload() bool { return !p.Class.Daemon && !p.Mirror }

// IsForScheduler reports whether the default kube-scheduler schedules a pending pod.
func (p *Pod) IsForScheduler() bool {
	return !p.Gated && p.Nominated == "" && p.IsWorkload() && p.Class.Scheduler == DefaultScheduler
}

// ComparePodAge compares pods by the order in which they were first seen, then by namespace and name.
func ComparePodAge(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Seen, b.Seen), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// IsReschedulable reports whether a pod needs another node when its node is removed: it is no DaemonSet or mirror pod, has
// not terminated and is not being deleted.
func (p *Pod) IsReschedulable() bool { return p.IsWorkload() && !p.Terminal && p.Deleting.IsZero() }

// CreatedAs returns the class of a pod's replacement: a pod that was shrunk in place is recreated at its original size.
func (p *Pod) CreatedAs() *Class {
	if p.Successor == nil {
		return p.Class
	}
	return p.Successor
}

// SlotClass returns the class that identifies a pod and its replacement in slots: the class before in-place resizes.
func (p *Pod) SlotClass() *Class {
	if p.First == nil || p.ByVPA {
		return p.Class
	}
	return p.First
}

// SuccessorFollowsEnd reports whether a pod's replacement is created only after the pod is gone, as by a StatefulSet but not
// by a ReplicaSet. It is true for unknown owners.
func (p *Pod) SuccessorFollowsEnd() bool {
	return p.Owner.Kind != "ReplicaSet" && p.Owner.Kind != "ReplicationController"
}

// Annotations on pods and nodes that prevent the removal of nodes.
const (
	AnnotationDoNotDisrupt      = "karpenter.sh/do-not-disrupt"
	AnnotationDoNotEvict        = "karpenter.sh/do-not-evict" // on pods, before v1beta1
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// Held reports whether karpenter.sh/do-not-disrupt applies to a pod, and until when; zero means without end. A duration
// counts from the binding of the pod. Values other than true and a duration have no effect.
func (p *Pod) Held(now time.Time) (bool, time.Time) {
	switch p.DoNotDisrupt {
	case "":
		return false, time.Time{}
	case "true":
		return true, time.Time{}
	}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	if err != nil || d <= 0 {
		return false, time.Time{}
	}
	until := p.Bound.Add(d)
	return now.Before(until), until
}

// HoldAnnotation returns the key of the annotation with the value DoNotDisrupt.
func (p *Pod) HoldAnnotation() string {
	if p.DoNotEvict {
		return AnnotationDoNotEvict
	}
	return AnnotationDoNotDisrupt
}

// HasGang reports whether a pod belongs to a gang.
func (p *Pod) HasGang() bool { return p.Gang.Name != "" }

// IsPlacedTogether reports whether a pod belongs to a gang with a minimum number of pods that must have capacity before nodes
// are launched.
func (p *Pod) IsPlacedTogether() bool { return p.Gang.Least > 0 }

// CountsAsEnded reports whether a pod of a gang has succeeded, so that it needs no capacity and no replacement.
func (p *Pod) CountsAsEnded() bool { return p.HasGang() && p.Terminal && !p.Failed }

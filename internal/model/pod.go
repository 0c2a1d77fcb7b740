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

// Consumed is the ProvisioningRequest whose capacity a pod is for.
type Consumed struct {
	Request string // namespace/name; empty: none
	UID     string // empty: the request is not known
}

// Pod is one pod as the autoscaler needs it.
type Pod struct {
	Namespace, Name, UID string
	Class                *Class
	First                *Class // what it was before it was first resized in place; nil: it requests as much as ever
	Successor            *Class // what its successor is created as: Class, but as large as First where that was larger; nil: as Class
	ByVPA                bool   // VPA has resized it in place, and creates its successor with what it recommends then
	Owner                Owner
	Node                 string // bound to; empty: not bound
	Nominated            string // status.nominatedNodeName
	Created              time.Time
	Seen                 uint64    // version of the object when it was first seen: pods that a watch told of were made in this order, and kube-scheduler takes them so
	Unschedulable        time.Time // when kube-scheduler last said so; zero: it has not
	Refusal              string    // and in which words
	Bound                time.Time // PodScheduled's transition; zero: not bound
	Deleting             time.Time // deletionTimestamp; zero: not being deleted
	EndsWithNamespace    bool      // Deleting is when its namespace was deleted; itself it is not being deleted yet
	GracePeriod          time.Duration
	Terminal             bool          // Succeeded or Failed
	Failed               bool          // Failed
	Starting             bool          // bound, and none of its containers has run yet
	Finalizers           []string      // whoever holds the object when it is deleted
	Ready                bool          // condition Ready
	Gated                bool          // has scheduling gates
	Mirror               bool          // static pod
	ReadySince           time.Time     // last transition of condition Ready to True; zero: not Ready
	DoNotDisrupt         string        // value of karpenter.sh/do-not-disrupt
	DoNotEvict           bool          // DoNotDisrupt is true because of the older annotation karpenter.sh/do-not-evict
	SafeToEvict          string        // value of cluster-autoscaler.kubernetes.io/safe-to-evict
	LocalVolume          string        // the first volume of its own on the node that no annotation calls safe to lose; empty: none
	DaemonEviction       string        // of a DaemonSet's pod: value of cluster-autoscaler.kubernetes.io/enable-ds-eviction
	ScaleUpDelay         time.Duration // value of cluster-autoscaler.kubernetes.io/pod-scale-up-delay; 0: none, or it can't be read
	ReservedFor          string        // NodeClaim named by the dovetail.sh/reserved toleration; the last one where there are several
	Reservations         []string
	Tolerating           string // NodeClaim whose toleration is being written to it, or may have been: no answer came; empty: none
	Deployment           string // name of the Deployment whose ReplicaSet controls it; empty: none
	RestartedAt          string // annotation that it has from its template when its Deployment was restarted
	Surge                string // value of dovetail.sh/surge
	Unreservable         bool   // the API server refused its toleration: no reservation can let it in
	Unbindable           bool   // the API server refused to have it bound by us
	Binding              string // the node that we are binding it to, until its own Node says so; empty: we are not
	Expected             bool   // it is not there yet: its ReplicaSet is making it, or it is a virtual one
	Buffer               string // namespace/name of the CapacityBuffer whose virtual pod it is: it stands for capacity and is never made; empty: a real pod
	DisruptionCost       int32  // karpenter.sh/disruption-cost, or controller.kubernetes.io/pod-deletion-cost
	DeletionCost         string // value of controller.kubernetes.io/pod-deletion-cost; empty: none
	OwnDeletionCost      string // value of AnnotationDeletionCost: what we wrote there; empty: nothing
	RestartCost          string // value of dovetail.sh/restart-cost, see ParseRestartCost; empty: not given
	Gang                 Gang   `json:",omitzero"` // the pods that it runs together with; zero: none

	Consumes    Consumed `json:",omitzero"`  // the ProvisioningRequest whose capacity it is for
	Placeholder bool     `json:",omitempty"` // it stands for a pod that its ProvisioningRequest is for and that does not exist: it is never bound
}

// DeletionCostValue returns the deletion cost of a pod as its ReplicaSet reads it: a value that is not a 32-bit integer counts as 0.
func (p *Pod) DeletionCostValue() int32 {
	n, err := strconv.ParseInt(p.DeletionCost, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// IsLetIn reports whether a pod tolerates the reservation of a NodeClaim, or may do so at any moment. A toleration is never taken back.
func (p *Pod) IsLetIn(claim string) bool {
	return p.Tolerating == claim && claim != "" || slices.Contains(p.Reservations, claim)
}

// LetInBy returns the NodeClaims whose reservations a pod tolerates, or may at any moment.
func (p *Pod) LetInBy() []string {
	if p.Tolerating == "" {
		return p.Reservations
	}
	return append(slices.Clip(p.Reservations), p.Tolerating)
}

// PodKey returns the key of the pod of a name.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// Key is namespace/name.
func (p *Pod) Key() string { return PodKey(p.Namespace, p.Name) }

// ComparePodKeys orders pods by their keys.
func ComparePodKeys(a, b *Pod) int { return strings.Compare(a.Key(), b.Key()) }

// IsVirtual reports whether a pod only stands for the capacity that a CapacityBuffer holds.
func (p *Pod) IsVirtual() bool { return p.Buffer != "" }

// DefaultScheduler is the scheduler of pods that name none.
const DefaultScheduler = "default-scheduler"

// RealPods returns the pods of a list that are not virtual, and the list itself if none is.
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

// IsWorkload reports whether a scheduler chose, or is to choose, the pod's node: it is neither a DaemonSet's pod nor a static one.
func (p *Pod) IsWorkload() bool { return !p.Class.Daemon && !p.Mirror }

// IsForScheduler reports whether the default kube-scheduler will look for a node for a pending pod.
func (p *Pod) IsForScheduler() bool {
	return !p.Gated && p.Nominated == "" && p.IsWorkload() && p.Class.Scheduler == DefaultScheduler
}

// ComparePodAge compares pods in the order in which they were first seen, then by namespace and name.
func ComparePodAge(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Seen, b.Seen), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// IsReschedulable reports whether a pod needs another node when its node goes: it is no pod of a DaemonSet, no mirror pod,
// has not ended and is not being deleted.
func (p *Pod) IsReschedulable() bool { return p.IsWorkload() && !p.Terminal && p.Deleting.IsZero() }

// CreatedAs returns the class that a pod's successor is created with: a pod that was made smaller in place has one as large as it was before.
func (p *Pod) CreatedAs() *Class {
	if p.Successor == nil {
		return p.Class
	}
	return p.Successor
}

// SlotClass returns the class by which slots know a pod and its successor: what it was before it was resized in place.
func (p *Pod) SlotClass() *Class {
	if p.First == nil || p.ByVPA {
		return p.Class
	}
	return p.First
}

// SuccessorFollowsEnd reports whether a pod's successor is made only when the pod is wholly gone, as a StatefulSet does; a ReplicaSet does not
// wait for that. It is taken to be so for unknown owners.
func (p *Pod) SuccessorFollowsEnd() bool {
	return p.Owner.Kind != "ReplicaSet" && p.Owner.Kind != "ReplicationController"
}

// Annotations on pods and nodes by which people keep nodes from being removed.
const (
	AnnotationDoNotDisrupt      = "karpenter.sh/do-not-disrupt"
	AnnotationDoNotEvict        = "karpenter.sh/do-not-evict" // on pods, before v1beta1
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// Held reports whether its karpenter.sh/do-not-disrupt holds a pod where it is, and until when; zero: for ever. A duration counts from when the
// pod was bound; a value that is neither true nor a duration holds nothing.
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

// HoldAnnotation returns the annotation that DoNotDisrupt is the value of.
func (p *Pod) HoldAnnotation() string {
	if p.DoNotEvict {
		return AnnotationDoNotEvict
	}
	return AnnotationDoNotDisrupt
}

// HasGang reports whether a pod belongs to a gang.
func (p *Pod) HasGang() bool { return p.Gang.Name != "" }

// IsPlacedTogether reports whether a pod belongs to a gang of which so many pods must have a place before nodes are launched for any.
func (p *Pod) IsPlacedTogether() bool { return p.Gang.Least > 0 }

// CountsAsEnded reports whether a pod of a gang has ended as it should: it needs no place any more, and none takes its place.
func (p *Pod) CountsAsEnded() bool { return p.HasGang() && p.Terminal && !p.Failed }

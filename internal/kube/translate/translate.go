// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Lookup finds the objects that others refer to. Each method answers nil for what isn't there.
type Lookup interface {
	Volumes() *volume.Index // never nil
	CSINode(node string) *storagev1.CSINode
	LimitRanges(namespace string) []*corev1.LimitRange
	RuntimeClass(name string) *nodev1.RuntimeClass
	PriorityClasses() []*schedulingv1.PriorityClass
	// Those of a namespace; asked for, as is OwnerSelector, only where a scheduler has default constraints.
	Services(namespace string) []*corev1.Service
	// OwnerSelector is what a ReplicaSet, StatefulSet or ReplicationController selects its pods by.
	OwnerSelector(kind, namespace, name string) *metav1.LabelSelector
	// Devices are the devices of dynamic resource allocation; nil: there are none.
	Devices() *Devices
	// Gang is what the object of a kind that declares gangs says, by its key, and reports whether there may be objects of the kind.
	Gang(kind *GangKind, key string) (o *GangObject, served bool)
}

// Translator turns API objects into the nouns of model. It holds no state of its own and may be used by several goroutines.
type Translator struct {
	Table  *state.ResourceTable
	Lookup Lookup // nil: nothing is found
	// Defaults are what schedulers spread pods by that bear no constraint of their own.
	Defaults SchedulerDefaults
}

// SchedulerDefaults are the topology spread constraints that kube-scheduler gives pods that bear none of their own, by the name of the
// scheduler. Those that it has of itself (defaultingType System) are wishes that it sees to when it scores, and are not among them.
type SchedulerDefaults map[string][]corev1.TopologySpreadConstraint

// volumes returns the index of volumes and claims.
func (t *Translator) volumes() *volume.Index {
	if t.Lookup == nil {
		return volume.NewIndex()
	}
	return t.Lookup.Volumes()
}

// aliases are the old names of labels that pods may still use.
var aliases = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

// CanonicalLabel returns the name that a label has today.
func CanonicalLabel(key string) string {
	if a, ok := aliases[key]; ok {
		return a
	}
	return key
}

// ResourceVersion reads a resource version, which has been an integer in every release; 0 where it is not.
func ResourceVersion(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// LooksUpVolumes reports whether other objects say where a pod's volumes can be used.
func LooksUpVolumes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return volume.LooksUp(p, &v) })
}

// VolumeAttachment translates a volume attached to a node, and names that node.
func (t *Translator) VolumeAttachment(x *storagev1.VolumeAttachment) (model.Attachment, string) {
	return volume.Attached(x, t.volumes()), x.Spec.NodeName
}

// DeletionTime returns when an object that is still there was deleted, zero: it was not.
func DeletionTime(o metav1.Object) time.Time {
	if t := o.GetDeletionTimestamp(); t != nil {
		return t.Time
	}
	return time.Time{}
}

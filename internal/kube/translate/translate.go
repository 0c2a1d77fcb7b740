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

// Lookup finds referenced objects. Each method returns nil if the object does not exist.
type Lookup interface {
	Volumes() *volume.Index // never nil
	CSINode(node string) *storagev1.CSINode
	LimitRanges(namespace string) []*corev1.LimitRange
	RuntimeClass(name string) *nodev1.RuntimeClass
	PriorityClasses() []*schedulingv1.PriorityClass
	// Services returns the Services of a namespace. Services and OwnerSelector are called only if a scheduler has
	// default constraints.
	Services(namespace string) []*corev1.Service
	// OwnerSelector returns the pod selector of a ReplicaSet, StatefulSet or ReplicationController.
	OwnerSelector(kind, namespace, name string) *metav1.LabelSelector
	// Devices returns the devices of dynamic resource allocation; nil: none.
	Devices() *Devices
	// Gang returns the gang declared by an object, by its kind and key, and reports whether the API server may have
	// objects of the kind.
	Gang(kind *GangKind, key string) (o *GangObject, served bool)
}

// Translator translates API objects to types of model. It is stateless and safe for concurrent use.
type Translator struct {
	Table  *state.ResourceTable
	Lookup Lookup // nil: no object is found
	// Defaults are the default topology spread constraints of schedulers.
	Defaults SchedulerDefaults
}

// SchedulerDefaults are the default topology spread constraints of kube-scheduler, by scheduler name. The built-in ones
// (defaultingType System) only affect scoring, and are not included.
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

// CanonicalLabel returns the current name of a deprecated label, other labels unchanged.
func CanonicalLabel(key string) string {
	if a, ok := aliases[key]; ok {
		return a
	}
	return key
}

// ResourceVersion parses a resource version, which is an integer in every release; 0 if it is not.
func ResourceVersion(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// LooksUpVolumes reports whether other objects determine where a pod's volumes can be used.
func LooksUpVolumes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return volume.LooksUp(p, &v) })
}

// VolumeAttachment translates a volume attached to a node, and returns the name of the node.
func (t *Translator) VolumeAttachment(x *storagev1.VolumeAttachment) (model.Attachment, string) {
	return volume.Attached(x, t.volumes()), x.Spec.NodeName
}

// DeletionTime returns the deletion timestamp of an object; zero: it is not being deleted.
func DeletionTime(o metav1.Object) time.Time {
	if t := o.GetDeletionTimestamp(); t != nil {
		return t.Time
	}
	return time.Time{}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
)

// Store keeps the API objects that a Translator or a writer looks at again: those of the kinds that it names, as a watch brought
// them and as writes answered. Nothing in it is a decision, and pods are not kept.
type Store struct {
	Nodes                            Objects[*corev1.Node]
	Claims                           Objects[*karpv1.NodeClaim]
	Pools                            Objects[*karpv1.NodePool]
	KWOKClasses                      Objects[*kwokv1alpha1.KWOKNodeClass]
	EC2Classes                       Objects[*awsv1.EC2NodeClass]
	GroupClasses                     Objects[*dovetailv1alpha1.NodeGroupClass]
	ClusterAPIClasses                Objects[*clusterapiv1alpha1.ClusterAPINodeClass]
	Provisioners                     Objects[*karpv1alpha5.Provisioner]
	NodeTemplates                    Objects[*awsv1alpha1.AWSNodeTemplate]
	Overlays                         Objects[*karpv1alpha1.NodeOverlay]
	Headrooms                        Objects[*dovetailv1alpha1.Headroom]
	CapacityBuffers                  Objects[*bufferv1beta1.CapacityBuffer]
	CapacityQuotas                   Objects[*bufferv1beta1.CapacityQuota]
	Volumes                          *volume.Index
	CSINodes                         Objects[*storagev1.CSINode]
	Devices                          *translate.Devices // nil: they are not read
	LimitRanges                      Objects[*corev1.LimitRange]
	RuntimeClasses                   Objects[*nodev1.RuntimeClass]
	PriorityClasses                  Objects[*schedulingv1.PriorityClass]
	Services                         Objects[*corev1.Service]
	Selectors                        Objects[*metav1.LabelSelector]      // of controllers, by OwnerKey
	Gangs                            Objects[*translate.GangObject]      // by the name of the gang
	GangKinds                        Objects[*translate.GangKind]        // those that the API server serves, by group
	Requests                         Objects[*unstructured.Unstructured] // ProvisioningRequests
	ProvisionerChanged, PoolChanged  Signal
	GroupsChanged                    Signal // a pool or a class of groups
	HeadroomChanged, ReplicasChanged Signal // the latter: a ReplicaSet is to have another number of pods
}

// Objects keeps the API objects of a kind that an Actor or a Translator looks at again. Objects in it are never changed.
type Objects[T any] struct {
	mu sync.RWMutex
	m  map[string]T
}

// Get returns the object with this key.
func (o *Objects[T]) Get(key string) (T, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	x, ok := o.m[key]
	return x, ok
}

// Set stores an object under this key.
func (o *Objects[T]) Set(key string, x T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = map[string]T{}
	}
	o.m[key] = x
}

// Delete removes the object with this key.
func (o *Objects[T]) Delete(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.m, key)
}

// List returns all objects, in undefined order.
func (o *Objects[T]) List() []T {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make([]T, 0, len(o.m))
	for _, x := range o.m {
		out = append(out, x)
	}
	return out
}

// Sorted returns all objects, sorted by key.
func (o *Objects[T]) Sorted() []T {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make([]T, 0, len(o.m))
	for _, k := range slices.Sorted(maps.Keys(o.m)) {
		out = append(out, o.m[k])
	}
	return out
}

// Signal wakes one waiter; repeated signals are merged.
type Signal struct {
	once sync.Once
	ch   chan struct{}
}

// C returns the channel that the waiter receives from.
func (s *Signal) C() chan struct{} {
	s.once.Do(func() { s.ch = make(chan struct{}, 1) })
	return s.ch
}

// Raise wakes the waiter.
func (s *Signal) Raise() {
	select {
	case s.C() <- struct{}{}:
	default:
	}
}

// KeepWritten keeps what a write answered, so that the next write builds on it though the watch has not brought it yet. An object that
// the watch does not know, or no longer, is left alone.
func KeepWritten[T metav1.Object](o *Objects[T], key string, x T) {
	Trim(x)
	o.mu.Lock()
	defer o.mu.Unlock()
	if have, ok := o.m[key]; ok && have.GetUID() == x.GetUID() && translate.ResourceVersion(have.GetResourceVersion()) < translate.ResourceVersion(x.GetResourceVersion()) {
		o.m[key] = x
	}
}

// KeepSeen is newer for what the watch brings: it may lag behind what a write answered.
func KeepSeen[T metav1.Object](o *Objects[T], key string, x T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = map[string]T{}
	}
	if have, ok := o.m[key]; ok && have.GetUID() == x.GetUID() && translate.ResourceVersion(have.GetResourceVersion()) > translate.ResourceVersion(x.GetResourceVersion()) {
		return
	}
	o.m[key] = x
}

// Lookup implements the Lookup of a Translator with the stored objects.
func (s *Store) Lookup() translate.Lookup { return lookup{s} }

type lookup struct{ s *Store }

func (l lookup) Volumes() *volume.Index { return l.s.Volumes }

func (l lookup) CSINode(node string) *storagev1.CSINode {
	x, _ := l.s.CSINodes.Get(node)
	return x
}

func (l lookup) Devices() *translate.Devices { return l.s.Devices }

func (l lookup) LimitRanges(namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, r := range l.s.LimitRanges.List() {
		if r.Namespace == namespace {
			out = append(out, r)
		}
	}
	return out
}

func (l lookup) RuntimeClass(name string) *nodev1.RuntimeClass {
	x, _ := l.s.RuntimeClasses.Get(name)
	return x
}

func (l lookup) PriorityClasses() []*schedulingv1.PriorityClass { return l.s.PriorityClasses.List() }

func (l lookup) Services(namespace string) []*corev1.Service {
	return slices.DeleteFunc(l.s.Services.Sorted(), func(s *corev1.Service) bool { return s.Namespace != namespace })
}

func (l lookup) OwnerSelector(kind, namespace, name string) *metav1.LabelSelector {
	x, _ := l.s.Selectors.Get(translate.OwnerKey(kind, namespace, name))
	return x
}

func (l lookup) Gang(kind *translate.GangKind, key string) (*translate.GangObject, bool) {
	x, _ := l.s.Gangs.Get(kind.Gang(key))
	_, served := l.s.GangKinds.Get(kind.Version.Group)
	return x, served
}

// Trim removes unused fields from an object.
func Trim(obj any) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		for _, list := range [][]corev1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range list {
				c := &list[i]
				c.Command, c.Args, c.Env, c.EnvFrom, c.VolumeMounts = nil, nil, nil, nil, nil
				c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle, c.SecurityContext = nil, nil, nil, nil, nil
			}
		}
		o.Spec.EphemeralContainers, o.Spec.SecurityContext = nil, nil
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached = nil, nil, nil
	case *appsv1.Deployment:
		o.Spec.Template.Spec, o.Spec.Selector = corev1.PodSpec{}, nil
	case *resourceapi.ResourceClaim:
		o.Status.Devices = nil
	case *appsv1.DaemonSet:
		o.Status = appsv1.DaemonSetStatus{}
	}
}

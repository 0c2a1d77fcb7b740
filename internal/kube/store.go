// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
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
	nodes                            objects[*corev1.Node]
	claims                           objects[*karpv1.NodeClaim]
	pools                            objects[*karpv1.NodePool]
	kwokClasses                      objects[*kwokv1alpha1.KWOKNodeClass]
	ec2Classes                       objects[*awsv1.EC2NodeClass]
	groupClasses                     objects[*dovetailv1alpha1.NodeGroupClass]
	provisioners                     objects[*karpv1alpha5.Provisioner]
	nodeTemplates                    objects[*awsv1alpha1.AWSNodeTemplate]
	overlays                         objects[*karpv1alpha1.NodeOverlay]
	headrooms                        objects[*dovetailv1alpha1.Headroom]
	capacityBuffers                  objects[*bufferv1beta1.CapacityBuffer]
	capacityQuotas                   objects[*bufferv1beta1.CapacityQuota]
	volumes                          *volume.Index
	csiNodes                         objects[*storagev1.CSINode]
	limitRanges                      objects[*corev1.LimitRange]
	runtimeClasses                   objects[*nodev1.RuntimeClass]
	priorityClasses                  objects[*schedulingv1.PriorityClass]
	services                         objects[*corev1.Service]
	selectors                        objects[*metav1.LabelSelector] // of controllers, by OwnerKey
	provisionerChanged, poolChanged  signal
	groupsChanged                    signal // a pool or a class of groups
	headroomChanged, replicasChanged signal // the latter: a ReplicaSet is to have another number of pods
}

// objects keeps the API objects of a kind that an Actor or a Translator looks at again. Objects in it are never changed.
type objects[T any] struct {
	mu sync.RWMutex
	m  map[string]T
}

func (o *objects[T]) get(key string) (T, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	x, ok := o.m[key]
	return x, ok
}

func (o *objects[T]) set(key string, x T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = map[string]T{}
	}
	o.m[key] = x
}

func (o *objects[T]) delete(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.m, key)
}

func (o *objects[T]) list() []T {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make([]T, 0, len(o.m))
	for _, x := range o.m {
		out = append(out, x)
	}
	return out
}

// sorted lists by key.
func (o *objects[T]) sorted() []T {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make([]T, 0, len(o.m))
	for _, k := range slices.Sorted(maps.Keys(o.m)) {
		out = append(out, o.m[k])
	}
	return out
}

// signal wakes one waiter; several in a row are one.
type signal struct {
	once sync.Once
	ch   chan struct{}
}

func (s *signal) c() chan struct{} {
	s.once.Do(func() { s.ch = make(chan struct{}, 1) })
	return s.ch
}

func (s *signal) raise() {
	select {
	case s.c() <- struct{}{}:
	default:
	}
}

// newer keeps what a write answered, so that the next write builds on it though the watch has not brought it yet. An object that
// the watch does not know, or no longer, is left alone.
func newer[T metav1.Object](o *objects[T], key string, x T) {
	trim(x)
	o.mu.Lock()
	defer o.mu.Unlock()
	if have, ok := o.m[key]; ok && have.GetUID() == x.GetUID() && translate.ResourceVersion(have.GetResourceVersion()) < translate.ResourceVersion(x.GetResourceVersion()) {
		o.m[key] = x
	}
}

// seen is newer for what the watch brings: it may lag behind what a write answered.
func seen[T metav1.Object](o *objects[T], key string, x T) {
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

// Lookup serves a Translator from what was seen.
func (s *Store) Lookup() translate.Lookup { return lookup{s} }

type lookup struct{ s *Store }

func (l lookup) Volumes() *volume.Index { return l.s.volumes }

func (l lookup) CSINode(node string) *storagev1.CSINode {
	x, _ := l.s.csiNodes.get(node)
	return x
}

func (l lookup) LimitRanges(namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, r := range l.s.limitRanges.list() {
		if r.Namespace == namespace {
			out = append(out, r)
		}
	}
	return out
}

func (l lookup) RuntimeClass(name string) *nodev1.RuntimeClass {
	x, _ := l.s.runtimeClasses.get(name)
	return x
}

func (l lookup) PriorityClasses() []*schedulingv1.PriorityClass { return l.s.priorityClasses.list() }

func (l lookup) Services(namespace string) []*corev1.Service {
	return slices.DeleteFunc(l.s.services.sorted(), func(s *corev1.Service) bool { return s.Namespace != namespace })
}

func (l lookup) OwnerSelector(kind, namespace, name string) *metav1.LabelSelector {
	x, _ := l.s.selectors.get(translate.OwnerKey(kind, namespace, name))
	return x
}

// trim drops from an object what nobody here reads.
func trim(obj any) {
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
	case *appsv1.DaemonSet:
		o.Status = appsv1.DaemonSetStatus{}
	}
}

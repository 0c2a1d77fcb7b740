// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"
)

// Extended resources that a DeviceClass stands for: a pod requests them like those of a device plugin, and on a node on which no plugin has registered
// the resource, kube-scheduler allocates devices of the class, by a claim that it creates for the pod.

// IsExtended reports whether a resource may be the extended resource of a DeviceClass.
func IsExtended(resource string) bool {
	if strings.HasPrefix(resource, resourceapi.ResourceDeviceClassPrefix) {
		return true
	}
	return strings.Contains(resource, "/") && !strings.Contains(resource, "kubernetes.io/")
}

// RequestsExtended reports whether a pod requests a resource that may be the extended resource of a DeviceClass.
func RequestsExtended(p *corev1.Pod) bool {
	of := func(c corev1.Container) bool {
		for name, v := range c.Resources.Requests {
			if !v.IsZero() && IsExtended(string(name)) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(p.Spec.Containers, of) || slices.ContainsFunc(p.Spec.InitContainers, of)
}

// OfPlugins returns the amounts that a node has through extended resources registered by its device plugins: kube-scheduler
// allocates no devices for them.
func (b *Book) OfPlugins(registered map[string]int64) map[string]int64 {
	b.refresh()
	out := map[string]int64{}
	for resource, n := range registered {
		if name := Prefix + resource; b.layout.names[name] {
			out[name] = n
		}
	}
	for name, s := range b.layout.counted {
		if times := s.times(registered); times > 0 {
			out[name] = times
		}
	}
	return out
}

// times returns how often device plugins have what a signature requests; 0 if it requests anything else than extended resources.
func (s *signature) times(registered map[string]int64) int64 {
	if !s.simple || len(s.counts) == 0 {
		return 0
	}
	least := int64(-1)
	for key, n := range s.counts {
		if s.wants[key].extended == "" {
			return 0
		}
		if times := registered[s.wants[key].extended] / n; least < 0 || times < least {
			least = times
		}
	}
	return least
}

// SetExtendedUnserved sets whether the extended resources of a DeviceClass are behind a feature gate of the API server that is off
// by default. A class with an extended resource shows that the gate is on, because the API server drops the field otherwise.
func (b *Book) SetExtendedUnserved(unserved bool) {
	b.all = b.all || b.unserved != unserved
	b.unserved = unserved
}

// classOf returns the class that stands for an extended resource; nil: none. Of several that name it, it is the one that was created last, then
// the first by name.
func (b *Book) classOf(resource string) *resourceapi.DeviceClass {
	if name, ok := strings.CutPrefix(resource, resourceapi.ResourceDeviceClassPrefix); ok {
		if b.unserved && len(b.extended) == 0 {
			return nil
		}
		return b.classes[name]
	}
	return b.extended[resource]
}

// findExtended finds the classes that stand for extended resources.
func (b *Book) findExtended() {
	clear(b.extended)
	for _, c := range b.classes {
		if c.Spec.ExtendedResourceName == nil {
			continue
		}
		name := *c.Spec.ExtendedResourceName
		if was := b.extended[name]; was == nil || cmp.Or(was.CreationTimestamp.Compare(c.CreationTimestamp.Time), cmp.Compare(c.Name, was.Name)) < 0 {
			b.extended[name] = c
		}
	}
}

// extendedOf returns what a pod requests of extended resources that classes stand for.
func (b *Book) extendedOf(p *corev1.Pod) map[string]int64 {
	if !RequestsExtended(p) {
		return nil
	}
	var out map[string]int64
	for name, v := range podresources.PodRequests(p, podresources.PodResourcesOptions{}) {
		if n := v.Value(); n > 0 && IsExtended(string(name)) && b.classOf(string(name)) != nil {
			if out == nil {
				out = map[string]int64{}
			}
			out[string(name)] = n
		}
	}
	return out
}

// asksOfExtended are the requests of the claim that kube-scheduler creates for extended resources.
func (b *Book) asksOfExtended(amounts map[string]int64) *asks {
	a := &asks{simple: true, counts: map[*want]int64{}}
	var total int64
	for i, name := range slices.Sorted(maps.Keys(amounts)) {
		n := amounts[name]
		w := newWant(b.classOf(name).Name, nil, nil)
		w.key, w.extended = w.key+"\n"+name, name
		a.counts[w] = n
		a.list = append(a.list, ask{name: name, wants: []*want{w}})
		a.devices.Requests = append(a.devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint(i), Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: w.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n}})
		total += n
	}
	if total > resourceapi.AllocationResultsMaxSize {
		a.faults = append(a.faults, fmt.Sprintf("requests %d devices, at most %d can be allocated to one pod; use several pods", total, resourceapi.AllocationResultsMaxSize))
	}
	return a
}

// rank orders the wants for the devices of one class: an extended resource that the class names, the one by the name of the class, and claims. On a
// node whose device plugin has registered the first, only that is there.
func (w *want) rank() int {
	switch {
	case w.extended == "":
		return 2
	case strings.HasPrefix(w.extended, resourceapi.ResourceDeviceClassPrefix):
		return 1
	}
	return 0
}

// yields reports whether requests of a want are not counted in the set of another want, since those are counted in its set: the devices of both are
// the same, and the set of the want with the lowest rank has all that is requested of them.
func (w *want) yields(other *want) bool {
	return other != nil && w.base == other.base && w.rank() < other.rank()
}

// extendedPod returns the pod for which kube-scheduler has created a claim for extended resources, as namespace/name; empty: it is another claim.
func extendedPod(c *resourceapi.ResourceClaim) string {
	if o := metav1.GetControllerOf(c); o != nil && o.Kind == "Pod" && c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
		return c.Namespace + "/" + o.Name
	}
	return ""
}

// extendedClaim returns the claim that kube-scheduler has created for a pod's extended resources; nil: it has not.
func (b *Book) extendedClaim(p *corev1.Pod) *claim {
	for key := range b.ofExtended[p.Namespace+"/"+p.Name] {
		if c := b.claims[key]; metav1.IsControlledBy(c.object, p) {
			return c
		}
	}
	return nil
}

// setExtendedClaim notes that a claim for a pod's extended resources is there, or that it is not.
func (b *Book) setExtendedClaim(key string, o *resourceapi.ResourceClaim, there bool) {
	pod := extendedPod(o)
	if pod == "" {
		return
	}
	if b.pods[pod] != nil {
		b.changedPods[pod] = true
	}
	if !there {
		if delete(b.ofExtended[pod], key); len(b.ofExtended[pod]) == 0 {
			delete(b.ofExtended, pod)
		}
		return
	}
	if b.ofExtended[pod] == nil {
		b.ofExtended[pod] = map[string]bool{}
	}
	b.ofExtended[pod][key] = true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// mutant is a fault that Dovetail had, put back from outside: what the fault did not look at is taken from the objects that the plan is made
// from, or the plan is changed to what the fault made of it. The judges see the cluster as it is, and must find the fault.
type mutant struct {
	row    int // of the table of faults
	name   string
	blind  func(c *drawn, o runtime.Object) runtime.Object // the object as the fault sees it; nil: not at all
	spoil  func(c *drawn, a *answer)                       // what the fault makes of the plan
	repeat bool                                            // the fault makes the plan anew for every value of minValues
}

// changed returns a copy of an object with a change.
func changed[T runtime.Object](o T, change func(T)) runtime.Object {
	x := o.DeepCopyObject().(T)
	change(x)
	return x
}

// mutants are the faults in the order of the table.
var mutants = []mutant{
	{row: 1, name: "minValues is not counted in what a claim leaves", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		if p, ok := o.(*karpv1.NodePool); ok {
			return changed(p, func(p *karpv1.NodePool) {
				for i := range p.Spec.Template.Spec.Requirements {
					p.Spec.Template.Spec.Requirements[i].MinValues = nil
				}
			})
		}
		return o
	}},
	{row: 2, name: "minValues is counted anew for every value", repeat: true},
	{row: 3, name: "a driver's own topology key is a label that no pool has", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		const unknown = "topology.unknown.example.com/zone"
		switch x := o.(type) {
		case *corev1.PersistentVolume:
			return changed(x, func(v *corev1.PersistentVolume) {
				for _, t := range termsOf(v) {
					for i := range t.MatchExpressions {
						if t.MatchExpressions[i].Key == ebsKey {
							t.MatchExpressions[i].Key = unknown
						}
					}
				}
			})
		case *storagev1.StorageClass:
			return changed(x, func(s *storagev1.StorageClass) {
				for i := range s.AllowedTopologies {
					for j := range s.AllowedTopologies[i].MatchLabelExpressions {
						if e := &s.AllowedTopologies[i].MatchLabelExpressions[j]; e.Key == ebsKey {
							e.Key = unknown
						}
					}
				}
			})
		}
		return o
	}},
	{row: 4, name: "zone labels of a volume are not looked at", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		if v, ok := o.(*corev1.PersistentVolume); ok {
			return changed(v, func(v *corev1.PersistentVolume) { v.Labels = nil })
		}
		return o
	}},
	{row: 5, name: "a claim counts whether it is being deleted or somebody else's", blind: func(c *drawn, o runtime.Object) runtime.Object {
		p, ok := o.(*corev1.PersistentVolumeClaim)
		if !ok {
			return o
		}
		return changed(p, func(p *corev1.PersistentVolumeClaim) {
			p.DeletionTimestamp = nil
			for _, pod := range c.pods {
				if strings.HasPrefix(p.Name, pod.Name+"-") {
					p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
				}
			}
		})
	}},
	{row: 6, name: "storage capacity is not looked at", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		if x, ok := o.(*storagev1.CSIDriver); ok {
			return changed(x, func(x *storagev1.CSIDriver) { x.Spec.StorageCapacity = nil })
		}
		return o
	}},
	{row: 7, name: "volumes of an in-tree provisioner do not count", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		switch x := o.(type) {
		case *storagev1.StorageClass:
			return changed(x, func(s *storagev1.StorageClass) {
				if s.Provisioner == ebsInTree {
					s.Provisioner = "unknown.example.com"
				}
			})
		case *corev1.PersistentVolume:
			return changed(x, func(v *corev1.PersistentVolume) {
				if v.Spec.AWSElasticBlockStore != nil {
					v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}
				}
			})
		}
		return o
	}},
	{row: 8, name: "a DaemonSet on the host's network has no host ports", blind: ofDaemons(func(s *corev1.PodTemplateSpec) { s.Spec.HostNetwork = false })},
	{row: 9, name: "a DaemonSet that selects registered nodes goes to none", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		if d := daemonOf(o); d != nil && d.Spec.NodeSelector[karpv1.LabelRegistered] != "" {
			return nil
		}
		return o
	}},
	{row: 10, name: "a DaemonSet's pod is its template", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		if p, ok := o.(*corev1.Pod); ok && p.Labels["daemon"] != "" {
			return nil
		}
		return ofDaemons(func(s *corev1.PodTemplateSpec) { s.Spec.RuntimeClassName = nil })(nil, o)
	}},
	{row: 11, name: "a RuntimeClass is not looked at", blind: noRuntimeClass},
	{row: 12, name: "the reason does not tell of the node that a pod asks for", spoil: func(_ *drawn, a *answer) {
		for i := range a.out.Pods {
			p := &a.out.Pods[i]
			if p.Outcome == plan.Refused && slices.ContainsFunc(p.Pod.Class.SelectorKeys, func(k string) bool { return k == hostKey }) {
				p.Reasons = []plan.Reason{{Code: plan.Offering}}
			}
		}
	}},
	{row: 13, name: "nobody knows the labels of a DaemonSet's pods", blind: ofDaemons(func(s *corev1.PodTemplateSpec) { s.Labels = nil })},
	{row: 14, name: "a preference for pods that are not there pins the zone", blind: func(c *drawn, o runtime.Object) runtime.Object {
		p, ok := o.(*corev1.Pod)
		if !ok || !towardsNobody(p) {
			return o
		}
		return changed(p, func(p *corev1.Pod) {
			if p.Spec.NodeSelector == nil {
				p.Spec.NodeSelector = map[string]string{}
			}
			if _, ok := p.Spec.NodeSelector[zoneKey]; !ok {
				p.Spec.NodeSelector[zoneKey] = c.dearest()
			}
		})
	}},
	{row: 15, name: "no room is kept for a DaemonSet on a node that is reserved", blind: func(c *drawn, o runtime.Object) runtime.Object {
		if daemonOf(o) == nil || len(c.claimed) == 0 {
			return o
		}
		var names []string
		for _, m := range c.claimed {
			names = append(names, m.Status.NodeName) // in these clusters a node's host label is its name
		}
		return ofDaemons(func(s *corev1.PodTemplateSpec) {
			s.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostKey, Operator: corev1.NodeSelectorOpNotIn, Values: names}}}}}}}
		})(c, o)
	}},
	{row: 16, name: "a CSI driver that must be registered on a node is not looked at", blind: func(_ *drawn, o runtime.Object) runtime.Object {
		if x, ok := o.(*storagev1.CSIDriver); ok {
			return changed(x, func(x *storagev1.CSIDriver) { x.Spec.PreventPodSchedulingIfMissing = nil })
		}
		return o
	}},
}

// daemonOf is the template of a DaemonSet, nil for other objects.
func daemonOf(o runtime.Object) *corev1.PodTemplateSpec {
	if d, ok := o.(*appsv1.DaemonSet); ok {
		return &d.Spec.Template
	}
	return nil
}

// ofDaemons changes the templates of DaemonSets.
func ofDaemons(change func(*corev1.PodTemplateSpec)) func(*drawn, runtime.Object) runtime.Object {
	return func(_ *drawn, o runtime.Object) runtime.Object {
		if d, ok := o.(*appsv1.DaemonSet); ok {
			return changed(d, func(d *appsv1.DaemonSet) { change(&d.Spec.Template) })
		}
		return o
	}
}

// noRuntimeClass leaves RuntimeClasses out, and what they have added to pods.
func noRuntimeClass(_ *drawn, o runtime.Object) runtime.Object {
	switch x := o.(type) {
	case *nodev1.RuntimeClass:
		return nil
	case *corev1.Pod:
		return changed(x, func(p *corev1.Pod) { p.Spec.RuntimeClassName, p.Spec.Overhead = nil, nil })
	}
	return o
}

func termsOf(v *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return v.Spec.NodeAffinity.Required.NodeSelectorTerms
}

// towardsNobody reports whether a pod prefers to be beside pods that are not there.
func towardsNobody(p *corev1.Pod) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return false
	}
	return slices.ContainsFunc(p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, func(t corev1.WeightedPodAffinityTerm) bool {
		return t.PodAffinityTerm.LabelSelector != nil && t.PodAffinityTerm.LabelSelector.MatchLabels["app"] == nobodyApp
	})
}

// dearest is the zone with the dearest offering.
func (c *drawn) dearest() string {
	zone, most := zones[0], int64(-1)
	for _, m := range c.machines {
		for _, o := range m.offerings {
			if o.Available && o.PriceMicro > most {
				zone, most = o.Zone, o.PriceMicro
			}
		}
	}
	return zone
}

// seenBy are the objects as a mutant sees them.
func (m *mutant) seenBy(c *drawn) []runtime.Object {
	objects := c.objects()
	if m == nil || m.blind == nil {
		return objects
	}
	var out []runtime.Object
	for _, o := range objects {
		if x := m.blind(c, o); x != nil {
			out = append(out, x)
		}
	}
	return out
}

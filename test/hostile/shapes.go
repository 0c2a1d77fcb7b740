// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shape is what one tenant asks for.
type shape struct {
	name string
	make func(seed uint64) []*corev1.Pod
}

const (
	ordinaryNamespace = "shop"
	tenantNamespace   = "tenant"
)

// newPod returns a pod that kube-scheduler has refused: one container of a fifth of a processor.
func newPod(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Labels: map[string]string{"app": "a"}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("256Mi")}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return p
}

// ordinaryPods are the ten of another namespace whose owner has done nothing.
func ordinaryPods() []*corev1.Pod {
	out := make([]*corev1.Pod, 10)
	for i := range out {
		out[i] = newPod(ordinaryNamespace, "web-"+strconv.Itoa(i))
	}
	return out
}

// each returns n pods of the tenant, each changed by a function.
func each(n int, change func(i int, p *corev1.Pod)) func(uint64) []*corev1.Pod {
	return func(uint64) []*corev1.Pod { return pods(n, change) }
}

func pods(n int, change func(i int, p *corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = newPod(tenantNamespace, fmt.Sprintf("p-%05d", i))
		change(i, out[i])
	}
	return out
}

// selectKeys has a pod select its node by so many labels.
func selectKeys(p *corev1.Pod, n int) {
	p.Spec.NodeSelector = make(map[string]string, n)
	for k := range n {
		p.Spec.NodeSelector["example.com/key-"+strconv.Itoa(k)] = "v"
	}
}

// addTerm adds an alternative to a pod's required node affinity.
func addTerm(p *corev1.Pod, rules ...corev1.NodeSelectorRequirement) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}
	}
	s := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: rules})
}

func nodeRule(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

// podTerm is a term of pod affinity or anti-affinity.
func podTerm(topology, key string, op metav1.LabelSelectorOperator, values ...string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}}
}

func avoid(p *corev1.Pod, terms ...corev1.PodAffinityTerm) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}

func follow(p *corev1.Pod, terms ...corev1.PodAffinityTerm) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}

func spread(p *corev1.Pod, topology string, skew int32, when corev1.UnsatisfiableConstraintAction, labels map[string]string) {
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
		TopologyKey: topology, MaxSkew: skew, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}})
}

// takePorts gives a pod n host ports from one number on.
func takePorts(p *corev1.Pod, from, n int) {
	for k := range n {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 1, HostPort: int32(1 + (from+k)%65535)})
	}
}

func label(p *corev1.Pod, key, value string) { p.Labels = map[string]string{"app": "a", key: value} }

// quiet is a tenant that makes no pods: what ordinary pods wait then is the machine's, and that of whatever else runs there.
func quiet() shape { return shape{"quiet: no pods of a tenant", each(0, nil)} }

// table are the shapes that were found to take long.
func table() []shape {
	return []shape{
		{"ports: 200 pods with 1,000 host ports of their own", each(200, func(i int, p *corev1.Pod) { takePorts(p, i*1000, 1000) })},
		{"cliques: 2,000 pods with anti-affinity to all others by NotIn their own label", each(2000, func(i int, p *corev1.Pod) {
			v := strconv.Itoa(i)
			label(p, "id", v)
			avoid(p, podTerm(corev1.LabelHostname, "id", metav1.LabelSelectorOpNotIn, v))
		})},
		{"terms: 50 pods with 1,000 nodeSelectorTerms instance-cpu Gt n", each(50, func(i int, p *corev1.Pod) {
			for n := range 1000 {
				addTerm(p, nodeRule("karpenter.k8s.aws/instance-cpu", corev1.NodeSelectorOpGt, strconv.Itoa(i+n)))
			}
		})},
		{"keys: 5 pods with 25,000 keys in nodeSelector", each(5, func(i int, p *corev1.Pod) {
			selectKeys(p, 25_000)
			p.Spec.NodeSelector["example.com/own"] = strconv.Itoa(i)
		})},
		{"key: 1 pod with 25,000 keys in nodeSelector", each(1, func(_ int, p *corev1.Pod) { selectKeys(p, 25_000) })},
		{"selectors: 50 pods with 3,000 keys in nodeSelector", each(50, func(i int, p *corev1.Pod) {
			selectKeys(p, 3000)
			p.Spec.NodeSelector["example.com/own"] = strconv.Itoa(i)
		})},
	}
}

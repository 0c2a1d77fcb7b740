// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package refusals

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// story is a record that is filled second by second: a node n1 of claim c1, launched for two pods of web, is open from second 10 on.
type story struct{ *Record }

func at(second int) time.Time { return time.Unix(int64(second), 0) }

func newStory(taints ...corev1.Taint) story {
	s := story{NewRecord()}
	s.SetClaim(s.claim("c1"))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}, OwnerReferences: []metav1.OwnerReference{{Kind: "NodeClaim", Name: "c1"}}}}
	n.Spec.Taints = append(taints, corev1.Taint{Key: "dovetail.sh/reserved", Effect: corev1.TaintEffectNoSchedule})
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.SetNode(at(8), n)
	n = n.DeepCopy()
	n.Spec.Taints = taints
	s.SetNode(at(10), n)
	return s
}

// claim returns a NodeClaim for two pods of Deployment web.
func (s story) claim(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at(5)),
		Annotations: map[string]string{slotsAnnotation: `[{"class":"x","owner":"deployment/ns/web","count":2}]`}}}
}

// pod returns a pod of Deployment web, or of the DaemonSet agent.
func (s story) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	controller := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at(1)), Labels: map[string]string{"pod-template-hash": "h"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-h", UID: "rs", Controller: &controller}}}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("800m")}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func (s story) refuse(second int, p *corev1.Pod) {
	p = p.DeepCopy()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: fmt.Sprint("no node at ", second)}}
	s.SetPod(at(second), p)
}

func (s story) bind(second int, p *corev1.Pod) {
	p = p.DeepCopy()
	p.Spec.NodeName = "n1"
	s.SetPod(at(second), p)
}

// Refusals are told from those that say nothing against Dovetail.
func TestJudge(t *testing.T) {
	agent := func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].UID = "DaemonSet", "agent"
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}}}
	}
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pod-template-hash": "h"}}}}
	}
	selects := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }
	for _, c := range []struct {
		name, by, message string // by empty: not counted
		taints            []corev1.Taint
		tell              func(s story)
	}{
		{name: "before the node is open", tell: func(s story) { s.refuse(9, s.pod("w1")); s.bind(15, s.pod("w1")) }},
		{name: "as it opens", tell: func(s story) { s.refuse(11, s.pod("w1")); s.bind(20, s.pod("w1")) }},
		{name: "as it opens, and for ever", by: "kube-scheduler", message: "no node at 11", tell: func(s story) { s.refuse(11, s.pod("w1")) }},
		{name: "while it is open", by: "kube-scheduler", message: "no node at 15", tell: func(s story) { s.refuse(9, s.pod("w1")); s.refuse(15, s.pod("w1")); s.bind(18, s.pod("w1")) }},
		{name: "while a taint keeps the pod out", taints: []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}, tell: func(s story) { s.refuse(20, s.pod("w1")) }},
		{name: "a pod that was told", tell: func(s story) { s.refuse(9, s.pod("w1")); s.SetTold(at(12), "w1"); s.refuse(20, s.pod("w1")) }},
		{name: "a pod that is bound at once", tell: func(s story) { s.refuse(20, s.pod("w1")); s.bind(21, s.pod("w1")) }},
		{name: "others have the slots", tell: func(s story) {
			s.bind(11, s.pod("w1"))
			s.bind(11, s.pod("w2"))
			s.refuse(20, s.pod("w3"))
		}},
		{name: "one other has a slot", by: "kube-scheduler", message: "no node at 20", tell: func(s story) { s.bind(11, s.pod("w1")); s.refuse(20, s.pod("w3")) }},
		{name: "a pod that came later", tell: func(s story) {
			s.refuse(20, s.pod("w1", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at(15)) }))
		}},
		{name: "spread, while a node for others is to come", tell: func(s story) {
			s.SetClaim(s.claim("c2"))
			s.refuse(15, s.pod("w1", spread))
			s.bind(20, s.pod("w1", spread))
		}},
		{name: "spread, while others are bound", tell: func(s story) {
			s.bind(14, s.pod("w2", spread))
			s.refuse(15, s.pod("w1", spread))
			s.bind(20, s.pod("w1", spread))
		}},
		{name: "spread, and nothing to come", by: "kube-scheduler", message: "no node at 15", tell: func(s story) {
			s.SetClaim(s.claim("c2"))
			s.DeleteClaim(at(12), "c2")
			s.refuse(15, s.pod("w1", spread))
			s.bind(20, s.pod("w1", spread))
		}},
		{name: "spread, and for ever", by: "kube-scheduler", message: "no node at 11", tell: func(s story) {
			s.bind(14, s.pod("w2", spread))
			s.refuse(11, s.pod("w1", spread))
		}},
		{name: "a node that is gone", tell: func(s story) { s.DeleteNode(at(15), "n1"); s.refuse(20, s.pod("w1")) }},
		{name: "a DaemonSet's pod", by: "kube-scheduler", message: "no node at 20", tell: func(s story) { s.refuse(20, s.pod("a1", agent)) }},
		{name: "room for both", tell: func(s story) { s.bind(11, s.pod("w1")); s.bind(12, s.pod("w2")) }},
		{name: "room for two of three", by: "kubelet", message: "OutOfcpu", tell: func(s story) { s.bind(11, s.pod("w1")); s.bind(12, s.pod("w2")); s.bind(13, s.pod("w3")) }},
		{name: "room again", tell: func(s story) {
			s.bind(11, s.pod("w1"))
			s.bind(12, s.pod("w2"))
			s.DeletePod(at(12), "w1")
			s.bind(13, s.pod("w3"))
		}},
		{name: "another zone", by: "kubelet", message: "NodeAffinity", tell: func(s story) { s.bind(11, s.pod("w1", selects)) }},
		{name: "a zone that is seen late", tell: func(s story) {
			s.bind(11, s.pod("w1", selects, func(p *corev1.Pod) { p.ResourceVersion = "20" }))
			n := s.nodes["n1"].last.DeepCopy()
			n.Labels, n.ResourceVersion = map[string]string{"zone": "b"}, "19"
			s.SetNode(at(11), n)
		}},
		{name: "a zone that comes too late", by: "kubelet", message: "NodeAffinity", tell: func(s story) {
			s.bind(11, s.pod("w1", selects, func(p *corev1.Pod) { p.ResourceVersion = "20" }))
			n := s.nodes["n1"].last.DeepCopy()
			n.Labels, n.ResourceVersion = map[string]string{"zone": "b"}, "21"
			s.SetNode(at(11), n)
		}},
		{name: "rejected", by: "kubelet", message: "OutOfpods", tell: func(s story) {
			s.bind(11, s.pod("w1"))
			s.bind(12, s.pod("w1", func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "OutOfpods", "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
			}))
		}},
		{name: "failed by itself", tell: func(s story) {
			s.bind(12, s.pod("w1", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(c.taints...)
			c.tell(s)
			got := s.Judge(at(100), 2*time.Second).Wrong
			if c.by == "" {
				if len(got) > 0 {
					t.Errorf("%v, want none", got)
				}
				return
			}
			if len(got) != 1 || got[0].By != c.by || got[0].Message != c.message || got[0].Node != "n1" {
				t.Errorf("%v, want one by %s: %s", got, c.by, c.message)
			}
		})
	}
}

// A pod that kube-controller-manager deletes for a taint is counted if its node had lost the taint before.
func TestLateTaints(t *testing.T) {
	for name, taints := range map[string][]corev1.Taint{"gone": nil, "another": {{Key: "team", Effect: corev1.TaintEffectNoSchedule}}, "there": {{Key: "team", Effect: corev1.TaintEffectNoExecute}}} {
		s := newStory(taints...)
		s.bind(11, s.pod("w1", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"})
		}))
		if got := len(s.Judge(at(30), time.Second).LateTaints); (got == 1) != (name != "there") {
			t.Errorf("taint %s: %d pods are counted", name, got)
		}
	}
}

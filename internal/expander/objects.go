// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package expander

import (
	"maps"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// podOf is a pod as far as decisions know it: what it is called, its labels and owner, what it requests, tolerates and
// selects, its priority and scheduler. Its containers, environment and volumes are not kept.
func podOf(p *model.Pod, names []string) *corev1.Pod {
	c := p.Class
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), Labels: c.Labels, CreationTimestamp: metav1.NewTime(p.Created)},
		Spec:       corev1.PodSpec{SchedulerName: c.Scheduler, Priority: &c.Priority},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
	if p.Owner.UID != "" {
		yes := true
		out.OwnerReferences = []metav1.OwnerReference{{Kind: p.Owner.Kind, Name: p.Owner.Name, UID: types.UID(p.Owner.UID), Controller: &yes}}
	}
	requests := resources(c.Requests, names)
	delete(requests, corev1.ResourcePods)
	out.Spec.Containers = []corev1.Container{{Name: "requests", Resources: corev1.ResourceRequirements{Requests: requests}}}
	for _, t := range c.Tolerations {
		x := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		switch {
		case t.Exists:
			x.Operator = corev1.TolerationOpExists
		case t.Operator != "":
			x.Operator = corev1.TolerationOperator(t.Operator)
		}
		out.Spec.Tolerations = append(out.Spec.Tolerations, x)
	}
	if terms := nodeTerms(c.Terms); len(terms) > 0 {
		out.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	return out
}

// nodeTerms are the alternatives of a pod's required node affinity, its nodeSelector merged into each.
func nodeTerms(in []model.NodeTerm) (out []corev1.NodeSelectorTerm) {
	for _, t := range in {
		var term corev1.NodeSelectorTerm
		for i := range t.Requirements {
			q := &t.Requirements[i]
			op := corev1.NodeSelectorOpIn
			switch {
			case q.Complement && len(q.Values) == 0:
				op = corev1.NodeSelectorOpExists
			case q.Complement:
				op = corev1.NodeSelectorOpNotIn
			case len(q.Values) == 0:
				op = corev1.NodeSelectorOpDoesNotExist
			}
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: q.Key, Operator: op, Values: q.Values})
			if q.Min > math.MinInt64 {
				term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: q.Key, Operator: corev1.NodeSelectorOpGt, Values: []string{strconv.FormatInt(q.Min-1, 10)}})
			}
			if q.Max < math.MaxInt64 {
				term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: q.Key, Operator: corev1.NodeSelectorOpLt, Values: []string{strconv.FormatInt(q.Max+1, 10)}})
			}
		}
		out = append(out, term)
	}
	return out
}

// nodeOf is a node as it would come from a group.
func nodeOf(o *nodegroups.Option, names []string) *corev1.Node {
	t := o.First.Type
	labels := map[string]string{}
	for _, from := range []model.Labels{o.Pool.Labels, t.Labels, o.First.Offering.Labels} {
		maps.Copy(labels, from)
	}
	labels[model.LabelNodePool], labels[model.LabelZone], labels[model.LabelCapacityType] = o.Pool.Name, o.First.Offering.Zone, o.First.Offering.CapacityType
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template-node-for-" + o.Group, Labels: labels, Annotations: o.Pool.Annotations},
		Status: corev1.NodeStatus{Capacity: resources(t.Capacity, names), Allocatable: resources(t.Allocatable, names),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, x := range o.Pool.Taints {
		out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: x.Key, Value: x.Value, Effect: corev1.TaintEffect(x.Effect)})
	}
	return out
}

// resources are amounts by name, those of 0 left out.
func resources(r model.Resources, names []string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, name := range names {
		d := model.Dim(i)
		amount := r.At(d)
		switch {
		case amount == 0:
		case d == model.CPU:
			out[corev1.ResourceName(name)] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case d == model.Memory || d == model.EphemeralStorage:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.BinarySI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Node translates a node.
func (t *Translator) Node(n *corev1.Node) *model.Node {
	out := &model.Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Labels: n.Labels, Annotations: n.Annotations,
		Taints: taints(n.Spec.Taints), Capacity: t.Resources(n.Status.Capacity, 0), Allocatable: t.Resources(n.Status.Allocatable, 0),
		BootID: n.Status.NodeInfo.BootID, Phase: string(n.Status.Phase), Created: n.CreationTimestamp.Time, HasFinalizer: slices.Contains(n.Finalizers, karpv1.FinalizerTermination),
		OtherFinalizers: otherFinalizers(n.Finalizers), Conditions: make(map[string]model.Condition, len(n.Status.Conditions)),
	}
	out.Deleting = DeletionTime(n)
	if n.Spec.Unschedulable {
		x := model.Taint{Key: corev1.TaintNodeUnschedulable, Effect: model.NoSchedule}
		if !slices.Contains(out.Taints, x) {
			out.Taints = append(out.Taints, x)
		}
	}
	readReservation(out, n.Spec.Taints)
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		out.Conditions[string(c.Type)] = model.Condition{
			Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		}
		if c.Type == corev1.NodeReady {
			out.Ready, out.ReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	if t.Lookup != nil {
		if csi := t.Lookup.CSINode(n.Name); csi != nil {
			out.CSIDrivers, out.CSILimits, out.Migrated = volume.OfNode(csi)
		}
		if d := t.Lookup.Devices(); d != nil {
			out.Allocatable = t.withAmounts(out.Allocatable, d.OfNode(n.Name, t.pluginsOf(out.Allocatable)))
		}
	}
	return out
}

// otherFinalizers are the finalizers of an object that are not ours.
func otherFinalizers(list []string) (out []string) {
	for _, f := range list {
		if f != karpv1.FinalizerTermination {
			out = append(out, f)
		}
	}
	return out
}

func taints(list []corev1.Taint) []model.Taint {
	var out []model.Taint
	for i := range list {
		out = append(out, model.Taint{Key: list[i].Key, Value: list[i].Value, Effect: string(list[i].Effect)})
	}
	return out
}

// Conditions returns conditions by type.
func Conditions(list []metav1.Condition) map[string]model.Condition {
	out := make(map[string]model.Condition, len(list))
	for i := range list {
		c := &list[i]
		out[c.Type] = model.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// A node is reserved by the taint dovetail.sh/reserved:NoSchedule. The DaemonSet controller creates no pods for a node
// with a taint that they do not tolerate, so a node is reserved for DaemonSet pods by a cordon, which they all tolerate:
// spec.unschedulable, its taint, and the taint dovetail.sh/reserved:PreferNoSchedule, which excludes no pod and marks
// the cordon as Dovetail's. All other packages see both as the same reservation, with Node.DaemonsOnly.

// IsCordonOwner reports whether a taint marks the node's cordon as a reservation.
func IsCordonOwner(t corev1.Taint) bool {
	return t.Key == model.TaintReserved && t.Effect == corev1.TaintEffectPreferNoSchedule
}

// isUnschedulableTaint reports whether a taint is the one of spec.unschedulable.
func isUnschedulableTaint(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeUnschedulable && t.Effect == corev1.TaintEffectNoSchedule
}

// WithoutReservation returns taints without the reservation in either form, and whether the node is also cordoned for
// another reason.
func WithoutReservation(taints []corev1.Taint, cordoned bool) ([]corev1.Taint, bool) {
	ours := slices.ContainsFunc(taints, IsCordonOwner)
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return t.Key == model.TaintReserved || ours && isUnschedulableTaint(t)
	}), cordoned && !ours
}

// readReservation changes a node that is reserved by a cordon to one that is reserved by the taint.
func readReservation(n *model.Node, taints []corev1.Taint) {
	at := slices.IndexFunc(taints, IsCordonOwner)
	if at < 0 {
		return
	}
	n.DaemonsOnly = true
	reserved := model.Taint{Key: model.TaintReserved, Value: taints[at].Value, Effect: model.NoSchedule}
	n.Taints = append(slices.DeleteFunc(n.Taints, func(t model.Taint) bool {
		return t.Key == model.TaintReserved || t.Key == corev1.TaintNodeUnschedulable && t.Effect == model.NoSchedule
	}), reserved)
}

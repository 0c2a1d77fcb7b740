// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A node is reserved by the taint dovetail.sh/reserved with the effect NoSchedule. For pods of DaemonSets, whose controller makes none
// for a node with a taint that they don't tolerate, it is reserved by a cordon instead, which they all tolerate: spec.unschedulable,
// its taint, and the taint dovetail.sh/reserved with the effect PreferNoSchedule, which keeps nobody out and tells whose the cordon is.
// Everywhere but here that is the same reservation, with Node.DaemonsOnly.

// isCordonOwner reports whether a taint tells that the node's cordon is a reservation.
func isCordonOwner(t corev1.Taint) bool {
	return t.Key == model.TaintReserved && t.Effect == corev1.TaintEffectPreferNoSchedule
}

// isUnschedulableTaint reports whether a taint is the one of spec.unschedulable.
func isUnschedulableTaint(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeUnschedulable && t.Effect == corev1.TaintEffectNoSchedule
}

// changesReservation reports whether an action writes or ends a reservation.
func changesReservation(u plan.UpdateNode) bool {
	is := func(t model.Taint) bool { return t.Key == model.TaintReserved }
	return slices.ContainsFunc(u.AddTaints, is) || slices.ContainsFunc(u.RemoveTaints, is)
}

// WithoutReservation returns taints without the reservation in either form, and whether the node is cordoned without it.
func WithoutReservation(taints []corev1.Taint, cordoned bool) ([]corev1.Taint, bool) {
	ours := slices.ContainsFunc(taints, isCordonOwner)
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return t.Key == model.TaintReserved || ours && isUnschedulableTaint(t)
	}), cordoned && !ours
}

// asCordon returns taints with the reservation as what a cordon bears.
func asCordon(taints []model.Taint) []model.Taint {
	out := slices.Clone(taints)
	for i := range out {
		if out[i].Key == model.TaintReserved {
			out[i].Effect = model.PreferNoSchedule
		}
	}
	return append(out, model.Taint{Key: corev1.TaintNodeUnschedulable, Effect: model.NoSchedule})
}

// readReservation changes a node that is reserved by a cordon to one that is reserved by the taint.
func readReservation(n *model.Node, taints []corev1.Taint) {
	at := slices.IndexFunc(taints, isCordonOwner)
	if at < 0 {
		return
	}
	n.DaemonsOnly = true
	reserved := model.Taint{Key: model.TaintReserved, Value: taints[at].Value, Effect: model.NoSchedule}
	n.Taints = append(slices.DeleteFunc(n.Taints, func(t model.Taint) bool {
		return t.Key == model.TaintReserved || t.Key == corev1.TaintNodeUnschedulable && t.Effect == model.NoSchedule
	}), reserved)
}

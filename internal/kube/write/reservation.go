// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// changesReservation reports whether an action writes or ends a reservation.
func changesReservation(u plan.UpdateNode) bool {
	is := func(t model.Taint) bool { return t.Key == model.TaintReserved }
	return slices.ContainsFunc(u.AddTaints, is) || slices.ContainsFunc(u.RemoveTaints, is)
}

// asCordon returns taints with the reservation in the form of a cordon.
func asCordon(taints []model.Taint) []model.Taint {
	out := slices.Clone(taints)
	for i := range out {
		if out[i].Key == model.TaintReserved {
			out[i].Effect = model.PreferNoSchedule
		}
	}
	return append(out, model.Taint{Key: corev1.TaintNodeUnschedulable, Effect: model.NoSchedule})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import "github.com/dovetail-sh/dovetail/internal/model"

// readUnschedulable finds the classes of which kube-scheduler has refused a pod that is still pending.
func (pt *podTable) readUnschedulable() {
	pt.unschedulable = map[*model.Class]bool{}
	for _, p := range pt.s.Pending {
		if !p.Unschedulable.IsZero() {
			pt.unschedulable[p.Class] = true
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package groupstatus

import "github.com/dovetail-sh/dovetail/internal/plan"

// ScaleDownReason returns Cluster Autoscaler's name for a removal cause, as used in its metrics; empty: it does not remove nodes
// for this cause.
func ScaleDownReason(cause plan.Code) string {
	switch cause {
	case plan.Empty:
		return "empty"
	case plan.Underutilized:
		return "underutilized"
	case plan.Unhealthy:
		return "unready"
	}
	return ""
}

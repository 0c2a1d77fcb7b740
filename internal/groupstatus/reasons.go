// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package groupstatus

import "github.com/dovetail-sh/dovetail/internal/plan"

// ScaleDownReason returns what Cluster Autoscaler calls a removal for a cause, as in its metrics; empty: it removes no node
// for that.
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nodeUtilization returns the utilization of a node, which is the share of its allocatable that its pods request, in percent
// rounded up, with the resource (GPUs, otherwise CPU or memory, whichever is higher), and the scale-down utilization threshold of
// its node group. A negative threshold means any utilization. Expendable pods do not count.
func nodeUtilization(rules *model.GroupScaling, cutoff model.PriorityCutoff, n *model.Node) (mostPercent int32, resource string, percent int32) {
	var requested model.Resources
	for _, p := range n.Pods {
		if !p.Terminal && !(rules.IgnoreDaemons && p.Class.Daemon) && !(rules.IgnoreMirrors && p.Mirror) && !cutoff.IsExpendable(p) {
			requested = requested.AddInto(p.Class.Requests, 1)
		}
	}
	percentOf := func(d model.Dim) int32 {
		have := n.Allocatable.At(d)
		if have <= 0 {
			return 0
		}
		return int32(math.Ceil(float64(requested.At(d)) * 100 / float64(have)))
	}
	for _, d := range rules.GPUs {
		if n.Allocatable.At(d) > 0 {
			return rules.GPUPercent, "GPUs", percentOf(d)
		}
	}
	cpu, memory := percentOf(model.CPU), percentOf(model.Memory)
	if cpu >= memory {
		return rules.UtilizationPercent, "CPU", cpu
	}
	return rules.UtilizationPercent, "memory", memory
}

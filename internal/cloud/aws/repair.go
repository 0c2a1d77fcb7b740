// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"regexp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// NVIDIA GPU errors (XID codes), as the EKS node monitoring agent writes them into the reason of
// AcceleratedHardwareReady.
var (
	gpuErrorsThatRebootsClear = regexp.MustCompile(`XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)`)
	fatalGPUErrors            = regexp.MustCompile(`XID(64|74|79|119|120)`)
)

// RepairPolicies implements cloud.Repairer: the conditions reported by the kubelet and the EKS node monitoring agent,
// with the delay before repair and the drain timeout. Unknown GPU errors have a longer delay. With the feature gate
// RebootForRepair, GPU errors that a reboot clears are repaired by a reboot.
func (p *Provider) RepairPolicies(legacy bool) []cloud.RepairPolicy {
	policy := func(condition, status string, reason *regexp.Regexp, after, drain time.Duration) cloud.RepairPolicy {
		return cloud.RepairPolicy{Condition: condition, Status: status, Reason: reason, After: after, Drain: drain}
	}
	const short, long, shortDrain, longDrain = 10 * time.Minute, 30 * time.Minute, 5 * time.Minute, 10 * time.Minute
	accelerators := []cloud.RepairPolicy{
		policy("AcceleratedHardwareReady", "False", gpuErrorsThatRebootsClear, short, shortDrain),
		policy("AcceleratedHardwareReady", "False", fatalGPUErrors, short, shortDrain),
		policy("AcceleratedHardwareReady", "False", nil, long, longDrain),
	}
	accelerators[0].Reboot = p.aws.Config.RebootForRepair
	if legacy {
		accelerators = []cloud.RepairPolicy{policy("AcceleratedHardwareReady", "False", nil, short, shortDrain)}
	}
	return append(accelerators,
		policy("Ready", "False", nil, long, longDrain),
		policy("Ready", "Unknown", nil, long, longDrain),
		policy("StorageReady", "False", nil, long, longDrain),
		policy("NetworkingReady", "False", nil, long, longDrain),
		policy("KernelReady", "False", nil, long, longDrain),
		policy("ContainerRuntimeReady", "False", nil, long, longDrain),
	)
}

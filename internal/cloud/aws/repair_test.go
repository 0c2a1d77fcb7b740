// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// TestRepairPolicies compares the policies with those of Karpenter's provider v1.15.1: after how long a node is repaired for a condition
// and its reason, and how long its drain waits.
func TestRepairPolicies(t *testing.T) {
	const want = `
Ready=False KubeletNotReady: 30m0s, drain 10m0s
Ready=Unknown NodeStatusUnknown: 30m0s, drain 10m0s
AcceleratedHardwareReady=False NvidiaXID46Error: 10m0s, drain 5m0s
AcceleratedHardwareReady=False NvidiaXID158Warning: 10m0s, drain 5m0s
AcceleratedHardwareReady=False NvidiaXID79Error: 10m0s, drain 5m0s
AcceleratedHardwareReady=False NvidiaXID120Error: 10m0s, drain 5m0s
AcceleratedHardwareReady=False NvidiaXID13Error: 30m0s, drain 10m0s
AcceleratedHardwareReady=False NvidiaNVLinkError: 30m0s, drain 10m0s
StorageReady=False IODelays: 30m0s, drain 10m0s
NetworkingReady=False InterfaceNotUp: 30m0s, drain 10m0s
KernelReady=False ForkFailedOutOfPIDs: 30m0s, drain 10m0s
ContainerRuntimeReady=False PodStuckTerminating: 30m0s, drain 10m0s
legacy AcceleratedHardwareReady=False NvidiaXID13Error: 10m0s, drain 5m0s
reboot AcceleratedHardwareReady=False NvidiaXID46Error: 10m0s, drain 5m0s, rebooted
reboot AcceleratedHardwareReady=False NvidiaXID79Error: 10m0s, drain 5m0s
reboot AcceleratedHardwareReady=False NvidiaXID13Error: 30m0s, drain 10m0s
`
	got := "\n"
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		of, _, _ := strings.Cut(line, ":")
		rest, legacy := strings.CutPrefix(of, "legacy ")
		rest, reboot := strings.CutPrefix(rest, "reboot ")
		p := &Provider{aws: &awsapi.Account{Config: awsapi.Config{RebootForRepair: reboot}}}
		condition, reason, _ := strings.Cut(rest, " ")
		found := ""
		for _, r := range p.RepairPolicies(legacy) {
			if r.Condition+"="+r.Status != condition || r.Reason == nil && found != "" || r.Reason != nil && !r.Reason.MatchString(reason) {
				continue
			}
			found += fmt.Sprintf(": %s, drain %s", r.After, r.Drain)
			if r.Reboot {
				found += ", rebooted"
			}
		}
		got += of + found + "\n"
	}
	if got != want {
		t.Errorf("got%swant%s", got, want)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	probetest "k8s.io/kubernetes/pkg/kubelet/prober/testing"
)

// noProbes is a prober that runs no probe: a container is started and ready
// while it runs, as a container without probes is. The embedded one, kubemark's,
// calls a container ready before it runs, so that budgets and EndpointSlices
// count pods that are still Pending.
type noProbes struct{ probetest.FakeManager }

// UpdatePodStatus sets what probes decide on in the statuses of a pod's
// containers.
func (noProbes) UpdatePodStatus(_ context.Context, _ *corev1.Pod, status *corev1.PodStatus) {
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		running := c.State.Running != nil
		c.Ready, c.Started = running, &running
	}
	for i := range status.InitContainerStatuses { // ready once it has done its work
		c := &status.InitContainerStatuses[i]
		c.Ready = c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
	}
}

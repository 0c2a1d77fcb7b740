// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
)

// Options are the scale-down options of a group that its server returns. They override the options of the node class.
type Options struct {
	UtilizationPercent, GPUUtilizationPercent *int32        // nil: not set
	Unready, Provision                        time.Duration // 0: not set
	IgnoreDaemonSets                          bool
}

// status writes the options for the status of a node class; nil: nothing is said.
func (o *Options) status() *dovetailv1alpha1.NodeGroupOwnOptions {
	if o == nil || *o == (Options{}) {
		return nil
	}
	out := &dovetailv1alpha1.NodeGroupOwnOptions{UtilizationThresholdPercent: o.UtilizationPercent, GPUUtilizationThresholdPercent: o.GPUUtilizationPercent}
	if o.Unready > 0 {
		out.UnreadyTime = &metav1.Duration{Duration: o.Unready}
	}
	if o.Provision > 0 {
		out.MaxNodeProvisionTime = &metav1.Duration{Duration: o.Provision}
	}
	if o.IgnoreDaemonSets {
		out.IgnoreDaemonSetsUtilization = &o.IgnoreDaemonSets
	}
	return out
}

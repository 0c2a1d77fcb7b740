// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestContract runs the suite through the real SDK, over a real socket, to the simulated AWS.
func TestContract(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		a := open(t, some(t, "c5.large", "g5.xlarge", "m5.large", "m6g.large", "r5.large"), cloud.Wall{})
		h := a.harness("CreateFleet", "TerminateInstances")
		h.Class = class("")
		h.PremiumPercent = 25 // price-capacity-optimized
		h.Launches = a.launches
		return h
	})
}

// harness is what the suite needs of the simulated AWS, whichever way machines are bought; lost are the calls whose
// replies it loses.
func (a *account) harness(lost ...string) cloudtest.Harness {
	return cloudtest.Harness{
		Provider: a.provider(), Pool: &model.NodePool{Name: "default"},
		Another: func() cloud.Provider { return a.provider() },
		Exhaust: func(keys ...cloud.OfferingKey) {
			for _, k := range keys {
				a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: k.InstanceType, Zone: k.Zone, CapacityType: k.CapacityType})
			}
		},
		Throttle: func(d time.Duration) {
			a.throttle.Store(d.Milliseconds())
			a.fault(awstest.Fault{Kind: awstest.Throttle, Count: 1})
		},
		LoseReply: func() {
			for _, action := range lost {
				a.fault(awstest.Fault{Kind: awstest.LostReply, Action: action, Count: 1})
			}
		},
		Hang: func() func() {
			a.fault(awstest.Fault{Kind: awstest.Stall, Delay: machines.Duration(time.Hour)})
			return func() { a.control("DELETE", "faults", nil, nil) }
		},
	}
}

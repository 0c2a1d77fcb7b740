// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package quota

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const vcpuMessage = "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket that the specified instance type belongs to."

// What is said of a quota is understood where an event quotes it, and so is what other autoscalers quote of EC2.
func TestNameIn(t *testing.T) {
	tracker := NewTracker(cloud.Wall{})
	for _, c := range []struct{ message, name, size string }{
		{"launch a: insufficient capacity of m5.large/us-east-1a/on-demand: " + tracker.Note(codeVCPUs, vcpuMessage, model.OnDemand, "m5.large", 2),
			"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "32 vCPUs"},
		{tracker.Note(codeSpot, "Max spot instance count exceeded", model.Spot, "p5.48xlarge", 192), "All P Spot Instance Requests", ""},
		{tracker.Note(codeVCPUs, "", model.OnDemand, "zz9.large", 2), "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", ""},
		{"NodeClaim default-x: creating instance, with fleet error(s), VcpuLimitExceeded: " + vcpuMessage, "vCPUs of On-Demand instances", "32 vCPUs"},
		{"Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded.", "Spot Instance Requests", ""},
		{"You have requested more instances (6) than your current instance limit of 5 allows for the specified instance type.", "On-Demand instances of the type", "5"},
		{"InsufficientInstanceCapacity: We currently do not have sufficient m5.large capacity in the Availability Zone you requested.", "", ""},
		{"", "", ""},
	} {
		if name, size := NameIn(c.message); name != c.name || size != c.size {
			t.Errorf("%q is about %q (%q), want %q (%q)", c.message, name, size, c.name, c.size)
		}
	}
}

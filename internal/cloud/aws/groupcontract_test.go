// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// define makes a group over a launch template of its own.
func (a *account) define(g awstest.Group) {
	a.t.Helper()
	a.control("PUT", "groups", g, nil)
}

func (a *account) group(name string) astypes.AutoScalingGroup {
	a.t.Helper()
	res, err := a.clients().AutoScaling.DescribeAutoScalingGroups(a.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil || len(res.AutoScalingGroups) != 1 {
		a.t.Fatal(err, name)
	}
	return res.AutoScalingGroups[0]
}

func groupClass(spec string) cloud.NodeClass {
	return cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "workers", UID: "group-class-uid", Generation: 1, Spec: []byte(spec)}
}

const tagged = `{"selectorTerms":[{"tags":{"k8s.io/cluster-autoscaler/enabled":""}}]}`

var enabled = []awstest.GroupTag{{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}}

// TestGroupContract runs the suite on Auto Scaling groups: one for each type, zone and capacity type.
func TestGroupContract(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		names := []string{"c5.large", "m5.large", "r5.large"}
		a := open(t, some(t, names...), hurried{time.Now()}, func(s *awstest.Settings) { s.GroupDelay = hurry * 100 * time.Millisecond })
		for _, name := range names {
			for _, zone := range []string{"us-east-1a", "us-east-1b"} {
				for _, ct := range []string{model.OnDemand, model.Spot} {
					a.define(awstest.Group{Name: name + "-" + zone + "-" + ct, Max: 30, InstanceTypes: []string{name}, Zones: []string{zone}, Tags: enabled, Spot: ct == model.Spot})
				}
			}
		}
		h := a.harness("SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup")
		h.Class, h.Launches, h.Later = groupClass(`{"options":{"maxNodeProvisionTime":"30s"},`+tagged[1:]), a.groupLaunches, true
		h.Standing = func() (n int) {
			res, err := a.clients().EC2.DescribeInstances(a.t.Context(), &ec2.DescribeInstancesInput{})
			if err != nil {
				a.t.Fatal(err)
			}
			for _, r := range res.Reservations {
				for _, in := range r.Instances {
					if in.State.Name == ec2types.InstanceStateNamePending || in.State.Name == ec2types.InstanceStateNameRunning {
						n++
					}
				}
			}
			return n
		}
		h.Stray = func(of cloud.LaunchResult) func() int {
			name := of.InstanceType + "-" + of.Zone + "-" + of.CapacityType
			h.Exhaust(cloud.OfferingKey{InstanceType: of.InstanceType, Zone: of.Zone, CapacityType: of.CapacityType})
			before := *a.group(name).DesiredCapacity
			if _, err := a.clients().AutoScaling.SetDesiredCapacity(a.t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &name, DesiredCapacity: sdk.Int32(before + 1)}); err != nil {
				a.t.Fatal(err)
			}
			return func() int { return int(*a.group(name).DesiredCapacity - before) }
		}
		h.Hold = func() func() {
			a.fault(awstest.Fault{Kind: awstest.SlowGroup, Delay: machines.Duration(hurry * 100 * time.Millisecond)})
			return func() { a.control("DELETE", "faults", nil, nil) }
		}
		return h
	})
}

// groupLaunches counts instances ever launched by the claim that they bear now.
func (a *account) groupLaunches() map[string]int {
	a.t.Helper()
	res, err := a.clients().EC2.DescribeInstances(a.t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		a.t.Fatal(err)
	}
	out := map[string]int{}
	for _, r := range res.Reservations {
		for _, in := range r.Instances {
			uid := "unclaimed"
			for _, tag := range in.Tags {
				if *tag.Key == awsv1.TagClaimUID {
					uid = *tag.Value
				}
			}
			out[uid]++
		}
	}
	return out
}

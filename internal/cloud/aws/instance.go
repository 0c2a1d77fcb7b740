// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ListDelay is how long EC2 may take to describe an instance that it has launched. It says seconds; this is its own advice for how
// long to go on asking, cut short.
const ListDelay = 10 * time.Second

// tagGroup is the tag by which AWS says which group an instance is a member of.
const tagGroup = "aws:autoscaling:groupName"

// instance is an instance of the cluster's.
type instance struct {
	id, zone, instanceType, capacityType string
	image, subnet, reservation           string
	securityGroups                       []string // sorted: security groups
	autoScalingGroup                     string   // of Auto Scaling; empty: none
	claimUID, claimName                  string
	launched                             time.Time
	protectedSince                       time.Time // since when it is protected from scale-in for a moment; zero: it is not
	gone                                 bool
}

// instanceList is all instances at one moment.
type instanceList struct {
	at    time.Time  // when it was asked for
	all   []instance // by provider id
	byUID map[string][]int
	byID  map[string]int
}

// byClaim is the machine of a claim: one that lives before one that has ended; nil if there is none.
func (l *instanceList) byClaim(uid string) *instance {
	var out *instance
	for _, i := range l.byUID[uid] {
		if m := &l.all[i]; out == nil || out.gone && !m.gone {
			out = m
		}
	}
	return out
}

func flattenReservations(list []types.Reservation) []*types.Instance {
	var out []*types.Instance
	for i := range list {
		for j := range list[i].Instances {
			out = append(out, &list[i].Instances[j])
		}
	}
	return out
}

func isEnding(s *types.InstanceState) bool {
	return s != nil && (s.Name == types.InstanceStateNameShuttingDown || s.Name == types.InstanceStateNameTerminated)
}

func readInstance(in *types.Instance) instance {
	m := instance{
		id: deref(in.InstanceId), instanceType: string(in.InstanceType), image: deref(in.ImageId), subnet: deref(in.SubnetId),
		reservation: deref(in.CapacityReservationId), launched: deref(in.LaunchTime), gone: isEnding(in.State), capacityType: model.OnDemand,
	}
	if in.Placement != nil {
		m.zone = deref(in.Placement.AvailabilityZone)
	}
	switch {
	case in.InstanceLifecycle == types.InstanceLifecycleTypeSpot:
		m.capacityType = model.Spot
	case m.reservation != "":
		m.capacityType = model.Reserved
	}
	for _, t := range in.Tags {
		switch deref(t.Key) {
		case awsv1.TagNodeClaim:
			m.claimName = deref(t.Value)
		case awsv1.TagClaimUID:
			m.claimUID = deref(t.Value)
		case tagGroup:
			m.autoScalingGroup = deref(t.Value)
		case dovetailv1alpha1.TagShielded:
			m.protectedSince, _ = time.Parse(time.RFC3339, deref(t.Value)) // else it is none of ours
		}
	}
	for _, g := range in.SecurityGroups {
		m.securityGroups = append(m.securityGroups, deref(g.GroupId))
	}
	slices.Sort(m.securityGroups)
	return m
}

func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// instanceID is the instance of a provider id; what is none is taken as it is, for EC2 to say so.
func instanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package instances

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ListDelay is how long EC2 may take to describe an instance that it has launched. It says seconds; this is its own
// advice on for how long to go on asking, cut short.
const ListDelay = 10 * time.Second

// tagGroup is the tag by which AWS says of which Auto Scaling group an instance is a member.
const tagGroup = "aws:autoscaling:groupName"

// tagName is the tag that EC2's console shows as an instance's name.
const tagName = "Name"

// Instance is an instance of the cluster's, as EC2 describes it.
type Instance struct {
	ID, Zone, InstanceType, CapacityType string
	Image, Subnet, Reservation           string
	SecurityGroups                       []string // sorted: security groups
	AutoScalingGroup                     string   // of Auto Scaling; empty: none
	PrivateName                          string   // its private DNS name, which is its node's name; empty: not known yet
	Named                                bool     // it has the tag Name
	ClaimUID, ClaimName                  string
	Launched                             time.Time
	ProtectedSince                       time.Time // from scale-in, for a moment; zero: it is not
	Gone                                 bool
}

// List is all instances of the cluster at one moment. It is not changed once it is in use.
type List struct {
	At    time.Time  // when it was asked for
	All   []Instance // by provider id
	byUID map[string][]int
	ByID  map[string]int
}

// ByClaim is the machine of a claim, by the claim's uid: one that lives before one that has ended; nil if there is
// none.
func (l *List) ByClaim(uid string) *Instance {
	var out *Instance
	for _, i := range l.byUID[uid] {
		if m := &l.All[i]; out == nil || out.Gone && !m.Gone {
			out = m
		}
	}
	return out
}

// FlattenReservations are the instances of EC2's answer, which has them grouped by the call that launched them.
func FlattenReservations(list []types.Reservation) []*types.Instance {
	var out []*types.Instance
	for i := range list {
		for j := range list[i].Instances {
			out = append(out, &list[i].Instances[j])
		}
	}
	return out
}

// isEnding reports whether an instance in this state is on its way out, or has ended.
func isEnding(s *types.InstanceState) bool {
	return s != nil && (s.Name == types.InstanceStateNameShuttingDown || s.Name == types.InstanceStateNameTerminated)
}

// ReadInstance reads EC2's description of an instance.
func ReadInstance(in *types.Instance) Instance {
	m := Instance{
		ID: awsapi.Deref(in.InstanceId), InstanceType: string(in.InstanceType), Image: awsapi.Deref(in.ImageId), Subnet: awsapi.Deref(in.SubnetId),
		Reservation: awsapi.Deref(in.CapacityReservationId), Launched: awsapi.Deref(in.LaunchTime), Gone: isEnding(in.State), CapacityType: model.OnDemand,
		PrivateName: awsapi.Deref(in.PrivateDnsName),
	}
	if in.Placement != nil {
		m.Zone = awsapi.Deref(in.Placement.AvailabilityZone)
	}
	switch {
	case in.InstanceLifecycle == types.InstanceLifecycleTypeSpot:
		m.CapacityType = model.Spot
	case m.Reservation != "", in.InstanceLifecycle == types.InstanceLifecycleTypeInterruptibleCapacityReservation:
		m.CapacityType = model.Reserved
	}
	for _, t := range in.Tags {
		switch awsapi.Deref(t.Key) {
		case awsv1.TagNodeClaim:
			m.ClaimName = awsapi.Deref(t.Value)
		case awsv1.TagClaimUID:
			m.ClaimUID = awsapi.Deref(t.Value)
		case tagName:
			m.Named = true
		case tagGroup:
			m.AutoScalingGroup = awsapi.Deref(t.Value)
		case dovetailv1alpha1.TagShielded:
			m.ProtectedSince, _ = time.Parse(time.RFC3339, awsapi.Deref(t.Value)) // else it is none of ours
		}
	}
	for _, g := range in.SecurityGroups {
		m.SecurityGroups = append(m.SecurityGroups, awsapi.Deref(g.GroupId))
	}
	slices.Sort(m.SecurityGroups)
	return m
}

// ProviderID is the provider id of an instance, as the node has it.
func ProviderID(zone, id string) string { return "aws:///" + zone + "/" + id }

// InstanceID is the id of the instance of a provider id. A text that is no provider id is taken as it is, for EC2 to
// say so.
func InstanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// PlaceholderPrefix begins the provider id of a machine that a group was asked for and that has not come; the uid of
// its claim follows.
const PlaceholderPrefix = "aws:///placeholder/"

// Index is what was last listed of the cluster's instances, and what this process knows better. Make it with
// NewIndex.
type Index struct {
	aws           *awsapi.Account
	groupNames    func() []string                // Auto Scaling groups whose members are listed, too
	inShiftedZone func(zone string) bool         // the cluster is shifted away from the zone
	terminations  *awsapi.Batcher[string, error] // of machines that are in no group
	turn          cloud.Lock                     // its holder may list

	mu       sync.Mutex
	last     *List
	launched map[string]Instance  // bought since the last list was asked for
	ended    map[string]time.Time // by instance id: ended by this process, and when
}

// MarkEnded notes that this process has ended a machine: Describe may not show it for a while.
func (x *Index) MarkEnded(id string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended[id] = now
	for k, t := range x.ended {
		if now.Sub(t) > 2*time.Hour { // EC2 has forgotten it, too
			delete(x.ended, k)
		}
	}
}

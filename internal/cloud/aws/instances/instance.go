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

// ListDelay is the maximum time until EC2 describes a launched instance. AWS documents seconds; the value is AWS's
// recommended retry period, shortened.
const ListDelay = 10 * time.Second

// tagGroup is the AWS tag with the Auto Scaling group of an instance.
const tagGroup = "aws:autoscaling:groupName"

// tagName is the tag that EC2's console shows as an instance's name.
const tagName = "Name"

// Instance is an EC2 instance of the cluster.
type Instance struct {
	ID, Zone, InstanceType, CapacityType string
	Image, Subnet, Reservation           string
	SecurityGroups                       []string // sorted: security groups
	AutoScalingGroup                     string   // name of the Auto Scaling group; empty: none
	PrivateName                          string   // private DNS name, which is the name of its node; empty: not known yet
	Named                                bool     // whether the instance has a Name tag
	ClaimUID, ClaimName                  string
	Launched                             time.Time
	ProtectedSince                       time.Time // start of temporary scale-in protection; zero: none
	Gone                                 bool
}

// List are all instances of the cluster at one time. It is read-only.
type List struct {
	At    time.Time  // time of the request
	All   []Instance // sorted by provider ID
	byUID map[string][]int
	ByID  map[string]int
}

// ByClaim returns the machine of a claim by UID, preferring running ones; nil if there is none.
func (l *List) ByClaim(uid string) *Instance {
	var out *Instance
	for _, i := range l.byUID[uid] {
		if m := &l.All[i]; out == nil || out.Gone && !m.Gone {
			out = m
		}
	}
	return out
}

// FlattenReservations returns the instances of an EC2 response, which groups them by launch request.
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

// ReadInstance translates EC2's description of an instance.
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

// ProviderID returns the provider ID of an instance, as in the spec of its node.
func ProviderID(zone, id string) string { return "aws:///" + zone + "/" + id }

// InstanceID returns the instance ID of a provider ID. Other texts are returned unchanged, and rejected by EC2.
func InstanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// PlaceholderPrefix is the prefix of the provider ID of a requested machine that does not exist yet; the UID of its
// claim follows.
const PlaceholderPrefix = "aws:///placeholder/"

// Index is the last list of the cluster's instances, with newer changes made by this process. Use NewIndex.
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

// MarkEnded records that this process has terminated a machine, which Describe calls may not show for a while.
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

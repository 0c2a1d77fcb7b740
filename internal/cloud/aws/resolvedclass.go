// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// resolvedClass is what a node class stands for in the account. What can't be resolved is a problem under the condition it makes false.
type resolvedClass struct {
	*nodeClass
	subnets        []*subnet // by id
	securityGroups []securityGroup
	images         []image // preferred first
	profile        string
	reservations   []reservation // by id
	placement      *types.PlacementGroup
	hash           string
	cluster        clusterFacts
	problems       map[string]model.Condition
}

// readyError is nil, or says which condition keeps the class from being bought with.
func (r *resolvedClass) readyError(op string) error {
	for _, k := range conditionOrder {
		if p, ok := r.problems[k]; ok {
			return notReadyError(op, r.name, "EC2NodeClass %s: %s", r.name, p.Message)
		}
	}
	return nil
}

// conditionOrder is that in which problems are told: causes before what follows from them.
var conditionOrder = []string{
	awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady,
	awsv1.ConditionCapacityReservationsReady, awsv1.ConditionPlacementGroupReady, awsv1.ConditionValidationSucceeded,
}

// subnet is where machines may stand.
type subnet struct {
	id, zone, zoneID string
	free             int64
	taken            atomic.Int64 // addresses of machines bought since free was asked for
}

type securityGroup struct{ id, name string }

// reservation is capacity that is paid for.
type reservation struct {
	awsv1.CapacityReservation
	free  int64
	taken *atomic.Int64
}

// remaining is how many addresses of a subnet are free, as far as is known.
func (s *subnet) remaining() int64 { return s.free - s.taken.Load() }

// take counts addresses that were given away since the subnet was last asked for.
func (s *subnet) take(addresses int64) { s.taken.Add(addresses) }

// markFull has a subnet count as without a free address until it is asked for again.
func (s *subnet) markFull() { s.taken.Store(s.free) }

// remaining is how many machines of a reservation are free, as far as is known.
func (r *reservation) remaining() int64 { return max(0, r.free-r.taken.Load()) }

// clusterFacts are what a machine must know to join.
type clusterFacts struct{ endpoint, caBundle, cidr, ipFamily, version string }

// subnetZones are those that the class has a subnet in, sorted.
func (r *resolvedClass) subnetZones() []string {
	var out []string
	for _, s := range r.subnets {
		if !slices.Contains(out, s.zone) {
			out = append(out, s.zone)
		}
	}
	slices.Sort(out)
	return out
}

// bestSubnet is the subnet of a zone that has the most addresses left; nil if there is none.
func (r *resolvedClass) bestSubnet(zone string) *subnet {
	var best *subnet
	for _, s := range r.subnets {
		if s.zone == zone && (best == nil || s.remaining() > best.remaining()) {
			best = s
		}
	}
	return best
}

// bestReservation is the reservation of a type and zone that has the most left; nil if there is none.
func (r *resolvedClass) bestReservation(instanceType, zone string) *reservation {
	var best *reservation
	for i := range r.reservations {
		res := &r.reservations[i]
		if res.InstanceType == instanceType && res.AvailabilityZone == zone && res.State == "active" && (best == nil || res.remaining() > best.remaining()) {
			best = res
		}
	}
	return best
}

// imageForType is the image that a type boots from; nil if there is none for it.
func (r *resolvedClass) imageForType(t *typeInfo) *image {
	for i := range r.images {
		if r.images[i].fitsType(t) {
			return &r.images[i]
		}
	}
	return nil
}

func falseCondition(reason, message string) model.Condition {
	return model.Condition{Status: "False", Reason: reason, Message: message}
}

// resourceTags are those of everything that is made for a class.
func (r *resolvedClass) resourceTags(clusterName, pool string) []types.Tag {
	all := maps.Clone(r.spec.Tags)
	if all == nil {
		all = map[string]string{}
	}
	all["kubernetes.io/cluster/"+clusterName] = "owned"
	all[awsv1.TagClusterName] = clusterName
	all[awsv1.LabelNodeClass] = r.name
	if pool != "" {
		all[awsv1.TagNodePool] = pool
	}
	return ec2Tags(all)
}

// takeReservation counts a machine that was bought from a reservation since that was last asked for.
func (r *resolvedClass) takeReservation(id string) {
	for i := range r.reservations {
		if r.reservations[i].ID == id {
			r.reservations[i].taken.Add(1)
		}
	}
}

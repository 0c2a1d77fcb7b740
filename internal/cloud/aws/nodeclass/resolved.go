// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Resolved are the resources of an EC2NodeClass in the account. Failures are in problems, by the condition that they
// make false; their fields are empty.
type Resolved struct {
	*Class
	Subnets        []*Subnet // sorted by ID
	SecurityGroups []SecurityGroup
	Images         []Image // most preferred first
	Profile        string
	Reservations   []Reservation // sorted by ID
	Placement      *types.PlacementGroup
	Hash           string
	Cluster        Cluster
	Kubelets       KubeletsByType
	Problems       map[string]model.Condition
}

// ReadyError returns nil if the class can be used for launches, otherwise a NotReady error with the first false
// condition.
func (r *Resolved) ReadyError(op string) error {
	for _, k := range conditionOrder {
		if p, ok := r.Problems[k]; ok {
			return awsapi.NotReadyError(op, r.Name, "EC2NodeClass %s: %s", r.Name, p.Message)
		}
	}
	return nil
}

// conditionOrder is the order in which problems are reported: causes before consequences.
var conditionOrder = []string{
	awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady,
	awsv1.ConditionCapacityReservationsReady, awsv1.ConditionPlacementGroupReady, awsv1.ConditionValidationSucceeded,
}

// Subnet is a subnet in which machines can be launched.
type Subnet struct {
	ID, Zone, ZoneID string
	Free             int64
	taken            atomic.Int64 // addresses of machines bought since free was asked for
}

// SecurityGroup is a security group of machines.
type SecurityGroup struct{ ID, Name string }

// Reservation is a capacity reservation.
type Reservation struct {
	awsv1.CapacityReservation
	Free  int64
	Taken *atomic.Int64
}

// Remaining returns the known number of free addresses of a subnet.
func (s *Subnet) Remaining() int64 { return s.Free - s.taken.Load() }

// Take subtracts addresses assigned since the subnet was last read.
func (s *Subnet) Take(addresses int64) { s.taken.Add(addresses) }

// MarkFull treats a subnet as having no free address until it is read again.
func (s *Subnet) MarkFull() { s.taken.Store(s.Free) }

// Remaining returns the known number of free machines of a reservation.
func (r *Reservation) Remaining() int64 { return max(0, r.Free-r.Taken.Load()) }

// Cluster is the cluster data that a machine needs to join. Unknown fields are empty.
type Cluster struct {
	Endpoint, CABundle, Version string

	CIDR string // CIDR range of Services
	DNS  string // address of the cluster DNS service
	IPv6 bool   // pods and Services have IPv6 addresses
}

// dnsHost is which address of the Services' range EKS gives to the cluster's DNS service, in IPv4 and IPv6 alike.
const dnsHost = 10

// dnsAddress returns the address that EKS assigns to the cluster DNS service in a range of Services; empty if the range
// is invalid.
func dnsAddress(cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return ""
	}
	raw := prefix.Masked().Addr().AsSlice()
	raw[len(raw)-1] += dnsHost
	address, _ := netip.AddrFromSlice(raw)
	return address.String()
}

// SubnetZones returns the sorted zones in which the class has a subnet.
func (r *Resolved) SubnetZones() []string {
	var out []string
	for _, s := range r.Subnets {
		if !slices.Contains(out, s.Zone) {
			out = append(out, s.Zone)
		}
	}
	slices.Sort(out)
	return out
}

// BestSubnet returns the subnet in a zone with the most free addresses; nil if there is none.
func (r *Resolved) BestSubnet(zone string) *Subnet {
	var best *Subnet
	for _, s := range r.Subnets {
		if s.Zone == zone && (best == nil || s.Remaining() > best.Remaining()) {
			best = s
		}
	}
	return best
}

// BestReservation returns the active reservation of a type and zone with the most free machines; nil if there is none.
func (r *Resolved) BestReservation(instanceType, zone string) *Reservation {
	var best *Reservation
	for i := range r.Reservations {
		res := &r.Reservations[i]
		if res.InstanceType == instanceType && res.AvailabilityZone == zone && res.State == "active" && (best == nil || res.Remaining() > best.Remaining()) {
			best = res
		}
	}
	return best
}

// ImageForType returns the AMI for instances of type t, or nil if no AMI of the class is compatible.
func (r *Resolved) ImageForType(t *catalogue.TypeInfo) *Image {
	for i := range r.Images {
		if r.Images[i].fitsType(t) {
			return &r.Images[i]
		}
	}
	return nil
}

// FalseCondition returns a condition with status False.
func FalseCondition(reason, message string) model.Condition {
	return model.Condition{Status: "False", Reason: reason, Message: message}
}

// ResourceTags returns the tags of all resources created for a class in a cluster, sorted by key; pool may be empty.
func (r *Resolved) ResourceTags(clusterName, pool string) []types.Tag {
	all := maps.Clone(r.Spec.Tags)
	if all == nil {
		all = map[string]string{}
	}
	all["kubernetes.io/cluster/"+clusterName] = "owned"
	all[awsv1.TagClusterName] = clusterName
	all[awsv1.LabelNodeClass] = r.Name
	if pool != "" {
		all[awsv1.TagNodePool] = pool
	}
	return awsapi.EC2Tags(all)
}

// TakeReservation subtracts a machine launched from a reservation since it was last read.
func (r *Resolved) TakeReservation(id string) {
	for i := range r.Reservations {
		if r.Reservations[i].ID == id {
			r.Reservations[i].Taken.Add(1)
		}
	}
}

// KubeletsByType are the kubelet configurations of a class with expressions in spec.kubelet, by instance type of one
// version of the catalog. The zero value is that of a class without expressions.
type KubeletsByType struct {
	Version int // version of the catalog
	byType  map[string]*KubeletConfig
	problem error // why there are none
}

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

// Resolved is what an EC2NodeClass stands for in the account. What can't be resolved is in problems, by the condition
// that it makes false; the fields that it would fill are empty then.
type Resolved struct {
	*Class
	Subnets        []*Subnet // by id
	SecurityGroups []SecurityGroup
	Images         []Image // preferred first
	Profile        string
	Reservations   []Reservation // by id
	Placement      *types.PlacementGroup
	Hash           string
	Cluster        Cluster
	Kubelets       KubeletsByType
	Problems       map[string]model.Condition
}

// ReadyError is nil when the class can be bought with, and else a NotReady error of the first condition that keeps it
// from that.
func (r *Resolved) ReadyError(op string) error {
	for _, k := range conditionOrder {
		if p, ok := r.Problems[k]; ok {
			return awsapi.NotReadyError(op, r.Name, "EC2NodeClass %s: %s", r.Name, p.Message)
		}
	}
	return nil
}

// conditionOrder is the order in which problems are told: causes before what follows from them.
var conditionOrder = []string{
	awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady,
	awsv1.ConditionCapacityReservationsReady, awsv1.ConditionPlacementGroupReady, awsv1.ConditionValidationSucceeded,
}

// Subnet is where machines may stand.
type Subnet struct {
	ID, Zone, ZoneID string
	Free             int64
	taken            atomic.Int64 // addresses of machines bought since free was asked for
}

// SecurityGroup is a security group that machines are put into.
type SecurityGroup struct{ ID, Name string }

// Reservation is capacity that is paid for already.
type Reservation struct {
	awsv1.CapacityReservation
	Free  int64
	Taken *atomic.Int64
}

// Remaining is how many addresses of a subnet are free, as far as is known.
func (s *Subnet) Remaining() int64 { return s.Free - s.taken.Load() }

// Take counts addresses that were given away since the subnet was last asked for.
func (s *Subnet) Take(addresses int64) { s.taken.Add(addresses) }

// MarkFull has a subnet count as without a free address until it is asked for again.
func (s *Subnet) MarkFull() { s.taken.Store(s.Free) }

// Remaining is how many machines of a reservation are free, as far as is known.
func (r *Reservation) Remaining() int64 { return max(0, r.Free-r.Taken.Load()) }

// Cluster is what a machine must know of the cluster to join it. What is not known is empty.
type Cluster struct {
	Endpoint, CABundle, Version string

	CIDR string // of Services
	DNS  string // address of the cluster's DNS service
	IPv6 bool   // pods and Services have IPv6 addresses
}

// dnsHost is which address of the Services' range EKS gives to the cluster's DNS service, in IPv4 and IPv6 alike.
const dnsHost = 10

// dnsAddress is the address that EKS gives to the cluster's DNS service in a range of Services; empty where the range
// can't be read.
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

// SubnetZones are the zones that the class has a subnet in, sorted.
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

// BestSubnet is the subnet of a zone that has the most addresses left; nil if the class has none there.
func (r *Resolved) BestSubnet(zone string) *Subnet {
	var best *Subnet
	for _, s := range r.Subnets {
		if s.Zone == zone && (best == nil || s.Remaining() > best.Remaining()) {
			best = s
		}
	}
	return best
}

// BestReservation is the active reservation of a type and zone that has the most machines left; nil if there is none.
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

// ImageForType is the image that machines of a type boot from; nil if none of the class's images is for it.
func (r *Resolved) ImageForType(t *catalogue.TypeInfo) *Image {
	for i := range r.Images {
		if r.Images[i].fitsType(t) {
			return &r.Images[i]
		}
	}
	return nil
}

// FalseCondition is a condition that is false for a reason.
func FalseCondition(reason, message string) model.Condition {
	return model.Condition{Status: "False", Reason: reason, Message: message}
}

// ResourceTags are the tags of everything that is made for a class in a cluster, sorted by key; pool may be empty.
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

// TakeReservation counts a machine that was bought from a reservation since that was last asked for.
func (r *Resolved) TakeReservation(id string) {
	for i := range r.Reservations {
		if r.Reservations[i].ID == id {
			r.Reservations[i].Taken.Add(1)
		}
	}
}

// KubeletsByType are the kubelet configurations of a class whose spec.kubelet has expressions, on each instance type of
// one version of the catalog. The zero value is that of a class without expressions.
type KubeletsByType struct {
	Version int // of the catalog
	byType  map[string]*KubeletConfig
	problem error // why there are none
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
)

// world is what stands in the account from the start: one VPC with a subnet in each zone.
type world struct {
	vpc     shapes.EC2Vpc
	zones   []shapes.EC2AvailabilityZone
	subnets []shapes.EC2Subnet
	groups  []shapes.EC2SecurityGroup
	images  []image
}

// DiscoveryTag is the key of the tag of subnets and security group whose value is the name of the cluster.
const DiscoveryTag = "karpenter.sh/discovery"

func newWorld(c *catalog.Catalog, s Settings) world {
	vpc := id("vpc", s.Account)
	discovery := []shapes.EC2Tag{{Key: DiscoveryTag, Value: s.Cluster}, {Key: "kubernetes.io/cluster/" + s.Cluster, Value: "owned"}}
	named := func(name string) []shapes.EC2Tag {
		return append([]shapes.EC2Tag{{Key: "Name", Value: name}}, discovery...)
	}
	w := world{
		images: firstImages(s),
		vpc: shapes.EC2Vpc{CidrBlock: "10.0.0.0/16", VpcId: vpc, State: "available", OwnerId: s.Account, IsDefault: new(false), Tags: named(s.Cluster),
			DhcpOptionsId: id("dopt", s.Account), InstanceTenancy: "default", CidrBlockAssociationSet: []shapes.EC2VpcCidrBlockAssociation{{
				AssociationId: id("vpc-cidr-assoc", s.Account), CidrBlock: "10.0.0.0/16", CidrBlockState: &shapes.EC2VpcCidrBlockState{State: "associated"},
			}}},
		groups: []shapes.EC2SecurityGroup{
			{Description: "nodes of " + s.Cluster, GroupName: s.Cluster + "-node", OwnerId: s.Account, GroupId: id("sg", s.Account, "node"), VpcId: vpc, Tags: named(s.Cluster + "-node")},
			{Description: "default VPC security group", GroupName: "default", OwnerId: s.Account, GroupId: id("sg", s.Account, "default"), VpcId: vpc},
		},
	}
	for i := range w.groups { // all may go out
		w.groups[i].IpPermissionsEgress = []shapes.EC2IpPermission{{IpProtocol: "-1", IpRanges: []shapes.EC2IpRange{{CidrIp: "0.0.0.0/0"}}}}
	}
	for i, zone := range c.Zones() {
		zoneID := zoneID(c.Region, zone)
		w.zones = append(w.zones, shapes.EC2AvailabilityZone{
			State: "available", OptInStatus: "opt-in-not-required", RegionName: c.Region, ZoneName: zone, ZoneId: zoneID,
			GroupName: c.Region, NetworkBorderGroup: c.Region, ZoneType: "availability-zone",
		})
		subnet := id("subnet", s.Account, zone)
		w.subnets = append(w.subnets, shapes.EC2Subnet{
			AvailabilityZone: zone, AvailabilityZoneId: zoneID, CidrBlock: fmt.Sprintf("10.0.%d.0/19", 32*i), DefaultForAz: new(false),
			MapPublicIpOnLaunch: new(false), State: "available", SubnetId: subnet, VpcId: vpc, OwnerId: s.Account,
			AssignIpv6AddressOnCreation: new(false), Tags: named(s.Cluster + "-" + zone),
			SubnetArn: fmt.Sprintf("arn:aws:ec2:%s:%s:subnet/%s", c.Region, s.Account, subnet),
		})
	}
	return w
}

// zoneID is the name that a zone has in every account: us-east-1a is use1-az1 here.
func zoneID(region, zone string) string {
	letter := strings.TrimPrefix(zone, region)
	parts := strings.Split(region, "-")
	if len(parts) != 3 || len(letter) != 1 {
		return zone
	}
	short := parts[0] + parts[1][:1] + parts[2]
	for long, s := range map[string]string{"northeast": "ne", "southeast": "se", "northwest": "nw", "southwest": "sw"} {
		if parts[1] == long {
			short = parts[0] + s + parts[2]
		}
	}
	return short + "-az" + strconv.Itoa(int(letter[0]-'a')+1)
}

func (c *Cloud) subnet(id string) *shapes.EC2Subnet {
	for i := range c.world.subnets {
		if c.world.subnets[i].SubnetId == id {
			return &c.world.subnets[i]
		}
	}
	return nil
}

// hosts is how many addresses a subnet has for instances; AWS keeps five.
func hosts(s *shapes.EC2Subnet) int {
	p := netip.MustParsePrefix(s.CidrBlock)
	return 1<<(32-p.Bits()) - 5
}

// address draws a free private address of a subnet; false when there is none.
func (t *tx) address(s *shapes.EC2Subnet, instance string) (string, bool) {
	n := hosts(s)
	first := netip.MustParsePrefix(s.CidrBlock).Addr().As4()
	base := uint32(first[0])<<24 | uint32(first[1])<<16 | uint32(first[2])<<8 | uint32(first[3])
	start := int(draw(uint64(n), "address", instance))
	for i := range n {
		a := base + 4 + uint32((start+i)%n)
		ip := netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}).String()
		if !t.m.NodeNamed(privateName(t.catalog.Region, ip)) {
			return ip, true
		}
	}
	return "", false
}

// publicIP is the public address of an instance, of the block that is set aside for documentation.
func publicIP(instance string) string {
	return fmt.Sprintf("203.0.113.%d", draw(256, "public", instance))
}

// privateName is an instance's private DNS name.
func privateName(region, ip string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + domain
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/base64"
	"encoding/pem"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// accountCreated is when everything was made that is there from the start.
var accountCreated = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (t *tx) callerIdentity(*shapes.STSGetCallerIdentityRequest) (*shapes.STSGetCallerIdentityResponse, error) {
	return &shapes.STSGetCallerIdentityResponse{UserId: "AROAEXAMPLE:dovetail", Account: t.settings.Account, Arn: "arn:aws:sts::" + t.settings.Account + ":assumed-role/dovetail/dovetail"}, nil
}

func noEntity(kind, name string) error {
	return &wire.Error{Code: "NoSuchEntity", Message: kind + " " + name + " cannot be found.", Status: http.StatusNotFound}
}

// profile finds an instance profile; the nodes' role has one of its name from the start.
func (c *Cloud) profile(name string) *profile {
	if p := c.profiles.items[name]; p != nil {
		return p
	}
	if name == c.settings.Role {
		return &profile{Name: name, ID: id("AIPA", name), Path: "/", Role: c.settings.Role, Created: accountCreated}
	}
	return nil
}

func (c *Cloud) describedProfile(p *profile) *shapes.IAMInstanceProfile {
	d := &shapes.IAMInstanceProfile{
		Path: p.Path, InstanceProfileName: p.Name, InstanceProfileId: p.ID, Arn: c.arn("iam", "instance-profile"+p.Path+p.Name), CreateDate: pointer(p.Created),
	}
	if p.Role != "" {
		d.Roles = []shapes.IAMRole{*c.role(p.Role)}
	}
	for _, k := range slices.Sorted(maps.Keys(p.Tags)) {
		d.Tags = append(d.Tags, shapes.IAMTag{Key: k, Value: p.Tags[k]})
	}
	return d
}

func (c *Cloud) role(name string) *shapes.IAMRole {
	return &shapes.IAMRole{Path: "/", RoleName: name, RoleId: id("AROA", name), Arn: c.arn("iam", "role/"+name), CreateDate: &accountCreated}
}

func (t *tx) getRole(in *shapes.IAMGetRoleRequest) (*shapes.IAMGetRoleResponse, error) {
	if in.RoleName != t.settings.Role {
		return nil, noEntity("The role with name", in.RoleName)
	}
	return &shapes.IAMGetRoleResponse{Role: t.role(in.RoleName)}, nil
}

func (t *tx) getProfile(in *shapes.IAMGetInstanceProfileRequest) (*shapes.IAMGetInstanceProfileResponse, error) {
	p := t.profile(in.InstanceProfileName)
	if p == nil {
		return nil, noEntity("Instance Profile", in.InstanceProfileName)
	}
	return &shapes.IAMGetInstanceProfileResponse{InstanceProfile: t.describedProfile(p)}, nil
}

func (t *tx) createProfile(in *shapes.IAMCreateInstanceProfileRequest) (*shapes.IAMCreateInstanceProfileResponse, error) {
	if t.profile(in.InstanceProfileName) != nil {
		return nil, &wire.Error{Code: "EntityAlreadyExists", Message: "Instance Profile " + in.InstanceProfileName + " already exists.", Status: http.StatusConflict}
	}
	path := in.Path
	if path == "" {
		path = "/"
	}
	p := profile{Name: in.InstanceProfileName, ID: t.freshID("AIPA"), Path: path, Created: t.now, Tags: map[string]string{}}
	for _, tag := range in.Tags {
		p.Tags[tag.Key] = tag.Value
	}
	t.profiles.put(t, p.Name, p)
	return &shapes.IAMCreateInstanceProfileResponse{InstanceProfile: t.describedProfile(&p)}, nil
}

// reprofile changes a profile.
func (t *tx) reprofile(name string, do func(*profile) error) (*wire.None, error) {
	have := t.profile(name)
	if have == nil {
		return nil, noEntity("Instance Profile", name)
	}
	p := *have
	if err := do(&p); err != nil {
		return nil, err
	}
	t.profiles.put(t, name, p)
	return &wire.None{}, nil
}

func (t *tx) addRole(in *shapes.IAMAddRoleToInstanceProfileRequest) (*wire.None, error) {
	if in.RoleName != t.settings.Role {
		return nil, noEntity("The role with name", in.RoleName)
	}
	return t.reprofile(in.InstanceProfileName, func(p *profile) error {
		if p.Role != "" {
			return &wire.Error{Code: "LimitExceeded", Message: "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", Status: http.StatusConflict}
		}
		p.Role = in.RoleName
		return nil
	})
}

func (t *tx) removeRole(in *shapes.IAMRemoveRoleFromInstanceProfileRequest) (*wire.None, error) {
	return t.reprofile(in.InstanceProfileName, func(p *profile) error {
		if p.Role != in.RoleName {
			return noEntity("The role with name", in.RoleName)
		}
		p.Role = ""
		return nil
	})
}

func (t *tx) tagProfile(in *shapes.IAMTagInstanceProfileRequest) (*wire.None, error) {
	return t.reprofile(in.InstanceProfileName, func(p *profile) error {
		p.Tags = maps.Clone(p.Tags)
		if p.Tags == nil {
			p.Tags = map[string]string{}
		}
		for _, tag := range in.Tags {
			p.Tags[tag.Key] = tag.Value
		}
		return nil
	})
}

func (t *tx) deleteProfile(in *shapes.IAMDeleteInstanceProfileRequest) (*wire.None, error) {
	p := t.profiles.items[in.InstanceProfileName]
	if p == nil {
		return nil, noEntity("Instance Profile", in.InstanceProfileName)
	}
	if p.Role != "" {
		return nil, &wire.Error{Code: "DeleteConflict", Message: "Cannot delete entity, must remove roles from instance profile first.", Status: http.StatusConflict}
	}
	t.profiles.drop(t, p.Name)
	return &wire.None{}, nil
}

func (t *tx) listProfiles(in *shapes.IAMListInstanceProfilesRequest) (*shapes.IAMListInstanceProfilesResponse, error) {
	all := t.profiles.sorted()
	if t.profiles.items[t.settings.Role] == nil {
		all = append(all, t.profile(t.settings.Role))
	}
	all = slices.DeleteFunc(all, func(p *profile) bool { return !strings.HasPrefix(p.Path, in.PathPrefix) })
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	some, next := page(all, func(p *profile) string { return p.Name }, in.Marker, in.MaxItems, 100)
	out := &shapes.IAMListInstanceProfilesResponse{IsTruncated: new(next != ""), Marker: next}
	for _, p := range some {
		out.InstanceProfiles = append(out.InstanceProfiles, *t.describedProfile(p))
	}
	return out, nil
}

func (t *tx) describeCluster(in *shapes.EKSDescribeClusterRequest) (*shapes.EKSDescribeClusterResponse, error) {
	if in.Name != t.settings.Cluster {
		return nil, &wire.Error{Code: "ResourceNotFoundException", Message: "No cluster found for name: " + in.Name + ".", Status: http.StatusNotFound}
	}
	v := &shapes.EKSVpcConfigResponse{VpcId: t.world.vpc.VpcId, EndpointPublicAccess: new(true), EndpointPrivateAccess: new(true), ClusterSecurityGroupId: t.world.groups[0].GroupId}
	for _, s := range t.world.subnets {
		v.SubnetIds = append(v.SubnetIds, s.SubnetId)
	}
	authority := t.settings.Authority
	if authority == "" {
		authority = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("the certificate of a cluster that is not there")}))
	}
	network := &shapes.EKSKubernetesNetworkConfigResponse{ServiceIpv4Cidr: "10.96.0.0/16", IpFamily: "ipv4"}
	if t.settings.IPv6 {
		network = &shapes.EKSKubernetesNetworkConfigResponse{ServiceIpv6Cidr: "fd30:1234:5678::/108", IpFamily: "ipv6"}
	}
	return &shapes.EKSDescribeClusterResponse{Cluster: &shapes.EKSCluster{
		Name: in.Name, Arn: t.arn("eks", "cluster/"+in.Name), CreatedAt: new(shapes.Epoch(accountCreated)), Version: t.settings.KubernetesVersion, Endpoint: t.settings.Endpoint,
		ResourcesVpcConfig: v, KubernetesNetworkConfig: network, Status: "ACTIVE",
		CertificateAuthority: &shapes.EKSCertificate{Data: authority}, PlatformVersion: "eks.1", Tags: map[string]string{DiscoveryTag: in.Name},
	}}, nil
}

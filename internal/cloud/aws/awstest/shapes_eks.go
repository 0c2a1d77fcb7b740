// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

// The shapes of EKS, version 2017-11-01: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type eksDescribeClusterRequest struct {
	Name string `uri:"name"`
}

type eksDescribeClusterResponse struct {
	Cluster *eksCluster `json:"cluster,omitempty"`
}

type eksCluster struct {
	Name                    string                              `json:"name,omitempty"`
	Arn                     string                              `json:"arn,omitempty"`
	CreatedAt               *epoch                              `json:"createdAt,omitempty"`
	Version                 string                              `json:"version,omitempty"`
	Endpoint                string                              `json:"endpoint,omitempty"`
	ResourcesVpcConfig      *eksVpcConfigResponse               `json:"resourcesVpcConfig,omitempty"`
	KubernetesNetworkConfig *eksKubernetesNetworkConfigResponse `json:"kubernetesNetworkConfig,omitempty"`
	Status                  string                              `json:"status,omitempty"`
	CertificateAuthority    *eksCertificate                     `json:"certificateAuthority,omitempty"`
	PlatformVersion         string                              `json:"platformVersion,omitempty"`
	Tags                    map[string]string                   `json:"tags,omitempty"`
}

type eksVpcConfigResponse struct {
	SubnetIds              []string `json:"subnetIds,omitempty"`
	SecurityGroupIds       []string `json:"securityGroupIds,omitempty"`
	ClusterSecurityGroupId string   `json:"clusterSecurityGroupId,omitempty"`
	VpcId                  string   `json:"vpcId,omitempty"`
	EndpointPublicAccess   *bool    `json:"endpointPublicAccess,omitempty"`
	EndpointPrivateAccess  *bool    `json:"endpointPrivateAccess,omitempty"`
}

type eksKubernetesNetworkConfigResponse struct {
	ServiceIpv4Cidr string `json:"serviceIpv4Cidr,omitempty"`
	ServiceIpv6Cidr string `json:"serviceIpv6Cidr,omitempty"`
	IpFamily        string `json:"ipFamily,omitempty"`
}

type eksCertificate struct {
	Data string `json:"data,omitempty"`
}

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

type eksDescribeNodegroupRequest struct {
	ClusterName   string `uri:"name"`
	NodegroupName string `uri:"nodegroupName"`
}

type eksDescribeNodegroupResponse struct {
	Nodegroup *eksNodegroup `json:"nodegroup,omitempty"`
}

type eksNodegroup struct {
	NodegroupName string                     `json:"nodegroupName,omitempty"`
	NodegroupArn  string                     `json:"nodegroupArn,omitempty"`
	ClusterName   string                     `json:"clusterName,omitempty"`
	Version       string                     `json:"version,omitempty"`
	CreatedAt     *epoch                     `json:"createdAt,omitempty"`
	Status        string                     `json:"status,omitempty"`
	CapacityType  string                     `json:"capacityType,omitempty"`
	ScalingConfig *eksNodegroupScalingConfig `json:"scalingConfig,omitempty"`
	AmiType       string                     `json:"amiType,omitempty"`
	Labels        map[string]string          `json:"labels,omitempty"`
	Taints        []eksTaint                 `json:"taints,omitempty"`
	Resources     *eksNodegroupResources     `json:"resources,omitempty"`
	Health        *eksNodegroupHealth        `json:"health,omitempty"`
}

type eksNodegroupScalingConfig struct {
	MinSize     *int64 `json:"minSize,omitempty"`
	MaxSize     *int64 `json:"maxSize,omitempty"`
	DesiredSize *int64 `json:"desiredSize,omitempty"`
}

type eksTaint struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
}

type eksNodegroupResources struct {
	AutoScalingGroups []eksAutoScalingGroup `json:"autoScalingGroups,omitempty"`
}

type eksAutoScalingGroup struct {
	Name string `json:"name,omitempty"`
}

type eksNodegroupHealth struct {
	Issues []eksIssue `json:"issues,omitempty"`
}

type eksIssue struct {
	Code        string   `json:"code,omitempty"`
	Message     string   `json:"message,omitempty"`
	ResourceIds []string `json:"resourceIds,omitempty"`
}

type eksUpdateNodegroupConfigRequest struct {
	ClusterName        string                     `uri:"name"`
	NodegroupName      string                     `uri:"nodegroupName"`
	Labels             *eksUpdateLabelsPayload    `json:"labels,omitempty"`
	Taints             *eksUpdateTaintsPayload    `json:"taints,omitempty"`
	ScalingConfig      *eksNodegroupScalingConfig `json:"scalingConfig,omitempty"`
	ClientRequestToken string                     `json:"clientRequestToken,omitempty"`
}

type eksUpdateLabelsPayload struct {
	AddOrUpdateLabels map[string]string `json:"addOrUpdateLabels,omitempty"`
	RemoveLabels      []string          `json:"removeLabels,omitempty"`
}

type eksUpdateTaintsPayload struct {
	AddOrUpdateTaints []eksTaint `json:"addOrUpdateTaints,omitempty"`
	RemoveTaints      []eksTaint `json:"removeTaints,omitempty"`
}

type eksUpdateNodegroupConfigResponse struct {
	Update *eksUpdate `json:"update,omitempty"`
}

type eksUpdate struct {
	Id        string `json:"id,omitempty"`
	Status    string `json:"status,omitempty"`
	Type      string `json:"type,omitempty"`
	CreatedAt *epoch `json:"createdAt,omitempty"`
}

type eksListClustersRequest struct {
	MaxResults string `query:"maxResults"`
	NextToken  string `query:"nextToken"`
}

type eksListClustersResponse struct {
	Clusters  []string `json:"clusters"`
	NextToken string   `json:"nextToken,omitempty"`
}

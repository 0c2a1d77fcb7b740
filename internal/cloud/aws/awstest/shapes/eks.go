// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

// The shapes of EKS, version 2017-11-01: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type EKSDescribeClusterRequest struct {
	Name string `uri:"name"`
}

type EKSDescribeClusterResponse struct {
	Cluster *EKSCluster `json:"cluster,omitempty"`
}

type EKSCluster struct {
	Name                    string                              `json:"name,omitempty"`
	Arn                     string                              `json:"arn,omitempty"`
	CreatedAt               *Epoch                              `json:"createdAt,omitempty"`
	Version                 string                              `json:"version,omitempty"`
	Endpoint                string                              `json:"endpoint,omitempty"`
	ResourcesVpcConfig      *EKSVpcConfigResponse               `json:"resourcesVpcConfig,omitempty"`
	KubernetesNetworkConfig *EKSKubernetesNetworkConfigResponse `json:"kubernetesNetworkConfig,omitempty"`
	Status                  string                              `json:"status,omitempty"`
	CertificateAuthority    *EKSCertificate                     `json:"certificateAuthority,omitempty"`
	PlatformVersion         string                              `json:"platformVersion,omitempty"`
	Tags                    map[string]string                   `json:"tags,omitempty"`
}

type EKSVpcConfigResponse struct {
	SubnetIds              []string `json:"subnetIds,omitempty"`
	SecurityGroupIds       []string `json:"securityGroupIds,omitempty"`
	ClusterSecurityGroupId string   `json:"clusterSecurityGroupId,omitempty"`
	VpcId                  string   `json:"vpcId,omitempty"`
	EndpointPublicAccess   *bool    `json:"endpointPublicAccess,omitempty"`
	EndpointPrivateAccess  *bool    `json:"endpointPrivateAccess,omitempty"`
}

type EKSKubernetesNetworkConfigResponse struct {
	ServiceIpv4Cidr string `json:"serviceIpv4Cidr,omitempty"`
	ServiceIpv6Cidr string `json:"serviceIpv6Cidr,omitempty"`
	IpFamily        string `json:"ipFamily,omitempty"`
}

type EKSCertificate struct {
	Data string `json:"data,omitempty"`
}

type EKSDescribeNodegroupRequest struct {
	ClusterName   string `uri:"name"`
	NodegroupName string `uri:"nodegroupName"`
}

type EKSDescribeNodegroupResponse struct {
	Nodegroup *EKSNodegroup `json:"nodegroup,omitempty"`
}

type EKSNodegroup struct {
	NodegroupName string                     `json:"nodegroupName,omitempty"`
	NodegroupArn  string                     `json:"nodegroupArn,omitempty"`
	ClusterName   string                     `json:"clusterName,omitempty"`
	Version       string                     `json:"version,omitempty"`
	CreatedAt     *Epoch                     `json:"createdAt,omitempty"`
	Status        string                     `json:"status,omitempty"`
	CapacityType  string                     `json:"capacityType,omitempty"`
	ScalingConfig *EKSNodegroupScalingConfig `json:"scalingConfig,omitempty"`
	AmiType       string                     `json:"amiType,omitempty"`
	Labels        map[string]string          `json:"labels,omitempty"`
	Taints        []EKSTaint                 `json:"taints,omitempty"`
	Resources     *EKSNodegroupResources     `json:"resources,omitempty"`
	Health        *EKSNodegroupHealth        `json:"health,omitempty"`
}

type EKSNodegroupScalingConfig struct {
	MinSize     *int64 `json:"minSize,omitempty"`
	MaxSize     *int64 `json:"maxSize,omitempty"`
	DesiredSize *int64 `json:"desiredSize,omitempty"`
}

type EKSTaint struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
}

type EKSNodegroupResources struct {
	AutoScalingGroups []EKSAutoScalingGroup `json:"autoScalingGroups,omitempty"`
}

type EKSAutoScalingGroup struct {
	Name string `json:"name,omitempty"`
}

type EKSNodegroupHealth struct {
	Issues []EKSIssue `json:"issues,omitempty"`
}

type EKSIssue struct {
	Code        string   `json:"code,omitempty"`
	Message     string   `json:"message,omitempty"`
	ResourceIds []string `json:"resourceIds,omitempty"`
}

type EKSUpdateNodegroupConfigRequest struct {
	ClusterName        string                     `uri:"name"`
	NodegroupName      string                     `uri:"nodegroupName"`
	Labels             *EKSUpdateLabelsPayload    `json:"labels,omitempty"`
	Taints             *EKSUpdateTaintsPayload    `json:"taints,omitempty"`
	ScalingConfig      *EKSNodegroupScalingConfig `json:"scalingConfig,omitempty"`
	ClientRequestToken string                     `json:"clientRequestToken,omitempty"`
}

type EKSUpdateLabelsPayload struct {
	AddOrUpdateLabels map[string]string `json:"addOrUpdateLabels,omitempty"`
	RemoveLabels      []string          `json:"removeLabels,omitempty"`
}

type EKSUpdateTaintsPayload struct {
	AddOrUpdateTaints []EKSTaint `json:"addOrUpdateTaints,omitempty"`
	RemoveTaints      []EKSTaint `json:"removeTaints,omitempty"`
}

type EKSUpdateNodegroupConfigResponse struct {
	Update *EKSUpdate `json:"update,omitempty"`
}

type EKSUpdate struct {
	Id        string `json:"id,omitempty"`
	Status    string `json:"status,omitempty"`
	Type      string `json:"type,omitempty"`
	CreatedAt *Epoch `json:"createdAt,omitempty"`
}

type EKSListClustersRequest struct {
	MaxResults string `query:"maxResults"`
	NextToken  string `query:"nextToken"`
}

type EKSListClustersResponse struct {
	Clusters  []string `json:"clusters"`
	NextToken string   `json:"nextToken,omitempty"`
}

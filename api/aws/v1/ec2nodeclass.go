// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// KindEC2NodeClass is the kind that a NodePool's nodeClassRef names.
const KindEC2NodeClass = "EC2NodeClass"

// EC2NodeClass configures nodes launched on EC2.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ec2nodeclasses,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".spec.role",priority=1
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instanceProfile)",message="exactly one of role and instanceProfile is needed"
	// +kubebuilder:validation:XValidation:rule="has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",message="amiFamily is required if no amiSelectorTerm has an alias"
	// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.find('^[^@]+') == self.amiFamily.lowerAscii())",message="amiFamily must be the alias's own family or Custom"
	Spec   EC2NodeClassSpec   `json:"spec,omitempty"`
	Status EC2NodeClassStatus `json:"status,omitempty"`
}

// EC2NodeClassList is a list of EC2NodeClasses.
//
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EC2NodeClass `json:"items"`
}

// EC2NodeClassSpec configures the instances of a node class.
type EC2NodeClassSpec struct {
	// SubnetSelectorTerms select the subnets for instances. A subnet must match at least one term.
	//
	// +kubebuilder:validation:XValidation:rule="self.size() != 0",message="subnetSelectorTerms cannot be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.tags) || has(x.id))",message="a subnet selector term needs tags or id"
	// +kubebuilder:validation:XValidation:rule="!self.all(x, has(x.id) && has(x.tags))",message="a subnet selector term with id must not set other fields"
	// +kubebuilder:validation:MaxItems=30
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms" hash:"ignore"`

	// SecurityGroupSelectorTerms select the security groups of each instance: all that match at least one term.
	//
	// +kubebuilder:validation:XValidation:rule="self.size() != 0",message="securityGroupSelectorTerms cannot be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.tags) || has(x.id) || has(x.name))",message="a security group selector term needs tags, id or name"
	// +kubebuilder:validation:XValidation:rule="!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",message="a security group selector term with id must not set other fields"
	// +kubebuilder:validation:XValidation:rule="!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",message="a security group selector term with name must not set other fields"
	// +kubebuilder:validation:MaxItems=30
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms" hash:"ignore"`

	// CapacityReservationSelectorTerms select the capacity reservations to use. A reservation must match at least one
	// term.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",message="a capacity reservation selector term needs tags, id or instanceMatchCriteria"
	// +kubebuilder:validation:XValidation:rule="!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",message="a capacity reservation selector term with id must not set other fields"
	// +kubebuilder:validation:MaxItems=30
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty" hash:"ignore"`

	// PlacementGroupSelector selects the placement group of the instances.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="exactly one of name and id is needed"
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`

	// AssociatePublicIPAddress sets whether instances get a public IP address. If unset, the subnet decides.
	//
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`

	// IPPrefixCount is the number of IP prefixes of the primary network interface.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty" hash:"ignore"`

	// AMISelectorTerms select AMIs. An AMI must match at least one term; the newest per architecture is used.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",message="an AMI selector term needs tags, id, name, alias or ssmParameter"
	// +kubebuilder:validation:XValidation:rule="!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",message="an AMI selector term with id must not set other fields"
	// +kubebuilder:validation:XValidation:rule="!self.exists(x, has(x.alias) && (has(x.tags) || has(x.id) || has(x.name) || has(x.owner)))",message="an AMI selector term with alias must not set other fields"
	// +kubebuilder:validation:XValidation:rule="!(self.exists(x, has(x.alias)) && self.size() != 1)",message="an alias must be the only AMI selector term"
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +required
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms" hash:"ignore"`

	// AMIFamily defines the user data format and the default volumes. With an alias, it defaults to the alias's family,
	// and can only be that family or Custom.
	//
	// +kubebuilder:validation:Enum=AL2;AL2023;Bottlerocket;Custom;Windows2019;Windows2022;Windows2025
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty" hash:"ignore"`

	// UserData is merged into the generated user data, in the format of the AMI family. With Custom, it is used
	// unchanged.
	//
	// +optional
	UserData *string `json:"userData,omitempty"`

	// Role is the IAM role of the instances. Dovetail creates an instance profile for it.
	//
	// +kubebuilder:validation:XValidation:rule="self != ''",message="role cannot be empty"
	// +optional
	Role string `json:"role,omitempty"`

	// InstanceProfile is an existing instance profile for the instances.
	//
	// +kubebuilder:validation:XValidation:rule="self != ''",message="instanceProfile cannot be empty"
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`

	// Tags of all AWS resources created for the node class.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '')",message="a tag needs a key"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'eks:eks-cluster-name')",message="tag eks:eks-cluster-name is reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster'))",message="tags kubernetes.io/cluster* are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'karpenter.sh/nodepool')",message="tag karpenter.sh/nodepool is reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'karpenter.sh/nodeclaim')",message="tag karpenter.sh/nodeclaim is reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'karpenter.k8s.aws/ec2nodeclass')",message="tag karpenter.k8s.aws/ec2nodeclass is reserved"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// Kubelet is the kubelet's configuration, with the field names of KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty" hash:"ignore"`

	// BlockDeviceMappings are the volumes of each instance. Default: those of the AMI family.
	//
	// +kubebuilder:validation:XValidation:rule="self.filter(x, has(x.rootVolume) ? x.rootVolume : false).size() <= 1",message="only one blockDeviceMapping may be the rootVolume"
	// +kubebuilder:validation:MaxItems=50
	// +optional
	BlockDeviceMappings []*BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`

	// InstanceStorePolicy defines the use of instance store disks.
	//
	// +optional
	InstanceStorePolicy *InstanceStorePolicy `json:"instanceStorePolicy,omitempty"`

	// NetworkInterfaces of each instance. Default: one interface.
	//
	// +kubebuilder:validation:XValidation:rule="self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",message="networkInterfaces must include an interface with networkCardIndex 0, deviceIndex 0 and interfaceType interface"
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() == 1)",message="networkCardIndex and deviceIndex must be unique together"
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() <= 1)",message="a network card may have one efa-only interface"
	// +kubebuilder:validation:MaxItems=150
	// +optional
	NetworkInterfaces []*NetworkInterface `json:"networkInterfaces,omitempty"`

	// DetailedMonitoring enables one-minute EC2 metrics.
	//
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`

	// MetadataOptions configure the instance metadata service.
	//
	// +kubebuilder:default={httpEndpoint: "enabled", httpProtocolIPv6: "disabled", httpPutResponseHopLimit: 1, httpTokens: "required"}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`

	// EnclaveOptions configures Nitro Enclaves. If enabled, only instance types that support them are launched.
	//
	// +optional
	EnclaveOptions *EnclaveOptions `json:"enclaveOptions,omitempty"`

	// ConnectionTracking sets idle timeouts of connections, in seconds.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="connectionTracking needs a timeout"
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`

	// Context is passed to CreateFleet unchanged.
	//
	// +optional
	Context *string `json:"context,omitempty"`

	// CPUOptions of each instance.
	//
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`
}

// SubnetSelectorTerm selects subnets.
type SubnetSelectorTerm struct {
	// Tags that a subnet must have. Value * matches any value.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="a tag needs key and value"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// ID of a subnet.
	//
	// +kubebuilder:validation:Pattern="subnet-[0-9a-z]+"
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm selects security groups.
type SecurityGroupSelectorTerm struct {
	// Tags that a group must have. Value * matches any value.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="a tag needs key and value"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// ID of a group.
	//
	// +kubebuilder:validation:Pattern="sg-[0-9a-z]+"
	// +optional
	ID string `json:"id,omitempty"`

	// Name of a security group, not its tag Name.
	//
	// +optional
	Name string `json:"name,omitempty"`
}

// CapacityReservationSelectorTerm selects capacity reservations.
type CapacityReservationSelectorTerm struct {
	// Tags that a reservation must have. Value * matches any value.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="a tag needs key and value"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// ID of a reservation.
	//
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`

	// OwnerID is the account that a reservation belongs to.
	//
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`

	// InstanceMatchCriteria of a reservation.
	//
	// +kubebuilder:validation:Enum=open;targeted
	// +optional
	InstanceMatchCriteria string `json:"instanceMatchCriteria,omitempty"`
}

// PlacementGroupSelector names a placement group.
type PlacementGroupSelector struct {
	// Name of the group.
	//
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`

	// ID of the group.
	//
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// AMISelectorTerm selects AMIs.
type AMISelectorTerm struct {
	// Alias is an EKS AMI family and version, such as al2023@latest or bottlerocket@v1.20.0.
	//
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+@.+$')",message="an alias is family@version"
	// +kubebuilder:validation:XValidation:rule="self.find('^[^@]+') in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",message="the family of an alias is one of al2, al2023, bottlerocket, windows2019, windows2022, windows2025"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('windows') || self.endsWith('@latest')",message="the only version of a Windows alias is latest"
	// +kubebuilder:validation:MaxLength=30
	// +optional
	Alias string `json:"alias,omitempty"`

	// Tags that an AMI must have. Value * matches any value.
	//
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="a tag needs key and value"
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// ID of an AMI.
	//
	// +kubebuilder:validation:Pattern="ami-[0-9a-z]+"
	// +optional
	ID string `json:"id,omitempty"`

	// Name of an AMI, not its tag Name. * matches any characters.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// Owner of an AMI: an account ID, self or amazon. Default with a name: self or amazon.
	//
	// +optional
	Owner string `json:"owner,omitempty"`

	// SSMParameter is the name or ARN of an SSM parameter that contains an AMI ID.
	//
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}

// MetadataOptions say how a machine's metadata can be read from it.
type MetadataOptions struct {
	// HTTPEndpoint enables or disables the metadata endpoint.
	//
	// +kubebuilder:default=enabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`

	// HTTPProtocolIPv6 enables or disables the IPv6 metadata endpoint.
	//
	// +kubebuilder:default=disabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`

	// HTTPPutResponseHopLimit is the hop limit of responses. Pods without host network need 2.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`

	// HTTPTokens sets whether a session token is required.
	//
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// BlockDeviceMapping is a volume and its device name.
type BlockDeviceMapping struct {
	// DeviceName such as /dev/xvda.
	//
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`

	// EBS is the volume.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.snapshotID) || has(self.volumeSize)",message="snapshotID or volumeSize is needed"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",message="volumeInitializationRate needs snapshotID"
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`

	// RootVolume marks the volume with the pods' ephemeral storage.
	//
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
}

// BlockDevice is a volume.
type BlockDevice struct {
	// DeleteOnTermination deletes the volume with its instance.
	//
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`

	// Encrypted sets whether the volume is encrypted.
	//
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`

	// IOPS of a gp3, io1 or io2 volume.
	//
	// +optional
	IOPS *int64 `json:"iops,omitempty"`

	// KMSKeyID is the KMS key for encryption.
	//
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`

	// SnapshotID is the snapshot of the volume.
	//
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`

	// Throughput of a gp3 volume, in MiB/s.
	//
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`

	// VolumeInitializationRate is the snapshot download rate, in MiB/s.
	//
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`

	// VolumeSize in Gi, G, Ti or T.
	//
	// +kubebuilder:validation:Pattern=`^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty" hash:"string"`

	// VolumeType, for example gp3.
	//
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// InstanceStorePolicy defines the use of instance store disks.
//
// +kubebuilder:validation:Enum=RAID0
type InstanceStorePolicy string

// InstanceStorePolicyRAID0 makes one volume of them, which pods' ephemeral storage is on.
const InstanceStorePolicyRAID0 InstanceStorePolicy = "RAID0"

// NetworkInterface is one interface of an instance.
type NetworkInterface struct {
	// NetworkCardIndex is the index of its network card.
	//
	// +kubebuilder:validation:Minimum=0
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// DeviceIndex on its network card.
	//
	// +kubebuilder:validation:Minimum=0
	// +required
	DeviceIndex int32 `json:"deviceIndex"`

	// InterfaceType is interface, or efa-only for one without IP address.
	//
	// +kubebuilder:validation:Enum=interface;efa-only
	// +required
	InterfaceType InterfaceType `json:"interfaceType"`
}

// InterfaceType of a network interface.
type InterfaceType string

// Interface types.
const (
	InterfaceTypeInterface InterfaceType = "interface"
	InterfaceTypeEFAOnly   InterfaceType = "efa-only"
)

// ConnectionTracking sets how long idle connections are remembered, in seconds.
type ConnectionTracking struct {
	// TCPEstablishedTimeout of established TCP connections, in seconds.
	//
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`

	// UDPStreamTimeout of UDP flows with several requests and responses, in seconds.
	//
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`

	// UDPTimeout of other UDP flows, in seconds.
	//
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}

// CPUOptions of each instance.
type CPUOptions struct {
	// NestedVirtualization enables or disables virtual machines on the instance.
	//
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	NestedVirtualization *string `json:"nestedVirtualization,omitempty"`
}

// EnclaveOptions of a machine.
type EnclaveOptions struct {
	// Enabled allows Nitro Enclaves.
	//
	// +required
	Enabled bool `json:"enabled"`
}

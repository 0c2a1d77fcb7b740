// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindNodeGroupClass is the kind that a NodePool's nodeClassRef names.
const KindNodeGroupClass = "NodeGroupClass"

// LabelNodeGroup is the name of the group that a node is a member of. Pods and pools may choose by it.
const LabelNodeGroup = Group + "/node-group"

// NodeGroupClass selects node groups: AWS Auto Scaling groups, or groups of Cluster API or an externalgrpc server. The
// groups define their nodes. Dovetail sets their size, between minimum and maximum.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodegroupclasses,scope=Cluster,categories=karpenter,shortName={ngc,ngcs}
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Groups",type="string",JSONPath=".status.groups[*].name"
// +kubebuilder:printcolumn:name="Desired",type="string",JSONPath=".status.groups[*].desired"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type NodeGroupClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeGroupClassSpec   `json:"spec,omitempty"`
	Status NodeGroupClassStatus `json:"status,omitempty"`
}

// NodeGroupClassList is a list of NodeGroupClasses.
//
// +kubebuilder:object:root=true
type NodeGroupClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeGroupClass `json:"items"`
}

// NodeGroupClassSpec defines which groups are scaled, and how.
type NodeGroupClassSpec struct {
	// SelectorTerms select the groups. A group must match one term; if it matches several, the first applies.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.name) != has(x.tags))",message="a selector term needs either name or tags"
	// +required
	SelectorTerms []NodeGroupSelectorTerm `json:"selectorTerms"`

	// Options define when a group's nodes are removed, and which group is used if several fit.
	//
	// +optional
	Options *NodeGroupOptions `json:"options,omitempty"`
}

// NodeGroupSelectorTerm selects groups by name or by tags.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || !has(self.maxSize) || self.minSize <= self.maxSize",message="minSize is above maxSize"
type NodeGroupSelectorTerm struct {
	// Name of the group.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`

	// Tags that the group must have. An empty value, or *, matches any value.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '')",message="a tag's key may not be empty"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// MinSize is the minimum size of each group. Default: the group's own minimum. A lower value has no effect.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinSize *int32 `json:"minSize,omitempty"`

	// MaxSize is the maximum size of each group. Default: the group's own maximum. A higher value has no effect.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxSize *int32 `json:"maxSize,omitempty"`
}

// Expander is a rule for choosing among groups.
//
// +kubebuilder:validation:Enum=price;least-waste;most-pods;least-nodes;priority;random;grpc
type Expander string

// The expanders.
const (
	ExpanderPrice      Expander = "price"       // the cheapest
	ExpanderLeastWaste Expander = "least-waste" // the one that leaves least CPU and memory idle
	ExpanderMostPods   Expander = "most-pods"   // the one that takes most pods
	ExpanderLeastNodes Expander = "least-nodes" // the one that needs fewest machines
	ExpanderPriority   Expander = "priority"    // the one that spec.options.priorities ranks highest
	ExpanderRandom     Expander = "random"      // any of them, the same one for the same pods
	ExpanderGRPC       Expander = "grpc"        // those that the controller's --grpc-expander-url answers; where it does not, all
)

// NodeGroupOptions say when machines are given back and which group is taken.
type NodeGroupOptions struct {
	// UtilizationThresholdPercent is the requested share of a node's CPU or memory, whichever is higher, above which
	// the node is not consolidated. Tag scaledownutilizationthreshold of a group overrides it. Default: no threshold.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	UtilizationThresholdPercent *int32 `json:"utilizationThresholdPercent,omitempty"`

	// GPUUtilizationThresholdPercent is the threshold for nodes with GPUs, where only GPU requests count.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	GPUUtilizationThresholdPercent *int32 `json:"gpuUtilizationThresholdPercent,omitempty"`

	// IgnoreDaemonSetsUtilization excludes requests of DaemonSet pods from utilization.
	//
	// +optional
	IgnoreDaemonSetsUtilization *bool `json:"ignoreDaemonSetsUtilization,omitempty"`

	// IgnoreMirrorPodsUtilization excludes requests of static pods from utilization.
	//
	// +optional
	IgnoreMirrorPodsUtilization *bool `json:"ignoreMirrorPodsUtilization,omitempty"`

	// UnreadyTime is how long a node must be not Ready before it is removed. Default: 20m.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	UnreadyTime *metav1.Duration `json:"unreadyTime,omitempty"`

	// MaxNodeProvisionTime is how long Dovetail waits for an instance to register as a node. Default: 15m.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`

	// Eviction defines which pods prevent consolidation of their node, and how pods are evicted, as in Cluster
	// Autoscaler. Default: no such rules.
	//
	// +optional
	Eviction *NodeGroupEviction `json:"eviction,omitempty"`

	// DelayAfterAdd is how long nodes of these groups are not consolidated or removed as empty after a launch in any
	// group; with delaysPerGroup, in the same group. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DelayAfterAdd *metav1.Duration `json:"delayAfterAdd,omitempty"`

	// DelayAfterDelete is the same delay after a consolidation or the removal of an empty node begins. Nodes of one
	// decision are removed together. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DelayAfterDelete *metav1.Duration `json:"delayAfterDelete,omitempty"`

	// DelayAfterFailure is the same delay after the removal of a node fails and is cancelled. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DelayAfterFailure *metav1.Duration `json:"delayAfterFailure,omitempty"`

	// DelaysPerGroup applies delayAfterAdd, delayAfterDelete and delayAfterFailure per group: only events in the node's
	// own group count. Default: false.
	//
	// +optional
	DelaysPerGroup *bool `json:"delaysPerGroup,omitempty"`

	// DelayAfterTaint is the time between tainting a node for removal and evicting its pods, so that pods being bound
	// to it are seen. The minimum is 500ms, also for the default of 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('5m')",message="delayAfterTaint must be 5m or less: a removal that takes longer than 10m is cancelled"
	// +optional
	DelayAfterTaint *metav1.Duration `json:"delayAfterTaint,omitempty"`

	// DeletionDelayTimeout is the maximum time that the deletion of a drained node waits for the removal of its
	// annotations delay-deletion.cluster-autoscaler.kubernetes.io/…. 0s disables the wait. Default: 2m.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DeletionDelayTimeout *metav1.Duration `json:"deletionDelayTimeout,omitempty"`

	// NewPodDelay is the minimum age of a pod before a node is launched for it. It applies only if every NodePool has
	// one; the shortest applies. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	NewPodDelay *metav1.Duration `json:"newPodDelay,omitempty"`

	// PriorityCutoff is the priority below which pods are expendable: no node is launched for them, and they do not prevent
	// the removal of their node. PodDisruptionBudgets and the annotations karpenter.sh/do-not-disrupt and
	// cluster-autoscaler.kubernetes.io/safe-to-evict "false" still apply to them. The cutoff applies only if every NodePool
	// has one; the lowest applies. Default: no pod is expendable.
	//
	// +optional
	PriorityCutoff *int32 `json:"priorityCutoff,omitempty"`

	// FillToMinSize scales a group below minSize of its selector term up to minSize. AWS itself keeps a group at its
	// own minimum. Default: false.
	//
	// +optional
	FillToMinSize *bool `json:"fillToMinSize,omitempty"`

	// BalanceSimilarGroups keeps groups that differ only in their zones at about the same size.
	//
	// +optional
	BalanceSimilarGroups *bool `json:"balanceSimilarGroups,omitempty"`

	// BalancingIgnoreLabels are labels in which similar groups may differ.
	//
	// +kubebuilder:validation:MaxItems=50
	// +optional
	BalancingIgnoreLabels []string `json:"balancingIgnoreLabels,omitempty"`

	// Expanders choose a group, in order: each chooses among the groups left by the previous one. Default: price.
	//
	// +kubebuilder:validation:MaxItems=7
	// +optional
	Expanders []Expander `json:"expanders,omitempty"`

	// Priorities rank groups for expander priority. Groups that match none are used last.
	//
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Priorities []NodeGroupPriority `json:"priorities,omitempty"`
}

// NodeGroupEviction says which pods keep their node from being consolidated, and how pods are evicted. A pod annotated
// cluster-autoscaler.kubernetes.io/safe-to-evict "true" keeps its node only where too few replicas are there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxGracePeriod) || !has(self.drainPriorities)",message="maxGracePeriod and drainPriorities are mutually exclusive: use gracePeriod of each drain priority"
type NodeGroupEviction struct {
	// KeepLocalStorage keeps nodes with pods that would lose a local volume: hostPath, or emptyDir not in memory,
	// unless annotation cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes names the volume.
	//
	// +optional
	KeepLocalStorage *bool `json:"keepLocalStorage,omitempty"`

	// KeepSystemPods keeps nodes with kube-system pods without a PodDisruptionBudget, until the pods reach this age.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	KeepSystemPods *metav1.Duration `json:"keepSystemPods,omitempty"`

	// KeepCustomControllers keeps nodes with pods whose controller is not a ReplicaSet, StatefulSet, Job, DaemonSet or
	// ReplicationController.
	//
	// +optional
	KeepCustomControllers *bool `json:"keepCustomControllers,omitempty"`

	// KeepBelowReplicas keeps nodes with pods whose controller has fewer pods than this.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	KeepBelowReplicas *int32 `json:"keepBelowReplicas,omitempty"`

	// MaxGracePeriod limits the termination grace period of evicted pods.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	MaxGracePeriod *metav1.Duration `json:"maxGracePeriod,omitempty"`

	// DrainPriorities are priority groups in which a node's pods are evicted, lowest first, each after the previous one
	// is gone, with a grace period per group. They replace maxGracePeriod.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, y.priority == x.priority))",message="each priority can be given once"
	// +optional
	DrainPriorities []NodeGroupDrainPriority `json:"drainPriorities,omitempty"`

	// KeepDaemonSetsOfEmptyNodes disables the eviction of DaemonSet pods from nodes removed as empty, unless they are
	// annotated cluster-autoscaler.kubernetes.io/enable-ds-eviction "true". Default: they are evicted.
	//
	// +optional
	KeepDaemonSetsOfEmptyNodes *bool `json:"keepDaemonSetsOfEmptyNodes,omitempty"`

	// KeepDaemonSetsOfOccupiedNodes disables the eviction of DaemonSet pods from nodes removed for other reasons,
	// unless they are annotated cluster-autoscaler.kubernetes.io/enable-ds-eviction "true". Default: they are evicted.
	//
	// +optional
	KeepDaemonSetsOfOccupiedNodes *bool `json:"keepDaemonSetsOfOccupiedNodes,omitempty"`
}

// NodeGroupDrainPriority is a group of pods that are evicted together.
type NodeGroupDrainPriority struct {
	// Priority is the minimum priority of pods in the group. The lowest group also includes pods of lower priority.
	Priority int32 `json:"priority"`

	// GracePeriod limits the termination grace period of evicted pods in the group. The minimum is 1s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="gracePeriod must be 1s or more"
	GracePeriod metav1.Duration `json:"gracePeriod"`
}

// NodeGroupPriority ranks groups.
type NodeGroupPriority struct {
	// Priority of the groups. The highest is used first.
	Priority int32 `json:"priority"`

	// Names are regular expressions, one of which must match the group's name.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Names []string `json:"names"`
}

// NodeGroupClassStatus is the observed state of a NodeGroupClass.
type NodeGroupClassStatus struct {
	// Groups are the selected groups, by name.
	//
	// +optional
	Groups []NodeGroupStatus `json:"groups,omitempty"`

	// Rules describes the active rules of spec.options, one sentence each.
	//
	// +optional
	Rules []string `json:"rules,omitempty"`

	// Conditions report whether nodes can be launched in the groups.
	//
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeGroupStatus is the last observed state of a group.
type NodeGroupStatus struct {
	Name string `json:"name"`
	// Min, Max and Desired are the group's minimum, maximum and desired size.
	Min     int32 `json:"min"`
	Max     int32 `json:"max"`
	Desired int32 `json:"desired"`
	// InstanceTypes are the instance types that its launch template or mixed instances policy allows.
	//
	// +optional
	InstanceTypes []string `json:"instanceTypes,omitempty"`
	// Zones of its subnets.
	//
	// +optional
	Zones []string `json:"zones,omitempty"`
	// Refresh is the status of the current instance refresh. Empty if there is none.
	//
	// +optional
	Refresh string `json:"refresh,omitempty"`
	// Problem is why no node can be launched in this group. Empty if there is no problem.
	//
	// +optional
	Problem string `json:"problem,omitempty"`
	// Options are the group's own scale-down options. They override spec.options for its nodes.
	//
	// +optional
	Options *NodeGroupOwnOptions `json:"options,omitempty"`
}

// NodeGroupOwnOptions are the options of one group.
type NodeGroupOwnOptions struct {
	// UtilizationThresholdPercent replaces spec.options.utilizationThresholdPercent.
	//
	// +optional
	UtilizationThresholdPercent *int32 `json:"utilizationThresholdPercent,omitempty"`
	// GPUUtilizationThresholdPercent replaces spec.options.gpuUtilizationThresholdPercent.
	//
	// +optional
	GPUUtilizationThresholdPercent *int32 `json:"gpuUtilizationThresholdPercent,omitempty"`
	// IgnoreDaemonSetsUtilization replaces spec.options.ignoreDaemonSetsUtilization.
	//
	// +optional
	IgnoreDaemonSetsUtilization *bool `json:"ignoreDaemonSetsUtilization,omitempty"`
	// UnreadyTime replaces spec.options.unreadyTime.
	//
	// +optional
	UnreadyTime *metav1.Duration `json:"unreadyTime,omitempty"`
	// MaxNodeProvisionTime replaces spec.options.maxNodeProvisionTime.
	//
	// +optional
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
}

// Conditions of a NodeGroupClass. Ready sums up the others.
const (
	ConditionReady          = "Ready"
	ConditionGroupsResolved = "GroupsResolved"   // every term chooses at least one group, and each group can be read
	ConditionLaunchable     = "GroupsLaunchable" // each group's launch template, types and subnets are there
	ConditionPermitted      = "PermissionGranted"
	// ConditionRoom is False while a group has as many machines as it may.
	ConditionRoom = "GroupsHaveRoom"
	// ConditionUndisturbed is False while AWS itself replaces members of a group: an instance refresh, or zones that are rebalanced.
	ConditionUndisturbed = "GroupsUndisturbed"
	// ConditionStored is False if the API server drops fields of the status: the CustomResourceDefinition is another program's.
	ConditionStored = "StatusStored"
)

// Tags of a node group. The first ones are those that Cluster Autoscaler reads.
const (
	TagNodeTemplateLabel    = "k8s.io/cluster-autoscaler/node-template/label/"
	TagNodeTemplateTaint    = "k8s.io/cluster-autoscaler/node-template/taint/"
	TagNodeTemplateResource = "k8s.io/cluster-autoscaler/node-template/resources/"
	TagNodeTemplateOption   = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"
)

// TagShielded is on a member of a group that was protected from scale-in for a moment, while its group's desired capacity was lowered: when
// that was, in RFC 3339. Empty: it is over.
const TagShielded = Group + "/shielded"

// AnnotationAdopt is on a NodeClaim that was made for a machine which was there before it: the machine's provider id.
const AnnotationAdopt = Group + "/adopt"

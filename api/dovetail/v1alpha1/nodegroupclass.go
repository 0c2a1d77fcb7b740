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

// NodeGroupClass is a set of node groups: Auto Scaling groups of AWS. What their machines are, the groups say; how many there are is
// decided here, between a group's minimum and its maximum.
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

// NodeGroupClassSpec is which groups there are to be had from, and how they are scaled.
type NodeGroupClassSpec struct {
	// SelectorTerms choose the groups. Any term will do; a group that several choose is scaled by the first of them.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, has(x.name) != has(x.tags))",message="a selector term needs either name or tags"
	// +required
	SelectorTerms []NodeGroupSelectorTerm `json:"selectorTerms"`

	// Options say when a group's machines are given back, and which group is taken where several would do.
	//
	// +optional
	Options *NodeGroupOptions `json:"options,omitempty"`
}

// NodeGroupSelectorTerm chooses groups by name or by tags.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || !has(self.maxSize) || self.minSize <= self.maxSize",message="minSize is above maxSize"
type NodeGroupSelectorTerm struct {
	// Name is the group's.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`

	// Tags that the group bears, all of them. An empty value, or *, is any.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '')",message="a tag's key may not be empty"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// MinSize is how few machines each of the groups may have. Default: what the group says. One below that has no effect.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinSize *int32 `json:"minSize,omitempty"`

	// MaxSize is how many machines each of the groups may have. Default: what the group says. One above that has no effect.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxSize *int32 `json:"maxSize,omitempty"`
}

// Expander is a rule by which one of several groups is taken.
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
	// UtilizationThresholdPercent is the share of a node's CPU or memory, whichever is more, that its pods ask for, above which the
	// node stays. Tag scaledownutilizationthreshold of a group says otherwise for that group. Default: nodes go whenever it saves money.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	UtilizationThresholdPercent *int32 `json:"utilizationThresholdPercent,omitempty"`

	// GPUUtilizationThresholdPercent is the same for nodes with GPUs, of which only the GPUs count then.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	GPUUtilizationThresholdPercent *int32 `json:"gpuUtilizationThresholdPercent,omitempty"`

	// IgnoreDaemonSetsUtilization says that what pods of DaemonSets ask for does not count.
	//
	// +optional
	IgnoreDaemonSetsUtilization *bool `json:"ignoreDaemonSetsUtilization,omitempty"`

	// IgnoreMirrorPodsUtilization says that what static pods ask for does not count.
	//
	// +optional
	IgnoreMirrorPodsUtilization *bool `json:"ignoreMirrorPodsUtilization,omitempty"`

	// UnreadyTime is how long a node has to be not Ready before it goes. Default: 20m.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	UnreadyTime *metav1.Duration `json:"unreadyTime,omitempty"`

	// MaxNodeProvisionTime is how long a machine has to become a node; then it is given up. Default: 15m.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`

	// Eviction says which pods keep their node from being consolidated, and how pods are evicted, by the rules of Cluster
	// Autoscaler. Default: pods move like any other of the cluster.
	//
	// +optional
	Eviction *NodeGroupEviction `json:"eviction,omitempty"`

	// DelayAfterAdd is how long after a node of any group was launched none of these groups is removed for its cost or for
	// being empty; of the same group with delaysPerGroup. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DelayAfterAdd *metav1.Duration `json:"delayAfterAdd,omitempty"`

	// DelayAfterDelete is the same, counted from when the removal of a node for its cost or for being empty began. Nodes
	// that are chosen together go together. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DelayAfterDelete *metav1.Duration `json:"delayAfterDelete,omitempty"`

	// DelayAfterFailure is the same, counted from when the removal of a node failed and was taken back. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DelayAfterFailure *metav1.Duration `json:"delayAfterFailure,omitempty"`

	// DelaysPerGroup has delayAfterAdd, delayAfterDelete and delayAfterFailure of a node count from what happened to nodes
	// of its own group, instead of any group. Default: false.
	//
	// +optional
	DelaysPerGroup *bool `json:"delaysPerGroup,omitempty"`

	// DelayAfterTaint is how long a node that is to be removed has its taint before its pods are evicted, so that what was
	// on its way to it shows; at least half a second. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('5m')",message="delayAfterTaint may be 5m at most: a removal that takes longer than 10m is taken back"
	// +optional
	DelayAfterTaint *metav1.Duration `json:"delayAfterTaint,omitempty"`

	// DeletionDelayTimeout is how long the deletion of a node whose pods are gone waits at most for annotations of the node
	// that begin with delay-deletion.cluster-autoscaler.kubernetes.io/ to be removed. 0s: it does not wait. Default: 2m.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	DeletionDelayTimeout *metav1.Duration `json:"deletionDelayTimeout,omitempty"`

	// NewPodDelay is how long after its creation a pod gets no node launched. It holds where every NodePool has one, and
	// the shortest of them counts. Default: 0s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	NewPodDelay *metav1.Duration `json:"newPodDelay,omitempty"`

	// PriorityCutoff is the priority below which pods are expendable: no node is launched for them, and none is kept for
	// them, neither for the room that they take nor for want of another node for them. A PodDisruptionBudget, and the
	// annotations karpenter.sh/do-not-disrupt and cluster-autoscaler.kubernetes.io/safe-to-evict "false", hold for such a
	// pod too. The cutoff holds where every NodePool has one, and the lowest of them counts. Default: no pod is expendable.
	//
	// +optional
	PriorityCutoff *int32 `json:"priorityCutoff,omitempty"`

	// FillToMinSize has a group with fewer nodes than minSize of its selector term filled up to it. AWS itself keeps a
	// group at its own minimum. Default: false.
	//
	// +optional
	FillToMinSize *bool `json:"fillToMinSize,omitempty"`

	// BalanceSimilarGroups keeps groups that differ in their zones only at about the same size.
	//
	// +optional
	BalanceSimilarGroups *bool `json:"balanceSimilarGroups,omitempty"`

	// BalancingIgnoreLabels are labels in which similar groups may differ.
	//
	// +kubebuilder:validation:MaxItems=50
	// +optional
	BalancingIgnoreLabels []string `json:"balancingIgnoreLabels,omitempty"`

	// Expanders choose among groups, each among those that the one before leaves. Default: price.
	//
	// +kubebuilder:validation:MaxItems=7
	// +optional
	Expanders []Expander `json:"expanders,omitempty"`

	// Priorities are the ranks of groups for the expander priority. A group that none of them names is taken last.
	//
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Priorities []NodeGroupPriority `json:"priorities,omitempty"`
}

// NodeGroupEviction says which pods keep their node from being consolidated, and how pods are evicted. A pod annotated
// cluster-autoscaler.kubernetes.io/safe-to-evict "true" keeps its node only where too few replicas are there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxGracePeriod) || !has(self.drainPriorities)",message="maxGracePeriod and drainPriorities exclude each other: give each drain priority its gracePeriod"
type NodeGroupEviction struct {
	// KeepLocalStorage has pods keep their node that would lose a volume on it: hostPath, or emptyDir that is not in
	// memory, and is not named by annotation cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes.
	//
	// +optional
	KeepLocalStorage *bool `json:"keepLocalStorage,omitempty"`

	// KeepSystemPods has pods of kube-system without a PodDisruptionBudget keep their node until they are so old.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	KeepSystemPods *metav1.Duration `json:"keepSystemPods,omitempty"`

	// KeepCustomControllers has pods keep their node whose controller is neither a ReplicaSet, StatefulSet, Job, DaemonSet
	// nor ReplicationController.
	//
	// +optional
	KeepCustomControllers *bool `json:"keepCustomControllers,omitempty"`

	// KeepBelowReplicas has pods keep their node whose controller has fewer pods than this.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	KeepBelowReplicas *int32 `json:"keepBelowReplicas,omitempty"`

	// MaxGracePeriod is how long an evicted pod has to end at most, where it asks for longer.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +optional
	MaxGracePeriod *metav1.Duration `json:"maxGracePeriod,omitempty"`

	// DrainPriorities evict a node's pods in groups by their priority, the lowest first, each when those before it are
	// gone, and say how long the pods of each have to end. They take the place of maxGracePeriod.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, y.priority == x.priority))",message="each priority can be given once"
	// +optional
	DrainPriorities []NodeGroupDrainPriority `json:"drainPriorities,omitempty"`

	// KeepDaemonSetsOfEmptyNodes has pods of DaemonSets run until the node ends where it goes for being empty, unless they
	// are annotated cluster-autoscaler.kubernetes.io/enable-ds-eviction "true". Default: they are evicted.
	//
	// +optional
	KeepDaemonSetsOfEmptyNodes *bool `json:"keepDaemonSetsOfEmptyNodes,omitempty"`

	// KeepDaemonSetsOfOccupiedNodes has pods of DaemonSets run until the node ends where it goes for anything else, unless
	// they are annotated cluster-autoscaler.kubernetes.io/enable-ds-eviction "true". Default: they are evicted.
	//
	// +optional
	KeepDaemonSetsOfOccupiedNodes *bool `json:"keepDaemonSetsOfOccupiedNodes,omitempty"`
}

// NodeGroupDrainPriority is a group of pods that are evicted together.
type NodeGroupDrainPriority struct {
	// Priority is the least that a pod of the group has. The group with the least one takes pods of a lower priority too.
	Priority int32 `json:"priority"`

	// GracePeriod is how long an evicted pod of the group has to end at most, where it asks for longer; at least 1s.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="gracePeriod must be 1s or more"
	GracePeriod metav1.Duration `json:"gracePeriod"`
}

// NodeGroupPriority ranks groups.
type NodeGroupPriority struct {
	// Priority: the highest is taken first.
	Priority int32 `json:"priority"`

	// Names are regular expressions; one of them has to match the group's name.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Names []string `json:"names"`
}

// NodeGroupClassStatus is what the selector terms stand for in the account.
type NodeGroupClassStatus struct {
	// Groups are those that the terms choose, by name.
	//
	// +optional
	Groups []NodeGroupStatus `json:"groups,omitempty"`

	// Rules are what of spec.options keeps nodes or pods, a sentence each.
	//
	// +optional
	Rules []string `json:"rules,omitempty"`

	// Conditions say whether machines can be had from the groups.
	//
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeGroupStatus is one group as it was last seen.
type NodeGroupStatus struct {
	Name string `json:"name"`
	// Min, Max and Desired are how many machines it may and should have.
	Min     int32 `json:"min"`
	Max     int32 `json:"max"`
	Desired int32 `json:"desired"`
	// InstanceTypes are all that its launch template or its mixed instances policy allows.
	//
	// +optional
	InstanceTypes []string `json:"instanceTypes,omitempty"`
	// Zones are those of its subnets.
	//
	// +optional
	Zones []string `json:"zones,omitempty"`
	// Refresh is the status of an instance refresh that is under way; empty: there is none.
	//
	// +optional
	Refresh string `json:"refresh,omitempty"`
	// Problem says why nothing can be had from this group; empty: it can.
	//
	// +optional
	Problem string `json:"problem,omitempty"`
	// Options are what the group itself says of when its nodes are removed. They take the place of spec.options for its nodes.
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

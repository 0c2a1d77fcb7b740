// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

// Mark is an annotation, a label, a taint, a tag or an object that Cluster Autoscaler reads or writes, in addition to its flags.
type Mark struct {
	Name    string `json:"name"`
	On      string `json:"on"`      // kind of the object that has it
	Outcome string `json:"outcome"` // outcome, as for a flag
	What    string `json:"what"`    // how Dovetail handles it
}

const (
	whyRequested  = "the pod uses the capacity of its ProvisioningRequest"
	whyClusterAPI = "read with --cloud=clusterapi"
	whyElsewhere  = "specific to another cloud provider"
)

// Marks are all marks, by kind of object.
var Marks = []Mark{
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: true", "Pod", SameHere, "the pod may be evicted for consolidation, even without a controller"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: false", "Pod", SameHere, "its node is not consolidated"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: on-completion", "Pod", SameHere, "its node is not consolidated until the pod has terminated"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "Pod", SameHere, "the listed volumes do not count for NodeGroupClass spec.options.eviction.keepLocalStorage"},
	{"cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "Pod", SameHere, "minimum age of the pod before a node is launched for it; applies if longer than newPodDelay"},
	{"cluster-autoscaler.kubernetes.io/enable-ds-eviction", "Pod of a DaemonSet", SameHere, "false: the pod is not evicted; true: the pod is evicted, also from an empty node"},
	{"autoscaling.x-k8s.io/consume-provisioning-request", "Pod", SameHere, whyRequested},
	{"autoscaling.x-k8s.io/provisioning-class-name", "Pod", SameHere, "not needed: the ProvisioningRequest contains its class"},
	{"cluster-autoscaler.kubernetes.io/consume-provisioning-request", "Pod", SameHere, whyRequested},
	{"cluster-autoscaler.kubernetes.io/provisioning-class-name", "Pod", SameHere, "not needed: the ProvisioningRequest contains its class"},

	{"cluster-autoscaler.kubernetes.io/scale-down-disabled", "Node", SameHere, "the node is not disrupted, unless it has expired or is unhealthy"},
	{"delay-deletion.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "delays the deletion of a drained node, at most for NodeGroupClass spec.options.deletionDelayTimeout (2m for nodes without a group)"},
	{"cluster-autoscaler.k8s.io/upcoming-node", "Node", NoEffect, "set only on simulated nodes of Cluster Autoscaler, never in the API server"},
	{"cluster-autoscaler.kubernetes.io/template-node", "Node", NoEffect, "set only on simulated nodes of Cluster Autoscaler, never in the API server"},
	{"ToBeDeletedByClusterAutoscaler", "Node", SameHere, "a node with this taint gets no new pods; the taint and its cordon are removed after 15m, if no Cluster Autoscaler is running"},
	{"DeletionCandidateOfClusterAutoscaler", "Node", SameHere, "removed from a node after 15m, if no Cluster Autoscaler is running"},
	{"startup-taint.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "Dovetail waits until such a taint is removed from a new node; taints in tags are in startupTaints of the NodePool"},
	{"ignore-taint.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "Dovetail waits until such a taint is removed from a new node; taints in tags are in startupTaints of the NodePool"},
	{"status-taint.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "such taints in tags are not set in the NodePool"},

	{"k8s.io/cluster-autoscaler/enabled", "Auto Scaling group", SameHere, "--node-group-auto-discovery selects groups by this tag"},
	{"k8s.io/cluster-autoscaler/<cluster>", "Auto Scaling group", SameHere, "--node-group-auto-discovery selects groups by this tag"},
	{"k8s.io/cluster-autoscaler/node-template/label/", "Auto Scaling group", InObjects, "labels of the NodePool"},
	{"k8s.io/cluster-autoscaler/node-template/taint/", "Auto Scaling group", InObjects, "taints of the NodePool"},
	{"k8s.io/cluster-autoscaler/node-template/resources/", "Auto Scaling group", InObjects, "read from the group by the NodeGroupClass"},
	{"k8s.io/cluster-autoscaler/node-template/autoscaling-options/", "Auto Scaling group", InObjects, "options of the NodeGroupClass, consolidateAfter of the NodePool"},
	{"eks:cluster-name", "Auto Scaling group", SameHere, "labels, taints and updates of the EKS managed node group are read with eks:DescribeNodegroup; with --groups, EKS is not called: add the tags node-template/label/… and …/taint/… to the group"},
	{"eks:nodegroup-name", "Auto Scaling group", SameHere, "labels, taints and updates of the EKS managed node group are read with eks:DescribeNodegroup; with --groups, EKS is not called: add the tags node-template/label/… and …/taint/… to the group"},

	{"cluster-autoscaler-priority-expander", "ConfigMap", InObjects, "NodePool spec.weight; dovetail controller reads it with --node-group-defaults=--expander=priority"},
	{"cluster-autoscaler-status", "ConfigMap", SameHere, "written if a NodeGroupClass has groups, in the format of Cluster Autoscaler 1.30 and later; grant the right with 'dovetail manifests --group-status'"},
	{"cluster-autoscaler.kubernetes.io/last-updated", "ConfigMap", SameHere, "set on ConfigMap cluster-autoscaler-status, at most 1m old"},

	{"ProvisioningRequest", "autoscaling.x-k8s.io", SameHere, "supported classes: best-effort-atomic-scale-up and check-capacity"},
	{"CapacityBuffer", "autoscaling.x-k8s.io", SameHere, "supported version: v1beta1"},
	{"CapacityQuota", "autoscaling.x-k8s.io", SameHere, "supported version: v1beta1"},

	{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "Cluster API", SameHere, whyClusterAPI},
	{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "Cluster API", SameHere, whyClusterAPI},
	{"cluster.x-k8s.io/autoscaling-options-", "Cluster API", SameHere, whyClusterAPI + ", except scaledownunneededtime: set spec.disruption.consolidateAfter of the NodePool"},
	{"capacity.cluster-autoscaler.kubernetes.io/", "Cluster API", SameHere, whyClusterAPI + ", except dra-driver and csi-driver"},
	{"cluster-autoscaler.kwok.nodegroup/", "Node", NoEffect, whyElsewhere},
}

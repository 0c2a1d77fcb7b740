// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

// Mark is an annotation, a label, a taint, a tag or an object by which Cluster Autoscaler is told something, or tells
// something, beside its flags.
type Mark struct {
	Name    string `json:"name"`
	On      string `json:"on"`      // the kind of object that has it
	Outcome string `json:"outcome"` // as of a flag
	What    string `json:"what"`    // what Dovetail does about it
}

const (
	whyRequested  = "the pod uses the capacity of its ProvisioningRequest"
	whyClusterAPI = "read with --cloud=clusterapi"
	whyElsewhere  = "of another cloud provider than AWS"
)

// Marks are all of them, by kind of object.
var Marks = []Mark{
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: true", "Pod", SameHere, "it may be evicted for consolidation though it has no controller"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: false", "Pod", SameHere, "its node is not consolidated"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: on-completion", "Pod", SameHere, "its node is not consolidated before the pod has ended"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "Pod", SameHere, "volumes that it names do not count for NodeGroupClass spec.options.eviction.keepLocalStorage"},
	{"cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "Pod", SameHere, "no node is launched for the pod before it is so old; it lengthens newPodDelay and never shortens it"},
	{"cluster-autoscaler.kubernetes.io/enable-ds-eviction", "Pod of a DaemonSet", SameHere, "false: the pod is not evicted; true: it is, from an empty node too"},
	{"autoscaling.x-k8s.io/consume-provisioning-request", "Pod", SameHere, whyRequested},
	{"autoscaling.x-k8s.io/provisioning-class-name", "Pod", SameHere, "not needed: the ProvisioningRequest says its class"},
	{"cluster-autoscaler.kubernetes.io/consume-provisioning-request", "Pod", SameHere, whyRequested},
	{"cluster-autoscaler.kubernetes.io/provisioning-class-name", "Pod", SameHere, "not needed: the ProvisioningRequest says its class"},

	{"cluster-autoscaler.kubernetes.io/scale-down-disabled", "Node", SameHere, "the node is not disrupted, unless it has expired or is unhealthy"},
	{"delay-deletion.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "a node whose pods are gone is kept for it, for NodeGroupClass spec.options.deletionDelayTimeout at most; 2m for nodes of no group"},
	{"cluster-autoscaler.k8s.io/upcoming-node", "Node", NoEffect, "it is on nodes that Cluster Autoscaler imagines, never on one in the API server"},
	{"cluster-autoscaler.kubernetes.io/template-node", "Node", NoEffect, "it is on nodes that Cluster Autoscaler imagines, never on one in the API server"},
	{"ToBeDeletedByClusterAutoscaler", "Node", SameHere, "a node that was left with it gets no new pods; it and the cordon beside it are taken off when it is 15m old, once no Cluster Autoscaler runs"},
	{"DeletionCandidateOfClusterAutoscaler", "Node", SameHere, "it is taken off a node that was left with it when it is 15m old, once no Cluster Autoscaler runs"},
	{"startup-taint.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "a node that comes with such a taint is waited for; one that a tag tells is in the pool's startupTaints"},
	{"ignore-taint.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "a node that comes with such a taint is waited for; one that a tag tells is in the pool's startupTaints"},
	{"status-taint.cluster-autoscaler.kubernetes.io/", "Node", SameHere, "such a taint of a tag is left out of the pool"},

	{"k8s.io/cluster-autoscaler/enabled", "Auto Scaling group", SameHere, "--node-group-auto-discovery finds the group by it"},
	{"k8s.io/cluster-autoscaler/<cluster>", "Auto Scaling group", SameHere, "--node-group-auto-discovery finds the group by it"},
	{"k8s.io/cluster-autoscaler/node-template/label/", "Auto Scaling group", InObjects, "labels of the NodePool"},
	{"k8s.io/cluster-autoscaler/node-template/taint/", "Auto Scaling group", InObjects, "taints of the NodePool"},
	{"k8s.io/cluster-autoscaler/node-template/resources/", "Auto Scaling group", InObjects, "read from the group by the NodeGroupClass"},
	{"k8s.io/cluster-autoscaler/node-template/autoscaling-options/", "Auto Scaling group", InObjects, "options of the NodeGroupClass, consolidateAfter of the NodePool"},
	{"eks:cluster-name", "Auto Scaling group", SameHere, "labels, taints and updates of the EKS managed node group are read by eks:DescribeNodegroup; with --groups, which does not ask EKS, give its group the tags node-template/label/… and …/taint/…"},
	{"eks:nodegroup-name", "Auto Scaling group", SameHere, "labels, taints and updates of the EKS managed node group are read by eks:DescribeNodegroup; with --groups, which does not ask EKS, give its group the tags node-template/label/… and …/taint/…"},

	{"cluster-autoscaler-priority-expander", "ConfigMap", InObjects, "NodePool spec.weight; dovetail controller follows it with --node-group-defaults=--expander=priority"},
	{"cluster-autoscaler-status", "ConfigMap", SameHere, "written where a NodeGroupClass has groups, with the right that 'dovetail manifests --group-status' prints, in the form of Cluster Autoscaler 1.30 and later"},
	{"cluster-autoscaler.kubernetes.io/last-updated", "ConfigMap", SameHere, "it is on the ConfigMap cluster-autoscaler-status, at most 1m old"},

	{"ProvisioningRequest", "autoscaling.x-k8s.io", SameHere, "served, in classes best-effort-atomic-scale-up and check-capacity"},
	{"CapacityBuffer", "autoscaling.x-k8s.io", SameHere, "served, in version v1beta1"},
	{"CapacityQuota", "autoscaling.x-k8s.io", SameHere, "served, in version v1beta1"},

	{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "Cluster API", SameHere, whyClusterAPI},
	{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "Cluster API", SameHere, whyClusterAPI},
	{"cluster.x-k8s.io/autoscaling-options-", "Cluster API", SameHere, whyClusterAPI + ", except scaledownunneededtime: set spec.disruption.consolidateAfter of the NodePool"},
	{"capacity.cluster-autoscaler.kubernetes.io/", "Cluster API", SameHere, whyClusterAPI + ", except dra-driver and csi-driver"},
	{"cluster-autoscaler.kwok.nodegroup/", "Node", NoEffect, whyElsewhere},
}

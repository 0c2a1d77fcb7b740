// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

// caMark is an annotation, a label, a taint, a tag or an object by which Cluster Autoscaler is told something, or tells
// something, beside its flags.
type caMark struct {
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

// caMarks are all of them, by kind of object.
var caMarks = []caMark{
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: true", "Pod", sameHere, "it may be evicted for consolidation though it has no controller"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: false", "Pod", sameHere, "its node is not consolidated"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict: on-completion", "Pod", sameHere, "its node is not consolidated before the pod has ended"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "Pod", sameHere, "volumes that it names do not count for NodeGroupClass spec.options.eviction.keepLocalStorage"},
	{"cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "Pod", sameHere, "no node is launched for the pod before it is so old; it lengthens newPodDelay and never shortens it"},
	{"cluster-autoscaler.kubernetes.io/enable-ds-eviction", "Pod of a DaemonSet", sameHere, "false: the pod is not evicted; true: it is, from an empty node too"},
	{"autoscaling.x-k8s.io/consume-provisioning-request", "Pod", sameHere, whyRequested},
	{"autoscaling.x-k8s.io/provisioning-class-name", "Pod", sameHere, "not needed: the ProvisioningRequest says its class"},
	{"cluster-autoscaler.kubernetes.io/consume-provisioning-request", "Pod", sameHere, whyRequested},
	{"cluster-autoscaler.kubernetes.io/provisioning-class-name", "Pod", sameHere, "not needed: the ProvisioningRequest says its class"},

	{"cluster-autoscaler.kubernetes.io/scale-down-disabled", "Node", sameHere, "the node is not disrupted, unless it has expired or is unhealthy"},
	{"delay-deletion.cluster-autoscaler.kubernetes.io/", "Node", sameHere, "a node whose pods are gone is kept for it, for NodeGroupClass spec.options.deletionDelayTimeout at most; 2m for nodes of no group"},
	{"cluster-autoscaler.k8s.io/upcoming-node", "Node", noEffect, "it is on nodes that Cluster Autoscaler imagines, never on one in the API server"},
	{"cluster-autoscaler.kubernetes.io/template-node", "Node", noEffect, "it is on nodes that Cluster Autoscaler imagines, never on one in the API server"},
	{"ToBeDeletedByClusterAutoscaler", "Node", sameHere, "a node that was left with it gets no new pods; it and the cordon beside it are taken off when it is 15m old, once no Cluster Autoscaler runs"},
	{"DeletionCandidateOfClusterAutoscaler", "Node", sameHere, "it is taken off a node that was left with it when it is 15m old, once no Cluster Autoscaler runs"},
	{"startup-taint.cluster-autoscaler.kubernetes.io/", "Node", sameHere, "a node that comes with such a taint is waited for; one that a tag tells is in the pool's startupTaints"},
	{"ignore-taint.cluster-autoscaler.kubernetes.io/", "Node", sameHere, "a node that comes with such a taint is waited for; one that a tag tells is in the pool's startupTaints"},
	{"status-taint.cluster-autoscaler.kubernetes.io/", "Node", sameHere, "such a taint of a tag is left out of the pool"},

	{"k8s.io/cluster-autoscaler/enabled", "Auto Scaling group", sameHere, "--node-group-auto-discovery finds the group by it"},
	{"k8s.io/cluster-autoscaler/<cluster>", "Auto Scaling group", sameHere, "--node-group-auto-discovery finds the group by it"},
	{"k8s.io/cluster-autoscaler/node-template/label/", "Auto Scaling group", inObjects, "labels of the NodePool"},
	{"k8s.io/cluster-autoscaler/node-template/taint/", "Auto Scaling group", inObjects, "taints of the NodePool"},
	{"k8s.io/cluster-autoscaler/node-template/resources/", "Auto Scaling group", inObjects, "read from the group by the NodeGroupClass"},
	{"k8s.io/cluster-autoscaler/node-template/autoscaling-options/", "Auto Scaling group", inObjects, "options of the NodeGroupClass, consolidateAfter of the NodePool"},
	{"eks:cluster-name", "Auto Scaling group", sameHere, "labels, taints and updates of the EKS managed node group are read by eks:DescribeNodegroup; with --groups, which does not ask EKS, give its group the tags node-template/label/… and …/taint/…"},
	{"eks:nodegroup-name", "Auto Scaling group", sameHere, "labels, taints and updates of the EKS managed node group are read by eks:DescribeNodegroup; with --groups, which does not ask EKS, give its group the tags node-template/label/… and …/taint/…"},

	{"cluster-autoscaler-priority-expander", "ConfigMap", inObjects, "NodePool spec.weight; dovetail controller follows it with --node-group-defaults=--expander=priority"},
	{"cluster-autoscaler-status", "ConfigMap", sameHere, "written where a NodeGroupClass has groups, with the right that 'dovetail manifests --group-status' prints, in the form of Cluster Autoscaler 1.30 and later"},
	{"cluster-autoscaler.kubernetes.io/last-updated", "ConfigMap", sameHere, "it is on the ConfigMap cluster-autoscaler-status, at most 1m old"},

	{"ProvisioningRequest", "autoscaling.x-k8s.io", sameHere, "served, in classes best-effort-atomic-scale-up and check-capacity"},
	{"CapacityBuffer", "autoscaling.x-k8s.io", sameHere, "served, in version v1beta1"},
	{"CapacityQuota", "autoscaling.x-k8s.io", sameHere, "served, in version v1beta1"},

	{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "Cluster API", sameHere, whyClusterAPI},
	{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "Cluster API", sameHere, whyClusterAPI},
	{"cluster.x-k8s.io/autoscaling-options-", "Cluster API", sameHere, whyClusterAPI + ", except scaledownunneededtime: set spec.disruption.consolidateAfter of the NodePool"},
	{"capacity.cluster-autoscaler.kubernetes.io/", "Cluster API", sameHere, whyClusterAPI + ", except dra-driver and csi-driver"},
	{"cluster-autoscaler.kwok.nodegroup/", "Node", noEffect, whyElsewhere},
}

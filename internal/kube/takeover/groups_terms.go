// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Terms are the terms of a cloud for findings, and how Cluster Autoscaler discovers groups there.
type Terms struct {
	Chart  string                                              // chart values
	Where  string                                              // location of the groups
	Access string                                              // remedy if groups cannot be read
	Tag    string                                              // the tag by which Cluster Autoscaler discovers groups
	Keep   string                                              // what to do before such a tag is removed from a group
	Free   func(ctx context.Context, group, key string) string // command that removes a tag from a group

	all       bool // without a flag, Cluster Autoscaler discovers all groups
	discovery func(flag string) (discovered, error)
}

// discovered is what one --node-group-auto-discovery selects.
type discovered struct {
	sets []map[string]string // tags that a group has to have
	all  bool                // all groups
}

// AWSTerms returns the terms for Auto Scaling groups.
func AWSTerms() Terms {
	return Terms{
		Chart: "--set cloud=aws --set settings.clusterName=CLUSTER", Where: "this account and region", Access: "aws sts get-caller-identity, and allow autoscaling:DescribeAutoScalingGroups",
		Tag: "tag", Keep: "If Dovetail discovers it by that tag too, add it to --nodes of its controller first.",
		Free: func(_ context.Context, group, key string) string {
			return "aws autoscaling delete-tags --tags ResourceId=" + group + ",ResourceType=auto-scaling-group,Key=" + key
		},
		discovery: func(flag string) (discovered, error) {
			tags, err := translate.ParseDiscovery(flag)
			return discovered{sets: []map[string]string{tags}}, err
		},
	}
}

// ClusterAPITerms returns the terms for node groups of a Cluster API cluster. separate means that its management cluster
// is another cluster. resource returns the resource of a group.
func ClusterAPITerms(namespace, cluster string, separate bool, resource func(ctx context.Context, group string) string) Terms {
	chart := "--set cloud=clusterapi --set clusterAPI.cluster=" + namespace + "/" + cluster
	if separate {
		chart += " --set clusterAPI.managementSecret=SECRET"
	}
	return Terms{
		Chart: chart, Where: "namespace " + namespace + " of the management cluster, or has no annotations with its minimum and maximum size", Access: "kubectl auth can-i list machines.cluster.x-k8s.io -n " + namespace + " (in the management cluster), or select another management cluster with --management-kubeconfig",
		Tag: "label", Keep: "If the NodeGroupClass selects it by that label too, select it by name in spec.selectorTerms first.",
		Free: func(ctx context.Context, group, key string) string {
			return "kubectl -n " + namespace + " label " + resource(ctx, group) + " " + group + " " + key + "- (in the management cluster)"
		},
		all: true,
		discovery: func(flag string) (discovered, error) {
			d, err := translate.ParseClusterAPIDiscovery(flag)
			switch {
			case err != nil:
				return discovered{}, err
			case d.Namespace != "" && d.Namespace != namespace || d.ClusterName != "" && d.ClusterName != cluster:
				return discovered{}, nil // groups of another Cluster
			}
			return discovered{sets: []map[string]string{d.Labels}, all: len(d.Labels) == 0}, nil
		},
	}
}

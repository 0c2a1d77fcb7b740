// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// convertProvider converts --cloud-provider. The flags of the provider, which are converted after it, depend on it.
func convertProvider(c *conversion, v string) (fate, error) {
	if v != cloudAWS && v != cloudClusterAPI {
		return fate{}, fmt.Errorf("--cloud-provider=%s: only aws and clusterapi can be converted; for another cloud, run its externalgrpc server and see docs/EXTERNALGRPC.md", v)
	}
	c.isClusterAPI = v == cloudClusterAPI
	return forward("cloud")(c, v)
}

// convertCloudConfig converts --cloud-config, with Cluster API the kubeconfig of the management cluster.
func convertCloudConfig(c *conversion, v string) (fate, error) {
	if c.isClusterAPI {
		return forward("management-kubeconfig")(c, v)
	}
	return fate{outcome: noMatch, what: "region and credentials come from the AWS SDK's default chain: environment, files, the pod's or the machine's role"}, nil
}

// convertNodes converts --nodes.
func convertNodes(c *conversion, v string) (fate, error) {
	if c.isClusterAPI {
		return fate{outcome: noEffect, what: "with Cluster API, the sizes of a group are annotations of its MachineDeployment, MachineSet or MachinePool"}, nil
	}
	g, err := translate.ParseNodes(v)
	if err != nil {
		return fate{}, fmt.Errorf("--nodes=%s: %w", v, err)
	}
	c.named = append(c.named, g)
	return fate{outcome: inObjects, what: "NodeGroupClass spec.selectorTerms: name " + g.Name + ", minSize, maxSize"}, nil
}

// convertDiscovery converts --node-group-auto-discovery. What became of it is known when the groups are.
func convertDiscovery(c *conversion, v string) (fate, error) {
	if !c.isClusterAPI {
		tags, err := translate.ParseDiscovery(v)
		if err != nil {
			return fate{}, fmt.Errorf("--node-group-auto-discovery=%s: %w", v, err)
		}
		c.discovery = append(c.discovery, tags)
		return fate{outcome: inObjects}, nil
	}
	d, err := translate.ParseClusterAPIDiscovery(v)
	switch {
	case err != nil:
		return fate{}, fmt.Errorf("--node-group-auto-discovery=%s: %w", v, err)
	case c.cluster != "" && d.Cluster() != "" && c.cluster != d.Cluster():
		return fate{}, fmt.Errorf("--node-group-auto-discovery=%s: Cluster %s, and %s in another one: a controller scales one Cluster; convert each by itself", v, d.Cluster(), c.cluster)
	}
	if c.cluster == "" {
		c.cluster = d.Cluster()
	}
	c.discovery = append(c.discovery, d.Labels)
	return fate{outcome: inObjects}, nil
}

// fateOfDiscovery returns what became of --node-group-auto-discovery.
func fateOfDiscovery(c *conversion, v string) fate {
	switch {
	case c.isClusterAPI:
		var parts []string
		if c.cluster != "" {
			parts = append(parts, "--cluster-api-cluster="+c.cluster)
		}
		return fate{outcome: inObjects, what: strings.Join(append(parts, "NodeGroupClass spec.selectorTerms, where tags are labels of the MachineDeployment; groups with taints need a NodePool with the same taints"), "; ")}
	case c.described == nil:
		return fate{outcome: inObjects, what: "NodeGroupClass spec.selectorTerms: tags; groups that bear taints need a pool each: describe them with --groups"}
	}
	return fate{outcome: inObjects, what: "a NodeGroupClass and a NodePool for each group that bears the tags; dovetail controller takes the flag too, and keeps them in step"}
}

// settleClusterAPI completes what Cluster Autoscaler's command line says of Cluster API: without a discovery, all objects with the two sizes are groups.
func (c *conversion) settleClusterAPI() error {
	if !c.isClusterAPI {
		return nil
	}
	if c.described != nil {
		return exit{2, fmt.Errorf("--groups describes Auto Scaling groups, and --cloud-provider is %s: leave --groups out; the controller reads the groups from the management cluster", cloudClusterAPI)}
	}
	if len(c.discovery) == 0 {
		c.discovery = append(c.discovery, nil)
	}
	if c.cluster == "" {
		c.notes = append(c.notes, "no Cluster is named: give dovetail controller --cluster-api-cluster=NAMESPACE/NAME of the Cluster object")
		return nil
	}
	c.controller = append(c.controller, "--cluster-api-cluster="+c.cluster)
	return nil
}

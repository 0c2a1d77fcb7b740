// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// convertProvider converts --cloud-provider. The flags of the provider, which are converted after it, depend on it.
func convertProvider(c *Conversion, v string) (fate, error) {
	if v != "aws" && v != "clusterapi" {
		return fate{}, fmt.Errorf("--cloud-provider=%s: only aws and clusterapi can be converted; for another cloud, run its externalgrpc server and see docs/EXTERNALGRPC.md", v)
	}
	c.IsClusterAPI = v == "clusterapi"
	return forward("cloud")(c, v)
}

// convertCloudConfig converts --cloud-config, with Cluster API the kubeconfig of the management cluster.
func convertCloudConfig(c *Conversion, v string) (fate, error) {
	if c.IsClusterAPI {
		return forward("management-kubeconfig")(c, v)
	}
	return fate{outcome: NoMatch, what: "region and credentials come from the AWS SDK's default chain: environment, files, the pod's or the machine's role"}, nil
}

// convertNodes converts --nodes.
func convertNodes(c *Conversion, v string) (fate, error) {
	if c.IsClusterAPI {
		return fate{outcome: NoEffect, what: "with Cluster API, the sizes of a group are annotations of its MachineDeployment, MachineSet or MachinePool"}, nil
	}
	g, err := translate.ParseNodes(v)
	if err != nil {
		return fate{}, fmt.Errorf("--nodes=%s: %w", v, err)
	}
	c.Named = append(c.Named, g)
	return fate{outcome: InObjects, what: "NodeGroupClass spec.selectorTerms: name " + g.Name + ", minSize, maxSize"}, nil
}

// convertDiscovery converts --node-group-auto-discovery. What became of it is known when the groups are.
func convertDiscovery(c *Conversion, v string) (fate, error) {
	if !c.IsClusterAPI {
		tags, err := translate.ParseDiscovery(v)
		if err != nil {
			return fate{}, fmt.Errorf("--node-group-auto-discovery=%s: %w", v, err)
		}
		c.Discovery = append(c.Discovery, tags)
		return fate{outcome: InObjects}, nil
	}
	d, err := translate.ParseClusterAPIDiscovery(v)
	switch {
	case err != nil:
		return fate{}, fmt.Errorf("--node-group-auto-discovery=%s: %w", v, err)
	case c.cluster != "" && d.Cluster() != "" && c.cluster != d.Cluster():
		return fate{}, fmt.Errorf("--node-group-auto-discovery=%s: Cluster %s, and %s in another flag: a controller scales one Cluster; convert each separately", v, d.Cluster(), c.cluster)
	}
	if c.cluster == "" {
		c.cluster = d.Cluster()
	}
	c.Discovery = append(c.Discovery, d.Labels)
	return fate{outcome: InObjects}, nil
}

// fateOfDiscovery returns what became of --node-group-auto-discovery.
func fateOfDiscovery(c *Conversion, v string) fate {
	switch {
	case c.IsClusterAPI:
		var parts []string
		if c.cluster != "" {
			parts = append(parts, "--cluster-api-cluster="+c.cluster)
		}
		return fate{outcome: InObjects, what: strings.Join(append(parts, "NodeGroupClass spec.selectorTerms, where tags are labels of the MachineDeployment; groups with taints need a NodePool with the same taints"), "; ")}
	case c.Described == nil:
		return fate{outcome: InObjects, what: "NodeGroupClass spec.selectorTerms: tags; groups with taints need a NodePool each: use --groups"}
	}
	return fate{outcome: InObjects, what: "a NodeGroupClass and a NodePool for each group with the tags; dovetail controller accepts the flag, too, and keeps them up to date"}
}

// settleClusterAPI completes what Cluster Autoscaler's command line says of Cluster API: without a discovery, all objects with the two sizes are groups.
func (c *Conversion) settleClusterAPI() {
	switch {
	case !c.IsClusterAPI:
		return
	case c.cluster == "":
		c.Notes = append(c.Notes, "no Cluster is set: set --cluster-api-cluster of dovetail controller to NAMESPACE/NAME of the Cluster object")
	default:
		c.Controller = append(c.Controller, "--cluster-api-cluster="+c.cluster)
	}
	if len(c.Discovery) == 0 {
		c.Discovery = append(c.Discovery, nil)
	}
}

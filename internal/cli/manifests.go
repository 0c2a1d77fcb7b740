// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/charts"
	"github.com/dovetail-sh/dovetail/examples"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

func manifestsCommand() *cobra.Command {
	surge, priorities, status, clusterAPI, landing, mode, nodePool := false, false, false, false, "", "", ""
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Print the objects to install before the controller",
		Long: `Prints the CustomResourceDefinitions, namespace, ServiceAccount, RBAC rules, and the admission policies that limit which
pods and NodePools the controller can change. Apply them with 'kubectl apply --server-side -f -'.

With --nodepool, prints only an example NodePool with its node class. Without a NodePool, no node is launched.`,
		Example: "  dovetail manifests | kubectl apply --server-side -f -\n  dovetail manifests --mode shadow | kubectl diff --server-side -f -\n  dovetail manifests --nodepool aws",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("nodepool") {
				b, err := examples.NodePool(nodePool)
				if err != nil {
					return exit{2, fmt.Errorf("--nodepool %q: use aws or kwok", nodePool)}
				}
				_, err = c.OutOrStdout().Write(b)
				return err
			}
			if !slices.Contains(landings, landing) {
				return exit{2, fmt.Errorf("--landing %q: use %s", landing, strings.Join(landings, ", "))}
			}
			switch mode {
			case modeActive:
			case modeShadow:
				b, err := charts.ShadowManifests()
				if err != nil {
					return fmt.Errorf("read embedded manifests: %w", err)
				}
				_, err = c.OutOrStdout().Write(b)
				return err
			default:
				return exit{2, fmt.Errorf("--mode %q: use active or shadow", mode)}
			}
			var optional []string
			if surge {
				optional = append(optional, "surge")
			}
			if priorities {
				optional = append(optional, "priorities")
			}
			if status {
				optional = append(optional, "group-status")
			}
			if clusterAPI {
				optional = append(optional, "cluster-api")
			}
			b, err := charts.Manifests(landing, optional...)
			if err != nil {
				return fmt.Errorf("read embedded manifests: %w", err)
			}
			_, err = c.OutOrStdout().Write(b)
			return err
		},
	}
	c.Flags().StringVar(&mode, "mode", modeActive, "active or shadow. shadow grants read access only, for a controller with --mode=shadow")
	c.Flags().StringVar(&landing, "landing", landings[0], "Grant the permissions for this --landing mode of the controller: "+strings.Join(landings, ", "))
	c.Flags().BoolVar(&surge, "surge", false, "Grant permission to restart Deployments annotated with dovetail.sh/surge")
	c.Flags().BoolVar(&priorities, "priorities", false, "Grant permission to read ConfigMap kube-system/"+translate.PriorityConfigMap+", for --node-group-defaults=--expander=priority")
	c.Flags().BoolVar(&status, "group-status", false, "Grant permission to write ConfigMap "+clusterAutoscalerNamespace+"/"+write.StatusConfigMap+", the node group status in Cluster Autoscaler's format")
	c.Flags().BoolVar(&clusterAPI, "cluster-api", false, "Grant the permissions for --cloud=clusterapi in a management cluster. Change namespace default to that of the Cluster object")
	c.Flags().StringVar(&nodePool, "nodepool", "", "Print only an example NodePool for this cloud provider: aws, or kwok (the simulated cloud)")
	return c
}

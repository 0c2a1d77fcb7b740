// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/charts"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

func manifestsCommand() *cobra.Command {
	surge, priorities, status, landing, mode := false, false, false, "", ""
	c := &cobra.Command{
		Use:   "manifests",
		Short: "print what a cluster needs before the controller can run",
		Long: "Prints the CustomResourceDefinitions, the namespace, the identity with its rights, and the policies that limit what\n" +
			"the controller may change on pods and whose NodePools it may change. The output is for 'kubectl apply --server-side -f -'.",
		Example: "  dovetail manifests | kubectl apply --server-side -f -",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
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
			b, err := charts.Manifests(landing, optional...)
			if err != nil {
				return fmt.Errorf("read embedded manifests: %w", err)
			}
			_, err = c.OutOrStdout().Write(b)
			return err
		},
	}
	c.Flags().StringVar(&mode, "mode", modeActive, "active, or shadow: rights to read alone, for a controller with --mode=shadow")
	c.Flags().StringVar(&landing, "landing", string(decide.LandBind), "with the rights that a controller with this --landing needs: "+strings.Join(landings, ", "))
	c.Flags().BoolVar(&surge, "surge", false, "with the right to restart Deployments that are opted in by dovetail.sh/surge")
	c.Flags().BoolVar(&priorities, "priorities", false, "with the right to read ConfigMap kube-system/"+translate.PriorityConfigMap+", for --node-group-defaults=--expander=priority")
	c.Flags().BoolVar(&status, "group-status", false, "with the right to write ConfigMap "+clusterAutoscalerNamespace+"/"+write.StatusConfigMap+", the status of node groups for those who read Cluster Autoscaler's")
	return c
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/kube"
	"github.com/dovetail-sh/dovetail/internal/model"
)

func machinesCommand() *cobra.Command {
	var kubeconfig, listen, journal, catalogFile, format, level string
	var boot time.Duration
	var seed int64
	c := &cobra.Command{
		Use:   "machines",
		Short: "run the simulated cloud: machines that exist as Node objects only",
		Long: "Runs a cloud without machines: it takes launches and terminations over HTTP on loopback, keeps them in a journal on disk,\n" +
			"and after --boot makes the Node object that a real machine's kubelet would make. kwok plays the kubelet from there.\n" +
			"It is what the sandbox buys from.",
		Example: "  dovetail machines --kubeconfig machines.kubeconfig --listen 127.0.0.1:7080 --journal machines.journal",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := logger(c.ErrOrStderr(), format, level)
			if err != nil {
				return err
			}
			cat, err := loadCatalog(catalogFile)
			if err != nil {
				return err
			}
			client, err := kube.Connect(kubeconfig, 0, 0, "dovetail-machines/"+version())
			if err != nil {
				return err
			}
			server, err := machines.Open(machines.Config{
				Journal: journal, Catalog: cat, Settings: machines.Settings{Seed: seed, Boot: boot}, Log: log,
			}, nodeMaker{kube.NewNodeMaker(client)})
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("listen on %s (--listen): %w", listen, err)
			}
			log.Info("simulated cloud is up", "address", l.Addr().String(), "types", len(cat.Types), "boot", boot.String(), "journal", journal)
			return server.Serve(c.Context(), l)
		},
	}
	f := c.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the identity that makes Nodes; empty: in-cluster")
	f.StringVar(&listen, "listen", "127.0.0.1:7080", "address to serve on")
	f.StringVar(&journal, "journal", "machines.journal", "file that keeps what was launched and terminated")
	f.StringVar(&catalogFile, "catalog", "", "instance types and prices, in the form of the built-in EC2 catalogue or of Karpenter's KWOK instance types; empty: built-in EC2 us-east-1")
	f.DurationVar(&boot, "boot", 0, "how long a machine takes to register its Node, with seeded jitter")
	f.Int64Var(&seed, "seed", 1, "seed of the jitter")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return c
}

// nodeMaker gives the simulated cloud its power over Kubernetes.
type nodeMaker struct{ kube *kube.NodeMaker }

func (m nodeMaker) CreateNode(ctx context.Context, n machines.NodeSpec) error {
	taints := make([]model.Taint, len(n.Taints))
	for i, t := range n.Taints {
		taints[i] = model.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}
	}
	return m.kube.CreateNode(ctx, kube.NodeSpec{
		Name: n.Name, ProviderID: n.ProviderID, Labels: n.Labels, Annotations: n.Annotations, Taints: taints, Capacity: n.Capacity, Allocatable: n.Allocatable,
	})
}

func (m nodeMaker) DeleteNode(ctx context.Context, name, providerID string) error {
	return m.kube.DeleteNode(ctx, name, providerID)
}

func loadCatalog(file string) (*catalog.Catalog, error) {
	if file == "" {
		return catalog.Builtin()
	}
	return catalog.Load(file)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/kube"
	"github.com/dovetail-sh/dovetail/internal/model"
)

func machinesCommand() *cobra.Command {
	var kubeconfig, listen, journal, catalogFile, format, level, awsAddress string
	var boot time.Duration
	var seed int64
	account := awstest.Default()
	c := &cobra.Command{
		Use:   "machines",
		Short: "run the simulated cloud: machines that exist as Node objects only",
		Long: "Runs a cloud without machines: it takes launches and terminations over HTTP on loopback, keeps them in a journal on disk,\n" +
			"and after --boot makes the Node object that a real machine's kubelet would make. kwok plays the kubelet from there.\n" +
			"The sandbox launches from it. With --aws-address it also speaks the protocols of AWS (EC2, Auto Scaling, SSM, SQS, IAM,\n" +
			"STS, EKS, the Price List) for whoever has that address as AWS_ENDPOINT_URL: its instances are machines like the others.",
		Example: "  dovetail machines --kubeconfig machines.kubeconfig --listen 127.0.0.1:7080 --journal machines.journal\n" +
			"  dovetail machines --kubeconfig machines.kubeconfig --aws-address 127.0.0.1:7081",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := logger(c.ErrOrStderr(), format, level)
			if err != nil {
				return err
			}
			cat, err := loadCatalog(catalogFile)
			if err != nil {
				return err
			}
			client, err := connectPatiently(c.Context(), log, kubeconfig)
			if err != nil {
				return err
			}
			cfg := simulated.Config{Journal: journal, Catalog: cat, Settings: simulated.Settings{Seed: seed, Boot: boot}, Log: log}
			var aws *awstest.Cloud
			if awsAddress != "" {
				account.Seed = seed
				if aws, err = awstest.New(cat, account, nil, log); err != nil {
					return err
				}
				cfg.Guest = aws
			}
			server, err := simulated.Open(cfg, nodeMaker{kube.NewNodeMaker(client)})
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("listen on %s (--listen): %w", listen, err)
			}
			log.Info("simulated cloud is up", "address", l.Addr().String(), "types", len(cat.Types), "boot", boot.String(), "journal", journal)
			if aws == nil {
				return server.Serve(c.Context(), l)
			}
			awsListener, err := net.Listen("tcp", awsAddress)
			if err != nil {
				return fmt.Errorf("listen on %s (--aws-address): %w", awsAddress, err)
			}
			aws.Attach(server)
			log.Info("simulated AWS is up", "address", awsListener.Addr().String(), "region", cat.Region, "cluster", account.Cluster)
			return serveBoth(c.Context(),
				func(ctx context.Context) error { return server.Serve(ctx, l) },
				func(ctx context.Context) error { return aws.Serve(ctx, awsListener) })
		},
	}
	f := c.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the identity that makes Nodes; empty: in-cluster")
	f.StringVar(&listen, "listen", "127.0.0.1:7080", "address to serve on")
	f.StringVar(&journal, "journal", "machines.journal", "file that keeps what was launched and terminated")
	f.StringVar(&catalogFile, "catalog", "", "instance types and prices, in the form of the built-in EC2 catalogue or of Karpenter's KWOK instance types; empty: built-in EC2 us-east-1")
	f.DurationVar(&boot, "boot", 0, "how long a machine takes to register its Node, with seeded jitter")
	f.Int64Var(&seed, "seed", 1, "seed of the jitter")
	f.StringVar(&awsAddress, "aws-address", "", "address to speak the protocols of AWS on; empty: none")
	f.StringVar(&account.Cluster, "aws-cluster-name", account.Cluster, "name of the EKS cluster that the simulated AWS knows")
	f.StringVar(&account.Endpoint, "aws-cluster-endpoint", "", "address of that cluster's API server; nodes whose user data names another never join. Empty: any will do")
	f.StringVar(&account.KubernetesVersion, "aws-kubernetes-version", account.KubernetesVersion, "minor version of that cluster, which decides what images there are")
	f.StringVar(&account.Queue, "aws-interruption-queue", account.Queue, "name of the queue for interruptions")
	f.StringVar(&account.Role, "aws-node-role", account.Role, "name of the nodes' role and of its instance profile")
	f.DurationVar(&account.Notice, "aws-notice", account.Notice, "how long before an instance goes its interruption is told")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return c
}

// apiServerWait is how long the simulated cloud waits for an API server that does not answer: a real one does not go away
// with the cluster's control plane.
const apiServerWait = time.Minute

// connectPatiently connects to the API server, again and again while nobody answers there.
func connectPatiently(ctx context.Context, log *slog.Logger, kubeconfig string) (client *kube.Client, err error) {
	told := false
	for end := time.Now().Add(apiServerWait); ; {
		client, err = kube.Connect(ctx, kubeconfig, 0, 0, "dovetail-machines/"+version())
		if err == nil || !utilnet.IsConnectionRefused(err) && !utilnet.IsConnectionReset(err) || time.Now().After(end) {
			return client, err
		}
		if !told {
			log.Warn("the API server does not answer, trying again", "for", apiServerWait.String(), "error", err.Error())
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// serveBoth runs two servers until the context ends or one of them fails.
func serveBoth(ctx context.Context, servers ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(servers))
	for _, s := range servers {
		go func() { ended <- s(ctx) }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
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

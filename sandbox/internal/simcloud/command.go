// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package simcloud runs Dovetail's simulated cloud, and with it the simulated
// AWS, as one component of the sandbox. The models are packages of the Dovetail
// module (internal/cloud/simulated, internal/cloud/aws/awstest), whose unit
// tests use them too; this package gives them a socket, a journal and the
// Nodes of an API server. Start reading at NewCommand.
package simcloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
)

// options are the command's flags.
type options struct {
	kubeconfig, listen, journal, catalog, logFormat, logLevel, awsAddress, kubelets string

	machines simulated.Settings
	account  awstest.Settings
}

// NewCommand returns the command that runs the simulated cloud. It ends on
// SIGINT and SIGTERM.
func NewCommand() *cobra.Command {
	o := options{account: awstest.Default()}
	c := &cobra.Command{
		Use:   "machines",
		Short: "Run the simulated cloud, whose instances exist only as Node objects",
		Long: `Runs a simulated cloud: it accepts launches and terminations over HTTP on
loopback, stores them in a journal on disk, and after --boot creates the Node
object that a kubelet would create. kwok then simulates the kubelet, unless
--kubelets starts real ones. With --aws-address, it also serves the protocols
of AWS (EC2, Auto Scaling, SSM, SQS, IAM, STS, EKS, the Price List) to clients
with that address in AWS_ENDPOINT_URL.`,
		Example: `  dovetail-sandbox machines --kubeconfig machines.kubeconfig --listen 127.0.0.1:7080 --journal machines.journal
  dovetail-sandbox machines --kubeconfig machines.kubeconfig --aws-address 127.0.0.1:7081`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the identity that creates Nodes. If unset, the in-cluster service account is used")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7080", "Address to listen on")
	f.StringVar(&o.journal, "journal", "machines.journal", "File with all launches and terminations")
	f.StringVar(&o.catalog, "catalog", "", "File with instance types and prices, in the format of the built-in EC2 catalog or of Karpenter's KWOK instance types. Default: EC2 us-east-1")
	f.DurationVar(&o.machines.Boot, "boot", 0, "Mean time from the launch of an instance until its node registers")
	f.Int64Var(&o.machines.Seed, "seed", 1, "Seed for random boot times")
	f.StringVar(&o.kubelets, "kubelets", "", "URL that starts and stops a kubelet for each instance. If unset, Nodes are created by this command, and kwok simulates their kubelets")
	f.StringVar(&o.awsAddress, "aws-address", "", "Address of the simulated AWS. If empty, it is not served")
	f.StringVar(&o.account.Cluster, "aws-cluster-name", o.account.Cluster, "Name of the EKS cluster of the simulated AWS")
	f.StringVar(&o.account.Endpoint, "aws-cluster-endpoint", "", "Address of the API server of the simulated EKS cluster. Nodes with another address in their user data never register. If empty, any address is accepted")
	f.StringVar(&o.account.KubernetesVersion, "aws-kubernetes-version", o.account.KubernetesVersion, "Kubernetes minor version of the simulated EKS cluster, which selects the available AMIs")
	f.StringVar(&o.account.Queue, "aws-interruption-queue", o.account.Queue, "Name of the interruption queue")
	f.StringVar(&o.account.Role, "aws-node-role", o.account.Role, "Name of the IAM role of nodes and of its instance profile")
	f.DurationVar(&o.account.Notice, "aws-notice", o.account.Notice, "Time from an interruption notice until the instance is terminated")
	f.StringVar(&o.logFormat, "log-format", "text", "Log format: text or json")
	f.StringVar(&o.logLevel, "log-level", "info", "Log level: debug, info, warn or error")
	return c
}

func (o *options) run(ctx context.Context, errs io.Writer) error {
	log, err := newLogger(errs, o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	types, err := catalog.Builtin()
	if o.catalog != "" {
		types, err = catalog.Load(o.catalog)
	}
	if err != nil {
		return err
	}
	nodes, err := connect(ctx, log, o.kubeconfig)
	if err != nil {
		return err
	}
	var maker simulated.NodeMaker = nodes
	if o.kubelets != "" {
		maker = kubeletMaker{nodeMaker: nodes, url: o.kubelets}
	}
	config := simulated.Config{Journal: o.journal, Catalog: types, Settings: o.machines, Log: log}
	var aws *awstest.Cloud
	if o.awsAddress != "" {
		o.account.Seed = o.machines.Seed
		if aws, err = awstest.New(types, o.account, nil, log); err != nil {
			return err
		}
		config.Guest = aws
	}
	server, err := simulated.Open(config, maker)
	if err != nil {
		return err
	}
	if k, ok := maker.(kubeletMaker); ok {
		if err := k.resume(ctx, server); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s (--listen): %w", o.listen, err)
	}
	log.Info("simulated cloud is up", "address", l.Addr().String(), "types", len(types.Types), "boot", o.machines.Boot.String(), "journal", o.journal)
	if aws == nil {
		return server.Serve(ctx, l)
	}
	awsListener, err := net.Listen("tcp", o.awsAddress)
	if err != nil {
		return fmt.Errorf("listen on %s (--aws-address): %w", o.awsAddress, err)
	}
	aws.Attach(server)
	log.Info("simulated AWS is up", "address", awsListener.Addr().String(), "region", types.Region, "cluster", o.account.Cluster)
	return serveAll(ctx,
		func(ctx context.Context) error { return server.Serve(ctx, l) },
		func(ctx context.Context) error { return aws.Serve(ctx, awsListener) })
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	handler := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, handler)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, handler)), nil
	}
	return nil, fmt.Errorf("--log-format %q: use json or text", format)
}

// serveAll runs servers until the context ends or one of them fails.
func serveAll(ctx context.Context, servers ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(servers))
	for _, serve := range servers {
		go func() { ended <- serve(ctx) }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// overviewLimit is how long the overview waits for the API server.
const overviewLimit = 20 * time.Second

// overviewOf makes the root command print an overview of the cluster, or the help if no cluster is configured.
func overviewOf(root *cobra.Command) {
	f := topFlags{}
	g := root.Flags()
	f.clusterFlags.add(g)
	f.priceFlags.add(g, catalogUsage)
	g.StringVar(&f.server, "server", os.Getenv("DOVETAIL_SERVER"), serverUsage)
	addOutput(g, &f.output)
	addWatch(g)
	root.RunE = func(c *cobra.Command, args []string) error {
		if err := checkOutput(f.output); err != nil {
			return err
		}
		width := 0
		if out, is := terminal(c.OutOrStdout()); is {
			if w, _, err := term.GetSize(out.Fd()); err == nil {
				width = w
			}
		}
		err := prompt(func(c *cobra.Command, _ []string, shown *progress) error { return runOverview(c, f, width, shown) })(c, args)
		if errors.Is(err, client.ErrNoCluster) && !f.isNamed() {
			return c.Help()
		}
		return err
	}
}

func runOverview(c *cobra.Command, f topFlags, width int, shown *progress) error {
	o, err := observeOnce(c, f, overviewLimit, shown)
	if err != nil {
		return err
	}
	if isStructured(f.output) {
		return top.JSON(c.OutOrStdout(), o.board.View(), top.NewLook())
	}
	return top.Overview(c.OutOrStdout(), o.board.View(), width, c.CommandPath())
}

// read reads the cluster, the prices and Dovetail's decisions once.
func (o *observed) read(ctx context.Context, prices *priceFlags, shown *progress) error {
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		o.readLedger(ctx)
	}()
	priced := make(chan error, 1)
	go func() { priced <- o.readPrices(prices) }()
	shown.at("reading the cluster")
	if err := watch.ReadOverview(ctx, o.client, o.board.Apply); err != nil {
		return err
	}
	o.readMachines(ctx)
	<-asked
	return <-priced
}

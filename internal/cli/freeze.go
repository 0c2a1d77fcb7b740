// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/kube/freeze"
)

// freezeFlags are those of freeze.
type freezeFlags struct {
	clusterFlags
	duration    time.Duration
	undo, apply bool
}

func freezeCommand() *cobra.Command {
	f := freezeFlags{}
	c := &cobra.Command{
		Use:   "freeze [--for DURATION | --undo] [--apply]",
		Short: "Stop voluntary disruption in all NodePools for a while",
		Long: `Adds a disruption budget of 0 nodes to each NodePool, which stops consolidation, drift and repair. Nodes are still launched for
pending pods. Expiry, interruptions and deletions still remove nodes. Karpenter follows the budget too.

Without --apply, the API server only validates the changes. --undo removes exactly the budgets that this command added, which annotation
dovetail.sh/freeze of each NodePool records. A window (--for) ends by itself, but recurs each year until it is removed with --undo.

Exit status: 0 done (without --apply: possible), 1 a NodePool could not be changed, 2 usage error.`,
		Example: "  dovetail freeze --for 2h --apply\n  dovetail freeze --undo --apply",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runFreeze(c, f) },
	}
	g := c.Flags()
	f.clusterFlags.add(g)
	g.DurationVar(&f.duration, "for", 0, "Duration of the freeze, at most 720h. Default: until 'dovetail freeze --undo'")
	g.BoolVar(&f.undo, "undo", false, "Remove the budgets that this command added")
	g.BoolVar(&f.apply, "apply", false, "Change the NodePools")
	return c
}

func runFreeze(c *cobra.Command, f freezeFlags) error {
	switch {
	case f.undo && c.Flags().Changed("for"):
		return exit{2, errors.New("--for and --undo exclude each other")}
	case c.Flags().Changed("for") && (f.duration < time.Minute || f.duration > freeze.Longest):
		return exit{2, fmt.Errorf("--for %s: must be between 1m and 720h", f.duration)}
	}
	cluster, _, err := connectUser(c.Context(), f.clusterFlags, "freeze")
	if err != nil {
		return err
	}
	pools := &freeze.NodePools{Client: cluster, DryRun: !f.apply}
	var said []string
	if f.undo {
		said, err = pools.Undo(c.Context())
	} else {
		said, err = pools.Freeze(c.Context(), time.Now(), f.duration)
	}
	for _, line := range said {
		fmt.Fprintln(c.OutOrStdout(), line)
	}
	switch {
	case err != nil:
	case len(said) == 0:
		fmt.Fprintln(c.OutOrStdout(), "The cluster has no NodePool.")
	case !f.apply:
		fmt.Fprintln(c.OutOrStdout(), "Nothing was changed. Run the command with --apply to change the NodePools.")
	case !f.undo:
		fmt.Fprintln(c.OutOrStdout(), "To undo: dovetail freeze --undo --apply")
	}
	return err
}

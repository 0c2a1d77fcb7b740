// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// serveSavings answers GET /savings/DURATION with report.Savings as JSON.
func serveSavings(ctl *controller.Controller, w http.ResponseWriter, r *http.Request) {
	since, err := readDays(strings.TrimPrefix(r.URL.Path, "/savings/"), longestAccount)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := ctl.Account().Since(time.Now().Add(-since))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := report.SavingsJSON(w, report.NewSavings(a)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

const (
	day = 24 * time.Hour

	longestAccount = 400 * day // how far back the account goes at most
	longestHistory = 7 * day   // how far back the history goes
)

// readDays reads a duration above 0, at most longest, also in days: 7d.
func readDays(text string, longest time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, 0), 1000)) * day
	}
	if err != nil || d <= 0 || d > longest {
		return 0, fmt.Errorf("%q: need a duration above 0 and up to %dd, such as 24h or 7d", text, longest/day)
	}
	return d, nil
}

type savingsFlags struct {
	reach         reachFlags
	output, since string
}

func savingsCommand() *cobra.Command {
	f := savingsFlags{}
	c := &cobra.Command{
		Use:   "savings",
		Short: "Show the cost of nodes, and savings by cause",
		Long: `Shows the cost of NodePool nodes in the last week (--since), their cost without consolidation, their cost at on-demand
list prices, and the savings by cause: consolidation, spot, reservations and NodeOverlays, less the cost of Headrooms. The
causes add up to the total savings. Incomplete data is listed (docs/design/0022-savings.md).

The controller keeps 13 months of data across restarts in two ConfigMaps: per minute for two hours, per hour for eight
days, then per day. 'dovetail history' shows the individual decisions of the last week.

` + reachHelp + `

Exit status: 0 success, 1 no controller can be reached or it has not loaded its savings data yet, 2 usage error, 130 or 143
interrupted or terminated.`,
		Example: "  dovetail savings\n  dovetail savings --since 30d -o json | jq '.causes'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit{2, fmt.Errorf("savings takes no argument, has %d; see 'dovetail savings --help'", len(args))}
			}
			return nil
		},
		RunE: prompt(func(c *cobra.Command, _ []string, shown *progress) error { return runSavings(c, f, shown) }),
	}
	f.reach.add(c)
	c.Flags().StringVar(&f.since, "since", "7d", "How far back to look, for example 12h or 30d. Maximum: 400d")
	addOutput(c.Flags(), &f.output)
	return c
}

func runSavings(c *cobra.Command, f savingsFlags, shown *progress) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	since, err := readDays(f.since, longestAccount)
	if err != nil {
		return exit{2, fmt.Errorf("--since %w", err)}
	}
	var s report.Savings
	if err := f.reach.ask(c.Context(), shown, "savings", "savings/"+since.String(), &s); err != nil {
		return err
	}
	if isStructured(f.output) {
		return report.SavingsJSON(c.OutOrStdout(), &s)
	}
	return report.SavingsText(c.OutOrStdout(), &s)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// serveShadow answers GET /shadow with report.Shadow as JSON.
func serveShadow(ctl *controller.Controller, w http.ResponseWriter, r *http.Request) {
	out, err := ctl.ShadowReport(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func shadowCommand() *cobra.Command {
	var reach reachFlags
	output := ""
	c := &cobra.Command{
		Use:   "shadow",
		Short: "compare what Dovetail would have done with what another autoscaler did",
		Long: "Asks a controller that runs with --mode=shadow what it would have done since it started, beside what was done: pods that\n" +
			"would have run sooner, dollars of both, nodes disrupted by both, and each decision that differs, with its reason.\n\n" +
			"Both are taken to need the same time from the NodeClaim to the running pod. \"With Dovetail\" is what was paid, plus the\n" +
			"difference in price of the nodes for the same pods as long as those run, less what disruptions would have saved that\n" +
			"nobody carried out.\n\n" +
			"What the controller keeps ends with its process.\n\n" +
			reachHelp + "\n\n" +
			"Exit status: 0 it has answered, 1 nobody answers, or the controller acts, 2 wrong usage, 130 or 143 interrupted or stopped.",
		Example: "  dovetail shadow\n  dovetail shadow --output json",
		Args:    noArgs,
		RunE: prompt(func(c *cobra.Command, _ []string, shown *progress) error {
			if err := checkOutput(output, "text"); err != nil {
				return err
			}
			var s report.Shadow
			if err := reach.ask(c.Context(), shown, "shadow", "shadow", &s); err != nil {
				return err
			}
			if output == "json" {
				return report.ShadowJSON(c.OutOrStdout(), &s)
			}
			return report.ShadowText(c.OutOrStdout(), &s)
		}),
	}
	reach.add(c)
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

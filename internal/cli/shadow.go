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
		Short: "Compare Dovetail's decisions with those of the active autoscaler",
		Long: `Prints the comparison made by a controller with --mode=shadow since its start: pods that would have started sooner, the
cost of each autoscaler, nodes disrupted by each, and every decision that differs, with its reason.

The comparison assumes that both need the same time from a NodeClaim to a running pod. "With Dovetail" is the actual cost, plus
the price difference of the nodes for the same pods while they run, minus the savings of disruptions that were not carried out.

The comparison is lost when the controller restarts.

` + reachHelp + `

Exit status: 0 success, 1 no controller can be reached or it is not in shadow mode, 2 usage error, 130 or 143 interrupted or
terminated.`,
		Example: "  dovetail shadow\n  dovetail shadow --output json",
		Args:    noArgs,
		RunE: prompt(func(c *cobra.Command, _ []string, shown *progress) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			var s report.Shadow
			if err := reach.ask(c.Context(), shown, "shadow", "shadow", &s); err != nil {
				return err
			}
			if isStructured(output) {
				return report.ShadowJSON(c.OutOrStdout(), &s)
			}
			return report.ShadowText(c.OutOrStdout(), &s)
		}),
	}
	reach.add(c)
	addOutput(c.Flags(), &output)
	addWatch(c.Flags())
	return c
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// serveHistory answers GET /history/DURATION and /history/DURATION/KIND/NAME with report.History as JSON.
func serveHistory(ctl *controller.Controller, w http.ResponseWriter, r *http.Request) {
	length, subject, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/history/"), "/")
	since, err := time.ParseDuration(length)
	if err != nil || since <= 0 {
		http.Error(w, fmt.Sprintf("%q: need a duration above 0, such as 1h", length), http.StatusBadRequest)
		return
	}
	h, err := ctl.Answers.History(r.Context(), subject, since)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if len(h.Entries) == 0 && !ctl.IsLeading() {
		http.Error(w, "this replica is a standby and has no history; ask the leader", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := report.HistoryJSON(w, h); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

type historyFlags struct {
	reach                    reachFlags
	output, namespace, since string
}

func historyCommand() *cobra.Command {
	f := historyFlags{}
	c := &cobra.Command{
		Use:   "history [pod/[NAMESPACE/]NAME | deployment/[NAMESPACE/]NAME | node/NAME | nodeclaim/NAME | nodepool/NAME]",
		Short: "Show past launches, disruptions, removals, refusals and failures, with reasons",
		Long: `Shows the controller's actions in the last hour (--since), optionally for one object: nodes launched, disrupted and
removed, unschedulable pods, failed launches, and cancelled commands. Each entry has its reason and the hourly cost of the
cluster before and after. The controller keeps one week of history across restarts, including that of deleted objects, in
up to eight ConfigMaps (2 MiB, docs/COMMANDS.md). 'dovetail savings' shows the savings by cause.

` + reachHelp + `

Exit status: 0 success, 1 no controller can be reached or the object is unknown, 2 usage error, 130 or 143 interrupted or
terminated.`,
		Example: "  dovetail history\n  dovetail history --since 24h nodepool/default\n  dovetail history --since 3h -o json | jq '.entries[] | select(.kind == \"create\")'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit{2, fmt.Errorf("history takes one object at most, has %d; see 'dovetail history --help'", len(args))}
			}
			return nil
		},
		RunE: prompt(func(c *cobra.Command, args []string, shown *progress) error { return runHistory(c, f, args, shown) }),
	}
	f.reach.add(c)
	c.Flags().StringVar(&f.since, "since", "1h", "How far back to look, for example 30m or 3d. Maximum: 7d")
	addNamespace(c.Flags(), &f.namespace)
	addOutput(c.Flags(), &f.output)
	addWatch(c.Flags())
	completeObjects(c, "pod", "deployment", "node", "nodeclaim", "nodepool")
	return c
}

func runHistory(c *cobra.Command, f historyFlags, args []string, shown *progress) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	since, err := readDays(f.since, longestHistory)
	if err != nil {
		return exit{2, fmt.Errorf("--since %w", err)}
	}
	path := "history/" + since.String()
	if len(args) > 0 {
		subject, err := subjectOf(args[0], f.namespace)
		if err != nil {
			return exit{2, err}
		}
		path += "/" + subject
	}
	var h report.History
	if err := f.reach.ask(c.Context(), shown, "history", path, &h); err != nil {
		return err
	}
	if isStructured(f.output) {
		return report.HistoryJSON(c.OutOrStdout(), &h)
	}
	return report.HistoryText(c.OutOrStdout(), &h)
}

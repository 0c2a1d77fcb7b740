// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

// report is what `status -o json` prints.
type report struct {
	Running bool             `json:"running"`
	State   *supervise.State `json:"state,omitempty"`
	Version string           `json:"version,omitempty"` // the API server's
	Nodes   int              `json:"nodes"`
	Pods    int              `json:"pods"`
	Problem string           `json:"problem,omitempty"` // why version and counts are missing
}

func newStatus(resolve func() (plane.Dir, error)) *cobra.Command {
	output := ""
	command := &cobra.Command{
		Use:   "status",
		Short: "Show what runs in the sandbox",
		Long: `Show the processes of the sandbox, and the number of nodes and pods. The exit
status is 0 if every process runs, and 1 otherwise.`,
		Example: `  dovetail-sandbox status
  dovetail-sandbox status -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: must be json or left out", output)
			}
			dir, err := resolve()
			if err != nil {
				return err
			}
			return status(command.Context(), dir, output == "json")
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "Output format: json. Default: text")
	return command
}

func status(ctx context.Context, dir plane.Dir, asJSON bool) error {
	if ctx == nil {
		ctx = context.Background()
	}
	r, err := look(ctx, dir)
	if err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
	} else if err := show(os.Stdout, dir, r, time.Now()); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	if !r.Running {
		return errQuiet
	}
	if asJSON {
		if len(r.State.Dead()) > 0 {
			return errQuiet
		}
		return nil
	}
	return reportDead(dir, r.State)
}

func look(ctx context.Context, dir plane.Dir) (report, error) {
	state, err := supervise.Read(dir)
	if err != nil || state == nil || !state.Supervisor.Alive() {
		return report{}, err
	}
	r := report{Running: true, State: state}
	r.Version, r.Nodes, r.Pods, err = ask(ctx, dir, state.Server)
	if err != nil {
		r.Problem = err.Error()
	}
	return r, nil
}

func ask(ctx context.Context, dir plane.Dir, server string) (version string, nodes, pods int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("the API server did not answer within 5s"))
	defer cancel()
	client, err := plane.NewClient(dir, server)
	if err != nil {
		return "", 0, 0, err
	}
	if version, err = client.Version(ctx); err != nil {
		return "", 0, 0, err
	}
	if nodes, err = client.Count(ctx, "/api/v1/nodes"); err != nil {
		return version, 0, 0, err
	}
	pods, err = client.Count(ctx, "/api/v1/pods")
	return version, nodes, pods, err
}

func show(w io.Writer, dir plane.Dir, r report, now time.Time) error {
	if !r.Running {
		_, err := fmt.Fprintf(w, "no sandbox runs in %s: start one with `%s`\n", dir, hint(dir, "up"))
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) } // Flush tells.
	row("COMPONENT", "PID", "PORT", "STATE", "UPTIME", "RESTARTS")
	row("supervisor", strconv.Itoa(r.State.Supervisor.PID), "-", r.State.Phase, since(r.State.StartedAt, now), "-")
	for _, child := range r.State.Components {
		state, uptime := child.State, since(child.StartedAt, now)
		if state == supervise.Running && !child.Alive() {
			state = supervise.Exited
		}
		if state != supervise.Running {
			uptime = "-"
			if child.Exit != "" {
				state += " (" + child.Exit + ")"
			}
		}
		row(child.Name, strconv.Itoa(child.PID), ports(child.Ports), state, uptime, strconv.Itoa(child.Restarts))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Problem != "" {
		_, err := fmt.Fprintf(w, "\nthe API server does not answer: %s\nkubeconfig %s\n", r.Problem, r.State.Kubeconfig)
		return err
	}
	if _, err := fmt.Fprintf(w, "\nkubernetes %s, %d nodes, %d pods\nkubeconfig %s\n", r.Version, r.Nodes, r.Pods, r.State.Kubeconfig); err != nil {
		return err
	}
	if ask := question(r.State); ask != "" {
		if _, err := fmt.Fprintf(w, "ask        %s\n", ask); err != nil {
			return err
		}
	}
	if r.State.AWSURL != "" {
		_, err := fmt.Fprintf(w, "AWS        export %s\n", strings.Join(plane.AWSClientEnv(r.State.AWSURL), " "))
		return err
	}
	return nil
}

func ports(named map[string]int) string {
	var numbers []string
	for _, port := range named {
		numbers = append(numbers, strconv.Itoa(port))
	}
	slices.Sort(numbers)
	return strings.Join(numbers, ",")
}

func since(then, now time.Time) string {
	return now.Sub(then).Round(time.Second).String()
}

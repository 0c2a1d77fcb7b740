// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command chaos injects a random series of faults into a sandbox: a component is killed, stopped or slowed down during scale-up, scale-down,
// drift or expiry. Then the cluster must settle without leftovers (package test/e2e/chaos contains the checks). It prints a line per fault and
// a table by component, or JSON, and exits with status 1 if a check failed. `make chaos` runs it, after `make build`.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/chaos"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// restLimit is the maximum time until the cluster settles after the last component is back.
const restLimit = 60 * time.Second

type options struct {
	seed   uint64
	faults int
	asJSON bool
	dir    string
	choice chaos.Choice
}

func main() {
	var o options
	var kinds, components, changes string
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random series")
	flag.IntVar(&o.faults, "faults", 200, "number of faults")
	flag.StringVar(&kinds, "kinds", strings.Join(chaos.Kinds, ","), "comma-separated kinds of fault")
	flag.StringVar(&components, "components", strings.Join(chaos.Components, ","), "comma-separated components; dovetail is the leading controller")
	flag.StringVar(&changes, "changes", strings.Join(chaos.Changes, ","), "comma-separated changes during which faults are injected")
	flag.DurationVar(&o.choice.Longest, "longest", 39*time.Second, "maximum duration of a fault, in addition to one second")
	flag.BoolVar(&o.asJSON, "json", false, "print JSON")
	flag.StringVar(&o.dir, "dir", "", "directory for the sandbox's logs (default: a temporary directory)")
	flag.Parse()
	err := errors.Join(
		choose(&o.choice.Kinds, "kinds", kinds, chaos.Kinds),
		choose(&o.choice.Components, "components", components, chaos.Components),
		choose(&o.choice.Changes, "changes", changes, chaos.Changes))
	if err == nil && (o.faults < 1 || o.choice.Longest <= 0) {
		err = errors.New("-faults and -longest must be above 0")
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// choose splits a list of names and rejects unknown ones.
func choose(out *[]string, name, value string, known []string) error {
	*out = strings.Split(value, ",")
	for _, v := range *out {
		if !slices.Contains(known, v) {
			return fmt.Errorf("-%s: unknown value %q; use one or more of %s", name, v, strings.Join(known, ","))
		}
	}
	return nil
}

func run(ctx context.Context, o options) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "dovetail-chaos-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(o.dir)
			}
		}()
	}
	fmt.Fprintln(os.Stderr, "starting a sandbox in", o.dir)
	sb, err := sandbox.Up(ctx, filepath.Join(o.dir, "sb"), "--replicas", "2", "--boot", "2s", "--pull", "1s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Down()) }()
	s, err := chaos.Start(ctx, sb, 5*time.Second, restLimit)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(o.seed, 0))
	var all []chaos.Outcome
	broken := 0
	for n := range o.faults {
		f := chaos.Draw(rnd, o.choice, s.Replicas())
		out, err := s.Inflict(ctx, f)
		if err != nil {
			return errors.Join(fmt.Errorf("fault %d of seed %d, %s: %w", n+1, o.seed, f, err), report(os.Stdout, o.asJSON, all))
		}
		all = append(all, out)
		fmt.Fprintf(os.Stderr, "%s fault %d of %d: %s: settled after %.1f s, %.0f goroutines, %.0f MB\n", time.Now().Format(time.TimeOnly), n+1, o.faults, f,
			out.SecondsToRest, out.Usage.Goroutines, out.Usage.ResidentBytes/1e6)
		if !out.Held {
			broken++
			fmt.Fprintf(os.Stderr, "    failed checks: %s\n", strings.Join(out.Problems, "\n    "))
		}
	}
	if err := report(os.Stdout, o.asJSON, all); err != nil {
		return err
	}
	if broken > 0 {
		return fmt.Errorf("checks failed after %d of %d faults; logs are in %s", broken, len(all), o.dir)
	}
	return nil
}

// report prints the results by component; a fault of two components counts for both.
func report(w io.Writer, asJSON bool, all []chaos.Outcome) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	of := map[string][]chaos.Outcome{}
	for _, o := range all {
		of["all"] = append(of["all"], o)
		for _, c := range o.Components {
			if o.Kind == chaos.Lease {
				c = "dovetail's lease"
			}
			of[c] = append(of[c], o)
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "component\tfaults\tpassed\tmedian settling time (s)\tmaximum (s)")
	for _, c := range slices.Sorted(maps.Keys(of)) {
		held := 0
		for _, o := range of[c] {
			if o.Held {
				held++
			}
		}
		slices.SortFunc(of[c], func(a, b chaos.Outcome) int { return cmp.Compare(a.SecondsToRest, b.SecondsToRest) })
		n := len(of[c])
		fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%.1f\n", c, n, held, of[c][n/2].SecondsToRest, of[c][n-1].SecondsToRest)
	}
	return table.Flush()
}

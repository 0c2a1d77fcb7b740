// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command adversaries scales an honest Deployment up and down on a sandbox, first alone, then next to adversaries: agents, policies and
// controllers as found in real clusters. It runs the same series with Dovetail and with Karpenter's KWOK controller, and prints one table: wait
// times and evictions of honest pods, and for each adversary the launched nodes, the unused ones and their cost. `make bench-adversaries` runs it;
// -list describes the adversaries.
//
// Both are measured in the same way, from outside (see account.go). It fails if Dovetail exceeds a limit (see check). Start reading at main.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The autoscalers, as they are named in flags and results.
const (
	dovetail  = "dovetail"
	karpenter = "karpenter"
)

type options struct {
	seed          uint64
	length, every time.Duration
	boot          time.Duration
	only, part    string
	adversaries   string
	karpenter     string
	results       string
	factor        float64
	vain          int
	list, keep    bool
}

func main() {
	var o options
	flag.DurationVar(&o.length, "series", 10*time.Minute, "duration of each series")
	flag.DurationVar(&o.every, "every", 20*time.Second, "time between two changes of the honest Deployment")
	flag.DurationVar(&o.boot, "boot", 5*time.Second, "boot time of an instance, in whole seconds (nodeRegistrationDelay of the KWOKNodeClass)")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the honest Deployment's sizes")
	flag.StringVar(&o.only, "only", "", "run only one autoscaler: dovetail or karpenter (default: both)")
	flag.StringVar(&o.part, "part", "", "run only one series: alone (without adversaries) or beside (with adversaries) (default: both)")
	flag.StringVar(&o.adversaries, "adversaries", "", "comma-separated names of the adversaries to run (default: all)")
	flag.StringVar(&o.karpenter, "karpenter", cmp.Or(os.Getenv("KARPENTER_BIN"), filepath.Join("bin", "karpenter")), "path of Karpenter's KWOK controller")
	flag.StringVar(&o.results, "results", "", "JSON file to add the results to; the table then includes results of earlier runs (default: none)")
	flag.Float64Var(&o.factor, "factor", 1.5, "limit of the honest pods' p99 wait with adversaries, as a multiple of the wait without them, plus one second")
	flag.IntVar(&o.vain, "vain", 2, "limit of unused launches per adversary within ten minutes")
	flag.BoolVar(&o.list, "list", false, "list the adversaries and exit")
	flag.BoolVar(&o.keep, "keep", false, "keep the files and logs of the sandboxes")
	flag.Parse()
	if o.list {
		for _, a := range adversaries {
			fmt.Printf("%-22s%s\n", a.name, a.does)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "adversaries:", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// beside says what the honest workload runs with.
func beside(alone bool, adversaries int) string {
	if alone {
		return "the honest workload alone"
	}
	return fmt.Sprintf("with %d adversaries", adversaries)
}

// run plays the series that are asked for, and prints the table of these and of earlier ones.
func run(ctx context.Context, o options) error {
	chosen, err := choose(o.adversaries)
	if err != nil {
		return err
	}
	if o.only != "" && o.only != dovetail && o.only != karpenter {
		return fmt.Errorf("-only %s: use %s or %s", o.only, dovetail, karpenter)
	}
	if o.part != "" && o.part != "alone" && o.part != "beside" {
		return fmt.Errorf("-part %s: use alone or beside", o.part)
	}
	parts, err := read(o.results)
	if err != nil {
		return err
	}
	for _, autoscaler := range []string{dovetail, karpenter} {
		for _, alone := range []bool{true, false} {
			if o.only != "" && o.only != autoscaler || o.part != "" && alone != (o.part == "alone") {
				continue
			}
			p, err := play(ctx, o, autoscaler, alone, chosen)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", autoscaler, beside(alone, len(chosen)), err)
			}
			parts = append(slices.DeleteFunc(parts, func(q *Part) bool { return q.Autoscaler == autoscaler && q.Alone == alone }), p)
			if err := write(o.results, parts); err != nil {
				return err
			}
		}
	}
	fmt.Print(table(parts))
	return check(parts, o)
}

// choose returns the adversaries that are named.
func choose(names string) ([]adversary, error) {
	if names == "" {
		return adversaries, nil
	}
	var out []adversary
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(adversaries, func(a adversary) bool { return a.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-adversaries %s: no adversary has this name; -list prints them", name)
		}
		out = append(out, adversaries[i])
	}
	return out, nil
}

// read returns the results of earlier runs; there are none without a file.
func read(file string) (parts []*Part, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	if err != nil {
		return nil, fmt.Errorf("read earlier results: %w", err)
	}
	return parts, nil
}

func write(file string, parts []*Part) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(parts, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	return err
}

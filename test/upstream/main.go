// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command upstream runs Karpenter's performance, regression, disruption or DRA suite, unmodified, with Dovetail or with
// Karpenter's KWOK controller, each on a separate sandbox with the same instance types and prices. It prints the result of
// each spec, and for the performance suite the figures that the suite reports for each phase. `make upstream-performance`
// and `make upstream` run it.
//
// The suites and the controller are compiled from Karpenter's Go module; no code is copied. Progress is written to
// stderr, results to stdout, and the exit status is 1 if a spec failed. Run it in the repository, after `make build`.
// Start reading at run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// The autoscalers that a suite can run against.
const (
	dovetail  = "dovetail"
	karpenter = "karpenter"
)

// The suites, by their folder in Karpenter's module.
const (
	performance = "performance"
	regression  = "regression"
	disruption  = "disruption"
	dra         = "dra"
)

type options struct {
	suite, focus, skip string
	autoscalers        []string // run one after another
	dir                string   // of everything that is written; absolute
}

func main() {
	var o options
	autoscaler := flag.String("autoscaler", dovetail, "autoscaler to test: dovetail or karpenter")
	both := flag.Bool("both", false, "test dovetail, then karpenter, and print the figures of both in one table")
	asJSON := flag.Bool("json", false, "print JSON instead of tables")
	flag.StringVar(&o.suite, "suite", performance, "Karpenter's suite: performance, regression, disruption or dra")
	flag.StringVar(&o.focus, "focus", "", "run only specs whose full text matches this regular expression")
	flag.StringVar(&o.skip, "skip", "", "skip specs whose full text matches this regular expression")
	flag.StringVar(&o.dir, "keep", "", "directory for reports and logs (default: a temporary directory, removed if all specs passed)")
	flag.Parse()
	o.autoscalers = []string{*autoscaler}
	if *both {
		o.autoscalers = []string{dovetail, karpenter}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, o, *asJSON)
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run compiles the suite, runs it against each autoscaler, prints the results, and reports whether all specs passed.
func run(ctx context.Context, o options, asJSON bool) (passed bool, err error) {
	if !slices.Contains([]string{performance, regression, disruption, dra}, o.suite) {
		return false, fmt.Errorf("-suite %s: use performance, regression, disruption or dra", o.suite)
	}
	for _, a := range o.autoscalers {
		if a != dovetail && a != karpenter {
			return false, fmt.Errorf("-autoscaler %s: use dovetail or karpenter", a)
		}
	}
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "dovetail-upstream-"); err != nil {
			return false, err
		}
	} else if o.dir, err = filepath.Abs(o.dir); err != nil {
		return false, err
	}
	b, err := build(ctx, o)
	if err != nil {
		return false, err
	}
	var results []*result
	var runErr error
	for _, a := range o.autoscalers {
		r, err := runSuite(ctx, o, b, a)
		if r != nil {
			results = append(results, r)
		}
		if err != nil {
			runErr = fmt.Errorf("run the %s suite with %s: %w; logs are in %s", o.suite, a, err, o.dir)
			break // what ended until then is printed all the same
		}
	}
	passed = runErr == nil
	for _, r := range results {
		passed = passed && r.Failed == 0 && r.Passed > 0
	}
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(results)
	} else {
		err = printResults(os.Stdout, results)
	}
	if err = errors.Join(runErr, err); err != nil {
		return false, err
	}
	if temporary && passed {
		err = os.RemoveAll(o.dir)
	}
	return passed, err
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command consolidation scales 1,000 pods down to 700 on a sandbox, and prints the result of consolidation as JSON (see package scaledown,
// which the test also uses). It fails if a target is missed. `make bench-consolidation` runs it, after `make build`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

func main() {
	o := scaledown.Options{Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	flag.StringVar(&o.Catalog, "catalog", "", "file with instance types and prices (default: Karpenter's KWOK catalog, amd64 and Linux)")
	before := flag.Int("before", 500, "initial number of pods of each of the two kinds")
	after := flag.Int("after", 350, "number of pods of each kind after the scale-down")
	flag.IntVar(&o.Below, "below", 0, "launch only instance types with fewer CPUs (0: no limit)")
	flag.DurationVar(&o.ConsolidateAfter, "consolidate-after", 30*time.Second, "consolidateAfter of the NodePool")
	flag.DurationVar(&o.Still, "still", 40*time.Second, "time without changes after which the cluster is stable")
	flag.DurationVar(&o.Frozen, "frozen", time.Minute, "time for which the stable cluster is watched for changes")
	dir := flag.String("dir", "", "directory for the sandbox's files (default: a temporary directory)")
	flag.Parse()
	o.Before, o.After = int32(*before), int32(*after)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, o); err != nil {
		fmt.Fprintln(os.Stderr, "consolidation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, o scaledown.Options) error {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "dovetail-consolidation-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	res, err := scaledown.Run(ctx, dir, o)
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(res); err != nil {
		return err
	}
	if bad := append(res.Short(), res.Slow()...); len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

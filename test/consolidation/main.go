// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command consolidation takes three pods of ten away from a cluster of a thousand on the sandbox, and prints as JSON what consolidation
// makes of it: see package scaledown, which it shares with the test. It fails where that is less, or later, than promised. `make bench-consolidation` runs it; `make build` comes first.
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
	flag.StringVar(&o.Catalog, "catalog", "", "file of the machines and prices (default: Karpenter's KWOK catalogue, on amd64 and Linux)")
	before := flag.Int("before", 500, "pods of each of the two kinds at first")
	after := flag.Int("after", 350, "pods of each kind that are left")
	flag.IntVar(&o.Below, "below", 0, "buy only machines of fewer CPUs (default: any)")
	flag.DurationVar(&o.ConsolidateAfter, "consolidate-after", 30*time.Second, "the pool's consolidateAfter")
	flag.DurationVar(&o.Still, "still", 40*time.Second, "nothing has happened for so long: stable")
	flag.DurationVar(&o.Frozen, "frozen", time.Minute, "how long it is watched for moves from then on")
	dir := flag.String("dir", "", "keep the sandbox's files in this directory (default: a temporary one)")
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

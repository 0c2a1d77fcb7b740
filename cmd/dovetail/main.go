// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command dovetail is the node autoscaler and its tools: parse, wire, run. Nothing else is here; start reading at internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

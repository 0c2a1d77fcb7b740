// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command dovetail is the node autoscaler and its command-line tools. internal/cli contains all commands.
package main

import (
	"context"
	"os"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

func main() {
	ctx, stop := cli.Signals(context.Background())
	defer stop()
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

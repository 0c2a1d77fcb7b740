// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cli implements the command line. Each command has a file, which parses flags and wires packages together.
// The package neither decides nor renders.
//
// Exit statuses: 0 success, 1 invalid input or a failed operation, 2 usage error, 128 plus the signal number if a
// signal ended a command that prints a result, and others as documented in the command's help. Start reading at Main.
package cli

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the release, set when linking; a build from a module says its version itself.
var Version = ""

func version() string {
	if Version != "" {
		return Version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return "devel"
}

// exit is an error that carries its own exit status.
type exit struct {
	status int
	err    error
}

func (e exit) Error() string { return e.err.Error() }
func (e exit) Unwrap() error { return e.err }

// noArgs is for verbs that take flags alone.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit{2, fmt.Errorf("%s takes no arguments, has %q; see '%s --help'", c.Name(), args[0], c.CommandPath())}
}

// logger makes the structured log, one JSON object a line or text.
func logger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, exit{2, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)}
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return nil, exit{2, fmt.Errorf("--log-format %q: use json or text", format)}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "dovetail", version()) },
	}
}

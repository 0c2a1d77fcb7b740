// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cli is the command line: one file a verb, each of which parses its flags, wires packages together and runs them.
//
// It never decides and never renders by itself. Exit statuses: 0 done, 1 bad input or a broken world, 2 wrong usage, 128 and the signal where one
// has ended a verb that answers, others as a verb's help says. Start reading at Main.
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

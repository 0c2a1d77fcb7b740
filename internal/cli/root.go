// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pluginBinary is what the binary is called where kubectl finds it as a plugin: as kubectl dovetail.
const pluginBinary = "kubectl-dovetail"

// completionBinary is what the binary is called where kubectl finds it to complete kubectl dovetail: it is asked with the words
// that were typed.
const completionBinary = "kubectl_complete-dovetail"

// rootCommand returns the command dovetail with all of its verbs. Arguments are those of the command line: convert reads what
// stands behind -- itself.
func rootCommand(args []string) *cobra.Command {
	c := &cobra.Command{
		Use:   "dovetail",
		Short: "Node autoscaler for Kubernetes",
		Long: `Dovetail is a node autoscaler for Kubernetes. It launches the cheapest nodes for unschedulable pods, binds each pod to the
node launched for it, and removes nodes when the cluster can run on fewer. It explains every decision.

Without a command, prints an overview of the cluster: nodes, cost, operations in progress, blockers, pending pods, and the
commands to run next. Without a cluster, prints this help.`,
		Example:      "  dovetail\n  dovetail --context production -w",
		SilenceUsage: true, SilenceErrors: true, Version: version(),
	}
	overviewOf(c)
	c.AddCommand(controllerCommand(), convertCommand(args), doctorCommand(), freezeCommand(), headroomCommand(), historyCommand(), manifestsCommand(), planCommand(), recordCommand(), releaseCommand(), replayCommand(), savingsCommand(), shadowCommand(), takeoverCommand(), topCommand(), uiCommand(), whyCommand(), versionCommand())
	completeContexts(c)
	return c
}

// Main runs one command and returns the exit status.
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := rootCommand(args)
	called := filepath.Base(os.Args[0])
	if called == completionBinary {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	if called == pluginBinary || called == completionBinary {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl dovetail"}
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exit{2, fmt.Errorf("%w%s; see '%s --help'", err, meantFlag(c, err), c.CommandPath())}
	})
	root.DisableSuggestions = true // cobra's have several lines; unknownVerb has its own
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Show help for a command", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Root().Help()
			}
			for _, verb := range c.Root().Commands() {
				if verb.Name() == args[0] {
					verb.InitDefaultHelpFlag()
					return verb.Help()
				}
			}
			return unknownVerb(c.Root(), args[0])
		},
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	verb := ""
	if n, _ := fmt.Sscanf(err.Error(), "unknown command %q for", &verb); n == 1 {
		err = unknownVerb(root, verb)
	}
	var e exit
	if !errors.As(err, &e) {
		e = exit{1, err}
		if s := (stopped{}); cancelled(err) && errors.As(context.Cause(ctx), &s) {
			e = exit{128 + int(s.signal), s} // while it was starting: a server that has started ends by itself, with 0
		}
	}
	if e.err != nil && e.Error() != "" {
		fmt.Fprintln(errs, "dovetail:", e.Error())
	}
	return e.status
}

// meantFlag returns a question that names the flags of a command that are near an unknown flag; empty if there is none.
func meantFlag(c *cobra.Command, err error) string {
	typed, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return ""
	}
	names := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares names of commands only
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	near := names.SuggestionsFor(typed)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean --" + strings.Join(near, " or --") + "?"
}

// unknownVerb says which verb was meant, where one is near.
func unknownVerb(root *cobra.Command, name string) error {
	root.DisableSuggestions, root.SuggestionsMinimumDistance = false, 2
	meant := ""
	if near := root.SuggestionsFor(name); len(near) > 0 {
		meant = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return exit{2, fmt.Errorf("unknown command %q%s See 'dovetail --help'", name, cmp.Or(meant, "."))}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package verbs is the sandbox's command line: up, down, status, fault, demo, and
// the hidden verb by which up becomes a supervisor. It parses, prints and decides exit
// statuses; internal/supervise does the work.
//
// Start reading at up.go.
package verbs

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// Main runs a verb and returns the process's exit status.
func Main(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	var exit exitError
	if errors.As(err, &exit) {
		err = exit.error
	}
	if !errors.Is(err, errQuiet) {
		fmt.Fprintf(os.Stderr, "dovetail-sandbox: %v\n", err)
	}
	if exit.status != 0 {
		return exit.status
	}
	return 1
}

func newRoot() *cobra.Command {
	dir := ""
	root := &cobra.Command{
		Use:   "dovetail-sandbox",
		Short: "A real Kubernetes control plane on loopback",
		Long: `A real Kubernetes control plane on loopback: etcd, kube-apiserver,
kube-controller-manager, kube-scheduler, and kwok in place of kubelets, in one
binary and without containers. It also runs Dovetail's simulated cloud, and
Dovetail's controller from the binary "dovetail".

Everything listens on 127.0.0.1 and is written below one directory:
--dir, else $DOVETAIL_SANDBOX_DIR, else $XDG_STATE_HOME/dovetail/sandbox, else
~/.local/state/dovetail/sandbox.`,
		Example: `  dovetail-sandbox up
  dovetail-sandbox kubectl get nodes
  dovetail-sandbox status
  dovetail-sandbox down`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dir, "dir", "", "Directory of the sandbox. Default: see 'dovetail-sandbox --help'")
	resolve := func() (plane.Dir, error) { return resolveDir(dir) }
	root.AddCommand(newUp(resolve), newDown(resolve), newStatus(resolve), newFault(resolve), newVersion(), newSupervise(resolve))
	root.AddCommand(newDemo(func() (plane.Dir, bool, error) { return resolveDemo(dir) }))
	// The components themselves are dispatched before cobra sees the arguments;
	// these entries are for the help page.
	root.AddCommand(
		&cobra.Command{
			Use: "kubectl ...", Short: "Run kubectl against the sandbox", DisableFlagParsing: true,
			Run: func(*cobra.Command, []string) {},
		},
	)
	for _, name := range []string{plane.Etcd, plane.APIServer, plane.ControllerManager, plane.Scheduler, plane.Kwok, plane.Machines} {
		root.AddCommand(&cobra.Command{
			Use: name + " ...", Short: "Run " + name + ", with its own flags", DisableFlagParsing: true,
			Run: func(*cobra.Command, []string) {},
		})
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this binary and of its control plane", Args: cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintln(command.OutOrStdout(), "dovetail-sandbox", version())
		},
	}
}

// version returns the version of this binary's module, and that of the Kubernetes components in it.
func version() string {
	own, control := "devel", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return own
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		own = v
	}
	for _, d := range info.Deps {
		if d.Path == "k8s.io/kubernetes" {
			control = d.Version
		}
	}
	return own + ", Kubernetes " + control
}

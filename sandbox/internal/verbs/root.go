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
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// errQuiet is a failure that has been explained on the terminal already.
var errQuiet = errors.New("explained")

// exitError carries a status other than 1.
type exitError struct {
	error
	status int
}

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
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dir, "dir", "", "directory of the sandbox (see above for the default)")
	resolve := func() (plane.Dir, error) { return resolveDir(dir) }
	root.AddCommand(newUp(resolve), newDown(resolve), newStatus(resolve), newFault(resolve), newSupervise(resolve))
	root.AddCommand(newDemo(func() (plane.Dir, bool, error) { return resolveDemo(dir) }))
	// The components themselves are dispatched before cobra sees the arguments;
	// these entries are for the help page.
	root.AddCommand(
		&cobra.Command{
			Use: "kubectl ...", Short: "kubectl, talking to the sandbox", DisableFlagParsing: true,
			Run: func(*cobra.Command, []string) {},
		},
	)
	for _, name := range []string{plane.Etcd, plane.APIServer, plane.ControllerManager, plane.Scheduler, plane.Kwok, plane.Machines} {
		root.AddCommand(&cobra.Command{
			Use: name + " ...", Short: name + " itself, with its own flags", DisableFlagParsing: true,
			Run: func(*cobra.Command, []string) {},
		})
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

func resolveDir(dir string) (plane.Dir, error) {
	if dir == "" {
		return plane.DefaultDir()
	}
	return plane.Resolve(dir)
}

// SplitDir takes a leading --dir DIR or --dir=DIR off the arguments.
func SplitDir(args []string) (dir string, rest []string, err error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	if value, ok := strings.CutPrefix(args[0], "--dir="); ok {
		return value, args[1:], nil
	}
	if args[0] == "--dir" {
		if len(args) == 1 {
			return "", nil, errors.New("--dir needs a directory")
		}
		return args[1], args[2:], nil
	}
	return "", args, nil
}

// KubectlEnv is the environment that makes kubectl talk to the sandbox and to
// nothing else: a person's own KUBECONFIG is overridden. An explicit
// --kubeconfig still wins, as in kubectl.
func KubectlEnv(dir string, args []string) (map[string]string, error) {
	d, err := resolveDir(dir)
	if err != nil {
		return nil, err
	}
	kubeconfig := d.Kubeconfig(plane.Admin)
	_, missing := os.Stat(kubeconfig)
	if missing != nil && needsServer(args) {
		return nil, fmt.Errorf("no sandbox runs in %s: start one with `%s`", d, hint(d, "up"))
	}
	return map[string]string{
		"KUBECONFIG":   kubeconfig,
		"KUBECACHEDIR": d.Cache(),
		"KUBERC":       "off", // A person's aliases are for their own clusters.
	}, nil
}

// needsServer reports whether a kubectl command would talk to a server of ours.
func needsServer(args []string) bool {
	if len(args) == 0 || slices.Contains([]string{"help", "completion", "options", "plugin", "kustomize", "__complete"}, args[0]) {
		return false
	}
	for _, arg := range args {
		switch {
		case arg == "--":
			return true
		case arg == "-h", arg == "--help", arg == "--client", strings.HasPrefix(arg, "--client="),
			arg == "--kubeconfig", strings.HasPrefix(arg, "--kubeconfig="):
			return false
		}
	}
	return true
}

// hint is a command that the reader can paste.
func hint(d plane.Dir, verb string) string {
	command := os.Args[0]
	if !strings.Contains(command, "dovetail-sandbox") {
		command = "dovetail-sandbox" // Called as kubectl.
	}
	if standard, err := plane.DefaultDir(); err != nil || standard != d {
		command += " --dir " + string(d)
	}
	return command + " " + verb
}

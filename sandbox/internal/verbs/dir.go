// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verbs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

// errQuiet is a failure that has been explained on the terminal already.
var errQuiet = errors.New("explained")

// exitError carries a status other than 1.
type exitError struct {
	error
	status int
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

// question is how to ask Dovetail about a NodePool; empty where it does not run. Of several replicas the first is asked.
func question(s *supervise.State) string {
	for _, child := range s.Components {
		if port := child.Ports["metrics"]; port != 0 && strings.HasPrefix(child.Name, plane.Dovetail) {
			beside, _ := filepath.Split(os.Args[0]) // as this binary was called, so is the one beside it
			return fmt.Sprintf("%sdovetail why pods --pending --server http://127.0.0.1:%d    (or nodepool/NAME, node/NAME, pod/NAMESPACE/NAME)", beside, port)
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// clusterFlags name the cluster that a command looks at which a person runs.
type clusterFlags struct{ kubeconfig, context string }

// kubeconfigUsage and contextUsage are what the flags say of themselves.
const (
	kubeconfigUsage = "Path to the kubeconfig. Default: $KUBECONFIG, then ~/.kube/config, then a running sandbox, then in-cluster"
	contextUsage    = "Kubeconfig context. Default: the current context"
)

func (f *clusterFlags) add(g *pflag.FlagSet) {
	g.StringVar(&f.kubeconfig, "kubeconfig", "", kubeconfigUsage)
	g.StringVar(&f.context, "context", "", contextUsage)
}

// isNamed reports whether a flag names a cluster.
func (f *clusterFlags) isNamed() bool { return f.kubeconfig != "" || f.context != "" }

// args returns the flags for another command.
func (f *clusterFlags) args() []string {
	return flagArgs("--kubeconfig", f.kubeconfig, "--context", f.context)
}

// flagArgs returns flags for another command: of flags and their values, the pairs whose value is not empty.
func flagArgs(pairs ...string) (out []string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			out = append(out, pair...)
		}
	}
	return out
}

// path is the kubeconfig file to read: the one that is named, else that of a sandbox where it is the one to look at; empty: the one
// that kubectl would read.
func (f *clusterFlags) path(getenv func(string) string) string {
	if f.isNamed() {
		return f.kubeconfig
	}
	return sandboxKubeconfig(getenv)
}

// readWithin returns a context for reading all objects of an API server within a limit. The error of one that ends names both.
func readWithin(ctx context.Context, server string, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("API server %s did not return all objects within %s", server, limit))
}

// connectUser reaches the cluster of a command that a person runs. Every such command finds it by this function, so that all of them
// look at the same one. It returns the name of the kubeconfig's context too, else the API server's address.
func connectUser(ctx context.Context, f clusterFlags, verb string) (*client.Client, string, error) {
	cluster, used, err := client.ConnectUser(ctx, f.path(os.Getenv), f.context, "dovetail-"+verb+"/"+version())
	if err != nil {
		return nil, "", err
	}
	return cluster, cmp.Or(used, cluster.Address), nil
}

// sandboxKubeconfig is the kubeconfig of this user's sandbox where it is the one to look at: DOVETAIL_SANDBOX_DIR names one, or there is no
// other kubeconfig. It is empty otherwise.
func sandboxKubeconfig(getenv func(string) string) string {
	home, _ := os.UserHomeDir()
	dir := getenv("DOVETAIL_SANDBOX_DIR")
	if dir == "" {
		if getenv("KUBECONFIG") != "" || home != "" && exists(filepath.Join(home, ".kube", "config")) {
			return ""
		}
		state := getenv("XDG_STATE_HOME")
		if state == "" {
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "dovetail", "sandbox")
	} else if getenv("KUBECONFIG") != "" {
		return ""
	}
	if path := filepath.Join(dir, "kubeconfig"); exists(path) {
		return path
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

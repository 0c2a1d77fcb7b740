// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
)

// completeLimit is how long a shell waits for the names of objects.
const completeLimit = 3 * time.Second

// completeObjects completes the object of a command, KIND/NAME or KIND/NAMESPACE/NAME, and its flags -n and --context. What can't be listed
// is not completed: a shell has no place for an error.
func completeObjects(c *cobra.Command, kinds ...string) {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		kind, _, named := strings.Cut(typed, "/")
		if !named {
			out := make([]string, len(kinds))
			for i, k := range kinds {
				out[i] = k + "/"
			}
			return startingWith(out, typed), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
		if !slices.Contains(kinds, kind) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace := ""
		if f := c.Flags().Lookup("namespace"); f.Changed {
			namespace = f.Value.String()
		}
		names := listNames(c, kind, namespace)
		for i, name := range names {
			names[i] = kind + "/" + name
		}
		return startingWith(names, typed), cobra.ShellCompDirectiveNoFileComp
	}
	completeFlag(c, "namespace", func(c *cobra.Command) []string { return listNames(c, "namespace", "") })
}

// completeContexts completes --context of a command and of those below it.
func completeContexts(c *cobra.Command) {
	completeFlag(c, "context", func(c *cobra.Command) []string {
		f := clusterFlagsOf(c)
		names, err := client.Contexts(f.kubeconfig)
		if err != nil {
			return nil
		}
		return names
	})
	for _, verb := range c.Commands() {
		completeContexts(verb)
	}
}

// completeFlag completes the value of a flag, if the command has it.
func completeFlag(c *cobra.Command, name string, list func(*cobra.Command) []string) {
	if c.Flags().Lookup(name) == nil {
		return
	}
	err := c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return startingWith(list(c), typed), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // it is registered twice
		panic(err)
	}
}

// clusterFlagsOf returns the cluster flags that were given to a command.
func clusterFlagsOf(c *cobra.Command) (f clusterFlags) {
	if x := c.Flags().Lookup("kubeconfig"); x != nil {
		f.kubeconfig = x.Value.String()
	}
	if x := c.Flags().Lookup("context"); x != nil {
		f.context = x.Value.String()
	}
	return f
}

// listNames lists the names of a kind in the cluster of a command's flags; nil if they can't be listed.
func listNames(c *cobra.Command, kind, namespace string) []string {
	ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
	defer cancel()
	cluster, _, err := connectUser(ctx, clusterFlagsOf(c), "completion")
	if err != nil {
		return nil
	}
	names, err := watch.ListNames(ctx, cluster, kind, namespace)
	if err != nil {
		return nil
	}
	return names
}

func startingWith(all []string, prefix string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, prefix) })
}

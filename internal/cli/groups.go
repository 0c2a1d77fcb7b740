// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/expander"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// clusterAutoscalerNamespace is Cluster Autoscaler's own where its --namespace does not say.
const clusterAutoscalerNamespace = "kube-system"

// discoverEvery is how often node groups are looked for; Cluster Autoscaler's pace.
const discoverEvery = time.Minute

// groupFlags say which node groups become NodePools by themselves: Cluster Autoscaler's own flags.
type groupFlags struct {
	nodes, discovery []string
	defaults         string
	writeStatus      bool
	status           string // namespace/name of the ConfigMap that it is written to
	expander, cert   string
	flags            *pflag.FlagSet
}

// groupVariables are the environment variables by flag; of several values with spaces between.
var groupVariables = []struct{ flag, variable string }{
	{"nodes", "NODES"}, {"node-group-auto-discovery", "NODE_GROUP_AUTO_DISCOVERY"}, {"node-group-defaults", "NODE_GROUP_DEFAULTS"},
}

func (f *groupFlags) add(g *pflag.FlagSet) {
	f.flags = g
	g.StringArrayVar(&f.nodes, "nodes", nil, "Auto Scaling group to scale, as <min>:<max>:<name>. With --cloud=aws. Can be repeated (NODES)")
	g.StringArrayVar(&f.discovery, "node-group-auto-discovery", nil, "Discover Auto Scaling groups by tag, as asg:tag=<key>[=<value>],…. With --cloud=aws. Can be repeated (NODE_GROUP_AUTO_DISCOVERY)")
	g.StringVar(&f.defaults, "node-group-defaults", "", "Default options of --nodes and --node-group-auto-discovery groups, as Cluster Autoscaler flags, for example '--scale-down-unneeded-time=5m --expander=least-waste'. docs/CONVERT.md lists the supported flags (NODE_GROUP_DEFAULTS)")
	g.BoolVar(&f.writeStatus, "write-status-configmap", true, "Write the node group status to a ConfigMap in Cluster Autoscaler's format")
	g.StringVar(&f.status, "status-config-map-name", clusterAutoscalerNamespace+"/"+write.StatusConfigMap, "ConfigMap for the node group status, as [<namespace>/]<name>")
	g.StringVar(&f.expander, "grpc-expander-url", "", "Address (<host>:<port>) of a server for Cluster Autoscaler's gRPC expander protocol, for NodeGroupClasses with expander grpc. Timeout: 2s")
	g.StringVar(&f.cert, "grpc-expander-cert", "", "Path to the CA certificate for --grpc-expander-url, PEM")
}

// connectExpander returns the expander outside, nil where none is named.
func (f *groupFlags) connectExpander() (controller.Expander, error) {
	if f.expander == "" {
		if f.cert != "" {
			return nil, exit{2, errors.New("--grpc-expander-cert requires --grpc-expander-url")}
		}
		return nil, nil
	}
	e, err := expander.Connect(f.expander, f.cert)
	if err != nil {
		return nil, exit{2, err}
	}
	return e, nil
}

// statusConfigMap is where the status of node groups is written; empty: nowhere.
func (f *groupFlags) statusConfigMap() (namespace, name string, err error) {
	if !f.writeStatus {
		return "", "", nil
	}
	namespace, name, both := strings.Cut(f.status, "/")
	if !both {
		namespace, name = clusterAutoscalerNamespace, f.status
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", exit{2, fmt.Errorf("--status-config-map-name %q: use NAME or NAMESPACE/NAME, or --write-status-configmap=false", f.status)}
	}
	return namespace, name, nil
}

// discovery looks for node groups.
type discovery struct {
	named    []translate.NodeGroup
	sets     []map[string]string
	settings translate.GroupSettings
	ranks    string // namespace of the expander priority's ConfigMap; empty: none is read
	clients  *awsapi.Clients
	missing  []string // named ones that were not there when last looked for
}

// read is what to look for, nil: nothing.
func (f *groupFlags) read(getenv func(string) string) (*discovery, error) {
	for _, v := range groupVariables {
		value := getenv(v.variable)
		if value == "" || f.flags.Changed(v.flag) {
			continue
		}
		values := []string{value}
		if v.flag != "node-group-defaults" {
			values = strings.Fields(value)
		}
		for _, one := range values {
			if err := f.flags.Set(v.flag, one); err != nil {
				return nil, exit{2, fmt.Errorf("environment variable %s: %q: %w", v.variable, one, err)}
			}
		}
	}
	if len(f.nodes)+len(f.discovery) == 0 {
		if f.defaults != "" {
			return nil, exit{2, errors.New("--node-group-defaults requires --nodes or --node-group-auto-discovery")}
		}
		return nil, nil
	}
	words, err := convert.ShellWords(f.defaults)
	if err != nil {
		return nil, exit{2, fmt.Errorf("--node-group-defaults: %w", err)}
	}
	c := convert.New(&convert.Input{})
	if err := c.ReadFlags(words); err != nil {
		return nil, exit{2, fmt.Errorf("--node-group-defaults: %w", err)}
	}
	ranked, namespace := slices.Contains(c.Settings.Expanders, dovetailv1alpha1.ExpanderPriority), ""
	for _, r := range c.Rows {
		switch {
		case ranked && r.Flag == "namespace":
			namespace = r.Value
		case !r.Given:
		case r.Flag == "nodes" || r.Flag == "node-group-auto-discovery":
			return nil, exit{2, fmt.Errorf("--node-group-defaults: --%s is not allowed here; set it as a flag", r.Flag)}
		case r.Flag == "max-nodes-total" || r.Flag == "cores-total" || r.Flag == "memory-total":
			return nil, exit{2, fmt.Errorf("--node-group-defaults: --%s is not allowed here; set it as a flag", r.Flag)}
		case r.Outcome != convert.InObjects && r.Outcome != convert.SameHere && !strings.HasSuffix(r.Flag, "-taint"):
			return nil, exit{2, fmt.Errorf("--node-group-defaults: --%s is not an option of node groups: %s", r.Flag, r.What)}
		}
	}
	out := &discovery{settings: c.Settings}
	if ranked {
		out.ranks = cmp.Or(namespace, clusterAutoscalerNamespace)
	}
	for _, text := range f.nodes {
		g, err := translate.ParseNodes(text)
		if err != nil {
			return nil, exit{2, fmt.Errorf("--nodes %s: %w", text, err)}
		}
		if slices.ContainsFunc(out.named, func(n translate.NodeGroup) bool { return n.Name == g.Name }) {
			return nil, exit{2, fmt.Errorf("--nodes %s: the group is listed twice", text)}
		}
		out.named = append(out.named, g)
	}
	for _, text := range f.discovery {
		tags, err := translate.ParseDiscovery(text)
		if err != nil {
			return nil, exit{2, fmt.Errorf("--node-group-auto-discovery %s: %w", text, err)}
		}
		out.sets = append(out.sets, tags)
	}
	return out, nil
}

// with is the discovery as kube carries it out.
func (d *discovery) with(actor *write.Actor, log *slog.Logger) *write.Discovery {
	return &write.Discovery{Settings: d.settings, Every: discoverEvery, Log: log, Priorities: d.ranks, Tell: actor.Event, Find: func(ctx context.Context) ([]translate.NodeGroup, error) {
		groups, missing, err := findGroups(ctx, d.clients, d.named, d.sets)
		if err == nil && !slices.Equal(missing, d.missing) {
			if d.missing = missing; len(missing) > 0 {
				log.Warn("--nodes names node groups that do not exist", "groups", missing, "region", d.clients.Region)
			}
		}
		return groups, err
	}}
}

// findGroups asks AWS for groups by name and by tags. missing are the names that no group has.
func findGroups(ctx context.Context, clients *awsapi.Clients, named []translate.NodeGroup, sets []map[string]string) (out []translate.NodeGroup, missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var names []string
	for _, g := range named {
		names = append(names, g.Name)
	}
	found, err := asg.Discover(ctx, clients, names, sets)
	if err != nil {
		return nil, nil, err
	}
	var all []translate.NodeGroup
	for _, g := range found {
		all = append(all, translate.NodeGroup{Name: g.Name, Tags: g.Tags})
	}
	out, missing = translate.SelectNodeGroups(all, named, sets)
	return out, missing, nil
}

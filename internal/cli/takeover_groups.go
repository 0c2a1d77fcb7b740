// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	kubeclient "github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/takeover"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// handGroupsOver checks and, where nothing is in the way, hands the node groups of a class over.
func handGroupsOver(ctx context.Context, out io.Writer, f *handoverFlags, release bool) error {
	if err := checkGroupCloud(f.cloud, "--cloud "+f.cloud, release); err != nil {
		return exit{2, err}
	}
	client, _, err := connectUser(ctx, f.clusterFlags, "takeover")
	if err != nil {
		return err
	}
	cloud := f.cloud
	var args []string
	if cloud == "" || cloud == cloudClusterAPI {
		args, err = client.ControllerArgs(ctx)
	}
	var none *kubeclient.NoController
	var missing *kubeclient.MissingRole
	if err != nil && cloud == "" && !errors.As(err, &none) && !errors.As(err, &missing) { // then it is AWS that is tried
		return err
	}
	if cloud == "" {
		cloud = flagOfArgs(args, "cloud")
		if err := checkGroupCloud(cloud, "the controller runs with --cloud="+cloud, release); err != nil {
			return fmt.Errorf("%w. If the groups are Auto Scaling groups, use --cloud aws", err)
		}
	}
	say := func(s string) { fmt.Fprintln(out, s) }
	t := &takeover.NodeGroups{NodePools: &takeover.NodePools{Client: client, Namespace: f.lease.Namespace, Wait: f.wait, Say: say}}
	if cloud == cloudClusterAPI {
		err = connectClusterAPIGroups(ctx, t, f, args)
	} else {
		err = connectAWSGroups(ctx, t)
	}
	if err != nil {
		return err
	}
	class, err := classToHandOver(ctx, t, f)
	if err != nil {
		return err
	}
	found, err := t.Check(ctx, class, f.lease, f.others, release)
	if err != nil {
		return err
	}
	if printFindings(out, found, f) > 0 {
		return errors.New("nothing was changed")
	}
	if f.dryRun {
		fmt.Fprintln(out, "All checks passed. Run the command without --dry-run to apply the change.")
		return nil
	}
	if release {
		if err := t.Release(ctx, class); err != nil {
			return err
		}
		fmt.Fprintf(out, "Done. Restore the %ss by which Cluster Autoscaler discovers the groups, or start it again.\n", t.Terms.Tag)
		return nil
	}
	if err := t.TakeOver(ctx, class); err != nil {
		return err
	}
	fmt.Fprintln(out, "Done. To undo: dovetail release --class "+class)
	return nil
}

// connectAWSGroups makes groups those of AWS.
func connectAWSGroups(ctx context.Context, t *takeover.NodeGroups) error {
	clients, err := connectAWS(ctx, "use --cloud clusterapi or --cloud externalgrpc if the groups are of another cloud")
	if err != nil {
		return fmt.Errorf("--group, --class: %w", err)
	}
	t.Cloud, t.Terms = asg.Handover{Clients: clients}, takeover.AWSTerms()
	return nil
}

// connectClusterAPIGroups makes groups those of a Cluster, that of the flags or of the controller's command line.
func connectClusterAPIGroups(ctx context.Context, t *takeover.NodeGroups, f *handoverFlags, args []string) error {
	config, err := clusterapi.ReadConfig(cmp.Or(f.clusterAPI, flagOfArgs(args, "cluster-api-cluster")))
	if err != nil {
		return exit{2, fmt.Errorf("--cluster-api-cluster: %w", err)}
	}
	if f.management == "" && flagOfArgs(args, "management-kubeconfig") != "" {
		return exit{2, errors.New("--management-kubeconfig: the controller uses a separate management cluster; set the path of its kubeconfig on this machine")}
	}
	management := t.Client
	if f.management != "" {
		if management, err = kubeclient.Connect(ctx, f.management, 0, 0, "dovetail/"+version(), kubeclient.ReadOnly); err != nil {
			return exit{2, fmt.Errorf("--management-kubeconfig: %w", err)}
		}
	}
	groups := clusterapi.NewHandover(config, management, write.NewKept(t.Client, f.lease.Namespace, cloudClusterAPI+".json"), slog.New(slog.DiscardHandler))
	t.Cloud, t.Terms = groups, takeover.ClusterAPITerms(config.Namespace, config.Name, f.management != "", groups.Resource)
	return nil
}

// checkGroupCloud returns why node groups of a cloud can't be handed over, and what to do instead; nil: they can, or the cloud is not known. said says
// where the cloud is from.
func checkGroupCloud(cloud, said string, release bool) error {
	remedy := "stop Cluster Autoscaler, and drain the existing nodes of the groups or wait until their pods are rescheduled (docs/EXTERNALGRPC.md)"
	switch {
	case cloud == "" || cloud == cloudAWS || cloud == cloudClusterAPI:
		return nil
	case cloud == cloudKWOK:
		return fmt.Errorf("%s: the simulated cloud has no node groups; use --pool or --all instead of --group and --class", said)
	case release:
		remedy = "delete the NodePools of the groups, which drains and terminates their nodes, then stop Dovetail and start Cluster Autoscaler"
	}
	return fmt.Errorf("%s: --group and --class support Auto Scaling groups of AWS and groups of Cluster API only; instead, %s", said, remedy)
}

// flagOfArgs returns the value of a flag of a controller's command line; empty: it has none.
func flagOfArgs(args []string, flag string) (value string) {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+flag+"="); ok {
			value = v
		} else if a == "--"+flag && i+1 < len(args) {
			value = args[i+1]
		}
	}
	return value
}

// classToHandOver is the NodeGroupClass that the flags name, or the one that chooses the group that they name.
func classToHandOver(ctx context.Context, t *takeover.NodeGroups, f *handoverFlags) (string, error) {
	if f.class != "" {
		return f.class, nil
	}
	classes, err := t.Classes(ctx, f.group)
	switch {
	case err != nil:
		return "", err
	case len(classes) == 0:
		return "", fmt.Errorf("no NodeGroupClass selects group %s. Create one: dovetail convert --from cluster-autoscaler --live --apply -- --nodes=MIN:MAX:%s", f.group, f.group)
	case len(classes) > 1:
		return "", fmt.Errorf("several NodeGroupClasses select group %s: %s. Remove it from all but one: kubectl edit nodegroupclass NAME", f.group, strings.Join(classes, ", "))
	}
	return classes[0], nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/takeover"
)

// handoverFlags are those of takeover and of release.
type handoverFlags struct {
	clusterFlags
	pool                      string
	group, class, cloud       string
	clusterAPI, management    string
	all, dryRun, noController bool
	wait                      time.Duration
	lease                     client.Lease
	others                    []string
}

func takeoverCommand() *cobra.Command {
	return handoverCommand(&cobra.Command{
		Use:   "takeover --pool NAME | --all | --group NAME | --class NAME",
		Short: "Take over NodePools from Karpenter, or node groups from Cluster Autoscaler, without replacing nodes",
		Long: `Takes over NodePools from Karpenter (--pool, --all), or Auto Scaling groups and Cluster API node groups from Cluster
Autoscaler (--group, --class). The command checks first. If something prevents the takeover, it changes nothing and prints
the remedy. NodeClaims, nodes and instances stay as they are. An interrupted run is completed by the next run.

NodePools: other NodePools stay with Karpenter, which can keep running. For a few seconds during the takeover, neither
autoscaler launches nodes for the NodePool. The NodePool is recreated with a nodeClassRef.group that Karpenter does not
watch: kwok.dovetail.sh instead of karpenter.kwok.sh. Set that group in manifests that a GitOps tool applies. NodePools with
an EC2NodeClass cannot be taken over: the command prints what to do instead.

Node groups: the takeover includes all groups of the NodeGroupClass that selects the group (--class names it directly). Cluster
Autoscaler keeps running for other groups. The command prints how to remove the group from Cluster Autoscaler, and changes
nothing until that is done. It then annotates the NodePool and removes the taints that Cluster Autoscaler left on nodes. It
uses the default AWS credentials, or for Cluster API --management-kubeconfig.

'dovetail release' reverses a takeover.

Exit status: 0 done (with --dry-run: possible), 1 not possible or failed, 2 usage error.`,
		Example: "  dovetail takeover --pool batch --dry-run\n  dovetail takeover --pool batch\n  dovetail takeover --all\n  dovetail takeover --group eks-web --dry-run",
	}, false)
}

func releaseCommand() *cobra.Command {
	return handoverCommand(&cobra.Command{
		Use:   "release --pool NAME | --all | --group NAME | --class NAME",
		Short: "Return NodePools to Karpenter, or node groups to Cluster Autoscaler, without replacing nodes",
		Long: `Returns NodePools to Karpenter, with the NodeClaims that Dovetail created for them. Nodes, instances and pods are kept,
and Dovetail no longer manages them. Karpenter must be stopped during the release; otherwise it would launch a second
instance for each NodeClaim. The command checks this. An interrupted run is completed by the next run.

With --group NAME, returns a node group to Cluster Autoscaler, with all groups of its NodeGroupClass. Operations in
progress are completed first. Then Dovetail's NodeClaims, taints, labels, finalizers and tags are removed; instances and pods
stay.

Exit status: 0 done (with --dry-run: possible), 1 not possible or failed, 2 usage error.`,
		Example: "  kubectl -n kube-system scale deployment karpenter --replicas=0\n  dovetail release --pool batch\n" +
			"  kubectl -n kube-system scale deployment karpenter --replicas=2",
	}, true)
}

func handoverCommand(c *cobra.Command, release bool) *cobra.Command {
	f := &handoverFlags{lease: client.DefaultLease()}
	c.Args = noArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		given := 0
		for _, is := range []bool{f.pool != "", f.all, f.group != "", f.class != ""} {
			if is {
				given++
			}
		}
		if given != 1 {
			return exit{2, fmt.Errorf("%[1]s needs --pool, --group, --class or --all; see 'dovetail %[1]s --help'", c.Name())}
		}
		if f.cloud != "" && !slices.Contains(clouds, f.cloud) {
			return unknownCloud(f.cloud)
		}
		if f.group != "" || f.class != "" {
			return handGroupsOver(c.Context(), c.OutOrStdout(), f, release)
		}
		return handOver(c.Context(), c.OutOrStdout(), f, release)
	}
	g := c.Flags()
	f.clusterFlags.add(g)
	g.StringVar(&f.pool, "pool", "", "Name of the NodePool")
	completeFlag(c, "pool", func(c *cobra.Command) []string { return listNames(c, "nodepool", "") })
	g.BoolVar(&f.all, "all", false, "All NodePools, one after another")
	g.StringVar(&f.group, "group", "", "Name of an Auto Scaling group, or of a MachineDeployment, MachineSet or MachinePool")
	g.StringVar(&f.class, "class", "", "Name of a NodeGroupClass; applies to all of its groups")
	g.StringVar(&f.cloud, "cloud", "", "Cloud provider of the node groups (--group, --class): aws or clusterapi. Not used with --pool or --all. Default: that of the running controller, otherwise aws")
	g.StringVar(&f.clusterAPI, "cluster-api-cluster", "", "With --cloud=clusterapi: NAMESPACE/NAME of the Cluster object. Default: that of the running controller")
	g.StringVar(&f.management, "management-kubeconfig", "", "With --cloud=clusterapi: path to the management cluster's kubeconfig. If unset, the workload cluster is its own management cluster")
	g.BoolVar(&f.dryRun, "dry-run", false, "Only check; change nothing")
	g.BoolVar(&f.noController, "no-controller-check", false, "Do not check whether a Dovetail controller is running")
	g.DurationVar(&f.wait, "wait", 10*time.Minute, "Timeout for NodeClaims that are being launched or deleted")
	g.StringVar(&f.lease.Namespace, "namespace", f.lease.Namespace, "Namespace of Dovetail's lease and of ConfigMap dovetail-takeover")
	g.StringSliceVar(&f.others, "other-autoscalers", client.OtherLeases, "Names of the leases, in any namespace, that show that another autoscaler is running")
	return c
}

// printFindings prints what was checked, and returns how much of it is in the way.
func printFindings(out io.Writer, found []takeover.Finding, f *handoverFlags) (wrong int) {
	for _, x := range found {
		switch {
		case x.OK:
			fmt.Fprintln(out, "ok   ", x.Text)
		case f.noController && strings.HasPrefix(x.Text, "No Dovetail controller"):
		default:
			wrong++
			fmt.Fprintln(out, "FAIL ", x.Text)
			fmt.Fprintln(out, "      fix:", x.Mend)
		}
	}
	return wrong
}

// handOver checks and, where nothing is in the way, hands NodePools over.
func handOver(ctx context.Context, out io.Writer, f *handoverFlags, release bool) error {
	cluster, _, err := connectUser(ctx, f.clusterFlags, "takeover")
	if err != nil {
		return err
	}
	t := &takeover.NodePools{Client: cluster, Namespace: f.lease.Namespace, Wait: f.wait, Say: func(s string) { fmt.Fprintln(out, s) }}
	pools := []string{f.pool}
	if f.all {
		if pools, err = t.Pools(ctx); err != nil {
			return err
		}
	}
	found, err := t.Check(ctx, pools, f.lease, f.others, release)
	if err != nil {
		return err
	}
	wrong := printFindings(out, found, f)
	if images := t.Versions(ctx); len(images) > 0 {
		fmt.Fprintln(out, "      Karpenter runs as", strings.Join(images, ", ")+". This command was tested with v1.15.")
	}
	if wrong > 0 {
		return errors.New("nothing was changed")
	}
	if f.dryRun {
		fmt.Fprintln(out, "All checks passed. Run the command without --dry-run to apply the change.")
		return nil
	}
	for _, name := range pools {
		if release {
			if err = t.CheckAlone(ctx, name, f.others); err == nil { // also that it was not started meanwhile
				err = t.Release(ctx, name)
			}
		} else {
			err = t.TakeOver(ctx, name)
		}
		var vanished *takeover.VanishedError
		if f.all && errors.As(err, &vanished) { // the others are handed over all the same
			fmt.Fprintln(out, vanished.Error()+".")
			continue
		}
		if err != nil {
			return err
		}
	}
	if release {
		fmt.Fprintln(out, "Done. Start Karpenter again: kubectl -n kube-system scale deployment karpenter --replicas=2")
	} else {
		fmt.Fprintln(out, "Done. To undo: dovetail release --pool NAME")
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	group, class              string
	all, dryRun, noController bool
	wait                      time.Duration
	lease                     client.Lease
	others                    []string
}

func takeoverCommand() *cobra.Command {
	return handoverCommand(&cobra.Command{
		Use:   "takeover --pool NAME | --all | --group NAME | --class NAME",
		Short: "take NodePools over from Karpenter, or node groups from Cluster Autoscaler, with their nodes as they are",
		Long: "Checks first, changes nothing where something is in the way, and says what mends it. Then it makes each NodePool\n" +
			"Dovetail's: its NodeClaims, nodes and instances stay as they are. Other pools stay Karpenter's, which may go on running.\n" +
			"While a pool is handed over, some seconds, nobody launches for it. A run that was interrupted is finished by the next.\n\n" +
			"The pool is made anew with another group in its nodeClassRef, which Karpenter does not see to: kwok.dovetail.sh for\n" +
			"karpenter.kwok.sh. Where manifests are applied by a tool, give them that group too. 'dovetail release' is the way back.\n\n" +
			"--group NAME takes an Auto Scaling group over from a Cluster Autoscaler that goes on with others, and with it all groups of\n" +
			"the NodeGroupClass that chooses it (--class names that). It says how you take the group out of Cluster Autoscaler's hands, and\n" +
			"changes nothing before you have. Then the NodePool is marked, and taints that Cluster Autoscaler left on nodes are cleared.\n" +
			"AWS is asked with credentials found as every AWS tool finds them.\n\n" +
			"Exit status: 0 it is done (or, with --dry-run, could be), 1 something is in the way, 2 wrong usage.",
		Example: "  dovetail takeover --pool batch --dry-run\n  dovetail takeover --pool batch\n  dovetail takeover --all\n  dovetail takeover --group eks-web --dry-run",
	}, false)
}

func releaseCommand() *cobra.Command {
	return handoverCommand(&cobra.Command{
		Use:   "release --pool NAME | --all | --group NAME | --class NAME",
		Short: "give NodePools back to Karpenter, or node groups to Cluster Autoscaler, with their nodes as they are",
		Long: "Makes NodePools Karpenter's again, and each NodeClaim that Dovetail made for them: nodes, instances and pods stay. Dovetail\n" +
			"leaves them alone from then on. Karpenter must be stopped meanwhile, since it would launch a second instance for each\n" +
			"NodeClaim before it can see that there is one; the command says so where it is not. A run that was interrupted is finished\n" +
			"by the next.\n\n" +
			"--group NAME gives an Auto Scaling group back to Cluster Autoscaler, and with it all groups of its NodeGroupClass: what Dovetail\n" +
			"has begun is finished, then NodeClaims, taints, labels, finalizers and tags of Dovetail go, and instances and pods stay.\n\n" +
			"Exit status: 0 it is done (or, with --dry-run, could be), 1 something is in the way, 2 wrong usage.",
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
			return exit{2, fmt.Errorf("%s: name a NodePool by --pool, an Auto Scaling group by --group or a NodeGroupClass by --class, or give --all", c.Name())}
		}
		if f.group != "" || f.class != "" {
			return handGroupsOver(c.Context(), c.OutOrStdout(), f, release)
		}
		return handOver(c.Context(), c.OutOrStdout(), f, release)
	}
	g := c.Flags()
	f.clusterFlags.add(g)
	g.StringVar(&f.pool, "pool", "", "name of the NodePool")
	g.BoolVar(&f.all, "all", false, "every NodePool, one after another")
	g.StringVar(&f.group, "group", "", "name of an Auto Scaling group")
	g.StringVar(&f.class, "class", "", "name of a NodeGroupClass: all of its groups")
	g.BoolVar(&f.dryRun, "dry-run", false, "check, and change nothing")
	g.BoolVar(&f.noController, "no-controller-check", false, "don't ask whether a Dovetail controller holds its lease")
	g.DurationVar(&f.wait, "wait", 10*time.Minute, "how long NodeClaims that come or go are waited for")
	g.StringVar(&f.lease.Namespace, "namespace", f.lease.Namespace, "namespace of Dovetail: of its lease, and of ConfigMap dovetail-takeover")
	g.StringSliceVar(&f.others, "other-autoscalers", client.OtherLeases, "names of the leases, in any namespace, by which other autoscalers are known to be live")
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
			fmt.Fprintln(out, "WRONG", x.Text)
			fmt.Fprintln(out, "      mend it by:", x.Mend)
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
		fmt.Fprintln(out, "      Karpenter runs as", strings.Join(images, ", ")+"; v1.14 is what this was tried with.")
	}
	if wrong > 0 {
		return errors.New("nothing was changed")
	}
	if f.dryRun {
		fmt.Fprintln(out, "Nothing is in the way. Without --dry-run it is done.")
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
		fmt.Fprintln(out, "Done. dovetail release --pool NAME is the way back.")
	}
	return nil
}

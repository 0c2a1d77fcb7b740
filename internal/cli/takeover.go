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

	"github.com/dovetail-sh/dovetail/internal/kube"
)

// handoverFlags are those of takeover and of release.
type handoverFlags struct {
	kubeconfig, pool          string
	all, dryRun, noController bool
	wait                      time.Duration
	lease                     kube.Lease
	others                    []string
}

func takeoverCommand() *cobra.Command {
	return handoverCommand(&cobra.Command{
		Use:   "takeover --pool NAME | --all",
		Short: "take NodePools over from Karpenter, with their nodes as they are",
		Long: "Checks first, changes nothing where something is in the way, and says what mends it. Then it makes each NodePool\n" +
			"Dovetail's: its NodeClaims, nodes and instances stay as they are. Other pools stay Karpenter's, which may go on running.\n" +
			"While a pool is handed over, some seconds, nobody launches for it. A run that was interrupted is finished by the next.\n\n" +
			"The pool is made anew with another group in its nodeClassRef, which Karpenter does not see to: kwok.dovetail.sh for\n" +
			"karpenter.kwok.sh. Where manifests are applied by a tool, give them that group too. 'dovetail release' is the way back.\n\n" +
			"Exit status: 0 it is done (or, with --dry-run, could be), 1 something is in the way, 2 wrong usage.",
		Example: "  dovetail takeover --pool batch --dry-run\n  dovetail takeover --pool batch\n  dovetail takeover --all",
	}, false)
}

func releaseCommand() *cobra.Command {
	return handoverCommand(&cobra.Command{
		Use:   "release --pool NAME | --all",
		Short: "give NodePools back to Karpenter, with their nodes as they are",
		Long: "Makes NodePools Karpenter's again, and each NodeClaim that Dovetail made for them: nodes, instances and pods stay. Dovetail\n" +
			"leaves them alone from then on. Karpenter must be stopped meanwhile, since it would launch a second instance for each\n" +
			"NodeClaim before it can see that there is one; the command says so where it is not. A run that was interrupted is finished\n" +
			"by the next.\n\n" +
			"Exit status: 0 it is done (or, with --dry-run, could be), 1 something is in the way, 2 wrong usage.",
		Example: "  kubectl -n kube-system scale deployment karpenter --replicas=0\n  dovetail release --pool batch\n" +
			"  kubectl -n kube-system scale deployment karpenter --replicas=2",
	}, true)
}

func handoverCommand(c *cobra.Command, release bool) *cobra.Command {
	f := &handoverFlags{lease: kube.DefaultLease()}
	c.Args = noArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		if (f.pool == "") == !f.all {
			return exit{2, fmt.Errorf("%s: name a NodePool by --pool, or give --all", c.Name())}
		}
		return handOver(c.Context(), c.OutOrStdout(), f, release)
	}
	g := c.Flags()
	g.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of somebody who may change NodePools and NodeClaims; empty: KUBECONFIG, or ~/.kube/config")
	g.StringVar(&f.pool, "pool", "", "name of the NodePool")
	g.BoolVar(&f.all, "all", false, "every NodePool, one after another")
	g.BoolVar(&f.dryRun, "dry-run", false, "check, and change nothing")
	g.BoolVar(&f.noController, "no-controller-check", false, "don't ask whether a Dovetail controller holds its lease")
	g.DurationVar(&f.wait, "wait", 10*time.Minute, "how long NodeClaims that come or go are waited for")
	g.StringVar(&f.lease.Namespace, "namespace", f.lease.Namespace, "namespace of Dovetail: of its lease, and of ConfigMap dovetail-takeover")
	g.StringSliceVar(&f.others, "other-autoscalers", kube.OtherLeases, "names of the leases, in any namespace, by which other autoscalers are known to be live")
	return c
}

// handOver checks and, where nothing is in the way, hands NodePools over.
func handOver(ctx context.Context, out io.Writer, f *handoverFlags, release bool) error {
	client, err := kube.Connect(ctx, userKubeconfig(f.kubeconfig), 0, 0, "dovetail/"+version())
	if err != nil {
		return err
	}
	t := &kube.Takeover{Client: client, Namespace: f.lease.Namespace, Wait: f.wait, Say: func(s string) { fmt.Fprintln(out, s) }}
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
	wrong := 0
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

func newFault(resolve func() (plane.Dir, error)) *cobra.Command {
	f := supervise.Fault{}
	command := &cobra.Command{
		Use:   "fault kill|stop|slow COMPONENT...",
		Short: "Kill, stop or slow down components of the sandbox for a limited time",
		Long: `Inject a fault into one or more components for a limited time, and wait until
each passes its health check again. "status" lists the names of the components.

  kill  SIGKILL; started again after --for
  stop  SIGSTOP, and SIGCONT after --for: connections stay open without answers
  slow  stopped and continued ten times a second for --for, so that it runs
        --share of the time

kwok is restarted after a fault of etcd or kube-apiserver, because unlike
a kubelet it does not retry requests that failed.

Ctrl-C ends a "stop" or "slow" fault immediately.`,
		Example: `  dovetail-sandbox fault kill kube-controller-manager --for 10s
  dovetail-sandbox fault stop kube-apiserver etcd --for 40s
  dovetail-sandbox fault slow machines --for 20s --share 0.05`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("fault needs kill, stop or slow, and one or more components (\"status\" lists them), for example: fault kill kwok --for 10s")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if f.Kind = args[0]; !slices.Contains([]string{supervise.Kill, supervise.Stop, supervise.Slow}, f.Kind) {
				return fmt.Errorf("unknown fault %q: it must be kill, stop or slow", f.Kind)
			}
			if f.For < 0 {
				return fmt.Errorf("--for %s: must not be negative", f.For)
			}
			if f.Share <= 0 || f.Share >= 1 {
				return fmt.Errorf("--share %g: must be more than 0 and less than 1", f.Share)
			}
			dir, err := resolve()
			if err != nil {
				return err
			}
			return inflict(dir, args[1:], f)
		},
	}
	command.Flags().DurationVar(&f.For, "for", 10*time.Second, "Duration of the fault")
	command.Flags().Float64Var(&f.Share, "share", 0.1, "With slow: fraction of the time in which the component runs")
	return command
}

// inflict does the same to several components at once. kwok repeats a request
// only when it was refused in certain ways; any other error, such as a
// connection that broke or an etcd that was away, leaves the pod or the node as
// it is for good, where a kubelet would try again. So kwok begins anew after a
// fault of what answers it, and looks at everything again.
func inflict(dir plane.Dir, names []string, f supervise.Fault) error {
	state, err := supervise.Read(dir)
	if err != nil {
		return err
	}
	if state == nil {
		return fmt.Errorf("no sandbox runs in %s: start one with `%s`", dir, hint(dir, "up"))
	}
	client, err := plane.NewClient(dir, state.Server)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	errs := make([]error, len(names))
	for i, name := range names {
		all.Go(func() { errs[i] = supervise.Inflict(ctx, dir, client, name, f) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if slices.Contains(names, plane.Etcd) || slices.Contains(names, plane.APIServer) {
		if err := supervise.Inflict(context.WithoutCancel(ctx), dir, client, plane.Kwok, supervise.Fault{Kind: supervise.Kill}); err != nil {
			return fmt.Errorf("start kwok again: %w", err)
		}
	}
	fmt.Printf("%s back after %.1fs\n", strings.Join(names, ", "), time.Since(began).Seconds())
	return nil
}

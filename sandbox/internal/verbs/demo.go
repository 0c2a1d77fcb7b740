// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/demo"
	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

// demoBase is the machine that Dovetail does not own.
const demoBase = "m5.large"

// resolveDemo is where the demo's sandbox lives, and whether it is the demo's
// own place, beside the one of `up`: nobody's cluster is kept there.
func resolveDemo(dir string) (plane.Dir, bool, error) {
	if dir != "" || os.Getenv("DOVETAIL_SANDBOX_DIR") != "" {
		d, err := resolveDir(dir)
		return d, false, err
	}
	standard, err := plane.DefaultDir()
	if err != nil {
		return "", false, err
	}
	return plane.Dir(filepath.Join(filepath.Dir(string(standard)), "demo")), true, nil
}

func newDemo(resolve func() (dir plane.Dir, own bool, err error)) *cobra.Command {
	options := plane.Options{Base: demoBase, Seed: 1, Replicas: 1, Cloud: plane.CloudKwok, ManagerQPS: plane.FastManager}
	var fast, keep bool
	var source string
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show a workload that grows and shrinks, and nodes launched and removed",
		Long: `Start a sandbox with one ` + demoBase + ` that Dovetail does not manage, scale a
Deployment from 1 to 30 replicas, to 10 and to 0, and show for each step the
timeline, the nodes with their cost and utilization, and the savings by
consolidation. At the end, the sandbox is stopped. It takes about 90 seconds.

The demo uses a separate sandbox: directory demo next to that of "up", or --dir
or $DOVETAIL_SANDBOX_DIR. The exit status is 0 if no launched node is left at the
end, and 1 otherwise.`,
		Example: `  dovetail-sandbox demo

  # keep the sandbox running at the end, to continue with kubectl
  dovetail-sandbox demo --keep

  # the same on a simulated AWS, with an EC2NodeClass
  dovetail-sandbox demo --cloud aws

  # with two Auto Scaling groups, then with these and an EC2NodeClass
  dovetail-sandbox demo --cloud aws --groups
  dovetail-sandbox demo --cloud aws --groups=both

  # nodes and pods that start at once, and nodes that are consolidated sooner
  dovetail-sandbox demo --fast`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, own, err := resolve()
			if err != nil {
				return err
			}
			if s := demo.Source(source); s != "" && s != demo.Groups && s != demo.Both {
				return fmt.Errorf("--groups=%s: must be %s or %s", source, demo.Groups, demo.Both)
			}
			pace := demo.Default()
			if fast {
				pace = demo.Fast()
				for name, delay := range map[string]*time.Duration{"boot": &options.Boot, "pull": &options.Pull} {
					if !command.Flags().Changed(name) {
						*delay = 0
					}
				}
			}
			if pace.Source = demo.Source(source); source != "" {
				options.Groups = plane.OwnGroups
				options.ControllerArgs = []string{"--node-group-defaults=--scale-down-unneeded-time=" + pace.ConsolidateAfter.String() + " --scale-down-delay-after-add=0s"}
			}
			if options.Dovetail == "" {
				self, err := os.Executable()
				if err != nil {
					return fmt.Errorf("find the sandbox's own executable: %w", err)
				}
				options.Dovetail = filepath.Join(filepath.Dir(self), "dovetail")
			}
			if err := check(&options); err != nil {
				return err
			}
			return perform(dir, own, keep, options, pace)
		},
	}
	flags := command.Flags()
	flags.DurationVar(&options.Boot, "boot", 8*time.Second, "Mean boot time: from the launch of a simulated instance until its node registers")
	flags.DurationVar(&options.Pull, "pull", time.Second, "Mean time from binding a pod until it runs, varied by up to 20 %")
	flags.StringVar(&options.Cloud, "cloud", plane.CloudKwok, "Cloud provider: kwok, or aws (EC2NodeClass on a simulated AWS)")
	flags.StringVar(&source, "groups", "", "With --cloud aws: launch nodes in two Auto Scaling groups only, or with --groups=both in these and with an EC2NodeClass")
	flags.Lookup("groups").NoOptDefVal = string(demo.Groups)
	flags.BoolVar(&fast, "fast", false, "Boot and start without delay unless --boot or --pull is set, and consolidate sooner")
	flags.BoolVar(&keep, "keep", false, "Keep the sandbox running at the end")
	flags.StringVar(&options.Dovetail, "dovetail", "", "Path of the dovetail binary. Default: in the directory of this binary")
	return command
}

// perform brings the sandbox up, plays, and takes it down. The supervisor stays on
// its leash: whatever ends this process ends the sandbox.
func perform(dir plane.Dir, own, keep bool, options plane.Options, pace demo.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	lock, err := takeDemo(dir, own)
	if err != nil {
		return err
	}
	leash, err := launch(dir, options, lock)
	_ = lock.Close() // The supervisor has its own reference.
	if err != nil {
		return errors.Join(err, dir.RemoveData())
	}
	defer func() { _ = leash.Close() }()
	state, err := supervise.Read(dir)
	if err == nil && state == nil {
		err = fmt.Errorf("the sandbox in %s stopped immediately after it started; its logs are in %s", dir, filepath.Dir(dir.Log("supervisor")))
	}
	if err == nil {
		fmt.Println()
		info, statErr := os.Stdout.Stat()
		pace.Terminal = statErr == nil && info.Mode()&os.ModeCharDevice != 0
		err = demo.Run(ctx, os.Stdout, state, pace)
	}
	interrupt := ctx.Err() != nil
	stop() // A second Ctrl-C ends this process at once, and the leash the rest.
	if interrupt {
		fmt.Println("interrupted: stopping the sandbox")
		err = exitError{errQuiet, interrupted}
	}
	if keep && !interrupt {
		if letErr := letGo(leash); letErr != nil {
			return errors.Join(err, letErr)
		}
		playOn(dir)
		return err
	}
	fmt.Println()
	if downErr := down(dir, false); downErr != nil {
		return errors.Join(err, downErr)
	}
	if err == nil {
		fmt.Printf("\nTo keep the sandbox running: `%s`. Then, for example:\n  %s\n",
			hintDemo(dir, own), hint(dir, "kubectl scale deployment inflate --replicas 30"))
	}
	return err
}

// takeDemo locks the demo's directory, or says whose it is.
func takeDemo(dir plane.Dir, own bool) (*os.File, error) {
	lock, err := supervise.Acquire(dir)
	if errors.Is(err, supervise.ErrLocked) {
		return nil, fmt.Errorf("a sandbox is already running in %s, and the demo needs a separate one: stop it with `%s`, or set another directory with --dir",
			dir, hint(dir, "down"))
	}
	if err != nil {
		return nil, err
	}
	if err := clearLeftovers(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if !dir.HasData() {
		return lock, nil
	}
	if own { // Of a demo that could not tidy up.
		if err := dir.RemoveData(); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		return lock, nil
	}
	return nil, errors.Join(lock.Close(), fmt.Errorf("%s contains the data of an earlier sandbox, and the demo needs a new one: remove them with `%s`, or set another directory with --dir",
		dir, hint(dir, "down")))
}

func playOn(dir plane.Dir) {
	fmt.Printf(`
The sandbox keeps running. To continue:
  %s
  %s
  %s
`, hint(dir, "kubectl scale deployment inflate --replicas 30"), hint(dir, "kubectl get nodeclaims,nodes"), hint(dir, "kubectl get pods -o wide --watch"))
	fmt.Printf("Stop it:\n  %s\n", hint(dir, "down"))
}

// hintDemo is a command that leaves the demo's sandbox up.
func hintDemo(dir plane.Dir, own bool) string {
	if own {
		return os.Args[0] + " demo --keep"
	}
	return hint(dir, "demo --keep")
}

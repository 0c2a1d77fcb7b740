// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verbs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

// The files that a supervisor inherits from up, after the standard three.
const (
	progressFD = 3 + iota // it writes events, one JSON line each
	leashFD               // it reads: a byte sets it free, the end before that means up is gone
	lockFD                // the directory's lock, held while it lives
)

// interrupted is the shell's status for a command ended by Ctrl-C.
const interrupted = 130

func newUp(resolve func() (plane.Dir, error)) *cobra.Command {
	var (
		options         plane.Options
		controllerFlags string
		noManifests     bool
		kubelets        bool
	)
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the sandbox, and Dovetail in it",
		Long: `Start the control plane, apply Dovetail's manifests, and start the simulated
cloud and Dovetail's controller. The command returns when all are ready, and
leaves them running; "down" stops them. Ctrl-C during startup stops everything.

A sandbox that was stopped with "down --keep" starts with its previous data.`,
		Example: `  # a cluster that Dovetail scales, with machines that boot as slowly as real ones
  dovetail-sandbox up

  # with an example NodePool, so that pending pods get nodes at once
  dovetail-sandbox up --nodepool

  # no waiting for machines and images, and one node that Dovetail does not manage
  dovetail-sandbox up --boot 0 --pull 0 --base m5.large

  # the same against a simulated AWS: EC2NodeClasses, fleets, interruptions
  dovetail-sandbox up --cloud aws

  # and with two Auto Scaling groups, for which Dovetail creates NodePools
  dovetail-sandbox up --cloud aws --groups

  # with Kubernetes' own kubelet on each machine instead of kwok
  dovetail-sandbox up --kubelets

  # only the control plane and the simulated cloud: run a controller of your own
  dovetail-sandbox up --no-autoscaler`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := resolve()
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the sandbox's own executable: %w", err)
			}
			if kubelets {
				options.Kubelets = filepath.Join(filepath.Dir(self), "dovetail-kubelet")
			}
			options.ControllerArgs = append(strings.Fields(controllerFlags), options.ControllerArgs...)
			if noManifests {
				options.Dovetail, options.NoAutoscaler = "", true
			} else if options.Dovetail == "" {
				options.Dovetail = filepath.Join(filepath.Dir(self), "dovetail")
			}
			if err := check(&options); err != nil {
				return err
			}
			return up(dir, options, command.Flags().Changed)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&options.NoAutoscaler, "no-autoscaler", false, "Do not start Dovetail's controller. Its manifests are applied")
	flags.DurationVar(&options.Boot, "boot", 35*time.Second, "Mean boot time: from the launch of a simulated instance until its node registers")
	flags.DurationVar(&options.Pull, "pull", 3*time.Second, "Mean time from binding a pod until it runs, varied by up to 20 %")
	flags.StringVar(&options.Catalog, "catalog", "", "File with instance types and prices of the simulated cloud. Default: EC2 us-east-1")
	flags.StringVar(&options.Base, "base", "", "Instance type of one additional node that Dovetail does not manage, for example m5.large")
	flags.Int64Var(&options.Seed, "seed", 1, "Seed for random boot and pull times")
	flags.StringVar(&options.Cloud, "cloud", plane.CloudKwok, "Cloud provider: kwok (KWOKNodeClass), or aws (EC2NodeClass on a simulated AWS)")
	flags.BoolVar(&options.NodePool, "nodepool", false, "Create the example NodePool default, which \"dovetail manifests --nodepool\" prints")
	flags.StringVar(&options.Groups, "groups", "", `With --cloud aws: create two Auto Scaling groups, which the controller discovers by
tags k8s.io/cluster-autoscaler/enabled and .../sandbox. --groups=FILE creates the
groups of a YAML list, in the format of sandbox/internal/plane/groups.yaml`)
	flags.Lookup("groups").NoOptDefVal = plane.OwnGroups
	flags.IntVar(&options.Replicas, "replicas", 1, "Number of controller replicas. With more than one, leader election is enabled")
	flags.IntVar(&options.ManagerQPS, "controller-manager-qps", plane.FastManager, "Maximum requests per second of kube-controller-manager. Its own default is 20:\na Deployment of 1,000 pods is then created in 48 s")
	flags.StringVar(&options.Dovetail, "dovetail", "", "Path of the dovetail binary. Default: in the directory of this binary")
	flags.StringVar(&controllerFlags, "controller-flags", "", "Additional flags of the controller, separated by spaces")
	flags.StringSliceVar(&options.FeatureGates, "feature-gates", nil, "Feature gates of the control plane, as NAME=true or NAME=false. If set, beta APIs are served")
	flags.StringArrayVar(&options.ControllerArgs, "controller-arg", nil, "Additional argument of the controller. Can be repeated")
	flags.StringArrayVar(&options.MachinesArgs, "machines-arg", nil, "Additional argument of the simulated cloud. Can be repeated")
	flags.BoolVar(&kubelets, "kubelets", false, "Run Kubernetes' own kubelet for each instance, without containers: bin/dovetail-kubelet, built by\n'make kubelet'. At most sixty instances")
	flags.BoolVar(&options.Audit, "audit", false, "Write Dovetail's requests to the API server to logs/audit.log (audit.k8s.io/v1)")
	flags.BoolVar(&noManifests, "no-manifests", false, "Start only the control plane and kwok, without Dovetail")
	if err := flags.MarkHidden("no-manifests"); err != nil {
		panic(err) // The flag is defined on the line above.
	}
	return command
}

// noArgs refuses arguments; one behind --groups was meant as its value.
func noArgs(command *cobra.Command, args []string) error {
	if groups := command.Flags().Lookup("groups"); len(args) > 0 && groups.Changed && groups.Value.String() == groups.NoOptDefVal {
		return fmt.Errorf("unknown argument %q; set the value of --groups with an equals sign: --groups=%s", args[0], args[0])
	}
	return cobra.NoArgs(command, args)
}

// check refuses options that would only fail later, inside a child's log.
func check(o *plane.Options) error {
	switch {
	case o.Boot < 0:
		return fmt.Errorf("--boot %s: must not be negative", o.Boot)
	case o.Pull < 0:
		return fmt.Errorf("--pull %s: must not be negative", o.Pull)
	case o.ManagerQPS < 1:
		return fmt.Errorf("--controller-manager-qps %d: must be at least 1", o.ManagerQPS)
	case o.Replicas < 1:
		return fmt.Errorf("--replicas %d: must be at least 1; use --no-autoscaler to start no controller", o.Replicas)
	case o.Cloud != plane.CloudKwok && o.Cloud != plane.CloudAWS:
		return fmt.Errorf("--cloud %s: must be kwok or aws", o.Cloud)
	case o.Groups != "" && (o.Cloud != plane.CloudAWS || o.Dovetail == ""):
		return errors.New("--groups: only the simulated AWS has Auto Scaling groups; add --cloud aws")
	case o.NodePool && o.Dovetail == "":
		return errors.New("--nodepool: --no-manifests installs no NodePool API; remove one of the two flags")
	case o.Kubelets != "" && o.Dovetail == "":
		return errors.New("--kubelets: only the simulated cloud has machines, and --no-manifests starts none")
	case o.Kubelets != "" && runtime.GOOS != "linux":
		return fmt.Errorf("--kubelets: the kubelet runs on Linux only, this is %s", runtime.GOOS)
	case o.Base != "" && o.Dovetail == "":
		return fmt.Errorf("--base %s: only the simulated cloud knows instance types, and --no-manifests starts none", o.Base)
	}
	if o.Groups != "" && o.Groups != plane.OwnGroups {
		abs, err := filepath.Abs(o.Groups)
		if err != nil {
			return fmt.Errorf("--groups=%s: %w", o.Groups, err)
		}
		o.Groups = abs // The supervisor works elsewhere.
	}
	if _, err := plane.ReadGroups(o.Groups); err != nil {
		return fmt.Errorf("--groups: %w", err)
	}
	if o.Kubelets != "" {
		if _, err := os.Stat(o.Kubelets); err != nil {
			return fmt.Errorf("--kubelets: no dovetail-kubelet at %s: build it with `make kubelet` (some minutes the first time)", o.Kubelets)
		}
	}
	for _, file := range []struct{ flag, path *string }{{new("--dovetail"), &o.Dovetail}, {new("--catalog"), &o.Catalog}} {
		if *file.path == "" {
			continue
		}
		abs, err := filepath.Abs(*file.path)
		if err != nil {
			return fmt.Errorf("%s %s: %w", *file.flag, *file.path, err)
		}
		*file.path = abs // The supervisor works elsewhere.
		info, err := os.Stat(abs)
		if err == nil && info.IsDir() {
			err = errors.New("is a directory")
		}
		if err != nil && *file.flag == "--dovetail" {
			return fmt.Errorf("no dovetail binary at %s: build it with `make build`, or set its path with --dovetail PATH", abs)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", *file.flag, abs, err)
		}
	}
	return nil
}

// up starts a sandbox. Of one that runs already it says where it is, or that it runs with other options than were asked for; said tells which flags
// were given.
func up(dir plane.Dir, options plane.Options, said func(flag string) bool) error {
	lock, err := supervise.Acquire(dir)
	if errors.Is(err, supervise.ErrLocked) {
		return alreadyUp(dir, options, said)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // The supervisor has its own reference.
	if err := clearLeftovers(dir); err != nil {
		return err
	}
	kept := dir.HasData()
	if kept {
		fmt.Printf("using the data of an earlier run in %s\n", dir)
	}
	leash, err := launch(dir, options, lock)
	if err != nil {
		if !kept { // A cluster that never was is not worth going on with.
			return errors.Join(err, dir.RemoveData())
		}
		return err
	}
	defer func() { _ = leash.Close() }()
	if err := letGo(leash); err != nil {
		return err
	}
	fmt.Printf("\n  kubeconfig  export KUBECONFIG=%s    (for dovetail, and for your own kubectl)\n  look        %s\n  stop        %s\n",
		dir.Kubeconfig(plane.Admin), hint(dir, "kubectl get nodes"), hint(dir, "down"))
	if options.Dovetail != "" && !options.NodePool && options.Groups == "" {
		fmt.Printf("  NodePool    %s manifests --nodepool %s | %s\n", options.Dovetail, options.Cloud, hint(dir, "kubectl apply -f -"))
	}
	if state, err := supervise.Read(dir); err == nil && state != nil {
		if ask := question(state); ask != "" {
			fmt.Printf("  ask         %s\n", ask)
		}
		if state.AWSURL != "" {
			fmt.Printf("  AWS         export %s\n", strings.Join(plane.AWSClientEnv(state.AWSURL), " "))
		}
	}
	return nil
}

// alreadyUp explains why a directory's lock is taken.
func alreadyUp(dir plane.Dir, options plane.Options, said func(flag string) bool) error {
	state, err := supervise.Read(dir)
	if err != nil {
		return err
	}
	switch {
	case state == nil || state.Phase == supervise.Starting:
		return fmt.Errorf("a sandbox is being started in %s by another command", dir)
	case state.Phase == supervise.Stopping:
		return fmt.Errorf("the sandbox in %s is being stopped; try again in a moment", dir)
	}
	fmt.Printf("the sandbox in %s is already running, since %s\nkubeconfig: %s\n",
		dir, state.StartedAt.Local().Format(time.DateTime), state.Kubeconfig)
	return errors.Join(otherOptions(dir, options, state.Options, said), reportDead(dir, state))
}

// flagValues is what each flag that shapes a sandbox comes to.
func flagValues(o plane.Options) map[string]string {
	return map[string]string{
		"no-autoscaler": strconv.FormatBool(o.NoAutoscaler), "boot": o.Boot.String(), "pull": o.Pull.String(), "catalog": o.Catalog, "base": o.Base,
		"seed": strconv.FormatInt(o.Seed, 10), "cloud": o.Cloud, "groups": o.Groups, "nodepool": strconv.FormatBool(o.NodePool), "replicas": strconv.Itoa(o.Replicas),
		"controller-manager-qps": strconv.Itoa(o.ManagerQPS), "dovetail": o.Dovetail, "controller-flags": strings.Join(o.ControllerArgs, " "),
		"controller-arg": strings.Join(o.ControllerArgs, " "), "machines-arg": strings.Join(o.MachinesArgs, " "), "no-manifests": strconv.FormatBool(o.Dovetail == ""),
		"audit": strconv.FormatBool(o.Audit), "kubelets": strconv.FormatBool(o.Kubelets != ""),
		"feature-gates": strings.Join(o.FeatureGates, ","),
	}
}

// otherOptions is the error of flags that ask for something else than what runs.
func otherOptions(dir plane.Dir, want, have plane.Options, said func(flag string) bool) error {
	wanted, running := flagValues(want), flagValues(have)
	var differ []string
	for _, flag := range slices.Sorted(maps.Keys(wanted)) {
		if said(flag) && wanted[flag] != running[flag] {
			differ = append(differ, fmt.Sprintf("--%s %s (it runs with %s)", flag, cmp.Or(wanted[flag], `""`), cmp.Or(running[flag], "none")))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("the running sandbox keeps its options; ignored: %s. Stop it with `%s`, or start another with --dir DIR",
		strings.Join(differ, ", "), hint(dir, "down"))
}

// reportDead says which children died, with the end of their logs.
func reportDead(dir plane.Dir, state *supervise.State) error {
	dead := state.Dead()
	for _, child := range dead {
		exit := child.Exit
		if child.State == supervise.Running {
			exit = "its exit was not recorded"
		}
		fmt.Fprintf(os.Stderr, "\n%s\n", supervise.DeathReport(child.Name, exit, child.Log))
	}
	if len(dead) > 0 {
		fmt.Fprintf(os.Stderr, "\nstart over with `%s` and `%s`\n", hint(dir, "down"), hint(dir, "up"))
		return errQuiet
	}
	return nil
}

// clearLeftovers ends what a supervisor that died without a chance left behind.
// The caller holds the lock, so nothing of it is anybody's.
func clearLeftovers(dir plane.Dir) error {
	state, err := supervise.Read(dir)
	if err != nil || state == nil {
		return err
	}
	left := append([]supervise.Child{{Name: "supervisor", Process: state.Supervisor}}, state.Components...)
	for _, child := range left {
		if !child.Alive() {
			continue
		}
		fmt.Printf("terminating %s (process %d), left over from an earlier run\n", child.Name, child.PID)
		if err := child.Kill(); err != nil {
			return err
		}
		if err := waitGone(child.Process); err != nil {
			return err
		}
	}
	return supervise.Remove(dir)
}

func waitGone(p supervise.Process) error {
	const limit = 10 * time.Second
	for deadline := time.Now().Add(limit); p.Alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d is still there %s after SIGKILL", p.PID, limit)
		}
	}
	return nil
}

// launch starts the supervisor, shows its progress and returns when all is up.
// The supervisor is on a leash: until the caller lets go of it, everything is
// torn down if this process goes, however it goes, or closes the leash.
func launch(dir plane.Dir, options plane.Options, lock *os.File) (*os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the sandbox's own executable: %w", err)
	}
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("encode the options: %w", err)
	}
	if err := dir.Prepare(); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(dir.Log("supervisor"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	events, eventsIn, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	leashOut, leash, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}

	// Before the supervisor exists, so that no signal finds it unattended.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	cmd := exec.Command(self, "supervise", "--dir", string(dir), "--options", string(encoded))
	cmd.Dir = string(dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{eventsIn, leashOut, lock} // progressFD, leashFD, lockFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	_, _ = eventsIn.Close(), leashOut.Close() // The supervisor's ends.

	stopped := false
	messages := decode(events)
	for {
		select {
		case received := <-signals:
			if !stopped {
				fmt.Printf("%s: stopping what was started\n", received)
				stopped = true
			}
			// Its end of the leash is how the supervisor learns of it.
			_ = leash.Close()
		case event, ok := <-messages:
			switch {
			case !ok: // The supervisor is gone or going, without a word.
				err := cmd.Wait()
				if stopped {
					return nil, exitError{errQuiet, interrupted}
				}
				return nil, fmt.Errorf("the supervisor exited early (%v); the last lines of %s:\n%s", err, dir.Log("supervisor"), supervise.LogTail(dir.Log("supervisor"), 15))
			case event.Up && !stopped:
				fmt.Printf("the sandbox is up after %.1fs\n", event.Elapsed.Seconds())
				return leash, nil
			case event.Step != "":
				fmt.Printf("%s %.1fs\n", event.Step, event.Elapsed.Seconds())
			case event.Note != "":
				fmt.Println(event.Note)
			case event.Failed != "":
				_ = cmd.Wait() // Nothing must be left when we return.
				if stopped {
					return nil, exitError{errQuiet, interrupted}
				}
				fmt.Fprintf(os.Stderr, "the sandbox did not come up: %s\n", event.Failed)
				return nil, errQuiet
			}
		}
	}
}

// letGo makes the supervisor outlive this process.
func letGo(leash *os.File) error {
	if _, err := leash.Write([]byte{'.'}); err != nil {
		return fmt.Errorf("let go of the supervisor: %w", err)
	}
	return nil
}

func decode(events io.Reader) <-chan supervise.Event {
	messages := make(chan supervise.Event)
	go func() {
		defer close(messages)
		for decoder := json.NewDecoder(events); ; {
			var event supervise.Event
			if decoder.Decode(&event) != nil {
				return
			}
			messages <- event
		}
	}()
	return messages
}

func newSupervise(resolve func() (plane.Dir, error)) *cobra.Command {
	encoded := ""
	command := &cobra.Command{
		Use:    "supervise",
		Short:  "Run the sandbox (up starts this)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := resolve()
			if err != nil {
				return err
			}
			var options plane.Options
			if err := json.Unmarshal([]byte(encoded), &options); err != nil {
				return fmt.Errorf("decode --options: %w", err)
			}
			return superviseUntilTold(dir, options)
		},
	}
	command.Flags().StringVar(&encoded, "options", "{}", "Options of up, as JSON")
	return command
}

func superviseUntilTold(dir plane.Dir, options plane.Options) error {
	// The children must inherit none of these: a child that held the lock
	// would keep it after us.
	for _, fd := range []int{progressFD, leashFD, lockFD} {
		syscall.CloseOnExec(fd)
	}
	progress := os.NewFile(progressFD, "progress")
	leash := os.NewFile(leashFD, "leash")
	lock := os.NewFile(lockFD, "lock")
	if progress == nil || leash == nil || lock == nil {
		return errors.New("supervise is started by up, which hands it files")
	}
	signal.Ignore(syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if n, _ := leash.Read(make([]byte, 1)); n == 0 {
			cancel()
		}
	}()
	err := supervise.Run(ctx, dir, options, progress)
	_ = lock.Close() // Held to the very end.
	return err
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // CronJobs name time zones, and the host may have no zone files.

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/simcloud"
	"github.com/dovetail-sh/dovetail/sandbox/internal/verbs"
)

// components are the programs inside; each returns the process's exit status.
var components = map[string]func(dir string) int{
	plane.Etcd:              runEtcd,
	plane.APIServer:         func(string) int { return cli.Run(newAPIServerCommand()) },
	plane.ControllerManager: func(string) int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	plane.Scheduler:         func(string) int { return cli.Run(scheduler.NewSchedulerCommand()) },
	plane.Kwok:              func(string) int { return runKwok() },
	plane.Machines:          func(string) int { return runMachines() },
	"kubectl":               runKubectl,
}

// runComponent becomes the named program and does not return. The programs
// read os.Args themselves (cobra, kubectl's plugin search, etcd's dispatch), so
// it is set to what they would see as binaries of their own.
func runComponent(name string, args []string, dir string) {
	os.Args = append([]string{name}, args...)
	os.Exit(components[name](dir))
}

func runEtcd(string) int {
	etcdmain.Main(os.Args)
	return 0
}

func runKwok() int {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}

	ctx := kwoksignals.SetupSignalContext()
	ctx, logger := kwoklog.InitFlags(ctx, flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("read the configuration", "err", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	// Kubernetes' own --version, which is not a plain switch, is in the
	// process-wide flag set; cobra would take it for kwok's.
	command.Version = ""
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("run kwok", "err", err)
		return 1
	}
	return 0
}

func runMachines() int {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError) // Not the components' flags, as in main.
	if err := simcloud.NewCommand().Execute(); err != nil {
		return 1 // cobra has printed it.
	}
	return 0
}

// runKubectl points kubectl at the sandbox. The caller's KUBECONFIG and
// ~/.kube are never consulted: a command meant for the sandbox must not reach
// whatever cluster a person happens to be logged in to.
func runKubectl(dir string) int {
	env, err := verbs.KubectlEnv(dir, os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "dovetail-sandbox: %v\n", err)
		return 1
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintf(os.Stderr, "dovetail-sandbox: set %s: %v\n", name, err)
			return 1
		}
	}
	// Errors are ignored as in kubectl itself: a bad -v is reported by the parser.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // Prints as kubectl does and exits with its status.
	}
	return 0
}

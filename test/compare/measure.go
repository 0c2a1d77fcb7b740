// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// measure runs the workload with one system in a new sandbox.
func measure(ctx context.Context, system string, o options) (run *Run, err error) {
	run = &Run{System: system}
	if run.Busy, err = busy(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dovetail-compare-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	catalogue, err := scaledown.WriteCatalogue(dir)
	if err != nil {
		return nil, err
	}
	// A node too small for any pod: without nodes, kube-scheduler retries a new pod after one second at the earliest.
	flags := []string{"--boot", "0", "--pull", "0", "--catalog", catalogue, "--base", "c-1x-amd64-linux"}
	if system != dovetail {
		flags = append(flags, "--no-autoscaler")
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	followed, err := watch.Follow(ctx, s, "default")
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: followed, catalogue: catalogue, below: o.Below}
	log := filepath.Join(o.dir, strings.ReplaceAll(strings.ToLower(system), " ", "-")+".log")
	stop, err := c.startSystem(ctx, system, o, log)
	if err != nil {
		return nil, err
	}
	defer stop()
	server, err := s.Kube.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	run.Kubernetes = server.GitVersion
	if run.Version, err = version(system, o, log); err != nil {
		return nil, err
	}
	return run, c.work(ctx, o, run)
}

// work runs the workload and measures it.
func (c *cluster) work(ctx context.Context, o options, run *Run) error {
	start, err := c.start(ctx)
	if err != nil {
		return err
	}
	burst, err := c.burst(ctx, o.Pods/2)
	if err != nil {
		return err
	}
	down, err := c.scaleDown(ctx, o.Pods/2, o.Still, o.Longest)
	if err != nil {
		return err
	}
	run.Start, run.Burst, run.ScaleDown = *start, *burst, *down
	return nil
}

// startSystem starts a system (the sandbox starts Dovetail) and returns when it can launch nodes.
func (c *cluster) startSystem(ctx context.Context, system string, o options, log string) (stop func(), err error) {
	stop = func() {}
	switch system {
	case karpenter:
		stop, err = c.Sandbox.StartKarpenter(o.karpenter, c.catalogue, log)
	case clusterAutoscaler:
		templates, err := templates(c.catalogue, o.Below)
		if err != nil {
			return nil, err
		}
		after := o.ConsolidateAfter.String()
		return c.Sandbox.StartClusterAutoscaler(ctx, o.clusterAuto, templates, log, "--expander=least-waste",
			"--scale-down-unneeded-time="+after, "--scale-down-delay-after-add="+after)
	}
	if err != nil {
		return nil, err
	}
	if err := scaledown.CreatePool(ctx, c.Sandbox, o.Below, o.ConsolidateAfter, "100%"); err != nil {
		stop()
		return nil, err
	}
	if err := c.poolsReady(ctx, "default"); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// poolsReady waits until NodePools are Ready.
func (c *cluster) poolsReady(ctx context.Context, names ...string) error {
	for _, name := range names {
		var asked error
		_, err := c.follow(ctx, "NodePool "+name+" to be Ready", patience, 100*time.Millisecond, func() bool {
			p, err := sandbox.Get[karpv1.NodePool](ctx, c.Sandbox, "/apis/karpenter.sh/v1/nodepools/"+name)
			if asked = err; err != nil {
				return false
			}
			return slices.ContainsFunc(p.Status.Conditions, func(x metav1.Condition) bool { return x.Type == "Ready" && x.Status == "True" })
		})
		if err != nil {
			return errors.Join(err, asked)
		}
	}
	return nil
}

// templates returns one on-demand node in the first zone for each instance type of a catalog with fewer CPUs than below (0: no limit).
func templates(file string, below int) (out []corev1.Node, err error) {
	cat, err := catalog.Load(file)
	if err != nil {
		return nil, err
	}
	amounts := func(a catalog.Amounts) corev1.ResourceList {
		list := corev1.ResourceList{}
		for name, v := range a {
			if name == "cpu" {
				list[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
				continue
			}
			list[corev1.ResourceName(name)] = *resource.NewQuantity(v, resource.BinarySI)
		}
		return list
	}
	for _, t := range cat.Types {
		if below > 0 && t.Capacity["cpu"] >= int64(below)*1000 {
			continue
		}
		out = append(out, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: map[string]string{corev1.LabelInstanceTypeStable: t.Name, karpv1.LabelCapacityType: "on-demand",
				corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: cat.Zones()[0]}},
			Status: corev1.NodeStatus{Capacity: amounts(t.Capacity), Allocatable: amounts(t.Allocatable)},
		})
	}
	return out, nil
}

// version returns the version that a system reports.
func version(system string, o options, log string) (string, error) {
	switch system {
	case karpenter:
		return moduleVersion(o.karpenter, "sigs.k8s.io/karpenter")
	case karpenterFleet:
		return moduleVersion(o.karpenterAWS, "github.com/aws/karpenter-provider-aws")
	case clusterAutoscaler, clusterAutoscalerGroups:
		text, err := os.ReadFile(log)
		if err != nil {
			return "", err
		}
		if said := regexp.MustCompile(`Cluster Autoscaler (\S+)`).FindSubmatch(text); said != nil {
			return string(said[1]) + builtWith(o.clusterAuto), nil
		}
		return "", fmt.Errorf("%s does not contain the version of cluster autoscaler", log)
	}
	_, bin, err := sandbox.Binaries()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(bin, "version").Output()
	if err != nil {
		return "", fmt.Errorf("get the version of %s: %w", bin, err)
	}
	said := strings.TrimPrefix(strings.TrimSpace(string(out)), "dovetail ")
	if said != "devel" {
		return said, nil
	}
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output() // the binary was built without VCS information
	if err != nil {
		return "", fmt.Errorf("get the git commit of %s: %w", bin, err)
	}
	return strings.TrimSpace(string(commit)), nil
}

// moduleVersion returns the version of a module that a binary was built from.
func moduleVersion(binary, module string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", binary, err)
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			return m.Version, nil
		}
	}
	return "", fmt.Errorf("read the version of %s: it was not built from %s", binary, module)
}

// builtWith returns the Kubernetes version of a binary's scheduler, for builds without a version of their own. It is empty if unknown.
func builtWith(binary string) string {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			if m.Replace != nil {
				m = m.Replace
			}
			return " (with Kubernetes " + m.Version + ")"
		}
	}
	return ""
}

// machine describes the machine that the comparison runs on.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if said := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(text); said != nil {
			model = string(said[1])
		}
	}
	return fmt.Sprintf("%d × %s, %s", runtime.NumCPU(), model, runtime.GOOS)
}

// busy returns the CPU use of other processes within two seconds, in percent of all CPUs.
func busy(ctx context.Context) (float64, error) {
	all0, idle0, err := processors()
	if err != nil {
		return 0, err
	}
	wait := time.NewTimer(2 * time.Second)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	all1, idle1, err := processors()
	if err != nil {
		return 0, err
	}
	return round(100 * (1 - (idle1-idle0)/(all1-all0))), nil
}

// processors returns the total and the idle CPU time, in ticks.
func processors() (all, idle float64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("CPU use can only be measured on Linux: %w", err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	for i, f := range strings.Fields(string(line))[1:] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		if all += n; i == 3 || i == 4 { // idle, and waiting for disks
			idle += n
		}
	}
	return all, idle, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command compare puts Dovetail beside the two autoscalers that people use today: Karpenter's own KWOK controller and, where its
// binary is given, Cluster Autoscaler with its kwok provider. Each runs on a sandbox of its own, one after another: the same real
// control plane, instance types and prices, nodes that take no time to boot, and the same work, in this order: a Deployment
// of one pod, a burst, and that burst scaled down to 30 %. What capacity held ahead of demand is worth is replayed from a web log
// by test/headroom.
//
// With -boot it compares on the simulated AWS instead: Dovetail on EC2 Fleet and on Auto Scaling groups, Karpenter's controller for AWS and, where its binary is
// given, Cluster Autoscaler on the same groups, with a Deployment of one pod, a burst, its scale-down, and spot interruptions in the middle of that.
// `make compare-aws` runs that.
//
// It writes results.json, compare.md, compare.svg and compare.html (one file, nothing fetched) into a directory, after each run anew.
// -continue takes up a comparison that was interrupted; -render writes the pages from results that are there. `make compare` runs
// it; `make build` comes first. Start reading at main.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The systems, as they are named in results and pages.
const (
	dovetail          = "Dovetail"
	karpenter         = "Karpenter"
	clusterAutoscaler = "Cluster Autoscaler"
)

// Settings are what the runs of one comparison share.
type Settings struct {
	Pods             int           `json:"pods"`      // of the burst
	Below            int           `json:"belowCPUs"` // only instance types of fewer CPUs
	ConsolidateAfter time.Duration `json:"consolidateAfter"`
	Still            time.Duration `json:"still"`          // nothing has changed for so long: at rest
	Longest          time.Duration `json:"longest"`        // rest is waited for so long after the scale-down
	Boot             time.Duration `json:"boot,omitempty"` // of instances on the simulated AWS; 0: the comparison on Karpenter's KWOK catalogue
}

// Run is one system's way through the work.
type Run struct {
	System     string    `json:"system"`
	Version    string    `json:"version"`
	Kubernetes string    `json:"kubernetes"`
	Busy       float64   `json:"busyPercent"` // of all processors, before the run began
	Start      Start     `json:"start"`
	Burst      Burst     `json:"burst"`
	ScaleDown  ScaleDown `json:"scaleDown"`
	Booting    AWSRun    `json:"booting,omitzero"` // on the simulated AWS, with Settings.Boot
	Ready      AWSRun    `json:"ready,omitzero"`   // the same with instances that are ready at once
}

// Results is all that is known: results.json.
type Results struct {
	Settings Settings  `json:"settings"`
	Machine  string    `json:"machine"`
	Runs     []Run     `json:"runs"`
	Headroom []Horizon `json:"headroom"` // by boot time
}

type options struct {
	Settings
	systems                string
	runs, most             int
	seed                   int // of the sandbox: the number of the run
	karpenter, clusterAuto string
	karpenterAWS           string
	dir                    string
	resume, renderOnly     bool
}

func main() {
	var o options
	flag.IntVar(&o.Pods, "pods", 1000, "pods of the burst, half of them small")
	flag.IntVar(&o.Below, "below", 32, "launch only instance types of fewer CPUs (0: any)")
	flag.DurationVar(&o.ConsolidateAfter, "consolidate-after", 30*time.Second, "the NodePool's consolidateAfter; --scale-down-unneeded-time of Cluster Autoscaler")
	flag.DurationVar(&o.Still, "still", time.Minute, "nothing has changed for so long: at rest")
	flag.DurationVar(&o.Longest, "longest", 20*time.Minute, "wait for rest so long after the scale-down, and say so where there was none")
	flag.IntVar(&o.runs, "runs", 7, "runs of each system; the medians are shown")
	flag.IntVar(&o.most, "most", 0, "end after so many further runs (0: all that are missing)")
	flag.StringVar(&o.karpenter, "karpenter", "", "path of Karpenter's KWOK controller (make compare builds it); empty: leave it out")
	flag.DurationVar(&o.Boot, "boot", 0, "compare on the simulated AWS, with instances that boot in this time and then with instances that are ready at once (0: compare on Karpenter's KWOK catalogue)")
	flag.StringVar(&o.karpenterAWS, "karpenter-aws", "", "with -boot: path of Karpenter's controller for AWS (make compare-aws builds it); empty: leave it out")
	flag.StringVar(&o.clusterAuto, "cluster-autoscaler", "", "path of Cluster Autoscaler's binary with its kwok provider, with -boot with its AWS provider; empty: leave it out")
	flag.StringVar(&o.systems, "systems", "", "run only these, of "+strings.Join(systems, ", ")+" (default: all that are given)")
	flag.StringVar(&o.dir, "dir", filepath.Join("bench-out", "compare"), "directory that results and pages are written to")
	flag.BoolVar(&o.resume, "continue", false, "keep the runs of results.json and add those that are missing")
	flag.BoolVar(&o.renderOnly, "render", false, "write the pages from results.json and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

var systems = []string{dovetail, karpenter, clusterAutoscaler, dovetailFleet, dovetailGroups, karpenterFleet, clusterAutoscalerGroups}

func compare(ctx context.Context, o options) error {
	r, err := begin(o)
	if err != nil {
		return err
	}
	if o.renderOnly {
		return write(o.dir, r)
	}
	if r.Headroom == nil && !o.onAWS() {
		if r.Headroom, err = replayHeadroom(ctx); err != nil {
			return err
		}
	}
	if err := write(o.dir, r); err != nil {
		return err
	}
	wanted, err := o.wanted()
	if err != nil {
		return err
	}
	done := 0
	for i := range o.runs { // in turns, so that what else the machine does weighs on all
		for _, system := range wanted {
			if count(r.Runs, system) > i {
				continue
			}
			if o.most > 0 && done == o.most {
				return nil
			}
			fmt.Fprintf(os.Stderr, "%s, run %d of %d\n", system, i+1, o.runs)
			o.seed = i + 1
			one := measure
			if o.onAWS() {
				one = measureAWS
			}
			run, err := one(ctx, system, o)
			if err != nil {
				return fmt.Errorf("%s: %w", system, err)
			}
			fmt.Fprintln(os.Stderr, run.summary())
			r.Runs = append(r.Runs, *run)
			if err := write(o.dir, r); err != nil {
				return err
			}
			done++
		}
	}
	fmt.Printf("%s\n", filepath.Join(o.dir, "compare.html"))
	return nil
}

// summary describes a run in one line.
func (r *Run) summary() string {
	if r.Booting.Burst.Nodes > 0 {
		b := r.Booting
		return fmt.Sprintf("%s: one pod %.1f s and %.2f s, burst %.1f s and %.1f s; scaled down %.1f s to $%.2f/h, %d evictions; %d instances interrupted: %.1f s, a pod waits %.1f s", r.System, b.Start.RunningMs/1000,
			r.Ready.Start.RunningMs/1000, b.Burst.Seconds, r.Ready.Burst.Seconds, b.ScaleDown.Seconds, b.ScaleDown.USD, b.ScaleDown.Evictions, b.Interruption.Instances, b.Interruption.Seconds, b.Interruption.Down)
	}
	return fmt.Sprintf("%s: one pod %.0f ms; %d pods %.1f s, %.3f of the bound; scaled down %.1f s, %.3f of the bound, %d evictions",
		r.System, r.Start.RunningMs, r.Burst.Pods, r.Burst.Seconds, r.Burst.OverBound, r.ScaleDown.Seconds, r.ScaleDown.OverBound, r.ScaleDown.Evictions)
}

// begin is what a comparison begins with: nothing, or what results.json holds.
func begin(o options) (*Results, error) {
	file := filepath.Join(o.dir, "results.json")
	if !o.resume && !o.renderOnly {
		return &Results{Settings: o.Settings, Machine: machine()}, os.MkdirAll(o.dir, 0o755)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the results to go on with: %w", err)
	}
	r := &Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if o.resume && r.Settings != o.Settings {
		return nil, fmt.Errorf("%s was measured with %+v, not with %+v: give the same flags, or begin anew without -continue", file, r.Settings, o.Settings)
	}
	return r, nil
}

// wanted are the systems to run, in order.
func (o *options) wanted() ([]string, error) {
	given := map[string]bool{dovetail: true, karpenter: o.karpenter != "", clusterAutoscaler: o.clusterAuto != ""}
	if o.onAWS() {
		given = map[string]bool{dovetailFleet: true, dovetailGroups: true, karpenterFleet: o.karpenterAWS != "", clusterAutoscalerGroups: o.clusterAuto != ""}
	}
	if o.systems == "" {
		return slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return !given[s] }), nil
	}
	var out []string
	for _, s := range strings.Split(o.systems, ",") {
		if s = strings.TrimSpace(s); !slices.Contains(systems, s) {
			return nil, fmt.Errorf("-systems %s: want some of %s", s, strings.Join(systems, ", "))
		} else if !given[s] {
			return nil, fmt.Errorf("-systems %s: its binary is not given, or it is part of the other comparison", s)
		}
		out = append(out, s)
	}
	return out, nil
}

func count(runs []Run, system string) (n int) {
	for _, r := range runs {
		if r.System == system {
			n++
		}
	}
	return n
}

// Horizon is the replay of test/headroom for machines of one boot time.
type Horizon struct {
	BootMinutes int     `json:"bootMinutes"`
	Standing    []Point `json:"standing"`
	Forecast    []Point `json:"forecast"`
}

// Point is what one way to hold capacity ahead of demand comes to.
type Point struct {
	Policy  string  `json:"policy"`
	Waiting float64 `json:"waiting"` // pod-minutes pending per thousand pod-minutes
	Idle    float64 `json:"idle"`    // percent of pod-minutes
}

// replayHeadroom runs test/headroom on its plain model of capacity: seconds.
func replayHeadroom(ctx context.Context) ([]Horizon, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, "go", "run", "./test/headroom", "-plain", "-json")
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("replay the month of headroom: go run ./test/headroom -plain -json: %w\n%s", err, said.String())
	}
	var out []Horizon
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read what test/headroom printed: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("test/headroom printed no result")
	}
	return out, nil
}

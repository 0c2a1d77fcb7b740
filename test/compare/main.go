// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command compare compares Dovetail with Karpenter's KWOK controller and, if its binary is given, with Cluster Autoscaler and its kwok
// provider. Each runs in a separate sandbox, one after another, with the same real control plane, instance types and prices, nodes that
// boot immediately, and the same workload: a Deployment of one pod, a burst, and a scale-down of the burst to 30 %. Capacity held ahead of
// demand is measured by test/headroom, which replays a web log.
//
// With -boot, it compares on the simulated AWS instead: Dovetail on EC2 Fleet and on Auto Scaling groups, Karpenter's AWS controller and, if
// its binary is given, Cluster Autoscaler on the same groups, with a Deployment of one pod, a burst, its scale-down, and spot interruptions
// during the scale-down. `make compare-aws` runs this comparison.
//
// After each run, results.json, compare.md, compare.svg and compare.html (self-contained) are rewritten. -continue resumes an interrupted
// comparison; -render writes the pages from existing results. `make compare` runs it, after `make build`. Start reading at main.
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

// Names of the systems in results and pages.
const (
	dovetail          = "Dovetail"
	karpenter         = "Karpenter"
	clusterAutoscaler = "Cluster Autoscaler"
)

// Settings are shared by all runs of a comparison.
type Settings struct {
	Pods             int           `json:"pods"`      // of the burst
	Below            int           `json:"belowCPUs"` // only instance types with fewer CPUs
	ConsolidateAfter time.Duration `json:"consolidateAfter"`
	Still            time.Duration `json:"still"`          // the cluster is stable after this time without changes
	Longest          time.Duration `json:"longest"`        // longest wait for a stable cluster after the scale-down
	Boot             time.Duration `json:"boot,omitempty"` // boot time of instances on the simulated AWS; 0: compare on Karpenter's KWOK catalog
}

// Run is the result of one run of a system.
type Run struct {
	System     string    `json:"system"`
	Version    string    `json:"version"`
	Kubernetes string    `json:"kubernetes"`
	Busy       float64   `json:"busyPercent"` // CPU use of other processes before the run
	Start      Start     `json:"start"`
	Burst      Burst     `json:"burst"`
	ScaleDown  ScaleDown `json:"scaleDown"`
	Booting    AWSRun    `json:"booting,omitzero"` // on the simulated AWS, with Settings.Boot
	Ready      AWSRun    `json:"ready,omitzero"`   // the same with instances that boot immediately
}

// Results is the contents of results.json.
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
	flag.IntVar(&o.Pods, "pods", 1000, "number of pods in the burst; half of them are small")
	flag.IntVar(&o.Below, "below", 32, "launch only instance types with fewer CPUs (0: no limit)")
	flag.DurationVar(&o.ConsolidateAfter, "consolidate-after", 30*time.Second, "consolidateAfter of the NodePool, and --scale-down-unneeded-time of Cluster Autoscaler")
	flag.DurationVar(&o.Still, "still", time.Minute, "time without changes after which the cluster is stable")
	flag.DurationVar(&o.Longest, "longest", 20*time.Minute, "longest wait for a stable cluster after the scale-down")
	flag.IntVar(&o.runs, "runs", 7, "runs of each system; medians are printed")
	flag.IntVar(&o.most, "most", 0, "maximum number of runs before exit (0: all missing runs)")
	flag.StringVar(&o.karpenter, "karpenter", "", "path of Karpenter's KWOK controller (built by make compare); omitted if empty")
	flag.DurationVar(&o.Boot, "boot", 0, "compare on the simulated AWS: first with this boot time, then without boot time (0: compare on Karpenter's KWOK catalog)")
	flag.StringVar(&o.karpenterAWS, "karpenter-aws", "", "with -boot: path of Karpenter's AWS controller (built by make compare-aws); omitted if empty")
	flag.StringVar(&o.clusterAuto, "cluster-autoscaler", "", "path of a Cluster Autoscaler binary with the kwok provider (with -boot: the AWS provider); omitted if empty")
	flag.StringVar(&o.systems, "systems", "", "comma-separated systems to run: "+strings.Join(systems, ", ")+" (default: all with a binary)")
	flag.StringVar(&o.dir, "dir", filepath.Join("bench-out", "compare"), "output directory")
	flag.BoolVar(&o.resume, "continue", false, "keep the runs in results.json and add missing runs")
	flag.BoolVar(&o.renderOnly, "render", false, "only write the pages from results.json")
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
	for i := range o.runs { // in turns, so that other load affects all systems
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
		return fmt.Sprintf("%s: one pod %.1f s and %.2f s, burst %.1f s and %.1f s; scaled down %.1f s to $%.2f/h, %d evictions; %d instances interrupted: %.1f s, longest pod wait %.1f s", r.System, b.Start.RunningMs/1000,
			r.Ready.Start.RunningMs/1000, b.Burst.Seconds, r.Ready.Burst.Seconds, b.ScaleDown.Seconds, b.ScaleDown.USD, b.ScaleDown.Evictions, b.Interruption.Instances, b.Interruption.Seconds, b.Interruption.Down)
	}
	return fmt.Sprintf("%s: one pod %.0f ms; %d pods %.1f s, cost/bound %.3f; scaled down %.1f s, cost/bound %.3f, %d evictions",
		r.System, r.Start.RunningMs, r.Burst.Pods, r.Burst.Seconds, r.Burst.OverBound, r.ScaleDown.Seconds, r.ScaleDown.OverBound, r.ScaleDown.Evictions)
}

// begin returns the initial results: empty, or read from results.json.
func begin(o options) (*Results, error) {
	file := filepath.Join(o.dir, "results.json")
	if !o.resume && !o.renderOnly {
		return &Results{Settings: o.Settings, Machine: machine()}, os.MkdirAll(o.dir, 0o755)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read results to continue: %w", err)
	}
	r := &Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if o.resume && r.Settings != o.Settings {
		return nil, fmt.Errorf("%s was measured with %+v, not with %+v: use the same flags, or start over without -continue", file, r.Settings, o.Settings)
	}
	return r, nil
}

// wanted returns the systems to run, in order.
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
			return nil, fmt.Errorf("-systems: unknown system %q; use one or more of %s", s, strings.Join(systems, ", "))
		} else if !given[s] {
			return nil, fmt.Errorf("-systems: system %q has no binary, or is not part of this comparison", s)
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

// Horizon is the replay of test/headroom for one boot time.
type Horizon struct {
	BootMinutes int     `json:"bootMinutes"`
	Standing    []Point `json:"standing"`
	Forecast    []Point `json:"forecast"`
}

// Point is the result of one policy for capacity ahead of demand.
type Point struct {
	Policy  string  `json:"policy"`
	Waiting float64 `json:"waiting"` // pod-minutes pending per thousand pod-minutes
	Idle    float64 `json:"idle"`    // percent of pod-minutes
}

// replayHeadroom runs test/headroom with its simple capacity model, which takes seconds.
func replayHeadroom(ctx context.Context) ([]Horizon, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, "go", "run", "./test/headroom", "-plain", "-json")
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("replay headroom: go run ./test/headroom -plain -json: %w\n%s", err, said.String())
	}
	var out []Horizon
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read output of test/headroom: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("test/headroom printed no result")
	}
	return out, nil
}

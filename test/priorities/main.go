// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command priorities runs 72 Deployments in five priority classes, half of them with PodDisruptionBudgets, on a sandbox: first all pods are
// pending, then a third of the Deployments is scaled down, then Deployments are scaled randomly for the duration of -series. It prints as JSON
// the number of nodes relaunched soon after a removal, cancelled disruption commands, pods preempted by kube-scheduler, and the final cost over
// the proven bound. `make bench-priorities` runs it; with -karpenter, Karpenter's KWOK controller runs instead of Dovetail.
//
// All measurements use separate watches. Start reading at main.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// Result is what is printed.
type Result struct {
	Autoscaler string `json:"autoscaler"`
	Seed       uint64 `json:"seed"`
	Pods       int    `json:"pods"`  // wanted at the beginning
	Nodes      int    `json:"nodes"` // that held them, once all were running

	Phases []Phase `json:"phases"` // one for all pods at once, one for the scale-down, one for the series

	RestUSDPerHour float64 `json:"restUSDPerHour"`
	RestBound      float64 `json:"restUSDPerHourBound"`
	OverBound      float64 `json:"overBound"`
	RestSeconds    float64 `json:"secondsToRest"` // after the last change of the series
}

// Phase is what happened in one part of the series.
type Phase struct {
	Name          string  `json:"name"`
	Seconds       float64 `json:"seconds"`
	Launched      int     `json:"nodesLaunched"`
	Removed       int     `json:"nodesRemoved"`
	LaunchedAgain int     `json:"nodesLaunchedAgain"` // within a minute of a removal, without more pods being wanted than then
	Commands      float64 `json:"nodesDisrupted"`     // by the controller's own count
	TakenBack     float64 `json:"nodesTakenBack"`     // likewise
	Preemptions   int     `json:"preemptions"`
	Evictions     int     `json:"evictions"`
}

type options struct {
	seed      uint64
	workloads int
	series    time.Duration
	every     time.Duration
	after     time.Duration
	boot      time.Duration
	below     int
	dir       string
	karpenter string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "seed of all random choices")
	flag.IntVar(&o.workloads, "deployments", 72, "number of Deployments")
	flag.DurationVar(&o.series, "series", 6*time.Minute, "duration of the phase with random scaling")
	flag.DurationVar(&o.every, "every", 20*time.Second, "time between two changes in that phase")
	flag.DurationVar(&o.after, "consolidate-after", 10*time.Second, "consolidateAfter of the NodePool")
	flag.DurationVar(&o.boot, "boot", 5*time.Second, "boot time of a simulated machine")
	flag.IntVar(&o.below, "below", 9, "launch only instance types with fewer CPUs (0: no limit)")
	flag.StringVar(&o.karpenter, "karpenter", "", "path of Karpenter's KWOK controller to run instead of Dovetail")
	flag.StringVar(&o.dir, "dir", "", "directory for the sandbox's files (default: a temporary directory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	res, err := run(ctx, o)
	if res != nil {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = errors.Join(err, e.Encode(res))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "priorities:", err)
		os.Exit(1)
	}
}

// run returns what was measured. After an error the result has the phases that were finished.
func run(ctx context.Context, o options) (res *Result, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "dovetail-priorities-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(o.dir)
	}
	c := newCluster(o)
	if c.catalog, err = scaledown.WriteCatalogue(o.dir); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "starting a sandbox")
	res = &Result{Autoscaler: "dovetail", Seed: o.seed}
	if o.karpenter != "" {
		res.Autoscaler = "karpenter"
	}
	var stop func() error
	c.Cluster, stop, err = watch.Start(ctx, watch.Options{Dir: o.dir, Catalog: c.catalog, Karpenter: o.karpenter, Namespace: "default", Flags: []string{"--boot", o.boot.String(), "--pull", "1s"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return res, c.play(ctx, res)
}

// play runs the three parts and fills in the result.
func (c *cluster) play(ctx context.Context, res *Result) error {
	res.Pods = c.wanted()
	err := c.phase(ctx, res, "all pods at once", func() error {
		if err := c.createAll(ctx); err != nil {
			return err
		}
		if err := c.Until(ctx, "all pods to be pending before there is a NodePool", 10*time.Minute, func() bool { return len(c.Pods) == res.Pods }); err != nil {
			return err
		}
		if err := scaledown.CreatePool(ctx, c.Sandbox, c.below, c.after, "100%"); err != nil {
			return err
		}
		return c.settle(ctx)
	})
	if err != nil {
		return err
	}
	nodes, err := c.Standing()
	if err != nil {
		return err
	}
	res.Nodes = len(nodes)
	err = c.phase(ctx, res, "a third scaled down", func() error {
		for i := range c.workloads {
			if i%3 == 0 {
				if err := c.scale(ctx, i, max(1, c.workloads[i].replicas*2/5)); err != nil {
					return err
				}
			}
		}
		return c.Idle(ctx, time.Minute)
	})
	if err != nil {
		return err
	}
	err = c.phase(ctx, res, "up and down", func() error {
		for end := time.Now().Add(c.series); time.Now().Before(end); {
			for range 3 {
				i := c.rnd.IntN(len(c.workloads))
				if err := c.scale(ctx, i, 1+c.rnd.IntN(2*c.workloads[i].usual)); err != nil {
					return err
				}
			}
			if err := c.Idle(ctx, c.every); err != nil {
				return err
			}
		}
		last := time.Now()
		if err := c.settle(ctx); err != nil {
			return err
		}
		res.RestSeconds = round(max(0, c.Changed.Sub(last).Seconds()))
		return nil
	})
	if err != nil {
		return err
	}
	if nodes, err = c.Standing(); err != nil {
		return err
	}
	if res.RestBound, err = c.bound(ctx); err != nil {
		return err
	}
	res.RestUSDPerHour, res.OverBound = round(watch.Sum(nodes)), round(watch.Sum(nodes)/res.RestBound)
	return nil
}

// phase runs one part and adds what happened in it.
func (c *cluster) phase(ctx context.Context, res *Result, name string, do func() error) error {
	fmt.Fprintln(os.Stderr, name)
	began := time.Now()
	before, err := c.scrape(ctx)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after, err := c.scrape(ctx)
	if err != nil {
		return err
	}
	p := c.count(began)
	p.Name, p.Seconds = name, round(time.Since(began).Seconds())
	p.Commands, p.TakenBack = after.disrupted-before.disrupted, after.takenBack-before.takenBack
	res.Phases = append(res.Phases, p)
	fmt.Fprintf(os.Stderr, "  %+v\n", p)
	return nil
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

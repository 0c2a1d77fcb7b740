// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command hostile creates pods of one tenant that are as expensive to plan as possible, and measures how long ten ordinary
// pods of another namespace wait for their node. Pods are processed as in the controller, in this process: translation,
// state, decision, verification, texts of the reasons. For each shape it prints the CPU time of the translation and of
// the most expensive step, and it fails if a target is missed. With -landed, 90 % of the tenant's pods are already running,
// and the rest is measured. `make bench-hostile` runs both.
//
// With -live, a sandbox is started for each shape of the table (or those selected by -only and -shapes), and 100 ordinary
// pods are created one after another, in addition to the tenant's. Pods without NodeClaim at the end of -limit are
// reported, and count with this time. Dovetail's part of the wait is the time between the watch event of the pod, or
// kube-scheduler's verdict, and the NodeClaim. The CPU time of each process is also printed. For comparison, -floor
// creates NodeClaims without Dovetail, and the last shape has no tenant.
//
// Start reading at main; the shapes are in shapes.go and drawn.go, the processing in drive.go and live.go.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Targets in milliseconds and MiB.
const (
	maxLatency = 1000
	maxStep    = 500
	maxHeap    = 500
)

func main() {
	only := flag.String("only", "", "run only shapes whose name contains this text")
	seed := flag.Uint64("seed", 1, "seed of the random shapes")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file; with -live: of the controller, while the ordinary pods are created")
	landed := flag.Bool("landed", false, "90 % of the tenant's pods are already running, each on a separate node")
	live := flag.Bool("live", false, "run on a sandbox with API server and kube-scheduler: the shapes of the table, or those selected by -only")
	floor := flag.Bool("floor", false, "with -live: measure without Dovetail: NodeClaims are created when kube-scheduler has refused a pod, or after 250 ms")
	numbers := flag.String("shapes", "", "with -live: numbers of the shapes to run, for example 3,5 or 7-14 or 7-46/5 (every fifth). 1 to 6 are in the table, then random shapes, then one without a tenant")
	limit := flag.Duration("limit", 4*time.Minute, "with -live: time limit of a shape, from the tenant's first pod")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	flag.Parse()
	if *live {
		shapes, err := chooseLive(*only, *numbers)
		if err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
			os.Exit(1)
		}
		if !runLive(shapes, liveOptions{seed: *seed, floor: *floor, limit: *limit, profile: *profile}, *asJSON) {
			os.Exit(1)
		}
		return
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
			os.Exit(1)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	var all []outcome
	missed := false
	for _, s := range slices.Concat(table(), drawn()) {
		if strings.Contains(s.name, *only) {
			o := try(s, *seed, *landed)
			missed = missed || o.misses()
			fmt.Fprintf(os.Stderr, "%-90s translate %7.0f ms  step %7.0f ms  wall %7.0f ms  heap %4.0f MiB  steps %d work %d  ordinary %d/10  answered %d/%d %s %s\n",
				o.Shape, o.Translate, o.Step, o.Wall, o.Heap, o.Steps, o.Work, o.Bought, o.Answered, o.Pods, o.Err, o.Reason)
			all = append(all, o)
		}
	}
	if *asJSON {
		printJSON(all)
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "shape\tpods\ttranslate ms\tstep ms\tordinary ms\theap MiB")
	for _, o := range all {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\n", o.Shape, o.Pods, o.Translate, o.Step, o.Latency, o.Heap)
	}
	w.Flush()
	if missed {
		fmt.Fprintf(os.Stderr, "hostile: a shape misses a target: %d ms until the ordinary pods have a node, %d ms of CPU time per step, %d MiB\n", maxLatency, maxStep, maxHeap)
		pprof.StopCPUProfile()
		os.Exit(1)
	}
}

func printJSON(all any) {
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
	}
}

// chooseLive returns the shapes that run on a sandbox: without a choice those of the table.
func chooseLive(only, numbers string) ([]shape, error) {
	if only == "" && numbers == "" {
		return table(), nil
	}
	all := slices.Concat(table(), drawn(), []shape{quiet()})
	chosen := make([]bool, len(all))
	for part := range strings.SplitSeq(cmp.Or(numbers, fmt.Sprintf("1-%d", len(all))), ",") {
		part, step, stepped := strings.Cut(part, "/")
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		if !stepped {
			step = "1"
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		by, err3 := strconv.Atoi(step)
		if errors.Join(err1, err2, err3) != nil || from < 1 || to < from || to > len(all) || by < 1 {
			return nil, fmt.Errorf("-shapes %s: use numbers from 1 to %d, for example 3,5 or 7-14 or 7-46/5", numbers, len(all))
		}
		for i := from - 1; i < to; i += by {
			chosen[i] = true
		}
	}
	var out []shape
	for i, s := range all {
		if chosen[i] && strings.Contains(s.name, only) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no shape matches -only %q and -shapes %q", only, numbers)
	}
	return out, nil
}

// runLive runs shapes on a sandbox each, prints the results, and reports whether every target is met.
func runLive(shapes []shape, with liveOptions, asJSON bool) (met bool) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var all []liveOutcome
	met = true
	for _, s := range shapes {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintln(os.Stderr, s.name)
		o := tryLive(ctx, s, with)
		for _, said := range []string{o.Cut, o.Err} {
			if said != "" {
				fmt.Fprintln(os.Stderr, "hostile:", said)
			}
		}
		met = met && !o.misses()
		all = append(all, o)
	}
	if asJSON {
		printJSON(all)
		return met
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "shape\tpods\trefused by the API server\tordinary pods with NodeClaim\tcreation to NodeClaim p50/p99 ms\tcreation to watch\twatch to NodeClaim\tverdicts\tcreation to verdict\tverdict to NodeClaim\tprocessor s: kube-apiserver, etcd, kube-scheduler, dovetail\tlongest step ms\tpeak MiB")
	for _, o := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d/%d\t%.0f/%.0f\t%.0f/%.0f\t%.0f/%.0f\t%d\t%.0f/%.0f\t%.0f/%.0f\t%.0f, %.0f, %.0f, %.0f\t<= %.0f\t%.0f\n", o.Shape, o.Pods, o.Refused, o.Served, o.Ordinary, o.P50, o.P99,
			o.Seen50, o.Seen99, o.After50, o.After99, o.Verdicts, o.Verdict50, o.Verdict99, o.VerdictTo50, o.VerdictTo99,
			o.Processor["kube-apiserver"], o.Processor["etcd"], o.Processor[sandbox.Scheduler], o.Processor[sandbox.Controller], o.LongestStep, o.Peak)
	}
	w.Flush()
	if !met {
		fmt.Fprintf(os.Stderr, "hostile: a shape misses a target: %d ms from creation to NodeClaim (p99), %d MiB\n", maxLatency, maxHeap)
	}
	return met
}

// misses reports whether a target is missed, or a pod has no answer. Pods of schedulers that are not Dovetail's get none.
func (o *outcome) misses() bool {
	return o.Err != "" || o.Bought < 10 || o.Latency > maxLatency || o.Step > maxStep || o.Heap > maxHeap
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command hostile has one tenant ask for what costs most to decide on, and measures how long ten ordinary pods of
// another namespace wait for their node. Pods go the controller's way in this process: translation, state, decision,
// verification, texts of the reasons. It prints for each shape the processor time of the translation and of the dearest
// step, and fails when a bar is missed. `make bench-hostile` runs it. With -live a sandbox is brought up for each shape of
// the table (or those that -only and -shapes name), and 100 ordinary pods are made one after another beside the tenant's.
// What of their wait is Dovetail's, two runs beside it tell: with -floor, where NodeClaims are made without it, and the
// last shape, which has no tenant.
//
// Start reading at main; the shapes are in shapes.go and drawn.go, the way of the pods in drive.go and live.go.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// The bars, in milliseconds and MiB.
const (
	barLatency = 1000
	barStep    = 500
	barHeap    = 500
)

func main() {
	only := flag.String("only", "", "run only shapes whose name contains this")
	seed := flag.Uint64("seed", 1, "seed of the drawn shapes")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	live := flag.Bool("live", false, "run on a sandbox, with its API server and kube-scheduler: the shapes of the table, or those that -only names")
	floor := flag.Bool("floor", false, "with -live: without Dovetail, how long NodeClaims take that are made as soon as kube-scheduler has refused a pod or 250 ms have passed")
	shapes := flag.String("shapes", "", "with -live: run only shapes of these numbers, such as 7-14; the table has 1 to 6, the drawn shapes follow, the last is without a tenant")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	flag.Parse()
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
	if *live {
		if !runLive(*only, *shapes, *seed, *floor, *asJSON) {
			pprof.StopCPUProfile()
			os.Exit(1)
		}
		return
	}
	var all []outcome
	missed := false
	for _, s := range slices.Concat(table(), drawn()) {
		if strings.Contains(s.name, *only) {
			o := try(s, *seed)
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
		fmt.Fprintf(os.Stderr, "hostile: a shape misses a bar: %d ms until the ordinary pods have a node, %d ms of processor time a step, %d MiB\n", barLatency, barStep, barHeap)
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

// runLive runs shapes on a sandbox each, prints what came of them, and says whether every bar is met.
func runLive(only, numbers string, seed uint64, floor, asJSON bool) (met bool) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	shapes := table()
	if only != "" || numbers != "" {
		shapes = slices.Concat(shapes, drawn(), []shape{quiet()})
	}
	if numbers != "" {
		var from, to int
		if _, err := fmt.Sscanf(numbers, "%d-%d", &from, &to); err != nil || from < 1 || to < from || to > len(shapes) {
			fmt.Fprintf(os.Stderr, "hostile: -shapes %s: want two numbers from 1 to %d, such as 7-14\n", numbers, len(shapes))
			return false
		}
		shapes = shapes[from-1 : to]
	}
	var all []liveOutcome
	met = true
	for _, s := range shapes {
		if strings.Contains(s.name, only) && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, s.name)
			o := tryLive(ctx, s, seed, floor)
			if o.Err != "" {
				fmt.Fprintln(os.Stderr, "hostile:", o.Err)
			}
			met = met && !o.misses()
			all = append(all, o)
		}
	}
	if asJSON {
		printJSON(all)
		return met
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "shape\tpods\trefused by the API server\tcreation to NodeClaim p50 ms\tp99 ms\tcreation to verdict p50 ms\tp99 ms\tverdict to NodeClaim p99 ms\tpeak MiB")
	for _, o := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n", o.Shape, o.Pods, o.Refused, o.P50, o.P99, o.Verdict50, o.Verdict99, o.After99, o.Peak)
	}
	w.Flush()
	if !met {
		fmt.Fprintf(os.Stderr, "hostile: a shape misses a bar: %d ms from creation to a NodeClaim (p99), %d MiB\n", barLatency, barHeap)
	}
	return met
}

// misses says whether a bar is missed, or a pod has no answer. Pods of schedulers that are not Dovetail's get none.
func (o *outcome) misses() bool {
	return o.Err != "" || o.Bought < 10 || o.Latency > barLatency || o.Step > barStep || o.Heap > barHeap
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command headroom replays the demand of a workload in steps of one minute, with several policies for capacity ahead of
// demand: none, a fixed buffer, and the forecast of internal/forecast at several prices. For each policy it prints how long
// pods wait (pending pod-minutes per thousand pod-minutes) and how much capacity is idle (percent of pod-minutes), and
// compares them at equal idle capacity. `make bench-headroom` runs it.
//
// A trace is replayed on nodes that internal/decide launches, binds pods to, consolidates and removes, in virtual time
// (cluster.go). With -plain, and for random series, a simple model counts pods instead of nodes: capacity is available one
// boot time after the request, and is released immediately when it is no longer needed. Demand is read from a CSV file of
// counts per minute (-trace), or random (-drawn). Start reading at main.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

type options struct {
	trace       string
	step, gap   time.Duration
	learn       time.Duration
	target      int
	boots       []int
	prices      []int64
	standing    []int
	part        string
	seeds       int
	only        string
	days        int
	plain       bool
	drawn, json bool
}

func main() {
	var o options
	var boots, prices, buffers string
	flag.StringVar(&o.trace, "trace", "../shared/data/traces/nasa-requests-per-minute.csv.gz", "CSV file with counts, optionally gzipped, in the format step,count or count")
	flag.DurationVar(&o.step, "step", time.Minute, "duration of a step of the trace")
	flag.DurationVar(&o.gap, "gap", 30*time.Minute, "longer sequences of zeros are gaps: unknown, not counted")
	flag.DurationVar(&o.learn, "learn", 7*24*time.Hour, "initial part of the trace that is only used for learning")
	flag.IntVar(&o.target, "target", 200, "number of pods at the trace's 99.5th percentile")
	flag.StringVar(&boots, "boot", "1m,3m", "boot times of nodes, in whole minutes")
	flag.StringVar(&prices, "prices", "2,4,9,19,49,99", "prices of a minute of waiting, relative to an idle minute")
	flag.StringVar(&buffers, "standing", "", "fixed buffers, in percent of demand (default: 5,10,20,30,40; with -plain also up to 300)")
	flag.StringVar(&o.part, "part", "all", "part of the trace to count after learning: first (half), second (half) or all")
	flag.IntVar(&o.days, "days", 0, "number of days of the trace to replay, including learning (default: all)")
	flag.BoolVar(&o.plain, "plain", false, "use the simple capacity model: seconds instead of minutes")
	flag.BoolVar(&o.drawn, "drawn", false, "replay random series instead of a trace")
	flag.StringVar(&o.only, "only", "", "replay only random series whose name contains this text")
	flag.IntVar(&o.seeds, "seeds", 5, "number of seeds for each random series")
	flag.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	flag.Parse()
	err := parseLists(&o, boots, prices, buffers)
	if err == nil && o.drawn {
		var d []Drawn
		if d, err = runDrawn(o); err == nil {
			err = show(o, d, printDrawn)
		}
	} else if err == nil {
		var r []Result
		if r, err = runTrace(o); err == nil {
			err = show(o, r, printTrace)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "headroom:", err)
		os.Exit(1)
	}
}

// parseLists reads the flags that hold several values.
func parseLists(o *options, boots, prices, buffers string) error {
	if buffers == "" {
		if buffers = "5,10,20,30,40"; o.plain || o.drawn {
			buffers += ",50,75,100,150,200,300"
		}
	}
	for _, text := range strings.Split(buffers, ",") {
		n, err := strconv.Atoi(text)
		if last := len(o.standing) - 1; err != nil || n < 1 || last >= 0 && n <= o.standing[last] {
			return fmt.Errorf("-standing %s: use increasing whole numbers from 1", text)
		}
		o.standing = append(o.standing, n)
	}
	for _, text := range strings.Split(boots, ",") {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Minute || d > 10*time.Minute || d%time.Minute != 0 {
			return fmt.Errorf("-boot %s: use whole minutes from 1m to 10m", text)
		}
		o.boots = append(o.boots, int(d/time.Minute))
	}
	for _, text := range strings.Split(prices, ",") {
		p, err := strconv.ParseInt(text, 10, 64)
		if err != nil || p < 1 {
			return fmt.Errorf("-prices %s: use whole numbers from 1", text)
		}
		o.prices = append(o.prices, p)
	}
	if o.target < 2 || o.seeds < 1 {
		return fmt.Errorf("-target %d -seeds %d: use at least 2 and 1", o.target, o.seeds)
	}
	return nil
}

// policies are the standing buffers and ours, in the order of their idling.
func policies(o options) (all []policy, first int) {
	all = standing(o.standing)
	first = len(all)
	for _, p := range o.prices {
		all = append(all, policy{name: fmt.Sprintf("forecast, 1:%d", p), price: p})
	}
	return all, first
}

// Result is a trace replayed with machines of one kind.
type Result struct {
	BootMinutes int     `json:"bootMinutes"`
	Standing    []Equal `json:"standing"`
	Forecast    []Equal `json:"forecast"`
}

// Equal is a point, and what is at equal idling on the other side.
type Equal struct {
	Point
	Other *float64 `json:"othersWaitingAtEqualIdle,omitempty"`
	Ratio *float64 `json:"forecastOverStandingAtEqualIdle,omitempty"`
}

func runTrace(o options) ([]Result, error) {
	counts, err := readTrace(o.trace, o.step, o.gap)
	if err != nil {
		return nil, err
	}
	demand, err := podsOf(counts, o.target)
	if err != nil {
		return nil, err
	}
	if o.days > 0 {
		demand = demand[:min(len(demand), o.days*day)]
	}
	from, to := int(o.learn/time.Minute), len(demand)
	if from >= to {
		return nil, fmt.Errorf("the trace lasts %d minutes, which is not longer than the learning time (-learn %s)", to, o.learn)
	}
	switch half := (from + to) / 2; o.part {
	case "first":
		to = half
	case "second":
		from = half
	case "all":
	default:
		return nil, fmt.Errorf("-part %s: use first, second or all", o.part)
	}
	all, first := policies(o)
	var out []Result
	for _, boot := range o.boots {
		fmt.Fprintf(os.Stderr, "replaying %d minutes with a boot time of %d min: %d policies\n", to, boot, len(all))
		points, err := replay(demand[:to], boot, from, all, o.plain, func(p Point) {
			if !o.plain {
				fmt.Fprintf(os.Stderr, "  %s: waiting %.2f ‰, idle %.1f %%\n", p.Policy, p.Waiting, p.Idle)
			}
		})
		if err != nil {
			return nil, err
		}
		out = append(out, compare(boot, points[:first], points[first:]))
	}
	return out, nil
}

// compare finds for each point what the other side's waiting is at equal idling.
func compare(boot int, standing, ours []Point) Result {
	r := Result{BootMinutes: boot}
	for _, p := range standing {
		e := Equal{Point: p}
		if w, ok := atIdle(ours, p.Idle); ok && p.Waiting > 0 {
			ratio := w / p.Waiting
			e.Other, e.Ratio = &w, &ratio
		}
		r.Standing = append(r.Standing, e)
	}
	for _, p := range ours {
		e := Equal{Point: p}
		if w, ok := atIdle(standing, p.Idle); ok && w > 0 {
			ratio := p.Waiting / w
			e.Other, e.Ratio = &w, &ratio
		}
		r.Forecast = append(r.Forecast, e)
	}
	return r
}

// Drawn is a drawn series replayed.
type Drawn struct {
	Series      string  `json:"series"`
	Seed        int     `json:"seed"`
	BootMinutes int     `json:"bootMinutes"`
	Nothing     Point   `json:"nothing"`
	Forecast    []Point `json:"forecast"`
	Excess      []Extra `json:"excess"`
	// Remembered is for how many days after what happened once more was held than would have been without it.
	Remembered *int `json:"rememberedDays,omitempty"`
}

// Extra is a point beside nothing and beside the standing buffer of the same waiting.
type Extra struct {
	Gone       float64  `json:"waitingGonePercent"`
	IdlePoints *float64 `json:"idleOverStandingPoints,omitempty"` // none where no standing buffer waits so little
}

func runDrawn(o options) (out []Drawn, err error) {
	all, first := policies(o)
	for seed := range o.seeds {
		for _, s := range drawn(uint64(seed + 1)) {
			for _, boot := range o.boots {
				if o.only != "" && !strings.Contains(s.name, o.only) {
					continue
				}
				fmt.Fprintf(os.Stderr, "replaying %s, seed %d, with a boot time of %d min\n", s.name, seed+1, boot)
				points, err := replay(s.demand, boot, s.from, all, true, func(Point) {})
				if err != nil {
					return nil, err
				}
				d := Drawn{Series: s.name, Seed: seed + 1, BootMinutes: boot, Nothing: points[0], Forecast: points[first:]}
				for _, p := range points[first:] {
					e := Extra{Gone: 100}
					if points[0].Waiting > 0 {
						e.Gone = 100 * (1 - p.Waiting/points[0].Waiting)
					}
					if idle, ok := atWaiting(points[:first], p.Waiting); ok {
						over := p.Idle - idle
						e.IdlePoints = &over
					}
					d.Excess = append(d.Excess, e)
				}
				if s.twin != nil {
					last := o.prices[len(o.prices)-1:]
					days := rememberedDays(s, holds(s.demand, boot, last)[0], holds(s.twin, boot, last)[0])
					d.Remembered = &days
				}
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// rememberedDays returns the last day, after what happened once, on which more is held than without it, by more than a
// hundredth of demand.
func rememberedDays(s series, held, without []int) int {
	last := 0
	for d := 0; s.once+(d+1)*day <= len(held); d++ {
		differs, demand := 0, 0
		for m := s.once + d*day; m < s.once+(d+1)*day; m++ {
			differs += held[m] - without[m]
			demand += s.demand[m]
		}
		if 100*differs > demand {
			last = d + 1
		}
	}
	return last
}

// show prints a result as JSON or by its table.
func show[T any](o options, v T, table func(o options, v T)) error {
	if !o.json {
		table(o, v)
		return nil
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func printTrace(o options, results []Result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range results {
		fmt.Fprintf(w, "boot time %d min\twaiting ‰\tidle %%\tother at equal idle ‰\tforecast/fixed\t\n", r.BootMinutes)
		for i, e := range append(r.Standing, r.Forecast...) {
			if o.plain && i < len(r.Standing) && o.standing[max(0, i-1)] > 50 {
				continue // only interpolated between
			}
			other, ratio := "", ""
			if e.Other != nil {
				other, ratio = fmt.Sprintf("%.2f", *e.Other), fmt.Sprintf("%.2f", *e.Ratio)
			}
			fmt.Fprintf(w, "%s\t%.2f\t%.1f\t%s\t%s\t\n", e.Policy, e.Waiting, e.Idle, other, ratio)
		}
		fmt.Fprintln(w, "\t\t\t\t\t")
	}
	w.Flush()
}

// printDrawn prints, for each kind of series, the worst of all seeds: the least waiting gone, the most idling, the most
// idling beyond the standing buffer of the same waiting, and the longest memory of what happened once.
func printDrawn(o options, results []Drawn) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "worst of %d seeds\tboot\t", o.seeds)
	for _, p := range o.prices {
		fmt.Fprintf(w, "1:%d avoided %%\tidle %%\tover fixed\t", p)
	}
	fmt.Fprintln(w, "remembered days\t")
	done := map[string]bool{}
	for _, first := range results {
		key := fmt.Sprintf("%s\t%d", first.Series, first.BootMinutes)
		if done[key] {
			continue
		}
		done[key] = true
		fmt.Fprintf(w, "%s\t", key)
		alike := slices.DeleteFunc(slices.Clone(results), func(d Drawn) bool { return d.Series != first.Series || d.BootMinutes != first.BootMinutes })
		for i := range o.prices {
			printWorst(w, alike, i)
		}
		if first.Remembered != nil {
			longest := 0
			for _, d := range alike {
				longest = max(longest, *d.Remembered)
			}
			fmt.Fprintf(w, "%d", longest)
		}
		fmt.Fprintln(w, "\t")
	}
	w.Flush()
}

// printWorst prints the worst of a series' seeds at the i-th price.
func printWorst(w io.Writer, seeds []Drawn, i int) {
	gone, idle, over := 100.0, 0.0, math.Inf(-1)
	for _, d := range seeds {
		gone, idle = min(gone, d.Excess[i].Gone), max(idle, d.Forecast[i].Idle)
		if x := d.Excess[i].IdlePoints; x != nil {
			over = max(over, *x)
		}
	}
	text := "-" // no standing buffer waits so little
	if !math.IsInf(over, -1) {
		text = fmt.Sprintf("%+.1f", over)
	}
	fmt.Fprintf(w, "%.1f\t%.1f\t%s\t", gone, idle, text)
}

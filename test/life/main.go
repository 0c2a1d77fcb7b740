// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command life runs one controller through rounds of typical workload changes on a sandbox: Deployments are scaled, deleted and recreated with
// the same names, rolled out, and scaled by an autoscaler. After each round it waits until the cluster is stable, and prints as JSON the cost
// of the round over its lower bound, the evictions, and the settling time. `make bench-life` runs it, after `make build`.
//
// Pods start in three seconds and have a grace period of 30 seconds. All measurements use separate watches. Start reading at main.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// Round is what one change of the workloads came to.
type Round struct {
	Change         string  `json:"change"`
	Pods           int     `json:"pods"`
	SecondsToRest  float64 `json:"secondsToRest"` // after the pods were as wanted; consolidateAfter included
	USDPerHour     float64 `json:"usdPerHour"`    // at rest
	Bound          float64 `json:"usdPerHourBound"`
	OverBound      float64 `json:"overBound"`
	Evictions      int     `json:"evictions"`
	PodsOfEnded    int     `json:"podsOfEndedNodes"` // when all ran, of the nodes that have gone since: more evictions are pods that moved twice
	LeastEvictions int     `json:"leastEvictions"`   // pods of the nodes that are cheapest to empty for what was saved, wherever there is room for them
	NodesBought    int     `json:"nodesBought"`
	NodesEnded     int     `json:"nodesEnded"`
	LongestUnbound float64 `json:"longestUnboundSeconds"` // of pods made after an eviction
}

// Result is what is printed.
type Result struct {
	Seed           uint64  `json:"seed"`
	Budget         string  `json:"budget"`
	Rounds         []Round `json:"rounds"`
	USD            float64 `json:"usd"`      // spent over all rounds
	USDBound       float64 `json:"usdBound"` // the least that the pods that were wanted could have cost
	Integrated     float64 `json:"integratedOverBound"`
	Evictions      int     `json:"evictions"`
	PodsOfEnded    int     `json:"podsOfEndedNodes"`
	LeastEvictions int     `json:"leastEvictions"`

	// Of the time after the last round until nothing was due by what workloads did before: nodes are kept for so long that would otherwise go.
	SettleSeconds   float64 `json:"settleSeconds"`
	SettleEvictions int     `json:"settleEvictions"`
	SettleNodes     int     `json:"settleNodesBoughtOrEnded"`
	SettleKept      int     `json:"settleNodesStillKept"` // when waiting ended
	SettleOverBound float64 `json:"settleOverBound"`

	// Of the time after that, in which nothing changed either.
	FrozenSeconds   float64 `json:"frozenSeconds"`
	FrozenEvictions int     `json:"frozenEvictions"`
	FrozenNodes     int     `json:"frozenNodesBoughtOrEnded"`
}

type options struct {
	rounds, below int
	seed          uint64
	after, still  time.Duration
	every         time.Duration
	settle        time.Duration
	frozen        time.Duration
	budget, dir   string
	karpenter     string
	record        string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 20, "number of changes")
	flag.IntVar(&o.below, "below", 32, "launch only instance types with fewer CPUs (0: no limit)")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random series")
	flag.DurationVar(&o.after, "consolidate-after", 30*time.Second, "consolidateAfter of the NodePool")
	flag.DurationVar(&o.still, "still", 0, "time without changes after which the cluster is stable (default: consolidateAfter plus five seconds)")
	flag.DurationVar(&o.every, "every", 3*time.Minute, "minimum duration of a round; the next change waits for it")
	flag.StringVar(&o.budget, "budget", "100%", "disruption budget of the NodePool")
	flag.DurationVar(&o.settle, "settle", 20*time.Minute, "after the last round: maximum wait until no node is kept for an expected scale-up")
	flag.DurationVar(&o.frozen, "frozen", 10*time.Minute, "after that: duration without changes, in which no pod should be moved")
	flag.StringVar(&o.karpenter, "karpenter", "", "path of Karpenter's KWOK controller to run instead of Dovetail (built by make bench-life-karpenter)")
	flag.StringVar(&o.record, "record", "", "write a recording of the rounds to this file, with dovetail record, for dovetail replay (docs/REPLAY.md#accuracy)")
	flag.StringVar(&o.dir, "dir", "", "directory for the sandbox's files (default: a temporary directory)")
	flag.Parse()
	if o.still == 0 {
		o.still = o.after + 5*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	res, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "life:", err)
		os.Exit(1)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(res); err != nil {
		fmt.Fprintln(os.Stderr, "life:", err)
		os.Exit(1)
	}
}

// life is a cluster, what is wanted of it, and what it has cost.
type life struct {
	options
	*watch.Cluster
	catalog string
	rnd     *rand.Rand
	want    []int // pods of each kind
	bounds  map[string]float64
	counted map[*watch.Pod]bool // as evicted

	sampled    time.Time
	spent, due float64 // dollars: paid, and the least
}

func run(ctx context.Context, o options) (res *Result, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "dovetail-life-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(o.dir)
	}
	l := &life{options: o, rnd: rand.New(rand.NewPCG(o.seed, 0)), want: make([]int, len(scaledown.Kinds)),
		bounds: map[string]float64{}, counted: map[*watch.Pod]bool{}}
	if l.catalog, err = scaledown.WriteCatalogue(o.dir); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "starting a sandbox")
	c, stop, err := watch.Start(ctx, watch.Options{Dir: o.dir, Catalog: l.catalog, Karpenter: o.karpenter, Namespace: "default", Flags: []string{"--boot", "0", "--pull", "3s"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.Cluster, c.Tick = c, l.sample
	if err := scaledown.CreatePool(ctx, l.Sandbox, o.below, o.after, o.budget); err != nil {
		return nil, err
	}
	res = &Result{Seed: o.seed, Budget: o.budget, FrozenSeconds: o.frozen.Seconds()}
	for i := range l.want {
		l.want[i] = 350
		if err := l.deploy(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := l.rest(ctx); err != nil { // what it begins with is not a round
		return nil, err
	}
	endRecording, err := l.startRecording(ctx)
	if err != nil {
		return nil, err
	}
	l.spent, l.due = 0, 0
	for n := range o.rounds {
		r, err := l.round(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n+1, err)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %s: stable after %.0f s, cost/bound %.3f, %d evictions (%d pods on removed nodes, minimum %d), %d nodes launched, %d terminated\n",
			n+1, o.rounds, r.Change, r.SecondsToRest, r.OverBound, r.Evictions, r.PodsOfEnded, r.LeastEvictions, r.NodesBought, r.NodesEnded)
		res.Rounds = append(res.Rounds, *r)
		res.Evictions += r.Evictions
		res.PodsOfEnded += r.PodsOfEnded
		res.LeastEvictions += r.LeastEvictions
	}
	if err := endRecording(); err != nil {
		return nil, err
	}
	res.USD, res.USDBound, res.Integrated = round(l.spent), round(l.due), round(l.spent/l.due)
	if err := l.settleDown(ctx, res); err != nil {
		return nil, err
	}
	if err := l.freeze(ctx, res); err != nil {
		return nil, err
	}
	return res, nil
}

// startRecording records the cluster to the file of -record, if there is one, until end is called or the context ends.
func (l *life) startRecording(ctx context.Context) (end func() error, err error) {
	if l.record == "" {
		return func() error { return nil }, nil
	}
	_, dovetail, err := sandbox.Binaries()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, dovetail, "record", "--kubeconfig", l.Sandbox.Kubeconfig(sandbox.Admin), "--out", l.record)
	c.Stderr, c.Cancel = os.Stderr, func() error { return c.Process.Signal(os.Interrupt) }
	if err := c.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start dovetail record: %w", err)
	}
	return func() error {
		cancel()
		err := c.Wait()
		switch {
		case errors.Is(err, context.Canceled): // it has ended well
			return nil
		case err == nil:
			err = errors.New("ended before the last round")
		}
		return fmt.Errorf("dovetail record: %w", err)
	}, nil
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// rest waits until all pods that are wanted run and then nothing has changed for a while.
func (l *life) rest(ctx context.Context) error {
	var began time.Time
	return l.Until(ctx, fmt.Sprintf("a stable cluster with pods of each kind %v", l.want), 10*time.Minute, func() bool {
		switch {
		case !l.complete():
			return false
		case began.IsZero():
			began = time.Now()
		}
		return time.Since(l.Changed) > l.still && time.Since(began) > l.still
	})
}

// complete reports whether as many pods of each kind run as are wanted.
func (l *life) complete() bool {
	running := map[string]int{}
	for _, p := range l.Pods {
		if p.Runs {
			running[p.App]++
		}
	}
	for i, k := range scaledown.Kinds {
		if running[k.Name] != l.want[i] {
			return false
		}
	}
	return true
}

// sample adds what was spent since the last one, and the least that what is wanted could have cost.
func (l *life) sample(now time.Time) error {
	usd, err := l.price()
	if err != nil {
		return err
	}
	least, err := l.bound()
	if err != nil {
		return err
	}
	if !l.sampled.IsZero() {
		hours := now.Sub(l.sampled).Hours()
		l.spent, l.due = l.spent+usd*hours, l.due+least*hours
	}
	l.sampled = now
	return nil
}

// price is what all nodes of the pool cost now, in dollars an hour.
func (l *life) price() (float64, error) {
	all, err := l.Standing()
	return watch.Sum(all), err
}

func (l *life) bound() (float64, error) {
	key := fmt.Sprint(l.want)
	if b, ok := l.bounds[key]; ok {
		return b, nil
	}
	b, err := scaledown.LowerBound(l.catalog, l.below, l.want...)
	l.bounds[key] = b
	return b, err
}

const deployments = "/apis/apps/v1/namespaces/default/deployments/"

func (l *life) deploy(ctx context.Context, i int) error {
	k := scaledown.Kinds[i]
	return scaledown.Deploy(ctx, l.Sandbox, scaledown.Deployment(k.Name, l.want[i], 30, k.CPU, k.Memory))
}

// change does what the round is about, and says it.
func (l *life) change(ctx context.Context, n int) (string, error) {
	scale := func(i, to int) error {
		l.want[i] = to
		return l.Sandbox.Patch(ctx, deployments+scaledown.Kinds[i].Name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, to))
	}
	i := l.rnd.IntN(len(l.want))
	name := scaledown.Kinds[i].Name
	switch share := 10 + l.rnd.IntN(51); n % 5 {
	case 0, 2: // down, then up again
		for j := range l.want {
			if err := scale(j, max(40, l.want[j]*(100-share)/100)); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("both scaled down by %d %%", share), nil
	case 1, 3:
		if n%10 == 3 {
			policy := metav1.DeletePropagationForeground
			if err := l.Sandbox.Kube.AppsV1().Deployments("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				return "", err
			}
			if err := l.gone(ctx, name); err != nil {
				return "", err
			}
			l.want[i] = 200 + l.rnd.IntN(300)
			return fmt.Sprintf("%s deleted and recreated with %d replicas", name, l.want[i]), l.deploy(ctx, i)
		}
		for j := range l.want {
			if err := scale(j, min(600, l.want[j]*(100+2*share)/100)); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("both scaled up by %d %%", 2*share), nil
	}
	if n%10 == 4 {
		return "rollout of " + name, l.Sandbox.Patch(ctx, deployments+name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, n))
	}
	for range 4 { // an autoscaler that follows a load
		if err := scale(i, max(40, l.want[i]+l.rnd.IntN(121)-60)); err != nil {
			return "", err
		}
		if err := l.Idle(ctx, time.Minute); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s scaled by its autoscaler to %d", name, l.want[i]), nil
}

// gone waits for a Deployment and its pods to be gone.
func (l *life) gone(ctx context.Context, name string) error {
	for range 120 {
		list, err := l.Sandbox.Kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		if _, err = l.Sandbox.Kube.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{}); err != nil && len(list.Items) == 0 {
			return nil
		}
		if err := l.Idle(ctx, time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("deployment %s is still there two minutes after it was deleted", name)
}

func (l *life) round(ctx context.Context, n int) (*Round, error) {
	begin := time.Now()
	what, err := l.change(ctx, n)
	if err != nil {
		return nil, err
	}
	l.Changed = time.Now()
	// What each node holds when the pods are as wanted: what is saved from then on is consolidation's.
	if err := l.Until(ctx, "the pods that are wanted to run", 15*time.Minute, l.complete); err != nil {
		return nil, err
	}
	began, loads := time.Now(), map[string]int{}
	for _, p := range l.Pods {
		if p.Node != "" && !p.Deleting {
			loads[p.Node]++
		}
	}
	prices, err := l.Standing()
	if err != nil {
		return nil, err
	}
	before, err := l.price()
	if err != nil {
		return nil, err
	}
	if err := l.rest(ctx); err != nil {
		return nil, err
	}
	if left := l.every - time.Since(begin); left > 0 {
		if err := l.Idle(ctx, left); err != nil {
			return nil, err
		}
	}
	r := &Round{Change: what, SecondsToRest: round(max(0, l.Changed.Sub(began).Seconds()))}
	for i := range l.want {
		r.Pods += l.want[i]
	}
	if r.USDPerHour, err = l.price(); err != nil {
		return nil, err
	}
	if r.Bound, err = l.bound(); err != nil {
		return nil, err
	}
	r.USDPerHour, r.OverBound = round(r.USDPerHour), round(r.USDPerHour/r.Bound)
	now, err := l.Standing()
	if err != nil {
		return nil, err
	}
	for name, pods := range loads {
		if _, stands := now[name]; !stands {
			r.PodsOfEnded += pods
		}
	}
	r.LeastEvictions = leastEvictions(loads, prices, before-r.USDPerHour)
	for uid, p := range l.Pods {
		if !p.Disrupted.IsZero() && !l.counted[p] && p.Created.Before(l.Changed) {
			r.Evictions++
			l.counted[p] = true
		}
		if p.Created.After(began) && !p.Bound.IsZero() {
			r.LongestUnbound = max(r.LongestUnbound, round(p.Bound.Sub(p.Created).Seconds()))
		}
		if p.Gone {
			delete(l.Pods, uid)
			delete(l.counted, p)
		}
	}
	for uid, c := range l.Claims {
		if c.Created.After(begin) {
			r.NodesBought++
		}
		if c.Removed.After(begin) {
			r.NodesEnded++
			delete(l.Claims, uid)
		}
	}
	return r, nil
}

// leastEvictions is how few pods leave when the nodes that are emptied for what was saved are those that have fewest pods for their price.
func leastEvictions(loads map[string]int, prices map[string]float64, saved float64) (evictions int) {
	var nodes []string
	for n := range prices {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b string) int {
		return cmp.Compare(float64(loads[a])/prices[a], float64(loads[b])/prices[b])
	})
	for _, n := range nodes {
		if saved < prices[n]/2 {
			break
		}
		saved -= prices[n]
		evictions += loads[n]
	}
	return evictions
}

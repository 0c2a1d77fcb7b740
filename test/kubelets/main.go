// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command kubelets counts the pods that kubelets reject, on a sandbox with a Kubernetes kubelet for each node and nodes whose CPU is fully
// planned: 300 pods in one burst, rounds of scaling, simultaneous interruptions, and drains of pods with a grace period of 30 seconds, with two
// DaemonSets on every node. It prints JSON and fails if a kubelet rejected a pod, unless -landing is off. `make bench-kubelets` runs it, after
// `make build kubelet`. Start reading at run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/refusals"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// Phase is what one change of the cluster came to.
type Phase struct {
	Change         string  `json:"change"`
	Pods           int     `json:"pods"`
	Nodes          int     `json:"nodes"` // when all pods ran
	Seconds        float64 `json:"secondsUntilAllRan"`
	LongestUnbound float64 `json:"longestUnboundSeconds"` // of the pods that were bound meanwhile
	Disrupted      int     `json:"disrupted"`             // pods evicted meanwhile
}

// Result is what is printed.
type Result struct {
	Landing  string   `json:"landing"`
	Seed     uint64   `json:"seed"`
	Phases   []Phase  `json:"phases"`
	Pods     int      `json:"pods"`     // seen in all
	Bound    int      `json:"bound"`    // to nodes that were launched for pods
	Rejected int      `json:"rejected"` // by kubelets
	Refused  int      `json:"refused"`  // by kube-scheduler, on nodes that were launched for them
	Details  []string `json:"details,omitempty"`
	Launched int      `json:"launched"`

	KubeletMiB     float64 `json:"kubeletMiB"`         // median resident memory
	KubeletPercent float64 `json:"kubeletCorePercent"` // median share of a core, at rest with the pods of the end
}

type options struct {
	rounds  int
	seed    uint64
	landing string
	dir     string
	storm   int
	drains  int
}

// types is one machine with 16 CPUs for pods.
const types = `[{"name": "exact-16", "architecture": "amd64", "operatingSystems": ["linux"],
  "resources": {"cpu": "17", "memory": "65546Mi", "pods": "110", "ephemeral-storage": "20Gi"},
  "offerings": [{"Price": 1.6, "Available": true, "Requirements": [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]`

// kinds are the Deployments: 300 pods that fill nodes to the last CPU, together with 200m of DaemonSets on each.
var kinds = []struct {
	name, cpu string
	pods      int
	stop      int // seconds that a pod takes to stop
}{{"huge", "9900m", 9, 0}, {"large", "5900m", 9, 5}, {"middle", "3950m", 48, 30}, {"small", "790m", 234, 5}}

func main() {
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 20, "number of times that the Deployments are scaled")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random series")
	flag.StringVar(&o.landing, "landing", "bind", "value of the controller's --landing flag")
	flag.IntVar(&o.storm, "interruptions", 10, "number of nodes interrupted at the same time")
	flag.IntVar(&o.drains, "drains", 5, "number of NodeClaims deleted at the same time")
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
	if err == nil && res.Rejected > 0 && o.landing != "off" {
		err = fmt.Errorf("kubelets rejected %d pods", res.Rejected)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelets:", err)
		os.Exit(1)
	}
}

// bench is a cluster and what is wanted of it.
type bench struct {
	options
	*watch.Cluster
	rnd  *rand.Rand
	want []int // pods of each kind
	res  *Result
}

func run(ctx context.Context, o options) (res *Result, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "dovetail-kubelets-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(o.dir)
	}
	catalog := filepath.Join(o.dir, "types.json")
	if err := os.WriteFile(catalog, []byte(types), 0o600); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "starting a sandbox")
	s, err := sandbox.Up(ctx, filepath.Join(o.dir, "sb"), "--kubelets", "--catalog", catalog, "--boot", "5s", "--pull", "0", "--controller-arg", "--landing="+o.landing)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	config, err := s.Config(sandbox.Admin)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	record := refusals.NewRecord()
	if err := refusals.Watch(ctx, config, record); err != nil {
		return nil, err
	}
	c, err := watch.Follow(ctx, s, "default")
	if err != nil {
		return nil, err
	}
	res = &Result{Landing: o.landing, Seed: o.seed}
	b := &bench{options: o, Cluster: c, rnd: rand.New(rand.NewPCG(o.seed, 0)), want: make([]int, len(kinds)), res: res}
	if err := b.setUp(ctx); err != nil {
		return nil, err
	}
	err = b.phases(ctx)
	report := record.Judge(time.Now(), 2*time.Second)
	res.Pods, res.Bound, res.Rejected, res.Launched = report.Pods, report.Bound, report.Rejected, len(c.Claims)
	for _, w := range report.Wrong {
		if w.By == "kube-scheduler" {
			res.Refused++
		}
		res.Details = append(res.Details, w.String())
	}
	if err == nil {
		res.KubeletMiB, res.KubeletPercent, err = b.price(ctx)
	}
	return res, err
}

// phases goes through all changes.
func (b *bench) phases(ctx context.Context) error {
	all := make([]int, len(kinds))
	for i, k := range kinds {
		all[i] = k.pods
	}
	if err := b.phase(ctx, "300 pods at once", func() error { return b.scale(ctx, all) }); err != nil {
		return err
	}
	for n := range b.rounds {
		to, what := slices.Clone(all), "grow"
		if n%2 == 0 {
			what = "shrink"
			for i := range to {
				to[i] = max(1, to[i]*(20+b.rnd.IntN(60))/100)
			}
		}
		if err := b.phase(ctx, fmt.Sprintf("round %d: %s", n+1, what), func() error { return b.scale(ctx, to) }); err != nil {
			return err
		}
	}
	if err := b.phase(ctx, fmt.Sprintf("%d interruptions at once", b.storm), func() error {
		return b.Sandbox.AddFaults(ctx, machines.Fault{Kind: machines.Interrupt, Count: b.storm, Delay: machines.Duration(2 * time.Minute)})
	}); err != nil {
		return err
	}
	return b.phase(ctx, fmt.Sprintf("%d NodeClaims deleted at once", b.drains), func() error { return b.drain(ctx) })
}

// phase makes a change and waits until all pods that are wanted run where they stay, at most ten minutes.
func (b *bench) phase(ctx context.Context, what string, change func() error) error {
	begun := time.Now()
	if err := change(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := b.Until(ctx, what, 10*time.Minute, func() bool { return time.Since(begun) > 2*time.Second && b.complete() }); err != nil {
		return err
	}
	p := Phase{Change: what, Seconds: round(time.Since(begun).Seconds())}
	for _, n := range b.Nodes {
		if !n.Gone {
			p.Nodes++
		}
	}
	for _, n := range b.want {
		p.Pods += n
	}
	for _, pod := range b.Pods {
		if pod.Bound.After(begun) {
			p.LongestUnbound = max(p.LongestUnbound, round(pod.Bound.Sub(pod.Created).Seconds()))
		}
		if pod.Disrupted.After(begun) {
			p.Disrupted++
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %d pods running on %d nodes after %.1f s, longest time without a node %.1f s, %d evictions\n", what, p.Pods, p.Nodes, p.Seconds, p.LongestUnbound, p.Disrupted)
	b.res.Phases = append(b.res.Phases, p)
	return nil
}

// complete reports whether as many pods of each kind run as are wanted, and none is on a node that is being removed.
func (b *bench) complete() bool {
	leaving := map[string]bool{}
	for _, c := range b.Claims {
		if !c.Removed.IsZero() && c.Gone.IsZero() {
			leaving[c.Node] = true
		}
	}
	running := map[string]int{}
	for _, p := range b.Pods {
		if !p.Runs || p.Daemon {
			continue
		}
		if leaving[p.Node] {
			return false
		}
		running[p.App]++
	}
	for i, k := range kinds {
		if running[k.name] != b.want[i] {
			return false
		}
	}
	return true
}

// drain deletes the NodeClaims of nodes with the most pods.
func (b *bench) drain(ctx context.Context) error {
	pods := map[string]int{}
	for _, p := range b.Pods {
		if p.Runs {
			pods[p.Node]++
		}
	}
	var claims []*watch.Claim
	for _, c := range b.Claims {
		if c.Removed.IsZero() {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(x, y *watch.Claim) int {
		if n := pods[y.Node] - pods[x.Node]; n != 0 {
			return n
		}
		return strings.Compare(x.Name, y.Name)
	})
	for _, c := range claims[:min(b.drains, len(claims))] {
		if err := b.Sandbox.Delete(ctx, "/apis/karpenter.sh/v1/nodeclaims/"+c.Name, ""); err != nil {
			return err
		}
	}
	return nil
}

// price measures what the kubelets take: memory, and processor time over half a minute.
func (b *bench) price(ctx context.Context) (mib, percent float64, err error) {
	const window = 30 * time.Second
	if err := b.Idle(ctx, window); err != nil { // for what the last phase leaves
		return 0, 0, err
	}
	used := map[int]float64{}
	state, err := b.Sandbox.State()
	if err != nil {
		return 0, 0, err
	}
	for _, c := range state.Components {
		if strings.HasPrefix(c.Name, "kubelet-") {
			if used[c.PID], err = sandbox.ProcessorSeconds(c.PID); err != nil {
				return 0, 0, err
			}
		}
	}
	if err := b.Idle(ctx, window); err != nil {
		return 0, 0, err
	}
	var memory, share []float64
	for pid, before := range used {
		after, err := sandbox.ProcessorSeconds(pid)
		if err != nil {
			continue // its machine has ended
		}
		now, err := sandbox.PeakMemoryMiB(pid)
		if err != nil {
			continue
		}
		memory, share = append(memory, now), append(share, 100*(after-before)/window.Seconds())
	}
	if len(memory) == 0 {
		return 0, 0, errors.New("no kubelet to measure")
	}
	slices.Sort(memory)
	slices.Sort(share)
	return math.Round(memory[len(memory)/2]), round(share[len(share)/2]), nil
}

func round(v float64) float64 { return math.Round(v*10) / 10 }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command bench prints a table of plan cost, time, memory and allocations for each problem of package problems, with a target for each.
// Traces and prices are read from -data; rows whose data is missing are marked as skipped.
//
// Everything runs on one thread. Times are CPU time, including garbage collection, because wall time depends on other load; the median of
// several runs is printed. The row "plan process" measures the CPU time of the whole process.
//
// The measured calls are those of the controller and of `dovetail plan`. Start reading at main.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/test/problems"
)

// row is a line of the table.
type row struct {
	name      string
	pods      int
	ratio     float64 // cost over the proven bound; 0: no node is launched
	provenBy  string
	first     time.Duration // the first plan that could be launched, and its bound by resource prices
	firstCost float64       // its cost over the bound that was proven in the end
	whole     time.Duration // plan and proof, at the default policy
	clock     time.Duration
	bytes     uint64 // allocated, a pod
	allocs    uint64 // in all
	target    string
	met       bool
	note      string
}

func main() {
	data := flag.String("data", "../shared/data", "directory with the catalog and traces/")
	binary := flag.String("binary", "bin/dovetail", "dovetail binary for the row \"plan process\"")
	runs := flag.Int("runs", 3, "runs of each problem; the median is printed")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	allocated := flag.String("memprofile", "", "write a profile of all allocations to this file")
	only := flag.String("only", "", "run only rows whose name contains this text")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	if *allocated != "" {
		runtime.MemProfileRate = 1
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	var rows []row
	for _, x := range table(*data, *runs) {
		if !strings.Contains(x.name, *only) {
			continue
		}
		r, err := x.measure()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.note = "skipped: " + err.Error()
		case err != nil:
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", x.name, err)
			os.Exit(1)
		}
		r.name, r.target = x.name, x.target
		rows = append(rows, r)
	}
	if strings.Contains("plan process", *only) {
		r, err := process(*binary, *runs)
		if errors.Is(err, fs.ErrNotExist) {
			r.note = "skipped: " + err.Error()
		} else if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", r.name, err)
			os.Exit(1)
		}
		rows = append(rows, r)
	}
	print(rows)
	if *allocated != "" {
		f, err := os.Create(*allocated)
		if err == nil {
			err = pprof.Lookup("allocs").WriteTo(f, 0)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
			os.Exit(1)
		}
	}
	if strings.Contains("memory", *only) {
		memory()
	}
}

// entry is a problem with its target.
type entry struct {
	name, target string
	measure      func() (row, error)
}

// besideKarpenter is the target of a row that is compared with Karpenter's scheduler by another command.
const besideKarpenter = "make bench-karpenter"

// table lists the rows. A target is the maximum of cost over bound, and of CPU time.
func table(data string, runs int) []entry {
	solved := func(name string, ratio float64, limit time.Duration, make func() (*problems.Problem, error)) entry {
		target := "any cost"
		if ratio > 0 {
			target = fmt.Sprintf("%.2f", ratio)
		}
		return entry{name, fmt.Sprintf("%s, %v", target, limit), func() (row, error) {
			x, err := make()
			if err != nil {
				return row{}, err
			}
			r := solveIt(x, runs)
			r.met = r.whole <= limit && (ratio == 0 || r.ratio <= ratio)
			return r, nil
		}}
	}
	tianchi := func(sample int, rules bool) func() (*problems.Problem, error) {
		return func() (*problems.Problem, error) { return problems.Tianchi(data, sample, rules) }
	}
	// choosing compares the time with minValues with the time without them, for the same pods.
	choosing := func(name string, make func() (*problems.Problem, error), categories, families, generations, types int) entry {
		return entry{name, "1.3x without minValues", func() (row, error) {
			x, err := make()
			if err != nil {
				return row{}, err
			}
			without := solveIt(problems.MinValues(x, 0, 0, 0, 0), 2*runs+1)
			r := solveIt(problems.MinValues(x, categories, families, generations, types), 2*runs+1)
			r.met = r.note == "" && float64(r.whole) <= 1.3*float64(without.whole)
			r.note = strings.TrimSpace(fmt.Sprintf("%s without minValues: %s, %s", r.note, duration(without.whole), ratio(without.ratio)))
			return r, nil
		}}
	}
	basic := func() (*problems.Problem, error) { return problems.Basic(data) }
	diverse := func() (*problems.Problem, error) { return problems.Diverse(data, 1000) }
	return []entry{
		choosing("basic, minValues 2/5/10", basic, 2, 5, 0, 10),
		choosing("basic, minValues 3/3/30", basic, 3, 0, 3, 30),
		choosing("diverse, minValues 2/5/10", diverse, 2, 5, 0, 10),
		choosing("diverse, minValues 3/3/30", diverse, 3, 0, 3, 30),
		solved("basic, 636 types", 1.01, 20*time.Millisecond, func() (*problems.Problem, error) { return problems.Basic(data) }),
		solved("diverse", 1.01, 100*time.Millisecond, func() (*problems.Problem, error) { return problems.Diverse(data, 20000) }),
		solved("tianchi, sample", 1.02, time.Second, tianchi(20000, false)),
		solved("tianchi, all", 1.02, time.Second, tianchi(0, false)),
		solved("openb, GPUs, 695 types", 1.03, 2*time.Second, func() (*problems.Problem, error) { return problems.Openb(data) }),
		solved("tianchi with constraints", 0, 5*time.Second, tianchi(0, true)),
		{"Karpenter's mix, 400 types", besideKarpenter, func() (row, error) { return solveIt(problems.Mix(10000), runs), nil }},
		solved("2,000 classes onto 5,000 nodes", 1.02, time.Second, func() (*problems.Problem, error) { return problems.Many(data) }),
		solved("300 teams, a NodePool each", 1.01, 5*time.Second, func() (*problems.Problem, error) { return problems.Tenants(data, 300) }),
		{"one pod, 10,000 nodes, event to plan", "5ms", func() (row, error) {
			x, err := problems.OnePod(data, false)
			if err != nil {
				return row{}, err
			}
			r, err := event(x, 10*runs)
			r.met = r.whole <= 5*time.Millisecond
			return r, err
		}},
		{"1,000 pods with claims, 8 GPUs per node", "1.02, 1s", func() (row, error) { return claims(1000, runs, 1.02, time.Second) }},
		{"60 Cluster API groups, 1,020 nodes", "100ms", func() (row, error) { return clusterAPI(300, 2*runs+1) }},
		{"60 Cluster API groups, consolidation", "100ms", func() (row, error) { return clusterAPI(0, 2*runs+1) }},
	}
}

// cost is the CPU time, wall time and memory of one call.
type cost struct {
	cpu, clock    time.Duration
	bytes, allocs uint64
}

// measure runs a call several times and returns the run in the middle by processor time.
func measure(runs int, call func()) cost {
	all := make([]cost, runs)
	for i := range all {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu, clock := cpuTime(syscall.RUSAGE_SELF), time.Now()
		call()
		all[i] = cost{cpu: cpuTime(syscall.RUSAGE_SELF) - cpu, clock: time.Since(clock)}
		runtime.ReadMemStats(&after)
		all[i].bytes, all[i].allocs = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	}
	slices.SortFunc(all, func(a, b cost) int { return int(a.cpu - b.cpu) })
	return all[runs/2]
}

func cpuTime(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic("read the CPU time: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func solveIt(x *problems.Problem, runs int) row {
	p := &solve.Problem{ResourceNames: x.ResourceNames, Demand: x.Demand, Pools: []solve.Pool{{NodePool: x.Pool, NodesLeft: -1}}}
	for _, other := range x.Others {
		p.Pools = append(p.Pools, solve.Pool{NodePool: other, NodesLeft: -1})
	}
	for _, n := range x.Nodes {
		p.Nodes = append(p.Nodes, solve.ExistingNode{Name: n.Name, Labels: n.Labels, Allocatable: n.Allocatable, Free: n.Allocatable.Sub(n.Used), Pods: n.Pods})
	}
	quick, full := solve.DefaultPolicy(), solve.DefaultPolicy()
	quick.Work = 0
	var plain, res solve.Result
	first := measure(runs, func() { plain, _ = solve.Solve(p, solve.Memory{}, quick) })
	whole := measure(runs, func() { res, _ = solve.Solve(p, solve.Memory{}, full) })
	r := row{pods: len(x.Demand), provenBy: res.Cost.ProvenBy, first: first.cpu, whole: whole.cpu, clock: whole.clock,
		bytes: whole.bytes / uint64(len(x.Demand)), allocs: whole.allocs}
	if bound := res.Cost.BoundMicroPerHour; bound > 0 {
		r.ratio = float64(res.Cost.NewMicroPerHour) / float64(bound)
		r.firstCost = float64(plain.Cost.NewMicroPerHour) / float64(bound)
	}
	if len(res.Refused) > 0 {
		r.note = fmt.Sprintf("%d refused", len(res.Refused))
	}
	return r
}

// cluster returns a state with the nodes and pods of a problem.
func cluster(x *problems.Problem) *state.State {
	s := state.New()
	fill(s, x)
	return s
}

// fill puts a problem's pool and nodes, with their claims and pods, into a state.
func fill(s *state.State, x *problems.Problem) {
	for _, n := range x.ResourceNames {
		s.Resources().Dim(n)
	}
	s.SetNow(start)
	s.Pools.SetPool(x.Pool)
	s.Pools.SetTypes(x.Pool.Name, x.Pool.Types)
	s.Pools.SetReady(x.Pool.Name, true, model.Condition{})
	done := map[string]model.Condition{}
	for _, k := range []string{"Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound"} {
		done[k] = model.Condition{Status: "True", Reason: k, Since: start.Add(-time.Hour)}
	}
	if x.Pool.ConsolidateAfter >= 0 {
		done["Consolidatable"] = model.Condition{Status: "True", Reason: "Consolidatable", Since: start.Add(-time.Hour)}
	}
	for i, n := range x.Nodes {
		labels := model.Labels{model.LabelNodePool: x.Pool.Name, model.LabelRegistered: "true", model.LabelInitialized: "true", model.LabelCapacityType: model.OnDemand}
		for k, v := range n.Labels {
			labels[k] = v
		}
		id := cmp.Or(n.ProviderID, "cloud:///"+n.Name)
		s.SetNode(&model.Node{Name: n.Name, UID: n.UID, ProviderID: id, Labels: labels, Capacity: n.Allocatable, Allocatable: n.Allocatable, Ready: true,
			ReadySince: start.Add(-time.Hour), Created: start.Add(-2 * time.Hour), HasFinalizer: true}, 1)
		name := fmt.Sprintf("default-%05d", i)
		s.SetClaim(&model.Claim{Name: name, UID: name, Pool: x.Pool.Name, Labels: labels, ProviderID: id, NodeName: n.Name, Capacity: n.Allocatable,
			Allocatable: n.Allocatable, Created: start.Add(-2 * time.Hour), HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1, Conditions: done}, 1)
		for _, p := range n.Pods {
			q := *p
			q.Created, q.Bound, q.Ready = start.Add(-time.Hour), start.Add(-time.Hour), true
			s.SetPod(&q)
		}
	}
}

var start = time.Unix(1_800_000_000, 0)

// event measures the time from a watch event to a verified plan: the pod is added to the state, a Snapshot is taken, a decision is made, and
// the plan is verified.
func event(x *problems.Problem, runs int) (row, error) {
	s := cluster(x)
	now := start
	out, mem := decide.Step(s.Snapshot(now), decide.Memory{}, now, decide.DefaultPolicy(), decide.Request{Solve: true})
	pod := *x.Demand[0]
	pod.Unschedulable = now
	for _, a := range out.Actions { // what the pool's status says is written and seen
		if u, ok := a.(plan.UpdatePool); ok {
			p := *s.Pools.FindPool(u.Pool)
			p.StatusNodes, p.StatusResources, p.Conditions = u.Nodes, u.Resources, u.Conditions
			s.Pools.SetPool(&p)
			continue
		}
		return row{}, fmt.Errorf("the cluster has not settled: unexpected action %+v", a)
	}
	var failed error
	c := measure(runs, func() {
		now = now.Add(10 * time.Millisecond)
		s.SetNow(now)
		s.SetPod(&pod)
		snap := s.Snapshot(now)
		out, mem = decide.Step(snap, mem, now, decide.DefaultPolicy(), decide.Request{Solve: true})
		if err := approve.Verify(snap, &out).Err(); err != nil {
			failed = err
		}
		if len(out.Result.New) != 1 {
			failed = fmt.Errorf("%d nodes are planned for one pod", len(out.Result.New))
		}
		s.DeletePod(pod.Key())
	})
	return row{pods: 1, ratio: float64(out.Cost.NewMicroPerHour) / float64(max(1, out.Cost.BoundMicroPerHour)), provenBy: out.Cost.ProvenBy, whole: c.cpu, clock: c.clock,
		bytes: c.bytes, allocs: c.allocs}, failed
}

// process runs `dovetail plan` on a thousand pods of two sizes, start to end.
func process(binary string, runs int) (row, error) {
	const limit = 300 * time.Millisecond
	r := row{name: "basic, plan process", pods: 1000, target: limit.String()}
	if _, err := os.Stat(binary); err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "dovetail-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "basic.json")
	if err := os.WriteFile(file, []byte(basicManifests()), 0o600); err != nil {
		return r, err
	}
	var failed error
	type one struct{ cpu, clock time.Duration }
	all := make([]one, 2*runs+1)
	for i := range all {
		c := exec.Command(binary, "plan", "-f", file, "-o", "json")
		began := time.Now()
		if text, err := c.CombinedOutput(); err != nil {
			failed = fmt.Errorf("run %s: %w: %s", c, err, text)
			break
		}
		all[i] = one{c.ProcessState.UserTime() + c.ProcessState.SystemTime(), time.Since(began)}
	}
	slices.SortFunc(all, func(a, b one) int { return int(a.cpu - b.cpu) })
	r.whole, r.clock = all[len(all)/2].cpu, all[len(all)/2].clock
	r.met = r.clock <= limit
	return r, failed
}

func basicManifests() string {
	var b strings.Builder
	b.WriteString(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"default"},"spec":{"template":{"spec":{
		"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"},
		"requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`)
	for _, x := range [][3]string{{"small", "900m", "3100Mi"}, {"large", "3500m", "28Gi"}} {
		fmt.Fprintf(&b, `,{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{"replicas":500,"selector":{"matchLabels":{"app":%[1]q}},
			"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":%[2]q,"memory":%[3]q}}}]}}}}`, x[0], x[1], x[2])
	}
	b.WriteString("]}")
	return b.String()
}

func print(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "problem\tpods\tfirst plan\tfirst cost/bound\tplan and proof\tcost/bound\tproven by\twall time\tbytes/pod\tallocations\ttarget\tmet\t")
	for _, r := range rows {
		if strings.HasPrefix(r.note, "skipped") {
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t\t\t\t\t%s\t\t\n", r.name, r.note, r.target)
			continue
		}
		met := "no"
		switch {
		case r.target == besideKarpenter:
			met = "-"
		case r.met:
			met = "yes"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.pods, duration(r.first), ratio(r.firstCost), duration(r.whole), ratio(r.ratio), r.provenBy,
			duration(r.clock), number(r.bytes), number(r.allocs), r.target, met, r.note)
	}
	w.Flush()
	fmt.Println("\nTimes are CPU time on one thread, except for wall time. The first plan (tier 1) may be launched immediately.")
}

func duration(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// memory prints the memory of a cluster's state per pod, and per node with its NodeClaim.
func memory() {
	x := &problems.Problem{ResourceNames: model.FixedNames(), Pool: problems.Mix(1).Pool}
	held := func(nodes, podsEach int) float64 {
		debug.FreeOSMemory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x.Nodes = problems.Standing(nodes, podsEach, 1.2)
		s := cluster(x)
		x.Nodes = nil
		snap := s.Snapshot(start)
		debug.FreeOSMemory()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(s)
		runtime.KeepAlive(snap)
		return float64(after.HeapAlloc) - float64(before.HeapAlloc)
	}
	few, many := held(5000, 2), held(5000, 12)
	pod := (many - few) / 50_000
	fmt.Printf("Memory used by state and Snapshot: %.0f bytes per pod, %.0f bytes per node with NodeClaim.\n", pod, (few-10_000*pod)/5000)
}

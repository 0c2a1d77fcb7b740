// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// nearlyFullCluster is a cluster of n nodes with ten pods each of forty kinds, nine tenths full.
func nearlyFullCluster(tb testing.TB, n int) (*scenario, *Input) {
	x := newMarketScenario(tb, "m5", "c5", "r5", "m6i", "c6i", "r6i")
	kinds := make([]*model.Class, 40)
	for i := range kinds {
		k := fmt.Sprintf("k%d", i)
		x.runLine(strings.Fields(fmt.Sprintf("pods %s cpu=%dm mem=%dGi", k, 250+50*(i%10), 1+i%3)))
		kinds[i] = x.pods[k][0].Class
	}
	for i := range n {
		name := fmt.Sprintf("n%05d", i)
		x.addNode(name, [][2]string{{"pool", "p"}, {"type", []string{"m5.2xlarge", "c5.2xlarge", "r5.xlarge"}[i%3]}})
		u := x.nodes[len(x.nodes)-1]
		for j := range 10 {
			c := kinds[(i*7+j*3)%len(kinds)]
			if !c.Requests.Fits(u.Node.Allocatable.Sub(u.Node.Used)) {
				break
			}
			p := &model.Pod{Namespace: "default", Name: fmt.Sprintf("p-%d-%d", i, j), UID: fmt.Sprintf("p-%d-%d", i, j), Class: c, Ready: true,
				Owner: model.Owner{Kind: "ReplicaSet", Name: c.Key, UID: c.Key}, Bound: epoch}
			u.Node.Pods, u.Node.Used = append(u.Node.Pods, p), u.Node.Used.Add(c.Requests)
		}
	}
	return x, x.input()
}

// packedCluster is a cluster of about n nodes with ten pods each, bought tightly for them, so that little or nothing pays.
func packedCluster(tb testing.TB, n int) (*scenario, *Input) {
	x := newMarketScenario(tb, "m5", "c5", "r5", "m6i", "c6i", "r6i")
	for i := range x.types { // ordinary sizes, so that there are many nodes
		if x.types[i].Allocatable.At(model.CPU) > 8000 {
			x.types[i].Offerings[0].Available = false
		}
	}
	for i := range 40 {
		x.runLine(strings.Fields(fmt.Sprintf("pods k%d x%d cpu=%dm mem=%dGi", i, n/4, 550+50*(i%10), 1+i%3)))
	}
	x.buyForPending()
	return x, x.input()
}

// BenchmarkWideSearch searches 10,000 nodes with 80,000 pods without a memory, where a thousand may go.
func BenchmarkWideSearch(b *testing.B) {
	x, in := nearlyFullCluster(b, 10_000)
	benchmarkWideSearch(b, x, in)
}

// BenchmarkWideSearchPacked does the same with nodes that were bought tightly.
func BenchmarkWideSearchPacked(b *testing.B) {
	x, in := packedCluster(b, 10_000)
	benchmarkWideSearch(b, x, in)
}

func benchmarkWideSearch(b *testing.B, x *scenario, in *Input) {
	pods := 0
	for _, u := range in.Candidates {
		pods += len(u.Pods)
	}
	in.BudgetLeft["p"] = 1000 // the default budget, a tenth
	before, n := cpuMillis(), 0
	for b.Loop() {
		n++
		list, mem := Consolidate(in, x.pol, solve.DefaultPolicy(), Memory{})
		b.ReportMetric(float64(mem.Work), "steps")
		nodes := 0
		for _, m := range list {
			nodes += len(m.Candidates)
		}
		b.ReportMetric(float64(nodes), "nodes-taken")
	}
	b.ReportMetric((cpuMillis()-before)/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(pods), "pods")
	b.ReportMetric(float64(len(in.Candidates)), "nodes")
}

// BenchmarkNarrowSearch searches again after one node of 10,000 has lost a pod, or another has got one back.
func BenchmarkNarrowSearch(b *testing.B) {
	x, in := packedCluster(b, 10_000)
	var mem Memory
	for { // what a plan of such a size has missed
		in.BudgetLeft["p"] = 1000
		var list []*Command
		if list, mem = searchToTheEnd(in, x.pol, mem); len(list) == 0 {
			break
		}
		for _, m := range list {
			x.carryOut(m)
		}
		in = x.input()
	}
	in.Scope = Narrow
	whole := slices.Clone(in.Candidates)
	looked, before := int64(0), cpuMillis()
	for i := 0; b.Loop(); i++ {
		k := i / 2 * 7919 % len(in.Candidates)
		u := *whole[k]
		n := *u.Node
		u.Node = &n
		if i%2 == 0 {
			n.Pods, n.Used = n.Pods[1:], n.Used.Sub(n.Pods[0].Class.Requests)
			u.Pods = u.Pods[1:]
		}
		in.Candidates[k] = &u
		in.Nodes[k].Free, in.Nodes[k].Pods = n.Allocatable.Sub(n.Used), n.Pods
		_, mem = Consolidate(in, x.pol, solve.DefaultPolicy(), mem)
		looked += mem.Work
	}
	b.ReportMetric((cpuMillis()-before)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(looked)/float64(b.N), "steps")
	b.ReportMetric(float64(len(in.Candidates)), "nodes")
	b.ReportMetric(float64(retained(b, &mem))/1e6, "MB-kept")
	runtime.KeepAlive(in)
	runtime.KeepAlive(x)
	runtime.KeepAlive(whole)
}

// retained is how much of the heap a memory keeps beside the input.
func retained(b *testing.B, mem *Memory) uint64 {
	b.Helper()
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	*mem = Memory{}
	runtime.GC()
	runtime.ReadMemStats(&without)
	return with.HeapAlloc - without.HeapAlloc
}

// cpuMillis is the processor time of this process: on a machine that others use too it says more than a clock.
func cpuMillis() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

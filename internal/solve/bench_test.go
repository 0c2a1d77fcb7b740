// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/verify"
	"github.com/dovetail-sh/dovetail/test/problems"
)

// shared is where catalogues and traces lie, beside the repository.
const shared = "../../../shared/data"

// problemOf makes a Problem of what package problems gives, and skips what needs files that are not there.
func problemOf(tb testing.TB, x *problems.Problem, err error) *Problem {
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("needs the shared data beside the repository: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return &Problem{ResourceNames: x.ResourceNames, Demand: x.Demand, Pools: []Pool{{NodePool: x.Pool, NodesLeft: -1}}, Nodes: existingNodes(x.Nodes)}
}

func existingNodes(nodes []*model.Node) (out []ExistingNode) {
	for _, n := range nodes {
		out = append(out, ExistingNode{Name: n.Name, Labels: n.Labels, Allocatable: n.Allocatable, Free: n.Allocatable.Sub(n.Used), Pods: n.Pods})
	}
	return out
}

func standing(n, podsEach int, fill float64) []ExistingNode {
	return existingNodes(problems.Standing(n, podsEach, fill))
}

func basicProblem(tb testing.TB) *Problem {
	x, err := problems.Basic(shared)
	return problemOf(tb, x, err)
}

func diverseProblem(tb testing.TB, n int) *Problem {
	x, err := problems.Diverse(shared, n)
	return problemOf(tb, x, err)
}

func tianchiProblem(tb testing.TB, interference bool) *Problem {
	x, err := problems.Tianchi(shared, 0, interference)
	return problemOf(tb, x, err)
}

func openbProblem(tb testing.TB) *Problem {
	x, err := problems.Openb(shared)
	return problemOf(tb, x, err)
}

func onePodProblem(tb testing.TB, fits bool) *Problem {
	x, err := problems.OnePod(shared, fits)
	return problemOf(tb, x, err)
}

func manyProblem(tb testing.TB) *Problem {
	x, err := problems.Many(shared)
	return problemOf(tb, x, err)
}

// mixProblem is Karpenter's mix with host affinity too.
func mixProblem(n int) *Problem { return problemOf(nil, problems.MixHosts(n), nil) }

func bench(b *testing.B, p *Problem) {
	b.ReportAllocs()
	var r Result
	before, n := cpuMillis(), 0
	for b.Loop() {
		r, _ = Solve(p, Memory{}, DefaultPolicy())
		n++
	}
	b.ReportMetric((cpuMillis()-before)/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(r.Cost.NewMicroPerHour)/float64(max(1, r.Cost.BoundMicroPerHour)), "cost/bound")
	b.ReportMetric(float64(r.Cost.NewMicroPerHour)/1e6, "$/h")
	b.ReportMetric(float64(len(r.Refused)), "refused")
	b.ReportMetric(float64(len(r.New)), "nodes")
	b.ReportMetric(float64(r.Stats.Work)/1e6, "Msteps")
}

func BenchmarkBasic(b *testing.B)               { bench(b, basicProblem(b)) }
func BenchmarkDiverse(b *testing.B)             { bench(b, diverseProblem(b, 20000)) }
func BenchmarkTianchi(b *testing.B)             { bench(b, tianchiProblem(b, false)) }
func BenchmarkTianchiInterference(b *testing.B) { bench(b, tianchiProblem(b, true)) }
func BenchmarkOpenb(b *testing.B)               { bench(b, openbProblem(b)) }
func BenchmarkOnePod(b *testing.B)              { bench(b, onePodProblem(b, false)) }
func BenchmarkMany(b *testing.B)                { bench(b, manyProblem(b)) }
func BenchmarkMix(b *testing.B)                 { bench(b, mixProblem(10000)) }
func BenchmarkKarpenterMix(b *testing.B)        { bench(b, problemOf(b, problems.Mix(10000), nil)) }
func BenchmarkMixSmall(b *testing.B)            { bench(b, mixProblem(3000)) }

func BenchmarkOnePodFits(b *testing.B) { bench(b, onePodProblem(b, true)) }

// benchVerify times the checker on a plan, for every plan passes it before anything is done.
func benchVerify(b *testing.B, p *Problem) {
	r, _ := Solve(p, Memory{}, DefaultPolicy())
	in := verifyInput(p, r)
	for b.Loop() {
		if found := verify.Plan(in); len(found) > 0 {
			b.Fatal(found[0])
		}
	}
}

func BenchmarkVerifyTianchi(b *testing.B) { benchVerify(b, tianchiProblem(b, false)) }
func BenchmarkVerifyMany(b *testing.B)    { benchVerify(b, manyProblem(b)) }
func BenchmarkVerifyMix(b *testing.B)     { benchVerify(b, mixProblem(10000)) }
func BenchmarkVerifyOnePod(b *testing.B)  { benchVerify(b, onePodProblem(b, false)) }

// cpuMillis is the processor time of this process: on a machine that others use too it says more than a clock.
func cpuMillis() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

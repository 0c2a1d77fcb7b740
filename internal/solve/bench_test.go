// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// ec2 reads the catalogue beside the repository and offers it from one pool, on demand, as shared/bench does: amd64, no metal.
func ec2(tb testing.TB, categories string) Pool {
	tb.Helper()
	raw, err := os.ReadFile("../../../shared/data/ec2-us-east-1.json")
	if err != nil {
		tb.Skipf("needs the shared data beside the repository: %v", err)
	}
	var file struct {
		InstanceTypes []struct {
			Name        string
			Arch        string
			Labels      map[string]string
			Allocatable map[string]string
			OnDemand    float64 `json:"onDemandUSDPerHour"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		tb.Fatal(err)
	}
	pool := Pool{NodePool: &model.NodePool{Name: "default", Ready: true, Replicas: -1,
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "default"))}, NodesLeft: -1}
	for _, t := range file.InstanceTypes {
		gen, _ := strconv.Atoi(t.Labels["instance-generation"])
		cat := t.Labels["instance-category"]
		general := strings.Contains("cmr", cat) && len(cat) == 1 && gen > 2
		gpu := categories == "cmrgp" && (cat == "g" || cat == "p")
		if t.Arch != "amd64" || strings.Contains(t.Name, "metal") || !general && !gpu {
			continue
		}
		alloc := model.Resources{quantity(tb, t.Allocatable["cpu"]), quantity(tb, t.Allocatable["memory"]) / 1000 >> 20 << 20,
			quantity(tb, t.Allocatable["ephemeral-storage"]) / 1000, quantity(tb, t.Allocatable["pods"]) / 1000,
			quantity(tb, t.Allocatable["nvidia.com/gpu"]) / 1000}
		it := &model.InstanceType{Name: t.Name, Labels: model.Labels{model.LabelArch: t.Arch, model.LabelOS: "linux", model.LabelInstanceType: t.Name},
			Allocatable: alloc, Capacity: alloc}
		for _, z := range []string{"zone-a", "zone-b", "zone-c"} {
			it.Offerings = append(it.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: int64(math.Round(t.OnDemand * 1e6)),
				Available: true, Remaining: -1})
		}
		pool.Types = append(pool.Types, it)
	}
	slices.SortFunc(pool.Types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return pool
}

// quantity reads a Kubernetes quantity in thousandths.
func quantity(tb testing.TB, s string) int64 {
	tb.Helper()
	if s == "" {
		return 0
	}
	mult := 1000.0
	for suffix, m := range map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1e3, "M": 1e6, "G": 1e9} {
		if strings.HasSuffix(s, suffix) {
			s, mult = strings.TrimSuffix(s, suffix), m*1000
		}
	}
	if strings.HasSuffix(s, "m") {
		s, mult = strings.TrimSuffix(s, "m"), 1
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return int64(v * mult)
}

type shape struct{ cpu, mem, gpu int64 } // milli, MiB, whole

// demandOf makes pods, one class a shape.
func demandOf(n map[shape]int) []*model.Pod {
	shapes := make([]shape, 0, len(n))
	for s := range n {
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b shape) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	var out []*model.Pod
	for i, s := range shapes {
		c := &model.Class{Key: fmt.Sprintf("c%05d-%v", i, s), Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("w", i)},
			Requests: model.Resources{s.cpu, s.mem << 20, 0, 1, s.gpu}}
		for j := range n[s] {
			out = append(out, &model.Pod{Namespace: "default", Name: fmt.Sprintf("w%d-%d", i, j), UID: fmt.Sprintf("%d-%d", i, j), Class: c})
		}
	}
	return out
}

func basicProblem(tb testing.TB) *Problem {
	return &Problem{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu"), Pools: []Pool{ec2(tb, "cmr")},
		Demand: demandOf(map[shape]int{{900, 3100, 0}: 500, {3500, 28 << 10, 0}: 500})}
}

func diverseProblem(tb testing.TB, n int) *Problem {
	r := rand.New(rand.NewSource(42))
	count := map[shape]int{}
	for range n {
		count[shape{[]int64{100, 250, 500, 1000, 1500}[r.Intn(5)], []int64{100, 256, 512, 1024, 2048, 4096}[r.Intn(6)], 0}]++
	}
	return &Problem{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu"), Pools: []Pool{ec2(tb, "cmr")}, Demand: demandOf(count)}
}

func bench(b *testing.B, p *Problem) {
	b.ReportAllocs()
	var r Result
	for b.Loop() {
		r, _ = Solve(p, Memory{}, DefaultPolicy())
	}
	b.ReportMetric(float64(r.Cost.NewMicroPerHour)/float64(max(1, r.Cost.BoundMicroPerHour)), "cost/bound")
	b.ReportMetric(float64(r.Cost.NewMicroPerHour)/1e6, "$/h")
	b.ReportMetric(float64(len(r.Refused)), "refused")
	b.ReportMetric(float64(len(r.New)), "nodes")
}

func BenchmarkBasic(b *testing.B)   { bench(b, basicProblem(b)) }
func BenchmarkDiverse(b *testing.B) { bench(b, diverseProblem(b, 20000)) }

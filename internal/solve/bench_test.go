// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"archive/zip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/verify"
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

func bench(b *testing.B, p *Problem) { benchWork(b, p, DefaultPolicy().Work) }

func benchWork(b *testing.B, p *Problem, work int64) {
	b.ReportAllocs()
	var r Result
	pol := DefaultPolicy()
	pol.Work = work
	before, n := cpuMillis(), 0
	for b.Loop() {
		r, _ = Solve(p, Memory{}, pol)
		n++
	}
	b.ReportMetric((cpuMillis()-before)/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(r.Cost.NewMicroPerHour)/float64(max(1, r.Cost.BoundMicroPerHour)), "cost/bound")
	b.ReportMetric(float64(r.Cost.NewMicroPerHour)/1e6, "$/h")
	b.ReportMetric(float64(len(r.Refused)), "refused")
	b.ReportMetric(float64(len(r.New)), "nodes")
}

func BenchmarkBasic(b *testing.B)   { bench(b, basicProblem(b)) }
func BenchmarkDiverse(b *testing.B) { bench(b, diverseProblem(b, 20000)) }

// tianchi reads the containers of the Tianchi 2018 set B: a request is the peak of the usage curve, rounded up to 250m and 256Mi.
// With interference, pods of one application are one class, and the anti-affinity rules between applications are kept.
func tianchiProblem(tb testing.TB, interference bool) *Problem {
	tb.Helper()
	z, err := zip.OpenReader("../../../shared/data/traces/tianchi-b.zip")
	if err != nil {
		tb.Skipf("needs the shared traces beside the repository: %v", err)
	}
	defer z.Close()
	rows := func(part string) [][]string {
		for _, f := range z.File {
			if strings.HasSuffix(f.Name, "scheduling_preliminary_b_"+part+"_20180726.csv") {
				r, err := f.Open()
				if err != nil {
					tb.Fatal(err)
				}
				out, err := csv.NewReader(r).ReadAll()
				if err != nil {
					tb.Fatal(err)
				}
				return out
			}
		}
		tb.Fatalf("no %s in the archive", part)
		return nil
	}
	peak := func(s string, step int64) int64 {
		most := 0.0
		for _, x := range strings.Split(s, "|") {
			v, _ := strconv.ParseFloat(x, 64)
			most = max(most, v)
		}
		return int64(math.Ceil(most*4)) * step
	}
	count := map[string]int{}
	for _, x := range rows("instance_deploy") {
		count[x[1]]++
	}
	p := &Problem{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu"), Pools: []Pool{ec2(tb, "cmr")}}
	if !interference {
		shapes := map[shape]int{}
		for _, x := range rows("app_resources") {
			if n := count[x[0]]; n > 0 {
				shapes[shape{peak(x[1], 250), peak(x[2], 256), 0}] += n
			}
		}
		p.Demand = demandOf(shapes)
		return p
	}
	classes := map[string]*model.Class{}
	for _, x := range rows("app_resources") {
		n := count[x[0]]
		if n == 0 {
			continue
		}
		c := &model.Class{Key: x[0], Namespace: "default", Labels: model.Labels{"app": x[0]},
			Requests: model.Resources{peak(x[1], 250), peak(x[2], 256) << 20, 0, 1}}
		classes[x[0]] = c
		for j := range n {
			p.Demand = append(p.Demand, &model.Pod{Namespace: "default", Name: fmt.Sprintf("%s-%d", x[0], j), Class: c})
		}
	}
	for _, x := range rows("app_interference") { // where x[0] is, at most x[2] of x[1]: only the strict rules are Kubernetes'
		a, b := classes[x[0]], classes[x[1]]
		n, _ := strconv.Atoi(x[2])
		if a == nil || b == nil {
			continue
		}
		sel := model.NewRequirements(model.OneOf("app", x[1]))
		if a == b && n > 0 {
			a.Spread = append(a.Spread, model.SpreadConstraint{TopologyKey: model.LabelHostname, MaxSkew: int32(n) + 1, Hard: true, Selector: &sel})
		} else if n == 0 {
			a.AntiAffinity = append(a.AntiAffinity, model.PodTerm{TopologyKey: model.LabelHostname,
				Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}})
		}
	}
	return p
}

func openbProblem(tb testing.TB) *Problem {
	tb.Helper()
	f, err := os.Open("../../../shared/data/traces/openb-pods.csv")
	if err != nil {
		tb.Skipf("needs the shared traces beside the repository: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	col := map[string]int{}
	for i, h := range rows[0] {
		col[h] = i
	}
	count := map[shape]int{}
	for _, x := range rows[1:] {
		n := func(k string) int64 {
			v, err := strconv.ParseInt(x[col[k]], 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			return v
		}
		count[shape{n("cpu_milli"), n("memory_mib"), n("num_gpu")}]++
	}
	return &Problem{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu"), Pools: []Pool{ec2(tb, "cmrgp")}, Demand: demandOf(count)}
}

// standing makes n nodes of 16 cores, part filled with pods.
func standing(n, podsEach int, fill float64) []Room {
	r := rand.New(rand.NewSource(7))
	var out []Room
	var classes []*model.Class
	for i := range 200 {
		classes = append(classes, &model.Class{Key: fmt.Sprint("standing", i), Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("s", i)},
			Requests: model.Resources{int64(100 * (1 + r.Intn(int(160*fill/float64(podsEach))+1))), int64(256<<20) * int64(1+r.Intn(8)), 0, 1}})
	}
	for i := range n {
		x := Room{Name: fmt.Sprintf("node-%05d", i), Labels: model.Labels{model.LabelHostname: fmt.Sprintf("node-%05d", i),
			model.LabelZone: []string{"zone-a", "zone-b", "zone-c"}[i%3], model.LabelInstanceType: "m5.4xlarge", model.LabelArch: "amd64", model.LabelOS: "linux"},
			Allocatable: model.Resources{15890, 57 << 30, 100 << 30, 110}}
		free := x.Allocatable.Clone()
		for j := range podsEach {
			c := classes[r.Intn(len(classes))]
			x.Pods = append(x.Pods, &model.Pod{Namespace: "default", Name: fmt.Sprintf("s-%d-%d", i, j), Class: c})
			free = free.Sub(c.Requests)
		}
		x.Free = free
		out = append(out, x)
	}
	return out
}

func onePodProblem(tb testing.TB) *Problem {
	p := &Problem{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu"), Pools: []Pool{ec2(tb, "cmr")}, Rooms: standing(10000, 10, 1.2),
		Demand: demandOf(map[shape]int{{15000, 3100, 0}: 1})}
	return p
}

func manyProblem(tb testing.TB) *Problem {
	r := rand.New(rand.NewSource(11))
	count := map[shape]int{}
	for len(count) < 2000 {
		count[shape{int64(50 * (1 + r.Intn(60))), int64(64 * (1 + r.Intn(120))), 0}] = 50
	}
	return &Problem{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu"), Pools: []Pool{ec2(tb, "cmr")}, Rooms: standing(5000, 8, 0.5),
		Demand: demandOf(count)}
}

// mixProblem is the mix of Karpenter's own scheduling benchmark: a sixth each plain, zone spread, host spread, affinity over host and
// zone, and host anti-affinity, sizes and labels at random, 400 synthetic types.
func mixProblem(n int) *Problem {
	r := rand.New(rand.NewSource(42))
	p := &Problem{ResourceNames: model.FixedNames()}
	pool := Pool{NodePool: &model.NodePool{Name: "default", Ready: true, Replicas: -1,
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "default"))}, NodesLeft: -1}
	for i := range 400 {
		cpu, mem := int64(i+1)*1000, int64(i+1)*2<<30
		alloc := model.Resources{cpu - 100, mem - 10<<20, 20 << 30, int64(i+1) * 10}
		t := &model.InstanceType{Name: fmt.Sprintf("fake-it-%03d", i), Labels: model.Labels{model.LabelArch: "amd64", model.LabelOS: "linux"},
			Allocatable: alloc, Capacity: alloc}
		for _, z := range []string{"test-zone-1", "test-zone-2", "test-zone-3"} {
			t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, Available: true, Remaining: -1,
				PriceMicro: int64(i+1)*25_000 + int64(i+1)*2*1_000})
		}
		pool.Types = append(pool.Types, t)
	}
	p.Pools = []Pool{pool}
	classes := map[string]*model.Class{}
	for i := range n {
		label := string(rune('a' + r.Intn(7)))
		c := &model.Class{Namespace: "default", Labels: model.Labels{"my-label": label}, Requests: model.Resources{
			[]int64{100, 250, 500, 1000, 1500}[r.Intn(5)], []int64{100, 256, 512, 1024, 2048, 4096}[r.Intn(6)] << 20, 0, 1}}
		kind := i * 6 / n
		mine := model.NewRequirements(model.OneOf("my-label", string(rune('a'+r.Intn(7)))))
		key := []string{"", model.LabelZone, model.LabelHostname, model.LabelHostname, model.LabelZone, model.LabelHostname}[kind]
		sel := model.Selector{Namespaces: []string{"default"}, Pods: &mine}
		switch kind {
		case 1, 2:
			c.Spread = []model.SpreadConstraint{{TopologyKey: key, MaxSkew: 1, Hard: true, Selector: &mine}}
		case 3, 4:
			own := "my-affinity"
			c.Labels = model.Labels{own: label}
			mine = model.NewRequirements(model.OneOf(own, label))
			c.Affinity = []model.PodTerm{{TopologyKey: key, Selector: sel}}
		case 5:
			c.Labels = model.Labels{"app": "nginx"}
			mine = model.NewRequirements(model.OneOf("app", "nginx"))
			c.AntiAffinity = []model.PodTerm{{TopologyKey: key, Selector: sel}}
		}
		c.Key = fmt.Sprint(kind, c.Labels, mine.Key(), c.Requests)
		if classes[c.Key] == nil {
			classes[c.Key] = c
		}
		p.Demand = append(p.Demand, &model.Pod{Namespace: "default", Name: fmt.Sprintf("p%05d", i), Class: classes[c.Key]})
	}
	return p
}

func BenchmarkTianchi(b *testing.B)             { bench(b, tianchiProblem(b, false)) }
func BenchmarkTianchiInterference(b *testing.B) { bench(b, tianchiProblem(b, true)) }
func BenchmarkOpenb(b *testing.B)               { benchWork(b, openbProblem(b), DefaultPolicy().Work) }
func BenchmarkOnePod(b *testing.B)              { bench(b, onePodProblem(b)) }
func BenchmarkMany(b *testing.B)                { bench(b, manyProblem(b)) }
func BenchmarkMix(b *testing.B)                 { bench(b, mixProblem(10000)) }
func BenchmarkMixSmall(b *testing.B)            { bench(b, mixProblem(3000)) }

func BenchmarkOnePodFits(b *testing.B) {
	p := onePodProblem(b)
	p.Demand = demandOf(map[shape]int{{500, 512, 0}: 1})
	bench(b, p)
}

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
func BenchmarkVerifyOnePod(b *testing.B)  { benchVerify(b, onePodProblem(b)) }

// cpuMillis is the processor time of this process: on a machine that others use too it says more than a clock.
func cpuMillis() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

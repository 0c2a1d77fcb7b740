// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package problems generates the problems for benchmarks of the solver: real EC2 types and prices, public traces, and random workloads with
// fixed seeds. The same call always returns the same problem. Traces and prices are read from files outside the repository, in a directory
// set by the caller; other problems need no files.
//
// It returns values of package model only, so the solver's tests can use it. Start reading at Problem.
package problems

import (
	"archive/zip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Problem is pods, what may be bought for them, and nodes that stand.
type Problem struct {
	ResourceNames []string
	Demand        []*model.Pod
	Pool          *model.NodePool
	Others        []*model.NodePool // beside Pool
	Nodes         []*model.Node
}

// names are those of clusters with GPUs.
func names() []string { return append(model.FixedNames(), "nvidia.com/gpu") }

// on makes a problem of the EC2 types of some categories.
func on(data, categories string, demand []*model.Pod) (*Problem, error) {
	pool, err := ec2(data, categories)
	return &Problem{ResourceNames: names(), Pool: pool, Demand: demand}, err
}

// Basic is a thousand pods of two sizes.
func Basic(data string) (*Problem, error) {
	return on(data, "cmr", demandOf(map[shape]int{{900, 3100, 0}: 500, {3500, 28 << 10, 0}: 500}))
}

// Diverse is the sizes of Karpenter's own benchmark, without its affinities and spreads.
func Diverse(data string, n int) (*Problem, error) {
	r := rand.New(rand.NewSource(42))
	count := map[shape]int{}
	for range n {
		count[shape{[]int64{100, 250, 500, 1000, 1500}[r.Intn(5)], []int64{100, 256, 512, 1024, 2048, 4096}[r.Intn(6)], 0}]++
	}
	return on(data, "cmr", demandOf(count))
}

// Shapes is pods of five sizes, most of which a node of 4 cores has room for, and nothing to buy for them yet.
func Shapes(n int) *Problem {
	count := map[shape]int{}
	sizes := []shape{{500, 1024, 0}, {1000, 4096, 0}, {1500, 2048, 0}, {2000, 8192, 0}, {3500, 8192, 0}}
	for i := range n {
		count[sizes[i%len(sizes)]]++
	}
	return &Problem{ResourceNames: names(), Pool: newPool(), Demand: demandOf(count)}
}

// MinValues returns a problem whose pool also asks for numbers of distinct instance categories, families, generations and
// types; 0: any number. Without any it is the problem with the labels that these are of.
func MinValues(x *Problem, categories, families, generations, types int) *Problem {
	pool := *x.Pool
	for i, t := range pool.Types {
		labelled := *t
		labelled.Labels = model.Labels{}
		for k, v := range t.Labels {
			labelled.Labels[k] = v
		}
		family, _, _ := strings.Cut(t.Name, ".")
		category := strings.TrimRight(family[:strings.IndexAny(family, "0123456789")], "-")
		labelled.Labels[awsPrefix+"instance-family"], labelled.Labels[awsPrefix+"instance-category"] = family, category[:1]
		labelled.Labels[awsPrefix+"instance-generation"] = strings.TrimLeft(family, "abcdefghijklmnopqrstuvwxyz-")[:1]
		if i == 0 {
			pool.Types = slices.Clone(pool.Types)
		}
		pool.Types[i] = &labelled
	}
	for key, n := range map[string]int{awsPrefix + "instance-category": categories, awsPrefix + "instance-family": families,
		awsPrefix + "instance-generation": generations, model.LabelInstanceType: types} {
		if n > 0 {
			r, _ := model.NewRequirement(key, model.OpExists)
			r.MinValues = n
			pool.Requirements = pool.Requirements.With(r)
		}
	}
	return &Problem{ResourceNames: x.ResourceNames, Demand: x.Demand, Pool: &pool, Nodes: x.Nodes}
}

const awsPrefix = "karpenter.k8s.aws/"

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

// ec2 reads the catalog beside the repository and offers it from one pool, on demand, as shared/bench does: amd64, no metal.
func ec2(data, categories string) (*model.NodePool, error) {
	raw, err := os.ReadFile(filepath.Join(data, "ec2-us-east-1.json"))
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
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
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	pool := newPool()
	for _, t := range file.InstanceTypes {
		gen, _ := strconv.Atoi(t.Labels["instance-generation"])
		cat := t.Labels["instance-category"]
		general := strings.Contains("cmr", cat) && len(cat) == 1 && gen > 2
		gpu := categories == "cmrgp" && (cat == "g" || cat == "p")
		if t.Arch != "amd64" || strings.Contains(t.Name, "metal") || !general && !gpu {
			continue
		}
		alloc := make(model.Resources, 5)
		for i, k := range []string{"cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"} {
			v, err := quantity(t.Allocatable[k])
			if err != nil {
				return nil, fmt.Errorf("read the catalog: type %s: %s: %w", t.Name, k, err)
			}
			if k != "cpu" {
				v /= 1000
			}
			alloc[i] = v
		}
		alloc[1] = alloc[1] >> 20 << 20
		it := &model.InstanceType{Name: t.Name, Labels: model.Labels{model.LabelArch: t.Arch, model.LabelOS: "linux", model.LabelInstanceType: t.Name},
			Allocatable: alloc, Capacity: alloc}
		for _, z := range []string{"zone-a", "zone-b", "zone-c"} {
			it.Offerings = append(it.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: int64(math.Round(t.OnDemand * 1e6)),
				Available: true, Remaining: -1})
		}
		pool.Types = append(pool.Types, it)
	}
	slices.SortFunc(pool.Types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return pool, nil
}

func newPool() *model.NodePool {
	return &model.NodePool{Name: "default", UID: "default", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "default"))}
}

// quantity reads a Kubernetes quantity in thousandths.
func quantity(s string) (int64, error) {
	if s == "" {
		return 0, nil
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
	return int64(v * mult), err
}

// Tianchi reads the containers of the Tianchi 2018 set B: a request is the peak of the usage curve, rounded up to 250m and 256Mi.
// A sample is drawn of the pods where one is asked for. With interference, pods of one application are one class, and the anti-affinity rules between applications are kept.
func Tianchi(data string, sample int, interference bool) (*Problem, error) {
	z, err := zip.OpenReader(filepath.Join(data, "traces", "tianchi-b.zip"))
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer z.Close()
	table := map[string][][]string{}
	for _, part := range []string{"instance_deploy", "app_resources", "app_interference"} {
		for _, f := range z.File {
			if !strings.HasSuffix(f.Name, "scheduling_preliminary_b_"+part+"_20180726.csv") {
				continue
			}
			r, err := f.Open()
			if err != nil {
				return nil, fmt.Errorf("read the trace: %w", err)
			}
			if table[part], err = csv.NewReader(r).ReadAll(); err != nil {
				return nil, fmt.Errorf("read the trace: %s: %w", f.Name, err)
			}
		}
		if len(table[part]) == 0 {
			return nil, fmt.Errorf("read the trace: the archive has no %s", part)
		}
	}
	rows := func(part string) [][]string { return table[part] }
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
	p, err := on(data, "cmr", nil)
	if err != nil {
		return nil, err
	}
	if !interference {
		shapes := map[shape]int{}
		for _, x := range rows("app_resources") {
			if n := count[x[0]]; n > 0 {
				shapes[shape{peak(x[1], 250), peak(x[2], 256), 0}] += n
			}
		}
		p.Demand = demandOf(shapes)
		if 0 < sample && sample < len(p.Demand) {
			r := rand.New(rand.NewSource(42))
			r.Shuffle(len(p.Demand), func(i, j int) { p.Demand[i], p.Demand[j] = p.Demand[j], p.Demand[i] })
			p.Demand = p.Demand[:sample]
		}
		return p, nil
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
	return p, nil
}

// Openb is the Alibaba GPU trace of 2023. A share of a GPU counts as a whole one.
func Openb(data string) (*Problem, error) {
	f, err := os.Open(filepath.Join(data, "traces", "openb-pods.csv"))
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	col := map[string]int{}
	for i, h := range rows[0] {
		col[h] = i
	}
	count := map[shape]int{}
	for _, x := range rows[1:] {
		var n [3]int64
		for i, k := range []string{"cpu_milli", "memory_mib", "num_gpu"} {
			if n[i], err = strconv.ParseInt(x[col[k]], 10, 64); err != nil {
				return nil, fmt.Errorf("read the trace: %s: %w", k, err)
			}
		}
		count[shape{n[0], n[1], n[2]}]++
	}
	return on(data, "cmrgp", demandOf(count))
}

// Standing makes n nodes of 16 cores, part filled with pods.
func Standing(n, podsEach int, fill float64) []*model.Node {
	r := rand.New(rand.NewSource(7))
	var out []*model.Node
	var classes []*model.Class
	for i := range 200 {
		classes = append(classes, &model.Class{Key: fmt.Sprint("standing", i), Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("s", i)},
			Requests: model.Resources{int64(100 * (1 + r.Intn(int(160*fill/float64(podsEach))+1))), int64(256<<20) * int64(1+r.Intn(8)), 0, 1}})
	}
	for i := range n {
		x := &model.Node{Name: fmt.Sprintf("node-%05d", i), UID: fmt.Sprintf("node-%05d", i), Ready: true, Labels: model.Labels{model.LabelHostname: fmt.Sprintf("node-%05d", i),
			model.LabelZone: []string{"zone-a", "zone-b", "zone-c"}[i%3], model.LabelInstanceType: "m5.4xlarge", model.LabelArch: "amd64", model.LabelOS: "linux"},
			Allocatable: model.Resources{15890, 57 << 30, 100 << 30, 110}}
		for j := range podsEach {
			c := classes[r.Intn(len(classes))]
			name := fmt.Sprintf("s-%d-%d", i, j)
			x.Pods = append(x.Pods, &model.Pod{Namespace: "default", Name: name, UID: name, Node: x.Name, Class: c})
			x.Used = x.Used.AddInto(c.Requests, 1)
		}
		out = append(out, x)
	}
	return out
}

// OnePod is one pod that no node of ten thousand has room for, or has.
func OnePod(data string, fits bool) (*Problem, error) {
	size := shape{15000, 3100, 0}
	if fits {
		size = shape{500, 512, 0}
	}
	p, err := on(data, "cmr", demandOf(map[shape]int{size: 1}))
	if err == nil {
		p.Nodes = Standing(10000, 10, 1.2)
	}
	return p, err
}

// Many is a hundred thousand pods in two thousand classes, and five thousand nodes that are part filled.
func Many(data string) (*Problem, error) {
	r := rand.New(rand.NewSource(11))
	count := map[shape]int{}
	for len(count) < 2000 {
		count[shape{int64(50 * (1 + r.Intn(60))), int64(64 * (1 + r.Intn(120))), 0}] = 50
	}
	p, err := on(data, "cmr", demandOf(count))
	if err == nil {
		p.Nodes = Standing(5000, 8, 0.5)
	}
	return p, err
}

// Tenants is a NodePool for each of n teams, with the same instance types, one of a hundred weights and the team's label, and three pods of each team, which only run there.
func Tenants(data string, n int) (*Problem, error) {
	pool, err := ec2(data, "cmr")
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewSource(7))
	p := &Problem{ResourceNames: names()}
	for i := range n {
		team := fmt.Sprintf("team-%03d", i)
		own := *pool
		own.Weight = int32(i % 100)
		own.Name, own.UID, own.Labels = team, team, model.Labels{"team": team}
		own.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, team), model.OneOf("team", team))
		p.Others = append(p.Others, &own)
		c := &model.Class{Key: team, Namespace: team, Labels: model.Labels{"app": team}, Requests: model.Resources{int64(100 * (1 + r.Intn(30))), int64(256*(1+r.Intn(40))) << 20, 0, 1},
			Terms: []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf("team", team))}}}
		for j := range 3 {
			p.Demand = append(p.Demand, &model.Pod{Namespace: team, Name: fmt.Sprint("web-", j), UID: fmt.Sprintf("%s-%d", team, j), Class: c})
		}
	}
	p.Pool, p.Others = p.Others[0], p.Others[1:]
	return p, nil
}

// Mix is the mix of Karpenter's own scheduling benchmark: a fifth each plain, zone spread, host spread, zone affinity and host
// anti-affinity, sizes and labels at random, 400 synthetic types.
func Mix(n int) *Problem { return mix(n, 0, 1, 2, 4, 5) }

// MixHosts is the same with host affinity too.
func MixHosts(n int) *Problem { return mix(n, 0, 1, 2, 3, 4, 5) }

func mix(n int, kinds ...int) *Problem {
	r := rand.New(rand.NewSource(42))
	p := &Problem{ResourceNames: model.FixedNames()}
	pool := newPool()
	for i := range 400 {
		cpu, mem := int64(i+1)*1000, int64(i+1)*2<<30
		t := &model.InstanceType{Name: fmt.Sprintf("fake-it-%d", i), Labels: model.Labels{model.LabelArch: "amd64", model.LabelOS: "linux"},
			Capacity: model.Resources{cpu, mem, 20 << 30, int64(i+1) * 10}, Allocatable: model.Resources{cpu - 100, mem - 10<<20, 20 << 30, int64(i+1) * 10}}
		for _, o := range [][2]string{{"test-zone-1", model.Spot}, {"test-zone-2", model.Spot}, {"test-zone-1", model.OnDemand}, {"test-zone-2", model.OnDemand},
			{"test-zone-3", model.OnDemand}} {
			t.Offerings = append(t.Offerings, model.Offering{Zone: o[0], CapacityType: o[1], Available: true, Remaining: -1, PriceMicro: cpu*100 + mem/10_000})
		}
		pool.Types = append(pool.Types, t)
	}
	p.Pool = pool
	classes := map[string]*model.Class{}
	for i := range n {
		label := string(rune('a' + r.Intn(7)))
		c := &model.Class{Namespace: "default", Labels: model.Labels{"my-label": label}, Requests: model.Resources{
			[]int64{100, 250, 500, 1000, 1500}[r.Intn(5)], []int64{100, 256, 512, 1024, 2048, 4096}[r.Intn(6)] << 20, 0, 1}}
		kind := kinds[i*len(kinds)/n]
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

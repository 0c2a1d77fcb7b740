// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/verify"
)

// chance draws numbers: rapid's when it searches for a counterexample, a seeded source's or a fuzzer's bytes elsewhere.
type chance interface{ n(limit int) int }

type rapidChance struct{ t *rapid.T }

func (r rapidChance) n(limit int) int { return rapid.IntRange(0, limit-1).Draw(r.t, "n") }

type randChance struct{ *rand.Rand }

func (r randChance) n(limit int) int { return r.Intn(limit) }

type byteChance struct{ data []byte }

func (b *byteChance) n(limit int) int {
	if len(b.data) == 0 {
		return 0
	}
	v := int(b.data[0])
	b.data = b.data[1:]
	return v % limit
}

func one(c chance, of ...string) string { return of[c.n(len(of))] }

func maybe(c chance, s string) string {
	if c.n(3) == 2 {
		return " " + s
	}
	return ""
}

// randomProblem writes a problem with every constraint in it, small enough to be looked at.
func randomProblem(c chance) string {
	var b strings.Builder
	for i := range 1 + c.n(3) {
		fmt.Fprintf(&b, "pool p%d weight=%d", i, c.n(2)*10)
		b.WriteString(maybe(c, fmt.Sprintf("limit.cpu=%d", 1+c.n(12))) + maybe(c, fmt.Sprintf("limit.nodes=%d", c.n(4))))
		b.WriteString(maybe(c, "taint="+one(c, "t1=x:NoSchedule", "t2=y:NoExecute", "t1=z:PreferNoSchedule")))
		b.WriteString(maybe(c, "label=team="+one(c, "red", "blue")) + maybe(c, "req=zone:"+one(c, "In:a,b", "NotIn:c", "In:b")))
		b.WriteString(maybe(c, "req=tier:"+one(c, "In:1,2", "Exists", "Gt:3", "NotIn:1")) + maybe(c, fmt.Sprintf("minvalues=type:%d", 1+c.n(3))+maybe(c, "relax")))
		b.WriteByte('\n')
	}
	for i := range 1 + c.n(4) {
		fmt.Fprintf(&b, "type t%d cpu=%d mem=%dGi price=0.%02d", i, 1+c.n(6), 1+c.n(12), 1+c.n(60))
		if c.n(3) == 2 {
			fmt.Fprintf(&b, " pods=%d", 1+c.n(5))
		}
		b.WriteString(maybe(c, fmt.Sprintf("spot=0.%02d", 1+c.n(30))) + maybe(c, "zones="+one(c, "a", "a,b", "b,c")) + maybe(c, "gone="+one(c, "a", "b")))
		b.WriteString(maybe(c, "label=arch="+one(c, "amd64", "arm64")) + maybe(c, fmt.Sprintf("csi=ebs:%d", 1+c.n(2))) + maybe(c, "gpu=1") + maybe(c, fmt.Sprintf("reserved=%d", c.n(3))) + "\n")
	}
	nodes := c.n(4)
	for i := range nodes {
		fmt.Fprintf(&b, "node r%d cpu=%d mem=%dGi", i, 1+c.n(6), 1+c.n(12))
		if c.n(4) > 0 {
			b.WriteString(" label=zone=" + one(c, "a", "b", "c"))
		}
		b.WriteString(maybe(c, "label=team="+one(c, "red", "blue")) + maybe(c, "taint="+one(c, "t1=x:NoSchedule", "t3=x:NoSchedule")))
		if c.n(4) == 3 {
			b.WriteString(" inflight open=" + one(c, "zone:In:a,b", "arch:In:amd64,arm64", "zone:Exists"))
		}
		switch c.n(8) {
		case 7:
			b.WriteString(" closed")
		case 6:
			b.WriteString(" drained")
		}
		b.WriteString(maybe(c, fmt.Sprintf("csi=ebs:%d", 1+c.n(2))) + "\n")
		for range c.n(3) {
			fmt.Fprintf(&b, "on r%d x%d%s\n", i, 1+c.n(2), randomPod(c))
		}
	}
	b.WriteString("namespace other label=env=prod\n")
	for i := range 1 + c.n(5) {
		fmt.Fprintf(&b, "pod w%d x%d%s\n", i, 1+c.n(5), randomPod(c))
	}
	for i := range c.n(3) {
		b.WriteString(randomDaemon(c, i))
	}
	if c.n(10) == 9 { // only DaemonSets request memory
		return podMemory.ReplaceAllString(b.String(), "${1}mem=0Mi")
	}
	return b.String()
}

// podMemory is what a pod requests of memory, in a problem that randomProblem writes.
var podMemory = regexp.MustCompile(`(?m)^(pod .*)mem=[0-9]+Mi`)

// randomSpread writes a problem of pods that spread over zones in some of which nodes stand and in others of which they can be launched.
func randomSpread(c chance) string {
	var b strings.Builder
	for i := range 1 + c.n(2) {
		fmt.Fprintf(&b, "pool p%d%s%s\n", i, maybe(c, "limit.nodes="+one(c, "1", "2")), maybe(c, "req=zone:"+one(c, "In:a", "In:a,b", "NotIn:c", "NotIn:a")))
	}
	for i := range 1 + c.n(2) {
		fmt.Fprintf(&b, "type t%d cpu=%d mem=8Gi price=0.%02d%s%s%s\n", i, 1+c.n(4), 1+c.n(60), maybe(c, "spot=0.01"), maybe(c, "zones="+one(c, "a", "a,b", "b,c")), maybe(c, "gone="+one(c, "a", "b")))
	}
	for i := range c.n(4) {
		fmt.Fprintf(&b, "node r%d cpu=%d mem=8Gi label=zone=%s%s\n", i, c.n(3), one(c, "a", "b", "c"), maybe(c, one(c, "closed", "drained", "taint=t1=x:NoSchedule")))
		if c.n(2) == 0 {
			fmt.Fprintf(&b, "on r%d x%d cpu=0 mem=0Gi label=app=x\n", i, 1+c.n(3))
		}
	}
	for i := range 1 + c.n(2) {
		fmt.Fprintf(&b, "pod w%d x%d cpu=1 mem=1Gi label=app=x spread=zone:%d:app=x%s%s%s\n", i, 1+c.n(5), 1+c.n(2), one(c, "", "", ":ignore", ":min=3", ":min=4", ":honor"),
			maybe(c, "select="+one(c, "zone:In:a,b", "zone:NotIn:a")), maybe(c, one(c, "apart=host:app=x", "near=zone:app=x", "volume=v5:ebs:unmade", "spread=ct:1:app=x")))
	}
	return b.String()
}

// randomDaemon writes a DaemonSet: on which nodes its pods stand, what of other pods they select and are selected by, and sometimes
// that its newest pod asks for more than its template.
func randomDaemon(c chance, i int) string {
	var b strings.Builder
	app := one(c, "x", "y", "agent")
	fmt.Fprintf(&b, "daemon d%d cpu=%dm mem=%s label=app=%s%s", i, 100+100*c.n(4), one(c, "64Mi", "64Mi", "3Gi", "20Gi"), app, maybe(c, "tolerate="+one(c, "*", "t1", "t2")))
	b.WriteString(maybe(c, "select="+one(c, "zone:In:a", "zone:In:b", "team:In:red", "host:Exists", "pool:In:p0", "type:NotIn:t0", "karpenter.sh/registered:In:true",
		"karpenter.sh/initialized:Exists", "karpenter.sh/initialized:DoesNotExist")))
	b.WriteString(maybe(c, fmt.Sprintf("port=%d", 80+c.n(2))) + maybe(c, fmt.Sprintf("apart=%s:app=%s", one(c, "host", "zone"), one(c, "x", "z", "agent"))) + "\n")
	if c.n(3) == 2 {
		fmt.Fprintf(&b, "newest d%d cpu=%dm mem=128Mi label=app=%s label=team=red%s\n", i, 300+100*c.n(4), app, maybe(c, "port=81"))
	}
	return b.String()
}

func randomPod(c chance) string {
	var b strings.Builder
	cpu, mem := 100*(1+c.n(25)), 128*(1+c.n(24))
	switch c.n(8) {
	case 6: // a pod need not ask for either
		cpu = 0
	case 7:
		mem = 0
	}
	fmt.Fprintf(&b, " cpu=%dm mem=%dMi label=app=%s", cpu, mem, one(c, "x", "y", "z"))
	b.WriteString(maybe(c, "tolerate="+one(c, "t1", "t1=x", "t2", "*")))
	if c.n(2) == 0 {
		return b.String() // a plain pod
	}
	app := func() string { return "app=" + one(c, "x", "y", "z") }
	key := func() string { return one(c, "zone", "host", "ct") }
	b.WriteString(maybe(c, "select="+one(c, "zone:In:a,b", "zone:NotIn:a", "team:In:red", "team:NotIn:red", "team:DoesNotExist", "tier:In:1",
		"tier:Gt:2", "ct:In:on-demand", "type:In:t0,t1", "arch:In:amd64", "host:In:r0", "pool:In:p0")))
	b.WriteString(maybe(c, "or="+one(c, "zone:In:c", "team:In:blue", "type:In:t1")))
	b.WriteString(maybe(c, fmt.Sprintf("spread=%s:%d:%s%s", key(), 1+c.n(2), app(), one(c, "", "", ":soft", ":min=2", ":min=4", ":ignore"))))
	b.WriteString(maybe(c, fmt.Sprintf("near=%s:%s", key(), app())) + maybe(c, fmt.Sprintf("apart=%s:%s", key(), app())))
	b.WriteString(maybe(c, fmt.Sprintf("apart=%s:%s", key(), one(c, "app!=x", "app!=y", "app!=x|y", "app!=z+tier!=1", "app=x+tier!=1", "tier!=1"))) + maybe(c, "label=tier=1"))
	b.WriteString(maybe(c, fmt.Sprintf("prefer=%d:%s", 1+c.n(100), one(c, "zone:In:a", "ct:In:on-demand", "type:In:t1", "team:In:red"))))
	b.WriteString(maybe(c, fmt.Sprintf("%s=%d:%s:%s", one(c, "preferNear", "preferApart"), 1+c.n(100), key(), app())))
	b.WriteString(maybe(c, fmt.Sprintf("port=%d", 80+c.n(2))) + maybe(c, fmt.Sprintf("priority=%d", c.n(2))))
	b.WriteString(maybe(c, "volume="+one(c, "v0:ebs", "v1:ebs", "v2:ebs:zone=b", "v3:only", "v4:zone=a", "v5:ebs:unmade", "v5:ebs:unmade")) + maybe(c, "gpu=1"))
	return b.String()
}

// TestEveryPlanPasses holds random plans against verify, and the bound against the cost.
func TestEveryPlanPasses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := randomProblem(rapidChance{rt})
		p := parseProblem(t, text)
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(rt, text, p, r)
	})
}

func checkRapid(t interface{ Fatalf(string, ...any) }, text string, p *Problem, r Result) {
	if found := violations(p, r); len(found) > 0 {
		t.Fatalf("%s----\n%s%s", text, describe(p, r), strings.Join(found, "\n"))
	}
}

// FuzzSolve does the same with bytes that the fuzzer chooses.
func FuzzSolve(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		text := randomProblem(&byteChance{data})
		p := parseProblem(t, text)
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(t, text, p, r)
	})
}

// TestOrderDoesNotMatter shuffles every slice of a problem fifty times.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range int64(40) {
		text := randomProblem(randChance{rand.New(rand.NewSource(seed))})
		p := parseProblem(t, text)
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		want := describe(p, r)
		for i := range 50 {
			q := shuffled(p, rand.New(rand.NewSource(int64(i))))
			r, _ := Solve(q, Memory{}, DefaultPolicy())
			if got := describe(q, r); got != want {
				t.Fatalf("seed %d shuffle %d: the plan depends on the order of its input\n%s--- got\n%s--- want\n%s", seed, i, text, got, want)
			}
		}
	}
}

func shuffled(p *Problem, r *rand.Rand) *Problem {
	mix := func(n int, swap func(i, j int)) { r.Shuffle(n, swap) }
	q := *p
	q.Demand, q.Nodes, q.Daemons = slices.Clone(p.Demand), slices.Clone(p.Nodes), slices.Clone(p.Daemons)
	mix(len(q.Demand), func(i, j int) { q.Demand[i], q.Demand[j] = q.Demand[j], q.Demand[i] })
	mix(len(q.Nodes), func(i, j int) { q.Nodes[i], q.Nodes[j] = q.Nodes[j], q.Nodes[i] })
	mix(len(q.Daemons), func(i, j int) { q.Daemons[i], q.Daemons[j] = q.Daemons[j], q.Daemons[i] })
	for i := range q.Nodes {
		pods := slices.Clone(q.Nodes[i].Pods)
		mix(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		q.Nodes[i].Pods = pods
	}
	q.Pools = nil
	for _, x := range p.Pools {
		pool := *x.NodePool
		pool.Types = nil
		for _, t := range x.Types {
			mixed := *t
			mixed.Offerings = slices.Clone(t.Offerings)
			mix(len(mixed.Offerings), func(i, j int) { mixed.Offerings[i], mixed.Offerings[j] = mixed.Offerings[j], mixed.Offerings[i] })
			pool.Types = append(pool.Types, &mixed)
		}
		mix(len(pool.Types), func(i, j int) { pool.Types[i], pool.Types[j] = pool.Types[j], pool.Types[i] })
		x.NodePool = &pool
		q.Pools = append(q.Pools, x)
	}
	mix(len(q.Pools), func(i, j int) { q.Pools[i], q.Pools[j] = q.Pools[j], q.Pools[i] })
	return &q
}

// TestAgainstEveryPacking compares plans for small problems without topology with the cheapest of all packings, found by trying each: types in one pool or
// in two, with prices in proportion to their size or not, and pods that request one resource or two. A plan may cost 1 % more than the cheapest, since each
// machine counts as a little more than its price (Policy.MachineMicro).
func TestAgainstEveryPacking(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChance{rt}
		var b strings.Builder
		types := make([]string, 1+c.n(4))
		pools := [2][]string{}
		proportional := c.n(2) == 0
		for i := range types {
			if proportional { // a cloud's sizes, of which the operating system takes its part
				types[i] = fmt.Sprintf("type t%d cpu=%dm mem=%dMi price=%.2f zones=a\n", i, 2000<<i-70-2<<i, 4000<<i, 0.08*float64(int(1)<<i))
			} else {
				types[i] = fmt.Sprintf("type t%d cpu=%d mem=%dGi price=0.%02d zones=a\n", i, 1+c.n(8), 1+c.n(16), 1+c.n(60))
			}
			k := c.n(2)
			pools[k] = append(pools[k], fmt.Sprint("t", i))
		}
		for k, list := range pools {
			if len(list) > 0 {
				fmt.Fprintf(&b, "pool p%d req=%s:In:%s\n", k, model.LabelInstanceType, strings.Join(list, ","))
			}
		}
		b.WriteString(strings.Join(types, ""))
		for i := range 1 + c.n(6) {
			fmt.Fprintf(&b, "pod w%d cpu=%dm", i, 100*(1+c.n(70)))
			if c.n(2) == 0 {
				fmt.Fprintf(&b, " mem=%dMi", 256*(1+c.n(24)))
			}
			b.WriteByte('\n')
		}
		p := parseProblem(t, b.String())
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(rt, b.String(), p, r)
		best, fit := cheapest(p)
		if len(p.Demand)-len(r.Refused) != fit {
			rt.Fatalf("%s----\n%s%d pods fit on some type", b.String(), describe(p, r), fit)
		}
		if r.Cost.BoundMicroPerHour > best || r.Cost.NewMicroPerHour < best || r.Cost.NewMicroPerHour > best+best/100 {
			rt.Fatalf("%s----\n%sthe cheapest packing costs %d", b.String(), describe(p, r), best)
		}
	})
}

// cheapest is the least cost of the pods that fit on some machine, and how many these are.
func cheapest(p *Problem) (best int64, fit int) {
	var items []model.Resources
	for _, x := range p.Demand {
		if machineFor(p, x.Class.Requests) >= 0 {
			items = append(items, x.Class.Requests)
		}
	}
	return cheapestOf(p, items, nil), len(items)
}

// TestAgainstEveryPackingOfGroups does so with groups of pods that must share a host, and with free capacity on existing
// nodes.
func TestAgainstEveryPackingOfGroups(t *testing.T) {
	groups, besideNodes := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChance{rt}
		var b strings.Builder
		b.WriteString("pool default\n")
		for i := range 1 + c.n(4) {
			fmt.Fprintf(&b, "type t%d cpu=%d mem=%dGi price=0.%02d zones=a\n", i, 4+c.n(8), 8+c.n(16), 10+c.n(60))
		}
		for i := range c.n(3) {
			fmt.Fprintf(&b, "node r%d cpu=%d mem=%dGi\n", i, 1+c.n(4), 1+c.n(8))
		}
		for i := range 1 + c.n(5) {
			fmt.Fprintf(&b, "pod w%d cpu=%dm mem=%dMi", i, 100*(1+c.n(16)), 256*(1+c.n(12)))
			switch c.n(3) {
			case 0:
				fmt.Fprintf(&b, " x%d label=app=g%d near=host:app=g%d", 2+c.n(2), i, i)
			case 1:
				fmt.Fprintf(&b, " near=host:app=g%d label=app=f%d", c.n(5), i) // follows a group, if there is one
			}
			b.WriteByte('\n')
		}
		p := parseProblem(t, b.String())
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(rt, b.String(), p, r)
		items, ok := together(p)
		for _, x := range items {
			ok = ok && machineFor(p, x) >= 0
		}
		if !ok {
			return // what fits nowhere whole is another question
		}
		if len(items) < len(p.Demand) {
			groups++
		}
		if len(p.Nodes) > 0 && r.Cost.NewMicroPerHour > 0 {
			besideNodes++
		}
		if len(r.Refused) > 0 {
			rt.Fatalf("%s----\n%sall groups fit on some type", b.String(), describe(p, r))
		}
		var free []model.Resources
		for _, x := range p.Nodes {
			free = append(free, x.Free)
		}
		if best := cheapestOf(p, items, free); r.Cost.BoundMicroPerHour > best || r.Cost.NewMicroPerHour < best {
			rt.Fatalf("%s----\n%sthe cheapest packing costs %d", b.String(), describe(p, r), best)
		}
	})
	if groups == 0 || besideNodes == 0 {
		t.Errorf("%d problems had groups and %d free capacity that did not do, want some of each", groups, besideNodes)
	}
}

// together joins the pods of each group to one; it says no where pods are near somebody who is not there.
func together(p *Problem) (items []model.Resources, ok bool) {
	at := map[string]int{}
	for _, x := range p.Demand {
		app := x.Class.Labels["app"]
		if len(x.Class.Affinity) > 0 {
			for _, q := range *x.Class.Affinity[0].Selector.Pods {
				app = q.Values[0]
			}
			if !slices.ContainsFunc(p.Demand, func(y *model.Pod) bool { return y.Class.Labels["app"] == app }) {
				return nil, false
			}
		}
		i, known := at[app]
		if !known || app == "" {
			i = len(items)
			items = append(items, nil)
			at[app] = i
		}
		items[i] = items[i].Add(x.Class.Requests)
	}
	return items, true
}

// machineFor is the least price of a machine that holds so much, -1 where none does.
func machineFor(p *Problem, sum model.Resources) int64 {
	least := int64(-1)
	for _, t := range p.Pools[0].Types {
		if sum.Fits(t.Allocatable) && (least < 0 || t.Offerings[0].PriceMicro < least) {
			least = t.Offerings[0].PriceMicro
		}
	}
	return least
}

// cheapestOf tries every way to share free capacity and machines among items that each fit on some machine.
func cheapestOf(p *Problem, items, free []model.Resources) int64 {
	best := int64(-1)
	var machines []model.Resources
	var try func(i int)
	try = func(i int) {
		if i == len(items) {
			sum := int64(0)
			for _, m := range machines {
				sum += machineFor(p, m)
			}
			if best < 0 || sum < best {
				best = sum
			}
			return
		}
		for k, was := range free {
			if items[i].Fits(was) {
				free[k] = was.Sub(items[i])
				try(i + 1)
				free[k] = was
			}
		}
		for k := range machines { // the list grows and shrinks meanwhile
			was := machines[k]
			if next := was.Add(items[i]); machineFor(p, next) >= 0 {
				machines[k] = next
				try(i + 1)
				machines[k] = was
			}
		}
		machines = append(machines, items[i])
		try(i + 1)
		machines = machines[:len(machines)-1]
	}
	try(0)
	return best
}

// TestRefusalsAreTrue puts each pod refused, against the plan's word, alone on a machine of every offering of every
// pool, and, where it asks nothing of topology and nobody spreads, on each machine that the plan buys: verify must
// object to each. What topology refuses is left out, for it depends on what else stands where; but where a spread is said
// to have its fewest pods, none can be launched.
func TestRefusalsAreTrue(t *testing.T) {
	tried, fewest := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		text := randomProblem(rapidChance{rt})
		if (rapidChance{rt}).n(2) == 0 {
			text = randomSpread(rapidChance{rt})
		}
		p := parseProblem(t, text)
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		for i, x := range r.Refused {
			for _, why := range x.Reasons {
				if why.Code != plan.TopologySpread || plan.DetailOf[plan.OfTopologySpread](why).TopologyKey != model.LabelZone {
					continue
				}
				pool := p.Pools[slices.IndexFunc(p.Pools, func(q Pool) bool { return q.Name == why.Pool })]
				for _, zone := range plan.DetailOf[plan.OfTopologySpread](why).Fewest.Names() {
					fewest++
					for _, it := range pool.Types {
						for _, o := range it.Offerings {
							if o.Zone == zone && o.Available && o.Remaining != 0 && !choosy(pool) && !refuses(p, r, i, pool, it, o) {
								rt.Fatalf("%s----\n%s%s could go to %s %s %s of %s, where its spread has the fewest", text, describe(p, r), x.Pod.Name, it.Name, o.Zone, o.CapacityType, pool.Name)
							}
						}
					}
				}
			}
			if slices.ContainsFunc(x.Reasons, func(y plan.Reason) bool {
				return y.Code == plan.TopologySpread || y.Code == plan.PodAffinity || y.Code == plan.PodAntiAffinity
			}) {
				continue
			}
			for j, n := range r.New {
				if slices.ContainsFunc(p.Demand, func(y *model.Pod) bool { return len(y.Class.Spread) > 0 }) ||
					len(x.Pod.Class.Affinity) > 0 || len(x.Pod.Class.AntiAffinity) > 0 {
					break // verify takes a spread as it is when all have come; the plan's hold in any order
				}
				pool := p.Pools[slices.IndexFunc(p.Pools, func(q Pool) bool { return q.Name == n.Pool })]
				if !choosy(pool) && !full(p, r, i, j) {
					rt.Fatalf("%s----\n%s%s could go to machine %d", text, describe(p, r), x.Pod.Name, j)
				}
			}
			for _, pool := range p.Pools {
				if choosy(pool) {
					continue
				}
				for _, it := range pool.Types {
					for _, o := range it.Offerings {
						tried++
						if o.Available && o.Remaining != 0 && !refuses(p, r, i, pool, it, o) {
							rt.Fatalf("%s----\n%s%s could go to %s %s %s of %s", text, describe(p, r), x.Pod.Name, it.Name, o.Zone, o.CapacityType, pool.Name)
						}
					}
				}
			}
		}
	})
	if tried == 0 || fewest == 0 {
		t.Fatalf("%d refusals were looked at, and %d domains with the fewest pods", tried, fewest)
	}
}

// choosy reports whether a pool buys in ways that one machine written down here does not tell: by labels of its own, or
// of several types.
func choosy(pool Pool) bool {
	return slices.ContainsFunc(pool.Requirements, func(q model.Requirement) bool { return q.Key == "tier" || q.MinValues > 0 })
}

// full reports whether verify objects when the refused pod goes to a machine of the plan, were that bought as what costs
// least.
func full(p *Problem, r Result, refused, machine int) bool {
	in := verifyInput(p, r)
	in.Refused = slices.Delete(slices.Clone(in.Refused), refused, refused+1)
	n, m := &r.New[machine], &in.New[machine]
	m.Choices, m.Zones = []*model.InstanceType{n.Type}, []string{n.Offering.Zone}
	m.Requirements = m.Requirements.With(model.OneOf(model.LabelInstanceType, n.Type.Name), model.OneOf(model.LabelZone, n.Offering.Zone))
	m.Pods = append(slices.Clip(m.Pods), r.Refused[refused].Pod)
	return len(verify.Plan(in)) > 0
}

// refuses reports whether verify objects when the refused pod gets a machine of the offering to itself.
func refuses(p *Problem, r Result, refused int, pool Pool, it *model.InstanceType, o model.Offering) bool {
	pod := r.Refused[refused].Pod
	narrow := []model.Requirement{model.OneOf(model.LabelInstanceType, it.Name), model.OneOf(model.LabelZone, o.Zone),
		model.OneOf(model.LabelCapacityType, o.CapacityType)}
	for k, v := range o.Labels {
		narrow = append(narrow, model.OneOf(k, v))
	}
	in := verifyInput(p, r)
	in.Refused = slices.Delete(slices.Clone(in.Refused), refused, refused+1)
	in.New = append(slices.Clip(in.New), verify.Machine{Pool: pool.Name, Type: it, Choices: []*model.InstanceType{it}, Zones: []string{o.Zone},
		CapacityTypes: []string{o.CapacityType}, Requirements: pool.Requirements.With(narrow...), Pods: []*model.Pod{pod}, PriceMicro: o.PriceMicro})
	in.Cost.NewMicroPerHour += o.PriceMicro
	return len(verify.Plan(in)) > 0
}

// TestMemoryIsOnlyAHint solves one problem with the memory of another, and again with its own: plans stay valid, and
// a memory does not make its plan much dearer.
func TestMemoryIsOnlyAHint(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one, other := randomProblem(rapidChance{rt}), randomProblem(rapidChance{rt})
		p, q := parseProblem(t, one), parseProblem(t, other)
		first, mem := Solve(p, Memory{}, DefaultPolicy())
		r, foreign := Solve(q, mem, DefaultPolicy())
		checkRapid(rt, other, q, r)
		for _, m := range []Memory{mem, foreign} {
			again, _ := Solve(p, m, DefaultPolicy())
			checkRapid(rt, one, p, again)
			if len(again.Refused) == len(first.Refused) && again.Cost.NewMicroPerHour > first.Cost.NewMicroPerHour*5/4 {
				rt.Fatalf("%s----\n%swith a memory:\n%s", one, describe(p, first), describe(p, again))
			}
		}
	})
}

// TestReasonsAreTrue takes the obstacle that a reason names out of the way and solves again: that reason must be gone
// (contract 3).
func TestReasonsAreTrue(t *testing.T) {
	seen := map[plan.Code]int{}
	rapid.Check(t, func(rt *rapid.T) {
		text := randomProblem(rapidChance{rt})
		if (rapidChance{rt}).n(3) == 0 {
			text = randomSpread(rapidChance{rt})
		}
		p := parseProblem(t, text)
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		if len(r.Refused) == 0 {
			return
		}
		x := r.Refused[0]
		for _, why := range x.Reasons {
			q := without(p, x.Pod.Class, why)
			if q == nil {
				continue
			}
			seen[why.Code]++
			again, _ := Solve(q, Memory{}, DefaultPolicy())
			for _, y := range again.Refused {
				if y.Pod.Name != x.Pod.Name {
					continue
				}
				for _, z := range y.Reasons {
					if z.Pool == why.Pool && z.IsSameCheck(why) && z.Fields().Have == why.Fields().Have {
						rt.Fatalf("%s----\n%swithout the obstacle %+v:\n%s", text, describe(p, r), why, describe(q, again))
					}
				}
			}
		}
	})
	for _, code := range []plan.Code{plan.Taint, plan.Resource, plan.Limit, plan.Requirement, plan.TopologySpread} {
		if seen[code] == 0 {
			t.Errorf("no reason %s was looked at", code)
		}
	}
}

// without is the problem with what the reason names taken away, nil where there is no simple way to.
func without(p *Problem, class *model.Class, why plan.Reason) *Problem {
	q := *p
	c := *class
	q.Pools = slices.Clone(p.Pools)
	at := slices.IndexFunc(q.Pools, func(x Pool) bool { return x.Name == why.Pool })
	if at < 0 {
		return nil
	}
	pool := *q.Pools[at].NodePool
	switch why.Code {
	case plan.Taint:
		pool.Taints = slices.DeleteFunc(slices.Clone(pool.Taints), func(x model.Taint) bool { return plan.TaintOf(x) == why.Detail })
	case plan.Resource: // the pod and the DaemonSets request it
		d := slices.IndexFunc(p.ResourceNames, func(name string) bool { return plan.ResourceName(name) == plan.DetailOf[plan.OfSize](why).Resource })
		withoutIt := func(r model.Resources) model.Resources {
			if r = r.Clone(); d < len(r) {
				r[d] = 0
			}
			return r
		}
		c.Requests, q.Daemons = withoutIt(c.Requests), slices.Clone(p.Daemons)
		for i := range q.Daemons {
			daemon, asks := *q.Daemons[i], *q.Daemons[i].Pod()
			asks.Requests = withoutIt(asks.Requests)
			daemon.Newest, q.Daemons[i] = &asks, &daemon
		}
	case plan.Requirement:
		c.Terms = nil
	case plan.SharedLimit:
		q.Limits = slices.DeleteFunc(slices.Clone(p.Limits), func(l model.LimitUse) bool { return l.Name == plan.DetailOf[plan.OfSharedLimit](why).Limit })
		for i := range q.Pools {
			q.Pools[i].Shared = nil
			for j := range q.Limits {
				if name := q.Pools[i].Name; q.Limits[j].Matches(model.Labels{model.LabelNodePool: name}) {
					q.Pools[i].Shared = append(q.Pools[i].Shared, j)
				}
			}
		}
	case plan.TopologySpread:
		d := plan.DetailOf[plan.OfTopologySpread](why)
		if d.MinDomains == 0 {
			return nil
		}
		c.Spread = slices.Clone(c.Spread)
		for i := range c.Spread {
			if c.Spread[i].TopologyKey == d.TopologyKey {
				c.Spread[i].MinDomains = min(c.Spread[i].MinDomains, int32(d.Domains))
			}
		}
	case plan.Limit:
		pool.HasLimit = nil
		q.Pools[at].NodesLeft = -1
	default:
		return nil
	}
	q.Pools[at].NodePool = &pool
	c.Key += " without"
	q.Demand = nil
	for _, x := range p.Demand {
		if x.Class.Key == class.Key {
			pod := *x
			pod.Class = &c
			x = &pod
		}
		q.Demand = append(q.Demand, x)
	}
	return &q
}

// TestSharedLimitsHold draws problems with limits over several pools, dollars among them: every plan keeps them, its
// bound is not above its cost, and a refusal that names one is true.
func TestSharedLimitsHold(t *testing.T) {
	refused, bought := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChance{rt}
		text := randomProblem(c)
		for i := range 1 + c.n(3) {
			text += fmt.Sprintf("limit l%d pools=%s%s%s%s\n", i, one(c, "p0,p1,p2", "p0,p1", "p1,p2", "p0"), maybe(c, fmt.Sprintf("nodes=%d", c.n(6))),
				maybe(c, fmt.Sprintf("cpu=%d", c.n(20))), maybe(c, fmt.Sprintf("dollars=%d.%02d", c.n(2), c.n(100))))
		}
		p := parseProblem(t, text)
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(rt, text, p, r)
		bought += len(r.New)
		for i := range r.Refused {
			for _, why := range r.Refused[i].Reasons {
				if why.Code != plan.SharedLimit {
					continue
				}
				refused++
				again, _ := Solve(without(p, r.Refused[i].Pod.Class, why), Memory{}, DefaultPolicy())
				for _, y := range again.Refused {
					if y.Pod.Name == r.Refused[i].Pod.Name && slices.Contains(y.Reasons, why) {
						rt.Fatalf("%s----\n%swithout the limit %+v:\n%s", text, describe(p, r), why, describe(p, again))
					}
				}
				return
			}
		}
	})
	if refused == 0 || bought == 0 {
		t.Errorf("%d nodes were bought, and %d refusals looked at", bought, refused)
	}
}

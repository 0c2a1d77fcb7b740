// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// newMarketScenario is a pool that may buy real instance types of some families, on demand.
func newMarketScenario(t testing.TB, families ...string) *scenario {
	x := newScenario(t)
	x.runLine(strings.Fields("pool p"))
	cat, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	names := model.FixedNames()
	for _, it := range cat.InstanceTypes(func(n string) model.Dim {
		if i := slices.Index(names, n); i >= 0 {
			return model.Dim(i)
		}
		names = append(names, n)
		return model.Dim(len(names) - 1)
	}) {
		family, _, _ := strings.Cut(it.Name, ".")
		if !slices.Contains(families, family) {
			continue
		}
		u := *it
		u.Offerings = slices.DeleteFunc(slices.Clone(it.Offerings), func(o model.Offering) bool {
			return o.CapacityType != model.OnDemand || !strings.HasSuffix(o.Zone, "a")
		})
		if len(u.Offerings) == 0 {
			continue
		}
		u.Offerings[0].Zone = "a"
		x.types = append(x.types, &u)
	}
	if len(x.types) == 0 {
		t.Fatal("the catalog has none of these families")
	}
	slices.SortFunc(x.types, func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	x.pools[0].Types = slices.Clone(x.types)
	return x
}

// buyForPending buys nodes for pending pods and puts the pods on them as planned.
func (x *scenario) buyForPending() {
	p := &solve.Problem{ResourceNames: model.FixedNames(), Pools: x.input().Pools}
	for _, group := range sortedGroups(x.pods) {
		for _, pod := range x.pods[group] {
			if pod.Node == "" {
				p.Demand = append(p.Demand, pod)
			}
		}
	}
	res, _ := solve.Solve(p, solve.Memory{}, solve.DefaultPolicy())
	if len(res.Refused) > 0 {
		x.fatal("can't be bought for: %s", res.Refused[0].Pod.Key())
	}
	for _, n := range res.New {
		x.next++
		name := fmt.Sprintf("node%03d", x.next)
		x.addNode(name, [][2]string{{"pool", n.Pool}, {"type", n.Type.Name}})
		u := x.candidateNamed(name)
		for _, pod := range n.Pods {
			pod.Node = name
			u.Node.Pods = append(u.Node.Pods, pod)
			u.Node.Used = u.Node.Used.Add(pod.Class.Requests)
		}
	}
}

func sortedGroups(m map[string][]*model.Pod) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// removePods takes pods away, those that pick says; a node left without any goes too.
func (x *scenario) removePods(pick func(i int) bool) {
	i := 0
	for _, u := range x.nodes {
		kept := u.Node.Pods[:0:0]
		var used model.Resources
		for _, p := range u.Node.Pods {
			if i++; !pick(i) {
				kept = append(kept, p)
				used = used.AddInto(p.Class.Requests, 1)
			}
		}
		u.touch()
		u.Node.Pods, u.Node.Used = kept, used
	}
	x.nodes = slices.DeleteFunc(x.nodes, func(u *Candidate) bool { return len(u.Node.Pods) == 0 })
}

// boundPrice is what the pods of the cluster would cost bought anew, and that no plan costs less.
func (x *scenario) boundPrice() int64 {
	p := &solve.Problem{ResourceNames: model.FixedNames(), Pools: x.input().Pools}
	for _, u := range x.nodes {
		p.Demand = append(p.Demand, u.Node.Pods...)
	}
	res, _ := solve.Solve(p, solve.Memory{}, solve.DefaultPolicy())
	return res.Cost.BoundMicroPerHour
}

// TestScaleDown takes three pods of ten away from a tightly bought cluster of a thousand pods and consolidates until nothing pays: the
// price then is near the least that the pods can cost.
func TestScaleDown(t *testing.T) {
	x := newMarketScenario(t, "m5", "c5", "r5")
	x.runLine(strings.Fields("pods small x500 cpu=900m mem=3Gi"))
	x.runLine(strings.Fields("pods large x500 cpu=3500m mem=28Gi"))
	x.buyForPending()
	rnd := uint32(7)
	x.removePods(func(int) bool {
		rnd = rnd*1664525 + 1013904223
		return rnd>>8%10 < 3
	})
	x.consolidateToTheEnd()
	t.Log(x.out.String())
	price, bound := x.clusterPrice(), x.boundPrice()
	t.Logf("%s an hour, at least %s: %.2f %% above", formatDollars(price), formatDollars(bound), 100*float64(price-bound)/float64(bound))
	if price > bound+bound*4/100 {
		t.Errorf("the cluster ends at %s an hour, more than 4 %% above the bound %s", formatDollars(price), formatDollars(bound))
	}
}

// kwokTypes is a pool that may buy the types of Karpenter's KWOK catalogue of at most so many CPUs.
func (x *scenario) kwokTypes(most int) {
	x.runLine(strings.Fields("pool p"))
	for _, cpu := range []int{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256} {
		for i, name := range []string{"c", "s", "m"} {
			if gib := cpu << (i + 1); cpu <= most {
				x.runLine(strings.Fields(fmt.Sprintf("type %s-%d cpu=%dm mem=%dGi price=%.4f", name, cpu, cpu*1000-100, gib, 0.025*float64(cpu)+0.001*float64(gib<<30)/1e9)))
			}
		}
	}
}

// TestFirstMinute takes three pods of ten away from clusters of 141 nodes of up to 16 CPUs. The first commands already bring
// them near the least that they can cost, and evict few of the 700 pods.
func TestFirstMinute(t *testing.T) {
	const mostEvictions, mostOver, leastOfBound = 260, 1.02, 0.9
	for seed := range uint32(6) {
		x := newScenario(t)
		x.kwokTypes(16)
		x.runLine(strings.Fields("pods small x500 cpu=900m mem=3Gi"))
		x.runLine(strings.Fields("pods large x500 cpu=3500m mem=28Gi"))
		x.buyForPending()
		drawn := seed
		x.removePods(func(int) bool {
			drawn = drawn*1664525 + 1013904223
			return drawn>>8%10 < 3
		})
		before, evictions, commands := float64(x.clusterPrice())/float64(x.boundPrice()), 0, 0
		ofBound := 1.0
		for range 2 { // what needs nothing to come goes first
			list, _ := Consolidate(x.input(), x.pol, solve.DefaultPolicy(), Memory{})
			for i, m := range list {
				x.carryOut(m)
				if evictions += m.evictions(); i == 0 && commands == 0 {
					ofBound = float64(m.Batch.SavingMicroPerHour) / float64(m.Batch.SavingBoundMicroPerHour)
				}
			}
			commands += len(list)
		}
		over := float64(x.clusterPrice()) / float64(x.boundPrice())
		t.Logf("seed %d: from %.3f to %.3f of the bound by %d commands that evict %d pods; the first save %.3f of the most that so few evictions could",
			seed, before, over, commands, evictions, ofBound)
		if commands == 0 || evictions > mostEvictions || over > mostOver || ofBound < leastOfBound {
			t.Errorf("seed %d: %d commands, %d evictions, %.3f of the bound, %.3f of the most that could be saved; want at least 1, at most %d, at most %.2f, at least %.2f",
				seed, commands, evictions, over, ofBound, mostEvictions, mostOver, leastOfBound)
		}
	}
}

// fewestEvictions is the least number of evictions with which some command might save so much an hour in a wide search: the least for which the bound
// on savings is not below it.
func (x *scenario) fewestEvictions(savingMicroPerHour int64, most int) int {
	in := x.input()
	mem, capacity := observe(in, Memory{})
	mem.duals = calculateDualPrices(in)
	candidates, _ := selectCandidates(in, &mem, x.pol.MaxCandidatesWide)
	s := newSearch(in, x.pol, solve.DefaultPolicy(), &mem, capacity, candidates)
	return sort.Search(most, func(evictions int) bool { return s.boundSaving(evictions) >= savingMicroPerHour })
}

// TestFewestEvictions takes a fifth to a half of the pods away from clusters of 141 nodes of up to 16 CPUs. No command could save as much as the one
// that is chosen and evict much fewer pods.
func TestFewestEvictions(t *testing.T) {
	const mostOver = 1.35 // of a bound that no command may reach
	for _, c := range []struct{ seed, tenths uint32 }{{2, 2}, {3, 2}, {3, 5}, {5, 5}} {
		x := newScenario(t)
		x.kwokTypes(16)
		x.runLine(strings.Fields("pods small x500 cpu=900m mem=3Gi"))
		x.runLine(strings.Fields("pods large x500 cpu=3500m mem=28Gi"))
		x.buyForPending()
		drawn := c.seed
		x.removePods(func(int) bool {
			drawn = drawn*1664525 + 1013904223
			return drawn>>8%10 < c.tenths
		})
		list, _ := Consolidate(x.input(), x.pol, solve.DefaultPolicy(), Memory{})
		if len(list) == 0 {
			t.Fatal("no command pays: nothing was tested")
		}
		total := list[0].Batch
		fewest := x.fewestEvictions(total.SavingMicroPerHour, total.Evictions)
		t.Logf("%d tenths, seed %d: saves %s an hour with %d evictions, which takes at least %d", c.tenths, c.seed,
			formatDollars(total.SavingMicroPerHour), total.Evictions, fewest)
		if float64(total.Evictions) > mostOver*float64(fewest) {
			t.Errorf("%d tenths, seed %d: %d evictions, want at most %.2f of %d", c.tenths, c.seed, total.Evictions, mostOver, fewest)
		}
	}
}

// TestFewMovingAmongMany shrinks a cluster as TestFirstMinute does while some workloads change each minute: what stays is the room that these may
// take again, and no more. Many of them do not rise together.
func TestFewMovingAmongMany(t *testing.T) {
	for _, c := range []struct {
		workloads, pods int // moving, and pods by which each may rise
		mostOver        float64
	}{{0, 0, 1.02}, {1, 20, 1.06}, {100, 2, 1.06}} {
		x := newScenario(t)
		x.kwokTypes(16)
		x.runLine(strings.Fields("pods small x500 cpu=900m mem=3Gi"))
		x.runLine(strings.Fields("pods large x500 cpu=3500m mem=28Gi"))
		x.buyForPending()
		drawn := uint32(1)
		x.removePods(func(int) bool {
			drawn = drawn*1664525 + 1013904223
			return drawn>>8%10 < 3
		})
		for i := range c.workloads {
			x.scaleUps = append(x.scaleUps, ScaleUp{Workload: fmt.Sprintf("deployment/default/w%03d", i), After: time.Minute, Pods: c.pods,
				Requests: model.Resources{3500, 28 << 30, 0, 1}, Irregular: true})
		}
		commands, pods := x.consolidateToTheEnd()
		over := float64(x.clusterPrice()) / float64(x.boundPrice())
		t.Logf("%d workloads may each rise by %d pods: %d commands evict %d pods and end at %.3f of the bound", c.workloads, c.pods, commands, pods, over)
		if commands == 0 || over > c.mostOver {
			t.Errorf("%d workloads may each rise by %d pods: %d commands, at the end at %.3f of the bound, want at most %.2f", c.workloads, c.pods, commands, over, c.mostOver)
		}
	}
}

// TestShrinkAfterWaves shrinks clusters that were bought in several waves, each with small nodes left over at its end: a few
// commands put them right, and evict few pods for it.
func TestShrinkAfterWaves(t *testing.T) {
	const mostCommands, mostPods, mostOver = 3, 650, 1.01
	seeds := []uint32{3, 7, 8, 10, 12}
	for _, seed := range seeds {
		x := newScenario(t)
		x.kwokTypes(256)
		next := func(n uint32) int {
			seed = seed*1664525 + 1013904223
			return int(seed >> 8 % n)
		}
		kinds := []string{"small", "large"}
		x.runLine(strings.Fields("pods small x500 cpu=900m mem=3Gi"))
		x.runLine(strings.Fields("pods large x500 cpu=3500m mem=28Gi"))
		for _, k := range kinds {
			for _, p := range x.pods[k] {
				p.Node = "none yet"
			}
		}
		for come := [2]int{}; come[0]+come[1] < 1000; x.buyForPending() {
			for i, k := range kinds {
				n := min(500-come[i], 40+next(120))
				for _, p := range x.pods[k][come[i] : come[i]+n] {
					p.Node = ""
				}
				come[i] += n
			}
		}
		x.removePods(func(int) bool { return next(10) < 3 })
		commands, pods := x.consolidateToTheEnd()
		if over := float64(x.clusterPrice()) / float64(x.boundPrice()); commands > mostCommands || pods > mostPods || over > mostOver {
			t.Errorf("at the end after %d commands that evict %d pods at %.4f of the bound, want at most %d of %d at %.2f", commands, pods, over, mostCommands, mostPods, mostOver)
		}
	}
}

func formatDollars(micro int64) string { return "$" + model.Dollars(micro) }

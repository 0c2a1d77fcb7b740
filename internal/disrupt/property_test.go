// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// drawCluster draws a small cluster in which every pod runs on some node, or fits none.
func drawCluster(t *rapid.T) *scenario {
	x := newScenario(t)
	pools := []string{"p", "q"}[:rapid.IntRange(1, 2).Draw(t, "pools")]
	for _, p := range pools {
		x.runLine(strings.Fields("pool " + p + " policy=" + rapid.SampledFrom([]string{"all", "all", "balanced", "empty"}).Draw(t, "policy")))
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "types") {
		cpu := 1 << rapid.IntRange(0, 4).Draw(t, "cpu")
		x.runLine(strings.Fields(fmt.Sprintf("type t%d cpu=%d mem=%dGi price=%.3f", i, cpu, cpu*rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "mem"),
			float64(cpu)*(0.04+0.001*float64(rapid.IntRange(0, 20).Draw(t, "price"))))))
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		typ := rapid.IntRange(0, len(x.types)-1).Draw(t, "type")
		name := fmt.Sprintf("n%02d", i)
		x.addNode(name, [][2]string{{"pool", rapid.SampledFrom(pools).Draw(t, "pool")}, {"type", x.types[typ].Name}})
	}
	if rapid.Bool().Draw(t, "kept node") {
		x.nodes[0].Node.Annotations[DoNotDisrupt] = "true"
	}
	for g := range rapid.IntRange(1, 4).Draw(t, "workloads") {
		opts := fmt.Sprintf("pods w%d cpu=%dm mem=%dGi", g, 100*rapid.IntRange(1, 20).Draw(t, "milli"), rapid.IntRange(0, 4).Draw(t, "gi"))
		opts += rapid.SampledFrom([]string{"", "", "", " apart", " dnd=true", " bare", " evict=false", " cost=1000000"}).Draw(t, "trait")
		x.runLine(strings.Fields(fmt.Sprintf("%s x%d", opts, rapid.IntRange(2, 12).Draw(t, "replicas"))))
		for _, p := range x.pods[fmt.Sprintf("w%d", g)] {
			at := rapid.IntRange(0, len(x.nodes)-1).Draw(t, "at")
			for i := range x.nodes {
				n := x.nodes[(at+i)%len(x.nodes)].Node
				apart := len(p.Class.AntiAffinity) > 0 && slices.ContainsFunc(n.Pods, func(o *model.Pod) bool { return o.Class == p.Class })
				if !apart && p.Class.Requests.Fits(n.Allocatable.Sub(n.Used)) {
					p.Node = n.Name
					n.Pods, n.Used = append(n.Pods, p), n.Used.Add(p.Class.Requests)
					break
				}
			}
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, "landing") {
	case 3:
		x.unbound = true
	case 4:
		x.unreservable, x.unbound = true, true
	}
	if rapid.Bool().Draw(t, "budget that allows nothing") {
		x.runLine(strings.Fields("pdb b app=w0 allowed=0"))
	}
	return x
}

// TestCommandsEnd: with pods and prices frozen every command lowers the price of the cluster by what it promised, takes no
// node that is blocked, keeps within budgets, has a node for every pod, wherever kube-scheduler puts those that are not
// bound, and after a while nothing pays any more.
func TestCommandsEnd(t *testing.T) {
	begun := 0
	rapid.Check(t, func(rt *rapid.T) {
		x := drawCluster(rt)
		left := int64(rapid.IntRange(0, 12).Draw(rt, "budget"))
		for n := 0; ; n++ {
			if n > 60 {
				rt.Fatalf("commands don't end")
			}
			in := x.input()
			for p := range in.BudgetLeft {
				in.BudgetLeft[p] = left
			}
			list, mem := searchToTheEnd(in, x.pol, Memory{})
			if len(list) == 0 {
				if list, _ = searchToTheEnd(in, x.pol, mem); len(list) > 0 {
					rt.Fatalf("found %v where nothing had changed", list[0].Why)
				}
				return
			}
			if all := list[0].Batch; all.SavingBoundMicroPerHour < all.SavingMicroPerHour {
				rt.Fatalf("saves %d, more than the bound %d", all.SavingMicroPerHour, all.SavingBoundMicroPerHour)
			}
			guard := NewEligibility(x.pdbs, x.now)
			gone := map[string]int64{}
			for _, m := range list {
				begun++
				for _, u := range m.Candidates {
					if why := guard.Blockers(u, plan.Underutilized, true); len(why) > 0 {
						rt.Fatalf("node %s is taken though %s", u.Node.Name, reasonText(why[0]))
					}
					if gone[u.Pool.Name]++; gone[u.Pool.Name] > left {
						rt.Fatalf("more than %d nodes of pool %s are taken", left, u.Pool.Name)
					}
				}
				if m.SavingMicroPerHour() <= 0 || m.GainMicro <= 0 {
					rt.Fatalf("saves %d, gains %d", m.SavingMicroPerHour(), m.GainMicro)
				}
				worst := int64(0)
				for i := range m.Replacements {
					worst += dearestChoiceMicro(&m.Replacements[i])
				}
				if least := m.OldMicroPerHour / 1_000_000 * x.pol.MinSavingPPM; m.OldMicroPerHour-worst <= 0 || m.OldMicroPerHour-worst < least {
					rt.Fatalf("saves %d, and %d if the dearest of the types left to the claims comes", m.SavingMicroPerHour(), m.OldMicroPerHour-worst)
				}
				before := x.clusterPrice()
				x.choose = rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "chance"), 0)).IntN
				x.carryOut(m)
				if after := x.clusterPrice(); before-after != m.SavingMicroPerHour() {
					rt.Fatalf("promised to save %d, saved %d", m.SavingMicroPerHour(), before-after)
				}
			}
		}
	})
	if begun == 0 {
		t.Fatal("no cluster had a command: nothing was tested")
	}
}

// TestEqualInputsEqualCommands: equal inputs, equal commands, found in as many steps, whatever the order of nodes and pods.
func TestEqualInputsEqualCommands(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := drawCluster(rt)
		say := func() string {
			x.out.Reset()
			list, mem := Consolidate(x.input(), x.pol, solve.DefaultPolicy(), Memory{})
			x.say("%d steps", mem.Work)
			for _, m := range list {
				x.describe(m)
			}
			return x.out.String()
		}
		first := say()
		for _, u := range x.nodes {
			slices.Reverse(u.Node.Pods)
		}
		slices.Reverse(x.nodes)
		slices.Reverse(x.pools)
		if second := say(); second != first {
			rt.Fatalf("%s then %s", first, second)
		}
	})
}

// searchToTheEnd searches until commands are found or nothing is left to look at, beginning anew if anything has changed.
func searchToTheEnd(in *Input, pol Policy, mem Memory) ([]*Command, Memory) {
	in.Scope = Wide
	for {
		var list []*Command
		if list, mem = Consolidate(in, pol, solve.DefaultPolicy(), mem); len(list) > 0 || !mem.Unfinished {
			return list, mem
		}
		in.Scope = Narrow
	}
}

// TestMemoryChangesNothing takes a cluster through changes with one memory. Whatever was searched before, a wide search
// answers what one without any memory does; and a narrow one only finds commands that keep what they promise.
func TestMemoryChangesNothing(t *testing.T) {
	moved, narrow := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		x := drawCluster(rt)
		x.pol.MaxSolvesNew, x.pol.MaxCandidatesNarrow = rapid.IntRange(1, 8).Draw(rt, "confirm"), rapid.IntRange(1, 8).Draw(rt, "narrow")
		var mem Memory
		for range rapid.IntRange(1, 8).Draw(rt, "changes") {
			in := x.input()
			for _, p := range x.pools {
				in.BudgetLeft[p.Name] = int64(rapid.IntRange(0, 12).Draw(rt, "left"))
			}
			if rapid.Bool().Draw(rt, "narrow first") {
				in.Scope = Narrow
				var list []*Command
				if list, mem = Consolidate(in, x.pol, solve.DefaultPolicy(), mem); len(list) > 0 {
					narrow++
					for _, m := range list {
						before := x.clusterPrice()
						x.carryOut(m)
						if after := x.clusterPrice(); m.GainMicro <= 0 || before-after != m.SavingMicroPerHour() {
							rt.Fatalf("promised to save %d and to gain %d, saved %d", m.SavingMicroPerHour(), m.GainMicro, before-after)
						}
					}
					continue
				}
			}
			var warm, cold []*Command
			warm, mem = searchToTheEnd(in, x.pol, mem)
			cold, _ = searchToTheEnd(in, x.pol, Memory{})
			say := func(list []*Command) string {
				x.out.Reset()
				for _, m := range list {
					x.describe(m)
				}
				return x.out.String()
			}
			if a, b := say(warm), say(cold); a != b {
				rt.Fatalf("with memory: %swithout: %s", a, b)
			}
			moved += len(warm)
			switch rapid.IntRange(0, 2).Draw(rt, "change") {
			case 0:
				for _, m := range warm {
					x.carryOut(m)
				}
			case 1:
				gone := rapid.IntRange(1, 20).Draw(rt, "gone")
				x.removePods(func(i int) bool { return i == gone })
			}
		}
	})
	if moved == 0 || narrow == 0 {
		t.Fatalf("%d commands were found by wide searches and %d by narrow ones: nothing was tested", moved, narrow)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// randomMinValues writes requirements with minValues on keys of every kind: of types, of offerings, of the claim, of the
// pool itself and of nobody, with every operator.
func randomMinValues(c chance) string {
	var b strings.Builder
	for range 1 + c.n(3) {
		key := one(c, "type", "zone", "ct", "arch", "family", "gen", "gen", "team", "nowhere")
		b.WriteString(maybe(c, "req="+map[string]string{"type": one(c, "type:NotIn:t0", "type:In:t0,t1,t2"), "zone": one(c, "zone:NotIn:c", "zone:In:a,b", "zone:Exists"),
			"ct": one(c, "ct:In:spot,on-demand", "ct:NotIn:reserved"), "arch": "arch:In:amd64,arm64", "family": one(c, "family:NotIn:m", "family:Exists"),
			"gen": one(c, "gen:Gt:1", "gen:Lt:4", "gen:In:1,2,3"), "team": one(c, "team:In:red,blue", "team:Exists"), "nowhere": "nowhere:Exists"}[key]))
		fmt.Fprintf(&b, " minvalues=%s:%d", key, 1+c.n(3))
	}
	return b.String()
}

// randomChoice writes a type whose labels minValues may ask for.
func randomChoice(c chance, i int) string {
	return fmt.Sprintf("type t%d cpu=%d mem=%dGi price=0.%02d label=family=%s label=gen=%d label=arch=%s", i, 1+c.n(6), 1+c.n(12), 1+c.n(60),
		one(c, "c", "m", "r"), 1+c.n(4), one(c, "amd64", "arm64")) + maybe(c, fmt.Sprintf("spot=0.%02d", 1+c.n(30))) + maybe(c, "zones="+one(c, "a", "a,b", "b,c")) +
		maybe(c, "gone="+one(c, "a", "b")) + maybe(c, fmt.Sprintf("reserved=%d", c.n(3))) + maybe(c, "group="+one(c, "g0:3", "g1:1")) + "\n"
}

// TestMinValuesPlansPass compares plans for pools with minValues on every kind of key with verify: with all that pods may
// ask for, and with limits, taints, DaemonSets and nodes.
func TestMinValuesPlansPass(t *testing.T) {
	refused, bought, relaxed := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChance{rt}
		var b strings.Builder
		for i, line := range strings.SplitAfter(randomProblem(c), "\n") {
			switch {
			case strings.HasPrefix(line, "pool "):
				b.WriteString(strings.TrimSuffix(line, "\n") + randomMinValues(c) + maybe(c, "relax") + "\n")
			case strings.HasPrefix(line, "type "):
				b.WriteString(randomChoice(c, i))
			default:
				b.WriteString(line)
			}
		}
		p := parseProblem(t, b.String())
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(rt, b.String(), p, r)
		for _, n := range r.New {
			if bought++; n.MinValuesRelaxed {
				relaxed++
			}
		}
		for _, x := range r.Refused {
			if slices.ContainsFunc(x.Reasons, func(y plan.Reason) bool { return y.Code == plan.MinValues }) {
				refused++
			}
		}
	})
	if refused == 0 || bought == 0 || relaxed == 0 {
		t.Errorf("%d pods were refused because of minValues, %d nodes bought and %d of them relaxed; want some of each", refused, bought, relaxed)
	}
}

// TestMinValuesAgree compares which pods get a node of a pool with minValues with a search of all that a claim for the pod
// alone may become.
func TestMinValuesAgree(t *testing.T) {
	have, lack := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := rapidChance{rt}
		var b strings.Builder
		b.WriteString("pool p" + randomMinValues(c) + "\n")
		for i := range 1 + c.n(6) {
			b.WriteString(randomChoice(c, i))
		}
		for i := range 1 + c.n(4) {
			fmt.Fprintf(&b, "pod w%d x%d cpu=%dm mem=%dMi label=app=w%d", i, 1+c.n(3), 100*(1+c.n(40)), 256*(1+c.n(30)), i)
			b.WriteString(maybe(c, "select="+one(c, "zone:In:a", "zone:In:a,b", "ct:In:on-demand", "arch:In:amd64", "family:NotIn:c", "type:In:t0,t1", "gen:Gt:2")) + "\n")
		}
		p := parseProblem(t, b.String())
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		checkRapid(rt, b.String(), p, r)
		refused := map[*model.Pod]Refusal{}
		for _, x := range r.Refused {
			refused[x.Pod] = x
		}
		for _, pod := range p.Demand {
			x, isRefused := refused[pod]
			fits, met := claimWithValues(p, pod.Class)
			switch {
			case met && isRefused && !slices.ContainsFunc(x.Reasons, func(y plan.Reason) bool {
				return slices.Contains([]plan.Code{plan.GroupMaximum, plan.OutOfCapacity}, y.Code)
			}):
				rt.Fatalf("%s----\n%sa claim for %s alone has all values", b.String(), describe(p, r), pod.Name)
			case fits && !met && !isRefused:
				rt.Fatalf("%s----\n%sno claim for %s has all values", b.String(), describe(p, r), pod.Name)
			case fits && !met && x.Reasons[0].Code != plan.MinValues:
				rt.Fatalf("%s----\n%sonly minValues are in the way of %s", b.String(), describe(p, r), pod.Name)
			case met:
				have++
			case fits:
				lack++
			}
		}
	})
	if have == 0 || lack == 0 {
		t.Errorf("%d pods could have a claim and %d lacked values, want some of each", have, lack)
	}
}

// TestMinValuesOfOnePod compares whether a pod gets a node of a pool with minValues, limits, DaemonSets and limits on volumes
// with a search of all that a claim for it may become.
func TestMinValuesOfOnePod(t *testing.T) {
	have, lack := 0, 0
	for seed := range int64(3000) {
		c := randChance{rand.New(rand.NewSource(seed))}
		var b strings.Builder
		b.WriteString("pool p" + one(c, " minvalues=type:2", " minvalues=family:2", " minvalues=type:2 minvalues=zone:2", randomMinValues(c)) + maybe(c, fmt.Sprintf("limit.cpu=%d", 1+c.n(7))) + maybe(c, fmt.Sprintf("limit.mem=%dGi", 1+c.n(12))) + "\n")
		for i := range 2 + c.n(5) {
			b.WriteString(strings.TrimSuffix(randomChoice(c, i), "\n") + maybe(c, fmt.Sprintf("csi=d:%d", 1+c.n(3))) + maybe(c, fmt.Sprintf("pods=%d", 1+c.n(5))) + "\n")
		}
		for i := range c.n(3) {
			fmt.Fprintf(&b, "daemon d%d cpu=%dm mem=%dMi\n", i, 100*c.n(10), 256*c.n(8))
		}
		fmt.Fprintf(&b, "pod web cpu=%dm mem=%dMi", 100*(1+c.n(40)), 256*(1+c.n(30)))
		for i := range c.n(4) {
			fmt.Fprintf(&b, " volume=c%d:d", i)
		}
		b.WriteString("\n")
		p := parseProblem(t, b.String())
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		check(t, p, r)
		_, met := claimWithValues(p, p.Demand[0].Class)
		switch refused := len(r.Refused) > 0; {
		case met && refused:
			t.Errorf("seed %d: %s----\n%sa claim has all values", seed, b.String(), describe(p, r))
		case !met && !refused:
			t.Errorf("seed %d: %s----\n%sno claim has all values", seed, b.String(), describe(p, r))
		case met:
			have++
		default:
			lack++
		}
	}
	if have == 0 || lack == 0 {
		t.Errorf("%d pods could have a claim and %d could not, want some of each", have, lack)
	}
}

// claimWithValues reports whether an offering of the only pool holds a pod of a class, and whether a claim for it alone can
// have the values that the pool wants: it tries each capacity type and node group.
func claimWithValues(problem *Problem, class *model.Class) (fits, met bool) {
	p, pods := &problem.Pools[0], int64(len(problem.Demand))
	requests, volumes := class.Requests, map[string]int64{}
	for _, d := range problem.Daemons {
		requests = requests.Add(d.Class.Requests)
	}
	for _, v := range class.Volumes {
		volumes[v.Driver]++
	}
	keepsLimits := func(t *model.InstanceType) bool {
		for d, limited := range p.HasLimit {
			if limited && t.Capacity.At(model.Dim(d)) > p.Left.At(model.Dim(d)) {
				return false
			}
		}
		for driver, limit := range t.CSILimits {
			if volumes[driver] > limit {
				return false
			}
		}
		return true
	}
	type group struct{ capacityType, nodeGroup string }
	values := map[group]map[string]map[string]bool{}
	for _, t := range p.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			admitted := func(rs model.Requirements) bool {
				return !slices.ContainsFunc(rs, func(q model.Requirement) bool {
					v, ok := t.Label(q.Key, o)
					return (ok || q.Key != "team" && q.Key != "nowhere" && q.Key != model.LabelNodePool) && !q.Matches(v, ok)
				})
			}
			if !o.Available || o.Remaining == 0 || !requests.Fits(t.Allocatable) || !keepsLimits(t) || !admitted(p.Requirements) || len(class.Terms) > 0 && !admitted(class.Terms[0].Requirements) {
				continue
			}
			fits = true
			g := group{o.CapacityType, o.Labels[model.LabelNodeGroup]}
			if o.CapacityType == model.Reserved || o.Remaining >= 0 && o.Remaining < pods {
				g.nodeGroup += fmt.Sprint(" ", t.Name) // counted: the claim is for one type
			}
			if o.CapacityType == model.Reserved {
				g.nodeGroup += fmt.Sprint(" ", o.Zone, o.Labels)
			}
			if values[g] == nil {
				values[g] = map[string]map[string]bool{}
			}
			for _, q := range p.Requirements {
				if v, ok := t.Label(q.Key, o); ok {
					if values[g][q.Key] == nil {
						values[g][q.Key] = map[string]bool{}
					}
					values[g][q.Key][v] = true
				}
			}
		}
	}
	for _, have := range values {
		met = met || !slices.ContainsFunc(p.Requirements, func(q model.Requirement) bool { return len(have[q.Key]) < q.MinValues })
	}
	return fits, met
}

// TestMinValuesOutOfReachCostLittle counts the work for pods whose zone is fixed, for a pool that asks for several zones: that
// they can't be had is found without looking at the choices of each machine.
func TestMinValuesOutOfReachCostLittle(t *testing.T) {
	const types = 500
	for _, pod := range []string{"pod web x3 cpu=1 mem=1Gi select=zone:In:a", "pod web x3 cpu=1 mem=1Gi label=app=web spread=zone:1:app=web", "pod web x3 cpu=1 mem=1Gi label=app=web spread=zone:1:app=web:soft"} {
		var b strings.Builder
		b.WriteString("pool default req=zone:Exists minvalues=zone:2\n")
		for i := range types {
			fmt.Fprintf(&b, "type t%d cpu=%d mem=%dGi price=0.%04d spot=0.%04d zones=a,b,c\n", i, 1+i%97, 1+i%89, 100+i, 50+i)
		}
		p := parseProblem(t, b.String()+pod+"\n")
		r, _ := Solve(p, Memory{}, DefaultPolicy())
		if most := int64(60 * types * 6); r.Stats.Work > most {
			t.Errorf("%s: %d steps were taken for %d offers, want at most %d", pod, r.Stats.Work, r.Stats.Offerings, most)
		}
		t.Logf("%s: %d steps for %d offers, %d refused", pod, r.Stats.Work, r.Stats.Offerings, len(r.Refused))
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/test/problems"
)

var writeLP = flag.String("write-lp", "", "write the integer programs of TestOptima into this directory, for make optima to solve")

const (
	optimaFile = "testdata/optima/optima.txt"
	// A plan may cost this much more than the least possible, in parts per million of it, or one machine of the dearest
	// type more: machines are few here, and what is one too many in four is not in four hundred.
	optimaRatio = 70_000
	// optimaTogether is what all plans together may cost more than all optima.
	optimaTogether = 10_000
)

// optimum is a problem whose least cost another program has found.
type optimum struct {
	name string
	p    *Problem
	text string // of the problem, for messages
}

// optima are the instances: small ones with what can be said in an integer program, larger ones, and the basic
// problem of the benchmarks. The test has failed where the basic problem can't be made.
func optima(t *testing.T) []optimum {
	var out []optimum
	for seed := range int64(60) {
		text := optimaText(randChance{rand.New(rand.NewSource(seed))}, 4, 3, 6, 9)
		out = append(out, optimum{fmt.Sprintf("small-%02d", seed), parseProblem(t, text), text})
	}
	for seed := range int64(20) {
		text := optimaText(randChance{rand.New(rand.NewSource(1000 + seed))}, 6, 5, 12, 40)
		out = append(out, optimum{fmt.Sprintf("medium-%02d", seed), parseProblem(t, text), text})
	}
	x, err := problems.Basic(shared)
	if err != nil {
		t.Errorf("the problem basic is missing: %v. It is made of the EC2 catalogue ec2-us-east-1.json: put it into %s, beside the repository, and run again", err, shared)
		return out
	}
	return append(out, optimum{"basic", problemOf(t, x, nil), "the benchmarks' basic problem"})
}

// optimaText draws a problem whose every pod fits on some type.
func optimaText(c chance, types, classes, cores, count int) string {
	var b strings.Builder
	b.WriteString("pool default\n")
	largest, most := 0, 0
	for i := range 1 + c.n(types) {
		cpu, mem := 1+c.n(cores), 2+c.n(2*cores)
		largest, most = max(largest, min(cpu, mem/2)), max(most, cpu)
		fmt.Fprintf(&b, "type t%d cpu=%d mem=%dGi price=0.%03d", i, cpu, mem, 12*cpu+3*mem+c.n(20))
		if c.n(6) == 0 {
			fmt.Fprintf(&b, " pods=%d", 4+c.n(8))
		}
		b.WriteString(" zones=" + one(c, "a,b,c", "a,b,c", "a,b", "c") + "\n")
	}
	fmt.Fprintf(&b, "type whole cpu=%d mem=%dGi price=0.%03d zones=a,b,c\n", max(2, largest), max(4, 2*largest), 20*max(2, largest)+c.n(40))
	if c.n(3) == 0 {
		b.WriteString("daemon agent cpu=100m mem=128Mi\n")
	}
	for i := range c.n(3) {
		fmt.Fprintf(&b, "node r%d cpu=%d mem=%dGi label=zone=%s\n", i, 1+c.n(4), 1+c.n(8), one(c, "a", "b", "c"))
	}
	for i := range 1 + c.n(classes) {
		fmt.Fprintf(&b, "pod w%d x%d cpu=%dm mem=%dMi label=app=w%d", i, 1+c.n(count), 250*(1+c.n(6)), 256*(1+c.n(10)), i)
		switch c.n(6) {
		case 0:
			fmt.Fprintf(&b, " apart=host:app=w%d", i)
		case 1:
			fmt.Fprintf(&b, " spread=zone:%d:app=w%d", 1+c.n(2), i)
		case 2:
			b.WriteString(" select=zone:In:" + one(c, "a", "b,c"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// program writes the least cost of a problem as an integer program: a variable for every largest fill of every
// machine and existing node in every zone, a row for the pods of a class in a zone. It shares nothing with the solver but what
// a problem is.
func program(p *Problem) string {
	var classes []*model.Class
	count := map[*model.Class]int{}
	for _, x := range p.Demand {
		if count[x.Class] == 0 {
			classes = append(classes, x.Class)
		}
		count[x.Class]++
	}
	zones := []string{""}
	for _, c := range classes {
		if len(c.Spread)+len(c.Terms) > 0 {
			zones = []string{"a", "b", "c"}
		}
	}
	goes := func(c *model.Class, zone string) bool {
		for _, t := range c.Terms {
			return zone == "" || t.Requirements.Matches(model.Labels{model.LabelZone: zone})
		}
		return true
	}
	caps := make([]int, len(classes))
	for i, c := range classes {
		caps[i] = count[c]
		if len(c.AntiAffinity) > 0 {
			caps[i] = 1
		}
	}

	cover := map[string][]string{} // terms of a row
	var cost []string
	var general, extra []string
	column := func(zone string, fill []int, price int64) string {
		name := fmt.Sprintf("x%d", len(general))
		general = append(general, name)
		if price > 0 {
			cost = append(cost, fmt.Sprintf("%d %s", price, name))
		}
		for i, n := range fill {
			if n > 0 {
				row := fmt.Sprintf("c%d%s", i, zone)
				cover[row] = append(cover[row], fmt.Sprintf("%d %s", n, name))
			}
		}
		return name
	}
	var daemons model.Resources
	for _, d := range p.Daemons {
		daemons = daemons.Add(d.Pod().Requests)
	}
	for _, zone := range zones {
		cheapest := map[string]int64{}
		for _, t := range p.Pools[0].Types {
			price := int64(-1)
			for _, o := range t.Offerings {
				if (zone == "" || o.Zone == zone) && (price < 0 || o.PriceMicro < price) {
					price = o.PriceMicro
				}
			}
			if price < 0 {
				continue
			}
			for _, f := range fills(classes, caps, t.Allocatable.Sub(daemons), func(c *model.Class) bool { return goes(c, zone) }) {
				k := fmt.Sprint(f)
				if have, ok := cheapest[k]; !ok || price < have {
					cheapest[k] = price
				}
			}
		}
		for _, k := range undominated(cheapest) {
			column(zone, ints(k), cheapest[k])
		}
		for i := range p.Nodes {
			r := &p.Nodes[i]
			if zone != "" && r.Labels[model.LabelZone] != zone {
				continue
			}
			var once []string
			for _, f := range fills(classes, caps, r.Free.Sub(daemons), func(c *model.Class) bool { return goes(c, r.Labels[model.LabelZone]) }) {
				once = append(once, column(zone, f, 0))
			}
			if len(once) > 0 {
				extra = append(extra, fmt.Sprintf(" room%d: %s <= 1", i, strings.Join(once, " + ")))
			}
		}
	}
	var b strings.Builder
	b.WriteString("Minimize\n cost: " + strings.Join(cost, "\n + ") + "\nSubject To\n")
	for i, c := range classes {
		var all []string
		for _, zone := range zones {
			row := fmt.Sprintf("c%d%s", i, zone)
			n := "n" + row
			general = append(general, n)
			all = append(all, n)
			fmt.Fprintf(&b, " %s: %s - %s >= 0\n", row, strings.Join(append(slices.Clone(cover[row]), "0 "+n), "\n + "), n)
		}
		fmt.Fprintf(&b, " all%d: %s = %d\n", i, strings.Join(all, " + "), count[c])
		for _, x := range c.Spread {
			for _, one := range all {
				for _, other := range all {
					if one != other {
						fmt.Fprintf(&b, " skew%s%s: %s - %s <= %d\n", one, other, one, other, x.MaxSkew)
					}
				}
			}
		}
	}
	for _, e := range extra {
		b.WriteString(e + "\n")
	}
	b.WriteString("General\n")
	for i, g := range general {
		b.WriteString(" " + g)
		if i%12 == 11 {
			b.WriteByte('\n')
		}
	}
	b.WriteString("\nEnd\n")
	return b.String()
}

// fills lists every fill of a machine to which nothing can be added.
func fills(classes []*model.Class, caps []int, room model.Resources, goes func(*model.Class) bool) (out [][]int) {
	fill := make([]int, len(classes))
	var try func(i int, left model.Resources)
	try = func(i int, left model.Resources) {
		if i == len(classes) {
			for j, c := range classes {
				if goes(c) && fill[j] < caps[j] && c.Requests.Fits(left) {
					return
				}
			}
			if slices.Max(fill) > 0 {
				out = append(out, slices.Clone(fill))
			}
			return
		}
		try(i+1, left)
		if !goes(classes[i]) {
			return
		}
		for fill[i] < caps[i] && classes[i].Requests.Fits(left) {
			fill[i]++
			left = left.Sub(classes[i].Requests)
			try(i+1, left)
		}
		fill[i] = 0
	}
	try(0, room)
	return out
}

func ints(k string) (out []int) {
	for _, f := range strings.Fields(strings.Trim(k, "[]")) {
		n, _ := strconv.Atoi(f)
		out = append(out, n)
	}
	return out
}

// undominated leaves out fills that hold no more than another that costs no more.
func undominated(price map[string]int64) (out []string) {
	keys := slices.SortedFunc(maps.Keys(price), func(a, b string) int {
		if price[a] != price[b] {
			return int(price[a] - price[b])
		}
		return strings.Compare(b, a)
	})
	var kept [][]int
next:
	for _, k := range keys {
		f := ints(k)
	other:
		for _, x := range kept {
			for i := range f {
				if f[i] > x[i] {
					continue other
				}
			}
			continue next
		}
		kept, out = append(kept, f), append(out, k)
	}
	return out
}

// TestOptima holds plans and bounds against the optima that make optima had HiGHS find. It needs the EC2 catalogue beside
// the repository, and fails without it.
func TestOptima(t *testing.T) {
	known := map[string][2]string{} // hash and optimum by name
	if raw, err := os.ReadFile(optimaFile); err == nil {
		for _, line := range strings.Split(string(raw), "\n") {
			if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
				known[f[0]] = [2]string{f[1], f[2]}
			}
		}
	}
	var sumCost, sumBest, sumBound int64
	for _, o := range optima(t) {
		lp := program(o.p)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(lp)))[:12]
		if *writeLP != "" {
			if err := os.WriteFile(filepath.Join(*writeLP, o.name+"."+hash+".lp"), []byte(lp), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, ok := known[o.name]
		if !ok || have[0] != hash {
			t.Errorf("%s: no optimum is known for this problem (%s); run make optima", o.name, hash)
			continue
		}
		best, err := strconv.ParseInt(have[1], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		pure := DefaultPolicy()
		pure.MachineMicro = 0 // the programs know nothing of it
		pure.MaxGapPPM = 0
		for _, pol := range []Policy{DefaultPolicy(), pure} {
			r, _ := Solve(o.p, Memory{}, pol)
			check(t, o.p, r)
			cost, bound := r.Cost.NewMicroPerHour, r.Cost.BoundMicroPerHour
			switch {
			case len(r.Refused) > 0:
				t.Errorf("%s: %d pods are refused\n%s%s", o.name, len(r.Refused), o.text, describe(o.p, r))
				continue
			case bound > best:
				t.Errorf("%s: bound %d is above the optimum %d\n%s", o.name, bound, best, o.text)
			case cost < best:
				t.Errorf("%s: the plan costs %d, less than the optimum %d\n%s%s", o.name, cost, best, o.text, describe(o.p, r))
			}
			if pol.MachineMicro > 0 {
				continue
			}
			dearest := int64(0)
			for _, x := range o.p.Pools[0].Types {
				dearest = max(dearest, x.Offerings[0].PriceMicro)
			}
			if o.name == "basic" {
				dearest = 0 // a thousand pods: what is stated must do
			}
			if over := cost - best; over > max(dearest, problem.MulDiv(best, optimaRatio, 1_000_000)) {
				t.Errorf("%s: the plan costs %d, the optimum is %d\n%s%s", o.name, cost, best, o.text, describe(o.p, r))
			}
			sumCost, sumBest, sumBound = sumCost+cost, sumBest+best, sumBound+bound
		}
	}
	if *writeLP != "" {
		return
	}
	t.Logf("all plans together cost %.4f of the optima, all bounds are %.4f of them", float64(sumCost)/float64(max(1, sumBest)), float64(sumBound)/float64(max(1, sumBest)))
	if sumBest == 0 || sumCost-sumBest > problem.MulDiv(sumBest, optimaTogether, 1_000_000) {
		t.Errorf("all plans together cost %d, the optima %d", sumCost, sumBest)
	}
}

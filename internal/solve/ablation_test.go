// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/bound"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/test/problems"
)

var (
	leaveOut  = flag.String("leave-out", "", "the bounds and stages that BenchmarkAblation leaves out, separated by commas; empty: each")
	drawnFrom = flag.Int64("drawn-from", 0, "the first seed of BenchmarkAblation/drawn, and one less than that of its shapes")
	drawnMany = flag.Int64("drawn", 300, "how many problems BenchmarkAblation/drawn draws")
)

// TestAblation leaves out each lower bound and each stage of packing, one at a time: plans stay valid, and no bound
// is above the cost of the plan that all of them together make.
func TestAblation(t *testing.T) {
	var names []string
	seen := map[string]bool{}
	add := func(name, doc string) {
		if seen[name] || name == "" || doc == "" {
			t.Errorf("%q is listed twice, or without a word of what it is", name)
		}
		seen[name] = true
		names = append(names, name)
	}
	for _, x := range bound.LowerBounds {
		add(x.Name, x.Doc)
	}
	for _, x := range pack.Stages {
		add(x.Name, x.Doc)
	}
	for name, n := range linesByName(t) {
		if !seen[name] || n == 0 {
			t.Errorf("%q has %d lines of code, or is no bound and no stage", name, n)
		}
		delete(seen, name)
	}
	for name := range seen {
		t.Errorf("entryPoints does not say where %q begins", name)
	}
	problems := []*Problem{drawnProblem(1, 0, 7), drawnProblem(0, 3, 7)}
	for seed := range int64(12) {
		problems = append(problems, parseProblem(t, randomProblem(randChance{rand.New(rand.NewSource(seed))})))
	}
	whole := DefaultPolicy()
	whole.Work = 3_000_000
	for i, p := range problems {
		with, _ := Solve(p, Memory{}, whole)
		for _, name := range names {
			r := buildResult((&task{problem: p, policy: whole, leaveOut: name}).solveWithPreferences())
			check(t, p, r)
			if len(with.Refused) == 0 && len(r.Refused) == 0 && r.Cost.BoundMicroPerHour > with.Cost.NewMicroPerHour {
				t.Errorf("problem %d without %s: the bound %d is above the cost %d of the whole plan", i, name, r.Cost.BoundMicroPerHour, with.Cost.NewMicroPerHour)
			}
		}
	}
}

// ablationProblem is a problem by name, made when it is its turn.
type ablationProblem struct {
	name string
	make func(testing.TB) *Problem
}

// ablationSets are the problems that bounds and stages are held against, by the name of their benchmark.
func ablationSets() map[string][]ablationProblem {
	sets := map[string][]ablationProblem{
		"bench": {
			{"basic", basicProblem},
			{"diverse", func(tb testing.TB) *Problem { return diverseProblem(tb, 20000) }},
			{"tianchi", func(tb testing.TB) *Problem { return tianchiProblem(tb, false) }},
			{"openb", openbProblem},
			{"tianchi with its rules", func(tb testing.TB) *Problem { return tianchiProblem(tb, true) }},
			{"Karpenter's mix", func(tb testing.TB) *Problem { return problemOf(tb, problems.Mix(10000), nil) }},
		},
		"existing nodes": {
			{"2,000 classes onto 5,000 nodes", manyProblem},
			{"one pod that fits none of 10,000 nodes", func(tb testing.TB) *Problem { return onePodProblem(tb, false) }},
		},
	}
	add := func(set, name string, make func(testing.TB) *Problem) {
		sets[set] = append(sets[set], ablationProblem{name, make})
	}
	for seed := range int64(60) {
		add("optima", fmt.Sprintf("small-%02d", seed), func(tb testing.TB) *Problem {
			return parseProblem(tb, optimaText(randChance{rand.New(rand.NewSource(seed))}, 4, 3, 6, 9))
		})
	}
	for seed := range int64(20) {
		add("optima", fmt.Sprintf("medium-%02d", seed), func(tb testing.TB) *Problem {
			return parseProblem(tb, optimaText(randChance{rand.New(rand.NewSource(1000 + seed))}, 6, 5, 12, 40))
		})
	}
	for seed := *drawnFrom; seed < *drawnFrom+*drawnMany; seed++ {
		add("drawn", fmt.Sprint("seed ", seed), func(tb testing.TB) *Problem {
			return parseProblem(tb, randomProblem(randChance{rand.New(rand.NewSource(seed))}))
		})
	}
	for i, w := range drawnWorkloads {
		for j, c := range drawnCatalogues {
			add("shapes of "+c.name, w.name+" of "+c.name, func(testing.TB) *Problem { return drawnProblem(j, i, *drawnFrom+1) })
		}
	}
	return sets
}

// ablation is what leaving out a bound or a stage comes to over the problems of a set. Ratios are shares of the whole
// solver's cost or bound; problems in which different numbers of pods are refused, or nothing is bought, have none.
type ablation struct {
	compared, dearer, cheaper, lower, refused int
	costs, dearest, bounds, lowest            float64
	dearestIn, lowestIn                       string
	millis                                    float64
}

func (a *ablation) add(name string, whole, r *Result) {
	a.refused += len(r.Refused) - len(whole.Refused)
	if whole.Cost.BoundMicroPerHour == 0 || len(r.Refused) != len(whole.Refused) {
		return
	}
	a.compared++
	cost := float64(r.Cost.NewMicroPerHour)/float64(whole.Cost.NewMicroPerHour) - 1
	below := 1 - float64(r.Cost.BoundMicroPerHour)/float64(whole.Cost.BoundMicroPerHour)
	a.costs, a.bounds = a.costs+cost, a.bounds+below
	switch {
	case cost > 0:
		a.dearer++
	case cost < 0:
		a.cheaper++
	}
	if below > 0 {
		a.lower++
	}
	if cost > a.dearest {
		a.dearest, a.dearestIn = cost, name
	}
	if below > a.lowest {
		a.lowest, a.lowestIn = below, name
	}
}

// BenchmarkAblation leaves out each lower bound and each packing stage in turn, on the problems of make bench, those of
// them with many existing nodes by themselves, on the optima's, on small drawn ones and on large ones of many shapes,
// a benchmark each set. It prints a table: how many lines of code nothing else needs, how much dearer plans get and
// how much lower their bounds, both on the average and in the worst problem, how many pods more are refused, and the
// processor time beside the whole's. docs/design/0013 has its figures; run it with -benchtime 1x.
func BenchmarkAblation(b *testing.B) {
	names := []string{""}
	for _, x := range bound.LowerBounds {
		names = append(names, x.Name)
	}
	for _, x := range pack.Stages {
		names = append(names, x.Name)
	}
	if *leaveOut != "" {
		names = append([]string{""}, strings.Split(*leaveOut, ",")...)
	}
	lines := linesByName(b)
	sets := ablationSets()
	order := []string{"bench", "existing nodes", "optima", "drawn"}
	for _, c := range drawnCatalogues {
		order = append(order, "shapes of "+c.name)
	}
	for _, set := range order {
		b.Run(set, func(b *testing.B) {
			for b.Loop() {
				found, launched := make([]ablation, len(names)), 0
				for _, x := range sets[set] {
					p := x.make(b)
					without := func(name string) Result {
						return buildResult((&task{problem: p, policy: DefaultPolicy(), leaveOut: name}).solveWithPreferences())
					}
					without("") // the first time takes longer, whatever is left out
					var whole Result
					for i, name := range names {
						begin := cpuMillis()
						r := without(name)
						found[i].millis += cpuMillis() - begin
						if i == 0 {
							if whole = r; len(r.New) > 0 {
								launched++
							}
							continue
						}
						found[i].add(x.name, &whole, &r)
					}
				}
				fmt.Printf("\n%s, %d problems, in %d of them nodes are launched, %.0f ms\n\n", set, len(sets[set]), launched, found[0].millis)
				fmt.Print("| left out | lines | cost, mean and worst, % | dearer, cheaper in | bound, mean and worst, % | lower in | pods refused | time | worst in |\n|---|---|---|---|---|---|---|---|---|\n")
				for i, a := range found[1:] {
					n := float64(max(1, a.compared))
					fmt.Printf("| %s | %d | %+.2f, %+.2f | %d, %d | %+.2f, %+.2f | %d | %+d | %.2f | %s; %s |\n", names[i+1], lines[names[i+1]], 100*a.costs/n, 100*a.dearest,
						a.dearer, a.cheaper, -100*a.bounds/n, -100*a.lowest, a.lower, a.refused, a.millis/found[0].millis, a.dearestIn, a.lowestIn)
				}
			}
		})
	}
}

// entryPoints are the functions in which each bound and each stage begins.
var entryPoints = map[string][]string{
	"resource prices":             {"boundByResourcePrices"},
	"feasibility classes":         {"boundByFeasibilityClasses"},
	"dearest pod":                 {"boundByDearestPod"},
	"exclusivity":                 {"boundByExclusivity"},
	"fractional classes":          {"boundByFractionalClasses", "needsFractionalClasses"},
	"columns":                     {"boundByColumns", "hasColumnDuals"},
	"enumeration":                 {"boundByEnumeration", "exceedsPolicyGap"},
	"free capacity":               {"boundBesideFreeCapacity"},
	"nodes by price":              {"fillNodesByPrice"},
	"adaptive exclusivity prices": {"enableAdaptivePrices", "adaptExclusivityPrices", "countRemaining"},
	"learned duals":               {"learnDuals"},
	"column generation":           {"refineByColumns"},
	"exact patterns":              {"tablePatterns"},
	"every way for few pods":      {"packExactly"},
	"dive":                        {"dive"},
	"ruin and recreate":           {"ruinAndRecreate"},
	"duals for the proof":         {"findProofDuals"},
	"ceiling search":              {"lowerCeiling"},
	"consolidation":               {"consolidateBins"},
	"leftovers":                   {"placeLeftovers"},
	"alternatives":                {"tryAlternatives"},
}

// linesByName counts the lines of code of each bound and stage: of the functions that only its entry points need.
// Functions are told apart by name alone, so it is at least so many; types and constants are not counted.
func linesByName(tb testing.TB) map[string]int {
	type function struct {
		lines int
		uses  []string
	}
	functions := map[string]*function{}
	roots := []string{"Solve", "DefaultPolicy"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		tb.Fatal(err)
	}
	for _, dir := range []string{"problem", "topology", "pack", "bound", "explain", "lp"} {
		more, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(more) == 0 {
			tb.Fatalf("no code in %s: %v", dir, err)
		}
		files = append(files, more...)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, raw, 0)
		if err != nil {
			tb.Fatal(err)
		}
		text := strings.Split(string(raw), "\n")
		for _, d := range file.Decls {
			var uses []string
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					uses = append(uses, id.Name)
				}
				return true
			})
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				roots = append(roots, uses...)
				continue
			}
			x := functions[f.Name.Name]
			if x == nil {
				x = &function{}
				functions[f.Name.Name] = x
			}
			x.uses = append(x.uses, slices.DeleteFunc(uses, func(s string) bool { return s == f.Name.Name })...)
			for _, line := range text[fset.Position(f.Pos()).Line-1 : fset.Position(f.End()).Line] {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					x.lines++
				}
			}
		}
	}
	count := func(without []string) (sum int) {
		seen := map[string]bool{}
		for _, name := range without {
			if functions[name] == nil {
				tb.Errorf("there is no function %s", name)
			}
			seen[name] = true
		}
		for next := slices.Clone(roots); len(next) > 0; {
			name := next[len(next)-1]
			next = next[:len(next)-1]
			if f := functions[name]; f != nil && !seen[name] {
				seen[name] = true
				sum += f.lines
				next = append(next, f.uses...)
			}
		}
		return sum
	}
	all := count(nil)
	out := map[string]int{}
	for name, entries := range entryPoints {
		out[name] = all - count(entries)
	}
	return out
}

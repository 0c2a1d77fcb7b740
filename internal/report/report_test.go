// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// TestCases runs testdata/*.txt: cases separated by a line of =, each a comment, an input, ----, and what comes out. The words of the
// input:
//
//	reason JSON                                  the sentence of a plan.Reason
//	type NAME cpu=N mem=Q                        cpu in milli-cores, memory in Gi
//	buy TYPE x2 pool=P zone=Z price=USD [spot] [or=TYPE,…] [zones=Z,…] cpu=N mem=N WORKLOAD*N …
//	room NODE WORKLOAD*N …
//	refusal JSON                                 the line of an event about reasons, JSON a list of them
//	why JSON                                     the text of a Why
//	refuse WORKLOAD*N JSON                       JSON a list of reasons
//	ignore WORKLOAD*N JSON
//	cost NEW BOUND PROVER [unpriced words]       in dollars an hour
//	skipped KIND/NAME …
//	text | json                                  how to write it
//
// A WORKLOAD is namespace/name, a pod without a controller namespace/name!.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases := strings.Split(strings.TrimSpace(string(data)), "\n===\n")
		for i, c := range cases {
			head, want, ok := strings.Cut(c+"\n", "\n----\n")
			if !ok || !strings.HasPrefix(head, "#") {
				t.Fatalf("%s case %d: want a comment, an input and a ---- line:\n%s", file, i, c)
			}
			have := strings.Trim(run(t, head), "\n")
			switch {
			case have == "":
				t.Fatalf("%s case %d: nothing came out:\n%s", file, i, c)
			case *update:
				cases[i] = head + "\n----\n" + have
			case have != strings.Trim(want, "\n"):
				t.Errorf("%s:\n%s\n---- have\n%s", file, c, have)
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(cases, "\n===\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

type builder struct {
	t     *testing.T
	p     Plan
	types map[string]*model.InstanceType
	next  map[string]int
}

func run(t *testing.T, input string) string {
	b := &builder{t: t, types: map[string]*model.InstanceType{}, next: map[string]int{}}
	b.p = Plan{ResourceNames: model.FixedNames(), Catalog: "a catalog", PricesAsOf: "2026-07-20", Planned: 1500 * time.Microsecond, Elapsed: 2 * time.Second}
	b.p.Stats = plan.Stats{Pods: 3, Classes: 1, Offerings: 6, Tier: 1}
	var out strings.Builder
	for _, line := range strings.Split(input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		rest := strings.TrimSpace(strings.TrimPrefix(line, words[0]))
		switch words[0] {
		case "reason":
			var r plan.Reason
			b.json(rest, &r)
			fmt.Fprintln(&out, Sentence(r))
		case "refusal":
			var rs []plan.Reason
			b.json(rest, &rs)
			fmt.Fprintln(&out, Refusal(rs))
		case "why":
			var a Why
			b.json(rest, &a)
			if err := WhyText(&out, &a); err != nil {
				t.Fatal(err)
			}
		case "type":
			b.types[words[1]] = &model.InstanceType{Name: words[1], Allocatable: b.resources(words[2:])}
		case "buy":
			b.buy(words[1:])
		case "room":
			b.p.Existing = append(b.p.Existing, Standing{Node: words[1], Pods: b.pods(words[2:])})
		case "refuse", "ignore":
			var reasons []plan.Reason
			b.json(strings.TrimSpace(strings.TrimPrefix(rest, words[1])), &reasons)
			for _, p := range b.pods(words[1:2]) {
				if d := (plan.PodDecision{Pod: p, Reasons: reasons}); words[0] == "refuse" {
					b.p.Refused = append(b.p.Refused, d)
				} else {
					b.p.Ignored = append(b.p.Ignored, d)
				}
			}
		case "cost":
			b.p.Cost = plan.Cost{NewMicroPerHour: b.micro(words[1]), BoundMicroPerHour: b.micro(words[2]), ProvenBy: words[3], Unpriced: words[4:]}
		case "premium":
			b.p.Cost.PremiumMicroPerHour = b.micro(words[1])
		case "skipped":
			for _, w := range words[1:] {
				b.p.Skipped = append(b.p.Skipped, strings.Replace(w, "/", " ", 1))
			}
		case "text", "json":
			write := Text
			if words[0] == "json" {
				write = JSON
			}
			if err := write(&out, &b.p); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("unknown word %q in %q", words[0], line)
		}
	}
	return out.String()
}

func (b *builder) json(s string, into any) {
	if err := json.Unmarshal([]byte(s), into); err != nil {
		b.t.Fatalf("%s: %v", s, err)
	}
}

func (b *builder) micro(s string) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return int64(f*1e6 + 0.5)
}

func (b *builder) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *builder) resources(words []string) model.Resources {
	out := make(model.Resources, model.FirstExtended)
	for _, w := range words {
		switch k, v, _ := strings.Cut(w, "="); k {
		case "cpu":
			out[model.CPU] = b.number(v)
		case "mem":
			out[model.Memory] = b.number(v) << 30
		}
	}
	return out
}

func (b *builder) pods(words []string) []*model.Pod {
	var out []*model.Pod
	for _, w := range words {
		if !strings.Contains(w, "/") {
			continue
		}
		name, n, counted := strings.Cut(w, "*")
		if !counted {
			n = "1"
		}
		name, bare := strings.CutSuffix(name, "!")
		namespace, name, _ := strings.Cut(name, "/")
		for range b.number(n) {
			p := &model.Pod{Namespace: namespace, Class: &model.Class{Key: name, Labels: model.Labels{"pod-template-hash": "5d4"}}}
			if !bare {
				p.Owner = model.Owner{Kind: "ReplicaSet", Name: name + "-5d4"}
			}
			p.Name = fmt.Sprintf("%s-%d", name, b.next[name])
			b.next[name]++
			out = append(out, p)
		}
	}
	return out
}

func (b *builder) buy(words []string) {
	m := Machine{Type: b.types[words[0]], Requests: b.resources(words)}
	m.Offering.CapacityType, m.Choices = model.OnDemand, []*model.InstanceType{m.Type}
	copies := int64(1)
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		switch {
		case k == "pool":
			m.Pool = v
		case k == "zone":
			m.Offering.Zone = v
		case k == "zones":
			m.Zones = strings.Split(v, ",")
		case k == "price":
			m.PriceMicro = b.micro(v)
		case k == "spot":
			m.Offering.CapacityType, m.Offering.Modelled = model.Spot, true
		case k == "or":
			for _, n := range strings.Split(v, ",") {
				m.Choices = append(m.Choices, b.types[n])
			}
		case strings.HasPrefix(w, "x") && !strings.Contains(w, "/"):
			copies = b.number(w[1:])
		}
	}
	for range copies {
		m := m
		m.Pods = b.pods(words[1:])
		b.p.New = append(b.p.New, m)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// TestOrders draws pods with required anti-affinity against each other over capacity types or zones, some of which may go
// to one domain only, and compares the plan with a search of all ways to distribute them: where one places all pods, none
// is refused.
func TestOrders(t *testing.T) {
	for key, domains := range map[string][]string{"ct": {"spot", "on-demand"}, "zone": {"a", "b", "c"}} {
		placeable := 0
		const problems = 1000
		for seed := range int64(problems) {
			pods, text := drawApart(randChance{rand.New(rand.NewSource(seed))}, key, domains)
			if !canBeApart(pods, len(domains)) {
				continue
			}
			placeable++
			p := parseProblem(t, text)
			r, _ := Solve(p, Memory{}, DefaultPolicy())
			check(t, p, r)
			if len(r.Refused) > 0 {
				t.Errorf("seed %d: all pods can be placed\n%s----\n%s", seed, text, describe(p, r))
			}
		}
		if placeable == 0 || placeable == problems {
			t.Errorf("%s: all pods can be placed in %d of %d problems, want some of each", key, placeable, problems)
		}
	}
}

// apartPod is a pod with a label, a label that it is away from, and the only domain where it may be, -1: any.
type apartPod struct {
	label, apart string
	only         int
}

func drawApart(c chance, key string, domains []string) ([]apartPod, string) {
	var b strings.Builder
	b.WriteString("pool default\ntype a cpu=4 mem=8Gi price=0.10 spot=0.03\n")
	pods := make([]apartPod, 3+c.n(3))
	for i := range pods {
		p := &pods[i]
		p.label, p.only = one(c, "x", "y", "z"), -1
		fmt.Fprintf(&b, "pod p%d cpu=%dm mem=1Gi label=app=%s", i, 500+100*c.n(10), p.label)
		if c.n(2) == 0 {
			p.apart = one(c, "x", "y", "z")
			fmt.Fprintf(&b, " apart=%s:app=%s", key, p.apart)
		}
		if c.n(3) == 0 {
			p.only = c.n(len(domains))
			fmt.Fprintf(&b, " select=%s:In:%s", key, domains[p.only])
		}
		b.WriteString("\n")
	}
	return pods, b.String()
}

// canBeApart reports whether some way to distribute the pods over domains keeps all of them apart as they ask.
func canBeApart(pods []apartPod, domains int) bool {
	at := make([]int, 0, len(pods))
	var place func() bool
	place = func() bool {
		if len(at) == len(pods) {
			return true
		}
		p := pods[len(at)]
	next:
		for d := range domains {
			if p.only >= 0 && p.only != d {
				continue
			}
			for j, e := range at {
				if e == d && (p.apart == pods[j].label || pods[j].apart == p.label) {
					continue next
				}
			}
			at = append(at, d)
			if place() {
				return true
			}
			at = at[:len(at)-1]
		}
		return false
	}
	return place()
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestGangDomains draws clusters with gangs whose pods must share a zone. All pods of a gang that have a place are in one zone, the one
// that its running pods are in. A gang that is alone and refused fits in no zone, and the reason
// names the zone in which most of its pods do.
func TestGangDomains(t *testing.T) {
	t.Parallel()
	refused, served, named := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		s := drawDomains(t, r)
		now := epoch.Add(time.Minute)
		out, _, least, short := planGangs(r, s, now)
		zones := zonesOfGangs(s, &out)
		for gang, in := range zones {
			if len(in) > 1 {
				r.Fatalf("gang %s is in zones %v\n%s", gang, in, describePlan(&out))
			}
		}
		refused, served = refused+len(short), served+len(least)-len(short)
		for _, gang := range short {
			if len(least) > 1 { // with other gangs, what fits depends on which of them are served, and where
				continue
			}
			most, at := 0, ""
			for _, zone := range []string{"a", "b", "c"} {
				n := placedInZone(s, &out, short, gang, zone, now)
				if n >= least[gang] {
					r.Fatalf("gang %s is refused, and fits in zone %s:\n%s", gang, zone, describePlan(&out))
				}
				if n > most {
					most, at = n, zone
				}
			}
			d := gangTooLarge(&out, s, gang)
			if most == 0 || d == nil {
				continue
			}
			if _, _, values, _ := d.Domain.Split(); len(values) == 1 {
				named++
				if d.Have < most {
					r.Fatalf("%d pods of gang %s are said to fit in zone %s, and %d do in zone %s:\n%s", d.Have, gang, values[0], most, at, describePlan(&out))
				}
			}
		}
	})
	if refused == 0 || served == 0 || named == 0 {
		untested(t, "%d gangs were refused, %d served and %d told a zone: nothing was tried", refused, served, named)
	}
}

// drawDomains draws a cluster: a pool with a limit, types that some zones have, standing nodes of which some run pods of the gangs, and
// gangs whose pods must share a zone.
func drawDomains(t testing.TB, r *rapid.T) *model.Snapshot {
	x := newScript(t)
	say := func(format string, args ...any) { x.line(strings.Fields(fmt.Sprintf(format, args...))) }
	say("pool p limit.cpu=%d", rapid.SampledFrom([]int{4, 6, 8, 12, 40}).Draw(r, "limit"))
	zones := rapid.SampledFrom([]string{"a", "b", "c", "a,b", "b,c", "a,b,c"})
	for i, cpu := range []int{2, 4, 8} {
		say("type t%d cpu=%d mem=%dGi price=%.2f zones=%s", i, cpu, 4*cpu, float64(cpu)*0.05-float64(i)*0.01, zones.Draw(r, "zones"))
	}
	var standing []string
	for i := range rapid.IntRange(0, 3).Draw(r, "standing") {
		say("claim c%d pool=p types=t2 launched=+0s registered=+0s initialized=+0s", i)
		say("node n%d type=t2 zone=%s claim=c%d initialized", i, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "zone"), i)
		standing = append(standing, fmt.Sprintf("n%d", i))
	}
	for g := range rapid.SampledFrom([]int{1, 1, 1, 2, 3, 4}).Draw(r, "gangs") {
		n := rapid.IntRange(1, 6).Draw(r, "pods")
		runs := 0
		if len(standing) > 0 && rapid.IntRange(0, 2).Draw(r, "runs") == 2 {
			runs = 1
			say("pod h%d cpu=1 gang=g%d:%d domain=topology.kubernetes.io/zone on=%s", g, g, n+1, rapid.SampledFrom(standing).Draw(r, "on"))
		}
		say("pod g%d x%d cpu=%d gang=g%d:%d domain=topology.kubernetes.io/zone created=+%ds", g, n, rapid.IntRange(1, 3).Draw(r, "cpu"), g, n+runs, rapid.IntRange(0, 5).Draw(r, "age"))
	}
	if n := rapid.IntRange(0, 3).Draw(r, "single"); n > 0 {
		say("pod single x%d cpu=1", n)
	}
	return x.st.Snapshot(epoch.Add(time.Minute))
}

// zonesOfGangs returns the zones that pods of gangs run in or are placed in. A node that may come up in several zones counts as one of its own.
func zonesOfGangs(s *model.Snapshot, out *Output) map[string]map[string]bool {
	zones := map[string]map[string]bool{}
	add := func(gang, zone string) {
		if zones[gang] == nil {
			zones[gang] = map[string]bool{}
		}
		zones[gang][zone] = true
	}
	at := map[string]string{} // by node or claim
	for _, n := range s.Nodes {
		at[n.Name] = n.Labels[model.LabelZone]
		for _, p := range n.Pods {
			if p.HasGang() {
				add(p.Gang.Name, at[n.Name])
			}
		}
	}
	for _, a := range out.Actions {
		if c, ok := a.(plan.CreateClaim); ok {
			at[c.Name] = c.Name
			if r := c.Requirements.Get(model.LabelZone); r != nil && len(r.Values) == 1 {
				at[c.Name] = r.Values[0]
			}
		}
	}
	for _, d := range out.Pods {
		if d.Outcome != plan.Refused && d.Outcome != plan.NotOurs && d.Pod.HasGang() {
			add(d.Pod.Gang.Name, at[d.Target])
		}
	}
	return zones
}

// placedInZone returns how many pods of a refused gang are placed next to all that a plan places if they must be in a zone; 0: some of that has
// no place then.
func placedInZone(s *model.Snapshot, was *Output, short []string, gang, zone string, now time.Time) int {
	in := *s
	in.Pending = nil
	for _, p := range s.Pending {
		switch {
		case p.Gang.Name == gang:
			q := *p
			q.Class = requiring(p.Class, model.OneOf(model.LabelZone, zone))
			q.Gang = model.Gang{}
			in.Pending = append(in.Pending, &q)
		case !slices.Contains(short, p.Gang.Name):
			in.Pending = append(in.Pending, p)
		}
	}
	out := WhatIf(&in, now, DefaultPolicy())
	places := func(d plan.PodDecision) bool { return d.Outcome != plan.Refused && d.Outcome != plan.NotOurs }
	isPlaced := map[string]bool{}
	for _, d := range out.Pods {
		isPlaced[d.Pod.UID] = places(d)
	}
	if slices.ContainsFunc(was.Pods, func(d plan.PodDecision) bool { return places(d) && !isPlaced[d.Pod.UID] }) {
		return 0
	}
	n := 0
	for _, nd := range s.Nodes {
		for _, p := range nd.Pods {
			if p.Gang.Name == gang {
				n++
			}
		}
	}
	mine := map[string]bool{}
	for _, p := range s.Pending {
		mine[p.UID] = p.Gang.Name == gang
	}
	for _, d := range out.Pods {
		if mine[d.Pod.UID] && places(d) {
			n++
		}
	}
	return n
}

// gangTooLarge returns why a gang is refused; nil: for another reason.
func gangTooLarge(out *Output, s *model.Snapshot, gang string) *plan.OfGangTooLarge {
	for _, d := range out.Pods {
		if d.Pod.Gang.Name != gang {
			continue
		}
		for _, r := range d.Reasons {
			if of, ok := r.Detail.(plan.OfGangTooLarge); ok {
				return &of
			}
		}
	}
	return nil
}

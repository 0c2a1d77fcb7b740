// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/model"
)

func TestMain(m *testing.M) { casetest.Drawn(m, 100, 100_000) }

// dumb is what a Snapshot should show, computed anew each time from all that was ever said.
type dumb struct {
	pods   map[string]model.Pod
	nodes  map[string]model.Node
	claims map[string]model.Claim
}

func (d *dumb) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[name]
		owner := ""
		for _, c := range d.claims {
			if c.ProviderID != "" && c.ProviderID == n.ProviderID {
				owner = c.Name
			}
		}
		fmt.Fprintf(&b, "node %s ready=%t claim=%s:", name, n.Ready, owner)
		var used int64
		for _, k := range slices.Sorted(maps.Keys(d.pods)) {
			if p := d.pods[k]; p.Node == name && !p.Terminal {
				used += 1000
				b.WriteString(" " + podText(&p))
			}
		}
		fmt.Fprintf(&b, " used=%d\n", used)
	}
	b.WriteString("pending:")
	for _, k := range slices.Sorted(maps.Keys(d.pods)) {
		if p := d.pods[k]; p.Node == "" && !p.Terminal && p.Deleting.IsZero() {
			b.WriteString(" " + podText(&p))
		}
	}
	b.WriteString("\n")
	for _, k := range slices.Sorted(maps.Keys(d.claims)) {
		c := d.claims[k]
		fmt.Fprintf(&b, "claim %s machine=%s\n", c.Name, c.ProviderID)
	}
	return b.String()
}

func podText(p *model.Pod) string {
	return fmt.Sprintf("%s/%s/%s/%t/%t/%t%v", p.Name, p.UID, p.Class.Key, p.Ready, !p.Unschedulable.IsZero(), !p.Deleting.IsZero(), p.Reservations)
}

func snapText(s *model.Snapshot) string {
	var b strings.Builder
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "node %s ready=%t claim=%s:", n.Name, n.Ready, n.Claim)
		for _, p := range n.Pods {
			b.WriteString(" " + podText(p))
		}
		fmt.Fprintf(&b, " used=%d\n", n.Used.At(model.CPU))
	}
	b.WriteString("pending:")
	for _, p := range s.Pending {
		b.WriteString(" " + podText(p))
	}
	b.WriteString("\n")
	for _, c := range s.Claims {
		fmt.Fprintf(&b, "claim %s machine=%s\n", c.Name, c.ProviderID)
	}
	return b.String()
}

// TestSnapshotsShowWhatIs has objects come, change and go in any order: each Snapshot shows what computing it anew would, and those
// taken before stay as they were.
func TestSnapshotsShowWhatIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		d := &dumb{pods: map[string]model.Pod{}, nodes: map[string]model.Node{}, claims: map[string]model.Claim{}}
		type kept struct {
			snap *model.Snapshot
			text string
		}
		var before []kept
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		for i := range rapid.IntRange(1, 60).Draw(t, "events") {
			s.SetNow(t0.Add(time.Duration(i) * time.Second))
			n := name.Draw(t, "name")
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1, 2:
				p := model.Pod{Namespace: "default", Name: n, UID: n + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"), Class: class(name.Draw(t, "class")),
					Node: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "node"), Terminal: yes("ended"), Ready: yes("ready")}
				if yes("deleting") {
					p.Deleting = at(i)
				}
				if yes("unschedulable") {
					p.Unschedulable = at(1)
				}
				if yes("reserved") {
					p.Reservations = []string{"r"}
				}
				d.pods[n] = p
				s.SetPod(&p)
			case 3:
				delete(d.pods, n)
				s.DeletePod("default/" + n)
			case 4:
				x := model.Node{Name: n, ProviderID: rapid.SampledFrom([]string{"", "ma", "mb", "mc"}).Draw(t, "provider id"), Ready: yes("ready")}
				d.nodes[n] = x
				s.SetNode(&x, uint64(i))
			case 5:
				if yes("node") {
					delete(d.nodes, n)
					s.DeleteNode(n)
				} else {
					delete(d.claims, n)
					s.DeleteClaim(n)
				}
			case 6:
				c := model.Claim{Name: n, UID: n, ProviderID: rapid.SampledFrom([]string{"", "m" + n}).Draw(t, "machine")}
				d.claims[n] = c
				s.SetClaim(&c, uint64(i))
			}
			if yes("look") {
				snap := s.Snapshot(at(i))
				if got, want := snapText(snap), d.String(); got != want {
					t.Fatalf("got\n%swant\n%s", got, want)
				}
				before = append(before, kept{snap, snapText(snap)})
			}
		}
		for _, k := range before {
			if now := snapText(k.snap); now != k.text {
				t.Fatalf("a snapshot changed: was\n%snow\n%s", k.text, now)
			}
		}
		if got, want := s.CountPending(), len(s.Snapshot(t0).Pending); got != want {
			t.Fatalf("%d pods pending, shown %d", got, want)
		}
	})
}

// TestUnchangedListsAreShared holds the price of a Snapshot of a cluster in which little happens.
func TestUnchangedListsAreShared(t *testing.T) {
	s := fresh()
	for i := range 100 {
		s.SetNode(&model.Node{Name: fmt.Sprintf("n%02d", i)}, 1)
		s.SetPod(pod(fmt.Sprint("p", i), "k", fmt.Sprintf("n%02d", i)))
	}
	one := s.Snapshot(at(0))
	s.SetClaim(claim("c", ""), 1)
	two := s.Snapshot(at(0))
	if &one.Nodes[0] != &two.Nodes[0] {
		t.Error("the list of nodes was made anew for a claim")
	}
	s.SetPod(pod("new", "k", "n07"))
	three := s.Snapshot(at(0))
	for i := range three.Nodes {
		if same := three.Nodes[i] == two.Nodes[i]; same != (i != 7) {
			t.Errorf("node %d: made anew %t", i, !same)
		}
	}
}

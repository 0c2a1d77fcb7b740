// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
)

// withDefaults sets what the API server sets in a claim.
func withDefaults(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c.Spec.Devices = asksOf(&c.Spec).devices
	return c
}

// TestCountsAreTheAllocators compares what amounts say of drawn pods on drawn nodes with what the allocator of kube-scheduler finds: devices
// for all of them exist if and only if their amounts do.
func TestCountsAreTheAllocators(t *testing.T) {
	var fit, short, complex, refused, faulty, apart, extended int
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		drawAllocations(t, w)
		b := New()
		w.tell(b)

		// Every template is in use, so that the layout has all of them.
		alike := map[string]*corev1.Pod{}
		for i, s := range w.templates {
			names := []string{s.Name}
			if rapid.IntRange(0, 3).Draw(t, "two claims") == 0 {
				names = append(names, rapid.SampledFrom(w.templates).Draw(t, "second").Name)
			}
			p := podOf(fmt.Sprintf("p%d", i), names...)
			b.OfPod(p)
			alike[p.Name] = p
		}
		for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "pods with extended resources") {
			p := drawExtended(t, w, fmt.Sprintf("e%d", i))
			if need := b.OfPod(p); w.claimsOf(p) != nil { // else it needs no device
				alike[p.Name] = p
				if (need.Extended != nil) != (w.claimOfExtended(p) != nil) {
					t.Fatalf("%s needs devices for extended resources %v, want %v", p.Name, need.Extended, w.claimOfExtended(p))
				}
			} else if !reflect.DeepEqual(need, Need{}) {
				t.Fatalf("%s needs %+v, and no class stands for its resource", p.Name, need)
			}
		}
		var countable []string
		for _, name := range slices.Sorted(maps.Keys(alike)) {
			need := b.OfPod(alike[name])
			if need.Node != "" || need.NodeTerms != nil {
				t.Fatalf("%s has nothing allocated, but needs %+v", name, need)
			}
			if len(need.Unsupported) > 0 {
				refused++
				if need.Amounts != nil {
					t.Fatalf("%s is refused (%s), but needs %v", name, need.Unsupported, need.Amounts)
				}
				continue
			}
			if s := b.signatures[b.pods["default/"+name].signature]; s.simple && !isCounted(b, need) {
				for key, n := range s.counts {
					if need.Extended != nil && s.wants[key].extended != "" {
						extended++
					}
					if own := s.wants[key].name(); need.Amounts[own] < n {
						t.Fatalf("%s needs %v: not %s, which it would if there were other devices or pods", name, need.Amounts, own)
					}
				}
			}
			countable = append(countable, name)
		}
		if len(countable) == 0 {
			return
		}

		node := "node0"
		free := maps.Clone(b.OfNode(node))
		counts := true
		var simple []*resourceapi.ResourceClaim
		var there []Need
		for i := range rapid.SampledFrom([]int{2, 1, 3, 4}).Draw(t, "pods") {
			p := alike[rapid.SampledFrom(countable).Draw(t, "pod")].DeepCopy()
			need := b.OfPod(p)
			if slices.ContainsFunc(there, func(other Need) bool { return keepsApart(need, other) || keepsApart(other, need) }) {
				apart++
				continue
			}
			there = append(there, need)
			p.Name = fmt.Sprintf("%s-%d", p.Name, i)
			fits := true
			for resource, n := range need.Amounts {
				if n > free[resource] {
					fits = false
				}
			}
			claims := w.claimsOf(p)
			for _, c := range claims {
				withDefaults(c)
			}
			if s := b.signatures[b.pods["default/"+strings.Split(p.Name, "-")[0]].signature]; s.simple && !isCounted(b, need) {
				// Devices for several pods: all at once, which tries all ways.
				counts = counts && fits
				simple = append(simple, claims...)
				for resource, n := range need.Amounts {
					free[resource] -= n
				}
				continue
			}
			complex++
			found, err := w.allocate(node, claims...)
			if err == nil && found != fits {
				t.Fatalf("%s needs %v of %v: fits %v, but the allocator finds devices: %v", p.Name, need.Amounts, free, fits, found)
			}
			if found {
				for resource, n := range need.Amounts {
					free[resource] -= n
				}
			}
		}
		found, err := w.allocate(node, simple...)
		if err != nil && !counts {
			return
		}
		if found && isFaulty(b, node) {
			faulty++
			return // the allocator may find devices before it looks at the one on which a selector fails
		}
		if err != nil || found != counts {
			t.Fatalf("%d claims, free %v after them: counts say %v, the allocator %v, %v", len(simple), free, counts, found, err)
		}
		if len(simple) > 0 {
			if found {
				fit++
			} else {
				short++
			}
		}
	})
	t.Logf("simple pods: %d times all fit, %d times they did not; %d others; %d refused; %d with selectors that fail; %d kept apart", fit, short, complex, refused, faulty, apart)
	if fit == 0 || short == 0 || complex == 0 || refused == 0 || apart == 0 || extended == 0 {
		t.Errorf("nothing to check: %d fit, %d short, %d complex, %d refused, %d apart, %d extended resources", fit, short, complex, refused, apart, extended)
	}
}

// keepsApart reports whether pods of the first kind may not be on a node with one of the other.
func keepsApart(a, b Need) bool { return b.Mark != "" && slices.Contains(a.Apart, b.Mark) }

// isFaulty reports whether a selector fails on a device of a node.
func isFaulty(b *Book, node string) bool {
	for _, w := range b.wants {
		for name := range w.faults {
			if s := b.slices[name]; s != nil && s.node == node {
				return true
			}
		}
	}
	return false
}

func isCounted(b *Book, need Need) bool {
	for resource := range need.Amounts {
		if b.layout.counted[resource] != nil {
			return true
		}
	}
	return false
}

// drawAllocations lets the allocator serve some claims before the Book is asked.
func drawAllocations(t *rapid.T, w *world) {
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "allocated") {
		p := podOf(fmt.Sprintf("old%d", i), rapid.SampledFrom(w.templates).Draw(t, "of").Name)
		c := withDefaults(w.claimsOf(p)[0])
		_, _ = w.allocate("node0", c) // none is fine
	}
}

// TestOrderOfEventsIsIrrelevant tells two Books the same in different orders, one of them with detours: both say the same in the end, and what
// a Book says of a pod or node changes only if Changes says so.
func TestOrderOfEventsIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		drawAllocations(t, w)
		other := drawWorld(t)
		var pods []*corev1.Pod
		for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
			pods = append(pods, podOf(fmt.Sprintf("p%d", i), rapid.SampledFrom(w.templates).Draw(t, "template").Name))
		}
		if rapid.Bool().Draw(t, "extended") {
			pods = append(pods, drawExtended(t, w, "e"))
			if c := w.claimOfExtended(pods[len(pods)-1]); c != nil && rapid.Bool().Draw(t, "allocated") {
				_, _ = w.allocate("node0", withDefaults(c)) // none is fine
			}
		}
		a, b := New(), New()
		w.tell(a)
		for _, p := range pods {
			a.OfPod(p)
		}

		var events []func()
		add := func(event func()) { events = append(events, event) }
		for name, c := range w.classes {
			add(func() { b.SetClass(name, c) })
		}
		for _, s := range w.slices {
			add(func() { b.SetSlice(s.Name, s) })
		}
		for _, s := range w.templates {
			add(func() { b.SetTemplate("default/"+s.Name, s) })
		}
		for _, c := range w.claims {
			add(func() { b.SetClaim("default/"+c.Name, c) })
		}
		for _, r := range w.rules {
			add(func() { b.SetTaintRule(r.Name, r) })
		}
		// Detours: other objects first, under the same and other names.
		for name, c := range other.classes {
			b.SetClass(name, c)
			if w.classes[name] == nil {
				add(func() { b.SetClass(name, nil) })
			}
		}
		for _, s := range other.slices {
			b.SetSlice(s.Name, s)
			if !slices.ContainsFunc(w.slices, func(o *resourceapi.ResourceSlice) bool { return o.Name == s.Name }) {
				add(func() { b.SetSlice(s.Name, nil) })
			}
		}
		for _, s := range other.templates {
			b.SetTemplate("default/"+s.Name, s)
			if !slices.ContainsFunc(w.templates, func(o *resourceapi.ResourceClaimTemplate) bool { return o.Name == s.Name }) {
				add(func() { b.SetTemplate("default/"+s.Name, nil) })
			}
		}
		for _, r := range other.rules {
			b.SetTaintRule(r.Name, r)
			if !slices.ContainsFunc(w.rules, func(o *resourceapi.DeviceTaintRule) bool { return o.Name == r.Name }) {
				add(func() { b.SetTaintRule(r.Name, nil) })
			}
		}
		b.OfPod(podOf("gone", other.templates[0].Name))
		add(func() { b.ForgetPod("default/gone") })

		needs, amounts := map[string]Need{}, map[string]map[string]int64{}
		order := rapid.Permutation(indices(len(events))).Draw(t, "order")
		asked := rapid.IntRange(0, len(order)).Draw(t, "pods come after")
		for n, i := range order {
			events[i]()
			if n < asked {
				continue
			}
			// The watch translates what has changed, until nothing changes any more.
			for round := 0; ; round++ {
				c := b.Changes()
				if n == asked && round == 0 {
					c.All = true
				}
				if !c.All && len(c.Nodes) == 0 && len(c.Pods) == 0 {
					break
				}
				if round > 5 {
					t.Fatalf("changes never end: %+v", c)
				}
				for _, p := range pods {
					if c.All || slices.Contains(c.Pods, "default/"+p.Name) {
						needs[p.Name] = b.OfPod(p)
					}
				}
				for _, node := range []string{"node0", "node1"} {
					if c.All || slices.Contains(c.Nodes, node) {
						amounts[node] = maps.Clone(b.OfNode(node))
					}
				}
			}
		}
		if asked >= len(order) {
			return
		}
		for _, p := range pods {
			if want := a.OfPod(p); !reflect.DeepEqual(needs[p.Name], want) {
				t.Fatalf("%s: %+v after events, %+v at once", p.Name, needs[p.Name], want)
			}
		}
		for _, node := range []string{"node0", "node1"} {
			if want := a.OfNode(node); !maps.Equal(amounts[node], want) {
				t.Fatalf("%s: %v after events, %v at once", node, amounts[node], want)
			}
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

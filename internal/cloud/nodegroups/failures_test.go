// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestFailures: all machines of the cheapest group fail, those of claims and those that somebody else asks for. Each claim gets a machine of the next
// group and costs one failed machine at most, whether it waits for its answers or not. No failed machine is left, except those of the group's minimum
// size. A machine that runs and has an error stays, whether a claim has it or not.
func TestFailures(t *testing.T) {
	draws := 60
	if os.Getenv("DOVETAIL_SOAK") == "1" {
		draws = 2000
	}
	for seed := range draws {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(uint64(seed), 20, 20, 2)
				w.latency, w.boot, w.fails = w.drawn(400*time.Millisecond), w.drawn(20*time.Second), map[string]bool{"group-0": true}
				if seed%3 == 2 {
					w.lose = 0.2
				}
				p := w.provider()
				if seed%2 == 1 {
					p = wholeWorld{w}.provider()
				}
				w.launch(t, p, "kept", "type-group-2")
				w.grow("group-2", 1)
				time.Sleep(time.Minute)
				w.mu.Lock()
				w.ill = map[string]bool{"group-2": true}
				least := int64(seed % 8 / 4)
				w.groups["group-0"].min = least
				w.mu.Unlock()
				time.Sleep(time.Minute)
				n := 1 + seed%5
				var asking sync.WaitGroup
				for i := range n {
					asking.Go(func() {
						time.Sleep(w.drawn(20 * time.Second))
						w.launch(t, p, string(rune('a'+i)))
					})
				}
				strays := seed % 4 / 2
				asking.Go(func() {
					time.Sleep(30 * time.Second) // machines that were there before are not touched
					w.grow("group-0", strays)
				})
				lists := func(times int) {
					for range times {
						_, _ = p.Offerings(t.Context(), nil, groupClass()) // from time to time, as the controller does
						if _, err := p.List(t.Context()); err != nil && w.lose == 0 {
							t.Error(err)
						}
						time.Sleep(w.drawn(10 * time.Second))
					}
				}
				asking.Go(func() { lists(10) })
				asking.Wait()
				w.grow("group-0", strays) // no claim waits for any
				time.Sleep(time.Minute)
				lists(30)
				if have, want := w.failed, n+2*strays+int(least); w.lose == 0 && have > want {
					t.Errorf("%d machines failed for %d claims, %d that somebody else asked for and a minimum of %d", have, n, 2*strays, least)
				}
				w.mu.Lock()
				for name, want := range map[string]int{"group-0": int(least), "group-1": n, "group-2": 2} {
					if g := w.groups[name]; len(g.machines) != want || g.target != int64(want) {
						t.Errorf("%s is to have %d machines and has %v, want %d", name, g.target, g.machines, want)
					}
				}
				w.mu.Unlock()
				for _, s := range w.wrong {
					t.Error(s)
				}
				if t.Failed() {
					t.Logf("what happened:\n%s\nthe record: %s", strings.Join(w.history, "\n"), w.text)
				}
			})
		})
	}
}

// TestFailureOfOthers: a claim waits for its machine, and one that somebody else has asked for fails before that comes. The claim gets its machine.
func TestFailureOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := newWorld(1, 5, 5)
		w.latency, w.boot = 10*time.Millisecond, 20*time.Second
		p := w.provider()
		first, r := w.launch(t, p, "first"), w.request("a")
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil || res.ProviderID != "" {
			t.Fatalf("have %+v, want a machine that is to come", res)
		}
		w.mu.Lock()
		w.fails, w.boot = map[string]bool{"group-0": true}, 0
		w.mu.Unlock()
		w.grow("group-0", 1)
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if have := w.machines(); len(have) != 2 || w.failed != 1 {
			t.Fatalf("there are machines %q, want two of claims; %d have failed, want 1", have, w.failed)
		}
		second := w.launch(t, p, "a")
		if have, want := w.machines(), slices.Sorted(slices.Values([]string{first, second})); !slices.Equal(have, want) {
			t.Errorf("there are machines %q, want those of claims, %q", have, want)
		}
	})
}

// TestOldRefusals: a claim's machine fails while its Launch call is not waiting. The claim learns so from its next call, even if it knows by then that
// the group has no capacity, but only once and not after a minute: it asks the group again.
func TestOldRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration // from the refusal to the next call
		knows  bool          // that the group has no capacity
		refuse bool
	}{
		"a call at once":                {0, false, true},
		"a call at once that knows":     {0, true, true},
		"a call after minutes":          {3 * time.Minute, false, false},
		"a call after minutes, unasked": {3 * time.Minute, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // for calls that are still under way
				w := newWorld(1, 5)
				w.latency, w.boot, w.fails = 10*time.Millisecond, time.Second, map[string]bool{"group-0": true}
				p := w.provider()
				r := w.request("a")
				if res := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil || res.ProviderID != "" {
					t.Fatalf("have %+v, want a machine that is to come", res)
				}
				time.Sleep(10 * time.Second)
				if _, err := p.List(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.mu.Lock()
				w.fails = nil
				w.mu.Unlock()
				time.Sleep(c.after)
				again := r
				if c.knows {
					again.Unavailable = map[cloud.OfferingKey]bool{{InstanceType: "type-group-0", Zone: "none", CapacityType: model.OnDemand}: true}
				}
				err := p.Launch(t.Context(), []cloud.LaunchRequest{again})[0].Err
				if (err != nil) != (c.refuse || c.knows) || c.refuse != strings.Contains(fmt.Sprint(err), "out of stock") {
					t.Errorf("have %v; want that the claim learns of the failed machine: %t", err, c.refuse)
				}
				if err := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0].Err; err != nil {
					t.Errorf("have %v, want that the group is asked again", err)
				}
				w.launch(t, p, "a")
			})
		})
	}
}

// TestRecordedGroupDeleted: the only group of which the record tells is deleted at the server, which has another. Its machines are listed until an answer can't be wrong
// once any more, then not, without an error.
func TestRecordedGroupDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := newWorld(1, 5, 5)
		w.latency = 10 * time.Millisecond
		p := w.provider()
		w.launch(t, p, "a")
		list := func(want int) {
			t.Helper()
			if list, err := p.List(t.Context()); err != nil || len(list) != want {
				t.Errorf("have %v, %v; want %d machines", list, err, want)
			}
		}
		list(1)
		w.mu.Lock()
		delete(w.groups, "group-0")
		w.mu.Unlock()
		time.Sleep(20 * time.Second) // the list of groups is read again
		list(1)
		time.Sleep(time.Minute)
		list(0)
		list(0)
		if have := p.Missing(); len(have) > 0 {
			t.Errorf("groups %q are remembered, though no claim has a machine there", have)
		}
	})
}

// TestGroupDeleted: a group with machines is deleted at the server. Machines of others are listed, and if there is no group left, none, without an error.
func TestGroupDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := newWorld(1, 5)
		w.latency = 10 * time.Millisecond
		p := w.provider()
		w.endAll(t, p, []string{w.launch(t, p, "a")})
		w.grow("group-0", 1)
		lists := func() {
			for range 3 {
				_, _ = p.Offerings(t.Context(), nil, groupClass()) // from time to time, as the controller does
				if list, err := p.List(t.Context()); err != nil || len(list) > 1 {
					t.Errorf("have %v, %v; want no machine but one that has ended", list, err)
				}
				time.Sleep(time.Minute)
			}
		}
		lists()
		w.mu.Lock()
		delete(w.groups, "group-0")
		w.mu.Unlock()
		lists()
	})
}

// TestComing: a claim waits for a machine that is long in coming, and is listed as such. When the machine runs, a list says so before the claim has asked again.
func TestComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := newWorld(1, 5)
		w.boot = time.Hour
		p := w.provider()
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{w.request("a")})[0]; res.Err != nil || res.ProviderID != "" {
			t.Fatalf("have %+v, want a machine that is to come", res)
		}
		time.Sleep(time.Minute)
		for _, running := range []bool{false, true} {
			w.mu.Lock()
			for id := range w.groups["group-0"].machines {
				w.groups["group-0"].machines[id] = time.Now().Add(time.Hour)
				if running {
					w.groups["group-0"].machines[id] = time.Now()
				}
			}
			w.mu.Unlock()
			list, err := p.List(t.Context())
			if err != nil || len(list) != 1 || list[0].ClaimUID != "a" || list[0].Coming == running {
				t.Errorf("the machine runs: %t; have %+v, %v", running, list, err)
			}
		}
		w.slow = func(call, _ string) bool { return call == "Members" } // it may run
		if list, err := p.List(t.Context()); err == nil {
			t.Errorf("have %+v, want an error, as no group answers", list)
		}
	})
}

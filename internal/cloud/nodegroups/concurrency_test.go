// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// TestConcurrentAsks: claims ask at drawn moments, some twice at once and some with a context that ends early, of groups whose calls take
// drawn times, lose replies and tell old targets. Groups are never to have more machines than there are claims, each claim gets
// a machine of its own, and when the claims go, every machine goes.
func TestConcurrentAsks(t *testing.T) {
	draws := 150
	switch {
	case os.Getenv("DOVETAIL_SOAK") == "1":
		draws = 3000
	case testing.Short():
		draws = 30
	}
	for seed := range draws {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(uint64(seed), 4, 20)
				w.latency, w.boot = w.drawn(400*time.Millisecond), w.drawn(20*time.Second)
				if seed%3 > 0 {
					w.lose, w.lag = 0.2, 5*time.Second
				}
				p := w.provider()
				n := 1 + seed%9
				ids := make([]string, n)
				var asking sync.WaitGroup
				for i := range n {
					uid := string(rune('a' + i))
					for range 1 + (seed+i)%2 {
						asking.Go(func() {
							time.Sleep(w.drawn(2 * time.Second))
							ids[i] = w.launch(t, p, uid)
						})
					}
				}
				asking.Wait()
				if have := w.machines(); len(slices.Compact(slices.Sorted(slices.Values(ids)))) != n || len(have) != n {
					t.Errorf("%d claims have the machines %q of %q", n, ids, have)
				}
				if seed%4 == 3 { // somebody else ends a machine, and the server puts another in its place
					w.replace(ids[seed%n])
				}
				if seed%2 == 0 { // another process goes on
					p = w.provider()
				}
				w.endAll(t, p, ids)
				time.Sleep(time.Minute)
				for range 10 {
					if _, err := p.List(t.Context()); err != nil && w.lose == 0 {
						t.Error(err)
					}
					time.Sleep(5 * time.Second)
				}
				if left := w.machines(); len(left) > 0 {
					t.Errorf("machines %q are left", left)
				}
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

// launch asks for a claim's machine as the controller does, again until it has come.
func (w *world) launch(t *testing.T, p *nodegroups.Provider, uid string, types ...string) string {
	r := w.request(uid)
	r.Types = types
	var last error
	for range 500 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond+w.drawn(2*time.Second))
		res := p.Launch(ctx, []cloud.LaunchRequest{r})[0]
		cancel()
		if last = res.Err; last == nil && res.ProviderID != "" {
			return res.ProviderID
		}
		if k := cloud.KindOf(last); k == cloud.NotFound {
			break
		}
		time.Sleep(w.drawn(time.Second))
	}
	t.Errorf("claim %s has no machine: %v", uid, last)
	return ""
}

// endAll ends machines, again until they are gone.
func (w *world) endAll(t *testing.T, p *nodegroups.Provider, ids []string) {
	var ending sync.WaitGroup
	for _, id := range ids {
		ending.Go(func() {
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond+w.drawn(2*time.Second))
				err := p.Terminate(ctx, []string{id})[0]
				cancel()
				if err == nil || cloud.KindOf(err) == cloud.NotFound {
					return
				}
				time.Sleep(w.drawn(time.Second))
			}
			t.Errorf("machine %s can't be ended", id)
		})
	}
	ending.Wait()
}

// TestSlowGroup: as long as one call for one group takes ten seconds, whichever it is, claims get machines of the other group, and the
// machines of both are listed, within two seconds.
func TestSlowGroup(t *testing.T) {
	for _, call := range []string{"Refresh", "Groups", "Target", "Describe", "Members", "Raise"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // for calls that are still under way
				w := newWorld(1, 5, 5)
				w.latency = 10 * time.Millisecond
				p := w.provider()
				w.launch(t, p, "first", "type-group-0")
				w.launch(t, p, "second", "type-group-1")
				took := func(what string, do func()) {
					t.Helper()
					from := time.Now()
					do()
					if d := time.Since(from); d > 3*time.Second {
						t.Errorf("%s takes %s", what, d)
					}
				}
				slow := "group-0"
				if call == "Refresh" || call == "Groups" {
					slow = ""
				}
				time.Sleep(6 * time.Minute) // whatever is known has to be read again
				w.mu.Lock()
				w.slow = func(c, g string) bool { return c == call && g == slow }
				w.mu.Unlock()
				took("an offer", func() {
					types, err := p.Offerings(t.Context(), nil, groupClass())
					if err != nil || len(types) != 2 {
						t.Errorf("have %v, %v; want the types of both groups", types, err)
					}
				})
				if slow == "" {
					return // all calls that need it wait
				}
				took("a list", func() {
					if list, err := p.List(t.Context()); err != nil || len(list) != 2 {
						t.Errorf("have %v, %v; want the machines of both groups", list, err)
					}
				})
				r := w.request("third")
				r.Types = []string{"type-group-1"}
				took("a launch in the other group", func() {
					if res := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil {
						t.Error(res.Err)
					}
				})
			})
		})
	}
}

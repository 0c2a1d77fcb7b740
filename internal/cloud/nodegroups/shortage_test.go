// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// TestShortages: drawn groups have no capacity, and claims ask at drawn moments. A group that has refused one is not asked again for three
// minutes, whichever claim asks; each claim gets a machine of another group, also where that is of the same instance type; and if there is no
// group left, the claim is told which had no capacity.
func TestShortages(t *testing.T) {
	draws := 60
	if testing.Short() {
		draws = 15
	}
	for seed := range draws {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(uint64(seed), 100, 100, 100)
				w.latency, w.boot, w.same = w.drawn(100*time.Millisecond), w.drawn(5*time.Second), seed%2 == 0
				w.short = map[string]bool{"group-0": true}
				if seed%3 == 1 {
					w.short["group-1"] = true
				}
				none := seed%5 == 4
				if none {
					w.short["group-1"], w.short["group-2"] = true, true
				}
				p := w.provider()
				aside := cloud.NewSetAside(p, cloud.Wall{}, cloud.SetAsideFor)
				began := time.Now()
				asked := 0
				for time.Since(began) < 10*time.Minute {
					r := w.request(string(rune('a' + asked)))
					asked++
					var res cloud.LaunchResult
					for range 500 {
						if res = aside.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil || res.ProviderID != "" {
							break
						}
						time.Sleep(200 * time.Millisecond)
					}
					switch {
					case none && (cloud.KindOf(res.Err) != cloud.InsufficientCapacity || len(cloud.OfferingsOf(res.Err)) != 3):
						t.Errorf("claim %d: %+v, want that no group has capacity, and which", asked, res)
					case !none && res.Err != nil:
						t.Errorf("claim %d: %v", asked, res.Err)
					}
					time.Sleep(w.drawn(40 * time.Second))
				}
				// Ten minutes are three times three minutes and one more.
				if most := 4 * len(w.short); asked < 8 || w.refused < len(w.short) || w.refused > most {
					t.Errorf("%d claims asked, and groups without capacity were asked %d times; want at most %d:\n%s", asked, w.refused, most, strings.Join(w.history, "\n"))
				}
				endProvider(t, w, p)
			})
		})
	}
}

// endProvider ends what a world has, so that nothing is under way when the test ends.
func endProvider(t *testing.T, w *world, p *nodegroups.Provider) {
	w.endAll(t, p, w.machines())
	time.Sleep(time.Minute)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A machine whose claim the watch has not shown, or lost, is ended only when the API server has no such claim either; while that can't be asked it
// is left alone.
func TestAnOrphanIsAskedForBeforeItIsEnded(t *testing.T) {
	for _, c := range []struct {
		name  string
		there bool
		err   error
		want  int
	}{{"gone", false, nil, 1}, {"there", true, nil, 0}, {"not known", false, errDown, 0}} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				asked := 0
				b.claimed = func(a plan.Terminate) error {
					asked++
					if want := (plan.Terminate{ProviderID: "m", Of: "c", OfUID: "uid-c", Why: a.Why}); a != want {
						t.Errorf("asked for %+v", a)
					}
					return c.err
				}
				b.mu.Lock()
				b.bought = []model.Instance{{ProviderID: "m", ClaimUID: "uid-c", ClaimName: "c", Launched: time.Now()}}
				if c.there {
					b.claims["c"] = &model.Claim{Name: "c", UID: "uid-c"}
				}
				b.mu.Unlock()
				b.lead()
				time.Sleep(5 * time.Minute)
				ended := subjects(b.made("terminate"))
				if asked == 0 || c.want == 0 && asked > 30 || len(ended) != c.want {
					t.Errorf("asked %d times, ended %v; want %d ended", asked, ended, c.want)
				}
				b.mu.Lock()
				delete(b.claims, "c")
				b.mu.Unlock()
				c.err = nil
				time.Sleep(5 * time.Minute)
				if ended := fmt.Sprint(subjects(b.made("terminate"))); ended != "[m]" {
					t.Errorf("ended %s in the end, want m", ended)
				}
			})
		})
	}
}

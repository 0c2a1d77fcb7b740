// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// While a node drains, which may take hours, the cloud is not asked for all of its machines each second; where a claim that does not know its
// machine is to end, it is, for a moment.
func TestADrainHasNoMachinesListed(t *testing.T) {
	for _, c := range []struct {
		name  string
		claim model.Claim
		least int
		most  int
	}{
		{"a drain", model.Claim{ProviderID: "m", Conditions: map[string]model.Condition{"Launched": {Status: "True"}}}, 50, 70},
		{"no machine", model.Claim{}, 60, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.c.Policy.Classes = []string{"g/K"}
				b.lead()
				cl := c.claim
				cl.Name, cl.UID, cl.Pool, cl.Created, cl.Deleting, cl.HasFinalizer = "c", "uid-c", "p", time.Now(), time.Now(), true
				cl.ClassGroup, cl.ClassKind, cl.ClassName = "other", "K", "c" // so that nothing is done about it
				b.show(&cl, 1)
				time.Sleep(10 * time.Minute)
				if n := len(b.made("list")); n < c.least || n > c.most {
					t.Errorf("%d lists in ten minutes, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

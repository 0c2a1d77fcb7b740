// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// While a node drains, which may take hours, the cloud is not asked for all of its machines each second; where a claim is to end that does not
// know its machine, or whose machine may have gone before it, it is, for a minute.
func TestADrainHasNoMachinesListed(t *testing.T) {
	for _, c := range []struct {
		name  string
		claim model.Claim
		node  *model.Node
		least int
		most  int
	}{
		{"a drain", model.Claim{ProviderID: "m", Conditions: map[string]model.Condition{"Launched": {Status: "True"}}, NodeName: "n"}, &model.Node{Name: "n", ProviderID: "m", Ready: true}, 50, 70},
		{"its machine may be gone", model.Claim{ProviderID: "m", Conditions: map[string]model.Condition{"Launched": {Status: "True"}}, NodeName: "n"}, &model.Node{Name: "n", ProviderID: "m"}, 100, 130},
		{"no machine", model.Claim{}, nil, 100, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.c.Policy.NodeClasses = []string{"g/K"}
				b.lead()
				cl := c.claim
				cl.Name, cl.UID, cl.Pool, cl.Created, cl.Deleting, cl.HasFinalizer = "c", "uid-c", "p", time.Now(), time.Now(), true
				cl.ClassGroup, cl.ClassKind, cl.ClassName = "other", "K", "c" // so that nothing is done about it
				b.c.Emit(func(s *state.State) {
					if c.node != nil {
						s.SetNode(c.node, 1)
					}
				})
				b.show(&cl, 1)
				time.Sleep(10 * time.Minute)
				if n := len(b.made("list")); n < c.least || n > c.most {
					t.Errorf("%d lists in ten minutes, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A node class whose written condition Ready is False launches nothing, whoever wrote it: neither for pods nor for a
// claim that is there already, which is deleted; and launches when it is True again.
func TestWrittenClassNotReady(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		class := func(status string) {
			b.c.Emit(func(s *state.State) {
				s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1,
					Conditions: map[string]model.Condition{"Ready": {Status: status, Reason: "ByHand", Message: "somebody says so"}}})
			})
		}
		b.lead()
		class("False")
		time.Sleep(time.Second)
		b.show(&model.Claim{Name: "own", UID: "uid-own", Created: time.Now(), HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1,
			ClassGroup: "g", ClassKind: "K", ClassName: "c", Conditions: map[string]model.Condition{}}, 1)
		b.pod("a", "a")
		time.Sleep(5 * time.Second)
		if n := len(b.made("create")) + len(b.made("launch")); n != 0 {
			t.Fatalf("%d claims made or launched", n)
		}
		if got := subjects(b.made("delete")); len(got) != 1 || got[0] != "own" {
			t.Fatalf("deleted %v, want own", got)
		}
		var p *model.NodePool
		b.c.Emit(func(s *state.State) { p = s.Pools.FindPool("p") })
		time.Sleep(time.Second)
		if p.Ready || p.NotReady.Reason != "NodeClassNotReady" || p.NotReady.Message != "K c is not Ready: ByHand: somebody says so" {
			t.Fatalf("the pool: %t %+v", p.Ready, p.NotReady)
		}
		class("True")
		time.Sleep(5 * time.Second)
		if n := len(b.made("launch")); n != 1 {
			t.Fatalf("%d launches, want one", n)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestStartTellsNothingUntrue starts the loop beside pods that are pending already, with what it reads coming in every order and at every
// pace: it decides on nothing before it has taken in all that the watch delivered, and neither a pod nor a ProvisioningRequest nor a CapacityBuffer is
// told that a NodePool is not Ready whose instance types are being read.
func TestStartTellsNothingUntrue(t *testing.T) {
	for _, slow := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second} { // the provider
		for _, leads := range []string{"first", "last"} {
			for _, late := range []string{"pools", "nodes", "nothing"} { // comes last
				t.Run(fmt.Sprintf("the provider takes %s, leads %s, late %s", slow, leads, late), func(t *testing.T) {
					testStart(t, slow, leads == "first", late)
				})
			}
		}
	}
}

func testStart(t *testing.T, slow time.Duration, leadsFirst bool, late string) {
	run(t, func(t *testing.T, b *bench) {
		b.offerings = func() ([]*model.InstanceType, error) {
			time.Sleep(slow)
			return catalogue, nil
		}
		var pool *model.NodePool
		b.c.Emit(func(s *state.State) {
			pool = s.Pools.FindPool("p")
			s.Pools.DeletePool("p")
		})
		synctest.Wait()
		if leadsFirst {
			b.c.StartActing()
		}
		read := map[string]func(){
			"pools": func() { b.c.Emit(func(s *state.State) { s.Pools.SetPool(pool) }) },
			"nodes": func() {
				b.c.Emit(func(s *state.State) {
					s.SetNode(&model.Node{Name: "n", UID: "uid-n", Ready: true, Labels: model.Labels{model.LabelHostname: "n"},
						Capacity: model.Resources{8000, 32 << 30, 0, 100}, Allocatable: model.Resources{8000, 32 << 30, 0, 100}}, 1)
				})
			},
			"nothing": func() {},
		}
		busy := func() { b.c.Emit(func(*state.State) { time.Sleep(30 * time.Millisecond) }) } // as many objects take
		for _, what := range []string{"pools", "nodes"} {
			if what != late {
				read[what]()
			}
		}
		b.pod("small", "small") // fits on the node
		created := time.Now()
		none := func() *model.Class { // no instance type holds its pods
			return &model.Class{Key: "none", Namespace: "default", Requests: model.Resources{1 << 40, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}
		}
		b.emit(func(s *state.State) {
			s.SetPod(&model.Pod{Namespace: "default", Name: "none", UID: "uid-none", Created: created, Unschedulable: created, Class: none()})
		})
		r := &model.ProvisioningRequest{Namespace: "default", Name: "none", UID: "uid-request", Created: created, CheckOnly: true, NoRetry: true, ValidFor: time.Hour,
			Accepted: model.Condition{Status: "True", Reason: requests.Accepted}}
		c := none()
		c.Key, c.Request = "request", r.Key()
		c.SlotKey = "request " + c.Key
		r.Sets = []model.RequestedPods{{Class: c, Gang: r.Gang(), Count: 2}}
		b.request = r
		b.emit(func(s *state.State) { s.SetRequest(r, 0) })
		b.emit(func(s *state.State) {
			c := none()
			c.Key, c.Priority = "buffer", model.VirtualPriority
			s.SetBuffer(&model.Buffer{Namespace: "default", Name: "none", UID: "uid-buffer", Created: created, Replicas: 1, Total: -1, MaxHourMicro: -1,
				Like: &model.Pod{Namespace: "default", Class: c}, Ready: model.Condition{Status: "True"}}, 1)
		})
		for range 20 {
			busy()
		}
		read[late]()
		b.c.MarkSynced()
		if !leadsFirst {
			b.c.StartActing()
		}
		for range 40 {
			time.Sleep(25 * time.Millisecond)
			a, err := b.c.Answers.Why(context.Background(), "pod/default/none")
			if err != nil {
				continue // nothing is known yet
			}
			for _, f := range a.Findings {
				if f.Change != nil && f.Reason.Code == plan.PoolNotReady {
					t.Errorf("why offers %+v for a NodePool whose instance types are being read", f.Change)
				}
				if f.Reason.Code == plan.NoPools {
					t.Errorf("why says %s", f.Reason.Code)
				}
			}
		}
		time.Sleep(10 * time.Second)
		if made := b.made("create"); len(made) > 0 {
			t.Errorf("NodeClaims were made though the node has room: %v", made)
		}
		for kind, text := range map[string]string{"event": "Pod none FailedScheduling", "request": "none Failed=True", "buffer": "none False RequiresNewCapacity"} {
			told := false
			for _, m := range b.made(kind) {
				told = told || strings.HasPrefix(m.what, text)
				if strings.Contains(m.what, model.OfferingsNotAsked) || strings.Contains(m.what, string(plan.NoPools)) {
					t.Errorf("told %s", m)
				}
			}
			if !told {
				t.Errorf("no %s says that no instance type holds its pods: %v", kind, b.made(kind))
			}
		}
		if slices.ContainsFunc(b.made("event"), func(m made) bool { return strings.HasPrefix(m.what, "Pod small FailedScheduling") }) {
			t.Errorf("the pod that fits on the node is told it does not: %v", b.made("event"))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// With one claim made at a time, and an API server that takes long over each, the last waits longer than any call may take. Another pod alike
// comes meanwhile: what waits for its turn is not bought for again in other company.
func TestWhatWaitsForItsTurnIsNotDecidedAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Config.Parallel = 1
		b.createClaim = func(plan.CreateClaim) error {
			time.Sleep(b.c.Config.CallLimit / 2)
			return nil
		}
		b.lead()
		const machines = 6
		for i := range 4 * machines {
			b.pod(fmt.Sprint("a", i), "a")
		}
		time.Sleep(b.c.Config.CallLimit)
		b.pod("late", "a")
		time.Sleep(10 * b.c.Config.CallLimit)
		if made := b.made("create"); len(made) != machines+1 {
			t.Errorf("%d machines are made for %d pods: %v", len(made), 4*machines+1, made)
		}
	})
}

// With one launch at a time, those of a node class whose calls hang have all the turns there are; those of another class have their own.
func TestAClassWhoseLaunchesHangHoldsUpNoOther(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Config.Parallel = 1
		b.launch = func(ctx context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			if r.Class.Name == "c" {
				<-ctx.Done()
				return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: ctx.Err()}
			}
			return b.buy(r)
		}
		b.lead()
		for i := range 3 * 4 {
			b.pod(fmt.Sprint("a", i), "a")
		}
		time.Sleep(2 * time.Second)
		b.c.Emit(func(s *state.State) {
			pool := *s.Pools.FindPool("p")
			pool.ClassName = "d"
			s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "d", UID: "class-d", Generation: 1})
			s.Pools.SetPool(&pool)
		})
		time.Sleep(2 * time.Second)
		b.pod("other", "other")
		time.Sleep(2 * time.Second)
		launches := b.made("launch")
		if len(launches) != 2 || launches[1].after > 6*time.Second {
			t.Errorf("launches: %v, want one that hangs and one of the other class", launches)
		}
	})
}

// An admission webhook of a few namespaces that takes its time holds up evictions and tolerations there, and nowhere else.
func TestASlowNamespaceHoldsUpNoOther(t *testing.T) {
	for _, kind := range []string{"evict", "tolerate"} {
		t.Run(kind, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.c.Config.Parallel = 4
				b.webhook = func(namespace string) error {
					if namespace != "quick" {
						time.Sleep(30 * time.Second)
					}
					return nil
				}
				b.lead()
				ask := func(namespace string) {
					b.c.Emit(func(*state.State) {
						for i := range 20 {
							uid := fmt.Sprint(namespace, i)
							if kind == "evict" {
								b.c.beginAction(b.c.base, time.Now(), plan.Evict{Namespace: namespace, Pod: uid, UID: uid, Node: "n"})
							} else {
								b.c.beginAction(b.c.base, time.Now(), plan.Tolerate{Namespace: namespace, Pod: uid, UID: uid, Claim: "c"})
							}
						}
					})
				}
				ask("slow-a")
				ask("slow-b")
				time.Sleep(time.Second)
				ask("quick")
				time.Sleep(time.Second)
				calls := b.made(kind)
				if n := len(subjects(calls)); n != 4+4+20 {
					t.Errorf("%d calls, want four for each slow namespace and all twenty of the quick one: %v", n, calls)
				}
				time.Sleep(10 * time.Minute)
				if n := len(subjects(b.made(kind))); n != 60 {
					t.Errorf("%d calls in the end, want 60", n)
				}
			})
		})
	}
}

// The rights are not all there yet when the controller begins, as while a chart is being installed. What it may not write is tried again soon,
// and ever more rarely where it stays refused.
func TestWhatIsForbiddenIsTriedAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var tries []time.Duration
		begin := time.Now()
		b.updatePool = func() error {
			tries = append(tries, time.Since(begin).Round(time.Second))
			return fmt.Errorf("%w: forbidden", plan.ErrInvalid)
		}
		b.lead()
		time.Sleep(20 * time.Minute)
		if have, want := fmt.Sprint(tries), "[0s 1s 3s 7s 15s 31s 1m3s 2m7s 4m15s 8m31s 17m3s]"; have != want {
			t.Errorf("it was tried at %s, want %s", have, want)
		}
		b.updatePool = nil
		time.Sleep(11 * time.Minute)
		if len(b.made("pool")) == len(tries) {
			t.Error("it is allowed now, and was not tried again")
		}
	})
}

// Namespaces come and go; their lanes do not stay.
func TestLanesOfNamespacesThatAreGone(t *testing.T) {
	lanes := newCallLanes()
	busy := lanes.findLane(lane{kind: plan.CallEvict, namespace: "busy"}, 1)
	busy <- struct{}{}
	for i := range 10 * fewLanes {
		lanes.findLane(lane{kind: plan.CallEvict, namespace: fmt.Sprint(i)}, 1)
	}
	if n := len(lanes.byName); n > 2*fewLanes {
		t.Errorf("%d lanes are kept, one of which is in use", n)
	}
	if lanes.findLane(lane{kind: plan.CallEvict, namespace: "busy"}, 1) != busy {
		t.Error("a lane in use was forgotten")
	}
}

// One tenant's thousand calls wait for their turn; a call of another namespace comes next, whatever came before it.
// Calls that hang keep nobody waiting for longer than slowCall.
func TestCallsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		turns := newCallTurns(2, slowCall)
		var (
			mu    sync.Mutex
			order []string
		)
		call := func(namespace string, takes time.Duration) {
			go func() {
				if turn, ok := turns.take(ctx, namespace, false); ok {
					mu.Lock()
					order = append(order, namespace)
					mu.Unlock()
					time.Sleep(takes)
					turn.done()
				}
			}()
			synctest.Wait()
		}
		for range 1000 {
			call("tenant", 10*time.Millisecond)
		}
		call("shop", 10*time.Millisecond)
		call("shop", 10*time.Millisecond)
		time.Sleep(15 * time.Millisecond)
		synctest.Wait()
		// Two turns end at one instant, and whichever call is given the first of them, shop's is one of the next two.
		if len(order) != 4 || !slices.Equal(order[:2], []string{"tenant", "tenant"}) || !slices.Contains(order[2:], "shop") {
			t.Errorf("calls were made in the order %v, want two of the tenant, then one of each", order)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(order) != 1002 || len(turns.waiting)+len(turns.order)+turns.busy != 0 {
			t.Errorf("%d of 1002 calls were made; left: %+v", len(order), turns)
		}
		order = nil
		for range 4 {
			call("webhook", time.Hour)
		}
		call("shop", time.Millisecond)
		time.Sleep(slowCall + time.Millisecond)
		synctest.Wait()
		if !slices.Contains(order, "shop") {
			t.Errorf("calls that hang keep another waiting: %v", order)
		}
		cancel()
		time.Sleep(2 * time.Hour)
		if turns.busy != 0 {
			t.Errorf("%d turns are taken by nobody", turns.busy)
		}
	})
}

// A NodeClaim is made before what the nodes of its namespace need that came before it.
func TestClaimsAreMadeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newCallTurns(1, slowCall)
		var order []string
		call := func(name string, first bool) {
			go func() {
				if turn, ok := turns.take(t.Context(), "shop", first); ok {
					order = append(order, name)
					time.Sleep(10 * time.Millisecond)
					turn.done()
				}
			}()
			synctest.Wait()
		}
		for _, name := range []string{"update 1", "update 2", "update 3"} {
			call(name, false)
		}
		call("create 1", true)
		call("create 2", true)
		time.Sleep(time.Second)
		if want := []string{"update 1", "create 1", "create 2", "update 2", "update 3"}; !slices.Equal(order, want) {
			t.Errorf("calls were made in the order %v, want %v", order, want)
		}
	})
}

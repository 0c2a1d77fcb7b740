// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

var errDown = errors.New("connection refused")

// afters are when calls were made.
func afters(calls []made) []time.Duration {
	var out []time.Duration
	for _, m := range calls {
		out = append(out, m.after)
	}
	return out
}

// subjects are what calls were about, each once.
func subjects(calls []made) []string {
	var out []string
	for _, m := range calls {
		if !slices.Contains(out, m.what) {
			out = append(out, m.what)
		}
	}
	return out
}

func TestOnePodIsDecidedOnAtOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.pod("a", "a")
		time.Sleep(time.Second)
		made := b.made("create")
		if len(made) != 1 {
			t.Fatalf("created %v, want one claim", made)
		}
		if limit := b.c.Config.Idle + b.c.Config.Coalesce; made[0].after > limit {
			t.Errorf("decided after %s, want %s at most", made[0].after, limit)
		}
		if n := len(b.made("launch")); n != 1 {
			t.Errorf("%d launches, want one", n)
		}
	})
}

func TestABurstIsFewDecisions(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		for i := range 400 {
			b.pod(fmt.Sprintf("a-%03d", i), "a")
			time.Sleep(2 * time.Millisecond)
		}
		last := time.Since(b.start)
		time.Sleep(10 * time.Second)
		made := b.made("create")
		if want := 400 / 4; len(made) < want || len(made) > want+5 {
			t.Errorf("%d claims for 400 pods of which a machine holds four, want about %d", len(made), want)
		}
		at := slices.Compact(afters(made))
		if len(at) > 6 {
			t.Errorf("decided %d times, at %v", len(at), at)
		}
		if end := at[len(at)-1]; end > last+b.c.Config.Max+b.c.Config.Idle {
			t.Errorf("the last pod came at %s and was decided on at %s", last, end)
		}
	})
}

// kube-scheduler may be so far behind that a burst comes as a few pods at a time.
func TestATrickleIsFewDecisions(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		for i := range 40 {
			for j := range 6 {
				b.pod(fmt.Sprintf("a-%03d-%d", i, j), "a")
			}
			time.Sleep(130 * time.Millisecond)
		}
		last := time.Since(b.start)
		time.Sleep(10 * time.Second)
		at := slices.Compact(afters(b.made("create")))
		if len(at) > 12 {
			t.Errorf("decided %d times in %s, at %v", len(at), last, at)
		}
		if end := at[len(at)-1]; end > last+b.c.Config.Max+b.c.Config.Idle {
			t.Errorf("the last pod came at %s and was decided on at %s", last, end)
		}
	})
}

// How many a ReplicaSet makes is known with the first: nothing waits for the others.
func TestAReplicaSetIsDecidedOnAtOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.c.Emit(func(s *state.State) { s.SetReplicas("uid-a", 300) })
		for i := range 300 { // never a pause as long as the idle time
			b.pod(fmt.Sprintf("a-%03d", i), "a")
			time.Sleep(b.c.Config.Idle / 2)
		}
		made := b.made("create")
		if want := 300 / 4; len(made) != want {
			t.Errorf("%d claims for 300 pods of which a machine holds four, want %d", len(made), want)
		}
		if limit := 2*b.c.Config.Idle + b.c.Config.Coalesce; made[len(made)-1].after > limit {
			t.Errorf("decided after %s, want %s at most", made[len(made)-1].after, limit)
		}
	})
}

// What is more than was looked at comes as a surprise, though pods like it wait already.
func TestAReplicaSetThatGrowsIsDecidedOnAtOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.c.Emit(func(s *state.State) { s.SetReplicas("uid-a", 1) })
		b.pod("a-000", "a")
		time.Sleep(20 * time.Second)
		before := len(b.made("create"))
		grown := time.Since(b.start)
		b.c.Emit(func(s *state.State) { s.SetReplicas("uid-a", 41) })
		for i := range 40 {
			b.pod(fmt.Sprintf("a-%03d", i+1), "a")
			time.Sleep(60 * time.Millisecond)
		}
		made := b.made("create")[before:]
		if len(made) == 0 || made[0].after-grown > 2*b.c.Config.Idle {
			t.Errorf("it grew after %s, and bought were %v", grown, made)
		}
	})
}

func TestPodsThatWaitAreLookedAtAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var looks []time.Duration
		b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
			out, next := decide.Step(s, mem, now, pol, req)
			if out.Solved && len(s.Pending) > 0 {
				if looks = append(looks, now.Sub(b.start)); len(looks) == 1 {
					out.Actions, out.Pods, out.Waiting, next = nil, nil, 1, mem
				}
			}
			return out, next
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		if len(looks) < 2 || looks[1]-looks[0] > b.c.Config.Max/2 {
			t.Errorf("demand was looked at after %v, want twice within %s", looks, b.c.Config.Max/2)
		}
	})
}

func TestPodsThatKeepComingAreNotPutOffForEver(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		for i := range 300 { // never a pause as long as the idle time
			b.pod(fmt.Sprintf("a-%03d", i), "a")
			time.Sleep(b.c.Config.Idle / 2)
		}
		at := slices.Compact(afters(b.made("create")))
		if len(at) == 0 || at[0] > b.c.Config.Max+b.c.Config.Coalesce {
			t.Fatalf("first decided at %v, want within %s", at, b.c.Config.Max)
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap > 2*b.c.Config.Max {
				t.Errorf("nothing was decided between %s and %s", at[i-1], at[i])
			}
		}
	})
}

// A tenant that never pauses has its pods decided on together once a second; those of others are not made to wait for that.
func TestOthersDoNotWaitForABurst(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		decided := map[string]time.Time{} // when a pod was first decided on
		plans := map[time.Time]bool{}     // those that decided on pods of the tenant
		b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
			out, next := decide.Step(s, mem, now, pol, req)
			for _, d := range out.Pods {
				if decided[d.Pod.Name].IsZero() {
					decided[d.Pod.Name] = now
					if d.Pod.Namespace == "tenant" {
						plans[now] = true
					}
				}
			}
			return out, next
		}
		b.lead()
		came := map[string]time.Time{}
		for i := range 300 { // never a pause as long as the idle time
			b.podIn("tenant", fmt.Sprintf("a-%03d", i), "a")
			if i%40 == 39 {
				web := fmt.Sprintf("web-%03d", i)
				came[web] = time.Now()
				b.podIn("shop", web, "web")
			}
			time.Sleep(b.c.Config.Idle / 2)
		}
		time.Sleep(10 * time.Second)
		for web, at := range came {
			if limit := b.c.Config.Idle + 50*time.Millisecond + 2*b.c.Config.Coalesce; decided[web].IsZero() || decided[web].Sub(at) > limit { // 50 ms: see Controller.rest
				t.Errorf("%s was decided on after %s, want %s at most", web, decided[web].Sub(at), limit)
			}
		}
		if len(plans) > 12 {
			t.Errorf("the tenant's pods were decided on in %d plans, want one a second and those of its end", len(plans))
		}
	})
}

// Where solves take long, what is to be done for a claim waits for none that has not begun.
func TestClaimsDoNotWaitForASolve(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		const long, shown = 400 * time.Millisecond, 97 * time.Millisecond
		type solve struct{ from, to time.Duration }
		var solves []solve
		b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
			out, next := decide.Step(s, mem, now, pol, req)
			if out.Solved {
				at := time.Since(b.start)
				solves = append(solves, solve{at, at + long})
			}
			if time.Sleep(5 * time.Millisecond); out.Solved {
				time.Sleep(long)
			}
			return out, next
		}
		b.createClaim = func(plan.CreateClaim) error {
			time.Sleep(shown)
			return nil
		}
		b.lead()
		for i := range 100 {
			b.pod(fmt.Sprint(i), "a")
			time.Sleep(71 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		begins := map[string]time.Duration{} // when what is to be done for a claim may begin
		for _, m := range b.made("create") {
			begins[m.what] = m.after + shown
			for _, x := range solves {
				if x.from <= begins[m.what] && begins[m.what] < x.to {
					begins[m.what] = x.to
				}
			}
		}
		launches := b.made("launch")
		if len(launches) < 25 {
			t.Fatalf("%d launches for 100 pods of which a machine holds four", len(launches))
		}
		for _, m := range launches {
			if waited := m.after - begins[m.what]; waited > 70*time.Millisecond { // 50 ms: see Controller.rest
				t.Errorf("the launch of %s waited for %s though no solve was under way", m.what, waited)
			}
		}
	})
}

func TestNothingIsDoneBeforeItLeads(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.pod("a", "a")
		time.Sleep(time.Minute)
		b.c.StartActing()
		time.Sleep(time.Minute)
		if made := b.made("create"); len(made) > 0 {
			t.Fatalf("before all was seen: %v", made)
		}
		if b.c.IsReady() {
			t.Error("is ready before all was seen")
		}
		b.c.MarkSynced()
		time.Sleep(time.Second)
		if made := b.made("create"); len(made) != 1 {
			t.Fatalf("created %v, want one claim", made)
		}
	})
}

// A create whose answer was lost may have been done. It is asked for again under the same name, and for no other pods, until that is known.
func TestTheSameClaimIsAskedForAgain(t *testing.T) {
	for _, made := range []bool{false, true} {
		t.Run(fmt.Sprintf("made=%t", made), func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				fails := 3
				b.createClaim = func(a plan.CreateClaim) error {
					if fails--; fails >= 0 {
						if made {
							b.make(a)
						}
						return errDown
					}
					return nil
				}
				b.lead()
				for i := range 3 {
					b.pod(fmt.Sprint("a", i), "a")
				}
				time.Sleep(30 * time.Second)
				got := b.made("create")
				if len(subjects(got)) != 1 {
					t.Fatalf("created %v, want one name", got)
				}
				want := 4
				if made {
					want = 1 // the watch has shown it before the second try
				}
				if len(got) != want {
					t.Errorf("asked at %v, want %d times", afters(got), want)
				}
			})
		})
	}
}

// Slots that may have been written are kept to, and written again: taken for not written, the pod would be given another.
func TestSlotsOfWhichNoAnswerCameAreWrittenAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var asked []string
		b.updateClaim = func(a plan.UpdateClaim) error {
			if !a.SetSlots {
				return nil
			}
			if asked = append(asked, fmt.Sprint(a.Claim, a.Slots)); len(asked) <= 2 {
				return errDown
			}
			return nil
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(2 * time.Second)
		b.pod("b", "b")
		time.Sleep(10 * time.Second)
		if creates := b.made("create"); len(creates) != 1 {
			t.Errorf("created %v, want one claim for both", creates)
		}
		if len(asked) != 3 || asked[1] != asked[0] || asked[2] != asked[0] {
			t.Errorf("slots written: %q, want the same three times", asked)
		}
	})
}

func TestFailuresAreRepeatedLessAndLess(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.createClaim = func(plan.CreateClaim) error { return errDown }
		b.lead()
		b.pod("a", "a")
		time.Sleep(10 * time.Minute)
		at := afters(b.made("create"))
		if len(at) < 10 || len(at) > 150 {
			t.Errorf("asked %d times in ten minutes", len(at))
		}
		for i := 2; i < 5; i++ {
			if at[i]-at[i-1] < at[i-1]-at[i-2] {
				t.Errorf("pauses shrink: %v", at[:6])
			}
		}
	})
}

func TestWhatIsRefusedIsRepeatedRarely(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.createClaim = func(plan.CreateClaim) error { return fmt.Errorf("spec.x: %w", plan.ErrInvalid) }
		b.lead()
		b.pod("a", "a")
		time.Sleep(9 * time.Minute)
		if made := b.made("create"); len(made) < 2 || len(made) > 10 {
			t.Errorf("created %v, want a few tries in nine minutes", made)
		}
		told := false
		for _, e := range b.c.Ledger.Entries(nil) {
			told = told || strings.Contains(e.Why[0].Fields().Have, "spec.x")
		}
		if !told {
			t.Error("the ledger does not say why")
		}
	})
}

func TestARefusedPlanDoesNothing(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		refused := 0
		b.lead()
		b.c.Emit(func(*state.State) {
			b.c.verify = func(_ *model.Snapshot, out *decide.Output) approve.Opinion {
				if out.Problem == nil {
					return approve.Opinion{}
				}
				refused++
				return approve.Opinion{Demand: errors.New("pod a is on no machine")}
			}
		})
		b.pod("a", "a")
		time.Sleep(5 * time.Minute)
		if made := b.made("create"); len(made) > 0 {
			t.Errorf("created %v", made)
		}
		synced := make(chan int)
		b.c.Emit(func(*state.State) { go func() { synced <- refused }() })
		if n := <-synced; n < 2 || n > 20 {
			t.Errorf("%d plans refused in five minutes, want one now and then", n)
		}
		entries := 0
		for _, e := range b.c.Ledger.Entries(nil) {
			if e.Kind == "verify" && e.Outcome == "refused: pod a is on no machine" {
				entries++
			}
		}
		if entries == 0 {
			t.Error("the ledger does not say it")
		}
	})
}

// A fault that some pod brings to light in the solver ends neither the process nor what is under way for others, and is tried again now and then.
func TestAFaultInADecisionIsContained(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.pod("a", "a")
		faults, broken := 0, true
		b.c.Emit(func(*state.State) {
			b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
				if req.Solve && broken {
					faults++
					panic("index out of range")
				}
				return decide.Step(s, mem, now, pol, req)
			}
		})
		time.Sleep(5 * time.Minute)
		if made := b.made("create"); len(made) > 0 {
			t.Errorf("created %v", made)
		}
		synced := make(chan int)
		b.c.Emit(func(*state.State) { broken = false; n := faults; go func() { synced <- n }() })
		if n := <-synced; n < 6 || n > 60 { // each is tried without any NodePool too, and without any pod
			t.Errorf("%d decisions failed in five minutes, want one now and then", n)
		}
		told := false
		for _, e := range b.c.Ledger.Entries(nil) {
			told = told || e.Kind == "decide" && e.Outcome == "failed: index out of range"
		}
		if !told {
			t.Error("the ledger does not say it")
		}
		time.Sleep(time.Minute)
		if made := b.made("launch"); len(made) != 1 {
			t.Errorf("launched %v once the fault was gone, want one", made)
		}
	})
}

// Claims take their steps while no purchase can be decided on.
func TestAFaultInADecisionKeepsClaimsGoing(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		held := make(chan struct{})
		b.createClaim = func(plan.CreateClaim) error { <-held; return nil }
		b.lead()
		b.pod("a", "a")
		time.Sleep(2 * time.Second)
		if made := b.made("create"); len(made) != 1 {
			t.Fatalf("created %v, want one under way", made)
		}
		faults := 0
		b.c.Emit(func(*state.State) {
			b.c.decider = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
				if !req.OngoingOnly {
					faults++
					panic("index out of range")
				}
				return decide.Step(s, mem, now, pol, req)
			}
		})
		close(held)
		time.Sleep(time.Minute)
		if made := b.made("launch"); len(made) != 1 {
			t.Errorf("launched %v, want the one that was decided on before", made)
		}
		synced := make(chan int)
		b.c.Emit(func(*state.State) { n := faults; go func() { synced <- n }() })
		if n := <-synced; n < 2 || n > 10 {
			t.Errorf("%d decisions failed in a minute, want one now and then", n)
		}
	})
}

func TestASlowCallDelaysOnlyItself(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.launch = func(ctx context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			if len(b.made0("launch")) == 1 {
				<-ctx.Done() // the first one hangs until it is given up
				return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: ctx.Err()}
			}
			return b.buy(r)
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(time.Second)
		for i := range 4 {
			b.pod(fmt.Sprint("b", i), "b")
		}
		time.Sleep(time.Second)
		launches := b.made("launch")
		if len(launches) != 2 {
			t.Fatalf("launches: %v, want the first to hang and the second to be made", launches)
		}
		time.Sleep(2 * b.c.Config.CallLimit)
		if again := b.made("launch"); len(again) != 3 || again[2].what != launches[0].what {
			t.Errorf("launches: %v, want the first again when its time was up", again)
		}
	})
}

// With one launch at a time the second waits for the first, which hangs; meanwhile its pods and its claim go.
func TestALaunchThatWaitedIsNotMadeForAClaimThatIsGone(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Config.Parallel = 1
		b.launch = func(ctx context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			if len(b.made0("launch")) == 1 {
				<-ctx.Done()
				return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: ctx.Err()}
			}
			return b.buy(r)
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(time.Second)
		for i := range 4 {
			b.pod(fmt.Sprint("b", i), "b")
		}
		time.Sleep(time.Second)
		created := b.made("create")
		if len(created) != 2 {
			t.Fatalf("created %v, want two claims", created)
		}
		gone := created[1].what
		b.c.Emit(func(s *state.State) {
			for i := range 4 {
				s.DeletePod(fmt.Sprint("default/b", i))
			}
			s.DeleteClaim(gone)
		})
		time.Sleep(3 * b.c.Config.CallLimit)
		launches := b.made("launch")
		if len(launches) < 2 {
			t.Fatalf("launches: %v, want the first again when its time was up", launches)
		}
		for _, l := range launches {
			if l.what == gone {
				t.Errorf("launches: %v, want none for %s, which is gone", launches, gone)
			}
		}
	})
}

func TestAThrottledLaunchWaitsAsLongAsItIsTold(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.launch = func(_ context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: &cloud.Error{Kind: cloud.Throttled, Op: "launch", Object: r.ClaimName, After: 7 * time.Second}}
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(30 * time.Second)
		at := afters(b.made("launch"))
		if len(at) < 3 {
			t.Fatalf("launched at %v", at)
		}
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < 7*time.Second || at[i]-at[i-1] > 12*time.Second {
				t.Errorf("launched at %v, was told to wait 7s", at)
			}
		}
		if len(subjects(b.made("create"))) != 1 {
			t.Errorf("created %v, want one claim", b.made("create"))
		}
	})
}

func TestWithoutCapacityItGoesElsewhereAtOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.launch = func(_ context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			if slices.Contains(r.Types, "cheap") {
				return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: &cloud.Error{Kind: cloud.InsufficientCapacity, Op: "launch", Object: r.ClaimName,
					Offerings: []cloud.OfferingKey{{InstanceType: "cheap", Zone: "a", CapacityType: model.OnDemand}}}}
			}
			return b.buy(r)
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(20 * time.Second)
		launches := b.made("launch")
		if len(launches) != 2 || launches[0].what == launches[1].what {
			t.Fatalf("launches %v, want one that fails and one of another claim", launches)
		}
		if gap := launches[1].after - launches[0].after; gap > time.Second {
			t.Errorf("decided again after %s", gap)
		}
		if made := b.made("delete"); len(made) != 1 || made[0].what != launches[0].what {
			t.Errorf("deleted %v, want the claim that got nothing", made)
		}
		told := slices.DeleteFunc(b.made("event"), func(e made) bool { return !strings.HasPrefix(e.what, "Pod a InsufficientCapacityError") })
		if len(told) != 1 || !strings.Contains(told[0].what, launches[0].what) {
			t.Errorf("the pod was told %v, want once that claim %s failed", told, launches[0].what)
		}
	})
}

// The machine was bought and the claim could not be told so: the launch is repeated, for the same claim.
func TestALostWriteAfterALaunchIsRepeated(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		fails := 2
		b.updateClaim = func(a plan.UpdateClaim) error {
			if a.ProviderID != "" {
				if fails--; fails >= 0 {
					return errDown
				}
			}
			return nil
		}
		b.lead()
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		launches := b.made("launch")
		if len(launches) != 3 || len(subjects(launches)) != 1 || len(b.made("create")) != 1 {
			t.Errorf("launches %v of claims %v, want three of one", launches, b.made("create"))
		}
	})
}

// TestAnEvictionThatSurgeWasAskedForIsToldOnce, however often the API server is asked for it.
func TestAnEvictionThatSurgeWasAskedForIsToldOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		a := plan.Evict{Namespace: "default", Pod: "a", UID: "u", Node: "n", Why: plan.Reason{Code: plan.NoSurge, Subject: "pod/default/a", Detail: plan.OfNoSurge{Field: "spec.paused", Paused: true}}}
		told := func() int {
			b.c.Emit(func(*state.State) {
				b.c.recorder.Output(time.Now(), &model.Snapshot{}, &decide.Output{Plan: plan.Plan{Actions: []plan.Action{a}}})
			})
			synctest.Wait()
			return len(b.c.Ledger.Entries(func(e ledger.Entry) bool { return e.Kind == "evict" }))
		}
		if n := told(); n != 1 {
			t.Fatalf("told %d times", n)
		}
		if n := told(); n != 1 {
			t.Errorf("the same was told again: %d", n)
		}
		a.Why.Detail = plan.OfNoSurge{Field: "time", Late: true}
		if n := told(); n != 2 {
			t.Errorf("another reason was not told: %d", n)
		}
	})
}

func TestAMissingNodeClassIsSaidAndHealed(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(s *state.State) { s.Pools.DeleteNodeClass("g", "K", "c") })
		b.lead()
		b.pod("a", "a")
		time.Sleep(5 * time.Second)
		if made := b.made("create"); len(made) > 0 {
			t.Fatalf("created %v without a node class", made)
		}
		said := ""
		for _, e := range b.made("event") {
			if strings.HasPrefix(e.what, "Pod a FailedScheduling") {
				said = e.what
			}
		}
		if !strings.Contains(said, "K.g c, which does not exist") {
			t.Errorf("told the pod %q", said)
		}
		healed := time.Since(b.start)
		b.c.Emit(func(s *state.State) {
			s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1})
		})
		time.Sleep(5 * time.Second)
		made := b.made("create")
		if len(made) != 1 {
			t.Fatalf("created %v once the class was there", made)
		}
		if made[0].after-healed > time.Second {
			t.Errorf("decided %s after the class was there", made[0].after-healed)
		}
	})
}

func TestOfferingsThatFailAreAskedForAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		asked := 0
		b.offerings = func() ([]*model.InstanceType, error) {
			if asked++; asked < 4 {
				return nil, &cloud.Error{Kind: cloud.Unknown, Op: "offerings", Err: errDown}
			}
			return catalogue, nil
		}
		b.c.MarkSynced()
		b.c.StartActing()
		b.pod("a", "a")
		time.Sleep(30 * time.Second)
		if made := b.made("create"); len(made) != 1 {
			t.Errorf("created %v once offerings were known, after %d questions", made, asked)
		}
	})
}

// What one node class offers is not bought for another that a pool names later: nothing is until that one has been asked about.
func TestAPoolNamesAnotherClass(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		down := false
		b.offerings = func() ([]*model.InstanceType, error) {
			if down {
				return nil, &cloud.Error{Kind: cloud.Throttled, Op: "offerings", Err: errDown}
			}
			return catalogue, nil
		}
		b.lead()
		b.c.Emit(func(s *state.State) {
			down = true
			pool := *s.Pools.FindPool("p")
			pool.ClassName = "d"
			s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "d", UID: "class-d", Generation: 1})
			s.Pools.SetPool(&pool)
		})
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		if made := b.made("create"); len(made) > 0 {
			t.Errorf("created %v of what another class offers", made)
		}
		b.c.Emit(func(*state.State) { down = false })
		time.Sleep(2 * time.Minute)
		if made := b.made("create"); len(made) != 1 {
			t.Errorf("created %v once it was known what the class offers", made)
		}
	})
}

func TestConfigurationsThatAreNone(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for says, change := range map[string]func(*Config){
		"batch window: idle 0s must be positive and at most max 1s": func(c *Config) { c.Idle = 0 },
		"batch window: idle 2s must be positive and at most max 1s": func(c *Config) { c.Idle = 2 * time.Second },
		"parallel actions: 0, must be at least 1":                   func(c *Config) { c.Parallel = 0 },
		"intervals must be positive":                                func(c *Config) { c.ListEvery = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || err.Error() != says {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for n := range 7 {
		got = append(got, retryPause(n, time.Second, 10*time.Second))
	}
	if s := fmt.Sprint(got); s != "[1s 1s 2s 4s 8s 10s 10s]" {
		t.Errorf("pauses are %s", s)
	}
}

// A move that verify refuses takes nothing else with it: what is bought for pods is bought, and the machine of the move is left alone for
// longer each time.
func TestARefusedMoveStopsNothingElse(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		refused := 0
		b.lead()
		b.c.Emit(func(s *state.State) {
			b.c.verify = func(_ *model.Snapshot, out *decide.Output) approve.Opinion {
				var o approve.Opinion
				for _, m := range out.Commands {
					refused++
					o.Moves = append(o.Moves, approve.RefusedMove{StartedCommand: m, Err: errors.New("pod a is on no machine")})
				}
				return o
			}
			p := *s.Pools.FindPool("p")
			p.ConsolidateAfter = 0
			s.Pools.SetPool(&p)
			since := model.Condition{Status: "True", Since: time.Now().Add(-time.Hour)}
			s.SetClaim(&model.Claim{Name: "idle", UID: "uid-idle", Pool: "p", ProviderID: "m-idle", NodeName: "idle", HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1,
				Conditions: map[string]model.Condition{"Launched": since, "Registered": since, "Initialized": since, "Consolidatable": since}}, 1)
			s.SetNode(&model.Node{Name: "idle", UID: "uid-n", ProviderID: "m-idle", Ready: true, HasFinalizer: true,
				Labels: model.Labels{model.LabelRegistered: "true", model.LabelInitialized: "true"}}, 1)
		})
		time.Sleep(time.Second)
		b.pod("a", "a")
		b.pod("b", "b")
		time.Sleep(time.Hour)
		if made := b.made("create"); len(made) == 0 || made[0].after > 2*time.Second {
			t.Errorf("created %v, want a claim for the pods at once", made)
		}
		for _, m := range b.made("delete") {
			if m.what == "idle" {
				t.Error("the move was carried out")
			}
		}
		synced := make(chan int)
		b.c.Emit(func(*state.State) { go func() { synced <- refused }() })
		if n := <-synced; n < 2 || n > 6 { // after 5, 10, 20 minutes
			t.Errorf("the move was decided on %d times in an hour, want less and less often", n)
		}
		entries := 0
		for _, e := range b.c.Ledger.Entries(nil) {
			if e.Kind == "verify" && e.Subject == "node/idle" && e.Outcome == "refused: pod a is on no machine" {
				entries++
			}
		}
		if entries == 0 {
			t.Error("the ledger does not say it")
		}
	})
}

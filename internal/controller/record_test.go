// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// What is done to nodes and pods is told on the object that it is done to, by the reference's reasons.
func TestEventReasons(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		pool := &model.NodePool{Name: "p", ConsolidationPolicy: "Balanced"}
		claim := &model.Claim{Name: "c", UID: "uid-c", NodeName: "n", Pool: "p"}
		b.c.Emit(func(s *state.State) {
			s.SetClaim(claim, 1)
			rec, now, snap := b.c.recorder, time.Now(), &model.Snapshot{}
			out := &decide.Output{Commands: []decide.StartedCommand{{Command: &disrupt.Command{
				Cause: plan.Underutilized, Candidates: []*disrupt.Candidate{{Node: &model.Node{Name: "n"}, Claim: claim, Pool: pool}},
			}}}}
			out.Actions = []plan.Action{
				plan.DeleteClaim{Claim: "c", UID: "uid-c", Why: plan.Reason{Code: plan.Underutilized, Command: "m"}},
				plan.DeleteClaim{Claim: "c", UID: "uid-c", Why: plan.Reason{Code: plan.Interrupted}},
			}
			rec.Output(now, snap, out)
			evict := b.c.answers.answerEvict(plan.Evict{Namespace: "default", Pod: "web", Node: "n"})
			evict(s, nil)
			evict(s, fmt.Errorf("budget web: %w", plan.ErrBlocked))
			for range 3 { // told once
				evict(s, fmt.Errorf("evict: %w", &plan.BudgetBlocks{Budget: "default/web", Said: "The disruption budget web needs 3 healthy pods"}))
			}
		})
		time.Sleep(time.Second)
		var told []string
		for _, e := range b.made("event") {
			what, _, _ := strings.Cut(e.what, ":")
			told = append(told, what)
		}
		for _, want := range []string{
			"NodeClaim c DisruptionLaunching", "Node n ConsolidationApproved", "NodeClaim c Disrupted", "Node n DisruptionTerminating",
			"NodeClaim c DisruptionTerminating", "Node n TerminatingOnInterruption", "Pod web Evicted", "Node n FailedDraining",
		} {
			if !slices.Contains(told, want) {
				t.Errorf("nothing told %q; told was %v", want, told)
			}
		}
		var blockers []string
		for _, e := range b.c.Ledger.Past().Entries(time.Time{}, ledger.About("node/n", nil)) {
			if by := report.Blocker(&e); by != "" {
				blockers = append(blockers, by)
			}
		}
		if got := strings.Join(blockers, ", "); got != "pod default/web, PodDisruptionBudget default/web" {
			t.Errorf("the drain is blocked by %q by the ledger", got)
		}
	})
}

// What was told of a pod is not told again when a step for other namespaces has left it undecided.
func TestARefusalIsToldOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		pod := &model.Pod{Namespace: "tenant", Name: "a", UID: "uid-a", Class: &model.Class{}}
		refused, left := &decide.Output{}, &decide.Output{Left: []*model.Pod{pod}}
		refused.Pods = []plan.PodDecision{{Pod: pod, Outcome: plan.Refused, Reasons: []plan.Reason{{Code: plan.WorkShare, Detail: plan.OfWorkShare{Namespace: "tenant"}}}}}
		b.c.Emit(func(*state.State) {
			for _, out := range []*decide.Output{refused, left, refused} {
				out.Solved = true
				b.c.recorder.Output(time.Now(), &model.Snapshot{}, out)
			}
		})
		time.Sleep(time.Second)
		if told := b.made("event"); len(told) != 1 {
			t.Errorf("told were %v, want one refusal", told)
		}
	})
}

// A node costs until its NodeClaim has ended, however long ago its deletion was asked for, and each entry begins with what
// the one before left; what has not come back from the API server yet counts as it was decided.
func TestLedgerCountsWhatRuns(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		pool := &model.NodePool{Name: "p", Types: []*model.InstanceType{{Name: "m", Offerings: []model.Offering{{Zone: "a", CapacityType: model.Spot, PriceMicro: 100}}}}}
		labels := model.Labels{model.LabelInstanceType: "m", model.LabelZone: "a", model.LabelCapacityType: model.Spot}
		claim := func(name string, deleting bool) *model.Claim {
			c := &model.Claim{Name: name, UID: name, Pool: "p", Labels: labels, NodeName: "node-" + name}
			if deleting {
				c.Deleting = time.Unix(1, 0)
			}
			return c
		}
		demand, empty := plan.Reason{Code: plan.Demand, Pool: "p"}, plan.Reason{Code: plan.Empty, Pool: "p"}
		steps := []struct {
			claims  []*model.Claim
			actions []plan.Action
		}{
			{claims: []*model.Claim{claim("a", false), claim("b", false)}},
			{[]*model.Claim{claim("a", false), claim("b", false)}, []plan.Action{plan.CreateClaim{Name: "c", Pool: pool, PriceMicro: 30, Why: demand}, plan.CreateClaim{Name: "d", Pool: pool, PriceMicro: 40, Why: demand}}},
			{[]*model.Claim{claim("a", false), claim("b", false), {Name: "c", Pool: "p", Provisional: true}, {Name: "d", UID: "d", Pool: "p"}}, []plan.Action{plan.DeleteClaim{Claim: "a", UID: "a", Why: empty}}},
			{claims: []*model.Claim{claim("a", true), claim("b", true), claim("c", false), claim("d", false)}}, // somebody has deleted b
			{claims: []*model.Claim{claim("b", true), claim("c", false), claim("d", false)}},
			{claims: []*model.Claim{claim("c", false), claim("d", false)}},
			{claims: []*model.Claim{claim("c", false), claim("d", false), {Name: "e", UID: "e", Pool: "p", Maker: "e"}}}, // somebody creates e
			{claims: []*model.Claim{claim("c", false), claim("d", false), {Name: "e", UID: "e", Pool: "p", Maker: "e", ProviderID: "1", Labels: labels}}},
			{claims: []*model.Claim{claim("c", false), claim("d", false), {Name: "e", UID: "f", Pool: "p", Maker: "e", ProviderID: "2", Labels: labels}}}, // and again
		}
		b.c.Emit(func(s *state.State) {
			s.SetClaim(claim("a", false), 1)
			for i, step := range steps {
				if i == 4 {
					s.DeleteClaim("a")
				}
				out := &decide.Output{}
				out.Actions = step.actions
				now := time.Unix(int64(i), 0)
				b.c.recorder.Output(now, &model.Snapshot{Pools: []*model.NodePool{pool}, Claims: step.claims}, out)
				for _, a := range step.actions {
					if a, ok := a.(plan.CreateClaim); ok {
						b.c.recorder.Made(now, a.Name)
					}
				}
			}
		})
		time.Sleep(time.Second)
		var got []string
		for _, e := range b.c.Ledger.Past().Entries(time.Time{}, nil) {
			got = append(got, fmt.Sprint(e.At.Unix(), " ", e.Kind, " ", e.Subject, " ", e.Why[0].Code, " ", e.Before, " ", e.After))
		}
		want := []string{
			"1 create nodeclaim/c Demand 200 230", "1 create nodeclaim/d Demand 230 270", "2 delete nodeclaim/a Empty 270 270",
			"3 delete nodeclaim/b Deleted 400 400", "4 remove nodeclaim/a Empty 400 300", "5 remove nodeclaim/b Deleted 300 200",
			"7 create nodeclaim/e CreatedByOthers 200 300", "8 create nodeclaim/e CreatedByOthers 300 400", "8 remove nodeclaim/e Deleted 400 300",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// While a NodePool is taken over or released its NodeClaims are made anew, and its nodes stay: nothing is launched or removed.
func TestLedgerOfARelease(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		node := &model.Node{Name: "n", ProviderID: "1"}
		steps := [][]*model.Claim{{{Name: "a", UID: "a", Pool: "p", ProviderID: "1"}}, {}, {{Name: "a", UID: "b", Pool: "p", ProviderID: "1", Maker: "karpenter"}}}
		b.c.Emit(func(*state.State) {
			for i, claims := range steps {
				b.c.recorder.Output(time.Unix(int64(i), 0), &model.Snapshot{Claims: claims, Nodes: []*model.Node{node}}, &decide.Output{})
			}
			b.c.recorder.Output(time.Unix(3, 0), &model.Snapshot{}, &decide.Output{})
		})
		time.Sleep(time.Second)
		var got []string
		for _, e := range b.c.Ledger.Past().Entries(time.Time{}, nil) {
			got = append(got, fmt.Sprint(e.At.Unix(), " ", e.Kind))
		}
		if !slices.Equal(got, []string{"3 remove"}) {
			t.Errorf("the ledger has %v, want the removal when the node is gone", got)
		}
	})
}

// A termination time that is written is told of, one that is taken back is not.
func TestATerminationTimeIsTold(t *testing.T) {
	for at, want := range map[string]bool{"2000-01-01T00:10:00Z": true, plan.Unset: false} {
		run(t, func(t *testing.T, b *bench) {
			b.stand(1)
			b.lead()
			b.c.Emit(func(*state.State) {
				out := &decide.Output{}
				out.Actions = []plan.Action{plan.UpdateClaim{Claim: "old-00", Annotations: map[string]string{lifecycle.TerminationTime: at}}}
				b.c.recorder.Output(time.Now(), &model.Snapshot{}, out)
			})
			time.Sleep(time.Second)
			told := false
			for _, e := range b.made("event") {
				told = told || strings.Contains(e.what, "TerminationGracePeriodExpiring")
			}
			if told != want {
				t.Errorf("%q: told %t, want %t", at, told, want)
			}
		})
	}
}

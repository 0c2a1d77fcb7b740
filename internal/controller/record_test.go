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
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
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
			rec.recordMoves(now, &decide.Output{Commands: []decide.StartedCommand{{Command: &disrupt.Command{
				Cause: plan.Underutilized, Candidates: []*disrupt.Candidate{{Node: &model.Node{Name: "n"}, Claim: claim, Pool: pool}},
			}}}})
			rec.recordDelete(now, snap, plan.DeleteClaim{Claim: "c", UID: "uid-c", Why: plan.Reason{Code: plan.Underutilized, Key: plan.CommandKey("m")}})
			rec.recordDelete(now, snap, plan.DeleteClaim{Claim: "c", UID: "uid-c", Why: plan.Reason{Code: plan.Interrupted}})
			evict := b.c.answers.answerEvict(plan.Evict{Namespace: "default", Pod: "web", Node: "n"})
			evict(s, nil)
			evict(s, fmt.Errorf("budget web: %w", plan.ErrBlocked))
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
	})
}

// What was told of a pod is not told again when a step for other namespaces has left it undecided.
func TestARefusalIsToldOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		pod := &model.Pod{Namespace: "tenant", Name: "a", UID: "uid-a", Class: &model.Class{}}
		refused, left := &decide.Output{}, &decide.Output{Left: []*model.Pod{pod}}
		refused.Pods = []plan.PodDecision{{Pod: pod, Outcome: plan.Refused, Reasons: []plan.Reason{{Code: plan.WorkShare, Key: "tenant"}}}}
		b.c.Emit(func(*state.State) {
			for _, out := range []*decide.Output{refused, left, refused} {
				b.c.recorder.recordPods(time.Now(), out)
			}
		})
		time.Sleep(time.Second)
		if told := b.made("event"); len(told) != 1 {
			t.Errorf("told were %v, want one refusal", told)
		}
	})
}

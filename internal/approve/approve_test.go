// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package approve

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
)

// A command that removes more nodes than a disruption budget allows, or a node that another command removes, is refused,
// and none beside it.
func TestCommandsWithinBudgets(t *testing.T) {
	pool := &model.NodePool{Name: "p", Budgets: []model.Budget{{Nodes: 2}, {Nodes: 0, Reasons: []string{"Drifted"}}, {Nodes: 0, Schedule: "@daily", Duration: time.Hour}}}
	other := &model.NodePool{Name: "q", Budgets: []model.Budget{{Nodes: 10, Percent: true}}}
	snap := &model.Snapshot{}
	command := func(id string, cause plan.Code, pool *model.NodePool, from, to int) decide.StartedCommand {
		m := decide.StartedCommand{ID: id, Command: &disrupt.Command{Cause: cause}}
		for i := from; i < to; i++ {
			name := fmt.Sprint(pool.Name, i)
			m.Candidates = append(m.Candidates, &disrupt.Candidate{Pool: pool, Claim: &model.Claim{Name: name, UID: name, Pool: pool.Name}, Node: &model.Node{Name: name}})
		}
		return m
	}
	for _, p := range []*model.NodePool{pool, other} {
		for i := range 11 {
			name := fmt.Sprint(p.Name, i)
			snap.Claims = append(snap.Claims, &model.Claim{Name: name, UID: name, Pool: p.Name})
		}
	}
	out := &decide.Output{Commands: []decide.StartedCommand{
		command("within", plan.Underutilized, pool, 0, 2), command("beyond", plan.Empty, pool, 2, 5), command("drifted", plan.Drifted, pool, 5, 6),
		command("expired", plan.Expired, pool, 6, 10), command("percent", plan.Empty, other, 0, 2), command("more", plan.Empty, other, 2, 5), command("again", plan.Empty, pool, 0, 1),
	}}
	var refused []string
	for _, m := range Verify(snap, out).Moves {
		refused = append(refused, m.ID)
	}
	if want := []string{"beyond", "drifted", "more", "again"}; !slices.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
}

// The parts without which deciding does not panic are found, and no others.
func TestIsolate(t *testing.T) {
	snap := &model.Snapshot{}
	for i := range 37 {
		snap.Pools = append(snap.Pools, &model.NodePool{Name: fmt.Sprintf("p%02d", i)})
		snap.Pending = append(snap.Pending, &model.Pod{Name: fmt.Sprint(i), Class: &model.Class{Key: fmt.Sprint(i / 2)}})
	}
	for _, culprits := range [][]string{{"p00"}, {"p36"}, {"p17"}, {"p03", "p21"}} {
		trials := 0
		parts := isolate(snap, "index out of range", func(withheld []decide.Withheld) bool {
			trials++
			return slices.ContainsFunc(culprits, func(c string) bool {
				return !slices.ContainsFunc(withheld, func(w decide.Withheld) bool { return w.Pool == c })
			})
		})
		var found []string
		for _, x := range parts {
			found = append(found, x.Pool)
		}
		if !slices.Equal(found, culprits) || trials > maxTrials+1 {
			t.Errorf("found %v in %d trials, want %v", found, trials, culprits)
		}
	}
	parts := isolate(snap, "index out of range", func(withheld []decide.Withheld) bool {
		return !slices.ContainsFunc(withheld, func(w decide.Withheld) bool {
			return slices.ContainsFunc(w.Pods, func(p *model.Pod) bool { return p.Name == "9" })
		})
	})
	if len(parts) != 1 || len(parts[0].Pods) != 1 || parts[0].Pods[0].Name != "9" || !strings.Contains(parts[0].Why.Have, "index out of range") {
		t.Errorf("found %+v, want the pods of one class", parts)
	}
	if parts := isolate(snap, "", func([]decide.Withheld) bool { return true }); parts != nil {
		t.Errorf("found %+v where nothing helps", parts)
	}
}

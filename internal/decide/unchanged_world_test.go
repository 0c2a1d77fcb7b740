// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// voluntary are the causes for which nothing that people have written may be passed over.
func voluntary(c plan.Code) bool {
	return c == plan.Underutilized || c == plan.Empty || c == plan.Drifted
}

// watchman looks, with code of its own, at what is decided and what is done, whatever goes wrong in between.
type watchman struct {
	w       *world
	budget  int64           // of machines; negative: none
	gone    map[string]bool // by uid: claims deleted for a voluntary cause
	begun   map[plan.Code]int
	saw     int // machines on their way out by our own will, at most
	refused int // evictions that the API server refused
}

func keepWatch(w *world, budget int64) *watchman {
	x := &watchman{w: w, budget: budget, gone: map[string]bool{}, begun: map[plan.Code]int{}}
	w.judge, w.did = x.judge, x.did
	return x
}

// judge holds a decision against what the controller saw: no move is begun, and none goes past the point of no return, over a pod or a node
// that says not to be disrupted; and none is begun over a PodDisruptionBudget that allows nothing.
func (x *watchman) judge(s *model.Snapshot, out *Output) {
	node := map[string]*model.Node{}
	for _, n := range s.Nodes {
		node[n.Name] = n
	}
	claim := map[string]*model.Claim{}
	for _, c := range s.Claims {
		claim[c.Name] = c
	}
	spent := map[string]bool{}
	for _, b := range s.PDBs {
		spent[b.Name] = b.DisruptionsAllowed <= 0
	}
	held := func(n *model.Node) string {
		if n.Annotations[disrupt.DoNotDisrupt] == "true" {
			return "node " + n.Name
		}
		for _, p := range n.Pods {
			if p.DoNotDisrupt == "true" && p.Deleting.IsZero() {
				return "pod " + p.Name
			}
		}
		return ""
	}
	for _, m := range out.Commands {
		x.begun[m.Cause]++
		if !voluntary(m.Cause) {
			continue
		}
		for _, u := range m.Candidates {
			n := node[u.Node.Name]
			if what := held(n); what != "" {
				x.w.fatalf("move %s (%s) of node %s is begun though %s is not to be disrupted", m.ID, m.Cause, n.Name, what)
			}
			for _, p := range n.Pods {
				if m.Cause != plan.Empty && p.Deleting.IsZero() && spent[p.Class.Labels["app"]] {
					x.w.fatalf("move %s (%s) of node %s is begun though the budget of pod %s allows nothing", m.ID, m.Cause, n.Name, p.Name)
				}
			}
		}
	}
	for _, a := range out.Actions {
		d, ok := a.(plan.DeleteClaim)
		if !ok || !voluntary(d.Why.Code) {
			continue
		}
		c := claim[d.Claim]
		for _, n := range s.Nodes {
			if c == nil || n.ProviderID == "" || n.ProviderID != c.ProviderID {
				continue
			}
			if what := held(n); what != "" {
				x.w.fatalf("claim %s is deleted (%s) though %s is not to be disrupted", d.Claim, d.Why.Code, what)
			}
		}
	}
}

// did holds what is done against the world as it is: a pod that says not to be disrupted is not asked to go, none is deleted past its
// budget, and no more machines than the pool's budget allows are on their way out by our own will.
func (x *watchman) did(a plan.Action) {
	w := x.w
	switch a := a.(type) {
	case plan.Evict:
		p := w.Pods[model.PodKey(a.Namespace, a.Pod)]
		if p == nil || p.UID != a.UID {
			return
		}
		if p.DoNotDisrupt == "true" {
			w.fatalf("pod %s is evicted though it is not to be disrupted", p.Name)
		}
		if !w.MayEvict(p) {
			x.refused++
		}
	case plan.DeletePod:
		w.fatalf("pod %s is deleted and not evicted, and nothing forces it", a.Pod)
	case plan.DeleteClaim:
		if c := w.Claims[a.Claim]; c != nil && c.UID == a.UID && voluntary(a.Why.Code) {
			x.gone[c.UID] = true
		}
	}
}

// count is how many machines are on their way out by our own will: their claims deleted for a voluntary cause, or their nodes closed for
// one. Those whose machine is being ended are out.
func (x *watchman) count() {
	n := 0
	var names []string
	for _, k := range slices.Sorted(maps.Keys(x.w.Claims)) {
		c := x.w.Claims[k]
		if !c.Is(lifecycle.Initialized) || c.Is(lifecycle.Terminating) {
			continue
		}
		going := x.gone[c.UID]
		if m := x.w.Machines[c.UID]; m != nil && c.Deleting.IsZero() && voluntary(plan.Code(c.Conditions[lifecycle.Disrupted].Reason)) {
			node := x.w.Nodes[m.Node]
			going = going || node != nil && slices.Contains(node.Taints, disrupt.DisruptedTaint)
		}
		if going {
			n++
			names = append(names, k)
		}
	}
	x.saw = max(x.saw, n)
	if x.budget >= 0 && int64(n) > x.budget {
		x.w.fatalf("%d machines are on their way out, %s; the budget allows %d", n, strings.Join(names, " "), x.budget)
	}
}

// TestNothingIsViolated lets everything go wrong while machines are consolidated and drift: whatever is decided on, done in part, lost or
// late, the pool's budget, PodDisruptionBudgets and do-not-disrupt hold at every moment.
func TestNothingIsViolated(t *testing.T) {
	t.Parallel()
	begun, refused, most := map[plan.Code]int{}, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.BackOff = 10 * time.Second
		w.pool().Hash = "one"
		w.pool().ConsolidateAfter = time.Duration(rapid.SampledFrom([]int{0, 2, 10}).Draw(t, "consolidateAfter")) * time.Second
		w.pool().ConsolidationPolicy = "WhenEmptyOrUnderutilized"
		budget := rapid.SampledFrom([]int64{-1, 0, 1, 1, 2, 3}).Draw(t, "budget")
		if budget >= 0 {
			w.pool().Budgets = []model.Budget{{Nodes: budget}}
		}
		for _, l := range w.Workloads {
			switch rapid.IntRange(0, 3).Draw(t, "guarded") {
			case 1:
				l.Guarded, l.MinHealthy = true, max(0, l.Want-1)
			case 2:
				l.Guarded, l.MinHealthy = true, l.Want/2
			}
			l.Hold = rapid.SampledFrom([]string{"", "", "", "true"}).Draw(t, "do not disrupt")
		}
		w.SetPool(w.pool())
		x := keepWatch(w, budget)
		w.wild()
		for range rapid.IntRange(20, 120).Draw(t, "wild ticks") {
			switch rapid.IntRange(0, 39).Draw(t, "somebody") {
			case 38:
				p := *w.pool()
				p.Hash += "+"
				w.SetPool(&p)
				w.say("the pool's template is another")
			case 39:
				if len(w.Nodes) > 0 {
					n := *w.Nodes[rapid.SampledFrom(slices.Sorted(maps.Keys(w.Nodes))).Draw(t, "node")]
					n.Annotations = sim.Edited(n.Annotations, map[string]string{disrupt.DoNotDisrupt: rapid.SampledFrom([]string{"true", ""}).Draw(t, "node's do-not-disrupt")})
					w.say("node %s: do-not-disrupt=%q", n.Name, n.Annotations[disrupt.DoNotDisrupt])
					w.SetNode(&n)
				}
			}
			w.Tick()
			x.count()
			w.pause(50, 200, 1000, 5000)
		}
		for c, n := range x.begun {
			begun[c] += n
		}
		refused += x.refused
		most = max(most, x.saw)
	})
	if begun[plan.Underutilized] == 0 || begun[plan.Drifted] == 0 || begun[plan.Empty] == 0 || refused == 0 || most == 0 {
		untested(t, "begun: %v; %d evictions refused, %d machines on their way out at most: nothing was tested", begun, refused, most)
	}
	t.Logf("begun: %v; %d evictions refused, up to %d machines on their way out at once", begun, refused, most)
}

// TestPromisedHomes freezes pods and prices and lets machines move with nothing going wrong: no pod is left without the home that its
// move promised, so nothing is bought again, and each move lowers the bill.
func TestPromisedHomes(t *testing.T) {
	t.Parallel()
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pool().ConsolidateAfter = -1
		w.pool().ConsolidationPolicy = "WhenEmptyOrUnderutilized"
		w.SetPool(w.pool())
		w.settle(3000)
		for _, l := range w.Workloads {
			l.Want = rapid.IntRange(0, l.Want).Draw(t, "left")
		}
		w.settle(3000)
		p := *w.pool()
		p.ConsolidateAfter = time.Duration(rapid.SampledFrom([]int{0, 5, 20}).Draw(t, "consolidateAfter")) * time.Second
		w.SetPool(&p)
		w.say("from here on it is consolidated")
		w.judge = func(_ *model.Snapshot, out *Output) {
			for _, m := range out.Commands {
				if m.Cause == plan.Underutilized {
					moved++
				}
			}
			for _, a := range out.Actions {
				if c, ok := a.(plan.CreateClaim); ok && c.Why.Code == plan.Demand {
					w.fatalf("bought again: %s", describeAction(a))
				}
			}
		}
		before := w.MicroPerHour()
		w.settle(6000)
		if w.MicroPerHour() > before {
			w.fatalf("the bill rises from %d to %d", before, w.MicroPerHour())
		}
		w.putBack()
	})
	if moved == 0 {
		untested(t, "nothing was ever moved: nothing was tested")
	}
	t.Logf("%d moves", moved)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
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

// nodeEdits are what somebody may write on a Node, as the script has it. None is a reason to replace it.
var nodeEdits = []string{
	"label=team:moved", "label=team:", "label=disk:ssd", "label=node.kubernetes.io/instance-type:huge", "label=node.kubernetes.io/instance-type:small",
	"label=karpenter.sh/capacity-type:spot", "label=karpenter.sh/nodepool:q", "label=karpenter.sh/nodepool:none", "label=kubernetes.io/arch:arm64",
	"label=karpenter.sh/initialized:false", "label=karpenter.sh/registered:false", "label=dovetail.sh/nodegroup:other",
	"zone=b", "zone=elsewhere", "taint=agent:NoSchedule", "taint=agent:NoExecute", "taint=team=blue:NoSchedule", "taint=own:PreferNoSchedule",
	"keep", "disabled",
}

// TestEditedNodesStay edits Nodes whose machines have nothing wrong with them: labels that the NodePool sets, requires or
// knows nothing of, labels of the machine and of the lifecycle, taints and annotations. No node is replaced for it, also
// hours later.
func TestEditedNodesStay(test *testing.T) {
	test.Parallel()
	rapid.Check(test, func(t *rapid.T) {
		x := newScript(test)
		var told []string
		line := func(format string, args ...any) {
			told = append(told, fmt.Sprintf(format, args...))
			x.line(strings.Fields(told[len(told)-1]))
		}
		line("pool p after=0s policy=all label=team:blue only=zone:a%s", rapid.SampledFrom([]string{"", " taint=team=blue:NoSchedule", " only=disk:ssd", " replicas=2"}).Draw(t, "pool"))
		line("pool q only=zone:b")
		line("type large cpu=4 mem=16Gi price=0.2")
		line("type small cpu=2 mem=8Gi price=0.15")
		const nodes = 2
		for i := range nodes {
			line("claim c%d pool=p types=large zones=a launched=+0s registered=+0s initialized=+0s consolidatable=+0s label=team:blue label=disk:ssd sold=on-demand,a", i)
			line("node n%d type=large zone=a claim=c%d initialized label=team:blue label=disk:ssd", i, i)
			line("pod a%d cpu=3 on=n%d tolerate=*", i, i)
		}
		check := func(at time.Duration) {
			line("at +%s", at)
			if len(x.last.Commands) > 0 {
				t.Fatalf("%s\nstarts command %v", strings.Join(told, "\n"), x.last.Commands[0].Why)
			}
			for _, a := range x.last.Actions {
				switch a := a.(type) {
				case plan.DeleteClaim, plan.CreateClaim, plan.DeleteNode, plan.Terminate, plan.Evict:
					t.Fatalf("%s\ndecides %s", strings.Join(told, "\n"), describeAction(a))
				case plan.UpdateClaim:
					if a.Conditions[lifecycle.Drifted].True() {
						t.Fatalf("%s\ndecides %s", strings.Join(told, "\n"), describeAction(a))
					}
				}
			}
		}
		check(time.Second)
		for round := range rapid.IntRange(1, 4).Draw(t, "edits") {
			i := rapid.IntRange(0, nodes-1).Draw(t, "node")
			edits := rapid.SliceOfN(rapid.SampledFrom(nodeEdits), 1, 4).Draw(t, "edit")
			line("node n%d type=large zone=a claim=c%d initialized label=team:blue label=disk:ssd %s", i, i, strings.Join(edits, " "))
			hour := time.Duration(round+1) * time.Hour
			check(hour)
			check(hour + time.Second)
			check(hour + 30*time.Minute)
		}
	})
}

// flapper edits a NodePool again and again: its template, or its requirements.
type flapper struct {
	values       int             // of the edited field, in turns
	requirements bool            // it edits these
	periods      []time.Duration // between two edits, in turns
	edits        int
}

// drawFlapper draws one, of which no period is longer than most.
func drawFlapper(t *rapid.T, most time.Duration) *flapper {
	return &flapper{values: rapid.IntRange(2, 4).Draw(t, "values"), requirements: rapid.Bool().Draw(t, "requirements"),
		periods: rapid.SliceOfN(rapid.Map(rapid.IntRange(5, int(most.Seconds())), func(s int) time.Duration { return time.Duration(s) * time.Second }), 1, 4).Draw(t, "periods")}
}

// edit edits the world's NodePool, and returns when the next edit is due.
func (f *flapper) edit(w *world) time.Time {
	f.edits++
	w.editPool(func(p *model.NodePool) {
		if f.requirements {
			zone := []string{"a", "b"}[f.edits%2]
			p.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, "p"), model.OneOf(model.LabelZone, zone))
		} else {
			p.Hash = fmt.Sprint("r", f.edits%f.values)
		}
	})
	return w.Now.Add(f.periods[f.edits%len(f.periods)])
}

// playFlapper lets a NodePool be edited for so long, and returns what was exceeded; empty: nothing. The first time nodes drift they may
// be replaced at once, the second time after a minute, then after two and so on: each time all nodes that there are.
func playFlapper(t *rapid.T, f *flapper, long time.Duration, forgetful bool) string {
	w := newWorld(t, false)
	w.keeps = true
	c := model.Class{Namespace: "default", Labels: model.Labels{"app": "w0"}, Scheduler: model.DefaultScheduler, Requests: model.Resources{1500, 128 << 20, 0, 1}}
	w.Workloads = []*sim.Workload{{Name: "w0", Class: classOf(c), Want: rapid.IntRange(1, 3).Draw(t, "pods"), Grace: time.Second}}
	w.editPool(func(p *model.NodePool) { p.Hash = "r0" })
	w.settle(3000)
	w.wild(sim.WatchLags, sim.SlowCall, sim.Crash, sim.AnswerLost)
	replaced, nodes := 0, 0
	w.did = func(a plan.Action) {
		if d, ok := a.(plan.DeleteClaim); ok && d.Why.Code == plan.Drifted {
			replaced++
		}
	}
	tick := func(most time.Duration) {
		w.Tick()
		if forgetful {
			w.mem.drift, w.learned = driftMemory{}, nil
		}
		nodes = max(nodes, len(w.Claims))
		step := time.Second
		if w.Controller.IsQuiet() && !w.Controller.Next.IsZero() {
			step = max(step, min(w.Controller.Next.Sub(w.Now), most, time.Minute))
		}
		w.Now = w.Now.Add(step)
	}
	began, next := w.Now, w.Now
	for w.Now.Before(began.Add(long)) {
		if !w.Now.Before(next) {
			next = f.edit(w)
		}
		tick(next.Sub(w.Now))
	}
	drifts := 1
	for at, rest := time.Duration(0), firstDriftRest; at < long; rest = min(2*rest, longestDriftRest) {
		drifts++
		at += rest
	}
	if most := nodes * drifts; replaced > most {
		return fmt.Sprintf("%d nodes were replaced for drift in %s, of %d at a time, want at most %d", replaced, long, nodes, most)
	}
	if forgetful {
		return ""
	}
	for end := w.Now.Add(longestDriftRest + 10*time.Minute); w.Now.Before(end); {
		tick(time.Minute)
	}
	for name, c := range w.Claims {
		if c.Is(lifecycle.Drifted) || !f.requirements && c.Annotations[hashAnnotation] != w.pool().Hash {
			w.fatalf("claim %s is drifted %s after the last edit", name, w.Now.Sub(next))
		}
	}
	return ""
}

// TestFlappingTemplate has something edit a NodePool back and forth, in periods of seconds to an hour: nodes are replaced for it less and less
// often. When it stops, all nodes are what the NodePool asks for within an hour.
func TestFlappingTemplate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]time.Duration{20 * time.Second, 3 * time.Minute, 70 * time.Minute}).Draw(t, "longest period")
		long := map[time.Duration]time.Duration{20 * time.Second: 5 * time.Minute, 3 * time.Minute: 30 * time.Minute, 70 * time.Minute: 3 * time.Hour}[most]
		if s := playFlapper(t, drawFlapper(t, most), long, false); s != "" {
			t.Fatal(s)
		}
	})
}

// TestFlappingIsFound plays the same where nothing is remembered of drift: TestFlappingTemplate would find it.
func TestFlappingIsFound(t *testing.T) {
	t.Parallel()
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		if found == 0 && playFlapper(t, drawFlapper(t, 40*time.Second), 20*time.Minute, true) != "" {
			found++
		}
	})
	if found == 0 {
		t.Error("no bound was exceeded")
	}
}

// A node group that can't be used at present offers nothing, which is no reason to replace its nodes.
func TestNodesOfUnusableGroups(t *testing.T) {
	pool := &model.NodePool{Name: "p", Types: []*model.InstanceType{{Name: "other"}}}
	for group, want := range map[string]bool{"": true, "web": false} {
		labels := model.Labels{model.LabelInstanceType: "gone"}
		if group != "" {
			labels[model.LabelNodeGroup] = group
		}
		if got := isNotOffered(&disrupt.Candidate{Pool: pool, PriceMicro: -1, Claim: &model.Claim{Labels: labels}}); got != want {
			t.Errorf("a node of group %q has drifted: %t, want %t", group, got, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/sim/adversary"
)

// staticOwner is the owner of launches for a NodePool with a fixed number of nodes.
const staticOwner = "uid-s"

// teamLabel keeps nodes of the victims apart from those of the others.
const teamLabel = "team"

// foe returns the adversary of a world that has one.
func (w *world) foe() *adversary.Adversary { return w.Faults.Adversary.(*adversary.Adversary) }

// drawAdversary draws a world with an adversary: some workloads are its victims, the others are honest.
func drawAdversary(t *rapid.T) *world {
	w := newWorld(t, false)
	for len(w.Workloads) < 3 {
		c := *w.Workloads[0].Class
		name := fmt.Sprint("w", len(w.Workloads))
		c.Labels = model.Labels{"app": name}
		c.Spread, c.Affinity, c.AntiAffinity, c.PreferredAntiAffinity = nil, nil, nil, nil // they select the pods of another
		w.Workloads = append(w.Workloads, &sim.Workload{Name: name, Class: classOf(c), Grace: time.Second})
	}
	w.pool().ConsolidateAfter, w.pool().ConsolidationPolicy = 30*time.Second, "WhenEmpty"
	teams := model.OneOf(teamLabel, "honest", "victim", "held")
	w.pool().Requirements = w.pool().Requirements.With(teams)
	w.SetPool(w.pool())
	w.keeps = true
	w.wild(sim.WatchLags, sim.SlowCall, sim.Crash, sim.AnswerLost, sim.NotStored)
	if !rapid.Bool().Draw(t, "crashes") {
		w.Faults.Odds[sim.Crash] = 0
	}
	w.countWrites()
	a := adversary.New(epoch)
	a.UsedAfter, w.Faults.Adversary = unused.CapacityUse, a
	drawKind := func() adversary.Adversity {
		return adversary.Adversity(rapid.IntRange(0, int(adversary.Adversities)-1).Draw(t, "adversity"))
	}
	for i, l := range w.Workloads {
		l.Want, l.Stateful = rapid.IntRange(1, 6).Draw(t, "replicas"), false
		c, team := *l.Class, "honest"
		if i < 2 {
			team = "victim"
		}
		c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(teamLabel, team))}} // each on nodes of its own
		if i < 2 {
			a.Victims["uid-"+l.Name] = drawKind()
			if a.Victims["uid-"+l.Name] == adversary.KeepsDriversOut && len(c.Volumes) == 0 {
				c.Volumes = w.drawVolumes(l.Name)
			}
		}
		l.Class = classOf(c)
	}
	if a.Victims["uid-w0"] == adversary.InterruptsOffering || a.Victims["uid-w1"] == adversary.InterruptsOffering { // they share nodes
		a.Victims["uid-w0"], a.Victims["uid-w1"] = adversary.InterruptsOffering, adversary.InterruptsOffering
	}
	beside := func(name string, replicas int64, team model.Requirement) {
		p := *w.pool()
		p.Name, p.UID, p.Replicas = name, "uid-"+name, replicas
		p.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, name), team)
		w.SetPool(&p)
	}
	if rapid.IntRange(0, 3).Draw(t, "a pool is refused") == 0 { // another would do, which is taken later
		p := *w.pool()
		p.Weight = 50
		w.SetPool(&p)
		a.Pool = "p"
		beside("q", -1, teams)
		w.NodePools[1].Weight = 0
	}
	if rapid.IntRange(0, 3).Draw(t, "a static pool") == 0 {
		beside("s", int64(rapid.IntRange(1, 3).Draw(t, "its nodes")), model.OneOf(teamLabel, "static"))
		a.Victims[staticOwner] = drawKind()
	}
	if rapid.IntRange(0, 3).Draw(t, "a buffer") == 0 {
		like := classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "held"}, Scheduler: model.DefaultScheduler, Priority: model.VirtualPriority,
			Requests: model.Resources{1500, 128 << 20, 0, 1}, Terms: []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(teamLabel, "held"))}}})
		b := &model.Buffer{Namespace: "default", Name: "held", UID: "uid-held", Created: epoch, MaxHourMicro: -1, Total: -1,
			Replicas: rapid.IntRange(1, 4).Draw(t, "its pods"), Ready: model.Condition{Status: "True", Reason: "Resolved"}}
		b.Like = &model.Pod{Namespace: "default", Class: like, Expected: true, Buffer: b.Key()}
		w.SetBuffer(b)
		a.Victims[adversary.HeldForBuffers] = drawKind()
	}
	if rapid.IntRange(0, 3).Draw(t, "rests") == 0 {
		a.Pause = rapid.SampledFrom([]time.Duration{90 * time.Second, 10 * time.Minute, 40 * time.Minute}).Draw(t, "pause")
	}
	return w
}

// honestWait is how long a pod that nobody is against may wait once its CSI driver is registered: its node boots in four seconds, and watches and calls lag.
const honestWait = 2 * time.Minute

// mostWait is how long a pod that nobody is against may wait.
func (w *world) mostWait(p *model.Pod) time.Duration {
	wait := honestWait
	for _, d := range w.Drivers {
		if len(p.Class.Volumes) > 0 {
			wait += d.After
		}
	}
	return wait
}

// playAdversary lets a world with an adversary run for so long, honest workloads growing and shrinking, and returns what
// was exceeded; empty: nothing.
func playAdversary(t *rapid.T, w *world, long time.Duration, forgetful bool) string {
	scaled := w.Now
	if forgetful {
		w.Controller.SlotsOf = nil
	}
	for w.Now.Before(epoch.Add(long)) {
		if w.Now.Sub(scaled) > 10*time.Minute {
			scaled = w.Now
			for i, l := range w.Workloads {
				if i >= 2 {
					l.Want = rapid.IntRange(0, 6).Draw(t, "honest replicas")
				}
			}
		}
		w.Tick()
		if forgetful {
			w.mem.unused, w.learned = unused.Memory{Begun: true}, nil
		}
		for _, k := range slices.Sorted(maps.Keys(w.Pods)) {
			p := w.Pods[k]
			if k, victim := w.foe().Victims[p.Owner.UID]; (!victim || k == adversary.InterruptsOffering) && p.Node == "" && p.Deleting.IsZero() && w.Now.Sub(p.Created) > w.mostWait(p) {
				return fmt.Sprintf("pod %s, which an offering is left for, waits for %s", p.Name, w.Now.Sub(p.Created))
			}
		}
		step := time.Second
		if w.Controller.IsQuiet() && !w.Controller.Next.IsZero() {
			step = max(step, min(w.Controller.Next.Sub(w.Now), 20*time.Second))
		}
		w.Now = w.Now.Add(step)
	}
	for by, at := range w.writes {
		if busiest := mostWithin(at, time.Minute); busiest > mostWrites {
			return fmt.Sprintf("node %s was written %d times within a minute", by.node, busiest)
		}
	}
	return unusedBoundExceeded(w, long)
}

// mostWrites is how often a node may be written within a minute: half a dozen times while it joins and goes, and whatever is undone
// a few times and then every half minute.
const mostWrites = 20

// writer is a process that writes a node. The next process does not know what was undone.
type writer struct {
	node     string
	restarts int
}

// countWrites keeps the instants at which each process writes each node.
func (w *world) countWrites() {
	w.writes = map[writer][]time.Time{}
	w.did = func(a plan.Action) {
		if u, ok := a.(plan.UpdateNode); ok {
			by := writer{u.Node, w.restarts}
			w.writes[by] = append(w.writes[by], w.Now)
		}
	}
}

// mostWithin returns how many of these instants, in order, are in one span at most.
func mostWithin(at []time.Time, span time.Duration) (most int) {
	for i := range at {
		n := 0
		for _, t := range at[i:] {
			if t.Sub(at[i]) <= span {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// external are the adversities that neither the pods nor the NodePool can be blamed for.
var external = []adversary.Adversity{adversary.DeletesClaims, adversary.DeletesNodes, adversary.InterruptsMachines, adversary.InterruptsOffering}

// unusedBoundExceeded says which bound on unused launches was exceeded; empty: none. For each owner and NodePool, as long as no pod of it
// runs in between: the nodes of the first wave, at most one a pod, and as many of each wave that others have ended and that is not counted; then one
// at a time: at once or a minute later, and after 10, 20, 40 and each further 60 minutes. Each of its pods that did run may begin this anew, and so may a count
// that was not stored before the controller died.
func unusedBoundExceeded(w *world, long time.Duration) string {
	byOwner, micro := w.foe().Unused(unused.CostOf)
	tries := 1
	for at, rest := time.Duration(0), unused.FirstRest; at < long; rest = min(2*rest, unused.LongestRest) {
		tries++
		at += rest
	}
	pools := 1
	for _, p := range w.NodePools[1:] {
		if p.Replicas < 0 {
			pools++
		}
	}
	total, waves := 0, 1
	for _, k := range w.foe().Victims {
		if slices.Contains(external, k) { // victims share nodes
			waves = 1 + unused.MostExcused
		}
	}
	owners := []string{staticOwner, adversary.HeldForBuffers}
	for _, l := range w.Workloads {
		owners = append(owners, "uid-"+l.Name)
	}
	for _, owner := range owners {
		list := byOwner[owner]
		served := len(w.foe().Ran[owner])
		for _, x := range w.foe().Bought {
			if x.Served && x.Claim != nil && len(x.Claim.Slots) == 0 && slices.Contains(adversary.OwnersOf(x.Claim), owner) {
				served++
			}
		}
		most := pools * (6*waves + tries) * (1 + served + w.uncounted)
		total += most
		if len(list) > most {
			return fmt.Sprintf("%d unused launches for %s within %s, want at most %d", len(list), owner, long, most)
		}
		if n := len(w.foe().Refused[owner]); n > most {
			return fmt.Sprintf("%d NodeClaims for %s were refused within %s, want at most %d", n, owner, long, most)
		}
		if served+w.uncounted > 0 {
			continue
		}
		for i, x := range list { // of any ten minutes, past the first wave
			n := 0
			for _, y := range list[i:] {
				if y.At.Sub(x.At) < unused.FirstRest {
					n++
				}
			}
			if n > pools*(6*waves+1) {
				return fmt.Sprintf("%d unused launches for %s within ten minutes", n, owner)
			}
		}
	}
	// A node that never joins is given up after 15 minutes, one that stands empty after 30 s.
	dearest := w.Types[0].Offerings[0].PriceMicro
	if most := int64(total) * unused.CostOf(dearest, epoch, epoch.Add(20*time.Minute)); micro > most {
		return fmt.Sprintf("%d micro-dollars spent on unused launches, want at most %d", micro, most)
	}
	return ""
}

// TestNoRunaway lets an adversary keep pods from the nodes that are launched for them, in each way that it has: what is
// spent on nodes that no pod of their demand ran on stays below a bound, and pods that it is not against are served.
func TestNoRunaway(t *testing.T) {
	t.Parallel()
	counted := map[string]int{}
	spent, played, interrupted := int64(0), 0, 0
	series := 2 // a check: 100 in go test
	if os.Getenv("DOVETAIL_SOAK") != "" {
		series = 1 // 20,000
	}
	rapid.Check(t, func(t *rapid.T) {
		for range series {
			w := drawAdversary(t)
			if s := playAdversary(t, w, rapid.SampledFrom([]time.Duration{20 * time.Minute, 2 * time.Hour}).Draw(t, "long"), false); s != "" {
				w.fatalf("%s", s)
			}
			byOwner, micro := w.foe().Unused(unused.CostOf)
			spent, played, interrupted = spent+micro, played+1, interrupted+w.foe().Interrupted
			for owner, list := range byOwner {
				counted[owner] += len(list)
			}
			for owner, list := range w.foe().Refused {
				counted["refused "+owner] += len(list)
			}
		}
	})
	t.Logf("%d series, $%s spent on unused launches", played, model.FormatMicro(spent))
	if interrupted == 0 {
		untested(t, "no machine of one offering was interrupted")
	}
	for _, what := range []string{"uid-w0", staticOwner, adversary.HeldForBuffers, "refused uid-w2", "refused " + staticOwner, "refused " + adversary.HeldForBuffers} {
		if counted[what] == 0 {
			untested(t, "no launch was unused: %s", what)
		}
	}
}

// poolRefused has the NodeClaims of a NodePool refused beside what is done to victims.
const poolRefused = adversary.Adversities + 1

// TestRunawayIsFound plays the same where nothing is remembered of unused launches: for each adversity the bound is
// exceeded, so TestNoRunaway would find it.
func TestRunawayIsFound(t *testing.T) {
	t.Parallel()
	for k, name := range map[adversary.Adversity]string{adversary.TaintsNodes: "taints nodes", adversary.KeepsNodesFromJoining: "keeps nodes from joining", adversary.DeletesClaims: "deletes claims",
		adversary.EndsMachines: "ends machines", adversary.ExpiresClaims: "expires claims", adversary.DeletesNodes: "deletes nodes", adversary.InterruptsMachines: "interrupts machines", adversary.RefusesPods: "refuses pods", adversary.RefusesClaims: "refuses claims", adversary.KeepsDriversOut: "keeps drivers out", poolRefused: "refuses the claims of a pool"} {
		t.Run(name, func(t *testing.T) {
			found := 0
			rapid.Check(t, func(t *rapid.T) {
				if found > 0 {
					return
				}
				w := drawAdversary(t)
				if w.foe().Pause = 0; k == poolRefused && w.foe().Pool == "" {
					return
				}
				if k != poolRefused {
					w.foe().Pool = ""
				}
				for owner := range w.foe().Victims {
					w.foe().Victims[owner] = k
				}
				for _, l := range w.Workloads[:2] {
					if c := *l.Class; k == adversary.KeepsDriversOut && len(c.Volumes) == 0 {
						c.Volumes = w.drawVolumes(l.Name)
						l.Class = classOf(c)
					}
				}
				long := 20 * time.Minute
				if k == adversary.KeepsNodesFromJoining || k == adversary.DeletesNodes { // each is given up after 15 minutes
					long = 6 * time.Hour
				}
				if playAdversary(t, w, long, true) != "" {
					found++
				}
			})
			if found == 0 {
				t.Error("no bound was exceeded")
			}
		})
	}
}

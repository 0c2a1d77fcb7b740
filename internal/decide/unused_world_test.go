// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// adversary keeps pods of some workloads, its victims, from every node that is launched for them alone.
type adversary struct {
	victims map[string]adversity // by uid of the owner
	pause   time.Duration        // of every so long it does nothing for the first half; 0: it never rests
	pool    string               // a NodePool whose NodeClaims are all refused; empty: none
	now     time.Time
	bought  map[string]*launched       // by claim uid
	refused map[string][]time.Time     // by owner: NodeClaims that were refused
	madeFor map[string][]string        // by claim uid: the owners that it was launched for; others may have joined
	ran     map[string]map[string]bool // by owner: its pods that have run, by uid
	crashes int
	forgets bool // nothing is remembered of launches
}

// Owners of launches for no pod: a NodePool with a fixed number of nodes, and a CapacityBuffer.
const (
	staticOwner  = "uid-s"
	heldByBuffer = "capacitybuffer/default/held"
)

// ownersOf lists whom a claim is launched for.
func ownersOf(slots []model.Slot, pool, notReserved string) (out []string) {
	for _, s := range slots {
		if !slices.Contains(out, s.Owner) {
			out = append(out, s.Owner)
		}
	}
	switch {
	case len(out) > 0:
	case notReserved == string(plan.Static):
		out = []string{"uid-" + pool}
	case notReserved == string(plan.HeldForBuffer):
		out = []string{heldByBuffer}
	}
	return out
}

func ownersOfClaim(c *model.Claim) []string { return ownersOf(c.Slots, c.Pool, c.NoReserve) }

// adversity is what the adversary does.
type adversity int

const (
	taintsNodes adversity = iota
	refusesClaims
	keepsNodesFromJoining
	deletesClaims
	deletesNodes
	endsMachines
	refusesPods
	expiresClaims
	editsLabels // beside what each does: no harm to launches
	adversities
)

// teamLabel keeps nodes of the victims apart from those of the others.
const teamLabel = "team"

// launched is a node that was launched, and what came of it.
type launched struct {
	claim  *model.Claim
	at     time.Time
	micro  int64
	until  time.Time // when its machine ended; zero: it runs
	served bool
}

// kind returns what is done about a launch for these owners; false: nothing.
func (a *adversary) kind(owners []string) (adversity, bool) {
	if a == nil || len(owners) == 0 || a.rests() {
		return 0, false
	}
	for _, o := range owners {
		if _, ok := a.victims[o]; !ok {
			return 0, false
		}
	}
	return a.victims[owners[0]], true
}

// rests reports whether the adversary does nothing now.
func (a *adversary) rests() bool {
	return a.pause > 0 && a.now.Sub(epoch)%a.pause < a.pause/2
}

// refusesClaim reports whether a NodeClaim is refused, and counts it.
func (a *adversary) refusesClaim(c plan.CreateClaim) bool {
	if a == nil {
		return false
	}
	owners := ownersOf(c.Slots, c.Pool.Name, string(c.NoReserve.Code))
	k, ok := a.kind(owners)
	if !(ok && k == refusesClaims) && (c.Pool.Name != a.pool || a.rests()) {
		return false
	}
	for _, o := range owners {
		a.refused[o] = append(a.refused[o], a.now)
	}
	return true
}

func (a *adversary) keepsFromJoining(c *model.Claim) bool {
	k, ok := a.kind(ownersOfClaim(c))
	return ok && k == keepsNodesFromJoining
}

func (a *adversary) claimMade(w *world, c plan.CreateClaim) {
	if a == nil {
		return
	}
	owners := ownersOf(c.Slots, c.Pool.Name, string(c.NoReserve.Code))
	a.madeFor[w.claims[c.Name].UID] = owners
	if k, ok := a.kind(owners); ok && k == expiresClaims {
		x := *w.claims[c.Name]
		x.ExpireAfter = 2 * time.Second
		w.setClaim(&x)
	}
}

// refusesPod reports whether kube-scheduler, and admission, keep a pod from a node.
func (a *adversary) refusesPod(w *world, p *model.Pod, node string) bool {
	if a == nil || a.rests() {
		return false
	}
	k, ok := a.victims[p.Owner.UID]
	return ok && k == refusesPods
}

// act does what the adversary does to objects.
func (a *adversary) act(w *world) {
	if a == nil {
		return
	}
	a.now = w.now
	for _, name := range sortedKeys(w.claims) {
		c := w.claims[name]
		m := w.machines[c.UID]
		if m == nil {
			continue
		}
		k, ok := a.kind(ownersOfClaim(c))
		n := w.nodes[m.node]
		switch {
		case !ok || !c.Deleting.IsZero():
		case k == deletesClaims && !c.Is(lifecycle.Initialized):
			w.say("the adversary deletes claim %s", c.Name)
			w.deleteClaim(c)
		case k == endsMachines && !m.gone && !c.Is(lifecycle.Initialized):
			m.gone = true
		case k == deletesNodes && n != nil && n.Deleting.IsZero() && !a.isServing(w, n.Name):
			w.say("the adversary deletes node %s", n.Name)
			w.deleteNode(n)
		case k == taintsNodes && n != nil && !n.HasTaint("agent"):
			x := *n
			x.Taints = append(slices.Clone(n.Taints), model.Taint{Key: "agent", Value: "no", Effect: model.NoSchedule})
			w.setNode(&x)
		case k == editsLabels && n != nil && n.Labels["agent"] == "":
			x := *n
			x.Labels = edited(n.Labels, map[string]string{"agent": "moved"})
			w.setNode(&x)
		}
		if ok || !a.rests() {
			continue
		}
		if n != nil && n.HasTaint("agent") { // the agent is repaired
			x := *n
			x.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t.Key == "agent" })
			w.setNode(&x)
		}
	}
	for _, p := range w.pods {
		if p.Node != "" {
			if a.ran[p.Owner.UID] == nil {
				a.ran[p.Owner.UID] = map[string]bool{}
			}
			a.ran[p.Owner.UID][p.UID] = true
		}
	}
	for _, uid := range sortedKeys(w.machines) {
		m := w.machines[uid]
		x := a.bought[uid]
		if x == nil {
			x = &launched{at: m.launched, micro: m.typ.Offerings[0].PriceMicro, claim: w.claims[m.claimName]}
			a.bought[uid] = x
		}
		if c := w.claims[m.claimName]; c != nil && c.UID == uid {
			x.claim = c
		}
		if m.gone && x.until.IsZero() {
			x.until = w.now
		}
		x.served = x.served || m.node != "" && a.isServing(w, m.node)
		if c := w.claims[m.claimName]; c != nil && c.UID == uid && len(c.Slots) == 0 && x.until.IsZero() {
			init := c.Conditions[lifecycle.Initialized]
			n := w.nodes[m.node]
			usable := init.True() && n != nil && (c.NoReserve != string(plan.HeldForBuffer) || !n.HasTaint("agent"))
			x.served = x.served || usable && !w.now.Before(init.Since.Add(capacityUse))
		}
	}
}

// isServing reports whether a pod runs on a node.
func (a *adversary) isServing(w *world, node string) bool {
	for _, p := range w.pods {
		if p.Node == node {
			return true
		}
	}
	return false
}

// unused returns how many launches no pod ran on, by the owner that they were made for, and what they cost.
func (a *adversary) unused(now time.Time) (byOwner map[string][]*launched, micro int64) {
	byOwner = map[string][]*launched{}
	for _, uid := range sortedKeys(a.bought) {
		x := a.bought[uid]
		if x.served || x.claim == nil {
			continue
		}
		end := x.until
		if end.IsZero() {
			end = now
		}
		micro += costOf(x.micro, x.at, end)
		for _, o := range a.madeFor[x.claim.UID] {
			byOwner[o] = append(byOwner[o], x)
		}
	}
	for _, list := range byOwner {
		slices.SortFunc(list, func(x, y *launched) int { return x.at.Compare(y.at) })
	}
	return byOwner, micro
}

// drawAdversary draws a world with an adversary: some workloads are its victims, the others are honest.
func drawAdversary(t *rapid.T) *world {
	w := newWorld(t, false)
	for len(w.workloads) < 3 {
		c := *w.workloads[0].class
		name := fmt.Sprint("w", len(w.workloads))
		c.Labels = model.Labels{"app": name}
		c.Spread, c.AntiAffinity = nil, nil
		w.workloads = append(w.workloads, &workload{name: name, class: classOf(c)})
	}
	w.pool.ConsolidateAfter, w.pool.ConsolidationPolicy = 30*time.Second, "WhenEmpty"
	teams := model.OneOf(teamLabel, "honest", "victim", "held")
	w.pool.Requirements = w.pool.Requirements.With(teams)
	w.st.Pools.SetPool(w.pool)
	w.keeps, w.wild = true, true
	w.only = map[string]bool{"watch lags": true, "slow call": true, "crash": rapid.Bool().Draw(t, "crashes"), "answer lost": true, "what is learned is not stored": true}
	w.adversary = &adversary{victims: map[string]adversity{}, bought: map[string]*launched{}, refused: map[string][]time.Time{}, madeFor: map[string][]string{}, ran: map[string]map[string]bool{}, now: w.now}
	drawKind := func() adversity { return adversity(rapid.IntRange(0, int(adversities)-1).Draw(t, "adversity")) }
	for i, l := range w.workloads {
		l.want, l.stateful = rapid.IntRange(1, 6).Draw(t, "replicas"), false
		c, team := *l.class, "honest"
		if i < 2 {
			team = "victim"
		}
		c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(teamLabel, team))}} // each on nodes of its own
		l.class = classOf(c)
		if i < 2 {
			w.adversary.victims["uid-"+l.name] = drawKind()
		}
	}
	beside := func(name string, replicas int64, team model.Requirement) {
		p := *w.pool
		p.Name, p.UID, p.Replicas = name, "uid-"+name, replicas
		p.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, name), team)
		w.others = append(w.others, &p)
		w.st.Pools.SetPool(&p)
	}
	if rapid.IntRange(0, 3).Draw(t, "a pool is refused") == 0 { // another would do, which is taken later
		p := *w.pool
		p.Weight = 50
		w.pool = &p
		w.st.Pools.SetPool(w.pool)
		w.adversary.pool = "p"
		beside("q", -1, teams)
		w.others[0].Weight = 0
	}
	if rapid.IntRange(0, 3).Draw(t, "a static pool") == 0 {
		beside("s", int64(rapid.IntRange(1, 3).Draw(t, "its nodes")), model.OneOf(teamLabel, "static"))
		w.adversary.victims[staticOwner] = drawKind()
	}
	if rapid.IntRange(0, 3).Draw(t, "a buffer") == 0 {
		like := classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "held"}, Scheduler: model.DefaultScheduler, Priority: model.VirtualPriority,
			Requests: model.Resources{1500, 128 << 20, 0, 1}, Terms: []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(teamLabel, "held"))}}})
		b := &model.Buffer{Namespace: "default", Name: "held", UID: "uid-held", Created: epoch, MaxHourMicro: -1, Total: -1,
			Replicas: rapid.IntRange(1, 4).Draw(t, "its pods"), Ready: model.Condition{Status: "True", Reason: "Resolved"}}
		b.Like = &model.Pod{Namespace: "default", Class: like, Expected: true, Buffer: b.Key()}
		w.buffers = append(w.buffers, b)
		w.st.SetBuffer(b, 1)
		w.adversary.victims[heldByBuffer] = drawKind()
	}
	if rapid.IntRange(0, 3).Draw(t, "rests") == 0 {
		w.adversary.pause = rapid.SampledFrom([]time.Duration{90 * time.Second, 10 * time.Minute, 40 * time.Minute}).Draw(t, "pause")
	}
	return w
}

// honestWait is how long a pod that nobody is against may wait: its node boots in four seconds, and watches and calls lag.
const honestWait = 2 * time.Minute

// playAdversary lets a world with an adversary run for so long, honest workloads growing and shrinking, and returns what
// was exceeded; empty: nothing.
func playAdversary(t *rapid.T, w *world, long time.Duration, forgetful bool) string {
	scaled := w.now
	w.adversary.forgets = forgetful
	for w.now.Before(epoch.Add(long)) {
		if w.now.Sub(scaled) > 10*time.Minute {
			scaled = w.now
			for i, l := range w.workloads {
				if i >= 2 {
					l.want = rapid.IntRange(0, 6).Draw(t, "honest replicas")
				}
			}
		}
		began := w.mem.unused.begun
		w.tick()
		if began && !w.mem.unused.begun {
			w.adversary.crashes++
		}
		if forgetful {
			w.mem.unused, w.learned = unusedLaunchMemory{begun: true}, nil
		}
		for _, k := range sortedKeys(w.pods) {
			p := w.pods[k]
			if _, victim := w.adversary.victims[p.Owner.UID]; !victim && p.Node == "" && p.Deleting.IsZero() && w.now.Sub(p.Created) > honestWait {
				return fmt.Sprintf("pod %s, which nobody is against, waits for %s", p.Name, w.now.Sub(p.Created))
			}
		}
		step := time.Second
		if w.quiet() && !w.next.IsZero() {
			step = max(step, min(w.next.Sub(w.now), 20*time.Second))
		}
		w.now = w.now.Add(step)
	}
	return unusedBoundExceeded(w, long)
}

// unusedBoundExceeded says which bound on unused launches was exceeded; empty: none. For each owner and NodePool, as long as no pod of it
// runs in between: the nodes of the first wave, at most one a pod, then one at a time: at once or a minute later, and
// after 10, 20, 40 and each further 60 minutes. Each of its pods that did run may begin this anew, and so may a count
// that was not stored before the controller died.
func unusedBoundExceeded(w *world, long time.Duration) string {
	byOwner, micro := w.adversary.unused(w.now)
	tries := 1
	for at, rest := time.Duration(0), firstRest; at < long; rest = min(2*rest, longestRest) {
		tries++
		at += rest
	}
	pools := 1
	for _, p := range w.others {
		if p.Replicas < 0 {
			pools++
		}
	}
	total := 0
	owners := []string{staticOwner, heldByBuffer}
	for _, l := range w.workloads {
		owners = append(owners, "uid-"+l.name)
	}
	for _, owner := range owners {
		list := byOwner[owner]
		served := len(w.adversary.ran[owner])
		for _, x := range w.adversary.bought {
			if x.served && x.claim != nil && len(x.claim.Slots) == 0 && slices.Contains(ownersOfClaim(x.claim), owner) {
				served++
			}
		}
		most := pools * (6 + tries) * (1 + served + w.adversary.crashes)
		total += most
		if len(list) > most {
			return fmt.Sprintf("%d unused launches for %s within %s, want at most %d", len(list), owner, long, most)
		}
		if n := len(w.adversary.refused[owner]); n > most {
			return fmt.Sprintf("%d NodeClaims for %s were refused within %s, want at most %d", n, owner, long, most)
		}
		if served+w.adversary.crashes > 0 {
			continue
		}
		for i, x := range list { // of any ten minutes, past the first wave
			n := 0
			for _, y := range list[i:] {
				if y.at.Sub(x.at) < firstRest {
					n++
				}
			}
			if n > pools*(6+1) {
				return fmt.Sprintf("%d unused launches for %s within ten minutes", n, owner)
			}
		}
	}
	// A node that never joins is given up after 15 minutes, one that stands empty after 30 s.
	dearest := w.types[0].Offerings[0].PriceMicro
	if most := int64(total) * costOf(dearest, epoch, epoch.Add(20*time.Minute)); micro > most {
		return fmt.Sprintf("%d micro-dollars spent on unused launches, want at most %d", micro, most)
	}
	return ""
}

// TestNoRunaway lets an adversary keep pods from the nodes that are launched for them, in each way that it has: what is
// spent on nodes that no pod of their demand ran on stays below a bound, and pods that it is not against are served.
func TestNoRunaway(t *testing.T) {
	t.Parallel()
	unused := map[string]int{}
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
			byOwner, _ := w.adversary.unused(w.now)
			for owner, list := range byOwner {
				unused[owner] += len(list)
			}
			for owner, list := range w.adversary.refused {
				unused["refused "+owner] += len(list)
			}
		}
	})
	for _, what := range []string{"uid-w0", staticOwner, heldByBuffer, "refused uid-w2", "refused " + staticOwner, "refused " + heldByBuffer} {
		if unused[what] == 0 {
			t.Errorf("no launch was unused: %s", what)
		}
	}
}

// poolRefused has the NodeClaims of a NodePool refused beside what is done to victims.
const poolRefused = adversities + 1

// TestRunawayIsFound plays the same where nothing is remembered of unused launches: for each adversity the bound is
// exceeded, so TestNoRunaway would find it.
func TestRunawayIsFound(t *testing.T) {
	t.Parallel()
	for k, name := range map[adversity]string{taintsNodes: "taints nodes", keepsNodesFromJoining: "keeps nodes from joining", deletesClaims: "deletes claims",
		endsMachines: "ends machines", expiresClaims: "expires claims", deletesNodes: "deletes nodes", refusesPods: "refuses pods", refusesClaims: "refuses claims", poolRefused: "refuses the claims of a pool"} {
		t.Run(name, func(t *testing.T) {
			found := 0
			rapid.Check(t, func(t *rapid.T) {
				if found > 0 {
					return
				}
				w := drawAdversary(t)
				if w.adversary.pause = 0; k == poolRefused && w.adversary.pool == "" {
					return
				}
				if k != poolRefused {
					w.adversary.pool = ""
				}
				for owner := range w.adversary.victims {
					w.adversary.victims[owner] = k
				}
				long := 20 * time.Minute
				if k == keepsNodesFromJoining || k == deletesNodes { // each is given up after 15 minutes
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// SecondOpinion is what the controller asks about a plan before it does anything (contract 2).
var SecondOpinion func(*model.Snapshot, *Output) ([]RefusedBinding, error)

// world is a small cluster whose nodes Step sees to. It has no luck but what rapid draws, and looks at every tick at what
// holds at every moment.
type world struct {
	*sim.Cluster
	t   *rapid.T
	mem Memory
	pol Policy

	before    func(*model.Snapshot)          // looks at what each decision is to be made on
	judge     func(*model.Snapshot, *Output) // looks at each decision
	did       func(plan.Action)              // and at each thing done, before its effect
	rebooted  func(node string)
	preempted func(*model.Pod) // is told of each pod that the scheduler deletes for another

	keeps   bool             // what Step has learned outlives the controller
	learned *LearnedCapacity // as it was stored last

	sickly    bool                   // kubelets die, for good: where more do than may be repaired at once, they stay as they are
	loose     bool                   // some pods tolerate every taint, or have no controller
	refused   int                    // bindings that verify was against
	created   int                    // claims ever made
	launches  map[string]int         // by claim uid: machines ever bought
	writes    map[writer][]time.Time // when each node was written; nil: not counted
	restarts  int                    // of the controller
	replacing map[plan.CommandID]int // how many replacements each disruption command that was decided has
	replaced  map[plan.CommandID]int // and how many were created
	uncounted int                    // restarts: each may have lost a count that was not stored
	mostMicro int64                  // the dearest that claims under a limit were together
	history   []string
}

// newWorld makes an empty cluster with workloads that want pods. Loose ones tolerate everything, so that nothing can be kept for or
// from them.
func newWorld(t *rapid.T, loose bool) *world {
	w := &world{Cluster: sim.New(epoch), t: t, launches: map[string]int{}, replacing: map[plan.CommandID]int{}, replaced: map[plan.CommandID]int{}, pol: DefaultPolicy(), loose: loose}
	w.Faults.Luck, w.Observe = w, w.observe
	w.Notices = func(kind string, seen, at time.Time) map[string]string {
		text, err := cluster.Notice{Kind: kind, Seen: seen, At: at}.Text()
		if err != nil {
			w.fatalf("%v", err)
		}
		return map[string]string{cluster.AnnotationInterrupted: text}
	}
	w.pol.Repair = []claims.RepairPolicy{{Condition: "Ready", Status: "False", After: 30 * time.Second}}
	w.pol.Landing.Mode = rapid.SampledFrom([]landing.Mode{landing.Bind, landing.Bind, landing.Tolerate, landing.Off}).Draw(t, "landing")
	for _, d := range []struct {
		name  string
		cpu   int64
		price int64
	}{{"large", 8000, 380_000}, {"medium", 4000, 195_000}, {"small", 2000, 100_000}} {
		x := &model.InstanceType{Name: d.name, Labels: model.Labels{model.LabelInstanceType: d.name},
			Capacity: model.Resources{d.cpu, d.cpu << 22, 0, 20}, Allocatable: model.Resources{d.cpu - 100, d.cpu << 22, 0, 20}}
		for _, z := range []string{"a", "b"} {
			x.Offerings = append(x.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: d.price, Available: true, Remaining: -1})
		}
		w.Types = append(w.Types, x)
	}
	w.SetPool(&model.NodePool{Name: "p", UID: "uid-p", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
		Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p")), Types: w.Types})
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		c := model.Class{Namespace: "default", Labels: model.Labels{"app": fmt.Sprint("w", i)}, Scheduler: model.DefaultScheduler,
			Requests: model.Resources{rapid.SampledFrom([]int64{250, 900, 1500, 3000}).Draw(t, "cpu"), 128 << 20, 0, 1}}
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind of pods"); {
		case kind == 7:
			c.HostPorts = []model.HostPort{{Protocol: "TCP", Port: 8080}}
		case kind == 8:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.Affinity = []model.PodTerm{{TopologyKey: model.LabelZone, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}}}
		case kind == 9:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.PreferredAntiAffinity = []model.WeightedPodTerm{{Weight: 100, Term: model.PodTerm{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}}}}
		case kind == 6:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelHostname, MaxSkew: 1, Hard: true, Selector: &sel}}
		case kind == 1:
			c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "b"))}}
		case kind == 3:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}}}
		case kind == 4:
			sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", i)))
			c.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: &sel}}
			if rapid.Bool().Draw(t, "domains are counted by taints") { // so nothing is reserved for them
				c.Spread[0].HonorTaints, c.Spread[0].MinDomains = true, 2
			}
		case kind == 2 && loose:
			c.Tolerations = []model.Toleration{{Exists: true, Effect: model.NoSchedule}}
		}
		// kube-scheduler counts zones that the volume can't be in, too, so that pods spread over zones would wait for ever.
		if spreadsOverZones := len(c.Spread) > 0 && c.Spread[0].TopologyKey == model.LabelZone; !spreadsOverZones && rapid.IntRange(0, 4).Draw(t, "has a volume") == 4 {
			c.Volumes = w.drawVolumes(fmt.Sprint("w", i))
		}
		w.Workloads = append(w.Workloads, &sim.Workload{Name: fmt.Sprint("w", i), Class: classOf(c), Want: rapid.IntRange(0, 8).Draw(t, "replicas"), Grace: time.Second,
			Stateful: rapid.IntRange(0, 2).Draw(t, "stateful") == 2, Bare: loose && rapid.IntRange(0, 4).Draw(t, "bare") == 4})
	}
	w.Control(w).SlotsOf = unused.LaunchSlots
	return w
}

// drawVolumes returns the volumes of a workload's pods: one that its pods share, in a zone by the label of its driver, which registers on nodes late.
func (w *world) drawVolumes(name string) []model.Volume {
	const driver, label = "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
	if w.Drivers == nil {
		after := rapid.SampledFrom([]int{0, 1, 4, 15, 25, 40, 90, 240}).Draw(w.t, "seconds until drivers register")
		w.Drivers = []sim.Driver{{Name: driver, Label: label, After: time.Duration(after) * time.Second}}
	}
	in := func(key string) []model.Requirements {
		return []model.Requirements{model.NewRequirements(model.OneOf(key, "b"))}
	}
	return []model.Volume{{Claim: "default/" + name, Driver: driver, Handle: "vol-" + name, Topology: in(model.LabelZone), Standing: in(label),
		Registers: rapid.Bool().Draw(w.t, "its driver must be registered")}}
}

// Draw implements sim.Luck.
func (w *world) Draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

// wild has things go wrong: everything, or some faults alone.
func (w *world) wild(only ...sim.Fault) {
	if w.Faults.Odds = sim.Usual(); len(only) > 0 {
		w.Faults.Odds = sim.Only(only...)
	}
	if w.sickly {
		w.Faults.Odds[sim.KubeletDies] = 2
	}
}

// rush draws so many ticks, each after a drawn time.
func (w *world) rush(least, most int, millis ...int) {
	for range rapid.IntRange(least, most).Draw(w.t, "ticks") {
		w.Tick()
		w.pause(millis...)
	}
}

func (w *world) pause(millis ...int) {
	w.Now = w.Now.Add(time.Duration(rapid.SampledFrom(millis).Draw(w.t, "ms")) * time.Millisecond)
}

// pool is the NodePool of every world, and the first.
func (w *world) pool() *model.NodePool { return w.NodePools[0] }

// editPool changes it.
func (w *world) editPool(change func(*model.NodePool)) {
	p := *w.pool()
	change(&p)
	w.SetPool(&p)
}

func (w *world) st() *state.State { return w.Controller.State }

// settle lets the world run without faults until nothing is left to happen.
func (w *world) settle(ticks int) {
	if !w.Settle(ticks) {
		w.fatalf("it does not end\n%s", w.remains())
	}
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("+%s ", w.Now.Sub(epoch))+fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.history, "\n"))
}

// observe takes in what happens.
func (w *world) observe(e sim.Event) {
	switch e.Kind {
	case sim.Decided:
		w.say("decided: %s", describeAction(e.Action))
		return
	case sim.Begun:
		if w.did != nil {
			w.did(e.Action)
		}
		return
	case sim.Changed:
		w.say("node %s: %s", e.Object, describeAction(e.Action))
		return
	case sim.Preempted:
		if w.preempted != nil {
			w.preempted(e.Pod)
		}
	case sim.Rebooted:
		if w.rebooted != nil {
			w.rebooted(e.Object)
		}
	case sim.Created:
		w.created++
		if r, ok := cluster.ReadCommandRecord(e.Action.(plan.CreateClaim).Provisional(w.Now)); ok {
			w.replaced[r.ID]++
		}
	case sim.Launched:
		if w.launches[e.Machine.ClaimUID]++; w.launches[e.Machine.ClaimUID] > 1 {
			w.fatalf("%d machines were bought for claim %s", w.launches[e.Machine.ClaimUID], e.Machine.ClaimUID)
		}
	case sim.Violated:
		w.fatalf("%s: %s", e.Object, e.Text)
	case sim.Overfilled:
		if !w.loose {
			w.fatalf("node %s is overfilled %s", e.Object, e.Text)
		}
	}
	w.say("%s: %s %s", e.Kind, e.Object, e.Text)
}

// Restart implements sim.Decider.
func (w *world) Restart(table *state.ResourceTable) {
	w.restarts++
	if w.mem.unused.Begun {
		w.uncounted++
	}
	if w.mem = (Memory{}); w.learned != nil {
		w.mem = w.mem.WithLearned(*w.learned, table.Dim)
	}
}

// Decide implements sim.Decider. What it decides is verified.
func (w *world) Decide(now time.Time, snap *model.Snapshot, solve bool) ([]plan.Action, time.Time) {
	if w.before != nil {
		w.before(snap)
	}
	req := Request{Solve: solve}
	out, mem := stepTwice(snap, w.mem, now, w.pol, req, w.fatalf)
	refused, err := SecondOpinion(snap, &out)
	if len(refused) > 0 && err == nil {
		again := slices.DeleteFunc(slices.Clone(refused), RefusedBinding.KeepsSlot)
		if !w.loose && len(again) > 0 {
			w.fatalf("verify is against bindings: %v", again)
		}
		w.refused += len(again)
		if req.NotBound = again; len(again) > 0 {
			out, mem = stepTwice(snap, w.mem, now, w.pol, req, w.fatalf)
		}
		if refused, err = SecondOpinion(snap, &out); len(refused) > 0 { // these wait for the next step
			out.Actions = slices.DeleteFunc(out.Actions, func(a plan.Action) bool {
				b, ok := a.(plan.Bind)
				return ok && slices.ContainsFunc(refused, func(r RefusedBinding) bool { return r.Pod == b.UID })
			})
		}
	}
	if err != nil {
		w.fatalf("the plan is refused: %v", err)
	}
	w.mem = mem
	for i := range out.Requests { // as the controller does
		x := &out.Requests[i]
		a := plan.UpdateRequest{Namespace: x.Request.Namespace, Request: x.Request.Name, UID: x.Request.UID, Conditions: x.Conditions, RetryAt: x.RetryAt, Attempts: x.Attempts}
		if _, writes := snap.InFlight[a.Key()]; !writes && x.Differs() {
			out.Actions = append(out.Actions, a)
		}
	}
	if w.keeps && !w.Faults.Happens(sim.NotStored) {
		l := mem.Learned(snap.ResourceNames)
		w.learned = &l
	}
	for _, m := range out.Commands {
		if w.replacing[m.ID] = len(m.Replacements); m.OneForOne {
			w.replacing[m.ID] = len(m.Candidates)
		}
	}
	if w.judge != nil {
		w.judge(snap, &out)
	}
	for _, k := range out.Kept {
		w.say("kept: %s %s %s", k.Node, k.Cause, reason(k.Why))
	}
	w.check()
	return out.Actions, out.Next
}

// check is what holds at every moment.
func (w *world) check() {
	charged := model.Resources{}
	for _, c := range w.Claims {
		if id := cluster.DisruptedBy(c); w.replaced[id] < w.replacing[id] { // the condition alone does not say that there are to be any
			w.fatalf("claim %s is marked for %s, of whose %d replacements %d were created", c.Name, id, w.replacing[id], w.replaced[id])
		}
		most := c.Capacity
		if most.IsZero() {
			for _, t := range w.Types {
				if q := c.Requirements.Get(model.LabelInstanceType); q.Matches(t.Name, true) {
					most = most.Max(t.Capacity)
				}
			}
		}
		if c.Pool == w.pool().Name && !w.gotNoMachine(c) {
			charged = charged.Add(most)
		}
	}
	if p := w.pool(); len(p.HasLimit) > 0 && charged.At(model.CPU) > p.Limits.At(model.CPU) {
		w.fatalf("the pool's limit of %d is exceeded: %d", p.Limits.At(model.CPU), charged.At(model.CPU))
	}
	w.checkLimit(charged)
}

// gotNoMachine reports whether a NodeClaim has no machine, and never gets one because it is being deleted.
func (w *world) gotNoMachine(c *model.Claim) bool {
	return !c.Deleting.IsZero() && w.Machines[c.UID] == nil
}

// checkLimit checks that the limit over the cluster holds, of claims charged with this capacity: nodes, CPU and dollars.
func (w *world) checkLimit(charged model.Resources) {
	l := w.Limit
	if l == nil {
		return
	}
	n := int64(0)
	for _, c := range w.Claims {
		if !w.gotNoMachine(c) {
			n++
		}
	}
	if n > l.Nodes {
		w.fatalf("the limit of %d nodes is exceeded: %d", l.Nodes, n)
	}
	if v := charged.At(model.CPU); v > l.Most.At(model.CPU) {
		w.fatalf("the limit of %d milli-CPU is exceeded: %d", l.Most.At(model.CPU), v)
	}
	micro := int64(0)
	for _, c := range w.Claims {
		if w.gotNoMachine(c) {
			continue
		}
		dearest := int64(0)
		for _, t := range w.Types {
			if q := c.Requirements.Get(model.LabelInstanceType); c.Labels[model.LabelInstanceType] == t.Name || c.Labels[model.LabelInstanceType] == "" && q.Matches(t.Name, true) {
				for _, o := range t.Offerings {
					if q := c.Requirements.Get(model.LabelZone); q == nil || q.Matches(o.Zone, true) {
						dearest = max(dearest, o.PriceMicro)
					}
				}
			}
		}
		micro += dearest
	}
	if w.mostMicro = max(w.mostMicro, micro); micro > l.MicroPerHour {
		w.fatalf("the limit of %d micro-dollars an hour is exceeded: %d", l.MicroPerHour, micro)
	}
}

// untested fails a test whose drawn worlds did not show what the test is about. With -short so few are drawn that this is only logged.
func untested(t *testing.T, format string, args ...any) {
	t.Helper()
	if testing.Short() {
		t.Logf(format, args...)
		return
	}
	t.Errorf(format, args...)
}

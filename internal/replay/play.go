// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const maxFaults = 10

// Play replays a trace under a variant.
func Play(t *Trace, v *Variant) *Result {
	w := &world{Cluster: sim.New(t.From), trace: t, variant: v, meter: newMeter(t.From, t.To), types: map[string][]*model.InstanceType{},
		reasons: map[string]string{}, nodes: map[string]*standing{}, machines: map[string]*sim.Machine{}, refused: map[string]map[string]bool{}}
	w.boots, w.policy = newBoots(t, v.Boot), v.Policy
	w.policy.SearchInterval = max(w.policy.SearchInterval, v.Pace)
	w.Observe, w.Notices, w.Delays = w.observe, notices, w.boots.of
	w.Identify, w.Prefers = w.identities(), w.recordedNode
	w.TypesOf = func(pool string) []*model.InstanceType { return w.types[pool] }
	w.work = newWorkloads(w)
	w.Controllers = w.work
	ends := newTerminations(t)
	w.Termination = func(p *model.Pod) time.Duration { return ends.of(w.work.byUID[p.UID], p) }
	w.begin()
	w.run()
	return w.end()
}

// identities returns what a NodeClaim and its machine are called that was recorded too.
func (w *world) identities() func(string) (uid, providerID, node string) {
	byName := map[string][]*Claim{} // in order of creation: a name may come back, an identity may not
	made := map[string]int{}        // how often a claim of a name was created; what is there at From has been
	for _, x := range w.trace.Claims {
		byName[x.Last.Name] = append(byName[x.Last.Name], x)
		if x.First {
			made[x.Last.Name]++
		}
	}
	return func(claim string) (uid, providerID, node string) {
		if w.Claims[claim] == nil {
			made[claim]++
		}
		if made[claim] > len(byName[claim]) {
			name := fmt.Sprintf("replay-%s-%d", claim, made[claim])
			return name, name, name
		}
		x := byName[claim][made[claim]-1]
		if x.Node != nil {
			node = x.Node.Node.Name
		}
		return x.Last.UID, x.Last.ProviderID, node
	}
}

// decidedAbout returns when the recorded controller decided on what was seen at from, which the replay would decide on at due: an instant at which
// it is known to have acted, if there is one until a moment after due, else due. How long a controller waits for more changes, and for its calls,
// is not recorded.
func (w *world) decidedAbout() func(from, due time.Time) time.Time {
	acted := slices.Clone(w.trace.Marked)
	for _, x := range w.trace.Claims {
		if !x.First {
			acted = append(acted, x.Seen)
		}
		if !x.Deleted.IsZero() {
			acted = append(acted, x.Deleted)
		}
	}
	slices.SortFunc(acted, time.Time.Compare)
	return func(from, due time.Time) time.Time {
		i, _ := slices.BinarySearchFunc(acted, from, time.Time.Compare)
		if i < len(acted) && !acted[i].After(due.Add(sameInstant)) {
			return acted[i]
		}
		return due
	}
}

// recordedNode returns the node on which kube-scheduler had a pod, so that it has it there again.
func (w *world) recordedNode(p *model.Pod) string {
	if s := w.work.byUID[p.UID]; s != nil && s.life.Pod.UID == p.UID {
		return s.life.Node
	}
	return ""
}

func notices(kind string, seen, at time.Time) map[string]string {
	text, err := cluster.Notice{Kind: kind, Seen: seen, At: at}.Text()
	if err != nil {
		return nil // a time that JSON can't hold: nobody is told
	}
	return map[string]string{cluster.AnnotationInterrupted: text}
}

// begin sets up the cluster as it was at From.
func (w *world) begin() {
	w.changePools()
	for _, n := range w.trace.Nodes {
		if n.First && n.Claim != nil {
			w.SetNode(n.Node)
		}
	}
	for _, x := range w.trace.Claims {
		if x.First {
			w.addClaim(x)
		}
	}
	w.work.begin()
	x := w.Control(w)
	x.Batch = sim.UsualBatch
	x.Batch.Calm = w.variant.Pace
	if w.trace.Own && w.variant.Pace == 0 {
		x.DecidesAt = w.decidedAbout()
	}
}

// addClaim adds a NodeClaim that was there at From, with its machine.
func (w *world) addClaim(x *Claim) {
	w.SetClaim(x.Claim)
	if x.Claim.ProviderID == "" {
		return // the controller launches it
	}
	t, o := w.offering(x)
	m := &sim.Machine{ID: x.Claim.ProviderID, ClaimUID: x.Claim.UID, ClaimName: x.Claim.Name, Pool: x.Claim.Pool, Type: t, Offering: o, Launched: model.LaterOf(x.Launched, x.Claim.Created)}
	if n := x.Node; n != nil && n.First {
		m.Node = n.Node.Name
		w.AddMachine(m, "", 0, 0)
		w.joinedAt(m)
		if !n.Node.Ready && !n.Ready.IsZero() {
			name := n.Node.Name
			w.At(n.Ready, func() { w.SetReady(name, true) })
		}
		return
	}
	boot, ready := w.boots.of(x.Claim)
	node := ""
	if x.Node != nil {
		node = x.Node.Node.Name
	}
	w.AddMachine(m, node, max(0, boot-w.Now.Sub(x.Claim.Created)), ready)
}

// offering returns the instance type and the offering of a claim's machine. One that is not in the catalog is free, and is made of what
// the claim says.
func (w *world) offering(x *Claim) (*model.InstanceType, *model.Offering) {
	name, zone, ct := x.Claim.Labels[model.LabelInstanceType], x.Claim.Labels[model.LabelZone], x.Claim.Labels[model.LabelCapacityType]
	for _, types := range [][]*model.InstanceType{w.types[x.Claim.Pool], w.variant.Types} {
		if t, o := findOffering(types, name, zone, ct); o != nil {
			return t, o
		}
	}
	t := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}, Capacity: x.Claim.Capacity, Allocatable: x.Claim.Allocatable,
		Offerings: []model.Offering{{Zone: zone, CapacityType: ct, Available: true, Remaining: -1}}}
	return t, &t.Offerings[0]
}

// changePools gives the cluster its NodePools as they are now.
func (w *world) changePools() {
	for ; w.pools < len(w.variant.Pools) && !w.variant.Pools[w.pools].At.After(w.Now); w.pools++ {
		if x := w.variant.Pools[w.pools]; x.Gone != "" {
			w.DropPool(x.Gone)
		} else {
			w.types[x.Pool.Name] = x.Pool.Types
			p := *x.Pool
			w.SetPool(&p)
		}
	}
}

// run lets time pass until the end of the trace.
func (w *world) run() {
	passes := func(time.Duration) bool {
		if w.variant.Progress != nil && !w.variant.Progress(w.Now) {
			w.result.Partial, w.meter.to = true, w.Now
		}
		return !w.result.Partial
	}
	end := w.trace.To.Add(1) // what happened at To belongs to it
	for w.Now.Before(end) && !w.result.Partial {
		if err := w.Play(end, passes); err != nil {
			w.result.Restless++
		}
	}
	w.Now = model.EarlierOf(w.Now, w.trace.To)
}

// end counts what is still there, and returns the result.
func (w *world) end() *Result {
	w.meter.f.To = w.Now
	w.work.end()
	for _, k := range slices.Sorted(maps.Keys(w.Machines)) { // sums depend on their order
		if m := w.Machines[k]; !m.Gone {
			w.endMachine(m)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w.nodes)) {
		w.endStanding(w.nodes[k])
	}
	w.result.Figures = *w.meter.figures()
	w.result.Refused = map[string]int{}
	for code, pods := range w.refused {
		w.result.Refused[code] = len(pods)
	}
	return &w.result
}

// Restart implements sim.Decider. Resources keep their dimensions of the trace.
func (w *world) Restart(table *state.ResourceTable) {
	w.mem = decide.Memory{}
	for _, name := range w.variant.Resources {
		table.Dim(name)
	}
}

// Decide implements sim.Decider. It decides as the controller does.
func (w *world) Decide(now time.Time, s *model.Snapshot, solve bool) ([]plan.Action, time.Time) {
	d := approve.Step(decide.Step, approve.Verify, s, w.mem, now, w.policy, decide.Request{Solve: solve})
	w.mem = d.Memory
	w.result.Steps++
	for _, r := range d.Refused {
		w.fault(now, "verify refused "+r.Unit+": "+string(r.Why.Code))
	}
	if d.Fault != nil {
		w.fault(now, "deciding failed")
	}
	for _, p := range d.Output.Pods {
		if p.Outcome == plan.Refused && len(p.Reasons) > 0 {
			code := string(p.Reasons[0].Code)
			if w.refused[code] == nil {
				w.refused[code] = map[string]bool{}
			}
			w.refused[code][p.Pod.UID] = true
		}
	}
	for _, a := range d.Output.Actions {
		if x, ok := a.(plan.DeleteClaim); ok {
			w.reasons[x.Claim] = string(x.Why.Code)
		}
	}
	return d.Output.Actions, d.Output.Next
}

func (w *world) fault(at time.Time, text string) {
	if len(w.result.Faults) < maxFaults {
		w.result.Faults = append(w.result.Faults, at.UTC().Format(time.RFC3339)+" "+text)
	}
}

func (w *world) observe(e sim.Event) {
	switch e.Kind {
	case sim.Launched:
		w.meter.launched(e.Machine.Pool, e.At)
		w.decided(Launch, e.Machine.ClaimName, offeringText(e.Machine.Type.Name, e.Machine.Offering.Zone, e.Machine.Offering.CapacityType))
	case sim.Begun:
		if a, ok := e.Action.(plan.DeleteClaim); ok && w.Claims[a.Claim] != nil && w.Claims[a.Claim].Deleting.IsZero() {
			w.decided(Remove, a.Claim, "")
		}
	case sim.Joined:
		w.joinedAt(e.Machine)
	case sim.Ended:
		w.endMachine(e.Machine)
	case sim.Preempted:
		w.work.preempted[e.Pod.UID] = true
	case sim.Violated, sim.Overfilled:
		w.fault(e.At, e.Object+": "+e.Text)
	}
}

// joinedAt notes when the node of a machine is there.
func (w *world) joinedAt(m *sim.Machine) {
	w.work.joined[m.ClaimUID] = w.Now
	w.machines[m.Node] = m
}

func (w *world) endMachine(m *sim.Machine) {
	w.meter.paid(m.Pool, priceOf(m.Type, m.Offering), m.Launched, w.Now)
	if at, ok := w.work.joined[m.ClaimUID]; ok {
		w.meter.stood(m.Type.Allocatable, at, w.Now)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Followed compares decisions on the recorded cluster state with the recorded decisions.
type Followed struct {
	Recorded int // launches, removals and evictions
	Same     int // decided on the state recorded before, too
	Added    int // number of actions that were decided for several consecutive seconds but are not in the recording

	Differing []replay.Decision // recorded and not decided, at most maxDiffering
	Steps     int
	Partial   bool // ended early by Variant.Progress
}

const (
	// longestCall is how long after its decision an action is seen in a recording at most: the controller waits for more changes, calls, and
	// the recorder's watch shows it.
	longestCall = 2 * time.Second
	// persists is how long a decision has to be made on end, and not be recorded, to count as added.
	persists     = 5 * time.Second
	maxDiffering = 20
)

// follower decides on a recorded cluster as it was. What it decides is compared with what was recorded next, and never carried out: the
// cluster goes on as recorded.
type follower struct {
	stream
	v       *replay.Variant
	t       *translate.Translator
	lookup  *manifests.Set
	s       *state.State
	mem     decide.Memory
	out     Followed
	version uint64
	pools   int                     // the next of v.Pools
	sets    map[string]string       // uids of ReplicaSets and StatefulSets by kind and key
	started map[string]time.Time    // when machines were launched, by NodeClaim uid
	claims  map[string]*model.Claim // by name
	pods    map[string]*corev1.Pod  // by key
	past    []instant               // of the last longestCall
	made    map[decision]time.Time  // when a decision was last made
	stands  map[decision]time.Time  // since when a decision is made in each step
	seen    map[decision]time.Time  // recorded decisions
	begun   map[plan.CommandID]bool // recorded disruption commands
	leaving map[string]bool         // by node: Dovetail removes it, so that evictions from it are its own
	batch   struct{ first, due time.Time }
	next    time.Time // when to decide though nothing changes; zero: no need
}

// decision is what can be compared.
type decision struct {
	kind   replay.DecisionKind
	object string // a NodeClaim's name or a pod's uid
	detail string // of a launch: what the NodeClaim requires
}

// instant is the cluster between two changes.
type instant struct {
	at    time.Time
	snap  *model.Snapshot
	mem   decide.Memory // before it was decided at it
	tried bool
}

// command is the kind of a decision to begin a disruption command, of which a recording shows what NodeClaims say.
const command replay.DecisionKind = "command"

// Follow reads a recording of Dovetail's own run again, and decides on the recorded state at each instant. Unlike in a replay, a
// decision does not depend on earlier ones, so one difference causes no others.
func (r *Recording) Follow(v *replay.Variant, scheduler translate.SchedulerDefaults) (*Followed, error) {
	lookup := manifests.New()
	lookup.Scheduler = scheduler
	f := &follower{v: v, lookup: lookup, s: state.New(), sets: map[string]string{}, started: map[string]time.Time{}, claims: map[string]*model.Claim{},
		pods: map[string]*corev1.Pod{}, made: map[decision]time.Time{}, stands: map[decision]time.Time{}, seen: map[decision]time.Time{}, begun: map[plan.CommandID]bool{}, leaving: map[string]bool{}}
	for _, name := range r.Table.Names() {
		f.s.Resources().Dim(name)
	}
	f.t = &translate.Translator{Table: f.s.Resources(), Lookup: lookup, Defaults: scheduler}
	f.stream = newStream(f.takeIn)
	if _, err := record.Read(r.Path, f.visitor()); err != nil {
		return nil, err
	}
	if !f.out.Partial {
		f.until(r.Trace.To.Add(longestCall))
	}
	return &f.out, nil
}

func (f *follower) takeIn(c record.Change, snapshot bool) {
	if f.out.Partial {
		return
	}
	if !f.from.IsZero() {
		f.until(f.now)
	}
	f.changePools()
	if err := f.apply(c, snapshot); err != nil {
		return // Read has said so
	}
	f.version++
	if f.batch.first.IsZero() {
		f.batch.first = f.now
	}
	wait := sim.UsualBatch.Idle
	if c.Kind != "Pod" {
		wait = time.Millisecond // pods alone are waited for
	}
	f.batch.due = model.EarlierOf(f.batch.first.Add(sim.UsualBatch.Most), f.now.Add(wait))
}

// until decides when it is due before an instant, and keeps the cluster as it is until then.
func (f *follower) until(at time.Time) {
	if n := len(f.past); n > 0 && f.past[n-1].at.Equal(at) {
		return
	}
	for {
		due := model.EarlierOf(f.batch.due, f.next)
		if due.IsZero() || !due.Before(at) {
			break
		}
		if f.decide(due); f.isOver(due) {
			return
		}
	}
	f.forget(at)
	f.see(at)
	f.isOver(at)
}

// isOver reports whether nobody waits for the answer any more.
func (f *follower) isOver(at time.Time) bool {
	f.out.Partial = f.out.Partial || f.v.Progress != nil && !f.v.Progress(at)
	return f.out.Partial
}

// see keeps the cluster as it was until an instant, and at the end of each second before: the names of disruption commands depend on the second.
func (f *follower) see(at time.Time) *model.Snapshot {
	from := at.Add(-longestCall)
	if n := len(f.past); n > 0 {
		from = model.LaterOf(from, f.past[n-1].at)
	}
	for end := from.Truncate(time.Second).Add(time.Second - time.Millisecond); end.Before(at); end = end.Add(time.Second) {
		if end.After(from) {
			f.keep(end)
		}
	}
	return f.keep(at)
}

func (f *follower) keep(at time.Time) *model.Snapshot {
	f.s.SetNow(at)
	f.s.SetInstances(f.instances(), at)
	snap := f.s.Snapshot(at)
	f.past = append(f.past, instant{at: at, snap: snap, mem: f.mem})
	return snap
}

func (f *follower) forget(at time.Time) {
	f.past = slices.DeleteFunc(f.past, func(x instant) bool { return at.Sub(x.at) > longestCall })
	maps.DeleteFunc(f.made, func(_ decision, x time.Time) bool { return at.Sub(x) > longestCall })
	maps.DeleteFunc(f.seen, func(_ decision, x time.Time) bool { return at.Sub(x) > longestCall+persists })
}

// decide decides as the controller did, and goes on from there.
func (f *follower) decide(at time.Time) {
	snap := f.see(at)
	f.past[len(f.past)-1].tried = true
	f.batch.first, f.batch.due = time.Time{}, time.Time{}
	out, mem := f.step(snap, f.mem, at)
	f.mem, f.next = mem, time.Time{}
	if out.Next.After(at) {
		f.next = out.Next
	}
	now := map[decision]bool{}
	for _, d := range f.decisions(&out) {
		now[d] = true
		if f.stands[d].IsZero() {
			f.stands[d] = at
		}
	}
	for d, since := range f.stands {
		switch {
		case !now[d]:
			delete(f.stands, d)
		case d.kind != command && at.Sub(since) >= persists && f.seen[d].Before(since):
			f.out.Added++
			f.seen[d] = at // counted once
		}
	}
}

func (f *follower) step(snap *model.Snapshot, mem decide.Memory, at time.Time) (decide.Output, decide.Memory) {
	f.out.Steps++
	d := approve.Step(decide.Step, approve.Verify, snap, mem, at, f.v.Policy, decide.Request{Solve: true})
	for _, x := range f.decisions(&d.Output) {
		f.made[x] = at
	}
	return d.Output, d.Memory
}

// decisions returns what of a step can be compared.
func (f *follower) decisions(step *decide.Output) (out []decision) {
	for _, c := range step.Commands {
		out = append(out, decision{command, string(c.ID), ""})
	}
	for _, a := range step.Actions {
		switch a := a.(type) {
		case plan.CreateClaim:
			if o, err := f.t.ClaimObject(a); err == nil {
				out = append(out, decision{replay.Launch, a.Name, f.t.NodeClaim(o).Requirements.Key()})
			}
		case plan.DeleteClaim:
			out = append(out, decision{replay.Remove, a.Claim, ""})
		case plan.Evict:
			out = append(out, decision{replay.Evict, a.UID, ""})
		}
	}
	return out
}

// recorded compares a decision that was recorded now.
func (f *follower) recorded(d decision, object string) {
	f.out.Recorded++
	f.seen[d] = f.now
	if f.find(d) {
		f.out.Same++
	} else if len(f.out.Differing) < maxDiffering {
		f.out.Differing = append(f.out.Differing, replay.Decision{At: f.now, Kind: d.kind, Object: object, Detail: d.detail})
	}
}

// find reports whether a decision was made. At which of the instants before it is not known: each of them may be, the last is looked at first. What
// was learned at that instant is remembered from then on.
func (f *follower) find(d decision) bool {
	for i := len(f.past) - 1; i >= 0 && f.made[d].IsZero(); i-- {
		x := &f.past[i]
		if x.tried {
			continue
		}
		x.tried = true
		if _, mem := f.step(x.snap, x.mem, x.at); !f.made[d].IsZero() {
			f.mem = mem
		}
	}
	return !f.made[d].IsZero()
}

// instances returns the machines that the cloud would list: those of NodeClaims that were launched.
func (f *follower) instances() (out []*model.Instance) {
	for _, name := range slices.Sorted(maps.Keys(f.claims)) {
		if x := f.claims[name]; x.ProviderID != "" {
			out = append(out, &model.Instance{ProviderID: x.ProviderID, ClaimUID: x.UID, ClaimName: x.Name, Launched: f.started[x.UID]})
		}
	}
	return out
}

func (f *follower) changePools() {
	for ; f.pools < len(f.v.Pools) && !f.v.Pools[f.pools].At.After(f.now); f.pools++ {
		if x := f.v.Pools[f.pools]; x.Gone != "" {
			f.s.Pools.DeletePool(x.Gone)
		} else {
			p := *x.Pool
			f.s.Pools.SetPool(&p)
		}
	}
}

// apply changes the cluster as one line of the recording says.
func (f *follower) apply(c record.Change, snapshot bool) error {
	gone := c.Object == nil
	switch c.Kind {
	case "Pod":
		return f.pod(c, snapshot)
	case "NodeClaim":
		return f.claim(c, snapshot)
	case "Node":
		if gone {
			f.s.DeleteNode(c.Key)
			delete(f.leaving, c.Key)
			return nil
		}
		o, err := decodeNode(c)
		if err != nil {
			return err
		}
		n := f.t.Node(o)
		f.leaving[c.Key] = n.HasTaint(model.TaintDisrupted)
		f.s.SetNode(n, f.version)
	case "ReplicaSet", "StatefulSet":
		k := c.Kind + " " + c.Key
		if gone {
			f.s.SetReplicas(f.sets[k], 0)
			delete(f.sets, k)
			return nil
		}
		uid, want, err := decodeReplicas(c)
		if err != nil {
			return err
		}
		f.sets[k] = uid
		f.s.SetReplicas(uid, want)
	case "PodDisruptionBudget":
		if gone {
			f.s.DeletePDB(c.Key)
			return nil
		}
		o, err := decode[policyv1.PodDisruptionBudget](c)
		if err != nil {
			return err
		}
		f.s.SetPDB(f.t.PDB(o))
	case "DaemonSet":
		if gone {
			f.s.DeleteDaemon(c.Key)
			return nil
		}
		o, err := decode[appsv1.DaemonSet](c)
		if err != nil {
			return err
		}
		f.s.SetDaemon(f.t.DaemonSet(o))
	case "Namespace":
		if gone {
			f.s.DeleteNamespace(c.Key)
			return nil
		}
		o, err := decode[corev1.Namespace](c)
		if err != nil {
			return err
		}
		f.s.SetNamespace(o.Name, o.Labels, translate.DeletionTime(o))
	case "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "LimitRange", "PriorityClass", "RuntimeClass":
		if !gone {
			err := f.lookup.Read(c.Kind+" "+c.Key, c.Object)
			f.lookup.Volumes().Settle()
			return err
		}
	}
	return nil
}

func (f *follower) pod(c record.Change, snapshot bool) error {
	was := f.pods[c.Key]
	if c.Object == nil {
		delete(f.pods, c.Key)
		f.s.DeletePod(c.Key)
		return nil
	}
	p, err := decode[corev1.Pod](c)
	if err != nil {
		return err
	}
	if !snapshot && was != nil && was.UID == p.UID && was.DeletionTimestamp == nil && isEvicted(p) && f.leaving[p.Spec.NodeName] {
		f.recorded(decision{replay.Evict, string(p.UID), ""}, c.Key)
	}
	f.pods[c.Key] = p
	f.s.SetPod(f.t.Pod(p))
	f.s.PodFacts.Set(f.t.PodFacts(p))
	return nil
}

// isEvicted reports whether the eviction API deletes a pod.
func isEvicted(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool {
		return k.Type == corev1.DisruptionTarget && k.Status == corev1.ConditionTrue && k.Reason == "EvictionByEvictionAPI"
	})
}

func (f *follower) claim(c record.Change, snapshot bool) error {
	was := f.claims[c.Key]
	if c.Object == nil {
		delete(f.claims, c.Key)
		f.s.DeleteClaim(c.Key)
		return nil
	}
	o, err := decode[karpv1.NodeClaim](c)
	if err != nil {
		return err
	}
	x := f.t.NodeClaim(o)
	switch isNew := was == nil || was.UID != x.UID; {
	case snapshot:
	case isNew && x.Maker == "":
		f.recorded(decision{replay.Launch, x.Name, x.Requirements.Key()}, x.Name)
	case was.Deleting.IsZero() && !x.Deleting.IsZero():
		f.recorded(decision{replay.Remove, x.Name, ""}, x.Name)
	}
	if cond := x.Conditions[lifecycle.Launched]; cond.True() && f.started[x.UID].IsZero() {
		f.started[x.UID] = cond.Since
	}
	replaced, _ := cluster.ReplacedBy(x)
	for _, id := range []plan.CommandID{replaced, cluster.DisruptedBy(x), cluster.HostedCommand(x)} {
		if d := (decision{command, string(id), ""}); id != "" && !f.begun[id] {
			f.begun[id] = true
			if !snapshot {
				f.seen[d] = f.now
				f.find(d)
			}
		}
	}
	f.claims[c.Key] = x
	f.s.SetClaim(x, f.version)
	return nil
}

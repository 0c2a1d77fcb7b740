// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Output records the decisions of a step: a log line and a ledger entry per decision, and events on the affected objects.
func (rec *Recorder) Output(now time.Time, snap *model.Snapshot, out *decide.Output) {
	bought := 0
	rec.recordClaims(now, snap, out)
	clear(rec.commands)
	rec.recordMoves(now, out)
	rec.recordBindings(now, out.Actions)
	rec.tellNotes(now, out.Notes)
	rec.recordUnused(now, out)
	rec.groups.beginStep()
	growth := rec.groups.findGrowth(snap, out.Actions)
	rec.groups.tellGrowth(growth)
	for _, a := range out.Actions {
		switch a := a.(type) {
		case plan.CreateClaim:
			if a.Why.Code == plan.Demand {
				bought++
			}
			rec.recordCreate(a, out)
			rec.groups.tellTriggered(a, growth)
		case plan.DeleteClaim:
			rec.recordDelete(now, snap, a)
		case plan.UpdateClaim:
			rec.recordUpdate(a)
		case plan.Restart:
			rec.log.Info("restarting deployment", "deployment", a.Namespace+"/"+a.Deployment, "pod", a.Pod, "node", a.Node)
			rec.ledger.Add(ledger.Entry{At: now, Kind: "restart", Subject: "deployment/" + a.Namespace + "/" + a.Deployment, Why: []plan.Reason{a.Why}, Pods: []string{model.PodKey(a.Namespace, a.Pod)}})
		case plan.Evict:
			rec.recordEvict(now, a)
		case plan.UpdateNode:
			if plan.DetailOf[plan.OfRegistering](a.Why).Untainted {
				rec.events.Event("Node", "", a.Node, a.UID, true, "UnregisteredTaintMissing",
					"The node joined without taint "+model.TaintUnregistered+":"+model.NoExecute+": pods may have been scheduled on it too early")
			}
			if a.Why.Code == plan.LandingTimeout {
				rec.log.Warn("reservation timed out before its pods were bound", "node", a.Node, "after", plan.DetailOf[plan.OfTimeout](a.Why).Within.String())
				rec.ledger.Add(ledger.Entry{At: now, Kind: "release", Subject: "node/" + a.Node, Why: []plan.Reason{a.Why}})
			}
		}
	}
	if out.Solved {
		rec.recordPods(now, snap, out)
	}
	count := map[plan.Outcome]int{}
	for _, d := range out.Pods {
		count[d.Outcome]++
	}
	if len(out.Pods) > 0 {
		rec.log.Debug("decided on pending pods", "onNodes", count[plan.OnNode], "onClaims", count[plan.OnClaim], "onNew", count[plan.OnNew], "refused", count[plan.Refused])
	}
	if bought > 0 {
		rec.log.Info("launching nodes for pending pods", "nodes", bought, "pods", count[plan.OnNew], "classes", out.Stats.Classes,
			"usdPerHour", model.Dollars(out.Cost.NewMicroPerHour), "lowerBound", model.Dollars(out.Cost.BoundMicroPerHour),
			"gapPercent", strconv.FormatFloat(float64(out.Cost.Gap())/1e4, 'f', 2, 64), "provenBy", out.Cost.ProvenBy)
	}
}

// recordCreate takes note of a NodeClaim that is to be made. It is told when it is made: see Made.
func (rec *Recorder) recordCreate(a plan.CreateClaim, out *decide.Output) {
	var pods []*model.Pod
	var names []string
	for _, p := range a.Pods {
		if !p.Expected && !p.Placeholder {
			pods, names = append(pods, p), append(names, p.Key())
		}
	}
	why := []plan.Reason{a.Why}
	if !a.Reserved {
		why = append(why, a.NoReserve)
	}
	rec.log.Info("creating nodeclaim", "nodeclaim", a.Name, "nodepool", a.Pool.Name, "pods", len(names), "expected", len(a.Pods)-len(names), "type", a.Type, "types", len(a.Types),
		"zone", a.Zone, "capacityType", a.CapacityType, "usdPerHour", model.Dollars(a.PriceMicro), "reserved", a.Reserved, "why", string(a.Why.Code))
	h, slots := &rec.claims, 0
	for _, s := range a.Slots {
		slots += s.Count
	}
	rec.creates[a.Name] = decidedCreate{pods: pods, entry: ledger.Entry{Kind: "create", Subject: "nodeclaim/" + a.Name, Why: why, Pods: names, Type: a.Type, Micro: a.PriceMicro, Bound: out.Cost.BoundMicroPerHour,
		MorePods: max(slots, len(a.Pods)) - len(names), Command: rec.commands[a.Why.Command], Related: deploymentsOf(a.Pods), Before: h.cost, After: h.cost + a.PriceMicro}}
	h.cost += a.PriceMicro
	h.planned[a.Name] = a.PriceMicro
}

// Made records that a NodeClaim was created: events on its pods, and the history.
func (rec *Recorder) Made(now time.Time, name string) {
	d, ok := rec.creates[name]
	if !ok {
		return
	}
	delete(rec.creates, name)
	d.entry.At = now
	rec.ledger.Add(d.entry)
	for _, p := range d.pods {
		rec.events.Event("Pod", p.Namespace, p.Name, p.UID, false, "Nominated", "Expected to run on the node of NodeClaim "+name)
		rec.claims.awaiting[name] = append(rec.claims.awaiting[name], p.Key())
	}
}

// NotMade forgets a NodeClaim that will not be created.
func (rec *Recorder) NotMade(name string) { delete(rec.creates, name) }

// Unmade records that a NodeClaim was refused. It never existed, so the history counts no cost for it, and the events on its pods
// name only the NodePool.
func (rec *Recorder) Unmade(a plan.CreateClaim, said string, err error) {
	d := rec.creates[a.Name]
	delete(rec.creates, a.Name)
	delete(rec.claims.planned, a.Name)
	rec.metrics.CountFailedAction()
	why := plan.Reason{Code: plan.ClaimRefused, Pool: a.Pool.Name, Detail: plan.OfSaid{Said: plan.Words(said)}}
	rec.log.Warn("nodeclaim refused", "nodeclaim", a.Name, "nodepool", a.Pool.Name, "error", err.Error())
	rec.ledger.Add(ledger.Entry{At: time.Now(), Kind: "note", Subject: "nodepool/" + a.Pool.Name, Why: []plan.Reason{why}, Pods: d.entry.Pods, Outcome: string(plan.ClaimRefused)})
	for _, p := range d.pods {
		rec.events.Event("Pod", p.Namespace, p.Name, p.UID, true, string(plan.ClaimRefused), "NodePool "+a.Pool.Name+": "+report.Sentence(why))
	}
	rec.events.Event("NodePool", "", a.Pool.Name, a.Pool.UID, true, string(plan.ClaimRefused), report.Sentence(why))
}

// recordUnused tells of unused launches: their pods, the NodePool, the history and the metrics.
func (rec *Recorder) recordUnused(now time.Time, out *decide.Output) {
	for i := range out.Unused {
		v := &out.Unused[i]
		cause := string(v.Cause.Code)
		rec.metrics.CountUnusedLaunch(v.Pool.Name, v.Cause.Code, v.Micro)
		text := report.Sentence(v.Why)
		rec.log.Warn("unused launch", "nodeclaim", v.Claim, "nodepool", v.Pool.Name, "group", v.Group, "for", v.Owner, "cause", cause, "message", text,
			"usd", model.Dollars(v.Micro), "waves", v.Times)
		e := ledger.Entry{At: now, Kind: "note", Subject: "nodepool/" + v.Pool.Name, Why: []plan.Reason{v.Why}, Outcome: "UnusedLaunch"}
		if p := v.Pod; p != nil {
			rec.events.Event("Pod", p.Namespace, p.Name, p.UID, true, "UnusedLaunch", "NodePool "+v.Pool.Name+": "+text)
			e.Pods = []string{p.Key()}
		}
		rec.events.Event("NodePool", "", v.Pool.Name, v.Pool.UID, true, "UnusedLaunch", "Launched for "+v.Owner+": "+text)
		rec.ledger.Add(e)
	}
	for _, c := range out.UnusedCosts {
		rec.metrics.CountUnusedCost(c.Pool, c.Micro)
	}
}

func (rec *Recorder) recordDelete(now time.Time, snap *model.Snapshot, a plan.DeleteClaim) {
	rec.log.Info("deleting nodeclaim", "nodeclaim", a.Claim, "why", string(a.Why.Code), "message", report.Sentence(a.Why))
	cl := rec.objects.FindClaim(a.Claim)
	told := cl
	if told == nil { // it is gone already
		told = &model.Claim{Name: a.Claim}
	}
	rec.claims.asked[a.Claim] = a.Why
	rec.ledger.Add(rec.claimEntry(now, "delete", told, a.Why))
	rec.events.Event("NodeClaim", "", a.Claim, a.UID, a.Why.Code != plan.Empty && a.Why.Code != plan.Expired, "Disrupted", fmt.Sprintf("Deleting: %s", a.Why.Code))
	if cl != nil && cl.NodeName != "" {
		switch {
		case a.Why.Code == plan.Interrupted:
			rec.events.Event("Node", "", cl.NodeName, "", true, "TerminatingOnInterruption", "Draining: the cloud is interrupting the instance")
		case a.Why.OfCommand():
			rec.events.Event("Node", "", cl.NodeName, "", false, "DisruptionTerminating", "Draining, then terminating: "+string(a.Why.Code))
			rec.events.Event("NodeClaim", "", a.Claim, a.UID, false, "DisruptionTerminating", "Draining, then terminating: "+string(a.Why.Code))
		}
	}
	rec.groups.tellScaleDown(cl, a.Why)
	moved := 0
	if n := snap.FindNode(told.NodeName); n != nil {
		for _, p := range n.Pods {
			if p.IsWorkload() && p.Deleting.IsZero() {
				moved++
			}
		}
	}
	rec.metrics.CountDisruptedClaim(rec.objects.Resources().Names(), cl, rec.pools.FindPool(a.Why.Pool), a, moved)
}

// recordBindings notes which pods are bound to which nodes, an entry a node.
func (rec *Recorder) recordBindings(now time.Time, actions []plan.Action) {
	entries := map[string]*ledger.Entry{} // by node
	var nodes []string
	for _, a := range actions {
		b, ok := a.(plan.Bind)
		if !ok {
			continue
		}
		e := entries[b.Node]
		if e == nil {
			e = &ledger.Entry{At: now, Kind: ledger.Bind, Subject: "node/" + b.Node, Why: []plan.Reason{b.Why}}
			entries[b.Node], nodes = e, append(nodes, b.Node)
		}
		e.Pods = append(e.Pods, model.PodKey(b.Namespace, b.Pod))
	}
	for _, n := range nodes {
		rec.ledger.Add(*entries[n])
		rec.log.Debug("binding pods", "node", n, "pods", len(entries[n].Pods))
	}
}

// recordEvict tells once of a pod that should have gone after its successor had come, and can't.
func (rec *Recorder) recordEvict(now time.Time, a plan.Evict) {
	subject := "pod/" + model.PodKey(a.Namespace, a.Pod)
	if a.Why.Code != plan.NoSurge || !rec.IsNews(now, subject+" "+a.UID, report.Sentence(a.Why)) {
		return
	}
	rec.log.Info("pod is evicted before its replacement is ready", "pod", model.PodKey(a.Namespace, a.Pod), "node", a.Node, "key", plan.DetailOf[plan.OfNoSurge](a.Why).Field, "because", a.Why.Summary())
	rec.ledger.Add(ledger.Entry{At: now, Kind: "evict", Subject: subject, Why: []plan.Reason{a.Why}})
}

// BlockedDrain records which PodDisruptionBudget refuses the eviction of a pod, at most once in a while per node and budget.
func (rec *Recorder) BlockedDrain(now time.Time, a plan.Evict, err error) {
	why := plan.Reason{Code: plan.EvictionRefused, Pool: a.Why.Pool, Subject: plan.ObjectOf("pod", model.PodKey(a.Namespace, a.Pod)), Detail: plan.OfCallFailed{Said: plan.Words(err.Error())}}
	key := string(why.Subject)
	var by *plan.BudgetBlocks
	if errors.As(err, &by) {
		why.Code, why.Detail = plan.DisruptionBudgetPDB, plan.OfPDB{Name: by.Budget}
		key = by.Budget // its other pods on the node are told with it
	}
	if !rec.IsNews(now, "blocked "+a.Node+" "+key, string(why.Code)) {
		return
	}
	rec.log.Info("drain is blocked", "node", a.Node, "pod", model.PodKey(a.Namespace, a.Pod), "by", err.Error())
	e := ledger.Entry{At: now, Kind: ledger.Blocked, Subject: "node/" + a.Node, Why: []plan.Reason{why}, Pods: []string{model.PodKey(a.Namespace, a.Pod)}}
	if cl := rec.objects.FindClaimByNode(a.Node); cl != nil {
		e.Related = []string{"nodeclaim/" + cl.Name}
	}
	rec.ledger.Add(e)
}

// recordPods tells each refused pod once why, and again when the reason changes. A pod is not told while it is not known whether a NodePool
// serves it, as after a start: it is decided on again as soon as that is known.
func (rec *Recorder) recordPods(now time.Time, snap *model.Snapshot, out *decide.Output) {
	rec.metrics.NoteDecided(out.Pods, now)
	told := map[string]string{}
	refused := 0
	for _, d := range out.Pods {
		if d.Outcome != plan.Refused {
			continue
		}
		refused++
		if plan.DependsOnUnread(d.Reasons, snap.Pools) {
			if text, ok := rec.told[d.Pod.UID]; ok {
				told[d.Pod.UID] = text
			}
			continue
		}
		nearest := report.Refusal(d.Reasons[:1]) // what other pools have against it may change with every pool that comes or goes
		told[d.Pod.UID] = nearest
		if rec.told[d.Pod.UID] == nearest {
			continue
		}
		text := report.Refusal(d.Reasons)
		rec.log.Info("pod is unschedulable", "pod", d.Pod.Key(), "reasons", text)
		rec.ledger.Add(ledger.Entry{At: now, Kind: ledger.Refuse, Subject: "pod/" + d.Pod.Key(), Why: d.Reasons, Related: deploymentsOf([]*model.Pod{d.Pod})})
		rec.events.Event("Pod", d.Pod.Namespace, d.Pod.Name, d.Pod.UID, true, "FailedScheduling", text)
		rec.groups.tellNotTriggered(d)
	}
	for _, p := range out.Left { // what was said of it still holds
		if text, ok := rec.told[p.UID]; ok {
			told[p.UID] = text
			refused++
		}
	}
	rec.told = told
	rec.metrics.SetUnschedulable(refused)
}

// LaunchFailed records a failed launch as an event for users of node groups.
func (rec *Recorder) LaunchFailed(c *model.Claim, why string) { rec.groups.tellLaunchFailed(c, why) }

// NoCapacity records on the pods of a NodeClaim that are still pending that the cloud has no capacity for it.
func (rec *Recorder) NoCapacity(claim, said string) {
	for _, key := range rec.claims.awaiting[claim] {
		if p := rec.objects.FindPod(key); p != nil && p.Node == "" && p.Deleting.IsZero() {
			rec.events.Event("Pod", p.Namespace, p.Name, p.UID, true, "InsufficientCapacityError", "NodeClaim "+claim+", which was to run this pod, failed to launch: "+said)
		}
	}
	delete(rec.claims.awaiting, claim)
}

// Evicted records on a pod of a node group that it was evicted because its node is removed.
func (rec *Recorder) Evicted(c *model.Claim, cause plan.Code, a plan.Evict) {
	rec.groups.tellEvicted(c, cause, a)
}

// ReportFailure returns a callback for the result of a call that only records a failure.
func (rec *Recorder) ReportFailure(kind, subject string, why plan.Reason) func(*state.State, error) {
	return func(_ *state.State, err error) {
		if err != nil {
			rec.Failure(kind, subject, why, err)
		}
	}
}

// Failure records that an action failed. If the object is gone or has changed, that is normal and appears only in the debug log.
func (rec *Recorder) Failure(kind, subject string, why plan.Reason, err error) {
	switch {
	case errors.Is(err, plan.ErrGone), errors.Is(err, plan.ErrConflict), errors.Is(err, plan.ErrBlocked):
		rec.log.Debug("action did not apply", "action", kind, "object", subject, "error", err.Error())
		return
	}
	rec.metrics.CountFailedAction()
	rec.log.Warn("action failed, deciding again", "action", kind, "object", subject, "why", string(why.Code), "error", err.Error())
	rec.ledger.Add(ledger.Entry{At: time.Now(), Kind: kind, Subject: subject, Why: []plan.Reason{why}, Outcome: "failed: " + err.Error()})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Withheld is a part of the demand that is left out of a plan, because verify refused what was planned for it or
// deciding on it failed. That is a fault of Dovetail, which must not keep anything else waiting.
type Withheld struct {
	Pods []*model.Pod // no node is planned for them
	Pool string       // nothing is launched from it; empty: no NodePool
	Why  plan.Reason
}

// withholding keeps what was withheld out of the demand: for Policy.RefusedPlanRetry the first time, twice as long each
// time after, at most maxWithheld. What is withheld outlives the process: see LearnedCapacity.
type withholding struct {
	*draft
	mem *withholdingMemory

	due    bool                       // something is tried again in this step
	closed map[string]*model.NodePool // by name: withheld NodePools, as the solver is given them
}

// withholdingMemory is what withholding remembers from step to step.
type withholdingMemory struct {
	pods    map[string]withheldPart // by pod uid
	pools   map[string]withheldPart // by pool name
	next    time.Time               // when the first of them is tried again
	changes int                     // of pods and pools, counted: see LearnedChanges
}

// withheldPart is until when a part of the demand is withheld, and how often it has been.
type withheldPart struct {
	Why   plan.Reason `json:"why"`
	Until time.Time   `json:"until"`
	Times int         `json:"times"`
}

// maxWithheld is how long a part is withheld at most before it is tried again. forgetWithheld is after how long without a
// further fault it is forgotten how often there was one.
const (
	maxWithheld    = 10 * time.Minute
	forgetWithheld = time.Hour
)

// read notes what is withheld from this step on, and forgets what is gone.
func (wh *withholding) read() {
	parts := wh.req.Withhold
	wh.due = !wh.mem.next.IsZero() && !wh.Now.Before(wh.mem.next)
	if len(parts) == 0 && len(wh.mem.pods) == 0 && len(wh.mem.pools) == 0 {
		return
	}
	next := withholdingMemory{pods: map[string]withheldPart{}, pools: map[string]withheldPart{}, changes: wh.mem.changes}
	for uid, was := range wh.mem.pods {
		if wh.Now.Before(was.Until) {
			next.pods[uid] = was
		}
	}
	for _, p := range wh.Snapshot.Pending {
		if was, ok := wh.mem.pods[p.UID]; ok && wh.Now.Before(was.Until.Add(forgetWithheld)) {
			next.pods[p.UID] = was
		}
	}
	for _, p := range wh.Snapshot.Pools {
		if was, ok := wh.mem.pools[p.Name]; ok && wh.Now.Before(was.Until.Add(forgetWithheld)) {
			next.pools[p.Name] = was
		}
	}
	for _, x := range parts {
		for _, p := range x.Pods {
			wh.withhold(next.pods, p.UID, x.Why)
		}
		if x.Pool != "" {
			wh.withhold(next.pools, x.Pool, x.Why)
		}
		next.changes++
	}
	for _, all := range []map[string]withheldPart{next.pods, next.pools} {
		for part := range maps.Values(all) {
			if wh.Now.Before(part.Until) && (next.next.IsZero() || part.Until.Before(next.next)) {
				next.next = part.Until
			}
		}
	}
	wh.wakeAt(next.next)
	*wh.mem = next
}

// withhold withholds a part for longer than the last time.
func (wh *withholding) withhold(parts map[string]withheldPart, name string, why plan.Reason) {
	was := parts[name]
	if wh.Now.Before(was.Until) {
		return // the same fault, told again
	}
	until := wh.Now.Add(min(wh.pol.RefusedPlanRetry<<min(was.Times, 10), maxWithheld))
	refused := plan.DetailOf[plan.OfPlanRefused](why)
	refused.Until = until
	why.Code, why.Detail = plan.PlanRefused, refused
	parts[name] = withheldPart{Why: why, Until: until, Times: was.Times + 1}
}

// ofPod returns what a pod is withheld for, false if it is not.
func (wh *withholding) ofPod(p *model.Pod) (withheldPart, bool) {
	x, ok := wh.mem.pods[p.UID]
	return x, ok && wh.Now.Before(x.Until)
}

// ofPool returns what a NodePool is withheld for, false if it is not.
func (wh *withholding) ofPool(name string) (withheldPart, bool) {
	x, ok := wh.mem.pools[name]
	return x, ok && wh.Now.Before(x.Until)
}

// splitPods returns the pods that are planned for, and a refusal for each of the others.
func (wh *withholding) splitPods(pods []*model.Pod) (planned []*model.Pod, refused []solve.Refusal) {
	if len(wh.mem.pods) == 0 {
		return pods, nil
	}
	for _, p := range pods {
		if x, ok := wh.ofPod(p); ok {
			refused = append(refused, solve.Refusal{Pod: p, Reasons: []plan.Reason{x.Why}})
		} else {
			planned = append(planned, p)
		}
	}
	return planned, refused
}

// close returns a NodePool as the solver is given it: one that is withheld is not ready.
func (wh *withholding) close(p *model.NodePool) *model.NodePool {
	x, ok := wh.ofPool(p.Name)
	if !ok || !p.Ready {
		return p
	}
	closed := wh.closed[p.Name]
	if closed == nil {
		own := *p
		own.Ready, own.NotReady = false, model.Condition{Status: "False", Reason: string(plan.PlanRefused), Message: string(plan.DetailOf[plan.OfPlanRefused](x.Why).Said)}
		closed = &own
		if wh.closed == nil {
			wh.closed = map[string]*model.NodePool{}
		}
		wh.closed[p.Name] = closed
	}
	return closed
}

// explain replaces, in refusals, what is said of NodePools that are withheld by the reason for that.
func (wh *withholding) explain(refused []solve.Refusal) {
	if len(wh.closed) == 0 {
		return
	}
	for i := range refused {
		for j, r := range refused[i].Reasons {
			if x, ok := wh.ofPool(r.Pool); ok && r.Code == plan.PoolNotReady {
				reasons := append([]plan.Reason{}, refused[i].Reasons...)
				reasons[j] = x.Why
				reasons[j].Pool = r.Pool
				refused[i].Reasons = reasons
			}
		}
	}
}

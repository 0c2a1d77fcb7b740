// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Withheld is a part of the demand that is left out of a plan, because verify rejected its plan or its evaluation failed.
// Such a bug in Dovetail must not delay the rest.
type Withheld struct {
	Pods []*model.Pod // pods without a planned node
	Pool string       // NodePool that launches nothing; empty: none
	Why  plan.Reason
}

// Withholding removes withheld parts from the demand: for a retry interval the first time, twice as long each further time, at most
// maxWithheld. The state is stored across restarts: see WithholdingMemory.Learned.
type Withholding struct {
	*cluster.View
	mem WithholdingMemory

	due    bool                       // something is tried again in this step
	closed map[string]*model.NodePool // by name: withheld NodePools, as the solver is given them
}

// WithholdingMemory is the state that Withholding keeps between steps.
type WithholdingMemory struct {
	pods    map[string]withheldPart // by pod uid
	pools   map[string]withheldPart // by pool name
	next    time.Time               // when the first of them is tried again
	changes int                     // of pods and pools, counted
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

// NewWithholding returns a Withholding with its memory.
func NewWithholding(v *cluster.View, mem WithholdingMemory) *Withholding {
	return &Withholding{View: v, mem: mem}
}

// Read withholds parts from this step on, for retry the first time, and removes parts that no longer exist. It returns when the
// first part is tried again (zero: none), and the state to keep.
func (wh *Withholding) Read(parts []Withheld, retry time.Duration) (next time.Time, mem WithholdingMemory) {
	wh.due = !wh.mem.next.IsZero() && !wh.Now.Before(wh.mem.next)
	if len(parts) == 0 && len(wh.mem.pods) == 0 && len(wh.mem.pools) == 0 {
		return time.Time{}, wh.mem
	}
	mem = WithholdingMemory{pods: map[string]withheldPart{}, pools: map[string]withheldPart{}, changes: wh.mem.changes}
	for uid, was := range wh.mem.pods {
		if wh.Now.Before(was.Until) {
			mem.pods[uid] = was
		}
	}
	for _, p := range wh.Snapshot.Pending {
		if was, ok := wh.mem.pods[p.UID]; ok && wh.Now.Before(was.Until.Add(forgetWithheld)) {
			mem.pods[p.UID] = was
		}
	}
	for _, p := range wh.Snapshot.Pools {
		if was, ok := wh.mem.pools[p.Name]; ok && wh.Now.Before(was.Until.Add(forgetWithheld)) {
			mem.pools[p.Name] = was
		}
	}
	for _, x := range parts {
		for _, p := range x.Pods {
			wh.withhold(mem.pods, p.UID, x.Why, retry)
		}
		if x.Pool != "" {
			wh.withhold(mem.pools, x.Pool, x.Why, retry)
		}
		mem.changes++
	}
	for _, all := range []map[string]withheldPart{mem.pods, mem.pools} {
		for part := range maps.Values(all) {
			if wh.Now.Before(part.Until) && (mem.next.IsZero() || part.Until.Before(mem.next)) {
				mem.next = part.Until
			}
		}
	}
	wh.mem = mem
	return mem.next, mem
}

// withhold withholds a part for longer than the last time.
func (wh *Withholding) withhold(parts map[string]withheldPart, name string, why plan.Reason, retry time.Duration) {
	was := parts[name]
	if wh.Now.Before(was.Until) {
		return // the same fault, told again
	}
	until := wh.Now.Add(model.Backoff(retry, was.Times, maxWithheld))
	refused := plan.DetailOf[plan.OfPlanRefused](why)
	refused.Until = until
	why.Code, why.Detail = plan.PlanRefused, refused
	parts[name] = withheldPart{Why: why, Until: until, Times: was.Times + 1}
}

// OfPod returns why a pod is withheld; false if it is not.
func (wh *Withholding) OfPod(p *model.Pod) (withheldPart, bool) {
	x, ok := wh.mem.pods[p.UID]
	return x, ok && wh.Now.Before(x.Until)
}

// OfPool returns why a NodePool is withheld; false if it is not.
func (wh *Withholding) OfPool(name string) (withheldPart, bool) {
	x, ok := wh.mem.pools[name]
	return x, ok && wh.Now.Before(x.Until)
}

// SplitPods returns the pods to plan for, and a refusal for each of the others.
func (wh *Withholding) SplitPods(pods []*model.Pod) (planned []*model.Pod, refused []solve.Refusal) {
	if len(wh.mem.pods) == 0 {
		return pods, nil
	}
	for _, p := range pods {
		if x, ok := wh.OfPod(p); ok {
			refused = append(refused, solve.Refusal{Pod: p, Reasons: []plan.Reason{x.Why}})
		} else {
			planned = append(planned, p)
		}
	}
	return planned, refused
}

// IsDue reports whether a withheld part is tried again in this step.
func (wh *Withholding) IsDue() bool { return wh.due }

// Close returns a NodePool for the solver: not Ready if it is withheld.
func (wh *Withholding) Close(p *model.NodePool) *model.NodePool {
	x, ok := wh.OfPool(p.Name)
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

// Explain replaces the reasons of withheld NodePools in refusals with the reason for withholding them.
func (wh *Withholding) Explain(refused []solve.Refusal) {
	if len(wh.closed) == 0 {
		return
	}
	for i := range refused {
		for j, r := range refused[i].Reasons {
			if x, ok := wh.OfPool(r.Pool); ok && r.Code == plan.PoolNotReady {
				reasons := append([]plan.Reason{}, refused[i].Reasons...)
				reasons[j] = x.Why
				reasons[j].Pool = r.Pool
				refused[i].Reasons = reasons
			}
		}
	}
}

// LearnedWithheld is a pod or a NodePool that is withheld, or was within the last hour.
type LearnedWithheld struct {
	Pod  string `json:"pod,omitempty"`  // UID
	Pool string `json:"pool,omitempty"` // name
	withheldPart
}

// mostLearnedWithheld is how many pods are told of that are left out of plans; NodePools are told of all.
const mostLearnedWithheld = 300

// Changes returns the number of changes of the result of Learned.
func (m *WithholdingMemory) Changes() int { return m.changes }

// Learned returns the state to store across restarts: NodePools by name, then pods by UID.
func (m *WithholdingMemory) Learned() (out []LearnedWithheld) {
	for _, name := range slices.Sorted(maps.Keys(m.pools)) {
		out = append(out, LearnedWithheld{Pool: name, withheldPart: m.pools[name]})
	}
	uids := slices.Sorted(maps.Keys(m.pods))
	for _, uid := range uids[:min(len(uids), mostLearnedWithheld)] {
		out = append(out, LearnedWithheld{Pod: uid, withheldPart: m.pods[uid]})
	}
	return out
}

// WithLearned returns a memory with the result of Learned in place of its own state.
func (m WithholdingMemory) WithLearned(list []LearnedWithheld) WithholdingMemory {
	m.pods, m.pools = map[string]withheldPart{}, map[string]withheldPart{}
	for _, x := range list {
		if x.Pool != "" {
			m.pools[x.Pool] = x.withheldPart
		} else {
			m.pods[x.Pod] = x.withheldPart
		}
	}
	return m
}

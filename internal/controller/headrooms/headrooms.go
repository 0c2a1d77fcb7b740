// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package headrooms reconciles Headrooms: it computes the capacity that each one holds (package headroom), and writes
// it as CapacityBuffers, which decide/buffers.go turns into demand.
//
// It launches nothing itself, and reads the last Snapshot, so the loop never waits for it. Start reading at
// Keeper.Run, then look.
package headrooms

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Loop is the part of the controller's loop that a Keeper uses.
type Loop interface {
	// LastSnapshot returns the Snapshot of the last decision; nil: no decision yet.
	LastSnapshot() *model.Snapshot
	// Event records an event on an object.
	Event(kind, namespace, name, uid string, warn bool, reason, message string)
}

// Store reads and writes Headrooms and the CapacityBuffers that they own. It is used by one goroutine only.
type Store interface {
	List() []headroom.Object  // sorted by namespace and name
	Changed() <-chan struct{} // a Headroom was created, changed or deleted
	Scaled() <-chan struct{}  // the replicas of a workload were changed
	// Targets returns a headroom.Problem if the spec is invalid.
	Targets(context.Context, *headroom.Spec) ([]headroom.Target, error)
	WriteBuffers(context.Context, *headroom.Spec, []headroom.Hold) error
	WriteStatus(context.Context, *headroom.Status) error
}

// Histories provides the recorded demand of workloads.
type Histories interface {
	// History returns a copy of a workload's history; nil: none.
	History(model.Workload) *forecast.History
	// IsAwaited reports whether the stored history of a workload has not been read completely.
	IsAwaited(model.Workload, time.Time) bool
}

// Keeper holds capacity ahead of demand. It evaluates each Headroom once a minute, when it changes, when a window opens or closes,
// and when one of its workloads is scaled. It only writes CapacityBuffers, for which the loop launches nodes.
type Keeper struct {
	loop      Loop
	store     Store
	histories Histories
	log       *slog.Logger
	loadZone  func(string) (*time.Location, error)
	leads     leadTimes
	kept      map[string]*keptHeadroom // by namespace/name

	mu       sync.Mutex
	statuses map[string]*headroom.Status // by namespace/name, for whoever asks why
}

// keptHeadroom is what is known of one Headroom from look to look.
type keptHeadroom struct {
	uid        string
	generation int64
	mem        headroom.Memory
	names      []headroom.WorkloadName // of its targets, when they were last read
	due        time.Time
	told       string // condition Holding as it was last logged
}

// New returns a Keeper of the Headrooms in a store. Run starts it.
func New(loop Loop, store Store, histories Histories, log *slog.Logger, loadZone func(string) (*time.Location, error)) *Keeper {
	return &Keeper{
		loop: loop, store: store, histories: histories, log: log, loadZone: loadZone,
		leads: leadTimes{}, kept: map[string]*keptHeadroom{}, statuses: map[string]*headroom.Status{},
	}
}

const (
	// lookPause is the least time between two looks: a burst of changes is one.
	lookPause = 50 * time.Millisecond
	// retryAfter is how soon a Headroom is looked at again after a call has failed.
	retryAfter = 5 * time.Second
)

// Run maintains Headrooms until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		next := now.Add(lookPause)
		if snap := k.loop.LastSnapshot(); snap != nil {
			next = k.lookAll(ctx, now, snap)
		}
		if !k.wait(ctx, next) {
			return
		}
	}
}

// wait waits until an instant, or until something has changed; it makes what that concerns due. It returns false when
// the context has ended.
func (k *Keeper) wait(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-k.store.Changed(): // lookAll sees which
	case <-k.store.Scaled():
		for _, h := range k.kept {
			if h.mem.IsHolding() {
				h.due = time.Time{}
			}
		}
	}
	pause := time.NewTimer(lookPause)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-pause.C:
		return true
	}
}

// lookAll looks at all Headrooms that are due, and returns when the next one is.
func (k *Keeper) lookAll(ctx context.Context, now time.Time, snap *model.Snapshot) time.Time {
	k.leads.observe(snap.Claims)
	list := k.store.List()
	there := map[string]bool{}
	var due []*headroom.Object
	for i := range list {
		o := &list[i]
		there[o.Key()] = true
		h := k.kept[o.Key()]
		if h == nil || h.uid != o.UID {
			h = &keptHeadroom{uid: o.UID, mem: o.Kept}
			k.kept[o.Key()] = h
		}
		if h.generation != o.Generation || !now.Before(h.due) {
			due = append(due, o)
		}
	}
	k.forget(there)
	targets := k.readTargets(ctx, now, due)
	twice := k.onOneWorkload(list)
	var pods *seenPods
	for _, o := range due {
		if t, ok := targets[o.Key()]; ok {
			if pods == nil {
				pods = lookAtPods(snap)
			}
			k.look(ctx, now, pods, o, t, twice[o.Key()])
		}
	}
	next := now.Add(headroom.LookEvery)
	for _, h := range k.kept {
		if h.due.Before(next) {
			next = h.due
		}
	}
	return next
}

// forget drops what is known of Headrooms that are gone.
func (k *Keeper) forget(there map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.kept {
		if !there[key] {
			delete(k.kept, key)
			delete(k.statuses, key)
		}
	}
}

// targetsOf are the targets of one Headroom, and what is wrong with them.
type targetsOf struct {
	list    []headroom.Target
	problem *headroom.Problem
}

// readTargets reads the targets of Headrooms. One whose targets can't be read now is left out, and looked at again
// soon.
func (k *Keeper) readTargets(ctx context.Context, now time.Time, due []*headroom.Object) map[string]targetsOf {
	out := map[string]targetsOf{}
	for _, o := range due {
		h := k.kept[o.Key()]
		list, err := k.store.Targets(ctx, &o.Spec)
		t := targetsOf{list: list}
		var problem headroom.Problem
		if errors.As(err, &problem) {
			t.problem = &problem
		} else if err != nil {
			k.failed(ctx, o, err)
			h.due = now.Add(retryAfter)
			continue
		}
		h.names = nil
		for _, x := range list {
			h.names = append(h.names, x.WorkloadName)
		}
		out[o.Key()] = t
	}
	return out
}

func (k *Keeper) failed(ctx context.Context, o *headroom.Object, err error) {
	if ctx.Err() == nil {
		k.log.Warn("evaluating a Headroom failed, trying again", "headroom", o.Key(), "error", err.Error())
	}
}

// onOneWorkload returns by namespace/name what keeps a Headroom from its target: another one is for it too.
func (k *Keeper) onOneWorkload(list []headroom.Object) map[string]*headroom.Problem {
	var specs []*headroom.Spec
	var names [][]headroom.WorkloadName
	for i := range list {
		specs, names = append(specs, &list[i].Spec), append(names, k.kept[list[i].Key()].names)
	}
	out := map[string]*headroom.Problem{}
	for i, p := range headroom.OnOneWorkload(specs, names) {
		if p != nil {
			out[specs[i].Key()] = p
		}
	}
	return out
}

// look decides on one Headroom and has written what follows.
func (k *Keeper) look(ctx context.Context, now time.Time, pods *seenPods, o *headroom.Object, t targetsOf, twice *headroom.Problem) {
	h := k.kept[o.Key()]
	status := &headroom.Status{Spec: &o.Spec, Problems: slices.Clone(o.Problems)}
	compiled, problems := headroom.Compile(o.Spec, k.loadZone)
	status.Problems = append(status.Problems, problems...)
	for _, p := range []*headroom.Problem{t.problem, twice} {
		if p != nil {
			status.Problems = append(status.Problems, *p)
		}
	}
	in := headroom.Input{Now: now}
	var pools []string
	for _, target := range t.list {
		w, from := k.workload(now, pods, target)
		pools = append(pools, from...)
		status.Problems = append(status.Problems, compiled.CheckWorkload(&w)...)
		in.Workloads = append(in.Workloads, w)
	}
	in.Lead = k.leads.of(pools)
	status.Lead, status.Memory = in.Lead, headroom.Memory{At: now, Days: h.mem.Days}
	h.due = now.Add(headroom.LookEvery)
	if len(status.Problems) == 0 {
		status.Output, status.Memory = headroom.Decide(compiled, in, h.mem)
		h.due = status.Output.Look
	}
	var holds []headroom.Hold
	if o.Mode == headroom.Active {
		holds = status.Output.Holds
	}
	err := k.store.WriteBuffers(ctx, &o.Spec, holds)
	if err == nil {
		h.mem, h.generation = status.Memory, o.Generation
		k.tell(o, status)
		err = k.store.WriteStatus(ctx, status)
	}
	if err != nil {
		k.failed(ctx, o, err)
		h.due = now.Add(retryAfter)
	}
	k.mu.Lock()
	k.statuses[o.Key()] = status
	k.mu.Unlock()
}

// workload is a target with its prices and its history.
func (k *Keeper) workload(now time.Time, v *seenPods, t headroom.Target) (headroom.Workload, []string) {
	name := model.Workload{Namespace: t.Namespace, Kind: t.Kind, Name: t.Name}
	w := headroom.Workload{WorkloadName: t.WorkloadName, Replicas: t.Replicas, Bound: v.bound[name]}
	class := cmp.Or(v.classes[name], t.Class)
	w.HistoryAwaited = k.histories.IsAwaited(name, now) // asked first: it may be read in between
	w.History = k.histories.History(name)
	if class == nil {
		return w, nil
	}
	w.Requests, w.Priority = class.Requests, class.Priority
	var pools []string
	w.Prices, pools = headroom.Machines(v.snap.Pools, v.snap.Daemons, class)
	return w, pools
}

// seenPods is what pods say of the workloads that have any.
type seenPods struct {
	snap    *model.Snapshot
	classes map[model.Workload]*model.Class // of a pod of each. A pod knows its priority; a template may only name a class of them
	bound   map[model.Workload]int          // of each, the pods on a node that have not ended
}

// lookAtPods finds a pod of each workload, the last by name, and counts those on a node.
func lookAtPods(snap *model.Snapshot) *seenPods {
	out := &seenPods{snap: snap, classes: map[model.Workload]*model.Class{}, bound: map[model.Workload]int{}}
	look := func(list []*model.Pod, bound int) {
		for _, p := range list {
			counts := 0
			if p.Deleting.IsZero() && !p.Terminal {
				counts = bound
			}
			owner := model.Workload{Namespace: p.Namespace, Kind: p.Owner.Kind, Name: p.Owner.Name}
			out.classes[owner] = p.Class
			out.bound[owner] += counts
			if p.Deployment != "" {
				owner = model.Workload{Namespace: p.Namespace, Kind: "Deployment", Name: p.Deployment}
				out.classes[owner] = p.Class
				out.bound[owner] += counts
			}
		}
	}
	for _, n := range snap.Nodes {
		look(n.Pods, 1)
	}
	look(snap.Pending, 0)
	return out
}

// tell logs what is held when that has changed, and has events written about spikes.
func (k *Keeper) tell(o *headroom.Object, s *headroom.Status) {
	h := k.kept[o.Key()]
	for _, c := range s.Conditions() {
		if text := c.Reason + ": " + c.Message; c.Type == "Holding" && text != h.told {
			h.told = text
			k.log.Info("headroom status changed", "headroom", o.Key(), "mode", string(o.Mode), "held", s.Output.Held, "usdPerHour", model.Dollars(s.Output.Micro), "message", c.Message)
		}
	}
	if o.Mode != headroom.Active {
		return
	}
	for _, e := range s.Output.Events {
		k.loop.Event("Headroom", o.Namespace, o.Name, o.UID, e.Kind == headroom.SpikeMissed, string(e.Kind), e.Text())
	}
}

// Explain returns the details of a Headroom; subject is headroom/NAMESPACE/NAME.
func (k *Keeper) Explain(subject string, now time.Time) (plan.Answer, error) {
	a := plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
	_, key, _ := strings.Cut(subject, "/")
	k.mu.Lock()
	s := k.statuses[key]
	k.mu.Unlock()
	if s == nil {
		return a, &plan.NoSuchObject{Kind: "headroom", Subject: subject}
	}
	for _, f := range s.Facts() {
		a.Facts = append(a.Facts, plan.Fact{Name: f.Name, Value: f.Value})
	}
	return a, nil
}

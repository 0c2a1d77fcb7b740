// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// batchWindows say when demand is decided on: when no pod has come for a moment, so that those made together get one
// plan. Every namespace has a window of its own, so that a tenant who keeps making pods keeps nobody else's waiting.
// Pods of namespaces without an open window are decided on with whichever window closes first. Only the loop uses it.
type batchWindows struct {
	config        Config
	state         *state.State
	schedulerWait time.Duration // see decide.Policy.SchedulerWait

	byNamespace map[string]*batchWindow // "": for what is no namespace's, such as virtual pods
	seen        state.ChangeCounts
	solved      time.Time // when demand was last decided on
}

// batchWindow is the adaptive batch window over the demand of one namespace.
type batchWindow struct {
	first, last time.Time // of the demand not yet decided on, and of that which was not foreseen; zero: none
	idle        time.Duration
	streamed    time.Time // when a plan was last part of a stream
	since       time.Time // for how many pods was bought since then,
	bought      int
	before      int // and in the second before
}

func newBatchWindows(config Config, s *state.State, schedulerWait time.Duration) *batchWindows {
	return &batchWindows{config: config, state: s, schedulerWait: schedulerWait, byNamespace: map[string]*batchWindow{}}
}

// demandLook reports whether to look at demand.
type demandLook struct {
	solve     bool
	open      map[string]bool // if so, namespaces that are not to be decided on, for more of their pods are on their way
	streaming map[string]bool // and those that are, though more are on their way
	next      time.Time       // when to look if nothing happens; zero: never
}

// check reports whether to decide on demand now, and closes the batch windows of the namespaces that are decided on.
func (b *batchWindows) check(now time.Time) demandLook {
	b.takeChanges(now)
	unseen := b.state.ListUnseen(now.Add(-b.schedulerWait))
	look := demandLook{open: map[string]bool{}, streaming: map[string]bool{}}
	for namespace, w := range b.byNamespace {
		if w.first.IsZero() {
			continue
		}
		due, more := w.due(b.config, unseen[namespace].Add(b.schedulerWait))
		if now.Before(due) {
			look.open[namespace] = true
			if look.next.IsZero() || due.Before(look.next) {
				look.next = due
			}
			continue
		}
		w.close()
		look.solve = true
		if more && b.state.CountPendingIn(namespace) >= stream {
			look.streaming[namespace] = true
		}
	}
	maps.DeleteFunc(b.byNamespace, func(_ string, w *batchWindow) bool { return w.isForgotten(b.config, now) })
	if look.solve {
		b.solved = now
		return look
	}
	if len(look.open) > 0 {
		return demandLook{next: look.next}
	}
	if b.state.CountPending() == 0 {
		return demandLook{}
	}
	if again := b.solved.Add(b.config.RetryAfter); now.Before(again) {
		return demandLook{next: again}
	}
	b.solved = now
	return demandLook{solve: true}
}

// takeChanges opens the windows of what has come since the last call.
func (b *batchWindows) takeChanges(now time.Time) {
	for namespace, unforeseen := range b.state.TakeDemandChanges() {
		w := b.window(namespace)
		if w.first.IsZero() {
			w.first = now
		}
		// Pods that were foreseen are bought for with those before them. Nothing waits for more of them, and they wait for nothing.
		if unforeseen {
			w.last = now
		}
	}
	if counts := b.state.ChangeCounts(); counts != b.seen {
		b.reopen(now)
		b.seen = counts
	}
}

// reopen has all pending pods decided on again soon, those of namespaces with an open window when that closes. It
// returns when the first of the others are.
func (b *batchWindows) reopen(now time.Time) (due time.Time) {
	open := false
	for namespace := range b.state.ListPendingNamespaces() {
		b.window(namespace)
	}
	for namespace, w := range b.byNamespace {
		if w.first.IsZero() && b.state.CountPendingIn(namespace) == 0 {
			continue
		}
		open = true
		if w.first.IsZero() {
			w.first = now
		}
		if w.last.IsZero() {
			w.last = now
		}
		if at := w.last.Add(max(w.idle, b.config.Idle)); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	if !open {
		w := b.window("")
		w.first, w.last = now, now
		due = now.Add(max(w.idle, b.config.Idle))
	}
	return due
}

// closeAll closes all windows, and reports whether there was an open one.
func (b *batchWindows) closeAll(now time.Time) (wereOpen bool) {
	for _, w := range b.byNamespace {
		wereOpen = wereOpen || !w.first.IsZero()
		w.close()
	}
	b.solved = now
	return wereOpen
}

// window returns that of a namespace.
func (b *batchWindows) window(namespace string) *batchWindow {
	w := b.byNamespace[namespace]
	if w == nil {
		w = &batchWindow{}
		b.byNamespace[namespace] = w
	}
	return w
}

// due is when the window closes, and whether more pods are on their way then. Until an instant kube-scheduler may still
// say of the last of them whether there is a node for it.
func (w *batchWindow) due(cfg Config, verdict time.Time) (due time.Time, more bool) {
	limit := w.first.Add(cfg.Max)
	if w.last.IsZero() {
		return limit, false
	}
	due = w.last.Add(max(w.idle, cfg.Idle))
	if due.Before(verdict) { // one plan for all of a batch is cheaper than many
		due = verdict
	}
	if limit.Before(due) {
		return limit, true
	}
	return due, false
}

func (w *batchWindow) close() { w.first, w.last = time.Time{}, time.Time{} }

// isForgotten reports whether nothing is remembered of a window.
func (w *batchWindow) isForgotten(cfg Config, now time.Time) bool {
	return w.first.IsZero() && w.idle == 0 && w.bought+w.before == 0 && now.Sub(w.since) > cfg.Max
}

// adaptTo has streams of demand decided on in fewer and larger plans.
func (b *batchWindows) adaptTo(now time.Time, p plan.Plan) {
	bought := map[string]int{}
	for _, d := range p.Pods {
		if d.Outcome == plan.OnNew {
			bought[d.Pod.Namespace]++
			b.window(d.Pod.Namespace)
		}
	}
	for namespace, w := range b.byNamespace {
		w.adaptTo(b.config, now, bought[namespace])
	}
}

// adaptTo has a stream of demand decided on in fewer and larger plans. A pod after a quiet second is decided on at once, and so is one
// among few.
func (w *batchWindow) adaptTo(cfg Config, now time.Time, bought int) {
	if now.Sub(w.since) > cfg.Max {
		w.before = 0
		if now.Sub(w.since) <= 2*cfg.Max {
			w.before = w.bought
		}
		w.since, w.bought = now, 0
	}
	w.bought += bought
	if w.before+w.bought >= stream {
		w.streamed, w.idle = now, min(4*max(w.idle, cfg.Idle), cfg.Max)
	} else if now.Sub(w.streamed) > cfg.Max {
		w.idle = 0
	}
}

// stream is how many pods must be bought for in about a second to be taken for a stream.
const stream = 20

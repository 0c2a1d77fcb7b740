// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// LastSnapshot returns the Snapshot that was decided on last; nil: nothing was decided yet. It may be called from anywhere.
func (c *Controller) LastSnapshot() *model.Snapshot {
	if v := c.view.Load(); v != nil {
		return v.Snap
	}
	return nil
}

// Event tells the people who watch an object; in shadow mode nobody.
func (c *Controller) Event(kind, namespace, name, uid string, warn bool, reason, message string) {
	c.Cluster.Event(kind, namespace, name, uid, warn, reason, message)
}

// Headrooms answer for objects of kind Headroom, which decide knows nothing of.
type Headrooms interface {
	Explain(subject string, now time.Time) (plan.Answer, error)
}

// explainObject asks decide, or who knows of the object.
func (c *Controller) explainObject(v *view.View, now time.Time, subject string) (plan.Answer, error) {
	if c.Headrooms != nil && strings.HasPrefix(subject, "headroom/") {
		return c.Headrooms.Explain(subject, now)
	}
	if strings.HasPrefix(subject, "deployment/") {
		return c.explainDeployment(v, now, subject)
	}
	return explain.Why(v.Snap, v.Mem, now, c.Policy, subject)
}

// Explain answers Why with what was decided about the object before. Of an object that is gone that is all, and its end is among it; one that the
// ledger doesn't know either is a *plan.NoSuchObject. It may be called from anywhere.
func (c *Controller) Explain(ctx context.Context, subject string) (report.Why, error) {
	a, err := c.Why(ctx, subject)
	out := report.Why{Answer: a, Decided: c.Ledger.All(ledger.About(subject, append(a.Related, c.Ledger.Machine(subject)...)))}
	var none *plan.NoSuchObject
	if errors.As(err, &none) && len(out.Decided) > 0 {
		out.Gone, err = true, nil
	}
	return out, err
}

// History returns what is known of a subject, empty for all, since so long ago. Of what the cluster doesn't have and nothing is
// known of at all, the error is a *plan.NoSuchObject. It may be called from anywhere.
func (c *Controller) History(ctx context.Context, subject string, since time.Duration) (*report.History, error) {
	now := time.Now()
	h := &report.History{Since: now.Add(-since), Until: now, Subject: subject}
	if cost, err := c.HourlyCost(ctx); err == nil { // else it is not known yet
		h.Now = &cost
	}
	var about func(ledger.Entry) bool
	if subject != "" {
		about = ledger.About(subject, c.Ledger.Machine(subject))
	}
	h.Entries = c.Ledger.Past().Entries(h.Since, about)
	if len(h.Entries) == 0 && subject != "" && len(c.Ledger.All(about)) == 0 {
		var none *plan.NoSuchObject
		if _, err := c.Why(ctx, subject); errors.As(err, &none) {
			return nil, fmt.Errorf("%w, and nothing was decided about one in the last week", none)
		}
	}
	return h, nil
}

// Why says what is in the way of an object now; see explain.Why. It may be called from anywhere and does its work in the caller's goroutine,
// one after another: the loop does not wait for it.
func (c *Controller) Why(ctx context.Context, subject string) (plan.Answer, error) {
	v, done, err := c.openView(ctx)
	if err != nil {
		return plan.Answer{}, err
	}
	defer done()
	now := time.Now()
	a, err := c.explainObject(v, now, subject)
	if p := c.findEndedPod(ctx, subject, err); p != nil {
		a, err = explain.WhyEnded(p, now), nil
	}
	if d := c.passive.Load(); d != nil && err == nil {
		a.Facts = slices.Insert(a.Facts, 0, plan.Fact{Name: "standing down", Value: "nothing is launched or disrupted while another autoscaler is running: " + strings.Join(d.others, "; ")})
	}
	return a, err
}

// findEndedPod returns the pod that is asked about where decide knows nothing of it, because it has ended or is being
// deleted; nil: it is not there.
func (c *Controller) findEndedPod(ctx context.Context, subject string, err error) *model.Pod {
	var none *plan.NoSuchObject
	key, isPod := strings.CutPrefix(subject, "pod/")
	if !isPod || !errors.As(err, &none) {
		return nil
	}
	p, err := askLoop(ctx, c.changes, func(s *state.State) *model.Pod { return s.FindPod(key) })
	if err != nil || p == nil || !p.Terminal && p.Deleting.IsZero() {
		return nil
	}
	return p
}

// errNotSynced answers who asks before the first list of all objects is there.
var errNotSynced = errors.New("the cluster is not known yet: ask again in a moment")

// Look returns the cluster as the controller sees it now. It may be called from anywhere.
func (c *Controller) Look(ctx context.Context) (*model.Snapshot, error) {
	if !c.synced.Load() {
		return nil, errNotSynced
	}
	return askLoop(ctx, c.changes, func(s *state.State) *model.Snapshot { return s.Snapshot(time.Now()) })
}

// openView returns what is to be explained, for one caller at a time until it calls done.
func (c *Controller) openView(ctx context.Context) (v *view.View, done func(), err error) {
	if !c.synced.Load() {
		return nil, nil, errNotSynced
	}
	select {
	case c.asking <- struct{}{}:
		done = func() { <-c.asking }
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if v = c.view.Load(); v == nil { // nothing has been decided here: this is not the leader, and only what it sees can be told
		if v, err = askLoop(ctx, c.changes, func(s *state.State) *view.View { return &view.View{Policy: c.Policy, Snap: s.Snapshot(time.Now())} }); err != nil {
			done()
			return nil, nil, err
		}
	}
	return v, done, nil
}

// HourlyCost is what all nodes of NodePools cost now, in micro-dollars an hour, as the ledger counts them. It may be called
// from anywhere.
func (c *Controller) HourlyCost(ctx context.Context) (int64, error) {
	if !c.synced.Load() {
		return 0, errNotSynced
	}
	return askLoop(ctx, c.changes, func(s *state.State) int64 { return c.recorder.HourlyCost(s.Snapshot(time.Now())) })
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package answer answers queries to a running controller: the state and blockers of an object, the reasons of pending
// pods, and past decisions.
//
// It runs in the caller's goroutine, on the results of the loop's last step, so the loop never waits for it. Start
// reading at Answers.Explain.
package answer

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
)

// Loop is the controller's loop, of which one may ask these questions from anywhere.
type Loop interface {
	// View returns what the last step saw and remembers, or what is seen where nothing has been decided; an error before the
	// cluster is known.
	View(context.Context) (*view.View, error)
	// FindPod returns a pod by namespace and name, also one that has ended; nil: there is none.
	FindPod(ctx context.Context, key string) (*model.Pod, error)
	// HourlyCost returns what all nodes of NodePools cost now, in micro-dollars an hour, as the ledger counts them.
	HourlyCost(context.Context) (int64, error)
	// StandsDownFor returns the autoscalers because of which nothing is launched or disrupted, for people.
	StandsDownFor() []string
}

// Headrooms answer for objects of kind Headroom, which decide knows nothing of.
type Headrooms interface {
	Explain(subject string, now time.Time) (plan.Answer, error)
}

// Answers is what answers. All of it may be asked from anywhere.
type Answers struct {
	Headrooms Headrooms // nil: nobody sees to Headrooms here

	loop   Loop
	ledger *ledger.Ledger
	asking chan struct{} // those who ask at once: the loop needs a processor too
}

// New returns what answers for a loop.
func New(loop Loop, decided *ledger.Ledger) *Answers {
	return &Answers{loop: loop, ledger: decided, asking: make(chan struct{}, 1)}
}

// Explain answers Why with what was decided about the object before. Of an object that is gone that is all, and its end is among it; one that the
// ledger doesn't know either is a *plan.NoSuchObject.
func (an *Answers) Explain(ctx context.Context, subject string) (report.Why, error) {
	a, err := an.Why(ctx, subject)
	out := report.Why{Answer: a, Decided: an.ledger.All(ledger.About(subject, append(a.Related, an.ledger.Machine(subject)...)))}
	var none *plan.NoSuchObject
	if errors.As(err, &none) && len(out.Decided) > 0 {
		out.Gone, err = true, nil
	}
	return out, err
}

// History returns the ledger entries of the last since about subject, or all entries of that time if subject is empty.
// If the object does not exist and has no entries, it returns a *plan.NoSuchObject error.
func (an *Answers) History(ctx context.Context, subject string, since time.Duration) (*report.History, error) {
	now := time.Now()
	h := &report.History{Since: now.Add(-since), Until: now, Subject: subject}
	if cost, err := an.loop.HourlyCost(ctx); err == nil { // else it is not known yet
		h.Now = &cost
	}
	var about func(ledger.Entry) bool
	if subject != "" {
		about = ledger.About(subject, an.ledger.Machine(subject))
	}
	h.Entries = an.ledger.Past().Entries(h.Since, about)
	if len(h.Entries) == 0 && subject != "" && len(an.ledger.All(about)) == 0 {
		var none *plan.NoSuchObject
		if _, err := an.Why(ctx, subject); errors.As(err, &none) {
			return nil, fmt.Errorf("%w, and there are no decisions about it in the last week", none)
		}
	}
	return h, nil
}

// Why says what is in the way of an object now; see explain.Why. Callers are answered one after another.
func (an *Answers) Why(ctx context.Context, subject string) (plan.Answer, error) {
	v, done, err := an.openView(ctx)
	if err != nil {
		return plan.Answer{}, err
	}
	defer done()
	now := time.Now()
	var a plan.Answer
	if an.Headrooms != nil && strings.HasPrefix(subject, "headroom/") {
		a, err = an.Headrooms.Explain(subject, now)
	} else {
		a, err = explain.Why(v.Snap, v.Mem, now, v.Policy, subject)
	}
	if other, is := explainLeft(v, subject, now); is && err != nil {
		a, err = other, nil
	}
	if p := an.findEndedPod(ctx, subject, err); p != nil {
		a, err = explain.WhyEnded(p, now), nil
	}
	if others := an.loop.StandsDownFor(); len(others) > 0 && err == nil {
		a.Facts = slices.Insert(a.Facts, 0, plan.Fact{Name: "passive", Value: "nothing is launched or disrupted while another autoscaler is running: " + strings.Join(others, "; ")})
	}
	return a, err
}

// explainLeft answers for what another autoscaler decides on: its NodePools, and pending pods that they can launch nodes for. False: it is neither.
func explainLeft(v *view.View, subject string, now time.Time) (plan.Answer, bool) {
	a := plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
	kind, name, _ := strings.Cut(subject, "/")
	switch manager, is := v.Theirs[name]; {
	case kind == "nodepool" && is:
		a.Facts = append(a.Facts, plan.Fact{Name: "managed by", Value: manager + "; Dovetail launches and removes no nodes of this NodePool"})
		return a, true
	case kind == "pod":
		for _, p := range v.Left {
			if p.Key() == name {
				a.Facts = append(a.Facts, plan.Fact{Name: "state", Value: "pending since " + p.Created.UTC().Format(time.RFC3339)}, plan.Fact{Name: "waits for", Value: leftTo(v)})
				return a, true
			}
		}
	}
	return a, false
}

// leftTo says who launches nodes for the pods that a View leaves out.
func leftTo(v *view.View) string {
	return "a node of a NodePool that " + v.Managers() + " manages; Dovetail launches none for it"
}

// findEndedPod returns the pod that is asked about where decide knows nothing of it, because it has ended or is being
// deleted; nil: it is not there.
func (an *Answers) findEndedPod(ctx context.Context, subject string, err error) *model.Pod {
	var none *plan.NoSuchObject
	key, isPod := strings.CutPrefix(subject, "pod/")
	if !isPod || !errors.As(err, &none) {
		return nil
	}
	p, err := an.loop.FindPod(ctx, key)
	if err != nil || p == nil || !p.Terminal && p.Deleting.IsZero() {
		return nil
	}
	return p
}

// openView returns what is to be explained, for one caller at a time until it calls done.
func (an *Answers) openView(ctx context.Context) (v *view.View, done func(), err error) {
	select {
	case an.asking <- struct{}{}:
		done = func() { <-an.asking }
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if v, err = an.loop.View(ctx); err != nil {
		done()
		return nil, nil, err
	}
	return v, done, nil
}

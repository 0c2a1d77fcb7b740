// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// InFlight contains the actions that were begun and whose effect the watch has not shown yet. While an action is in flight, the
// Snapshot reports it and decide does not repeat it. A failed action stays in flight until it may be retried. Actions are
// identified by their key (plan.Action).
//
// If an action succeeds and is begun again unchanged soon after, its effect was undone by another writer or by an admission policy.
// It is repeated with increasing delay, so that two conflicting writers do not overload the API server. The same applies to two
// changes that undo each other if what one of them wrote to another object is undone.
type InFlight struct {
	actions  map[model.ActionKey]*action
	versions map[Object]uint64             // resource version last seen
	recent   map[model.ActionKey][]*change // made of late, each with another content
}

// action is one that was begun.
type action struct {
	object   Object // that shows the effect; empty: none does
	version  uint64 // of the object, to wait for once answered; 0: none
	answered bool
	until    time.Time // it ends then, whatever happened
	failures int       // in a row
	since    time.Time // of the first of these failures
	message  string    // of the last
	change   *change   // what it writes; nil: not compared with those before
	held     bool      // it succeeded and was undone too often: it stays in flight until then though its effect is seen
}

// change is what an action wrote into an object.
type change struct {
	content plan.Action // without its reason
	object  Object
	undone  int       // how often it was, in a row
	since   time.Time // of the first time that it was made
	at      time.Time // when it was made last, by its answer, or is to be tried again
}

const (
	freeRepeats   = 3                // an action may be undone so often before it is repeated more rarely
	undoneRetry   = time.Second      // then after this, and twice as long each time
	longestUndone = 30 * time.Second // at most: other changes of the object wait, too
	undoneKept    = 5 * time.Second  // one that need not be repeated so soon begins anew
	mostRecent    = 4                // changes compared by key
)

// isOver reports whether a change that is made again at an instant was not undone at once.
func (c *change) isOver(now time.Time) bool { return now.Sub(c.at) >= c.pause()+undoneKept }

// pause is how long an action is not repeated after it succeeded.
func (c *change) pause() time.Duration {
	if c.undone <= freeRepeats {
		return 0
	}
	return model.Backoff(undoneRetry, c.undone-freeRepeats-1, longestUndone)
}

// Object identifies an object whose resource version shows the effect of an action. The empty Object identifies none.
type Object string

// ClaimObject returns the Object of a NodeClaim.
func ClaimObject(name string) Object { return Object("claim/" + name) }

// NodeObject returns the Object of a node.
func NodeObject(name string) Object { return Object("node/" + name) }

func newInFlight() *InFlight {
	return &InFlight{actions: map[model.ActionKey]*action{}, versions: map[Object]uint64{}, recent: map[model.ActionKey][]*change{}}
}

// BeginAction records that an action is about to be carried out. object is the object that will show its effect. Without further
// calls, the action is forgotten at until.
func (f *InFlight) BeginAction(key model.ActionKey, object Object, until time.Time) {
	a := f.actions[key]
	if a == nil {
		a = &action{}
		f.actions[key] = a
	}
	a.object, a.answered, a.version, a.until, a.change, a.held = object, false, 0, until, nil, false
}

// compareWithRecent compares an action that has just been begun with the recent changes by its key.
func (f *InFlight) compareWithRecent(begun plan.Action, now time.Time) {
	content, object := contentOf(begun), objectOf(begun)
	if content == nil {
		return
	}
	c := &change{content: content, object: object, since: now}
	for _, was := range f.recent[begun.Key()] {
		if !was.isOver(now) && reflect.DeepEqual(was.content, content) {
			c.undone, c.since = was.undone+1, was.since
		}
	}
	f.actions[begun.Key()].change = c
}

// contentOf returns what an action writes into a NodeClaim or a Node, without the reason and the values of annotations, some of which
// say when they were written; nil for every other action.
func contentOf(action plan.Action) plan.Action {
	switch a := action.(type) {
	case plan.UpdateClaim:
		a.Why, a.Annotations = plan.Reason{}, withoutValues(a.Annotations)
		return a
	case plan.UpdateNode:
		a.Why, a.Annotations = plan.Reason{}, withoutValues(a.Annotations)
		return a
	}
	return nil
}

// withoutValues returns a change of annotations that says only which are set and which are removed.
func withoutValues(change map[string]string) map[string]string {
	out := maps.Clone(change)
	for k, v := range out {
		if v != plan.Unset {
			out[k] = ""
		}
	}
	return out
}

// RecordAnswer records that an action has succeeded now. version is the version of the object that shows its effect. If it is 0,
// the action ends when its object changes or disappears. In any case it ends at until.
func (f *InFlight) RecordAnswer(key model.ActionKey, version uint64, now, until time.Time) {
	a := f.actions[key]
	if a == nil {
		return
	}
	a.answered, a.version, a.until, a.failures, a.message = true, version, until, 0, ""
	if c := a.change; c != nil && version > 0 {
		c.at = now
		f.remember(key, c)
		if pause := c.pause(); pause > 0 {
			a.held, a.until = true, c.at.Add(pause)
			return
		}
	}
	if a.object != "" && version > 0 && f.versions[a.object] >= version {
		delete(f.actions, key)
	}
}

// remember remembers a change that was made, instead of the one before with its content.
func (f *InFlight) remember(key model.ActionKey, c *change) {
	list := slices.DeleteFunc(f.recent[key], func(o *change) bool { return reflect.DeepEqual(o.content, c.content) })
	if list = append(list, c); len(list) > mostRecent {
		list = list[1:]
	}
	f.recent[key] = list
}

// AwaitChange keeps an action in flight until its object changes, but not beyond until. It is used for actions that another process
// may carry out.
func (f *InFlight) AwaitChange(key model.ActionKey, until time.Time) {
	if a := f.actions[key]; a != nil {
		a.answered, a.version, a.until = true, f.versions[a.object]+1, until
	}
}

// RecordFailure records that an action failed, and keeps it in flight until the time that retry returns. retry receives the number
// of consecutive failures, which RecordFailure also returns.
func (f *InFlight) RecordFailure(key model.ActionKey, retry func(failures int) time.Time) int {
	a := f.actions[key]
	if a == nil {
		a = &action{}
		f.actions[key] = a
	}
	a.failures++
	a.answered, a.version, a.until = false, 0, retry(a.failures)
	if c := a.change; c != nil && c.undone > 0 { // it is still to be made, or was made and the answer lost: that it was undone before is not over
		was := *c
		was.undone, was.at = c.undone-1, a.until
		f.remember(key, &was)
	}
	return a.failures
}

// RestartFailures resets the failure count of an action, unless one of its failures was described. Failures without a description
// only mean that a prerequisite of the action was missing.
func (f *InFlight) RestartFailures(key model.ActionKey) {
	if a := f.actions[key]; a != nil && a.message == "" {
		a.failures = 0
	}
}

// DescribeFailure records the error of the call that failed last. Without it, only the number of failures is known.
func (f *InFlight) DescribeFailure(key model.ActionKey, message string, now time.Time) {
	if a := f.actions[key]; a != nil && a.failures > 0 {
		if a.failures == 1 || a.since.IsZero() {
			a.since = now
		}
		a.message = message
	}
}

// failed returns the calls that failed the last time and whose answer is known, by key.
func (f *InFlight) failed() map[model.ActionKey]model.CallFailure {
	var out map[model.ActionKey]model.CallFailure
	for key, a := range f.actions {
		if a.failures > 0 && a.message != "" {
			if out == nil {
				out = map[model.ActionKey]model.CallFailure{}
			}
			out[key] = model.CallFailure{Times: a.failures, Since: a.since, Message: a.message}
		}
	}
	return out
}

// undone returns the changes that are undone again and again, by key.
func (f *InFlight) undone() map[model.ActionKey]model.UndoneChange {
	var out map[model.ActionKey]model.UndoneChange
	for key, a := range f.actions {
		if a.held {
			if out == nil {
				out = map[model.ActionKey]model.UndoneChange{}
			}
			out[key] = model.UndoneChange{Times: a.change.undone, Since: a.change.since}
		}
	}
	return out
}

// EndAction removes an action. It does nothing if the action is not in flight.
func (f *InFlight) EndAction(key model.ActionKey) { delete(f.actions, key) }

// HasAction reports whether an action is in flight at now.
func (f *InFlight) HasAction(key model.ActionKey, now time.Time) bool {
	a := f.actions[key]
	return a != nil && a.until.After(now)
}

// isKnown reports whether an action is remembered, be its time over or not.
func (f *InFlight) isKnown(key model.ActionKey) bool { return f.actions[key] != nil }

// expireActions ends the actions whose time is over. It returns their keys, in no order, and when the next one's will
// be; zero: none is left. An action that failed keeps its count of failures for a minute, so that its pauses grow.
func (f *InFlight) expireActions(now time.Time) (ended []model.ActionKey, next time.Time) {
	for key, a := range f.actions {
		switch {
		case a.until.After(now):
			if next.IsZero() || a.until.Before(next) {
				next = a.until
			}
		case a.failures == 0 || now.Sub(a.until) >= time.Minute:
			delete(f.actions, key)
			ended = append(ended, key)
		}
	}
	maps.DeleteFunc(f.recent, func(_ model.ActionKey, list []*change) bool {
		return !slices.ContainsFunc(list, func(c *change) bool { return !c.isOver(now) })
	})
	return ended, next
}

// observeVersion takes in that an object was seen, which ends the actions that waited for this version.
func (f *InFlight) observeVersion(object Object, version uint64) {
	f.versions[object] = version
	for key, a := range f.actions {
		if a.object == object && a.answered && !a.held && version >= a.version {
			delete(f.actions, key)
		}
	}
}

// forgetObject takes in that an object is gone, which ends the actions on it.
func (f *InFlight) forgetObject(object Object) {
	delete(f.versions, object)
	for key, a := range f.actions {
		if a.object == object {
			delete(f.actions, key)
		}
	}
	maps.DeleteFunc(f.recent, func(_ model.ActionKey, list []*change) bool { return list[0].object == object })
}

// list returns until when each action is in flight, by key, of those that are at an instant.
func (f *InFlight) list(now time.Time) map[model.ActionKey]time.Time {
	out := map[model.ActionKey]time.Time{}
	for key, a := range f.actions {
		if a.until.After(now) {
			out[key] = a.until
		}
	}
	return out
}

// The keys of actions, as plan makes them, for those that end when their effect is seen.

func bindKey(pod string) model.ActionKey      { return plan.Bind{UID: pod}.Key() }
func evictKey(pod string) model.ActionKey     { return plan.Evict{UID: pod}.Key() }
func deletePodKey(pod string) model.ActionKey { return plan.DeletePod{UID: pod}.Key() }
func tolerateKey(pod, claim string) model.ActionKey {
	return plan.Tolerate{UID: pod, Claim: claim}.Key()
}
func createKey(claimName string) model.ActionKey { return plan.CreateClaim{Name: claimName}.Key() }
func launchKey(claim string) model.ActionKey     { return plan.LaunchClaim{UID: claim}.Key() }
func deleteKey(claim string) model.ActionKey     { return plan.DeleteClaim{UID: claim}.Key() }
func slotsKey(claim string) model.ActionKey {
	return plan.UpdateClaim{UID: claim, SetSlots: true}.Key()
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/record"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// nodeClasses gives node classes their finalizers and their status, and sees to their ends. Only the loop uses it.
type nodeClasses struct {
	*edges
	recorder *record.Recorder

	ends             map[string]*classEnd // by uid: node classes that are being deleted
	withoutFinalizer map[string]bool      // by uid: node classes whose finalizer may not be written
}

// classEnd is how far a node class that is being deleted has come.
type classEnd struct {
	asking bool
	done   bool // what was made for it is gone
	fails  int
	due    time.Time
	why    model.Condition // why it is still there; empty status: not known
}

// classEnder is the provider, where it makes things for node classes of this kind; nil: it does not.
func (nc *nodeClasses) classEnder(k *state.NodeClass) cloud.ClassEnder {
	if e, ok := cloud.As[cloud.ClassEnder](nc.provider); ok && e.EndsClasses(k.Group, k.Kind) {
		return e
	}
	return nil
}

// ensureFinalizer reports whether things may be made for a node class: it bears its finalizer by then, so that they go with it also when this process ends
// in between. Where the finalizer may not be written, that is told and it goes on without: machines matter more than what is left behind.
func (nc *nodeClasses) ensureFinalizer(now time.Time, k *state.NodeClass) bool {
	if k.HasFinalizer || nc.withoutFinalizer[k.UID] || nc.classEnder(k) == nil {
		return true
	}
	a := plan.UpdateNodeClass{Group: k.Group, Kind: k.Kind, Name: k.Name, UID: k.UID, AddFinalizer: true, Why: plan.Reason{Code: plan.Initializing}}
	if !nc.state.InFlight.HasAction(a.Key(), now) {
		nc.begin(now, a)
	}
	return false
}

// endNodeClasses gives node classes their finalizers, and sees to their ends: when no claim uses one any more, what was made for it is taken away
// and then its finalizer. It says when it has something to do next.
func (nc *nodeClasses) endNodeClasses(ctx context.Context, now time.Time, snap *model.Snapshot) time.Time {
	var next time.Time
	there := map[string]bool{}
	var users map[string][]string // claims by node class; nil while none is being deleted
	for _, k := range nc.state.Pools.ListNodeClasses() {
		if nc.classEnder(k) == nil {
			continue
		}
		if k.Deleting.IsZero() {
			nc.ensureFinalizer(now, k)
			continue
		}
		if !k.HasFinalizer {
			continue
		}
		there[k.UID] = true
		e := nc.ends[k.UID]
		if e == nil {
			e = &classEnd{}
			nc.ends[k.UID] = e
		}
		if users == nil {
			users = map[string][]string{}
			for _, cl := range snap.Claims {
				of := cl.ClassGroup + "/" + cl.ClassKind + "/" + cl.ClassName
				users[of] = append(users[of], cl.Name)
			}
		}
		switch by := users[k.Group+"/"+k.Kind+"/"+k.Name]; {
		case e.asking:
		case len(by) > 0:
			e.done, e.fails, e.due = false, 0, time.Time{}
			text := "it is being deleted and waits for NodeClaims that use it: " + nameFirst(by)
			e.why = model.Condition{Status: "False", Reason: "WaitingOnNodeClaimTermination", Message: text}
			if nc.recorder.IsNews(now, k.Kind+"/"+k.Name+" end", text) {
				nc.cluster.Event(k.Kind, "", k.Name, k.UID, false, "WaitingOnNodeClaimTermination", text)
			}
		case e.done:
			a := plan.UpdateNodeClass{Group: k.Group, Kind: k.Kind, Name: k.Name, UID: k.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Deleted}}
			if !nc.state.InFlight.HasAction(a.Key(), now) {
				nc.begin(now, a)
			}
		case now.Before(e.due):
			if next.IsZero() || e.due.Before(next) {
				next = e.due
			}
		default:
			nc.endNodeClass(ctx, now, k, e)
		}
		if e.why.Status != "" {
			nc.writeClassStatus(nc.state, k, cloud.ClassStatus{Conditions: map[string]model.Condition{"Ready": e.why}})
		}
	}
	for uid := range nc.ends {
		if !there[uid] {
			delete(nc.ends, uid)
		}
	}
	return next
}

// endNodeClass has the provider take away what was made for a node class.
func (nc *nodeClasses) endNodeClass(ctx context.Context, now time.Time, k *state.NodeClass, e *classEnd) {
	e.asking = true
	by, class := nc.classEnder(k), providerNodeClass(k)
	go func() {
		cctx, cancel := context.WithTimeout(ctx, nc.config.CallLimit)
		defer cancel()
		err := by.EndClass(cctx, class)
		if ctx.Err() != nil && err != nil {
			return // the loop has ended; whoever comes next asks again
		}
		nc.metrics.CountCall("EndClass", "", time.Since(now), err)
		nc.emit(func(*state.State) {
			now := time.Now()
			e.asking = false
			entry := ledger.Entry{At: now, Kind: "end", Subject: "nodeclass/" + k.Name, Why: []plan.Reason{{Code: plan.Deleted}}, Outcome: "done"}
			if err != nil {
				e.fails++
				e.due = now.Add(max(cloud.AfterOf(err), retryPause(e.fails, time.Second, time.Minute)))
				nc.log.Warn("cleaning up after a deleted node class failed, trying again", "nodeClass", k.Name, "kind", string(cloud.KindOf(err)), "error", err.Error())
				e.why = model.Condition{Status: "False", Reason: string(cloud.KindOf(err)), Message: "cleanup of its resources failed, trying again: " + err.Error()}
				if cloud.KindOf(err) == cloud.Denied {
					e.why.Reason = "AccessDenied"
				}
				if e.fails > 1 {
					return
				}
				entry.Outcome = "failed: " + err.Error()
			} else {
				e.done = true
				nc.log.Info("cleaned up after a deleted node class", "nodeClass", k.Name)
			}
			nc.ledger.Add(entry)
		})
	}()
}

// nameFirst names the first of many.
func nameFirst(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// writeClassStatus has a node class's status written where it differs from what the API server has.
func (nc *nodeClasses) writeClassStatus(s *state.State, class *state.NodeClass, status cloud.ClassStatus) {
	if now := s.Pools.FindNodeClass(class.Group, class.Kind, class.Name); now != nil && now.UID == class.UID {
		class = now // its status may have been written since it was asked about
	}
	differs := len(status.Status) > 0 && string(status.Status) != string(class.Status)
	for k, want := range status.Conditions {
		have := class.Conditions[k]
		differs = differs || have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
	}
	if !differs {
		return
	}
	a := plan.UpdateNodeClass{
		Group: class.Group, Kind: class.Kind, Name: class.Name, Conditions: status.Conditions, Status: status.Status, Why: plan.Reason{Code: plan.Initializing},
	}
	if !s.InFlight.HasAction(a.Key(), time.Now()) {
		nc.begin(time.Now(), a)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// classEnd is how far a node class that is being deleted has come.
type classEnd struct {
	asking bool
	done   bool // what was made for it is gone
	fails  int
	due    time.Time
	why    model.Condition // why it is still there; empty status: not known
}

// classEnder is the provider, where it makes things for node classes of this kind; nil: it does not.
func (c *Controller) classEnder(k *state.NodeClass) cloud.ClassEnder {
	if e, ok := cloud.As[cloud.ClassEnder](c.Provider); ok && e.EndsClasses(k.Group, k.Kind) {
		return e
	}
	return nil
}

// ensureFinalizer says whether things may be made for a node class: it bears its finalizer by then, so that they go with it also when this process ends
// in between. Where the finalizer may not be written, that is told and it goes on without: machines matter more than what is left behind.
func (c *Controller) ensureFinalizer(now time.Time, k *state.NodeClass) bool {
	if k.HasFinalizer || c.withoutFinalizer[k.UID] || c.classEnder(k) == nil {
		return true
	}
	a := plan.UpdateNodeClass{Group: k.Group, Kind: k.Kind, Name: k.Name, UID: k.UID, AddFinalizer: true, Why: plan.Reason{Code: plan.Initializing}}
	if !c.State.InFlight.HasAction(a.Key(), now) {
		c.beginAction(c.base, now, a)
	}
	return false
}

// endNodeClasses gives node classes their finalizers, and sees to their ends: when no claim uses one any more, what was made for it is taken away
// and then its finalizer. It says when it has something to do next.
func (c *Controller) endNodeClasses(ctx context.Context, now time.Time, snap *model.Snapshot) time.Time {
	var next time.Time
	there := map[string]bool{}
	var users map[string][]string // claims by node class; nil while none is being deleted
	for _, k := range c.State.Pools.ListNodeClasses() {
		if c.classEnder(k) == nil {
			continue
		}
		if k.Deleting.IsZero() {
			c.ensureFinalizer(now, k)
			continue
		}
		if !k.HasFinalizer {
			continue
		}
		there[k.UID] = true
		e := c.ends[k.UID]
		if e == nil {
			e = &classEnd{}
			c.ends[k.UID] = e
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
			if c.recorder.isNews(now, k.Kind+"/"+k.Name+" end", text) {
				c.Cluster.Event(k.Kind, "", k.Name, k.UID, false, "WaitingOnNodeClaimTermination", text)
			}
		case e.done:
			a := plan.UpdateNodeClass{Group: k.Group, Kind: k.Kind, Name: k.Name, UID: k.UID, RemoveFinalizer: true, Why: plan.Reason{Code: plan.Deleted}}
			if !c.State.InFlight.HasAction(a.Key(), now) {
				c.beginAction(c.base, now, a)
			}
		case now.Before(e.due):
			if next.IsZero() || e.due.Before(next) {
				next = e.due
			}
		default:
			c.endNodeClass(ctx, now, k, e)
		}
		if e.why.Status != "" {
			c.writeClassStatus(c.State, k, cloud.ClassStatus{Conditions: map[string]model.Condition{"Ready": e.why}})
		}
	}
	for uid := range c.ends {
		if !there[uid] {
			delete(c.ends, uid)
		}
	}
	return next
}

// endNodeClass has the provider take away what was made for a node class.
func (c *Controller) endNodeClass(ctx context.Context, now time.Time, k *state.NodeClass, e *classEnd) {
	e.asking = true
	by, nc := c.classEnder(k), providerNodeClass(k)
	go func() {
		cctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit)
		defer cancel()
		err := by.EndClass(cctx, nc)
		if ctx.Err() != nil && err != nil {
			return // the loop has ended; whoever comes next asks again
		}
		c.Metrics.countCall("EndClass", time.Since(now), err)
		c.Emit(func(*state.State) {
			now := time.Now()
			e.asking = false
			entry := ledger.Entry{At: now, Kind: "end", Subject: "nodeclass/" + k.Name, Why: []plan.Reason{{Code: plan.Deleted}}, Outcome: "done"}
			if err != nil {
				e.fails++
				e.due = now.Add(max(cloud.AfterOf(err), retryPause(e.fails, time.Second, time.Minute)))
				c.Log.Warn("what was made for a node class is not gone yet, will try again", "nodeClass", k.Name, "kind", string(cloud.KindOf(err)), "error", err.Error())
				e.why = model.Condition{Status: "False", Reason: string(cloud.KindOf(err)), Message: "it is being deleted, and what was made for it could not be: " + err.Error()}
				if cloud.KindOf(err) == cloud.Denied {
					e.why.Reason = "AccessDenied"
				}
				if e.fails > 1 {
					return
				}
				entry.Outcome = "failed: " + err.Error()
			} else {
				e.done = true
				c.Log.Info("what was made for a node class is gone with it", "nodeClass", k.Name)
			}
			c.Ledger.Add(entry)
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

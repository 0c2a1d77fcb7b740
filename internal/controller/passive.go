// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// passiveMode is what there is to know while other autoscalers are live: two that buy for the same pods buy twice.
type passiveMode struct {
	others       []string          // what is known of them, for people
	ownClaims    map[string]bool   // by uid: the claims that were there when the loop stopped acting; it sees them through. None where it never acted
	told         map[string]string // the pods that were told what would be bought for them: by uid, their key
	lastWithheld string            // what it would do, as last told
}

// setPassive makes the controller passive (stand down) while other autoscalers are running, and active again when others is
// empty. A passive controller launches and disrupts nothing, and sees only its own NodeClaims through.
func (c *Controller) setPassive(s *state.State, others []string) {
	now := time.Now()
	switch was := c.passive.Load(); {
	case was == nil && len(others) == 0 || was != nil && slices.Equal(was.others, others):
		return
	case len(others) == 0:
		c.passive.Store(nil)
		text := "no other autoscaler is running any more"
		if c.division != nil {
			text = "NodePools were taken over from the other autoscaler"
		}
		c.Log.Info(text+"; becoming active", "were", was.others)
		c.Ledger.Add(ledger.Entry{At: now, Kind: "act", Subject: "controller", Outcome: text})
		// The world was another's meanwhile: everything is looked at anew. What its machines have taught is true all the same.
		table := s.Resources()
		c.mem, c.batches = decide.Memory{}.WithLearned(c.mem.Learned(table.Names()), table.Dim), newBatchWindows(c.Config, c.State, c.Policy.SchedulerWait)
		c.offerings.refreshOfferings()
	case was != nil: // others than before, or more
		next := *was
		next.others = others
		c.passive.Store(&next)
		c.Log.Warn("passive: another autoscaler is running", "others", others)
	default:
		next := &passiveMode{others: others, ownClaims: map[string]bool{}, told: map[string]string{}}
		if c.acted {
			for _, cl := range s.Snapshot(now).Claims {
				if cl.UID != "" && !c.anothers[cl.UID] {
					next.ownClaims[cl.UID] = true
				}
			}
		}
		c.passive.Store(next)
		if c.stop != nil {
			c.stop()
			c.stop = nil
		}
		c.Log.Warn("passive: another autoscaler is running; decisions are not carried out", "others", others, "claimsSeenThrough", len(next.ownClaims))
		c.Ledger.Add(ledger.Entry{At: now, Kind: "stand down", Subject: "controller", Outcome: strings.Join(others, "; ")})
		for _, p := range s.Pools.ListPools() {
			c.Cluster.Event("NodePool", "", p.Name, p.UID, true, "StandingDown", "Nothing is launched or disrupted while another autoscaler is running: "+strings.Join(others, "; "))
		}
	}
	c.Metrics.SetOthersLive(len(others))
}

// runPassiveStep is runStep while others are live: it goes on with what it has in charge, and says what it would do beyond.
func (c *Controller) runPassiveStep(ctx context.Context, now time.Time, snap *model.Snapshot, d *passiveMode, solve bool) time.Time {
	next := time.Time{}
	mem := c.mem
	if len(d.ownClaims) > 0 {
		var out decide.Output
		out, mem = decide.Step(snap, c.mem, now, c.Policy, decide.Request{OngoingOnly: true, PassiveReason: strings.Join(d.others, "; ")})
		kept := out.Actions[:0]
		for _, a := range out.Actions {
			if d.allowsAction(c.State, a) {
				kept = append(kept, a)
			}
		}
		out.Actions, out.Notes, out.Commands, out.Kept, next = approve.WithoutRefusedBindings(snap, kept), nil, nil, nil, out.Next
		c.recorder.Output(now, snap, &out)
		for _, a := range out.Actions {
			c.beginAction(ctx, now, a)
		}
	} else {
		c.recorder.ForgetClaims()
	}
	if solve {
		if would, _, less := c.decideSafely(snap, now, decide.Request{Solve: true}); !less {
			c.tellWithheld(now, d, &would)
		}
	}
	c.mem = mem
	c.view.Store(&view.View{Snap: snap, Mem: mem, Policy: c.Policy, Classes: c.State.Pools.ListNodeClasses()})
	return next
}

// allowsAction reports whether an action is part of what was begun: the way of a claim in charge to a node with its pods on it, or to its end.
func (d *passiveMode) allowsAction(s *state.State, a plan.Action) bool {
	var cl *model.Claim
	end := false // it is for the end of a claim
	switch a := a.(type) {
	case plan.Bind:
		cl = s.FindClaim(a.Claim)
	case plan.Tolerate:
		cl = s.FindClaim(a.Claim)
	case plan.UpdateClaim:
		cl = s.FindClaim(a.Claim)
	case plan.UpdateNode:
		cl = s.FindClaimByNode(a.Node)
	case plan.DeleteNode:
		cl, end = s.FindClaimByNode(a.Node), true
	case plan.Evict:
		cl, end = s.FindClaimByNode(a.Node), true
	case plan.Restart:
		cl, end = s.FindClaimByNode(a.Node), true
	case plan.DeletePod:
		cl, end = s.FindClaimByNode(a.Node), true
	case plan.Reboot:
		return false // nothing is asked of the cloud that can wait
	case plan.Terminate:
		cl, end = s.FindClaim(a.Claim), true
	case plan.DeleteClaim:
		cl, end = s.FindClaim(a.Claim), true
		if a.Why.OfCommand() { // the rest of a move of which some have been deleted
			return cl != nil && d.ownClaims[cl.UID]
		}
	}
	if cl == nil || !d.ownClaims[cl.UID] {
		return false
	}
	if !cl.Deleting.IsZero() {
		return true
	}
	if end {
		return false
	}
	switch a.Because().Code {
	case plan.Demand, plan.Registering, plan.Initializing, plan.Landed, plan.NoAnswer, plan.LandingTimeout, plan.Aborted, plan.Rebooting:
		return true
	}
	return false
}

// tellWithheld says what would be done, once, and again when that changes.
func (c *Controller) tellWithheld(now time.Time, d *passiveMode, out *decide.Output) {
	buy, launch, remove, pods := 0, 0, 0, 0
	maps.DeleteFunc(d.told, func(uid, key string) bool {
		p := c.State.FindPod(key)
		return p == nil || p.UID != uid
	})
	why := "not while another autoscaler is running: " + strings.Join(d.others, "; ")
	for _, a := range out.Actions {
		switch a := a.(type) {
		case plan.CreateClaim:
			buy++
			pods += len(a.Pods)
			for _, p := range a.Pods {
				if p.Expected || p.Placeholder || d.told[p.UID] != "" {
					continue
				}
				d.told[p.UID] = p.Key()
				text := fmt.Sprintf("a node of type %s in %s (%s, $%s/h) would be launched for it; %s", a.Type, a.Zone, a.CapacityType, model.Dollars(a.PriceMicro), why)
				c.Cluster.Event("Pod", p.Namespace, p.Name, p.UID, true, "StandingDown", text)
				c.Ledger.Add(ledger.Entry{At: now, Kind: "would create", Subject: "pod/" + p.Key(), Why: []plan.Reason{a.Why}, Type: a.Type, Micro: a.PriceMicro, Outcome: why})
			}
		case plan.LaunchClaim:
			launch++
		case plan.DeleteClaim:
			remove++
		}
	}
	if text := fmt.Sprint(buy, launch, remove, pods, len(out.Commands), out.Cost.NewMicroPerHour); text != d.lastWithheld {
		d.lastWithheld = text
		c.Log.Info("would act, but another autoscaler is running", "others", d.others, "nodes", buy, "pods", pods, "usdPerHour", model.Dollars(out.Cost.NewMicroPerHour),
			"launches", launch, "disruptionCommands", len(out.Commands), "deletions", remove)
	}
}

// startBackground starts what goes on beside the loop while it acts: listening for notices, keeping demand's history, and what the wiring has given it to do.
func (c *Controller) startBackground(ctx context.Context) {
	c.acted = true
	if c.stop != nil {
		return
	}
	ctx, c.stop = context.WithCancel(ctx)
	go c.interruptions.listenForInterruptions(ctx)
	if c.past != nil {
		c.keepers.Go(func() { c.past.Keep(ctx) })
	}
	c.keepers.Go(func() { c.savings.Keep(ctx) })
	go c.demand.Keep(ctx)
	go c.demand.Fill(ctx)
	go c.keepGroupStatus(ctx)
	for _, do := range c.Background {
		go do(ctx)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Kinds of cloud.Interruption.
const (
	spotInterruption        = "SpotInterruption"
	reservationInterruption = "CapacityReservationInterruption"
	rebalance               = "Rebalance"
	scheduledChange         = "ScheduledChange"
	stateChange             = decide.StateChange
)

// interruptionEvent is the reference's reason of the event that tells of a notice.
var interruptionEvent = map[string]string{
	spotInterruption: "SpotInterrupted", reservationInterruption: "CapacityReservationInstanceInterrupted", rebalance: "SpotRebalanceRecommendation", scheduledChange: "InstanceUnhealthy", stateChange: "InstanceTerminating",
}

// listenForInterruptions hands on what the cloud says about machines that it will take away, until the context ends.
func (c *Controller) listenForInterruptions(ctx context.Context) {
	source, ok := cloud.As[cloud.Interrupter](c.Provider)
	if !ok {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		err := source.Interruptions(ctx, c.handleInterruption)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			n = 1
		}
		if err != nil {
			c.Log.Warn("notices of interruptions can't be had, will ask again", "error", err.Error(), "kind", string(cloud.KindOf(err)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(cloud.AfterOf(err), retryPause(n, 100*time.Millisecond, 10*time.Second))):
		}
	}
}

var errNotKnownYet = errors.New("the machine's NodeClaim does not say yet that it is its machine")

// handleInterruption keeps one notice: it is decided on at once, and done with only when it is written into the machine's NodeClaim, or when
// there is none.
func (c *Controller) handleInterruption(ctx context.Context, i cloud.Interruption) error {
	c.Metrics.countInterruption(i)
	n, err := c.noteInterruption(ctx, i)
	if err != nil {
		return fmt.Errorf("keep notice %s of %s: %w", i.Kind, i.ProviderID, err)
	}
	if n.claim != nil {
		if err := c.keepNotice(ctx, n, i); err != nil && !errors.Is(err, plan.ErrGone) {
			return fmt.Errorf("keep notice %s of %s in nodeclaim %s: %w", i.Kind, i.ProviderID, n.claim.Name, err)
		}
	}
	c.Metrics.countKeptInterruption(i)
	return nil
}

// noticed is what the loop made of a notice.
type noticed struct {
	claim *model.Claim  // whose machine it is; nil: nobody's
	text  string        // to be written into the claim; empty: nothing
	lane  chan struct{} // in which one at a time writes notices into the claim
}

// noteInterruption has the loop know of a notice from now on.
func (c *Controller) noteInterruption(ctx context.Context, i cloud.Interruption) (noticed, error) {
	var err error
	a, lost := askLoop(ctx, c, func(s *state.State) (a noticed) {
		var owned bool
		if a.claim, owned = s.FindClaimByProviderID(i.ProviderID); a.claim == nil && owned {
			err = errNotKnownYet
		} else if a.claim != nil {
			if a.text, err = c.noticeText(s, a.claim, i); a.text != "" {
				s.Overlay.AnnotateClaim(a.claim.Name, decide.AnnotationInterrupted, a.text)
				a.lane = c.lanes.findLane("notice of "+a.claim.UID, 1)
			}
		}
		return a
	})
	if lost != nil {
		return noticed{}, lost
	}
	return a, err
}

// askLoop has the loop answer a question.
func askLoop[T any](ctx context.Context, c *Controller, ask func(*state.State) T) (none T, err error) {
	ch := make(chan T, 1)
	select {
	case c.changes <- func(s *state.State) { ch <- ask(s) }:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case a := <-ch:
		return a, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// noticeText is what is to be written of a notice; empty: nothing new.
func (c *Controller) noticeText(s *state.State, claim *model.Claim, i cloud.Interruption) (string, error) {
	if i.Kind == rebalance || !claim.Deleting.IsZero() {
		return "", nil // nothing is done for a recommendation, as in the reference; or it goes already
	}
	have, told := decide.ReadNotice(claim)
	sooner := have.Kind == stateChange || isCapacityReclaimed(have.Kind) && i.Kind != stateChange // than what is announced now, which may be for next week
	if told && (have.Kind == i.Kind || sooner) {
		if s.Overlay.HasAnnotation(claim.UID) {
			return claim.Annotations[decide.AnnotationInterrupted], nil // it was told before, and could not be written then
		}
		return "", nil
	}
	now := time.Now()
	if isCapacityReclaimed(i.Kind) {
		c.setOfferingAside(claim)
	}
	c.Log.Info("machine will be taken away", "nodeclaim", claim.Name, "node", claim.NodeName, "kind", i.Kind, "at", i.At)
	c.Ledger.Add(ledger.Entry{At: now, Kind: "interrupt", Subject: "nodeclaim/" + claim.Name, Why: []plan.Reason{noticeReason(claim, i)}})
	return decide.Notice{Kind: i.Kind, At: i.At, Seen: now}.Text()
}

// isCapacityReclaimed says whether a notice is of capacity that somebody else is given: what is bought in its stead is not to be bought there.
func isCapacityReclaimed(kind string) bool {
	return kind == spotInterruption || kind == reservationInterruption
}

func noticeReason(claim *model.Claim, i cloud.Interruption) plan.Reason {
	return plan.Reason{Code: plan.Interrupted, Pool: claim.Pool, Subject: "nodeclaim/" + claim.Name, Key: i.Kind}
}

// keepNotice writes a notice down and tells of it.
func (c *Controller) keepNotice(ctx context.Context, n noticed, i cloud.Interruption) error {
	claim := n.claim
	if n.text != "" {
		// Of two notices of one machine the later one stands, whichever is written first: who writes writes what stands by then.
		select {
		case n.lane <- struct{}{}:
			defer func() { <-n.lane }()
		case <-ctx.Done():
			return ctx.Err()
		}
		select { // few at once: those that are to come in the machines' stead go first
		case c.lanes.background <- struct{}{}:
			defer func() { <-c.lanes.background }()
		case <-ctx.Done():
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit) // one write that hangs must not keep all other notices
		defer cancel()
		text, err := askLoop(ctx, c, func(s *state.State) string {
			if now := s.FindClaim(claim.Name); now != nil && now.UID == claim.UID {
				return now.Annotations[decide.AnnotationInterrupted]
			}
			return ""
		})
		if err != nil {
			return err
		}
		if text != "" {
			u := plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, Annotations: map[string]string{decide.AnnotationInterrupted: text}, Why: noticeReason(claim, i)}
			if _, err := c.Cluster.UpdateClaim(ctx, u); err != nil {
				return err
			}
		}
	}
	if event := interruptionEvent[i.Kind]; event != "" {
		if i.Stops {
			event = "InstanceStopping"
		}
		text := "the cloud has announced: " + i.Kind
		if !i.At.IsZero() {
			text += ", the machine goes at " + i.At.UTC().Format(time.RFC3339)
		}
		c.Cluster.Event("NodeClaim", "", claim.Name, claim.UID, true, event, text)
		if claim.NodeName != "" {
			c.Cluster.Event("Node", "", claim.NodeName, "", true, event, text)
		}
	}
	return nil
}

// setOfferingAside has the offering of a machine that is taken back not bought again for a while.
func (c *Controller) setOfferingAside(claim *model.Claim) {
	l := claim.Labels
	c.Provider.Set(cloud.OfferingKey{InstanceType: l[model.LabelInstanceType], Zone: l[model.LabelZone], CapacityType: l[model.LabelCapacityType]})
	c.refreshOfferings()
}

// refreshClassOfferings has the offerings of a node class's pools asked for at once: how many machines its node groups have has changed.
func (c *Controller) refreshClassOfferings(group, kind, name string) {
	for _, p := range c.State.Pools.ListPools() {
		if info := c.pools[p.Name]; info != nil && p.ClassGroup == group && p.ClassKind == kind && p.ClassName == name {
			info.due, info.again = time.Time{}, info.asking
		}
	}
}

// refreshOfferings has the offerings of every pool asked for at once: what was set aside is to be seen by the next decision.
func (c *Controller) refreshOfferings() {
	for _, p := range c.pools {
		p.due, p.again = time.Time{}, p.asking
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// interruptionEvent is the reference's reason of the event that tells of a notice.
var interruptionEvent = map[string]string{
	cloud.SpotInterruption: "SpotInterrupted", cloud.ReservationInterruption: "CapacityReservationInstanceInterrupted", cloud.Rebalance: "SpotRebalanceRecommendation", cloud.ScheduledChange: "InstanceUnhealthy", cloud.StateChange: "InstanceTerminating",
	cloud.InstanceStatusFailed: "InstanceUnhealthy", cloud.SystemStatusFailed: "InstanceUnhealthy",
}

// interruptionListener has the loop know of what the cloud says about machines that it will take away, and writes it
// into their NodeClaims. It runs beside the loop.
type interruptionListener struct {
	*edges
	lanes     *callLanes
	offerings *offerings // the loop's: asked only in what askLoop hands to it
}

// listenForInterruptions passes interruption messages of the cloud on to the loop until the context ends.
func (il *interruptionListener) listenForInterruptions(ctx context.Context) {
	source, ok := cloud.As[cloud.Interrupter](il.provider)
	if !ok {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		err := source.Interruptions(ctx, il.handleInterruption)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			n = 1
		}
		if err != nil {
			il.log.Warn("interruption notices can't be read, trying again", "error", err.Error(), "kind", string(cloud.KindOf(err)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(cloud.AfterOf(err), retryPause(n, 100*time.Millisecond, 10*time.Second))):
		}
	}
}

var errNotKnownYet = errors.New("the NodeClaim of the instance has no provider ID yet")

// handleInterruption handles one interruption message: the loop decides on it at once, and the message is acknowledged only after
// it is written into the NodeClaim of the instance, or if there is no such NodeClaim.
func (il *interruptionListener) handleInterruption(ctx context.Context, i cloud.Interruption) error {
	il.metrics.CountInterruption(i)
	n, err := il.noteInterruption(ctx, i)
	if err != nil {
		return fmt.Errorf("keep notice %s of %s: %w", i.Kind, i.ProviderID, err)
	}
	if n.claim != nil {
		if err := il.keepNotice(ctx, n, i); err != nil && !errors.Is(err, plan.ErrGone) {
			return fmt.Errorf("keep notice %s of %s in nodeclaim %s: %w", i.Kind, i.ProviderID, n.claim.Name, err)
		}
	}
	il.metrics.CountKeptInterruption(i)
	return nil
}

// noticed is what the loop made of a notice.
type noticed struct {
	claim *model.Claim  // whose machine it is; nil: nobody's
	text  string        // to be written into the claim; empty: nothing
	lane  chan struct{} // in which one at a time writes notices into the claim
}

// noteInterruption makes an interruption message known to the loop, as an annotation of the NodeClaim in the State, and returns
// the NodeClaim and the annotation to write.
func (il *interruptionListener) noteInterruption(ctx context.Context, i cloud.Interruption) (noticed, error) {
	var err error
	a, lost := askLoop(ctx, il.changes, func(s *state.State) (a noticed) {
		var owned bool
		a.claim, owned = s.FindClaimByProviderID(i.ProviderID)
		switch {
		case a.claim == nil && owned:
			err = errNotKnownYet
		case a.claim != nil && i.Kind == cloud.StateChange && !i.Stops && !a.claim.Deleting.IsZero():
			a.claim = nil // Dovetail ends the machine itself, and the cloud says that it ends
		case a.claim != nil:
			if a.text, err = il.noticeText(s, a.claim, i); a.text != "" {
				s.Overlay.AnnotateClaim(a.claim.Name, cluster.AnnotationInterrupted, a.text)
				a.lane = il.lanes.findLane(lane{notices: a.claim.UID}, 1)
			}
		}
		return a
	})
	if lost != nil {
		return noticed{}, lost
	}
	return a, err
}

// noticeText returns the value of the annotation that records an interruption message; empty: the NodeClaim has it already.
func (il *interruptionListener) noticeText(s *state.State, claim *model.Claim, i cloud.Interruption) (string, error) {
	if i.Kind == cloud.Rebalance || !claim.Deleting.IsZero() {
		return "", nil // nothing is done for a recommendation, as in the reference; or it goes already
	}
	have, told := cluster.ReadNotice(claim)
	sooner := have.Kind == cloud.StateChange || isCapacityReclaimed(have.Kind) && i.Kind != cloud.StateChange // than what is announced now, which may be for next week
	if told && (have.Kind == i.Kind || sooner) {
		if s.Overlay.HasAnnotation(claim.UID) {
			return claim.Annotations[cluster.AnnotationInterrupted], nil // it was told before, and could not be written then
		}
		return "", nil
	}
	now := time.Now()
	if isCapacityReclaimed(i.Kind) {
		il.offerings.setOfferingAside(claim)
	}
	il.log.Info("instance will be interrupted", "nodeclaim", claim.Name, "node", claim.NodeName, "kind", i.Kind, "at", i.At)
	il.ledger.Add(ledger.Entry{At: now, Kind: "interrupt", Subject: "nodeclaim/" + claim.Name, Why: []plan.Reason{noticeReason(claim, i)}})
	return cluster.Notice{Kind: i.Kind, At: i.At, Seen: now}.Text()
}

// isCapacityReclaimed reports whether a notice is of capacity that somebody else is given: what is bought in its stead is not to be bought there.
func isCapacityReclaimed(kind string) bool {
	return kind == cloud.SpotInterruption || kind == cloud.ReservationInterruption
}

// noticeReason converts an interruption message to a Reason.
func noticeReason(claim *model.Claim, i cloud.Interruption) plan.Reason {
	return plan.Reason{Code: plan.Interrupted, Pool: claim.Pool, Subject: plan.ObjectOf("nodeclaim", claim.Name), Detail: plan.OfInterrupted{Kind: i.Kind}}
}

// keepNotice writes a notice down and tells of it.
func (il *interruptionListener) keepNotice(ctx context.Context, n noticed, i cloud.Interruption) error {
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
		case il.lanes.background <- struct{}{}:
			defer func() { <-il.lanes.background }()
		case <-ctx.Done():
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(ctx, il.config.CallLimit) // one write that hangs must not keep all other notices
		defer cancel()
		text, err := askLoop(ctx, il.changes, func(s *state.State) string {
			if now := s.FindClaim(claim.Name); now != nil && now.UID == claim.UID {
				return now.Annotations[cluster.AnnotationInterrupted]
			}
			return ""
		})
		if err != nil {
			return err
		}
		if text != "" {
			u := plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, Annotations: map[string]string{cluster.AnnotationInterrupted: text}, Why: noticeReason(claim, i)}
			if _, err := il.cluster.UpdateClaim(ctx, u); err != nil {
				return err
			}
		}
	}
	if event := interruptionEvent[i.Kind]; event != "" {
		if i.Stops {
			event = "InstanceStopping"
		}
		text := "interruption notice " + i.Kind
		if !i.At.IsZero() {
			text += ": the instance is interrupted at " + i.At.UTC().Format(time.RFC3339)
		}
		il.cluster.Event("NodeClaim", "", claim.Name, claim.UID, true, event, text)
		if claim.NodeName != "" {
			il.cluster.Event("Node", "", claim.NodeName, "", true, event, text)
		}
	}
	return nil
}

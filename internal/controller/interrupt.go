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
	spotInterruption = "SpotInterruption"
	rebalance        = "Rebalance"
	scheduledChange  = "ScheduledChange"
	stateChange      = decide.StateChange
)

// interruptionEvent is the reference's reason of the event that tells of a notice.
var interruptionEvent = map[string]string{
	spotInterruption: "SpotInterrupted", rebalance: "SpotRebalanceRecommendation", scheduledChange: "InstanceUnhealthy", stateChange: "InstanceTerminating",
}

// listen hands on what the cloud says about machines that it will take away, until the context ends.
func (c *Controller) listen(ctx context.Context) {
	source, ok := cloud.As[cloud.Interrupter](c.Provider)
	if !ok {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		err := source.Interruptions(ctx, c.interrupted)
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
		case <-time.After(max(cloud.AfterOf(err), backoff(n, 100*time.Millisecond, 10*time.Second))):
		}
	}
}

var errNotKnownYet = errors.New("the machine's NodeClaim does not say yet that it is its machine")

// interrupted keeps one notice: it is done with only when it is written into the machine's NodeClaim, or when there is none.
func (c *Controller) interrupted(ctx context.Context, i cloud.Interruption) error {
	c.Metrics.interruptionReceived(i)
	now := time.Now()
	claim, err := c.claimOf(ctx, i.ProviderID)
	if err != nil {
		return fmt.Errorf("keep notice %s of %s: %w", i.Kind, i.ProviderID, err)
	}
	if claim != nil {
		if err := c.keepNotice(ctx, now, claim, i); err != nil && !errors.Is(err, plan.ErrGone) {
			return fmt.Errorf("keep notice %s of %s in nodeclaim %s: %w", i.Kind, i.ProviderID, claim.Name, err)
		}
	}
	c.Metrics.interruptionKept(i)
	return nil
}

// claimOf asks the loop whose machine it is; nil: nobody's.
func (c *Controller) claimOf(ctx context.Context, providerID string) (*model.Claim, error) {
	type answer struct {
		claim *model.Claim
		err   error
	}
	ch := make(chan answer, 1)
	ask := func(s *state.State) {
		claim, owned := s.ClaimOf(providerID)
		if claim == nil && owned {
			ch <- answer{err: errNotKnownYet}
			return
		}
		ch <- answer{claim: claim}
	}
	select {
	case c.changes <- ask:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-ch:
		return a.claim, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Controller) keepNotice(ctx context.Context, now time.Time, claim *model.Claim, i cloud.Interruption) error {
	if event := interruptionEvent[i.Kind]; event != "" {
		text := "the cloud has announced: " + i.Kind
		if !i.At.IsZero() {
			text += ", the machine goes at " + i.At.UTC().Format(time.RFC3339)
		}
		c.Cluster.Event("NodeClaim", "", claim.Name, claim.UID, true, event, text)
		if claim.NodeName != "" {
			c.Cluster.Event("Node", "", claim.NodeName, "", true, event, text)
		}
	}
	have, told := decide.ReadNotice(claim)
	sooner := have.Kind == stateChange || have.Kind == spotInterruption && i.Kind != stateChange // than what is announced now, which may be for next week
	if i.Kind == rebalance || !claim.Deleting.IsZero() || told && (have.Kind == i.Kind || sooner) {
		return nil // nothing is done for a recommendation, as in the reference; or it goes already
	}
	if i.Kind == spotInterruption {
		c.setAside(claim)
	}
	text, err := decide.Notice{Kind: i.Kind, At: i.At, Seen: now}.Text()
	if err != nil {
		return err
	}
	why := plan.Reason{Code: plan.Interrupted, Pool: claim.Pool, Subject: "nodeclaim/" + claim.Name, Key: i.Kind}
	ctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit) // one write that hangs must not keep all other notices
	defer cancel()
	if _, err := c.Cluster.UpdateClaim(ctx, plan.UpdateClaim{Claim: claim.Name, UID: claim.UID, Annotations: map[string]string{decide.AnnotationInterrupted: text}, Why: why}); err != nil {
		return err
	}
	c.Log.Info("machine will be taken away", "nodeclaim", claim.Name, "node", claim.NodeName, "kind", i.Kind, "at", i.At)
	c.Emit(func(*state.State) {
		c.Ledger.Add(ledger.Entry{At: now, Kind: "interrupt", Subject: "nodeclaim/" + claim.Name, Why: []plan.Reason{why}})
	})
	return nil
}

// setAside has the offering of a machine that spot takes back not bought again for a while.
func (c *Controller) setAside(claim *model.Claim) {
	l := claim.Labels
	c.Provider.Set(cloud.OfferingKey{InstanceType: l[model.LabelInstanceType], Zone: l[model.LabelZone], CapacityType: l[model.LabelCapacityType]})
	c.Emit(func(*state.State) { c.askAgain() })
}

// askAgain has the offerings of every pool asked for at once: what was set aside is to be seen by the next decision.
func (c *Controller) askAgain() {
	for _, p := range c.pools {
		p.due, p.again = time.Time{}, p.asking
	}
}

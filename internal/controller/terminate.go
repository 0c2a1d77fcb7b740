// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// errClaimed: what was taken for an orphan has a claim.
var errClaimed = errors.New("its NodeClaim exists, though the watch has not shown it yet: the instance is not terminated")

// terminateInstance terminates an instance. An instance that is unknown or already terminating counts as terminated.
func (c *Controller) terminateInstance(ctx context.Context, a plan.Terminate) {
	claimUID := ""
	cl := c.State.FindClaim(a.Claim)
	if cl != nil {
		claimUID = cl.UID
	}
	begin := time.Now()
	c.startCall(ctx, lane{kind: plan.CallTerminate, class: classOf(cl)}, a, func(ctx context.Context) (uint64, error) {
		if a.Claim == "" { // its claim was not seen; but a watch may be behind, and what is ended is lost
			claimed, err := c.Cluster.Claimed(ctx, a)
			if err == nil && claimed {
				err = errClaimed
			}
			if err != nil {
				return 0, err
			}
		}
		err := c.Provider.Terminate(ctx, []string{a.ProviderID})[0]
		c.Metrics.CountCall("Delete", poolOf(cl), time.Since(begin), err)
		if cloud.KindOf(err) == cloud.NotFound {
			return 0, nil
		}
		return 0, err
	}, func(s *state.State, err error) {
		if err != nil {
			if !errors.Is(err, errClaimed) {
				c.Metrics.CountTerminationFailure(cl)
			}
			c.recorder.Failure("terminate", a.ProviderID, a.Why, err)
			if a.Claim != "" {
				c.Cluster.Event("NodeClaim", "", a.Claim, claimUID, true, "FailedTermination", err.Error())
			}
			return
		}
		s.MarkInstanceGone(a.ProviderID, claimUID)
		if cl != nil && cl.Labels[model.LabelNodeGroup] != "" { // its group may have one more now
			c.offerings.refreshClassOfferings(cl.ClassGroup, cl.ClassKind, cl.ClassName)
		}
		c.Log.Info("instance terminated", "instance", a.ProviderID, "nodeclaim", a.Claim, "why", string(a.Why.Code))
		entry := ledger.Entry{At: time.Now(), Kind: "terminate", Subject: "instance/" + a.ProviderID, Why: []plan.Reason{a.Why}, Outcome: "done"}
		if a.Claim != "" {
			entry.Related = []string{"nodeclaim/" + a.Claim}
		}
		c.Ledger.Add(entry)
	})
}

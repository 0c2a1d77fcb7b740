// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// rebootInstance notes a reboot in its claim, and then asks the cloud for it. If the note is not known to have been written, the cloud is not asked; if
// it was, the boot ID of the node or the time tells what became of the reboot, whoever reads it. Only what the cloud has refused is taken back.
func (c *Controller) rebootInstance(ctx context.Context, now time.Time, a plan.Reboot) {
	begin, claim := time.Now(), c.State.FindClaim(a.Claim)
	refused := plan.UpdateClaim{} // what was written into the claim because the cloud refused the reboot
	c.startCall(ctx, lane{kind: plan.CallReboot, class: classOf(claim)}, a, func(ctx context.Context) (uint64, error) {
		r, ok := cloud.As[cloud.Rebooter](c.Provider)
		if !ok {
			return 0, fmt.Errorf("reboot %s: %w: the cloud provider can't reboot instances", a.ProviderID, plan.ErrInvalid)
		}
		version, err := c.Cluster.UpdateClaim(ctx, a.Note)
		if err != nil {
			return 0, err
		}
		err = r.Reboot(ctx, a.ProviderID)
		c.Metrics.CountCall("Reboot", poolOf(claim), time.Since(begin), err)
		switch cloud.KindOf(err) {
		case cloud.None, cloud.NotFound: // one that is gone is found to be by the list of instances
			return version, nil
		case cloud.Throttled:
			return c.takeBackReboot(ctx, a, err, plan.UpdateClaim{})
		case cloud.Denied:
			refused.Conditions = map[string]model.Condition{lifecycle.Rebooting: {Status: "False", Reason: lifecycle.RebootFailed, Message: err.Error()}}
			return c.takeBackReboot(ctx, a, err, refused)
		}
		return version, err
	}, func(_ *state.State, err error) {
		if err != nil {
			if r, ok := refused.Conditions[lifecycle.Rebooting]; ok && claim != nil {
				c.answers.tellReboot(claim, r, a.Why)
			}
			c.recorder.Failure("reboot", a.ProviderID, a.Why, err)
			return
		}
		c.Log.Info("instance reboot requested", "instance", a.ProviderID, "nodeclaim", a.Claim, "node", a.Node)
		c.Ledger.Add(ledger.Entry{At: now, Kind: "reboot", Subject: "instance/" + a.ProviderID, Why: []plan.Reason{a.Why}, Related: []string{"nodeclaim/" + a.Claim}})
	})
}

// takeBackReboot takes what was noted of a reboot off its claim, since the cloud has refused it, and writes more into the claim.
func (c *Controller) takeBackReboot(ctx context.Context, a plan.Reboot, refused error, more plan.UpdateClaim) (uint64, error) {
	more.Claim, more.UID, more.Why = a.Claim, a.UID, a.Why
	more.Annotations = map[string]string{model.AnnotationBootID: plan.Unset, model.AnnotationReboots: a.Note.Given[model.AnnotationReboots]}
	_, err := c.Cluster.UpdateClaim(ctx, more)
	return 0, errors.Join(refused, err)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The conditions of a CapacityQuota.
const (
	quotaValid      = "cluster-autoscaler.kubernetes.io/valid"
	quotaReconciled = "Reconciled"
)

// writeQuotaStatuses has the status of CapacityQuotas written where it differs from what the API server has.
func (c *Controller) writeQuotaStatuses(ctx context.Context, now time.Time, s *model.Snapshot) {
	for _, l := range s.Limits {
		if l.Quota == nil {
			continue
		}
		a := quotaStatus(l, s)
		if quotaStatusDiffers(l.Quota, &a) && !c.State.InFlight.HasAction(a.Key(), now) {
			c.beginAction(ctx, now, a)
		}
	}
}

// quotaStatus is what the status of a CapacityQuota should say: what the nodes that it selects have, as their status
// tells, and whether it holds.
func quotaStatus(l *model.CapacityLimit, s *model.Snapshot) plan.UpdateQuota {
	q := l.Quota
	a := plan.UpdateQuota{Quota: q.Name, UID: q.UID, Generation: q.Generation, Used: map[string]string{}, Why: plan.Reason{Code: plan.SharedLimit, Detail: plan.OfSharedLimit{Limit: l.Name}}}
	a.Conditions = map[string]model.Condition{
		quotaValid:      {Status: "True", Reason: "Valid", Message: "The quota is enforced."},
		quotaReconciled: {Status: "True", Reason: "ReconciliationSucceeded", Message: "The capacity of the nodes is counted."},
	}
	if q.Invalid != "" {
		a.Conditions[quotaValid] = model.Condition{Status: "False", Reason: "Invalid", Message: q.Invalid}
		a.Conditions[quotaReconciled] = model.Condition{Status: "False", Reason: "ReconciliationFailed",
			Message: "The quota is not valid, so it limits nothing: see condition " + quotaValid + "."}
		return a
	}
	var sum model.Resources
	nodes := int64(0)
	for _, n := range s.Nodes {
		if l.Matches(n.Labels) {
			sum, nodes = sum.AddInto(n.Capacity, 1), nodes+1
		}
	}
	for _, name := range q.Resources {
		if name == "nodes" {
			a.Used[name] = strconv.FormatInt(nodes, 10)
		} else if d := slices.Index(s.ResourceNames, name); d >= 0 {
			a.Used[name] = model.FormatAmount(model.Dim(d), sum.At(model.Dim(d)))
		}
	}
	return a
}

// quotaStatusDiffers reports whether a status is another than an action would write.
func quotaStatusDiffers(have *model.Quota, a *plan.UpdateQuota) bool {
	if have.ObservedGeneration != a.Generation || !maps.Equal(have.Used, a.Used) {
		return true
	}
	for k, want := range a.Conditions {
		if x := have.Conditions[k]; x.Status != want.Status || x.Reason != want.Reason || x.Message != want.Message {
			return true
		}
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// writeBufferStatuses has the status of CapacityBuffers written where it differs from what the API server has.
func (c *Controller) writeBufferStatuses(ctx context.Context, now time.Time, states []decide.BufferState) {
	for i := range states {
		b := states[i].Buffer
		a := plan.UpdateBuffer{Namespace: b.Namespace, Buffer: b.Name, UID: b.UID, Conditions: bufferConditions(&states[i]), Replicas: -1,
			TemplateName: b.TemplateName, TemplateGeneration: b.TemplateGeneration, Why: plan.Reason{Code: plan.HeldForBuffer, Subject: plan.ObjectOf("capacitybuffer", b.Key())}}
		if b.Like != nil {
			a.Replicas = states[i].Wanted
		}
		if bufferStatusDiffers(&b.Status, a) && !c.State.InFlight.HasAction(a.Key(), now) {
			c.beginAction(ctx, now, a)
		}
	}
}

// bufferStatusDiffers reports whether a status is another than an action would write.
func bufferStatusDiffers(have *model.BufferStatus, a plan.UpdateBuffer) bool {
	if have.Replicas != a.Replicas || have.TemplateName != a.TemplateName || have.TemplateGeneration != a.TemplateGeneration || have.Strategy == "" {
		return true
	}
	for k, want := range a.Conditions {
		if x := have.Conditions[k]; x.Status != want.Status || x.Reason != want.Reason || x.Message != want.Message {
			return true
		}
	}
	return false
}

// bufferConditions are what the status of a CapacityBuffer says.
func bufferConditions(s *decide.BufferState) map[string]model.Condition {
	b := s.Buffer
	out := map[string]model.Condition{"ReadyForProvisioning": b.Ready, "Provisioning": provisioningCondition(s)}
	if b.Limited.Status != "" {
		out["LimitedByQuotas"] = b.Limited
	} else if b.Status.Conditions["LimitedByQuotas"].Status == "True" {
		out["LimitedByQuotas"] = model.Condition{Status: "False", Reason: "NoResourceQuotas", Message: "No ResourceQuota applies to the buffer."}
	}
	return out
}

// provisioningCondition reports whether the capacity of a buffer is there.
func provisioningCondition(s *decide.BufferState) model.Condition {
	switch {
	case s.Buffer.Like == nil:
		return model.Condition{Status: "False", Reason: "NotReadyForProvisioning", Message: "The buffer is not ready for provisioning: see condition ReadyForProvisioning."}
	case s.Wanted == 0:
		return model.Condition{Status: "False", Reason: "BufferEmpty", Message: "The buffer requests capacity for 0 pods."}
	case s.Shared != "":
		return model.Condition{Status: "True", Reason: "FitsExistingCapacity", Message: "The buffer shares the capacity of CapacityBuffer " + s.Shared + ", of the same group."}
	case s.Ready == s.Wanted:
		return model.Condition{Status: "True", Reason: "FitsExistingCapacity", Message: "Capacity is free for all pods of the buffer: " + model.Count(s.Ready, "pod") + "."}
	}
	parts := []string{fmt.Sprintf("Capacity is free for %d of %s", s.Ready, model.Count(s.Wanted, "pod"))}
	for _, x := range []struct {
		pods int
		text string
	}{
		{s.Coming, "%d will be placed on nodes that are being launched"}, {s.Sought, "capacity for %d is being planned"},
		{s.Priced, "capacity for %d would cost more than " + model.AnnotationMaxHour + " allows"},
	} {
		if x.pods > 0 {
			parts = append(parts, fmt.Sprintf(x.text, x.pods))
		}
	}
	message := strings.Join(parts, "; ") + "."
	if s.None > 0 {
		why := cmp.Or(report.Refusal(s.Why), "No NodePool can provide a node.")
		message += fmt.Sprintf(" No capacity for %d: %s", s.None, why)
	}
	return model.Condition{Status: "False", Reason: "RequiresNewCapacity", Message: message}
}

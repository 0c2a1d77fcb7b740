// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// writeRequestStatuses has the status of ProvisioningRequests written where it differs from what the API server has.
func (c *Controller) writeRequestStatuses(ctx context.Context, now time.Time, states []requests.State) {
	for i := range states {
		x := &states[i]
		r := x.Request
		a := plan.UpdateRequest{Namespace: r.Namespace, Request: r.Name, UID: r.UID, Conditions: map[string]model.Condition{}, RetryAt: x.RetryAt, Attempts: x.Attempts,
			Why: plan.Reason{Code: plan.Demand, Subject: plan.ObjectOf("provisioningrequest", r.Key())}}
		differs := x.Differs()
		for name, want := range x.Conditions {
			want.Message = requestMessage(x, name)
			if have := r.Status[name]; want.Message == "" {
				want.Message = have.Message // nothing new is known
			} else if have.Message != want.Message {
				differs = true
			}
			a.Conditions[name] = want
		}
		if differs && !c.State.InFlight.HasAction(a.Key(), now) {
			c.beginAction(ctx, now, a)
		}
	}
}

// requestMessage returns the message of a condition of a ProvisioningRequest; empty: there is nothing to say but what was said before.
func requestMessage(x *requests.State, condition string) string {
	reason := x.Conditions[condition].Reason
	why := report.Refusal(x.Why)
	switch condition {
	case model.RequestAccepted:
		return x.Request.Accepted.Message
	case model.RequestProvisioned:
		switch {
		case reason == requests.CapacityFound || reason == requests.Provisioned:
			return fmt.Sprintf("Capacity for %s is on Ready nodes, and held for %s.", model.Count(x.Total, "pod"), model.BookingTime)
		case reason == requests.Awaited:
			return fmt.Sprintf("%d of %s can start now, and %d on nodes that are being launched.", x.Ready, model.Count(x.Total, "pod"), x.Coming)
		case len(x.Why) == 0:
			return ""
		case !x.RetryAt.IsZero():
			why += fmt.Sprintf(". Capacity for some of the pods was released; all pods are retried at %s.", x.RetryAt.UTC().Format(time.RFC3339))
		}
		return why
	case model.RequestFailed:
		if reason == requests.NotFound {
			return "The request is not retried. " + why
		} else if len(x.Why) > 0 {
			return fmt.Sprintf("No capacity was found within %s. %s", x.Request.ValidFor, why)
		}
		return fmt.Sprintf("No capacity was found within %s.", x.Request.ValidFor)
	case model.RequestExpired:
		if reason == requests.AllArrived {
			return "All pods of the request are on their nodes."
		}
		return fmt.Sprintf("Capacity was held for %s.", model.BookingTime)
	case model.RequestRevoked:
		return "The capacity was lost, and no replacement was found. " + why
	}
	return ""
}

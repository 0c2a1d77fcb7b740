// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Return is so many pods of a workload that are expected to come back after a while, because they did before.
type Return struct {
	Workload string // as it is told: kind, namespace and name, with slashes
	In       time.Duration
	Pods     int
	Requests model.Resources // of each
}

// gained is what a saving of so much an hour comes to over the horizon, in micro-dollars, and the workload that ends it first, nil where none does.
// Pods that are expected back take the room that stays free first. From when on they have to be bought for, what they are worth is not saved any
// more, and they wait for their machines, which is priced like their restart.
func (s *search) gained(saving int64) (micro int64, ends *Return) {
	if len(s.in.Returns) == 0 {
		return hourly(saving, s.pol.Horizon), nil
	}
	slack := max(0, s.free-saving)
	for i := range s.in.Returns {
		r := &s.in.Returns[i]
		worth := s.x.of(r.Requests) * int64(r.Pods)
		if worth <= 0 || r.In >= s.pol.Horizon {
			continue
		}
		fits := min(slack, worth)
		slack -= fits
		lost := min(saving, worth-fits)
		if lost <= 0 {
			continue
		}
		if ends == nil {
			ends = r
		}
		micro += hourly(lost, r.In) - int64(float64(s.pol.RestartMicro*int64(r.Pods))*float64(lost)/float64(worth))
		if saving -= lost; saving == 0 {
			return micro, ends
		}
	}
	return micro + hourly(saving, s.pol.Horizon), ends
}

// tooLittle says that what a saving comes to does not pay for what it costs once, and whether only because pods are expected back.
func (s *search) tooLittle(saving, cost, got int64, ends *Return) plan.Reason {
	r := plan.Reason{Code: plan.DoesNotPay, Want: "more than " + dollars(cost), Have: "at most " + dollars(got)}
	if ends != nil && hourly(saving, s.pol.Horizon) > cost {
		r.Code, r.Subject, r.Key = plan.GrowsBack, ends.Workload, ends.In.Round(time.Second).String()
	}
	return r
}

// returnsKey is equal for returns between which nothing is worth another search: the same pods, at times that differ by less than half.
func returnsKey(list []Return) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.Workload + " " + strconv.Itoa(r.Pods) + " " + strconv.Itoa(bits.Len(uint(r.In/time.Minute))) + "\n")
	}
	return b.String()
}

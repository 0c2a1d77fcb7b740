// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// ScaleUp is so many pods of a workload that are expected to come back after a while, because they did before.
type ScaleUp struct {
	Workload string // as it is told: kind, namespace and name, with slashes
	After    time.Duration
	Pods     int
	Requests model.Resources // of each
}

// ScaleDown is how a workload is expected to shrink, because it did before: after a while so large a share of its pods has gone, those of earlier falls
// of the same workload included.
type ScaleDown struct {
	Workload string // as in Return
	After    time.Duration
	Share    float64 // from 0 to 1
}

// gained is what a saving of so much an hour comes to over the horizon, in micro-dollars, if these machines' pods move, and the workload that ends it
// first; empty where none does, and then in is 0 too.
//
// Pods that are expected back take the room that stays free first. From when on machines have to be bought for them, what these cost is not saved any
// more, and the pods wait for them, which is priced like their restart. Of pods that move and are expected to go, nothing is saved from then
// on: their room would come free anyway.
func (s *search) gained(saving int64, units []*Candidate) (micro int64, workload string, in time.Duration) {
	type loss struct {
		in       time.Duration
		workload string
		micro    int64    // an hour, of a fall
		back     *ScaleUp // what comes back; nil: a fall
	}
	var losses []loss
	for i := range s.in.ScaleUps {
		r := &s.in.ScaleUps[i]
		losses = append(losses, loss{in: r.After, workload: r.Workload, back: r})
	}
	for _, f := range s.falls(units) {
		losses = append(losses, loss{in: f.After, workload: f.Workload, micro: int64(float64(saving) * f.Share)})
	}
	slices.SortStableFunc(losses, func(a, b loss) int { return cmp.Compare(a.in, b.in) })
	slack := max(0, s.free-saving)
	type bought struct {
		pods  float64 // that find no free room
		micro int64   // what machines for them cost an hour
	}
	boughtFor := map[string]bought{} // by workload
	for _, l := range losses {
		if l.in >= s.pol.Horizon || saving == 0 {
			break
		}
		waiting := 0.0 // pods
		if l.back != nil {
			worth := s.x.of(l.back.Requests) * int64(l.back.Pods)
			fits := min(slack, worth)
			slack -= fits
			waiting = float64(l.back.Pods) * float64(worth-fits) / float64(max(1, worth))
			b := boughtFor[l.workload]
			b.pods += waiting
			all := s.launchPrice(l.back.Requests, int64(math.Ceil(b.pods)))
			l.micro, b.micro = all-b.micro, all
			boughtFor[l.workload] = b
		}
		lost := min(saving, l.micro)
		if lost <= 0 {
			continue
		}
		if workload == "" {
			workload, in = l.workload, l.in
		}
		micro += hourly(lost, l.in) - int64(float64(s.pol.RestartMicro)*waiting)
		saving -= lost
	}
	return micro + hourly(saving, s.pol.Horizon), workload, in
}

// launchPrice is what machines of one type for so many pods that request the same cost an hour at least, in micro-dollars. What no single type on
// sale holds counts as what its resources are worth.
func (s *search) launchPrice(requests model.Resources, pods int64) int64 {
	if pods <= 0 {
		return 0
	}
	key := fmt.Sprint(requests.Key(), pods)
	if micro, ok := s.launchPrices[key]; ok {
		return micro
	}
	least := int64(-1)
	for _, p := range s.in.Pools {
		for _, t := range p.Types {
			if !requests.Fits(t.Allocatable) || !p.NodePool.MayBuyType(t) {
				continue
			}
			price := leastPrice(p.NodePool, t)
			if price < 0 {
				continue
			}
			fit := pods
			for d, r := range requests {
				if r > 0 {
					fit = min(fit, t.Allocatable.At(model.Dim(d))/r)
				}
			}
			if fit > 0 {
				if micro := price * ((pods + fit - 1) / fit); least < 0 || micro < least {
					least = micro
				}
			}
		}
	}
	if least < 0 {
		least = s.x.of(requests) * pods
	}
	if s.launchPrices == nil {
		s.launchPrices = map[string]int64{}
	}
	s.launchPrices[key] = least
	return least
}

// falls are those of the workloads whose pods stand on the machines. Their shares are of what all these pods are worth, and each is by how much it is
// more than the one before.
func (s *search) falls(units []*Candidate) (out []ScaleDown) {
	if s.in.ScaleDowns == nil {
		return nil
	}
	all := 0.0
	worth := map[*ScaleDown]float64{} // by the first of the workload
	var order [][]ScaleDown
	for _, u := range units {
		for _, p := range u.Pods {
			w := float64(s.x.of(p.Class.Requests))
			all += w
			if list := s.in.ScaleDowns(p); len(list) > 0 {
				if _, known := worth[&list[0]]; !known {
					order = append(order, list)
				}
				worth[&list[0]] += w
			}
		}
	}
	for _, list := range order {
		before := 0.0
		for i := range list {
			f := list[i]
			f.Share, before = (f.Share-before)*worth[&list[0]]/max(1, all), f.Share
			out = append(out, f)
		}
	}
	return out
}

// tooLittle says that what a saving comes to does not pay for what it costs once, and whether only because a workload is expected to end it.
func (s *search) tooLittle(saving, cost, got int64, workload string, in time.Duration) plan.Reason {
	r := plan.Reason{Code: plan.DoesNotPay, Want: "more than " + dollars(cost), Have: "at most " + dollars(got)}
	if workload != "" && hourly(saving, s.pol.Horizon) > cost {
		r.Code, r.Subject, r.Key = plan.ShortLived, workload, in.Round(time.Second).String()
	}
	return r
}

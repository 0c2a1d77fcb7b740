// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/test/watch"
)

// Account is what the nodes of one adversary, or of the honest workload, came to.
type Account struct {
	Launches int     `json:"launches"`
	USD      float64 `json:"usd"`
	Vain     int     `json:"vain"`
	VainUSD  float64 `json:"vainUSD"`
	InTen    int     `json:"mostVainInTenMinutes"`
	Open     int     `json:"open"` // launched in the last minute, without a pod so far: counted as neither
	Acts     int64   `json:"acts"` // what the adversary did
}

// outcomeKnown is how long after its launch a node without a pod counts as unused, if the series ends.
const outcomeKnown = time.Minute

// account counts NodeClaims, in the same way for each autoscaler: a node is launched when its NodeClaim first names an instance type, and paid for
// from then until the NodeClaim is gone, at the price of the catalog. It is unused if no pod except those of DaemonSets was ever seen
// running on it. A NodeClaim that was refused, or never had an instance type, is no launch. whose names the account of a NodeClaim; empty: none.
func account(c *watch.Cluster, whose func(*watch.Claim) string, now time.Time) (map[string]*Account, error) {
	used := map[string]bool{}
	for _, p := range c.Pods {
		if !p.Daemon && !p.Running.IsZero() {
			used[p.Node] = true
		}
	}
	all := slices.SortedFunc(maps.Values(c.Claims), func(a, b *watch.Claim) int {
		return cmp.Or(a.Launched.Compare(b.Launched), cmp.Compare(a.Name, b.Name))
	})
	out, vain := map[string]*Account{}, map[string][]time.Time{}
	for _, x := range all {
		name := whose(x)
		if name == "" || x.Launched.IsZero() {
			continue
		}
		a := out[name]
		if a == nil {
			a = &Account{}
			out[name] = a
		}
		price, err := watch.Price(x.InstanceType, x.CapacityType)
		if err != nil {
			return nil, err
		}
		until := now
		if !x.Gone.IsZero() {
			until = x.Gone
		}
		usd := price * until.Sub(x.Launched).Hours()
		a.Launches, a.USD = a.Launches+1, a.USD+usd
		switch {
		case x.Node != "" && used[x.Node]:
		case x.Gone.IsZero() && now.Sub(x.Launched) < outcomeKnown:
			a.Open++
		default:
			a.Vain, a.VainUSD = a.Vain+1, a.VainUSD+usd
			vain[name] = append(vain[name], x.Launched)
		}
	}
	for name, at := range vain {
		out[name].InTen = mostWithin(at, 10*time.Minute)
	}
	return out, nil
}

// mostWithin returns how many of these instants, which are sorted, lie within one span of a duration at most.
func mostWithin(at []time.Time, d time.Duration) (most int) {
	first := 0
	for i := range at {
		for at[i].Sub(at[first]) > d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Honest is how the honest workload fared.
type Honest struct {
	Pods    int     `json:"pods"`     // created
	P50     float64 `json:"waitP50"`  // seconds from the creation of a pod to Running
	P99     float64 `json:"waitP99"`  // likewise
	Max     float64 `json:"waitMax"`  // likewise
	Waiting int     `json:"waiting"`  // at the end, for more than outcomeKnown: they count with their wait so far
	Evicted int     `json:"evicted"`  // had a condition DisruptionTarget
	Never   int     `json:"neverRan"` // deleted before they ran, since the Deployment shrank: their wait is not counted
}

// honest returns how the pods of the honest workload fared.
func honest(c *watch.Cluster, namespace string, now time.Time) (h Honest) {
	var waits []float64
	for _, p := range c.Pods {
		if p.Namespace != namespace {
			continue
		}
		h.Pods++
		if !p.Disrupted.IsZero() {
			h.Evicted++
		}
		switch wait := now.Sub(p.Created); {
		case !p.Running.IsZero():
			waits = append(waits, p.Running.Sub(p.Created).Seconds())
		case p.Deleting:
			h.Never++
		case wait > outcomeKnown:
			h.Waiting++
			waits = append(waits, wait.Seconds())
		}
	}
	slices.Sort(waits)
	h.P50, h.P99, h.Max = quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1)
	return h
}

// quantile is the smallest of sorted values that at least this share of them does not exceed; 0 of none.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return round(sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)])
}

func round(v float64) float64 { return math.Round(v*10000) / 10000 }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// settleDown changes nothing until no node is kept because a workload is expected to scale again and then the cluster is at rest.
func (l *life) settleDown(ctx context.Context, res *Result) (err error) {
	begin := time.Now()
	for {
		if err := l.Idle(ctx, 10*time.Second); err != nil {
			return err
		}
		if res.SettleKept, err = l.keptByForecast(ctx); err != nil {
			return err
		}
		atRest := res.SettleKept == 0 && time.Since(l.Changed) > l.still
		if atRest || time.Since(begin) > l.settle {
			break
		}
	}
	usd, err := l.price()
	if err != nil {
		return err
	}
	least, err := l.bound()
	if err != nil {
		return err
	}
	res.SettleSeconds, res.SettleOverBound = round(time.Since(begin).Seconds()), round(usd/least)
	res.SettleEvictions, res.SettleNodes = l.countSince(begin)
	fmt.Fprintf(os.Stderr, "after %.0f s, %d nodes are kept for an expected scale-up; cost/bound %.3f, %d evictions, %d nodes launched or terminated\n",
		res.SettleSeconds, res.SettleKept, res.SettleOverBound, res.SettleEvictions, res.SettleNodes)
	return nil
}

// keptByForecast asks the controller how many nodes it keeps because a workload is expected to scale again; Karpenter keeps none.
func (l *life) keptByForecast(ctx context.Context) (kept int, err error) {
	if l.karpenter != "" {
		return 0, nil
	}
	leader, err := l.Sandbox.Leader()
	if err != nil {
		return 0, err
	}
	nodes, err := l.Standing()
	if err != nil {
		return 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		why, err := askWhy(ctx, leader.Ports["metrics"], name)
		if err != nil {
			return 0, fmt.Errorf("get the reason why node %s is kept: %w", name, err)
		}
		if slices.ContainsFunc(why.Findings, func(f plan.Finding) bool { return f.Reason.Code == plan.ShortLived }) {
			kept++
		}
	}
	return kept, nil
}

// askWhy is why a node stays, as the controller at a port answers; of a node that has gone it says nothing.
func askWhy(ctx context.Context, port int, node string) (*report.Why, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/why/node/%s", port, node), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	why := &report.Why{}
	if res.StatusCode == http.StatusNotFound { // it has gone since it was listed
		return why, res.Body.Close()
	}
	if err := errors.Join(json.NewDecoder(res.Body).Decode(why), res.Body.Close()); err != nil {
		return nil, fmt.Errorf("decode the controller's response with status %s: %w", res.Status, err)
	}
	return why, nil
}

// countSince is how many pods have been evicted since this was last asked, and how many NodeClaims were made or deleted since an instant.
func (l *life) countSince(begin time.Time) (evictions, nodes int) {
	for _, p := range l.Pods {
		if !p.Disrupted.IsZero() && !l.counted[p] {
			l.counted[p] = true
			evictions++
		}
	}
	for _, c := range l.Claims {
		if c.Created.After(begin) || c.Removed.After(begin) {
			nodes++
		}
	}
	return evictions, nodes
}

// freeze changes nothing for a while and counts what moves all the same.
func (l *life) freeze(ctx context.Context, res *Result) error {
	fmt.Fprintf(os.Stderr, "waiting for %s without changes\n", l.frozen)
	begin := time.Now()
	if err := l.Idle(ctx, l.frozen); err != nil {
		return err
	}
	res.FrozenEvictions, res.FrozenNodes = l.countSince(begin)
	return nil
}

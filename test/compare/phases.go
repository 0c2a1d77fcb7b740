// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// Start contains the times of one pod that needs a new node, in milliseconds after the creation of its Deployment.
type Start struct {
	PodMs      float64 `json:"podMilliseconds"`
	ClaimMs    float64 `json:"nodeClaimMilliseconds,omitempty"`       // none with Cluster Autoscaler
	DesiredMs  float64 `json:"desiredCapacityMilliseconds,omitempty"` // on Auto Scaling groups only
	InstanceMs float64 `json:"instanceMilliseconds,omitempty"`        // on the simulated AWS only
	NodeMs     float64 `json:"nodeMilliseconds"`                      // Node object created, not Ready
	ReadyMs    float64 `json:"readyMilliseconds"`
	BoundMs    float64 `json:"boundMilliseconds"`
	RunningMs  float64 `json:"runningMilliseconds"`

	begun time.Time
}

// since returns the milliseconds from the creation of the Deployment to an instant.
func (s *Start) since(t time.Time) float64 {
	return max(0, float64(t.Sub(s.begun).Microseconds())/1000)
}

// Burst is the result of a burst of pods.
type Burst struct {
	Pods      int     `json:"pods"`
	Seconds   float64 `json:"seconds"` // until all run
	Nodes     int     `json:"nodes"`
	USD       float64 `json:"usdPerHour"`
	Bound     float64 `json:"usdPerHourBound"`
	OverBound float64 `json:"overBound"`
}

// ScaleDown is the result of scaling the burst down to 30 %.
type ScaleDown struct {
	Pods      int     `json:"pods"`
	Seconds   float64 `json:"seconds"` // until the last change, including consolidateAfter
	Nodes     int     `json:"nodes"`
	USD       float64 `json:"usdPerHour"`
	Bound     float64 `json:"usdPerHourBound"`
	OverBound float64 `json:"overBound"`
	Evictions int     `json:"evictions"`
	Unbound   float64 `json:"longestUnboundSeconds"` // of a pod created after an eviction
	Unrested  bool    `json:"notAtRest,omitempty"`   // not stable after Seconds; the other figures are from that time
}

const patience = 10 * time.Minute

// start measures a Deployment of one pod in a cluster without a node for it. The pod is kept.
func (c *cluster) start(ctx context.Context) (*Start, error) {
	begin := time.Now()
	if err := c.deploy(ctx, "first", 0, 1); err != nil {
		return nil, err
	}
	isThere := func() bool { // nodes are watched separately
		for _, p := range c.Pods {
			if n := c.Nodes[p.Node]; p.Runs && n != nil && !n.Ready.IsZero() {
				return true
			}
		}
		return false
	}
	if _, err := c.follow(ctx, "the first pod to run on a node that is Ready", patience, 0, isThere); err != nil {
		return nil, err
	}
	out := &Start{begun: begin}
	for _, p := range c.Pods {
		n := c.Nodes[p.Node]
		out.PodMs, out.NodeMs, out.ReadyMs, out.BoundMs, out.RunningMs = out.since(p.Created), out.since(n.Created), out.since(n.Ready), out.since(p.Bound), out.since(p.Running)
	}
	for _, x := range c.Claims {
		if ms := out.since(x.Created); out.ClaimMs == 0 || ms < out.ClaimMs {
			out.ClaimMs = ms
		}
	}
	return out, nil
}

// burst measures a burst of n pods of each of the two kinds.
func (c *cluster) burst(ctx context.Context, n int) (*Burst, error) {
	all := 2*n + 1
	begin := time.Now()
	for i, k := range scaledown.Kinds {
		if err := c.deploy(ctx, k.Name, i, n); err != nil {
			return nil, err
		}
	}
	last, err := c.follow(ctx, fmt.Sprint(all, " pods to run"), patience, 0, func() bool { return c.Running() == all })
	if err != nil {
		return nil, err
	}
	out := &Burst{Pods: 2 * n, Seconds: round(last.Sub(begin).Seconds())}
	// Include nodes that were requested and launch later.
	if _, err := c.follow(ctx, "all requested nodes", patience, 3*time.Second, func() bool { return true }); err != nil {
		return nil, err
	}
	if out.Nodes, out.USD, err = c.bill(); err != nil {
		return nil, err
	}
	if out.Bound, err = c.bound(n+1, n); err != nil {
		return nil, err
	}
	out.OverBound = round(out.USD / out.Bound)
	return out, nil
}

// scaleDown scales the burst down to 30 % and waits until the cluster is stable, or for the longest wait.
func (c *cluster) scaleDown(ctx context.Context, n int, still, longest time.Duration) (*ScaleDown, error) {
	left := n * 3 / 10
	begin := time.Now()
	for _, k := range scaledown.Kinds {
		if err := c.Sandbox.Patch(ctx, "/apis/apps/v1/namespaces/default/deployments/"+k.Name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, left)); err != nil {
			return nil, err
		}
	}
	all := 2*left + 1
	if _, err := c.follow(ctx, fmt.Sprint(all, " pods to be left"), patience, 0, func() bool { return c.Running() == all }); err != nil {
		return nil, err
	}
	out := &ScaleDown{Pods: 2 * left}
	last, err := c.follow(ctx, "the cluster to be stable", longest-time.Since(begin), still, func() bool { return c.Running() == all })
	if out.Seconds = round(last.Sub(begin).Seconds()); errors.Is(err, watch.ErrWaited) {
		out.Unrested, out.Seconds = true, longest.Seconds()
	} else if err != nil {
		return nil, err
	}
	for _, p := range c.Pods {
		if p.Created.After(begin) { // a ReplicaSet that is scaled down creates no other pods: this one replaces an evicted pod
			out.Evictions++
			out.Unbound = max(out.Unbound, round(p.Bound.Sub(p.Created).Seconds()))
		}
	}
	if out.Nodes, out.USD, err = c.bill(); err != nil {
		return nil, err
	}
	if out.Bound, err = c.bound(left+1, left); err != nil {
		return nil, err
	}
	out.OverBound = round(out.USD / out.Bound)
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"math"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// cluster is a watched sandbox with its allowed instance types.
type cluster struct {
	*watch.Cluster
	catalogue string
	below     int // CPUs
}

// follow processes events until done returns true and nothing has changed for the duration quiet. It returns the time of the last change.
func (c *cluster) follow(ctx context.Context, what string, limit, quiet time.Duration, done func() bool) (time.Time, error) {
	begun := time.Now()
	err := c.Until(ctx, what, limit, func() bool {
		return time.Since(begun) >= quiet && time.Since(c.Moved) >= quiet && done()
	})
	return c.Moved, err
}

// bill returns the number and hourly cost of the autoscaler's nodes.
func (c *cluster) bill() (nodes int, usd float64, err error) {
	all, err := c.Standing()
	return len(all), round(watch.Sum(all)), err
}

// bound returns the proven minimum hourly cost of a number of pods of each kind.
func (c *cluster) bound(small, large int) (float64, error) {
	return scaledown.LowerBound(c.catalogue, c.below, small, large)
}

// deploy creates a Deployment of pods of one of the two kinds.
func (c *cluster) deploy(ctx context.Context, name string, kind, replicas int) error {
	k := scaledown.Kinds[kind]
	return scaledown.Deploy(ctx, c.Sandbox, scaledown.Deployment(name, replicas, 30, k.CPU, k.Memory))
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

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

// cluster is a sandbox that is followed, with what nodes may be launched.
type cluster struct {
	*watch.Cluster
	catalogue string
	below     int // CPUs
}

// follow takes events in until done holds and, where quiet is given, nothing has moved for so long. It returns the last change.
func (c *cluster) follow(ctx context.Context, what string, limit, quiet time.Duration, done func() bool) (time.Time, error) {
	begun := time.Now()
	err := c.Until(ctx, what, limit, func() bool {
		return time.Since(begun) >= quiet && time.Since(c.Moved) >= quiet && done()
	})
	return c.Moved, err
}

// bill is the number of the autoscaler's nodes and what they cost an hour.
func (c *cluster) bill() (nodes int, usd float64, err error) {
	all, err := c.Standing()
	return len(all), round(watch.Sum(all)), err
}

// bound is the proven least that so many pods of each of the two kinds can cost an hour.
func (c *cluster) bound(small, large int) (float64, error) {
	return scaledown.LowerBound(c.catalogue, c.below, small, large)
}

// deploy makes a Deployment of pods of one of the two kinds.
func (c *cluster) deploy(ctx context.Context, name string, kind, replicas int) error {
	k := scaledown.Kinds[kind]
	return scaledown.Deploy(ctx, c.Sandbox, scaledown.Deployment(name, replicas, 30, k.CPU, k.Memory))
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// cluster is a sandbox with one autoscaler.
type cluster struct {
	*sandbox.Sandbox
	stopKarpenter func() // nil where the sandbox runs Dovetail
}

// startCluster brings a sandbox up in dir, without nodes, pods or pools, as the suites want to find a cluster. Both
// autoscalers buy from the same instance types, and a node is there as soon as it is bought.
func startCluster(ctx context.Context, dir string, o options, b built, autoscaler string) (c *cluster, err error) {
	catalog, err := writeCatalogue(dir, o, b)
	if err != nil {
		return nil, err
	}
	flags := []string{"--boot", "0s", "--catalog", catalog}
	if autoscaler == karpenter {
		flags = append(flags, "--no-autoscaler")
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), flags...)
	if err != nil {
		return nil, err
	}
	c = &cluster{Sandbox: s}
	if autoscaler == karpenter {
		var env []string
		if o.suite == "regression" {
			env = append(env, "FEATURE_GATES=NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true") // they have specs
		}
		if c.stopKarpenter, err = s.StartKarpenter(b.controller, catalog, filepath.Join(dir, "karpenter.log"), env...); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

// writeCatalogue is the file of the instance types that a suite runs with. The regression suite has those that Karpenter runs it
// with, for its specs ask for types of either architecture; the performance suite those on amd64 whose prices Dovetail's other
// figures are of.
func writeCatalogue(dir string, o options, b built) (string, error) {
	if o.suite == "regression" {
		return filepath.Join(b.module, "kwok", "cloudprovider", "instance_types.json"), nil
	}
	return scaledown.WriteCatalogue(dir)
}

// stop ends Karpenter, where it runs, and the sandbox. Logs stay.
func (c *cluster) stop() error {
	if c.stopKarpenter != nil {
		c.stopKarpenter()
	}
	return c.Down()
}

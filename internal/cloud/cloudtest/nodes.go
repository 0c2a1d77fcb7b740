// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloudtest

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// NoNodes is a cluster behind the simulated cloud for tests that never look at its Nodes: each is made and deleted as asked.
type NoNodes struct{}

// CreateNode implements machines.NodeMaker.
func (NoNodes) CreateNode(context.Context, machines.NodeSpec) error { return nil }

// DeleteNode implements machines.NodeMaker.
func (NoNodes) RebootNode(context.Context, machines.NodeSpec) error { return nil }

// DeleteNode implements machines.NodeMaker.
func (NoNodes) DeleteNode(context.Context, string, string) error { return nil }

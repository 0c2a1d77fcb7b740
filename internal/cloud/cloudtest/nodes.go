// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloudtest

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// NoNodes is a NodeMaker for tests that do not use Nodes: every call succeeds.
type NoNodes struct{}

// CreateNode implements machines.NodeMaker.
func (NoNodes) CreateNode(context.Context, machines.NodeSpec) error { return nil }

// RebootNode implements machines.NodeMaker.
func (NoNodes) RebootNode(context.Context, machines.NodeSpec) error { return nil }

// DeleteNode implements machines.NodeMaker.
func (NoNodes) DeleteNode(context.Context, string, string) error { return nil }

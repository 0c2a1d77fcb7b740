// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// NodeMaker makes the changes to Kubernetes that a cloud makes: it creates the Node that the kubelet of a booted machine
// would create, and deletes the Node of a terminated machine, like a cloud controller manager. The methods are retried
// until they return nil, also after a crash, and are called concurrently for several machines.
type NodeMaker interface {
	// CreateNode creates the Node with its status. If a Node with this name and provider ID exists, it returns nil.
	CreateNode(ctx context.Context, node machines.NodeSpec) error
	// RebootNode sets the new boot ID of the Node of a restarted machine. If there is no such Node, or it belongs to
	// another machine, it returns nil.
	RebootNode(ctx context.Context, node machines.NodeSpec) error
	// DeleteNode deletes the Node with this name and provider ID. If there is none, it belongs to another machine, or it
	// waits for finalizers, DeleteNode returns nil.
	DeleteNode(ctx context.Context, name, providerID string) error
}

const (
	// KwokNode is the key of the label and annotation that make kwok simulate the kubelet of a node. Both have the
	// value KwokNodeValue.
	KwokNode      = "kwok.x-k8s.io/node"
	KwokNodeValue = "fake"
	// NodeViewerPrice is the label from which eks-node-viewer reads dollars per hour.
	NodeViewerPrice = NodeViewerDomain + "/instance-price"
	// NodeViewerDomain is the domain of the labels of eks-node-viewer.
	NodeViewerDomain = "eks-node-viewer"
)

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// NodeMaker has the only powers over Kubernetes that a cloud has: to make the Node that a booted machine's kubelet would make,
// and to delete the Node of a machine that is gone, as a cloud controller manager does. Both are called again until they answer
// nil, also after a crash, by several machines at once.
type NodeMaker interface {
	// CreateNode makes the Node and its status. A Node of this name and provider id that is there already is success.
	CreateNode(ctx context.Context, node machines.NodeSpec) error
	// RebootNode gives the Node of a machine that was restarted its new boot ID. No such Node, or another machine's, is success.
	RebootNode(ctx context.Context, node machines.NodeSpec) error
	// DeleteNode deletes the Node of this name if it has this provider id. None there, or another machine's, is success; so is
	// one that is being deleted and waits for its finalizers.
	DeleteNode(ctx context.Context, name, providerID string) error
}

const (
	// KwokNode, as a label and an annotation with this value, makes kwok act as the kubelet of a node.
	KwokNode      = "kwok.x-k8s.io/node"
	KwokNodeValue = "fake"
	// NodeViewerPrice is the label in which eks-node-viewer looks for dollars per hour.
	NodeViewerPrice = NodeViewerDomain + "/instance-price"
	// NodeViewerDomain is its domain.
	NodeViewerDomain = "eks-node-viewer"
)

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// MachineNodes finds Nodes by provider ID.
type MachineNodes struct{ c *client.Client }

// NewMachineNodes returns the MachineNodes of a cluster.
func NewMachineNodes(c *client.Client) *MachineNodes { return &MachineNodes{c} }

// NodesOf returns the Nodes with these provider IDs, by provider ID.
func (x *MachineNodes) NodesOf(ctx context.Context, providerIDs []string) (map[string]*corev1.Node, error) {
	wanted := make(map[string]bool, len(providerIDs))
	for _, id := range providerIDs {
		wanted[id] = true
	}
	var list corev1.NodeList
	// From the server's cache, like the watch beside it.
	if err := x.c.Core.Get().Resource("nodes").Param("resourceVersion", "0").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := map[string]*corev1.Node{}
	for i := range list.Items {
		if id := list.Items[i].Spec.ProviderID; wanted[id] {
			out[id] = &list.Items[i]
		}
	}
	return out, nil
}

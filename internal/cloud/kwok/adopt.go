// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok

import (
	"context"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// adoptedPrefix begins the provider ids of Karpenter's KWOK provider; the name of the Node follows. There is no machine
// behind such a node: the Node object is the instance, and deleting it ends the instance.
const adoptedPrefix = "kwok://"

// Nodes reads and deletes the Node objects needed to adopt nodes of Karpenter's KWOK provider.
type Nodes interface {
	// SimulatedNodes returns the creation time of each simulated node, by provider ID.
	SimulatedNodes(ctx context.Context) (map[string]time.Time, error)
	// DeleteSimulatedNode deletes a node. A missing node is not an error.
	DeleteSimulatedNode(ctx context.Context, name string) error
}

// AdoptNodes makes the provider also manage nodes created by Karpenter's KWOK provider. Call it before the provider is
// used.
func (p *Provider) AdoptNodes(n Nodes) {
	p.adopted = &adoptedNodes{nodes: n, ended: map[string]bool{}}
}

// has reports whether a provider id is that of such an instance.
func (a *adoptedNodes) has(id string) bool { return a != nil && strings.HasPrefix(id, adoptedPrefix) }

// list returns the instances in no order. They have no claim UID, so the owner of the NodeClaim terminates them.
func (a *adoptedNodes) list(ctx context.Context) ([]model.Instance, error) {
	if a == nil {
		return nil, nil
	}
	nodes, err := a.nodes.SimulatedNodes(ctx)
	if err != nil {
		return nil, &cloud.Error{Kind: cloud.Unknown, Op: "list", Err: err}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []model.Instance
	for id, made := range nodes {
		if a.has(id) {
			out = append(out, model.Instance{ProviderID: id, Launched: made, Gone: a.ended[id]})
		}
	}
	for id := range a.ended {
		if _, ok := nodes[id]; !ok {
			delete(a.ended, id)
		}
	}
	return out, nil
}

// terminate ends an instance.
func (a *adoptedNodes) terminate(ctx context.Context, id string) error {
	if err := a.nodes.DeleteSimulatedNode(ctx, strings.TrimPrefix(id, adoptedPrefix)); err != nil {
		return &cloud.Error{Kind: cloud.Unknown, Op: "terminate", Object: id, Err: err}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[id] = true
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Annotations that Cluster API sets on nodes.
const (
	annotationClusterName      = apiGroup + "/cluster-name"
	annotationClusterNamespace = apiGroup + "/cluster-namespace"
)

// ClusterOf returns the Cluster object that a node with these annotations belongs to; empty: to none.
func ClusterOf(annotations map[string]string) Config {
	c := Config{Namespace: annotations[annotationClusterNamespace], Name: annotations[annotationClusterName]}
	if c.Namespace == "" || c.Name == "" {
		return Config{}
	}
	return c
}

// NodePrices returns what annotations model.AnnotationPrice of the objects that have Machines say of their nodes, by the name of the node; nil if the management
// cluster is another one.
func NodePrices(ctx context.Context, c Config, api API) (map[string]string, error) {
	s := newServer(c, api, cloud.Wall{}, slog.New(slog.DiscardHandler))
	groups, err := s.listGroups(ctx)
	var refused *nodegroups.CallError
	if errors.As(err, &refused) && refused.Kind == cloud.NotReady {
		return nil, nil // it has no API group of Cluster API
	}
	if err != nil {
		return nil, err
	}
	machines, err := s.machinesByGroup(ctx, groups)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, g := range groups {
		price, ok := g.object.Metadata.Annotations[model.AnnotationPrice]
		if !ok {
			continue
		}
		for i := range machines[name] {
			if node := machines[name][i].Status.NodeRef.Name; node != "" {
				out[node] = price
			}
		}
	}
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ClusterOf returns the Cluster object of a node by its annotations; empty: none.
func ClusterOf(annotations map[string]string) Config {
	c := Config{Namespace: annotations[model.AnnotationClusterNamespace], Name: annotations[model.AnnotationClusterName]}
	if c.Namespace == "" || c.Name == "" {
		return Config{}
	}
	return c
}

// NodeOffer is the offering of a node according to the object that owns its Machine.
type NodeOffer struct {
	Price      string // value of annotation model.AnnotationPrice; empty: none
	Type, Zone string // from the infrastructure template; empty: not requested, or not set
}

// NodeOffers returns the offerings of nodes by node name; nil if the management cluster is another cluster.
// Infrastructure templates are read only for nodes without a label for their instance type, as reported by untyped. The
// error may concern one template: all other results are returned with it.
func NodeOffers(ctx context.Context, c Config, api API, untyped func(node string) bool) (map[string]NodeOffer, error) {
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
	out := map[string]NodeOffer{}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		o := groups[name].object
		var labels map[string]string // of the template; nil: not read
		for i := range machines[name] {
			node := machines[name][i].Status.NodeRef.Name
			if node == "" {
				continue
			}
			offer := NodeOffer{Price: o.Metadata.Annotations[model.AnnotationPrice]}
			if untyped(node) {
				if labels == nil {
					infra, _, err := s.infrastructure(ctx, o)
					failed = cmp.Or(failed, err)
					d := &describer{annotations: o.Metadata.Annotations, node: &corev1.Node{}}
					d.labels(o, infra)
					labels = d.node.Labels
				}
				offer.Type, offer.Zone = labels[model.LabelInstanceType], labels[model.LabelZone]
			}
			if offer != (NodeOffer{}) {
				out[node] = offer
			}
		}
	}
	return out, failed
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"context"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// Handover reads the node groups of a Cluster, and changes the record of the owners of machines during a takeover.
type Handover struct {
	server  *server
	records nodegroups.Records
}

// NewHandover returns a Handover. It makes no requests. records are those of the running controller.
func NewHandover(c Config, api API, records nodegroups.Records, log *slog.Logger) *Handover {
	return &Handover{newServer(c, api, cloud.Wall{}, log), records}
}

// DescribeGroup returns the labels of a group's object and the provider IDs of its Machines, sorted. found is false if
// no object with the annotations of a group has the name.
func (h *Handover) DescribeGroup(ctx context.Context, name string) (labels map[string]string, members []string, found bool, err error) {
	o, resource, err := h.server.find(ctx, name)
	if apierrors.IsNotFound(err) || err == nil && !isGroup(o) {
		return nil, nil, false, nil
	}
	if err != nil {
		return nil, nil, false, err
	}
	machines, err := h.server.machinesOf(ctx, resource, o)
	for i := range machines {
		if id := machines[i].Spec.ProviderID; id != "" {
			members = append(members, id)
		}
	}
	slices.Sort(members)
	return o.Metadata.Labels, members, err == nil, err
}

// Resource returns the resource of a group's object in kubectl notation.
func (h *Handover) Resource(ctx context.Context, name string) string {
	_, resource, err := h.server.find(ctx, name)
	if err != nil {
		resource = resourceDeployments
	}
	return resource + "." + apiGroup
}

// ForgetClaims removes the NodeClaims of machines from the record, by provider ID.
func (h *Handover) ForgetClaims(ctx context.Context, ids []string) error {
	return nodegroups.Forget(ctx, h.records, ids)
}

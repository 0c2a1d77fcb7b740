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

// Handover reads a Cluster's node groups, and changes the record of whose their machines are, when groups are handed over between autoscalers.
type Handover struct {
	server  *server
	records nodegroups.Records
}

// NewHandover makes a Handover. Nothing is requested before it is used. Records are those of the running controller.
func NewHandover(c Config, api API, records nodegroups.Records, log *slog.Logger) *Handover {
	return &Handover{newServer(c, api, cloud.Wall{}, log), records}
}

// DescribeGroup returns the labels of a group's object and the provider ids of its Machines, sorted; found is false if there is none of the name that
// has the annotations of a group.
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

// Resource returns the resource of a group's object, as kubectl names it.
func (h *Handover) Resource(ctx context.Context, name string) string {
	_, resource, err := h.server.find(ctx, name)
	if err != nil {
		resource = resourceDeployments
	}
	return resource + "." + apiGroup
}

// ForgetClaims makes machines, by provider id, those of no NodeClaim.
func (h *Handover) ForgetClaims(ctx context.Context, ids []string) error {
	return nodegroups.Forget(ctx, h.records, ids)
}

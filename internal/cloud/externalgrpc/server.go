// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// Provider launches nodes through one server.
type Provider struct {
	*nodegroups.Provider
	server *server
}

// New returns a provider. It makes no requests.
func New(c *Config, records nodegroups.Records, resources nodegroups.Resources, clock cloud.Clock, log *slog.Logger) (*Provider, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	timeout, err := c.timeout()
	if err != nil {
		return nil, err
	}
	s := &server{client: protocol.NewCloudProviderClient(conn), address: c.Address, secure: c.CACert != "", timeout: timeout, clock: clock, log: log}
	return &Provider{nodegroups.New(nodegroups.Settings{Name: "externalgrpc", Server: s, Timeout: timeout, Records: records, Resources: resources, Clock: clock, Log: log}), s}, nil
}

// FindNodes sets the source of names and labels of nodes to terminate, by which some servers find machines.
func (p *Provider) FindNodes(n Nodes) { p.server.nodes = n }

// Refresh implements nodegroups.Server.
func (s *server) Refresh(ctx context.Context) error {
	_, err := call(ctx, s, "Refresh", s.client.Refresh, &protocol.RefreshRequest{})
	return err
}

// Groups implements nodegroups.Server.
func (s *server) Groups(ctx context.Context) ([]nodegroups.Group, error) {
	res, err := call(ctx, s, "NodeGroups", s.client.NodeGroups, &protocol.NodeGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var out []nodegroups.Group
	for _, g := range res.NodeGroups {
		one := nodegroups.Group{Name: g.GetId(), Min: int64(max(g.GetMinSize(), 0)), Max: int64(g.GetMaxSize())}
		if one.Max < one.Min {
			one.Problem = fmt.Sprintf("the server returned minimum size %d above maximum size %d", g.GetMinSize(), g.GetMaxSize())
		}
		out = append(out, one)
	}
	return out, nil
}

// Target implements nodegroups.Server.
func (s *server) Target(ctx context.Context, group string) (int64, error) {
	res, err := call(ctx, s, "NodeGroupTargetSize", s.client.NodeGroupTargetSize, &protocol.NodeGroupTargetSizeRequest{Id: group})
	return int64(max(res.GetTargetSize(), 0)), err
}

// Members implements nodegroups.Server.
func (s *server) Members(ctx context.Context, group string) ([]nodegroups.Member, error) {
	res, err := call(ctx, s, "NodeGroupNodes", s.client.NodeGroupNodes, &protocol.NodeGroupNodesRequest{Id: group})
	if err != nil {
		return nil, err
	}
	var out []nodegroups.Member
	for _, in := range res.Instances {
		m := nodegroups.Member{ID: in.GetId(), Code: in.GetStatus().GetErrorInfo().GetErrorCode(), Message: in.GetStatus().GetErrorInfo().GetErrorMessage()}
		switch in.GetStatus().GetInstanceState() {
		case protocol.InstanceStatus_instanceDeleting:
			m.Deleting = true
		case protocol.InstanceStatus_instanceRunning, protocol.InstanceStatus_unspecified:
			m.Running = !isPlaceholder(m.ID)
		}
		if m.ID != "" {
			out = append(out, m)
		}
	}
	return out, nil
}

// isPlaceholder reports whether clouds of Cluster Autoscaler list this id for a machine that they do not have yet.
func isPlaceholder(id string) bool {
	for _, part := range []string{"placeholder", "pending-machine-", "failed-machine-", "deleting-machine-"} {
		if strings.Contains(id, part) {
			return true
		}
	}
	return false
}

// Raise implements nodegroups.Server.
func (s *server) Raise(ctx context.Context, group string, by, _ int64) error {
	_, err := call(ctx, s, "NodeGroupIncreaseSize", s.client.NodeGroupIncreaseSize, &protocol.NodeGroupIncreaseSizeRequest{Id: group, Delta: int32(by)})
	return err
}

// Lower implements nodegroups.Server.
func (s *server) Lower(ctx context.Context, group string, by int64) error {
	_, err := call(ctx, s, "NodeGroupDecreaseTargetSize", s.client.NodeGroupDecreaseTargetSize, &protocol.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: int32(-by)})
	return err
}

// End implements nodegroups.Server.
func (s *server) End(ctx context.Context, group string, ids []string) error {
	var found map[string]*corev1.Node
	var err error
	if s.nodes != nil {
		if found, err = s.nodes.NodesOf(ctx, ids); err != nil {
			return err
		}
	}
	in := &protocol.NodeGroupDeleteNodesRequest{Id: group}
	for _, id := range ids {
		n := &protocol.ExternalGrpcNode{ProviderID: id}
		if have := found[id]; have != nil {
			n.Name, n.Labels, n.Annotations = have.Name, have.Labels, have.Annotations
		}
		in.Nodes = append(in.Nodes, n)
	}
	_, err = call(ctx, s, "NodeGroupDeleteNodes", s.client.NodeGroupDeleteNodes, in)
	return err
}

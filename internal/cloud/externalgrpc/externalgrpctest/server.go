// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package externalgrpctest provides a server of the externalgrpc protocol with in-memory node groups and fault
// injection, for tests. Start reading at Server.
package externalgrpctest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Server is a server with in-memory groups. Set its fields before Start, or with Set.
type Server struct {
	protocol.UnimplementedCloudProviderServer
	mu       sync.Mutex
	groups   map[string]*group
	made     int
	everMade []string // ids of all machines
	calls    []string // that changed something

	Throttle  time.Duration                                    // retry delay returned to the next call
	Lose      bool                                             // the response of the next changing call is lost
	Hang      chan struct{}                                    // if not nil, all calls block until it is closed
	Hold      bool                                             // no machines are created
	Fail      map[string]bool                                  // by group: new machines have an error
	Refuse    map[string]error                                 // by group: error of NodeGroupIncreaseSize
	Old       bool                                             // templates in the format before Kubernetes 1.35
	Unpriced  bool                                             // pricing is not implemented
	Targets   map[string]int32                                 // by group: target size returned instead of the real one
	Templates map[string][]byte                                // by group: template node returned instead of the real one
	Options   map[string]*protocol.NodeGroupAutoscalingOptions // by group: responses of NodeGroupGetOptions; nil: not implemented

	Stop func() // stops the server; set by Start

	// Made and Ended are called when a machine is created and deleted.
	Made  func(id string, template *corev1.Node)
	Ended func(id string)
}

type group struct {
	min, max, target int32
	node             *corev1.Node
	price            float64
	machines         []*protocol.Instance
}

// Set changes fields of a running server.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Grow raises the size of a group on behalf of another client.
func (s *Server) Grow(name string, by int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[name].target += by
	_, _ = s.named(name)
}

// Break sets an error on each machine of a group. Running machines keep running.
func (s *Server) Break(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.groups[name].machines {
		s.groups[name].machines[i] = &protocol.Instance{Id: m.Id, Status: &protocol.InstanceStatus{InstanceState: m.Status.InstanceState,
			ErrorInfo: &protocol.InstanceErrorInfo{ErrorCode: "DiskFull", ErrorMessage: "its disk is full"}}}
	}
}

// EverMade returns the IDs of all machines ever created.
func (s *Server) EverMade() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.everMade)
}

// Calls returns the calls that changed or tried to change something.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Size returns the target size and the number of machines of a group.
func (s *Server) Size(name string) (target, machines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.groups[name].target), len(s.groups[name].machines)
}

// Standing returns the number of machines in all groups, including those that are due by now.
func (s *Server) Standing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.groups {
		if g, err := s.named(id); err == nil {
			n += len(g.machines)
		}
	}
	return n
}

// Start starts the server on loopback until the test ends, and returns its address.
func (s *Server) Start(t testing.TB, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(append(options, grpc.UnaryInterceptor(s.intercept))...)
	protocol.RegisterCloudProviderServer(g, s)
	s.Stop = g.Stop
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	return listener.Addr().String()
}

// intercept brings faults about.
func (s *Server) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	name := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	s.mu.Lock()
	hang, after := s.Hang, s.Throttle
	s.Throttle = 0
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if after > 0 {
		st, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	out, err := handle(ctx, in)
	changes := strings.HasSuffix(name, "IncreaseSize") || strings.HasSuffix(name, "DeleteNodes") || strings.HasSuffix(name, "DecreaseTargetSize")
	if changes {
		s.mu.Lock()
		s.calls = append(s.calls, fmt.Sprintf("%s %v", name, in))
		lose := s.Lose
		s.Lose = false
		s.mu.Unlock()
		if lose {
			return nil, status.Error(codes.Unavailable, "the reply is lost")
		}
	}
	return out, err
}

// named returns a group, and brings it closer to its target. The caller holds mu.
func (s *Server) named(id string) (*group, error) {
	g := s.groups[id]
	if g == nil {
		return nil, status.Error(codes.NotFound, "no group "+id)
	}
	for !s.Hold && int32(len(g.machines)) < g.target {
		s.made++
		name, id := id, fmt.Sprintf("test://%s/%d", id, s.made)
		if s.Fail[name] {
			g.machines = append(g.machines, &protocol.Instance{Id: id, Status: &protocol.InstanceStatus{InstanceState: protocol.InstanceStatus_instanceCreating,
				ErrorInfo: &protocol.InstanceErrorInfo{ErrorCode: "OutOfStock", ErrorMessage: "no capacity"}}})
			continue
		}
		s.everMade = append(s.everMade, id)
		if s.Made != nil {
			s.Made(id, g.node)
		}
		g.machines = append(g.machines, &protocol.Instance{Id: id, Status: &protocol.InstanceStatus{InstanceState: protocol.InstanceStatus_instanceRunning}})
	}
	return g, nil
}

// NodeGroups implements the protocol.
func (s *Server) NodeGroups(context.Context, *protocol.NodeGroupsRequest) (*protocol.NodeGroupsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &protocol.NodeGroupsResponse{}
	for id, g := range s.groups {
		out.NodeGroups = append(out.NodeGroups, &protocol.NodeGroup{Id: id, MinSize: g.min, MaxSize: g.max})
	}
	return out, nil
}

// Refresh implements the protocol.
func (s *Server) Refresh(context.Context, *protocol.RefreshRequest) (*protocol.RefreshResponse, error) {
	return &protocol.RefreshResponse{}, nil
}

// Cleanup implements the protocol. It counts as a changing call: cloud providers of Cluster Autoscaler stop refreshing
// their data, and some exit on a second call.
func (s *Server) Cleanup(context.Context, *protocol.CleanupRequest) (*protocol.CleanupResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "Cleanup")
	return &protocol.CleanupResponse{}, nil
}

// PricingNodePrice implements the protocol.
func (s *Server) PricingNodePrice(_ context.Context, in *protocol.PricingNodePriceRequest) (*protocol.PricingNodePriceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Unpriced {
		return nil, status.Error(codes.Unimplemented, "no prices")
	}
	g := s.groups[in.Node.Labels["example.com/group"]]
	return &protocol.PricingNodePriceResponse{Price: g.price * in.EndTimestamp.AsTime().Sub(in.StartTimestamp.AsTime()).Hours()}, nil
}

// NodeGroupTargetSize implements the protocol.
func (s *Server) NodeGroupTargetSize(_ context.Context, in *protocol.NodeGroupTargetSizeRequest) (*protocol.NodeGroupTargetSizeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.named(in.Id)
	if err != nil {
		return nil, err
	}
	if v, ok := s.Targets[in.Id]; ok {
		return &protocol.NodeGroupTargetSizeResponse{TargetSize: v}, nil
	}
	return &protocol.NodeGroupTargetSizeResponse{TargetSize: g.target}, nil
}

// NodeGroupIncreaseSize implements the protocol.
func (s *Server) NodeGroupIncreaseSize(_ context.Context, in *protocol.NodeGroupIncreaseSizeRequest) (*protocol.NodeGroupIncreaseSizeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.named(in.Id)
	if err != nil {
		return nil, err
	}
	if err := s.Refuse[in.Id]; err != nil {
		return nil, err
	}
	if in.Delta <= 0 || g.target+in.Delta > g.max {
		return nil, fmt.Errorf("size increase too large: desired %d, max %d", g.target+in.Delta, g.max)
	}
	g.target += in.Delta
	_, err = s.named(in.Id)
	return &protocol.NodeGroupIncreaseSizeResponse{}, err
}

// NodeGroupDeleteNodes implements the protocol.
func (s *Server) NodeGroupDeleteNodes(_ context.Context, in *protocol.NodeGroupDeleteNodesRequest) (*protocol.NodeGroupDeleteNodesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.named(in.Id)
	if err != nil {
		return nil, err
	}
	for _, n := range in.Nodes {
		at := slices.IndexFunc(g.machines, func(m *protocol.Instance) bool { return m.Id == n.ProviderID })
		if at < 0 {
			return nil, fmt.Errorf("node %s is not of group %s", n.ProviderID, in.Id)
		}
		if g.target <= g.min {
			return nil, fmt.Errorf("min size reached")
		}
		g.machines = slices.Delete(g.machines, at, at+1)
		g.target--
		if s.Ended != nil {
			s.Ended(n.ProviderID)
		}
	}
	return &protocol.NodeGroupDeleteNodesResponse{}, nil
}

// NodeGroupDecreaseTargetSize implements the protocol.
func (s *Server) NodeGroupDecreaseTargetSize(_ context.Context, in *protocol.NodeGroupDecreaseTargetSizeRequest) (*protocol.NodeGroupDecreaseTargetSizeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.named(in.Id)
	if err != nil {
		return nil, err
	}
	if in.Delta >= 0 || g.target+in.Delta < int32(len(g.machines)) {
		return nil, fmt.Errorf("attempt to delete existing nodes")
	}
	g.target += in.Delta
	return &protocol.NodeGroupDecreaseTargetSizeResponse{}, nil
}

// NodeGroupNodes implements the protocol.
func (s *Server) NodeGroupNodes(_ context.Context, in *protocol.NodeGroupNodesRequest) (*protocol.NodeGroupNodesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.named(in.Id)
	if err != nil {
		return nil, err
	}
	return &protocol.NodeGroupNodesResponse{Instances: slices.Clone(g.machines)}, nil
}

// NodeGroupTemplateNodeInfo implements the protocol.
func (s *Server) NodeGroupTemplateNodeInfo(_ context.Context, in *protocol.NodeGroupTemplateNodeInfoRequest) (*protocol.NodeGroupTemplateNodeInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := s.groups[in.Id].node.Marshal()
	if other, ok := s.Templates[in.Id]; ok {
		data = other
	}
	if s.Old {
		return &protocol.NodeGroupTemplateNodeInfoResponse{NodeInfo: data}, err
	}
	return &protocol.NodeGroupTemplateNodeInfoResponse{NodeBytes: data}, err
}

// NodeGroupGetOptions implements the protocol. A group without options returns the defaults of the request.
func (s *Server) NodeGroupGetOptions(_ context.Context, in *protocol.NodeGroupAutoscalingOptionsRequest) (*protocol.NodeGroupAutoscalingOptionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Options == nil {
		return nil, status.Error(codes.Unimplemented, "no options")
	}
	out := s.Options[in.Id]
	if out == nil {
		out = in.Defaults
	}
	return &protocol.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: out}, nil
}

// AddGroup adds a group with a type, zone, capacity type and price, and returns its name. Its nodes have additional
// labels, given as alternating keys and values.
func (s *Server) AddGroup(instanceType, zone, capacityType string, cpus int64, price float64, labels ...string) string {
	name := instanceType + "-" + zone + "-" + capacityType
	capacity := corev1.ResourceList{"cpu": *resource.NewQuantity(cpus, resource.DecimalSI), "memory": *resource.NewQuantity(cpus<<32, resource.BinarySI), "pods": resource.MustParse("58")}
	allocatable := capacity.DeepCopy()
	allocatable["cpu"] = *resource.NewMilliQuantity(cpus*1000-70, resource.DecimalSI)
	if s.groups == nil {
		s.groups = map[string]*group{}
	}
	s.groups[name] = &group{max: 30, price: price, node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template-" + name, Labels: map[string]string{
			model.LabelInstanceType: instanceType, model.LabelZone: zone, model.LabelCapacityType: capacityType, model.LabelArch: "amd64", model.LabelOS: "linux", "example.com/group": name}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: allocatable},
	}}
	for pair := range slices.Chunk(labels, 2) {
		s.groups[name].node.Labels[pair[0]] = pair[1]
	}
	return name
}

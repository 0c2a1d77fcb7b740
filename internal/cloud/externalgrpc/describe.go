// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

import (
	"context"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// Describe implements nodegroups.Server.
func (s *server) Describe(ctx context.Context, group string) (nodegroups.Description, error) {
	problem := func(text string) (nodegroups.Description, error) { return nodegroups.Description{Problem: text}, nil }
	res, err := call(ctx, s, "NodeGroupTemplateNodeInfo", s.client.NodeGroupTemplateNodeInfo, &protocol.NodeGroupTemplateNodeInfoRequest{Id: group})
	switch {
	case isUnimplemented(err):
		return problem("the server does not implement NodeGroupTemplateNodeInfo, so its node capacity is unknown")
	case err != nil:
		return nodegroups.Description{}, err
	}
	data := res.GetNodeBytes()
	if len(data) == 0 {
		data = res.GetNodeInfo()
	}
	var node corev1.Node
	if len(data) == 0 {
		return problem("the server's template node is empty")
	}
	if err := node.Unmarshal(data); err != nil {
		return problem("the server's template node can't be read: " + err.Error())
	}
	out := nodegroups.Description{Node: &node}
	if out.PriceMicro, err = s.price(ctx, group, &node); err != nil {
		return out, err
	}
	err = s.readOptions(ctx, group, &out)
	return out, err
}

// price returns the price of a node of a group, in micro-dollars per hour; 0: unknown.
func (s *server) price(ctx context.Context, group string, node *corev1.Node) (int64, error) {
	from := s.clock.Now()
	res, err := call(ctx, s, "PricingNodePrice", s.client.PricingNodePrice, &protocol.PricingNodePriceRequest{
		Node:           &protocol.ExternalGrpcNode{ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations},
		StartTimestamp: timestamppb.New(from), EndTimestamp: timestamppb.New(from.Add(time.Hour)),
	})
	switch {
	case isUnimplemented(err):
		return 0, nil
	case isRefusal(err):
		s.log.Warn("the server did not return the price of a node group", "group", group, "error", err)
		return 0, nil
	case err != nil:
		return 0, err
	}
	v := res.GetPrice()
	if v == 0 {
		return 0, nil
	}
	micro, err := catalog.ParsePrice(strconv.FormatFloat(v, 'g', -1, 64))
	if err != nil {
		s.log.Warn("ignoring the server's price of a node group: it is not a valid price", "group", group, "price", v)
	}
	return micro, nil
}

// readOptions asks how a group is to be scaled. The defaults of the request are zero, so an option that is not zero is the server's
// own; a server that implements no options says nothing.
func (s *server) readOptions(ctx context.Context, group string, into *nodegroups.Description) error {
	res, err := call(ctx, s, "NodeGroupGetOptions", s.client.NodeGroupGetOptions, &protocol.NodeGroupAutoscalingOptionsRequest{Id: group, Defaults: &protocol.NodeGroupAutoscalingOptions{}})
	switch {
	case isUnimplemented(err):
		return nil
	case isRefusal(err):
		s.log.Warn("the server did not return the options of a node group; using those of its NodeGroupClass", "group", group, "error", err)
		return nil
	case err != nil:
		return err
	}
	o := res.GetNodeGroupAutoscalingOptions()
	if o.GetZeroOrMaxNodeScaling() {
		into.Problem = "zeroOrMaxNodeScaling is not supported: the group can't be scaled one node at a time"
	}
	share := func(field string, v float64) *int32 {
		if v > 0 && v <= 1 {
			percent := int32(math.Round(v * 100))
			return &percent
		}
		if v != 0 {
			s.log.Warn("ignoring an option of a node group: it is not between 0 and 1", "group", group, "option", field, "value", v)
		}
		return nil
	}
	duration := func(field string, v *durationpb.Duration, old *protocol.OldDuration) time.Duration {
		d := v.AsDuration()
		if d == 0 {
			d = time.Duration(old.GetDuration())
		}
		if d < 0 {
			s.log.Warn("ignoring an option of a node group: it is negative", "group", group, "option", field, "value", d)
		}
		return max(d, 0)
	}
	into.Options = &nodegroups.Options{
		UtilizationPercent:    share("scaleDownUtilizationThreshold", o.GetScaleDownUtilizationThreshold()),
		GPUUtilizationPercent: share("scaleDownGpuUtilizationThreshold", o.GetScaleDownGpuUtilizationThreshold()),
		Unready:               duration("scaleDownUnreadyDuration", o.GetScaleDownUnreadyDuration(), o.GetScaleDownUnreadyTime()),
		Provision:             duration("maxNodeProvisionDuration", o.GetMaxNodeProvisionDuration(), o.GetMaxNodeProvisionTime()),
		IgnoreDaemonSets:      o.GetIgnoreDaemonSetsUtilization(),
	}
	return nil
}

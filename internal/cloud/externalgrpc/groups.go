// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	groupsFor    = 10 * time.Second // how long the list of groups and their targets is used
	templatesFor = 5 * time.Minute  // and what a group's nodes are and cost
)

// groupInfo is a node group as the server describes it.
type groupInfo struct {
	name             string
	min, max, target int64
	template         *template
	problem          string // why nothing can be had from it; empty: it can
}

// template is what a group's nodes are.
type template struct {
	at          time.Time
	typeName    string
	zone        string // noZone: the server does not say
	capacity    string // capacity type
	typeLabels  model.Labels
	nodeLabels  model.Labels // of its nodes, besides those of the type, zone and capacity type
	taints      []model.Taint
	resources   model.Resources
	allocatable model.Resources
	priceMicro  int64 // 0: not known
	problem     string
}

// noZone stands for the zone of a group whose server names none. Its nodes get no such label.
const noZone = "none"

// snapshot is all groups, by name.
type snapshot struct {
	at     time.Time
	groups []*groupInfo
}

// groupReader keeps what was last read of groups.
type groupReader struct {
	mu        sync.Mutex
	snapshot  *snapshot
	templates map[string]*template
}

// groups returns the server's groups as they were at most groupsFor ago.
func (p *Provider) groups(ctx context.Context) (*snapshot, error) {
	if err := p.reading.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.reading.release()
	p.reader.mu.Lock()
	have := p.reader.snapshot
	p.reader.mu.Unlock()
	now := p.clock.Now()
	if have != nil && now.Sub(have.at) < groupsFor {
		return have, ctx.Err()
	}
	if err := p.refresh(ctx); err != nil {
		return nil, err
	}
	res, err := call(ctx, p, "NodeGroups", noOptions(p.server.NodeGroups), &protocol.NodeGroupsRequest{})
	if err != nil {
		return nil, err
	}
	out := &snapshot{at: now}
	seen := map[string]bool{}
	for _, g := range res.NodeGroups {
		if g.GetId() == "" || seen[g.GetId()] {
			continue
		}
		seen[g.GetId()] = true
		i := &groupInfo{name: g.GetId(), min: int64(max(g.GetMinSize(), 0)), max: int64(g.GetMaxSize())}
		if i.max < i.min {
			i.problem = fmt.Sprintf("the server says that it may have %d to %d machines", g.GetMinSize(), g.GetMaxSize())
		}
		out.groups = append(out.groups, i)
	}
	slices.SortFunc(out.groups, func(a, b *groupInfo) int { return strings.Compare(a.name, b.name) })
	errs := make([]error, len(out.groups))
	cloud.RunConcurrently(len(out.groups), func(i int) {
		g := out.groups[i]
		if g.target, errs[i] = p.target(ctx, g.name); errs[i] == nil {
			g.template, errs[i] = p.template(ctx, g.name, now)
		}
	})
	for i, g := range out.groups {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if g.problem == "" {
			g.problem = g.template.problem
		}
	}
	p.reader.mu.Lock()
	p.reader.snapshot = out
	p.reader.mu.Unlock()
	return out, nil
}

// forget has the groups read anew the next time: one was changed.
func (p *Provider) forget() {
	p.reader.mu.Lock()
	p.reader.snapshot = nil
	p.reader.mu.Unlock()
}

func (p *Provider) refresh(ctx context.Context) error {
	_, err := call(ctx, p, "Refresh", noOptions(p.server.Refresh), &protocol.RefreshRequest{})
	return err
}

// target returns how many machines a group is to have, as the server says.
func (p *Provider) target(ctx context.Context, name string) (int64, error) {
	res, err := call(ctx, p, "NodeGroupTargetSize", noOptions(p.server.NodeGroupTargetSize), &protocol.NodeGroupTargetSizeRequest{Id: name})
	if err != nil {
		return 0, err
	}
	return int64(max(res.GetTargetSize(), 0)), nil
}

// template reads what the nodes of a group are and cost.
func (p *Provider) template(ctx context.Context, name string, now time.Time) (*template, error) {
	p.reader.mu.Lock()
	have := p.reader.templates[name]
	p.reader.mu.Unlock()
	if have != nil && now.Sub(have.at) < templatesFor {
		return have, nil
	}
	res, err := call(ctx, p, "NodeGroupTemplateNodeInfo", noOptions(p.server.NodeGroupTemplateNodeInfo), &protocol.NodeGroupTemplateNodeInfoRequest{Id: name})
	var out *template
	switch {
	case codeOf(err) == codes.Unimplemented:
		out = &template{problem: "the server does not implement NodeGroupTemplateNodeInfo, so what its nodes are is not known"}
	case err != nil:
		return nil, err
	default:
		if out, err = p.readTemplate(ctx, name, res); err != nil {
			return nil, err
		}
	}
	out.at = now
	p.reader.mu.Lock()
	p.reader.templates[name] = out
	p.reader.mu.Unlock()
	return out, nil
}

// readTemplate reads a template node. What the server has to mend is the template's problem.
func (p *Provider) readTemplate(ctx context.Context, name string, res *protocol.NodeGroupTemplateNodeInfoResponse) (*template, error) {
	data := res.GetNodeBytes()
	if len(data) == 0 {
		data = res.GetNodeInfo()
	}
	var node corev1.Node
	if len(data) == 0 {
		return &template{problem: "the server's template node is empty"}, nil
	}
	if err := node.Unmarshal(data); err != nil {
		return &template{problem: "the server's template node can't be read: " + err.Error()}, nil
	}
	t := &template{typeName: node.Labels[model.LabelInstanceType], zone: node.Labels[model.LabelZone], capacity: node.Labels[model.LabelCapacityType], typeLabels: model.Labels{}, nodeLabels: model.Labels{}}
	if t.typeName == "" {
		t.typeName = name
	}
	if t.zone == "" {
		t.zone = noZone
	}
	if t.capacity != model.Spot {
		t.capacity = model.OnDemand
	}
	t.typeLabels[model.LabelInstanceType] = t.typeName
	for key, otherwise := range map[string]string{model.LabelArch: "amd64", model.LabelOS: "linux"} {
		if t.typeLabels[key] = node.Labels[key]; t.typeLabels[key] == "" {
			t.typeLabels[key] = otherwise
		}
	}
	for k, v := range node.Labels {
		switch k {
		case model.LabelInstanceType, model.LabelArch, model.LabelOS, model.LabelZone, model.LabelCapacityType, corev1.LabelHostname, model.LabelNodeGroup:
		default:
			t.nodeLabels[k] = v
		}
	}
	for _, x := range node.Spec.Taints {
		t.taints = append(t.taints, model.Taint{Key: x.Key, Value: x.Value, Effect: string(x.Effect)})
	}
	capacity := node.Status.Capacity
	if len(capacity) == 0 {
		capacity = node.Status.Allocatable
	}
	allocatable := node.Status.Allocatable
	if len(allocatable) == 0 {
		allocatable = capacity
	}
	for _, x := range []struct {
		from corev1.ResourceList
		to   *model.Resources
	}{{capacity, &t.resources}, {allocatable, &t.allocatable}} {
		for name, q := range x.from {
			v, err := catalog.ParseQuantity(string(name), q.String())
			if err != nil || v < 0 {
				t.problem = fmt.Sprintf("the server's template node: resource %s: %s is no amount", name, q.String())
				return t, nil
			}
			*x.to = x.to.With(p.resources.Dim(string(name)), v)
		}
		if x.to.At(model.Pods) == 0 {
			*x.to = x.to.With(model.Pods, defaultPods)
		}
	}
	t.allocatable = t.allocatable.Min(t.resources)
	if t.allocatable.At(model.CPU) <= 0 || t.allocatable.At(model.Memory) <= 0 {
		t.problem = "the server's template node has no CPU or no memory"
		return t, nil
	}
	price, err := p.price(ctx, name, &node)
	t.priceMicro = price
	return t, err
}

// defaultPods is how many pods a node takes that does not say; Kubernetes' value.
const defaultPods = 110

// price asks what a node of a group costs, in micro-dollars per hour; 0: the server does not say, or no price.
func (p *Provider) price(ctx context.Context, name string, node *corev1.Node) (int64, error) {
	from := p.clock.Now()
	res, err := call(ctx, p, "PricingNodePrice", noOptions(p.server.PricingNodePrice), &protocol.PricingNodePriceRequest{
		Node:           &protocol.ExternalGrpcNode{ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations},
		StartTimestamp: timestamppb.New(from), EndTimestamp: timestamppb.New(from.Add(time.Hour)),
	})
	switch {
	case err == nil:
	case isUncertain(err) || ctx.Err() != nil:
		return 0, err
	default:
		if _, throttled := retryAfter(err); throttled {
			return 0, err
		}
		if codeOf(err) != codes.Unimplemented {
			p.log.Warn("the server does not tell the price of a node group", "group", name, "error", err)
		}
		return 0, nil
	}
	v := res.GetPrice()
	if !(v > 0 && v <= mostDollars) { // NaN is neither
		if v != 0 {
			p.log.Warn("the server's price of a node group is no price and is not used", "group", name, "price", v)
		}
		return 0, nil
	}
	return max(1, int64(math.Round(v*1e6))), nil
}

// mostDollars is more than any machine costs an hour.
const mostDollars = 1_000_000

// selected are the groups of a node class.
type selected struct {
	class  cloud.NodeClass
	spec   dovetailv1alpha1.NodeGroupClassSpec
	groups []*groupInfo // by name, with the class's own bounds
	absent []string     // what terms ask for and the server does not have, with their field
}

// selectGroups returns the groups of a class.
func (p *Provider) selectGroups(ctx context.Context, class cloud.NodeClass) (*selected, error) {
	out := &selected{class: class}
	if class.Group != dovetailv1alpha1.Group || class.Kind != dovetailv1alpha1.KindNodeGroupClass {
		return nil, &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("node class %s/%s is not a NodeGroupClass", class.Group, class.Kind)}
	}
	if len(class.Spec) > 0 {
		if err := json.Unmarshal(class.Spec, &out.spec); err != nil {
			return nil, notReady("NodeGroupClass %s: spec: %w", class.Name, err)
		}
	}
	for i, t := range out.spec.SelectorTerms {
		if t.Name == "" {
			return nil, notReady("NodeGroupClass %s: spec.selectorTerms[%d].tags: groups of an externalgrpc server have no tags; use name, or name: \"*\" for all groups", class.Name, i)
		}
	}
	if len(out.spec.SelectorTerms) == 0 {
		return nil, notReady("NodeGroupClass %s: spec.selectorTerms: empty; name a group, or \"*\" for all groups", class.Name)
	}
	all, err := p.groups(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for i, t := range out.spec.SelectorTerms {
		found := false
		for _, g := range all.groups {
			if t.Name != "*" && t.Name != g.name {
				continue
			}
			found = true
			if taken[g.name] {
				continue
			}
			taken[g.name] = true
			bounded := *g
			if t.MinSize != nil {
				bounded.min = max(bounded.min, int64(*t.MinSize))
			}
			if t.MaxSize != nil {
				bounded.max = min(bounded.max, int64(*t.MaxSize))
			}
			out.groups = append(out.groups, &bounded)
		}
		if !found {
			out.absent = append(out.absent, fmt.Sprintf("spec.selectorTerms[%d].name: the server has no group %q; use one of its groups: %s", i, t.Name, namesOf(all.groups)))
		}
	}
	slices.SortFunc(out.groups, func(a, b *groupInfo) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// namesOf writes names of groups, for a message.
func namesOf(groups []*groupInfo) string {
	var names []string
	for i, g := range groups {
		if i == 10 {
			names = append(names, fmt.Sprintf("and %d more", len(groups)-i))
			break
		}
		names = append(names, g.name)
	}
	if len(names) == 0 {
		return "it has none"
	}
	return strings.Join(names, ", ")
}

func notReady(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.NotReady, Err: fmt.Errorf(format, args...)}
}

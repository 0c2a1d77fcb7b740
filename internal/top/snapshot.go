// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

const taintUnschedulable = "node.kubernetes.io/unschedulable"

// SetSnapshot takes over what a controller sees of its cluster, and the prices of its provider. refused says by namespace/name
// why a pending pod gets no node. Pods that are bound are left out where bound is false: sums and fill lack them.
func (b *Board) SetSnapshot(s *model.Snapshot, refused map[string]string, bound bool) {
	b.SetPrices(snapshotPrices(s.Pools))
	for _, n := range s.Nodes {
		b.SetNode(snapshotNode(n))
		if !bound {
			continue
		}
		for _, p := range n.Pods {
			b.SetPod(snapshotPod(p, n.Name, refused))
		}
	}
	for _, c := range s.Claims {
		b.SetClaim(snapshotClaim(c))
	}
	for _, p := range s.Pools {
		x := &Pool{Key: "nodepool/" + p.Name, Deleting: p.Deleting, Limits: map[string]string{}, Budgets: p.Budgets, Taken: p.Taken, Manager: p.Manager, Release: p.Release}
		if !p.Ready {
			x.NotReady = strings.TrimSuffix("NotReady: "+p.NotReady.Message, ": ")
		}
		for d, limited := range p.HasLimit {
			if limited && d < len(s.ResourceNames) {
				x.Limits[s.ResourceNames[d]] = limitText(model.Dim(d), p.Limits.At(model.Dim(d)))
			}
		}
		b.SetPool(x)
	}
	for _, p := range s.Pending {
		if !p.Expected {
			b.SetPod(snapshotPod(p, "", refused))
		}
	}
}

// limitText is an amount in the words of a NodePool.
func limitText(d model.Dim, amount int64) string {
	switch d {
	case model.CPU:
		return cores(amount)
	case model.Memory, model.EphemeralStorage:
		return bytesText(amount)
	}
	return strconv.FormatInt(amount, 10)
}

func snapshotAmounts(r model.Resources) Amounts {
	return Amounts{CPU: r.At(model.CPU), Memory: r.At(model.Memory)}
}

// snapshotPoolKey names the pool that labels of a node or a claim say.
func snapshotPoolKey(labels model.Labels) string {
	for _, p := range []struct{ label, kind string }{{model.LabelNodePool, "nodepool"}, {model.LabelProvisioner, "provisioner"}, {model.LabelNodeGroup, "nodegroup"}} {
		if name := labels[p.label]; name != "" {
			return p.kind + "/" + name
		}
	}
	return ""
}

func snapshotNode(n *model.Node) *Node {
	out := &Node{
		Name: n.Name, Pool: snapshotPoolKey(n.Labels), Type: n.Labels[model.LabelInstanceType], Zone: n.Labels[model.LabelZone], CapacityType: n.Labels[model.LabelCapacityType],
		Created: n.Created, Deleting: n.Deleting, Allocatable: snapshotAmounts(n.Allocatable), Pods: n.Allocatable.At(model.Pods), Ready: "False", Annotations: maps.Clone(n.Annotations),
	}
	if n.Ready {
		out.Ready = "True"
	} else {
		out.NotReady = n.Conditions["Ready"].Message
	}
	for _, t := range n.Taints {
		if t.Key == taintUnschedulable {
			out.Cordoned = true
			continue
		}
		out.Taints = append(out.Taints, t)
	}
	return out
}

func snapshotClaim(c *model.Claim) *Claim {
	out := &Claim{
		Name: c.Name, Pool: snapshotPoolKey(c.Labels), Node: c.NodeName, Type: c.Labels[model.LabelInstanceType], Zone: c.Labels[model.LabelZone],
		CapacityType: c.Labels[model.LabelCapacityType], Created: c.Created, Deleting: c.Deleting, Allocatable: snapshotAmounts(c.Allocatable),
		LaunchMicro: c.LaunchPriceMicro(), Conditions: c.Conditions,
	}
	if out.Pool == "" && c.Pool != "" {
		out.Pool = "nodepool/" + c.Pool
	}
	return out
}

// snapshotPod is a pod on a node, or a pending one where node is empty.
func snapshotPod(p *model.Pod, node string, refused map[string]string) *Pod {
	out := &Pod{
		Namespace: p.Namespace, Name: p.Name, Node: node, Requests: snapshotAmounts(p.Class.Requests), Created: p.Created, Deleting: !p.Deleting.IsZero(),
		Daemon: !p.IsWorkload(), DoNotDisrupt: p.DoNotDisrupt == "true",
	}
	switch {
	case p.Deployment != "":
		out.Owner = "deployment/" + p.Deployment
	case p.Owner.Name != "":
		out.Owner = strings.ToLower(p.Owner.Kind) + "/" + p.Owner.Name
	}
	if node != "" {
		out.Starting = !p.Ready && p.ReadySince.IsZero()
		return out
	}
	out.Waits.Nominated = p.Nominated
	switch {
	case p.Gated:
		out.Waits.Reason = "SchedulingGated"
	case !p.Unschedulable.IsZero():
		out.Waits.Reason, out.Waits.Message = "Unschedulable", refused[p.Key()]
	}
	return out
}

// snapshotPrices are what the provider asks for the instance types of pools: of the zone and capacity type asked for, else of
// another zone.
func snapshotPrices(pools []*model.NodePool) Prices {
	types := map[string]*model.InstanceType{}
	for _, p := range pools {
		for _, t := range p.Types {
			types[t.Name] = t
		}
	}
	return Prices{Name: "of the controller's provider", Find: func(instanceType, zone, capacityType string) (Price, bool) {
		t := types[instanceType]
		if t == nil {
			return Price{}, false
		}
		same := func(zone string) int {
			return slices.IndexFunc(t.Offerings, func(o model.Offering) bool {
				return o.CapacityType == capacityType && (zone == "" || o.Zone == zone)
			})
		}
		if i := same(zone); i >= 0 {
			return Price{Micro: t.Offerings[i].PriceMicro, Modelled: t.Offerings[i].Modelled}, true
		}
		if i := same(""); i >= 0 {
			return Price{Micro: t.Offerings[i].PriceMicro, Modelled: t.Offerings[i].Modelled, Other: true}, true
		}
		return Price{}, false
	}}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// ManagedGroup makes an Auto Scaling group that of an EKS managed node group, with labels and taints of its nodes that
// are not in tags.
type ManagedGroup struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Taints  []ManagedTaint    `json:"taints,omitempty"`
	Issues  []ManagedIssue    `json:"issues,omitempty"`  // health issues; if set, the node group is degraded
	Surge   int               `json:"surge,omitempty"`   // during an upgrade: additional nodes
	Old     []string          `json:"old,omitempty"`     // during an upgrade: instances to replace
	Drains  bool              `json:"drains,omitempty"`  // during an upgrade: see Upgrade
	Drained []string          `json:"drained,omitempty"` // during an upgrade: the Old instances reported as drained
	Changed time.Time         `json:"changed,omitzero"`  // time of the last configuration change; the node group is updating until shortly after
	Deleted bool              `json:"deleted,omitempty"` // EKS is deleting it
}

// ManagedTaint is a taint in the EKS API.
type ManagedTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NO_SCHEDULE, NO_EXECUTE or PREFER_NO_SCHEDULE
}

// ManagedIssue is a health issue of a managed node group.
type ManagedIssue struct {
	Code    string `json:"code"` // e.g. AsgInstanceLaunchFailures
	Message string `json:"message"`
}

// Upgrade makes EKS replace the nodes of a managed node group.
type Upgrade struct {
	Group  string `json:"group"`            // name of its Auto Scaling group
	Surge  int    `json:"surge"`            // number of nodes launched before old ones are terminated
	Drains bool   `json:"drains,omitempty"` // an old node is terminated only when a Drain names it: the caller cordons and drains it, as EKS would
}

// Drain reports that a node of an upgraded managed node group has been drained.
type Drain struct {
	Instance string `json:"instance"`
}

// kubeletEffects are the effects of taints as the kubelet takes them.
var kubeletEffects = map[string]string{"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}

// managedDefaults gives the group of a managed node group the tags that EKS gives it.
func (t *tx) managedDefaults(in *Group) error {
	m := in.Managed
	if m == nil {
		return nil
	}
	if m.Name == "" {
		return fmt.Errorf("group %s: managed.name: need the name of the managed node group", in.Name)
	}
	for _, taint := range m.Taints {
		if kubeletEffects[taint.Effect] == "" {
			return fmt.Errorf("group %s: taint %s: effect %q: use NO_SCHEDULE, NO_EXECUTE or PREFER_NO_SCHEDULE", in.Name, taint.Key, taint.Effect)
		}
	}
	in.Tags = slices.Clone(in.Tags)
	for _, tag := range []GroupTag{
		{"eks:cluster-name", t.settings.Cluster, true}, {"eks:nodegroup-name", m.Name, true}, {"kubernetes.io/cluster/" + t.settings.Cluster, "owned", true},
		{"k8s.io/cluster-autoscaler/enabled", "true", true}, {"k8s.io/cluster-autoscaler/" + t.settings.Cluster, "owned", true},
	} {
		if !slices.ContainsFunc(in.Tags, func(have GroupTag) bool { return have.Key == tag.Key }) {
			in.Tags = append(in.Tags, tag)
		}
	}
	return nil
}

// kubeletFlags are the labels and taints of a managed node group's nodes, as the kubelet takes them.
func (m *ManagedGroup) kubeletFlags() (labels, taints []string) {
	if m == nil {
		return nil, nil
	}
	labels = append(labels, "eks.amazonaws.com/nodegroup="+m.Name)
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		labels = append(labels, k+"="+m.Labels[k])
	}
	for _, taint := range m.Taints {
		taints = append(taints, taint.Key+"="+taint.Value+":"+kubeletEffects[taint.Effect])
	}
	return labels, taints
}

// isUpdating reports whether a managed node group is updating.
func (t *tx) isUpdating(m *ManagedGroup) bool {
	return m.Surge > 0 || !m.Changed.IsZero() && t.now.Before(m.Changed.Add(t.settings.GroupDelay))
}

// managedNamed is the Auto Scaling group of a managed node group.
func (t *tx) managedNamed(cluster, name string) (*group, error) {
	for _, g := range t.groups.sorted() {
		if g.Managed != nil && g.Managed.Name == name && cluster == t.settings.Cluster {
			return g, nil
		}
	}
	return nil, &wire.Error{Code: "ResourceNotFoundException", Message: "No node group found for name: " + name + ".", Status: http.StatusNotFound}
}

func (t *tx) describeNodegroup(in *shapes.EKSDescribeNodegroupRequest) (*shapes.EKSDescribeNodegroupResponse, error) {
	g, err := t.managedNamed(in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	m := g.Managed
	out := &shapes.EKSNodegroup{
		NodegroupName: m.Name, NodegroupArn: t.arn("eks", "nodegroup/"+t.settings.Cluster+"/"+m.Name+"/"+id("ng", m.Name)), ClusterName: t.settings.Cluster,
		Version: t.settings.KubernetesVersion, CreatedAt: new(shapes.Epoch(g.Created)), Status: "ACTIVE", CapacityType: "ON_DEMAND", AmiType: "AL2023_x86_64_STANDARD",
		ScalingConfig: &shapes.EKSNodegroupScalingConfig{MinSize: new(int64(g.Min)), MaxSize: new(int64(g.Max - m.Surge)), DesiredSize: new(int64(g.Desired - m.Surge))},
		Labels:        m.Labels, Resources: &shapes.EKSNodegroupResources{AutoScalingGroups: []shapes.EKSAutoScalingGroup{{Name: g.Name}}}, Health: &shapes.EKSNodegroupHealth{},
	}
	if g.Spot {
		out.CapacityType = "SPOT"
	}
	for _, taint := range m.Taints {
		out.Taints = append(out.Taints, shapes.EKSTaint(taint))
	}
	for _, issue := range m.Issues {
		out.Status = "DEGRADED"
		out.Health.Issues = append(out.Health.Issues, shapes.EKSIssue{Code: issue.Code, Message: issue.Message, ResourceIds: []string{g.Name}})
	}
	switch {
	case m.Deleted:
		out.Status = "DELETING"
	case t.isUpdating(m):
		out.Status = "UPDATING"
	}
	return &shapes.EKSDescribeNodegroupResponse{Nodegroup: out}, nil
}

// updateNodegroup changes the configuration of a managed node group. EKS refuses that while an update is under way.
func (t *tx) updateNodegroup(in *shapes.EKSUpdateNodegroupConfigRequest) (*shapes.EKSUpdateNodegroupConfigResponse, error) {
	g, err := t.managedNamed(in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	if t.isUpdating(g.Managed) {
		return nil, &wire.Error{Code: "ResourceInUseException", Message: "Nodegroup cannot be updated as it is currently not in Active State", Status: http.StatusConflict}
	}
	low, high, desired := g.Min, g.Max, g.Desired
	if c := in.ScalingConfig; c != nil {
		for _, x := range []struct {
			from *int64
			to   *int
		}{{c.MinSize, &low}, {c.MaxSize, &high}, {c.DesiredSize, &desired}} {
			if x.from != nil {
				*x.to = int(*x.from)
			}
		}
	}
	if low < 0 || high < low || desired < low || desired > high {
		return nil, wire.Refuse("InvalidParameterException", "Minimum capacity %d can't be greater than desired size %d, nor that than maximum capacity %d", low, desired, high)
	}
	is := *g
	m := *g.Managed
	m.Changed, m.Labels = t.now, maps.Clone(m.Labels)
	if u := in.Labels; u != nil {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		maps.Copy(m.Labels, u.AddOrUpdateLabels)
		for _, k := range u.RemoveLabels {
			delete(m.Labels, k)
		}
	}
	if u := in.Taints; u != nil {
		same := func(a ManagedTaint, b shapes.EKSTaint) bool { return a.Key == b.Key && a.Effect == b.Effect }
		m.Taints = slices.DeleteFunc(slices.Clone(m.Taints), func(a ManagedTaint) bool {
			return slices.ContainsFunc(slices.Concat(u.AddOrUpdateTaints, u.RemoveTaints), func(b shapes.EKSTaint) bool { return same(a, b) })
		})
		for _, taint := range u.AddOrUpdateTaints {
			m.Taints = append(m.Taints, ManagedTaint(taint))
		}
	}
	is.Min, is.Max, is.Desired, is.Managed = low, high, desired, &m
	t.groups.put(t, g.Name, is)
	t.stir()
	return &shapes.EKSUpdateNodegroupConfigResponse{Update: &shapes.EKSUpdate{Id: id("update", m.Name, t.now.String()), Status: "InProgress", Type: "ConfigUpdate", CreatedAt: new(shapes.Epoch(t.now))}}, nil
}

// upgrade begins to replace the nodes of a managed node group, as EKS does for another version: its Auto Scaling group
// gets room for more nodes and starts them, then the old ones go, one at a time.
func (t *tx) upgrade(in Upgrade) (GroupSeen, error) {
	g := t.groups.items[in.Group]
	if g == nil || g.Managed == nil || in.Surge < 1 || t.isUpdating(g.Managed) {
		return GroupSeen{}, fmt.Errorf("upgrade of group %q by %d: need the group of a managed node group that is not being updated, and a surge of at least 1", in.Group, in.Surge)
	}
	is := *g
	m := *g.Managed
	m.Surge, m.Drains, m.Drained = in.Surge, in.Drains, nil
	for _, i := range t.members(g.Name) {
		m.Old = append(m.Old, i.ID)
	}
	if len(m.Old) == 0 {
		return GroupSeen{}, fmt.Errorf("upgrade of group %s: it has no nodes", in.Group)
	}
	is.Managed, is.Max, is.Desired = &m, g.Max+in.Surge, g.Desired+in.Surge
	t.groups.put(t, g.Name, is)
	t.stir()
	return GroupSeen{Group: is.Group}, nil
}

// drain takes in that an old node of an upgrade under way holds no pods.
func (t *tx) drain(in Drain) (GroupSeen, error) {
	for _, g := range t.groups.sorted() {
		if g.Managed == nil || !g.Managed.Drains || !slices.Contains(g.Managed.Old, in.Instance) {
			continue
		}
		is := *g
		m := *g.Managed
		m.Drained = append(slices.Clone(m.Drained), in.Instance)
		is.Managed = &m
		t.groups.put(t, g.Name, is)
		t.stir()
		return GroupSeen{Group: is.Group}, nil
	}
	return GroupSeen{}, fmt.Errorf("instance %q is no old node of a managed node group that is being upgraded with drains", in.Instance)
}

// advanceUpgrade ends one old node of an upgrade under way when all that its group wants are running, and the node has
// been drained where that is waited for. While more old nodes are left than the surge, the group starts another for it;
// then the group becomes as large as it was. It says when there is more to do; zero: when something else happens.
func (t *tx) advanceUpgrade(g *group) time.Time {
	if g.Managed == nil || g.Managed.Surge == 0 {
		return time.Time{}
	}
	have := t.members(g.Name)
	var old []*instance
	for _, i := range have {
		if t.state(i).Name != "running" {
			return i.Runs
		}
		if slices.Contains(g.Managed.Old, i.ID) {
			old = append(old, i)
		}
	}
	if len(have) < g.Desired {
		return time.Time{}
	}
	next := slices.IndexFunc(old, func(i *instance) bool { return !g.Managed.Drains || slices.Contains(g.Managed.Drained, i.ID) })
	if next < 0 && len(old) > 0 {
		return time.Time{}
	}
	is := *g
	m := *g.Managed
	is.Managed = &m
	if len(old) <= m.Surge && m.Surge > 0 {
		is.Max, is.Desired, m.Surge = is.Max-1, max(is.Desired-1, is.Min), m.Surge-1
	}
	if len(old) > 0 {
		t.end(old[next], "Client.UserInitiatedShutdown")
		t.act(g.Name, "Terminating EC2 instance: "+old[next].ID, "EKS upgrades the managed node group "+m.Name, "Successful", "")
		old = slices.Delete(old, next, next+1)
	}
	m.Old = nil
	for _, i := range old {
		m.Old = append(m.Old, i.ID)
	}
	t.groups.put(t, g.Name, is)
	t.stir()
	return t.now
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// AdoptMembers returns a NodeClaim for each member of a node group that has none, so that the group's NodePool adopts the
// instance: the member existed before the NodePool selected its group, or somebody else scaled the group up. An adopted instance
// is treated like a launched one, and can be released again.
func AdoptMembers(v *cluster.View) (out []plan.CreateClaim) {
	for _, i := range membersOfNobody(v, func(i *model.Instance) bool { return i.Class != "" }) {
		p := poolOfMember(v.Snapshot.Pools, i)
		if p == nil || i.Replacing && !keepsReplaced(p, i.Labels[model.LabelNodeGroup]) {
			continue
		}
		prefix := p.Name
		if len(prefix) > 52 {
			prefix = strings.TrimRight(prefix[:52], "-.")
		}
		a := plan.CreateClaim{
			Name: prefix + "-" + cluster.HashName(10, p.UID, i.ProviderID), Pool: p, Type: i.Labels[model.LabelInstanceType], Zone: i.Labels[model.LabelZone],
			CapacityType: i.Labels[model.LabelCapacityType], Annotations: map[string]string{model.AnnotationAdopt: i.ProviderID},
			NoReserve: plan.Reason{Code: plan.Adopted, Pool: p.Name, Subject: plan.ObjectOf("", i.ProviderID)}, Why: plan.Reason{Code: plan.Adopted, Pool: p.Name, Subject: plan.ObjectOf("", i.ProviderID)},
			Requirements: p.Requirements.With(model.OneOf(model.LabelInstanceType, i.Labels[model.LabelInstanceType]), model.OneOf(model.LabelZone, i.Labels[model.LabelZone]),
				model.OneOf(model.LabelCapacityType, i.Labels[model.LabelCapacityType]), model.OneOf(model.LabelNodeGroup, i.Labels[model.LabelNodeGroup])),
		}
		if t := disrupt.FindInstanceType(p, a.Type); t != nil {
			a.Types = []*model.InstanceType{t}
		}
		if v.Claim(a.Name) != nil {
			continue // it is being made, or goes
		}
		out = append(out, a)
	}
	return out
}

// EndUnadopted terminates members whose launch was abandoned, if no NodePool adopts them within the grace period. It
// keeps members that a NodePool may still adopt: if the NodePool's offerings are not known yet, or while the cloud is, or
// may be, replacing the members of the group.
func EndUnadopted(v *cluster.View, grace time.Duration) (out plan.Part) {
	for _, i := range membersOfNobody(v, func(i *model.Instance) bool { return !i.GivenUp.IsZero() }) {
		if i.Replacing || poolOfMember(v.Snapshot.Pools, i) != nil || slices.ContainsFunc(v.Snapshot.Pools, func(p *model.NodePool) bool { return servesMember(p, i) && len(p.Types) == 0 }) {
			continue
		}
		if due := i.GivenUp.Add(grace); v.Now.Before(due) {
			out.WakeAt(due)
			continue
		}
		out.Add(plan.Terminate{ProviderID: i.ProviderID, Why: plan.Reason{Code: plan.Orphan, Subject: plan.ObjectOf("", i.ProviderID)}})
	}
	return out
}

// membersOfNobody returns the machines of a kind that no claim has, and none is made for.
func membersOfNobody(v *cluster.View, are func(*model.Instance) bool) (out []*model.Instance) {
	var taken map[string]bool // by provider id
	for _, i := range v.Snapshot.Instances {
		if i.Gone || i.ClaimUID != "" || !are(i) {
			continue
		}
		if taken == nil {
			taken = map[string]bool{}
			for _, c := range v.Snapshot.Claims {
				taken[c.ProviderID], taken[c.Annotations[model.AnnotationAdopt]] = true, true
			}
		}
		if !taken[i.ProviderID] {
			out = append(out, i)
		}
	}
	return out
}

// keepsReplaced reports whether a pool knows that the cloud replaces the members of a group, and so gives none of its nodes
// back. A static pool gives back what it has too many of all the same.
func keepsReplaced(p *model.NodePool, group string) bool {
	return p.Replicas < 0 && p.Scaling != nil && slices.ContainsFunc(p.Scaling.Groups, func(g model.NodeGroup) bool { return g.Name == group && g.Refresh != "" })
}

// poolOfMember is the pool that a machine is one of: the first, by name, whose node class it is of and whose
// requirements it meets.
func poolOfMember(pools []*model.NodePool, i *model.Instance) *model.NodePool {
	var out *model.NodePool
	for _, p := range pools {
		if !servesMember(p, i) || out != nil && out.Name < p.Name {
			continue
		}
		l := memberLabels(p, i.Labels)
		if l != nil && !slices.ContainsFunc(p.Requirements, func(q model.Requirement) bool {
			v, ok := l[q.Key]
			return (ok || poolProvidesLabel(p, q.Key)) && !q.Matches(v, ok) // any other label is the pool's own to give
		}) {
			out = p
		}
	}
	return out
}

// servesMember reports whether a pool that stays is of the node class that a machine is of.
func servesMember(p *model.NodePool, i *model.Instance) bool {
	return !p.Deleting && !p.LetGo && p.ClassName == i.Class && p.ClassKind == i.ClassKind
}

// memberLabels are the labels that a member of a node group would have in a pool; nil where the pool does not buy such
// machines from it.
func memberLabels(p *model.NodePool, of model.Labels) model.Labels {
	t := disrupt.FindInstanceType(p, of[model.LabelInstanceType])
	if t == nil {
		return nil
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Labels[model.LabelNodeGroup] == of[model.LabelNodeGroup] {
			return model.MergeLabels(model.MergeLabels(model.MergeLabels(model.MergeLabels(p.Labels, model.Labels{model.LabelNodePool: p.Name}), t.Labels), o.Labels), of)
		}
	}
	return nil
}

// poolProvidesLabel reports whether some type or offering of a pool bears a label.
func poolProvidesLabel(p *model.NodePool, key string) bool {
	return slices.ContainsFunc(p.Types, func(t *model.InstanceType) bool {
		_, ok := t.Labels[key]
		return ok || slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { _, ok := o.Labels[key]; return ok })
	})
}

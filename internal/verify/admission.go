// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// whyNotAdmitted is why a pod of a class may not be on a node with these labels and taints; empty when it may. Labels
// whose value is open must do whatever they become. The name is empty where it is not known yet. node is the standing one; its
// labels are what they are. Where it is nil they, and what is reported for the node, are still to come.
func whyNotAdmitted(class *model.Class, labels model.Labels, open model.Requirements, taints []model.Taint, name string, node *ExistingNode) string {
	if t := model.Untolerated(taints, class.Tolerations); t != nil {
		return fmt.Sprintf("taint %s=%s:%s is not tolerated", t.Key, t.Value, t.Effect)
	}
	if !termsAllow(class, labels, open, name, node != nil) {
		return "no node affinity term matches"
	}
	for _, v := range class.Volumes {
		places := v.Topology
		if node != nil {
			places = placesOnNode(&v, node.Migrated)
			if !hasDriverFor(&v, node.CSIDrivers) {
				return "CSI driver " + v.Driver + " of volume " + v.Claim + " is not registered on the node"
			}
		}
		if len(places) > 0 && !slices.ContainsFunc(places, func(rs model.Requirements) bool { return requirementsHold(rs, labels, open) }) {
			return "volume " + v.Claim + " is elsewhere"
		}
	}
	return ""
}

// placesOnNode are the alternatives of which a standing node must meet one to use a volume, none where any node will do. migrated are
// the in-tree plugins whose volumes its kubelet leaves to CSI drivers.
func placesOnNode(v *model.Volume, migrated []string) []model.Requirements {
	if len(v.Migrated) > 0 && slices.Contains(migrated, v.InTree) {
		return v.Migrated
	}
	if len(v.Standing) > 0 {
		return v.Standing
	}
	return v.Topology
}

// hasDriverFor reports whether kube-scheduler's NodeVolumeLimits lets a pod with the volume onto a standing node with these CSI drivers, nil
// where it has no CSINode: volumes of in-tree plugins are then none of a driver's.
func hasDriverFor(v *model.Volume, drivers []string) bool {
	isInTree := v.InTree != ""
	return !v.Registers || isInTree && drivers == nil || slices.Contains(drivers, v.Driver)
}

// whyNotPlaced is why no node may be planned for a pod of a class at all; empty when one may.
func whyNotPlaced(class *model.Class) string {
	if len(class.Unsolved) > 0 {
		return class.Unsolved[0]
	}
	for _, v := range class.Volumes {
		if v.Problem.Kind != "" {
			return "volume " + v.Claim + ": " + v.Problem.Words
		}
	}
	return ""
}

// termsAllow reports whether a class's node selector and node affinity allow a node; standing: one whose labels are what they will be.
func termsAllow(class *model.Class, labels model.Labels, open model.Requirements, name string, standing bool) bool {
	return len(class.Terms) == 0 || slices.ContainsFunc(class.Terms, func(t model.NodeTerm) bool {
		if standing && len(t.Standing) > 0 {
			t.Requirements = t.Standing
		}
		return termMatches(&t, labels, open, name)
	})
}

// countsForSpread reports whether a node counts for a spread constraint of a class, taints aside: its node affinity allows
// the node, and that has the topology keys of all hard constraints.
func countsForSpread(class *model.Class, s *model.SpreadConstraint, labels model.Labels, name string, standing bool, has func(key string) bool) bool {
	return (s.IgnoreAffinity || termsAllow(class, labels, nil, name, standing)) &&
		!slices.ContainsFunc(class.Spread, func(o model.SpreadConstraint) bool { return o.Hard && !has(o.TopologyKey) })
}

// selects reports whether a selector selects pods of a class, in their namespace, by the labels of namespaces.
func selects(s *model.Selector, class *model.Class, namespaces map[string]model.Labels) bool {
	named := slices.Contains(s.Namespaces, class.Namespace) || s.NamespaceL != nil && s.NamespaceL.Matches(namespaces[class.Namespace])
	return named && s.Pods != nil && s.Pods.Matches(class.Labels)
}

// termMatches reports whether a node affinity term matches a node. An empty term matches none.
func termMatches(t *model.NodeTerm, labels model.Labels, open model.Requirements, name string) bool {
	if len(t.Requirements) == 0 && t.Names == nil {
		return false
	}
	return (t.Names == nil || t.Names.Matches(name, name != "")) && requirementsHold(t.Requirements, labels, open)
}

// requirementsHold reports whether labels satisfy requirements; a label with an open value must whatever it becomes.
func requirementsHold(rs model.Requirements, labels model.Labels, open model.Requirements) bool {
	for i := range rs {
		if o := open.Get(rs[i].Key); o != nil {
			if !alwaysSatisfies(o, &rs[i]) {
				return false
			}
			continue
		}
		v, ok := labels[rs[i].Key]
		if !rs[i].Matches(v, ok) {
			return false
		}
	}
	return true
}

// alwaysSatisfies reports whether every value that o allows satisfies r.
func alwaysSatisfies(o, r *model.Requirement) bool {
	if o.AllowAbsent && !r.AllowAbsent {
		return false
	}
	if !o.Complement {
		for _, v := range o.Values {
			if !r.Matches(v, true) {
				return false
			}
		}
		return true
	}
	both := o.Intersect(*r)
	both.MinValues = o.MinValues
	return both.Complement && both.String() == o.String()
}

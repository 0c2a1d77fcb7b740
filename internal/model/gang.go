// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"maps"
	"slices"
)

// Gang is the set of pods that a pod belongs to and that run together or not at all. The zero value is no gang.
type Gang struct {
	// Name identifies the gang in the cluster: the kind of what declares it, the namespace and a name, separated by slashes.
	Name string

	// Least is how many pods of the gang must have a place before nodes are launched for any of them. 0: each pod is placed by itself, and those that
	// run are disrupted together or not at all.
	Least int

	// Staged says that the gang's pods may be created one after the other, as later ones may wait for earlier ones to run: those
	// that exist, at most Least, must have a place together. Otherwise no node is launched before Least pods exist.
	Staged bool

	// Domain is the label of nodes that all pods of the gang, or of their PodSet, must have one value of; empty: none. Prefers is the
	// label that they had better have one value of.
	Domain, Prefers string

	// PodSet is the part of the gang that Domain and Prefers are about; empty: all of it.
	PodSet string

	// LeftToScheduler says that the pods' scheduler binds them together, so that Dovetail binds none of them.
	LeftToScheduler bool
}

// labelGang is the key of the label that classes have of gangs that share a domain. No label of an object can have this key.
const labelGang = "(gang)"

// StayTogether makes pods of the class share the domain that their gang requires or prefers: they have an affinity to pods of the gang.
func (c *Class) StayTogether(g Gang) {
	if g.Domain == "" && g.Prefers == "" {
		return
	}
	name := g.Name
	if g.PodSet != "" {
		name += "/" + g.PodSet
	}
	labels := make(Labels, len(c.Labels)+1)
	maps.Copy(labels, c.Labels)
	labels[labelGang] = name
	c.Labels = labels
	to := Selector{Namespaces: []string{c.Namespace}, Pods: &Requirements{OneOf(labelGang, name)}}
	if g.Domain != "" {
		c.Affinity = append(slices.Clip(c.Affinity), PodTerm{TopologyKey: g.Domain, Selector: to})
	}
	if g.Prefers != "" {
		c.PreferredAffinity = append(slices.Clip(c.PreferredAffinity), WeightedPodTerm{Weight: 100, Term: PodTerm{TopologyKey: g.Prefers, Selector: to}})
	}
}

// IsOfGang reports whether a term makes pods of a gang share a domain. No field of a pod has such a term, and kube-scheduler does not know it.
func (t *PodTerm) IsOfGang() bool {
	return t.Selector.Pods != nil && len(*t.Selector.Pods) == 1 && (*t.Selector.Pods)[0].Key == labelGang
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Changes are suggested for the object that users edit and in which the edit is kept: the source of an object, not an
// object that a controller overwrites.

// atSource returns a change as users make it, or none if users cannot make it, because the object is generated:
//   - A pod field from a template is changed in the template of the workload.
//   - A NodePool for a discovered node group has its labels from the tags of the group.
//   - A NodePool that was converted from a Provisioner has its requirements and labels from the Provisioner.
func atSource(s *model.Snapshot, ch plan.Change) []plan.Change {
	out := sourcesOf(s, ch)
	for i := range out {
		out[i].Drifts, out[i].Evicts, out[i].DriftBlocked = ch.Drifts, ch.Evicts, ch.DriftBlocked
	}
	return out
}

func sourcesOf(s *model.Snapshot, ch plan.Change) []plan.Change {
	kind, name, _ := strings.Cut(ch.Object, "/")
	switch kind {
	case "pod":
		if p := findPod(s, name); p != nil {
			return podSources(p, ch)
		}
	case "nodepool":
		if i := slices.IndexFunc(s.Pools, func(p *model.NodePool) bool { return p.Name == name }); i >= 0 {
			return poolSources(s.Pools[i], ch)
		}
	}
	return []plan.Change{ch}
}

// AtSource returns the changes as users make them, without duplicates and without those that users cannot make.
func AtSource(s *model.Snapshot, changes []plan.Change) (out []plan.Change) {
	for _, ch := range changes {
		for _, at := range atSource(s, ch) {
			if !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

func podSources(p *model.Pod, ch plan.Change) []plan.Change {
	fields := []string{ch.Field}
	if label, ok := bracketKey(ch.Field, "spec.affinity.nodeAffinity"); ok {
		fields = p.Class.NodeFields(label)
	}
	var out []plan.Change
	for _, field := range fields {
		own := ch
		own.Field = field
		if w, ok := templateOf(p, field); ok {
			own.Object, own.Field = w.String(), templateField+field
		}
		out = append(out, own)
	}
	return out
}

func poolSources(p *model.NodePool, ch plan.Change) []plan.Change {
	if strings.HasPrefix(ch.Field, "status.") || !p.Discovered && p.Provisioner == "" {
		return []plan.Change{ch}
	}
	label, isLabel := bracketKey(ch.Field, "spec.template.metadata.labels")
	requirement, isRequirement := bracketKey(ch.Field, "spec.template.spec.requirements")
	switch {
	case p.Discovered && isLabel:
		var out []plan.Change
		for _, g := range p.NodeGroups() {
			out = append(out, plan.Change{Object: "nodegroup/" + g, Field: "tags[" + groupLabelTag + label + "]", Op: ch.Op, Value: ch.Value})
		}
		return out
	case p.Discovered:
		return nil
	case isLabel:
		return []plan.Change{{Object: "provisioner/" + p.Provisioner, Field: "spec.labels[" + label + "]", Op: ch.Op, Value: ch.Value}}
	case isRequirement:
		return []plan.Change{{Object: "provisioner/" + p.Provisioner, Field: "spec.requirements[" + requirement + "]", Op: ch.Op, Value: ch.Value}}
	}
	if resource, ok := strings.CutPrefix(ch.Field, "spec.limits."); ok && resource != "nodes" {
		return []plan.Change{{Object: "provisioner/" + p.Provisioner, Field: "spec.limits.resources." + resource, Op: ch.Op, Value: ch.Value}}
	}
	return nil
}

// withSource returns the changes that users can make.
func (ex *explanation) withSource(changes []plan.Change) []plan.Change {
	return slices.DeleteFunc(changes, func(ch plan.Change) bool { return len(atSource(ex.s, ch)) == 0 })
}

// moveToSource replaces the changes of an answer by the changes that users make, and removes duplicate ways.
func (ex *explanation) moveToSource(a *plan.Answer) {
	for i := range a.Findings {
		f := &a.Findings[i]
		if f.Change == nil {
			continue
		}
		if at := atSource(ex.s, *f.Change); len(at) > 0 {
			f.Change = &at[0]
		} else {
			f.Change = nil
		}
	}
	ways := a.Ways[:0]
	for _, w := range a.Ways {
		changes, possible := []plan.Change{}, true
		for _, ch := range w.Changes {
			at := atSource(ex.s, ch)
			possible = possible && len(at) > 0
			for _, c := range at {
				if !slices.Contains(changes, c) {
					changes = append(changes, c)
				}
			}
		}
		w.Changes = changes
		known := slices.ContainsFunc(ways, func(o plan.Way) bool {
			return o.Of == w.Of && o.After.Equal(w.After) && slices.Equal(o.Changes, w.Changes)
		})
		if possible && !known {
			ways = append(ways, w)
		}
	}
	a.Ways = ways
}

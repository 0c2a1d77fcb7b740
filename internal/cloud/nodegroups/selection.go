// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// selected are the groups of a node class.
type selected struct {
	class  cloud.NodeClass
	spec   dovetailv1alpha1.NodeGroupClassSpec
	groups []*groupInfo // by name, with the class's own bounds
	absent []string     // what terms ask for and the server does not have, with their field
}

// selectGroups returns the groups of a class.
func (p *Provider) selectGroups(ctx context.Context, class cloud.NodeClass) (*selected, error) {
	kind := cloud.ClassKind{Group: class.Group, Kind: class.Kind}
	var out *selected
	var err error
	switch {
	case kind == cloud.ClassKind{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass}:
		out, err = p.selectByTerms(ctx, class)
	case p.other != nil && kind == p.other.ClassKind:
		out, err = p.selectOther(ctx, class)
	default:
		return nil, &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("node class %s/%s is not a NodeGroupClass", class.Group, class.Kind)}
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out.groups, func(a, b *groupInfo) int { return strings.Compare(a.Name, b.Name) })
	p.noteSelected(out)
	return out, nil
}

// selectOther returns the groups of a class that is no NodeGroupClass, in any order.
func (p *Provider) selectOther(ctx context.Context, class cloud.NodeClass) (*selected, error) {
	selects, err := p.other.Selector(class.Spec)
	if err != nil {
		return nil, notReady("%s %s: %w", class.Kind, class.Name, err)
	}
	all, err := p.groups(ctx)
	if err != nil {
		return nil, err
	}
	out := &selected{class: class}
	for _, g := range all.groups {
		if selects(&g.Group) {
			bounded := *g
			out.groups = append(out.groups, &bounded)
		}
	}
	if len(out.groups) == 0 {
		out.absent = []string{p.other.None + "; the groups are: " + namesOf(all.groups)}
	}
	return out, nil
}

// selectByTerms returns the groups of a NodeGroupClass, in any order.
func (p *Provider) selectByTerms(ctx context.Context, class cloud.NodeClass) (*selected, error) {
	out := &selected{class: class}
	if len(class.Spec) > 0 {
		if err := json.Unmarshal(class.Spec, &out.spec); err != nil {
			return nil, notReady("NodeGroupClass %s: spec: %w", class.Name, err)
		}
	}
	for i, t := range out.spec.SelectorTerms {
		if t.Name == "" && !p.hasTags {
			return nil, notReady("NodeGroupClass %s: spec.selectorTerms[%d].tags: groups of --cloud %s have no tags; use name, or name: \"*\" for all groups", class.Name, i, p.name)
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
			if !selects(&t, g) {
				continue
			}
			found = true
			if taken[g.Name] {
				continue
			}
			taken[g.Name] = true
			bounded := *g
			if t.MinSize != nil {
				bounded.Min = max(bounded.Min, int64(*t.MinSize))
			}
			if t.MaxSize != nil {
				bounded.Max = min(bounded.Max, int64(*t.MaxSize))
			}
			out.groups = append(out.groups, &bounded)
		}
		if !found {
			out.absent = append(out.absent, fmt.Sprintf("spec.selectorTerms[%d]: there is no group %s; use one of these groups: %s", i, termText(&t), namesOf(all.groups)))
		}
	}
	return out, nil
}

// selects reports whether a term selects a group: by its name, or by all tags.
func selects(t *dovetailv1alpha1.NodeGroupSelectorTerm, g *groupInfo) bool {
	if t.Name != "" {
		return t.Name == "*" || t.Name == g.Name || t.Name == g.label
	}
	for k, v := range t.Tags {
		if have, ok := g.Tags[k]; !ok || v != "" && v != "*" && v != have {
			return false
		}
	}
	return len(t.Tags) > 0
}

// termText returns the text of a selector term, for messages.
func termText(t *dovetailv1alpha1.NodeGroupSelectorTerm) string {
	if t.Name != "" {
		return fmt.Sprintf("%q", t.Name)
	}
	var tags []string
	for _, k := range slices.Sorted(maps.Keys(t.Tags)) {
		tags = append(tags, k+"="+t.Tags[k])
	}
	return "with " + strings.Join(tags, ", ")
}

// namesOf writes names of groups, for a message.
func namesOf(groups []*groupInfo) string {
	var names []string
	for i, g := range groups {
		if i == 10 {
			names = append(names, fmt.Sprintf("and %d more", len(groups)-i))
			break
		}
		names = append(names, g.Name)
	}
	if len(names) == 0 {
		return "it has none"
	}
	return strings.Join(names, ", ")
}

func notReady(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.NotReady, Err: fmt.Errorf(format, args...)}
}

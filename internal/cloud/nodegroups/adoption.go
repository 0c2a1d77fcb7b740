// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// classKey tells node classes apart, which may have one name in two kinds.
type classKey struct{ name, kind string }

func keyOf(c cloud.NodeClass) classKey { return classKey{c.Name, c.Kind} }

func (k classKey) less(o classKey) bool {
	return cmp.Or(strings.Compare(k.name, o.name), strings.Compare(k.kind, o.kind)) < 0
}

// noteSelected remembers which groups a class selects, for the machines that were there before.
func (p *Provider) noteSelected(s *selected) {
	if !p.adopts {
		return
	}
	groups := map[string]adoptable{}
	for _, g := range s.groups {
		if t, problem := g.template, g.problem(); t == nil || problem != "" && problem != g.silent {
			groups[g.Name] = adoptable{class: keyOf(s.class), replacing: g.Replaces != "", unknown: true}
		} else {
			groups[g.Name] = adoptable{class: keyOf(s.class), replacing: g.Replaces != "", labels: model.Labels{
				model.LabelInstanceType: t.typeName, model.LabelZone: t.zone, model.LabelCapacityType: t.capacity, model.LabelNodeGroup: g.label}}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.selected[keyOf(s.class)] = selection{groups, p.clock.Now()}
}

// selectionLasts is how long a class counts as selecting its groups after its last use. Offerings are read more often,
// and the deletion of a class is not reported.
const selectionLasts = 3 * time.Minute

// adoptables returns the groups whose machines may be adopted, by name. Of several classes that select one, the first counts.
func (p *Provider) adoptables() map[string]adoptable {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	maps.DeleteFunc(p.selected, func(_ classKey, s selection) bool { return now.Sub(s.at) > selectionLasts })
	out := map[string]adoptable{}
	for _, s := range p.selected {
		for name, a := range s.groups {
			if have, ok := out[name]; !ok || a.class.less(have.class) {
				out[name] = a
			}
		}
	}
	return out
}

// listAdoptable returns the machines of a group that a claim may be made for, and those that came for claims that were given up, as far as the group has more
// than its minimum. These count as given up since the process began at the earliest, as it does not know before which classes select the group. a is empty
// if no class selects it. If what its machines are can't be read, a class may have a use for them later.
func listAdoptable(g *groupRecord, a adoptable, members []Member, least int64, began time.Time) (out []model.Instance) {
	if a.unknown {
		return nil
	}
	spare := -least
	for _, m := range members {
		if !m.Deleting {
			spare++
		}
	}
	for _, m := range members {
		one := model.Instance{ProviderID: m.ID, ClassKind: a.class.kind, Class: a.class.name, Labels: a.labels, Replacing: a.replacing}
		if g != nil {
			if _, owned := g.Owned[m.ID]; owned || !g.isAdoptable(m.ID) {
				continue
			}
			if at := g.Late[m.ID]; at > 0 && spare > 0 {
				one.GivenUp, spare = model.LaterOf(time.UnixMilli(at), began), spare-1
			}
		}
		if m.Running && (one.Class != "" || !one.GivenUp.IsZero()) {
			out = append(out, one)
		}
	}
	return out
}

// adopt gives a claim the machine that it was made for.
func (p *Provider) adopt(ctx context.Context, s *selected, r *cloud.LaunchRequest, id string) (group string, err error) {
	all, ok := p.server.(AllMembers)
	if !ok {
		return "", errUnknownMachine
	}
	by, err := all.AllMembers(ctx)
	if err != nil {
		return "", err
	}
	for _, g := range s.groups {
		if slices.ContainsFunc(by[g.Name], func(m Member) bool { return m.ID == id }) {
			group = g.Name
		}
	}
	if group == "" {
		return "", errUnknownMachine
	}
	q := p.queueOf(group)
	if err := q.turn.Acquire(ctx); err != nil {
		return "", err
	}
	defer q.turn.Release()
	members, err := p.members(ctx, group)
	if err != nil {
		return "", err
	}
	var refused error
	if err := p.update(ctx, func(rec *record) {
		g, known := rec.group(group)
		if !known {
			g.Foreign = idsOf(members)
		}
		_, ended := rec.Ended[r.ClaimUID]
		have, owned := g.Owned[id]
		at := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
		switch {
		case ended || at < 0 || !members[at].Running:
			refused = errUnknownMachine
		case owned && have.UID != r.ClaimUID:
			refused = &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s belongs to NodeClaim %s", id, have.Name)}
		case !owned && !g.isAdoptable(id): // it came after the list that this claim was made by
			refused = &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("machine %s is reserved for a NodeClaim that waits for node group %s, or is about to be removed", id, group)}
		default:
			refused = nil
			g.Foreign = slices.DeleteFunc(g.Foreign, func(x string) bool { return x == id })
			delete(g.Late, id)
			g.Owned[id] = machine{UID: r.ClaimUID, Name: r.ClaimName, Launched: p.clock.Now().UnixMilli()}
		}
	}); err != nil {
		return "", err
	}
	return group, refused
}

// adoptionOf returns the id of the machine that a claim was made for; empty: it was made for none.
func adoptionOf(r *cloud.LaunchRequest) string {
	return r.Annotations[dovetailv1alpha1.AnnotationAdopt]
}

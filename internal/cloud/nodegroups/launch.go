// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Launch implements cloud.Provider. Each request tries groups, cheapest first, until one has a machine for it, will have
// one, or returns an error that requires a retry.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			r := &requests[i]
			res, err := p.launch(ctx, r)
			if err != nil {
				res = cloud.LaunchResult{Err: classify(ctx, "launch", r.ClaimName, err)}
			}
			res.ClaimUID = r.ClaimUID
			results[i] = res
		})
	}
	wg.Wait()
	return results
}

func (p *Provider) launch(ctx context.Context, r *cloud.LaunchRequest) (cloud.LaunchResult, error) {
	if ctx.Err() != nil {
		return cloud.LaunchResult{}, ctx.Err()
	}
	s, err := p.selectGroups(ctx, r.Class)
	if err != nil {
		return cloud.LaunchResult{}, err
	}
	types, err := p.typesOf(s, nil)
	if err != nil {
		return cloud.LaunchResult{}, err
	}
	rec, _, err := p.load(ctx)
	if err != nil {
		return cloud.LaunchResult{}, err
	}
	if group, id, m := rec.ownerOf(r.ClaimUID); id != "" {
		return p.confirm(ctx, s, types, r, group, id, m)
	}
	if id := adoptionOf(r); id != "" {
		group, err := p.adopt(ctx, s, r, id)
		if err != nil {
			return cloud.LaunchResult{}, err
		}
		return p.result(s, types, r, group, id)
	}
	options := optionsOf(s, types, r)
	waits := rec.groupOf(r.ClaimUID)
	if waits != "" {
		if p.queueOf(waits).isPolled(p.clock.Now()) {
			return cloud.LaunchResult{}, nil
		}
		isWaits := func(o option) bool { return o.group == waits }  // it is asked first, and the others only if it has none after all
		if first := slices.IndexFunc(options, isWaits); first < 0 { // the class has changed
			options = slices.Concat([]option{{group: waits, label: labelOf(waits)}}, options)
		} else {
			options = slices.Concat(options[first:first+1], options[:first], options[first+1:])
		}
	}
	if len(options) == 0 {
		return cloud.LaunchResult{}, &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("no offering of the groups of %s %s matches requirements %s and fits %s", s.class.Kind, s.class.Name, r.Requirements, r.Requests.Format(model.FixedNames()))}
	}
	var missing []cloud.OfferingKey
	for _, o := range options {
		if kept, ok := p.queueOf(o.group).takeRefusal(r.ClaimUID, p.clock.Now()); ok {
			p.refuse(r.ClaimUID, o.keyOf(kept.full), kept.err)
			continue
		}
		if o.group != waits && r.IsUnavailable(o.key, o.label) {
			missing = append(missing, o.keyOf(false))
			continue
		}
		if o.group != waits && slices.ContainsFunc(p.refusals(r.ClaimUID), func(k cloud.OfferingKey) bool { return k.Group == o.label && (k.Full || k == o.keyOf(false)) }) {
			continue
		}
		a := &ask{uid: r.ClaimUID, name: r.ClaimName, created: r.ClaimCreated, most: s.most(o.group), isNew: waits == ""}
		answer, err := p.ask(ctx, p.queueOf(o.group), a, r.Following)
		if err != nil {
			return cloud.LaunchResult{}, err
		}
		switch {
		case answer.id != "":
			return p.result(s, types, r, o.group, answer.id)
		case answer.full || answer.refused:
			p.refuse(r.ClaimUID, o.keyOf(answer.full), answer.err)
		default:
			return cloud.LaunchResult{}, answer.err // or one is to come
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: sortedKeys(append(p.refused[r.ClaimUID], missing...)), Err: p.why[r.ClaimUID]}
	if out.Err == nil {
		out.Err = errors.New("all groups that the NodeClaim allows recently had no capacity")
	}
	delete(p.refused, r.ClaimUID)
	delete(p.why, r.ClaimUID)
	return cloud.LaunchResult{}, out
}

// most is how many machines a group may have by the class.
func (s *selected) most(group string) int64 {
	for _, g := range s.groups {
		if g.Name == group {
			return g.Max
		}
	}
	return 0
}

func (p *Provider) refusals(uid string) []cloud.OfferingKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused[uid])
}

func (p *Provider) refuse(uid string, k cloud.OfferingKey, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[uid], p.why[uid] = append(p.refused[uid], k), why
}

// forgetRefusals forgets the refusals of a claim that is not launched again.
func (p *Provider) forgetRefusals(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, uid)
	delete(p.why, uid)
	for _, q := range p.queues {
		q.takeRefusal(uid, p.clock.Now())
	}
}

func sortedKeys(keys []cloud.OfferingKey) []cloud.OfferingKey {
	out := slices.Clone(keys)
	slices.SortFunc(out, func(a, b cloud.OfferingKey) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	return slices.Compact(out)
}

// confirm answers for a claim that has a machine.
func (p *Provider) confirm(ctx context.Context, s *selected, types []*model.InstanceType, r *cloud.LaunchRequest, group, id string, m machine) (cloud.LaunchResult, error) {
	ended := &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("its instance %s was terminated", id)}
	if m.Ending {
		return cloud.LaunchResult{}, ended
	}
	members, err := p.members(ctx, group)
	if err != nil {
		return cloud.LaunchResult{}, err
	}
	i := slices.IndexFunc(members, func(x Member) bool { return x.ID == id })
	if i >= 0 && members[i].Deleting || i < 0 && p.clock.Now().Sub(time.UnixMilli(m.Launched)) > listDelay {
		return cloud.LaunchResult{}, ended
	}
	return p.result(s, types, r, group, id)
}

// result answers with the machine of a claim.
func (p *Provider) result(s *selected, types []*model.InstanceType, r *cloud.LaunchRequest, group, id string) (cloud.LaunchResult, error) {
	at := slices.IndexFunc(s.groups, func(g *groupInfo) bool { return g.Name == group && g.template != nil })
	if at < 0 {
		return cloud.LaunchResult{}, fmt.Errorf("its machine %s belongs to group %s, which %s %s does not select", id, group, s.class.Kind, s.class.Name)
	}
	g := s.groups[at]
	out := cloud.LaunchResult{ClaimUID: r.ClaimUID, ProviderID: id, InstanceType: g.template.typeName, Zone: g.template.zone, CapacityType: g.template.capacity,
		PriceMicro: g.template.priceMicro, Capacity: g.template.resources, Allocatable: g.template.allocatable, Labels: model.Labels{model.LabelNodeGroup: g.label, model.LabelCapacityType: g.template.capacity}}
	for _, t := range types { // as it was planned
		if t.Name == out.InstanceType {
			out.Capacity, out.Allocatable = t.Capacity, t.Allocatable
		}
	}
	if out.Zone != noZone {
		out.Labels[model.LabelZone] = out.Zone
	}
	maps.Copy(out.Labels, g.template.typeLabels)
	maps.Copy(out.Labels, g.template.nodeLabels)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range sortedKeys(p.refused[r.ClaimUID]) {
		if k.Group != g.label {
			out.Unavailable = append(out.Unavailable, k)
		}
	}
	return out, nil
}

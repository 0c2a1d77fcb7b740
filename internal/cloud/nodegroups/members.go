// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func idsOf(members []Member) (out []string) {
	for _, m := range members {
		out = append(out, m.ID)
	}
	return out
}

func byID(members []Member) map[string]Member {
	out := make(map[string]Member, len(members))
	for _, m := range members {
		out[m.ID] = m
	}
	return out
}

// sortMembers returns machines by id, each once.
func sortMembers(out []Member) []Member {
	slices.SortStableFunc(out, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Member) bool { return a.ID == b.ID })
}

// members returns the machines of a group, by id.
func (p *Provider) members(ctx context.Context, name string) ([]Member, error) {
	out, err := p.server.Members(ctx, name)
	if err != nil {
		return nil, err
	}
	return sortMembers(out), nil
}

// membersOf returns the machines of groups, nil for those that do not answer in time.
func (p *Provider) membersOf(ctx context.Context, names []string) ([]*answer[[]Member], error) {
	whole, ok := p.server.(AllMembers)
	if !ok {
		return answersOf(ctx, p.clock, len(names), func(i int) ([]Member, error) {
			out, err := p.members(ctx, names[i])
			if err != nil {
				if missing, _ := p.isMissing(ctx, names[i]); missing {
					return nil, nil
				}
			}
			return out, err
		}), nil
	}
	all, err := whole.AllMembers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*answer[[]Member], len(names))
	for i, name := range names {
		out[i] = &answer[[]Member]{out: sortMembers(all[name])}
	}
	return out, nil
}

// isMissing reports whether the server has groups, but not this one, and whether this has lasted for absentFor, so that
// the group counts as deleted. A server without any groups may not be ready.
func (p *Provider) isMissing(ctx context.Context, name string) (missing, deleted bool) {
	s, err := p.groups(ctx)
	if err != nil || len(s.groups) == 0 {
		return false, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.has(name) {
		return false, false
	}
	since, ok := p.missing[name]
	if !ok {
		p.missing[name], since = s.at, s.at
	}
	return true, s.at.Sub(since) >= absentFor
}

// has reports whether a group is among those of a snapshot.
func (s *snapshot) has(name string) bool {
	return slices.ContainsFunc(s.groups, func(g *groupInfo) bool { return g.Name == name })
}

// deleteMachines has the server end machines of a group; its size is lowered with them.
func (p *Provider) deleteMachines(ctx context.Context, name string, ids []string) error {
	p.forget()
	return p.server.End(ctx, name, ids)
}

const placeholderInfix = "-pending:"

// placeholder returns the placeholder ID for the machine of a claim that does not exist yet.
func (p *Provider) placeholder(uid string) string { return p.name + placeholderInfix + uid }

// placeholderOf returns the claim UID of a placeholder ID.
func (p *Provider) placeholderOf(id string) (uid string, ok bool) {
	return strings.CutPrefix(id, p.name+placeholderInfix)
}

var errUnknownMachine = &cloud.Error{Kind: cloud.NotFound, Err: errors.New("no machine of a NodeClaim has this id")}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// absentFor is how long a server must not list a machine before it is taken to have ended: an answer may be wrong once.
const absentFor = 30 * time.Second

// List implements cloud.Provider.
func (p *Provider) List(ctx context.Context) ([]model.Instance, error) {
	out, err := p.list(ctx)
	if err != nil {
		return nil, classify(ctx, "list", "", err)
	}
	return out, nil
}

func (p *Provider) list(ctx context.Context) ([]model.Instance, error) {
	if err := p.server.Refresh(ctx); err != nil {
		return nil, err
	}
	r, _, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	adoptables := p.adoptables()
	names := slices.Collect(maps.Keys(adoptables))
	for name, g := range r.Groups {
		if _, is := adoptables[name]; !is && (len(g.Owned)+len(g.Open)+len(g.Failed)+len(g.Late) > 0 || g.Surplus > 0 || p.reader.hasMachines(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	p.mu.Lock()
	maps.DeleteFunc(p.missing, func(name string, _ time.Time) bool { return !slices.Contains(names, name) })
	p.mu.Unlock()
	members, err := p.membersOf(ctx, names)
	if err == nil {
		err = noAnswer(ctx, members)
	}
	if err != nil {
		return nil, err
	}
	if !cloud.LooksOnly(ctx) {
		answersOf(ctx, p.clock, len(names), func(i int) (struct{}, error) {
			if members[i] == nil || members[i].err != nil || r.Groups[names[i]] == nil {
				return struct{}{}, nil
			}
			err := p.cleanUp(ctx, names[i], r.Groups[names[i]], members[i].out, adoptables[names[i]].replacing)
			if err != nil && ctx.Err() == nil {
				p.log.Warn("node group can't be cleaned up now", "group", names[i], "error", err)
			}
			return struct{}{}, err
		})
	}
	if r, _, err = p.load(ctx); err != nil { // a machine may have come for a claim that has asked since
		return nil, err
	}
	var out []model.Instance
	for i, name := range names {
		known, by, g := members[i] != nil && members[i].err == nil, map[string]Member{}, r.Groups[name]
		if known {
			by = byID(members[i].out)
			out = append(out, listAdoptable(g, adoptables[name], members[i].out, p.reader.minOf(name), p.began)...)
		}
		if g == nil {
			continue
		}
		for id, m := range g.Owned { // if its group does not answer, as it was
			at, listed := by[id]
			if known && !listed && (m.Gone || p.isAbsent(id, m)) {
				continue
			}
			out = append(out, model.Instance{ProviderID: id, ClaimUID: m.UID, ClaimName: m.Name, Launched: time.UnixMilli(m.Launched), Gone: m.Gone || at.Deleting})
		}
		var came int // machines of which one may be a claim's by its next call
		for _, m := range by {
			if len(g.Open) > 0 && g.isFree(m) {
				came++
			}
		}
		for i, uid := range g.openClaims() {
			c := g.Open[uid]
			out = append(out, model.Instance{ProviderID: p.placeholder(uid), ClaimUID: uid, ClaimName: c.Name, Launched: time.UnixMilli(c.Created), Coming: known && i >= came})
		}
	}
	slices.SortFunc(out, func(a, b model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return out, nil
}

// noAnswer returns an error if no group has answered.
func noAnswer[T any](ctx context.Context, of []*answer[T]) (err error) {
	for _, a := range of {
		switch {
		case a == nil:
		case a.err == nil:
			return ctx.Err()
		case err == nil || kindOf(a.err) == cloud.Throttled:
			err = a.err
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// isAbsent reports whether a machine that is not listed has ended. It was called for each List since it was not listed first.
func (p *Provider) isAbsent(id string, m machine) bool {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	since, ok := p.absent[id]
	if !ok {
		p.absent[id], since = now, now
	}
	return now.Sub(since) >= absentFor && now.Sub(time.UnixMilli(m.Launched)) >= absentFor
}

// cleanUp removes terminated machines from the record, and scales down machines that no claim waits for. While the
// server replaces machines of the group, it may also replace failed ones.
func (p *Provider) cleanUp(ctx context.Context, name string, g *groupRecord, members []Member, replacing bool) error {
	var ended []string
	by, surplus := byID(members), false
	for id, m := range g.Owned {
		if at, listed := by[id]; listed {
			surplus = surplus || at.Deleting && !m.Ending
			p.mu.Lock()
			delete(p.absent, id)
			p.mu.Unlock()
		} else if m.Gone || p.isAbsent(id, m) {
			ended = append(ended, id)
		}
	}
	if len(ended) > 0 {
		if err := p.update(ctx, func(r *record) {
			g, _ := r.group(name)
			for _, id := range ended {
				if _, ok := g.Owned[id]; ok {
					p.lose(r, g, id)
					delete(g.Owned, id)
				}
				surplus = surplus || g.Surplus > 0
			}
		}); err != nil {
			return err
		}
		p.mu.Lock()
		for _, id := range ended {
			delete(p.absent, id)
		}
		p.mu.Unlock()
		for _, id := range ended {
			p.forgetRefusals(g.Owned[id].UID)
		}
	}
	var stuck []string
	for _, m := range members {
		if m.Stuck {
			stuck = append(stuck, m.ID)
		}
	}
	for id := range g.Late {
		_, listed := by[id]
		surplus = surplus || !listed // it is forgotten
	}
	failed := !replacing && (len(g.Failed) > 0 || slices.ContainsFunc(members, g.isFailed))
	if g.Surplus == 0 && !surplus && !failed && len(stuck) == 0 {
		return nil
	}
	if len(members) == 0 {
		switch missing, deleted := p.isMissing(ctx, name); {
		case deleted:
			return p.update(ctx, func(r *record) {
				g, _ := r.group(name)
				g.Surplus, g.Failed, g.Late = 0, nil, nil
			})
		case missing:
			return nil // an answer may be wrong once
		}
	}
	q := p.queueOf(name)
	if err := q.turn.Acquire(ctx); err != nil {
		return err
	}
	defer q.turn.Release()
	if len(stuck) > 0 {
		if err := p.deleteMachines(ctx, name, stuck); err != nil {
			return err
		}
	}
	_, err := p.settle(ctx, q, nil)
	return err
}

// Terminate implements cloud.Provider.
func (p *Provider) Terminate(ctx context.Context, ids []string) []error {
	errs := make([]error, len(ids))
	if len(ids) == 0 {
		return errs
	}
	all := func(err error) []error {
		for i, id := range ids {
			errs[i] = classify(ctx, "terminate", id, err)
		}
		return errs
	}
	if err := p.server.Refresh(ctx); err != nil {
		return all(err)
	}
	r, _, err := p.load(ctx)
	if err != nil {
		return all(err)
	}
	by := map[string][]int{}
	for i, id := range ids {
		uid, pending := p.placeholderOf(id)
		name := ""
		for group, g := range r.Groups {
			if _, ok := g.Owned[id]; ok || g.Late[id] > 0 || pending && g.Open[uid] != (openClaim{}) {
				name = group
			}
		}
		if name == "" {
			errs[i] = classify(ctx, "terminate", id, errUnknownMachine)
			continue
		}
		by[name] = append(by[name], i)
	}
	var wg sync.WaitGroup
	for name, at := range by {
		wg.Go(func() {
			some := make([]string, len(at))
			for n, i := range at {
				some[n] = ids[i]
			}
			for n, err := range p.endMachines(ctx, name, some) {
				errs[at[n]] = classify(ctx, "terminate", ids[at[n]], err)
			}
		})
	}
	wg.Wait()
	return errs
}

// endMachines ends machines of one group, and gives up claims that wait for it.
func (p *Provider) endMachines(ctx context.Context, name string, ids []string) []error {
	q := p.queueOf(name)
	fail := func(err error) []error { return slices.Repeat([]error{err}, len(ids)) }
	if err := q.turn.Acquire(ctx); err != nil {
		return fail(err)
	}
	defer q.turn.Release()
	members, err := p.members(ctx, name)
	if err != nil {
		return fail(err)
	}
	errs := make([]error, len(ids))
	var end, claims []string // machines, and claims that are not launched again
	gaveUp := false
	if err := p.update(ctx, func(r *record) {
		end, claims, gaveUp = nil, nil, false
		g, _ := r.group(name)
		for i, id := range ids {
			errs[i] = nil
			if uid, pending := p.placeholderOf(id); pending {
				if _, ok := g.Open[uid]; !ok {
					errs[i] = errUnknownMachine
					continue
				}
				delete(g.Open, uid)
				r.end(uid, p.clock.Now())
				claims = append(claims, uid)
				g.Surplus++
				gaveUp = true
				continue
			}
			m, ok := g.Owned[id]
			at := slices.IndexFunc(members, func(x Member) bool { return x.ID == id })
			if !ok && g.Late[id] > 0 && at >= 0 && !members[at].Deleting && !slices.Contains(end, id) {
				end = append(end, id)
				continue
			}
			if !ok || m.Gone || at < 0 || members[at].Deleting || slices.Contains(end, id) {
				errs[i] = errUnknownMachine
				if ok && !slices.Contains(end, id) {
					gaveUp = gaveUp || !m.Ending
					p.lose(r, g, id)
				}
				continue
			}
			m.Ending = true
			g.Owned[id] = m
			end, claims = append(end, id), append(claims, m.UID)
		}
	}); err != nil {
		return fail(err)
	}
	for _, uid := range claims {
		p.forgetRefusals(uid)
	}
	if gaveUp {
		if _, err := p.settle(ctx, q, nil); err != nil {
			p.log.Warn("an unneeded machine can't be cancelled now; it is deleted when it starts", "group", name, "error", err)
		}
	}
	if len(end) == 0 {
		return errs
	}
	err = p.deleteMachines(ctx, name, end)
	ended := end
	if err != nil && !isUncertain(err) { // some of them may have ended all the same
		ended = p.gone(ctx, name, end)
	}
	if err == nil || !isUncertain(err) {
		if e := p.update(ctx, func(r *record) {
			g, _ := r.group(name)
			for _, id := range end {
				gone := slices.Contains(ended, id)
				if gone {
					delete(g.Late, id)
					g.Target = max(0, g.Target-1) // the server lowers it by itself
				}
				m, ok := g.Owned[id]
				if !ok {
					continue
				}
				m.Gone, m.Ending = gone, gone
				g.Owned[id] = m
				if gone {
					r.end(m.UID, p.clock.Now())
				}
			}
		}); e != nil && err == nil {
			err = e
		}
	} else {
		ended = nil
	}
	for i, id := range ids {
		if errs[i] == nil && slices.Contains(end, id) && !slices.Contains(ended, id) {
			errs[i] = err
		}
	}
	return errs
}

// gone returns which machines a group no longer has, none if this is unknown.
func (p *Provider) gone(ctx context.Context, name string, ids []string) []string {
	members, err := p.members(ctx, name)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return m.ID == id && !m.Deleting })
	})
}

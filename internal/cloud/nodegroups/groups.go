// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	groupsFor    = 10 * time.Second // how long the list of groups and their targets is used
	templatesFor = 5 * time.Minute  // and what a group's nodes are and cost
	// patience is how long one group's answer is waited for after another group's came.
	patience = time.Second
)

// groups returns the server's groups as they were at most groupsFor ago, and after the last change that was made before the call. If the
// server is slow to tell, they are those of the last answer.
func (p *Provider) groups(ctx context.Context) (*snapshot, error) {
	r := &p.reader
	r.mu.Lock()
	asked := r.version
	r.mu.Unlock()
	for {
		r.mu.Lock()
		have, run := r.snapshot, r.running
		if have != nil && !r.stale && p.clock.Now().Sub(have.at) < groupsFor {
			r.mu.Unlock()
			return have, ctx.Err()
		}
		if run == nil {
			run = &reading{version: r.version, done: make(chan struct{})}
			r.running = run
			go p.readAll(context.WithoutCancel(ctx), run)
		}
		r.mu.Unlock()
		wait, cancel := ctx, func() {}
		if have != nil {
			wait, cancel = context.WithCancel(ctx)
			go func() {
				if p.clock.Wait(wait, 2*patience) == nil {
					cancel()
				}
			}()
		}
		select {
		case <-run.done:
			cancel()
			if run.err != nil || run.version >= asked {
				return run.snapshot, run.err
			}
		case <-wait.Done():
			cancel()
			return have, ctx.Err()
		}
	}
}

// readAll carries out a reading.
func (p *Provider) readAll(ctx context.Context, run *reading) {
	run.snapshot, run.err = p.readGroups(ctx)
	if run.err == nil {
		p.mu.Lock()
		maps.DeleteFunc(p.missing, func(name string, _ time.Time) bool { return run.snapshot.has(name) })
		p.mu.Unlock()
	}
	r := &p.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.err == nil {
		r.snapshot, r.stale = run.snapshot, r.version != run.version
	}
	r.running = nil
	close(run.done)
}

// hasMachines reports whether a group was to have machines when it was last read.
func (r *groupReader) hasMachines(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.facts[name]
	return f != nil && f.target > 0
}

// minOf returns the minimum size of a group when it was last read; 0 if it was not.
func (r *groupReader) minOf(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot != nil {
		for _, g := range r.snapshot.groups {
			if g.Name == name {
				return g.Min
			}
		}
	}
	return 0
}

// forget discards the cached groups after a change.
func (p *Provider) forget() {
	p.reader.mu.Lock()
	defer p.reader.mu.Unlock()
	p.reader.stale = true
	p.reader.version++
}

// readGroups reads all groups. A group whose own calls fail or have not answered yet is silent; if none answers, that is an error.
func (p *Provider) readGroups(ctx context.Context) (*snapshot, error) {
	now := p.clock.Now()
	if err := p.server.Refresh(ctx); err != nil {
		return nil, err
	}
	list, err := p.server.Groups(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	list = slices.CompactFunc(list, func(a, b Group) bool { return a.Name == b.Name })
	list = slices.DeleteFunc(list, func(g Group) bool { return g.Name == "" })
	answersOf(ctx, p.clock, len(list), func(i int) (struct{}, error) {
		p.readGroup(ctx, &list[i], now)
		return struct{}{}, nil
	})
	p.reader.mu.Lock()
	defer p.reader.mu.Unlock()
	maps.DeleteFunc(p.reader.facts, func(name string, _ *groupFacts) bool {
		return !slices.ContainsFunc(list, func(g Group) bool { return g.Name == name })
	})
	out, answered := &snapshot{at: now}, 0
	var failed error
	for _, g := range list {
		f := p.reader.facts[g.Name]
		if f == nil {
			f = &groupFacts{busy: true}
		}
		i := &groupInfo{Group: g, label: labelOf(g.Name), target: f.target, template: f.template}
		switch {
		case f.busy:
			i.silent = "the server has not returned its target size yet; the group is used when it does"
		case f.err != nil:
			i.silent = f.err.Error()
			if failed == nil || kindOf(f.err) == cloud.Throttled {
				failed = f.err
			}
		default:
			answered++
		}
		out.groups = append(out.groups, i)
	}
	if failed != nil && (answered == 0 || kindOf(failed) == cloud.Throttled) {
		return nil, failed
	}
	return out, nil
}

// readGroup reads what only a group's own calls tell, unless such calls are under way.
func (p *Provider) readGroup(ctx context.Context, g *Group, now time.Time) {
	r, name := &p.reader, g.Name
	r.mu.Lock()
	f := r.facts[name]
	if f == nil {
		f = &groupFacts{}
		r.facts[name] = f
	}
	if f.busy {
		r.mu.Unlock()
		return
	}
	f.busy = true
	have, at := f.template, f.templateAt
	r.mu.Unlock()
	var target int64
	var err error
	if g.Target != nil {
		target = *g.Target
	} else {
		target, err = p.server.Target(ctx, name)
	}
	if err == nil && (have == nil || now.Sub(at) >= templatesFor) {
		var d Description
		if d, err = p.server.Describe(ctx, name); err == nil {
			have, at = p.readTemplate(name, d), now
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.busy, f.err, f.template, f.templateAt = false, err, have, at
	if err == nil {
		f.target = target
	}
}

// answer is what one of several calls at the same time returned.
type answer[T any] struct {
	out T
	err error
}

// answersOf makes n calls at the same time. It returns what they answer, nil for those that have not yet when patience has passed
// since the first answer: one slow call holds up no other. Those go on.
func answersOf[T any](ctx context.Context, clock cloud.Clock, n int, do func(int) (T, error)) []*answer[T] {
	type numbered struct {
		i int
		answer[T]
	}
	out, came := make([]*answer[T], n), make(chan numbered, n)
	go cloud.RunConcurrently(n, func(i int) {
		v, err := do(i)
		came <- numbered{i, answer[T]{v, err}}
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for have := range n {
		if have == 1 {
			go func() {
				if clock.Wait(ctx, patience) == nil {
					cancel()
				}
			}()
		}
		select {
		case a := <-came:
			out[a.i] = &a.answer
		case <-ctx.Done():
			return out
		}
	}
	return out
}

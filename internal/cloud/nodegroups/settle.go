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

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// gather is how long a claim waits for others of its group, to be one call with them; gatherMore, if more are about to ask.
	gather     = 10 * time.Millisecond
	gatherMore = 150 * time.Millisecond
	// settleTime is how long, besides the time of a call, a group's target may not show what the server was asked for.
	settleTime = 10 * time.Second
	// refusalFor is how long a refusal is kept for a claim that does not ask. The group may have capacity again after that.
	refusalFor = time.Minute
)

// A group with claims that wait for machines is read again after half of the time since it was raised, within these
// bounds.
const (
	pollLeast = 100 * time.Millisecond
	pollMost  = 2 * time.Second
)

// isPolled reports whether the group was read recently.
func (q *queue) isPolled(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now.Sub(q.settled) < min(max(now.Sub(q.raised)/2, pollLeast), pollMost)
}

// noteSettled records that the group was settled with its claims, and whether more machines are expected.
func (q *queue) noteSettled(now time.Time, raised bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settled = now
	if raised {
		q.raised = now
	}
}

func (p *Provider) queueOf(name string) *queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[name]
	if q == nil {
		q = &queue{name: name, turn: cloud.NewLock()}
		p.queues[name] = q
	}
	return q
}

// ask asks a group for a machine. Claims that ask at the same time are served together, and on when their context ends: the
// claim's next call tells.
func (p *Provider) ask(ctx context.Context, q *queue, a *ask, following int) (outcome, error) {
	a.done = make(chan outcome, 1)
	q.mu.Lock()
	q.pending = append(q.pending, a)
	if !q.running {
		q.running = true
		wait := gather
		if following > 0 {
			wait = gatherMore
		}
		go p.serve(context.WithoutCancel(ctx), q, wait)
	}
	q.mu.Unlock()
	select {
	case o := <-a.done:
		if kept, ok := q.takeRefusal(a.uid, p.clock.Now()); ok {
			return kept.outcome, nil
		}
		return o, nil
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	}
}

// keepRefusals stores refusals for claims whose Launch call is not waiting, and drops those that are older than refusalFor.
func (q *queue) keepRefusals(answers map[string]outcome, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.refusals, func(_ string, r refusal) bool { return now.Sub(r.at) >= refusalFor })
	for uid, o := range answers {
		if o.refused || o.full {
			if q.refusals == nil {
				q.refusals = map[string]refusal{}
			}
			q.refusals[uid] = refusal{o, now}
		}
	}
}

// takeRefusal returns and removes the stored refusal of a claim.
func (q *queue) takeRefusal(uid string, now time.Time) (refusal, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ok := q.refusals[uid]
	delete(q.refusals, uid)
	return r, ok && now.Sub(r.at) < refusalFor
}

// isRefused reports whether a refusal of a claim is stored.
func (q *queue) isRefused(uid string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ok := q.refusals[uid]
	return ok && now.Sub(r.at) < refusalFor
}

// serve serves the claims of a group until none asks.
func (p *Provider) serve(ctx context.Context, q *queue, wait time.Duration) {
	for {
		_ = p.clock.Wait(ctx, wait)
		q.mu.Lock()
		asks := q.pending
		q.pending = nil
		if len(asks) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		_ = q.turn.Acquire(ctx) // the context does not end
		answers, err := p.settle(ctx, q, asks)
		q.turn.Release()
		if err == nil {
			q.noteSettled(p.clock.Now(), slices.ContainsFunc(asks, func(a *ask) bool { return a.isNew }))
		}
		for _, a := range asks {
			o, ok := answers[a.uid]
			if !ok {
				o.err = err
			}
			a.done <- o
		}
	}
}

// change is a change of a group to make after its record was written.
type change struct {
	target int64    // as the server said it
	raise  int64    // by how much the size is to be raised
	to     int64    // and what that makes it
	uids   []string // of the claims for which, the youngest last
	lower  int64    // by how much it is to be lowered, for machines that have not come
	remove []string // machines that came for nobody
	broken []string // machines that have failed
}

// settle brings a group and its open claims together, and returns the outcome for claims, by uid. The caller has the group's turn.
//
// What a group should have is its machines and one more for each claim that has none, counted anew each time. The record says
// so before the server is asked, and for a while it counts for more than the target that the server tells: a reply may have been
// lost, the target may lag, and the process that asked may have ended since.
func (p *Provider) settle(ctx context.Context, q *queue, asks []*ask) (map[string]outcome, error) {
	asks = slices.DeleteFunc(slices.Clone(asks), func(a *ask) bool { // the group has answered while they waited
		return q.isRefused(a.uid, p.clock.Now()) || slices.ContainsFunc(p.refusals(a.uid), func(k cloud.OfferingKey) bool { return k.Group == labelOf(q.name) })
	})
	answers, err := p.settleOnce(ctx, q.name, asks)
	q.keepRefusals(answers, p.clock.Now())
	return answers, err
}

func (p *Provider) settleOnce(ctx context.Context, name string, asks []*ask) (map[string]outcome, error) {
	target, err := p.server.Target(ctx, name)
	if err != nil {
		return nil, err
	}
	members, err := p.members(ctx, name)
	if err != nil {
		return nil, err
	}
	var answers map[string]outcome
	var todo change
	if err := p.update(ctx, func(r *record) { answers, todo = p.reconcile(r, name, asks, members, target) }); err != nil {
		return nil, err
	}
	if len(todo.broken)+len(todo.remove) > 0 {
		if err := p.deleteMachines(ctx, name, slices.Concat(todo.broken, todo.remove)); err != nil {
			p.log.Warn("machines of a node group without a NodeClaim can't be deleted now", "group", name, "error", err)
		} else if err := p.settled(ctx, name, int64(len(todo.remove))); err != nil {
			return answers, err
		}
	}
	if todo.lower > 0 {
		if err := p.server.Lower(ctx, name, todo.lower); err != nil {
			p.log.Warn("size of a node group can't be lowered now; unneeded machines are deleted when they start", "group", name, "by", todo.lower, "error", err)
		} else if err := p.settled(ctx, name, todo.lower); err != nil {
			return answers, err
		}
	}
	if todo.raise == 0 {
		return answers, nil
	}
	p.forget()
	err = p.server.Raise(ctx, name, todo.raise, todo.to)
	if err == nil || isUncertain(err) {
		return answers, err
	}
	return answers, p.notRaised(ctx, name, todo, answers, err)
}

// notRaised takes back what the record says after the server has answered that it does not raise a group's size. Some
// answer so after they did: the target tells.
func (p *Provider) notRaised(ctx context.Context, name string, todo change, answers map[string]outcome, refusal error) error {
	target, err := p.server.Target(ctx, name)
	switch {
	case err != nil:
		return err // the record counts for a while
	case target >= todo.target+todo.raise:
		return nil
	}
	kind := kindOf(refusal)
	throttled := kind == cloud.Throttled || kind == cloud.Denied
	if err := p.update(ctx, func(r *record) {
		g, _ := r.group(name)
		g.Target, g.TargetAt = 0, 0
		if !throttled {
			for _, uid := range todo.uids {
				delete(g.Open, uid)
			}
		}
	}); err != nil {
		return err
	}
	if throttled {
		return refusal
	}
	for _, uid := range todo.uids {
		answers[uid] = outcome{refused: true, err: fmt.Errorf("group %s: %w", name, refusal)}
	}
	return nil
}

// settled records that the server has lowered the size of a group, n of it for machines that no claim waits for.
func (p *Provider) settled(ctx context.Context, name string, n int64) error {
	p.forget()
	return p.update(ctx, func(r *record) {
		g, _ := r.group(name)
		g.Surplus = max(0, g.Surplus-n)
		g.Target, g.TargetAt = 0, 0
	})
}

// reconcile computes the new record of a group, and the change of the group.
func (p *Provider) reconcile(r *record, name string, asks []*ask, members []Member, target int64) (map[string]outcome, change) {
	now, answers, todo := p.clock.Now(), map[string]outcome{}, change{target: target}
	g, known := r.group(name)
	if !known {
		g.Foreign = idsOf(members)
	}
	most := int64(-1)
	for _, a := range asks {
		if most < 0 || a.most < most {
			most = a.most
		}
		_, id, _ := r.ownerOf(a.uid)
		switch _, ended := r.Ended[a.uid]; {
		case ended:
			answers[a.uid] = outcome{err: &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("its instance was terminated")}}
		case id != "":
			answers[a.uid] = outcome{id: id}
		case r.groupOf(a.uid) != "" && r.groupOf(a.uid) != name: // the same claim, asked for twice at once, waits for another group
			answers[a.uid] = outcome{}
		default:
			g.Open[a.uid] = openClaim{Name: a.name, Created: a.created.UnixMilli()}
		}
	}
	foreign := map[string]bool{}
	for _, id := range g.Foreign {
		foreign[id] = true
	}
	g.Foreign = slices.DeleteFunc(g.Foreign, func(id string) bool {
		return !slices.ContainsFunc(members, func(m Member) bool { return m.ID == id })
	})
	maps.DeleteFunc(g.Late, func(id string, _ int64) bool {
		_, owned := g.Owned[id]
		return owned || !slices.ContainsFunc(members, func(m Member) bool { return m.ID == id && !m.Deleting })
	})
	open := g.openClaims()
	var alive int64 // members that are somebody's
	var free []Member
	var failed []Member
	for _, m := range members {
		has, owned := g.Owned[m.ID]
		switch {
		case m.Deleting && owned && !has.Ending: // somebody else ends it, and the server may put another in its place
			p.lose(r, g, m.ID)
		case m.Deleting || has.Ending:
		case owned || foreign[m.ID]:
			alive++
		case g.isFailed(m):
			failed = append(failed, m)
		case m.Running && len(open) > 0:
			uid := open[0]
			open = open[1:]
			has := machine{UID: uid, Name: g.Open[uid].Name, Launched: now.UnixMilli()}
			delete(g.Open, uid)
			delete(g.Late, m.ID)
			g.Owned[m.ID], answers[uid] = has, outcome{id: m.ID}
			alive++
		case g.Late[m.ID] > 0:
			alive++
		case m.Running:
			free = append(free, m)
		}
	}
	// What somebody else has added since has come after those that claims asked for.
	slices.SortStableFunc(free, func(a, b Member) int { return a.Created.Compare(b.Created) })
	count, end, news := p.noteFailed(name, g, failed, target, now)
	todo.broken = end
	size := target
	if g.Target > target && now.Sub(time.UnixMilli(g.TargetAt)) < settleTime+p.timeout {
		size = g.Target
	} else {
		g.Target, g.TargetAt = 0, 0
	}
	coming := max(0, size-alive-count)
	need := int64(len(open)) - coming
	for _, m := range news { // each was to be the machine of the youngest claim, unless another is to come for that
		if need > 0 {
			last := open[len(open)-1]
			open, need = open[:len(open)-1], need-1
			delete(g.Open, last)
			answers[last] = outcome{refused: true, err: fmt.Errorf("group %s: machine %s: %s: %s", name, m.ID, m.Code, m.Message)}
		}
	}
	g.Surplus = min(g.Surplus, max(0, -need)) // others may have grown the group since
	switch {
	case need > 0 && len(asks) > 0:
		for need > 0 && size+need > most { // the youngest
			last := open[len(open)-1]
			open, need = open[:len(open)-1], need-1
			delete(g.Open, last)
			answers[last] = outcome{full: true, err: fmt.Errorf("group %s has %d of at most %d instances", name, size, most)}
		}
		if need > 0 {
			todo.raise, todo.to, todo.uids = need, size+need, open[int64(len(open))-need:]
			g.Target, g.TargetAt, g.Surplus = size+need, now.UnixMilli(), 0
		}
	case need < 0 && g.Surplus > 0:
		n := min(-need, g.Surplus)
		came := min(n, int64(len(free)))
		todo.lower = n - came
		if p.adopts { // kube-scheduler may have bound pods to it: a claim is made for it if a pool has it, and drains it
			g.Surplus -= came
			for _, m := range free[:came] {
				g.Late[m.ID] = now.UnixMilli()
			}
		} else {
			todo.remove = idsOf(free[:came])
		}
	}
	return answers, todo
}

// noteFailed notes machines that have failed. It returns how many of them still count for the size of their group, which of those are to be ended now, and
// which a claim has to learn of. The server has just been asked to end the others.
func (p *Provider) noteFailed(name string, g *groupRecord, failed []Member, target int64, now time.Time) (count int64, end []string, news []Member) {
	least, noted := p.reader.minOf(name), g.Failed
	g.Failed = map[string]int64{}
	for _, m := range failed {
		at, ok := noted[m.ID]
		if ok && now.Sub(time.UnixMilli(at)) < settleTime+p.timeout { // the reply may be late
			g.Failed[m.ID] = at
			continue
		}
		count++
		isEnded := target-int64(len(end)) > least
		if isEnded {
			g.Failed[m.ID], end = now.UnixMilli(), append(end, m.ID)
		} else {
			g.Failed[m.ID] = 0
		}
		if isEnded && at > 0 || !ok { // not one that was kept for the minimum size: a claim has learned of that
			news = append(news, m)
		}
	}
	return count, end, news
}

// openClaims are the uids of the open claims of a group, oldest first.
func (g *groupRecord) openClaims() []string {
	out := make([]string, 0, len(g.Open))
	for uid := range g.Open {
		out = append(out, uid)
	}
	slices.SortFunc(out, func(a, b string) int {
		x, y := g.Open[a], g.Open[b]
		return cmp.Or(cmp.Compare(x.Created, y.Created), strings.Compare(x.Name, y.Name), strings.Compare(a, b))
	})
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// record is what must outlive the process.
type record struct {
	Groups map[string]*groupRecord `json:"groups,omitempty"`
	// Ended are claims that are not launched again, by UID, because their machine was terminated or they were given up.
	// In Unix seconds.
	Ended map[string]int64 `json:"ended,omitempty"`
}

// groupRecord is the record of one group.
type groupRecord struct {
	Foreign []string             `json:"foreign,omitempty"` // machines that existed before
	Open    map[string]openClaim `json:"open,omitempty"`    // claims that wait for a machine, by UID
	Owned   map[string]machine   `json:"owned,omitempty"`   // machines of claims, by provider ID
	// Target is the last requested size of the group and its time in Unix milliseconds; 0: none, or the server has
	// rejected it since.
	Target   int64 `json:"target,omitempty"`
	TargetAt int64 `json:"targetAt,omitempty"`
	Surplus  int64 `json:"surplus,omitempty"` // number of machines that may still be created for no claim
	// Late are machines created for claims that were given up before, and that no claim has, by provider ID: when this
	// was found, in Unix milliseconds.
	Late map[string]int64 `json:"late,omitempty"`
	// Failed are failed machines by provider ID: when the server was last requested to terminate each, in Unix
	// milliseconds; 0: not requested, because the group would fall below its minimum size.
	Failed map[string]int64 `json:"failed,omitempty"`
}

type openClaim struct {
	Name    string `json:"name"`
	Created int64  `json:"created,omitempty"` // Unix milliseconds
}

type machine struct {
	UID      string `json:"uid"`
	Name     string `json:"name"`
	Launched int64  `json:"launched"`
	Ending   bool   `json:"ending,omitempty"` // its termination was requested
	Gone     bool   `json:"gone,omitempty"`   // the server has confirmed the termination
}

const (
	// endedFor is how long a claim whose machine has ended is remembered. A claim does not outlive its machine for so long.
	endedFor = 24 * time.Hour
	// swaps is how often a change of the record is computed anew because somebody else changed it.
	swaps = 8
	// swapLimit is how long a change of the record may take.
	swapLimit = 20 * time.Second
)

// group returns the record of a group, made if there is none, and whether there was one.
func (r *record) group(name string) (*groupRecord, bool) {
	g, ok := r.Groups[name]
	if !ok {
		g = &groupRecord{}
		if r.Groups == nil {
			r.Groups = map[string]*groupRecord{}
		}
		r.Groups[name] = g
	}
	if g.Open == nil {
		g.Open = map[string]openClaim{}
	}
	if g.Owned == nil {
		g.Owned = map[string]machine{}
	}
	if g.Late == nil {
		g.Late = map[string]int64{}
	}
	if g.Failed == nil {
		g.Failed = map[string]int64{}
	}
	return g, ok
}

// isFailed reports whether a machine that no claim has and that was not there before has an error and never ran. A machine that runs is not ended for its
// error: pods may be on it.
func (g *groupRecord) isFailed(m Member) bool {
	_, owned := g.Owned[m.ID]
	return m.Code != "" && !m.Running && !m.Deleting && !owned && !slices.Contains(g.Foreign, m.ID)
}

// isFree reports whether a machine that runs is to be that of a claim that waits.
func (g *groupRecord) isFree(m Member) bool {
	_, owned := g.Owned[m.ID]
	return m.Running && !m.Deleting && !owned && g.Late[m.ID] == 0 && !slices.Contains(g.Foreign, m.ID)
}

// isAdoptable reports whether a claim may be made for a machine that no claim has. As long as claims wait for the group or machines are to be given
// back, those that come are for them.
func (g *groupRecord) isAdoptable(id string) bool {
	return slices.Contains(g.Foreign, id) || len(g.Open)+int(g.Surplus) == 0
}

// end records that a claim is not launched again, and removes old entries.
func (r *record) end(uid string, now time.Time) {
	if r.Ended == nil {
		r.Ended = map[string]int64{}
	}
	r.Ended[uid] = now.Unix()
	for k, at := range r.Ended {
		if now.Sub(time.Unix(at, 0)) > endedFor {
			delete(r.Ended, k)
		}
	}
}

// lose notes that a machine of a claim has ended or is about to. If nobody here ended it, the server may have put another in its place,
// for which nobody waits. It is given back unless it is adopted.
func (p *Provider) lose(r *record, g *groupRecord, id string) {
	m := g.Owned[id]
	if !m.Ending && !p.adopts {
		g.Surplus++
	}
	m.Ending, m.Gone = true, true
	g.Owned[id] = m
	r.end(m.UID, p.clock.Now())
}

// ownerOf returns the machine of a claim, and its group; "" if it has none.
func (r *record) ownerOf(uid string) (group, id string, m machine) {
	for name, g := range r.Groups {
		for id, m := range g.Owned {
			if m.UID == uid {
				return name, id, m
			}
		}
	}
	return "", "", machine{}
}

// groupOf returns the group that a claim waits for; "" if it waits for none.
func (r *record) groupOf(uid string) string {
	for name, g := range r.Groups {
		if _, ok := g.Open[uid]; ok {
			return name
		}
	}
	return ""
}

// recordFor is how long the record is used as it was last read or written here: only the leader writes it.
const recordFor = time.Second

// load returns the record, and its text.
func (p *Provider) load(ctx context.Context) (*record, string, error) {
	if err := p.record.turn.Acquire(ctx); err != nil {
		return nil, "", err
	}
	defer p.record.turn.Release()
	if now := p.clock.Now(); p.record.at.IsZero() || now.Sub(p.record.at) >= recordFor {
		text, err := p.records.Load(ctx)
		if err != nil {
			return nil, "", err
		}
		p.record.text, p.record.at = text, now
	}
	out := &record{}
	if p.record.text != "" {
		if err := json.Unmarshal([]byte(p.record.text), out); err != nil {
			return nil, "", fmt.Errorf("read the record of node groups: %w", err)
		}
	}
	return out, p.record.text, nil
}

// update changes the record: change is applied to a copy of the stored record, and retried on conflicts. Concurrent
// changes share one write.
func (p *Provider) update(ctx context.Context, change func(*record)) error {
	w := &p.writer
	one := &recordChange{change: change, done: make(chan error, 1)}
	w.mu.Lock()
	w.pending = append(w.pending, one)
	if !w.running {
		w.running = true
		go p.write(context.WithoutCancel(ctx))
	}
	w.mu.Unlock()
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes changes of the record until none is left.
func (p *Provider) write(ctx context.Context) {
	w := &p.writer
	for {
		w.mu.Lock()
		batch := w.pending
		w.pending = nil
		if len(batch) == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		err := p.swap(ctx, batch)
		for _, x := range batch {
			x.done <- err
		}
	}
}

// swap writes some changes of the record at once.
func (p *Provider) swap(ctx context.Context, batch []*recordChange) error {
	ctx, cancel := context.WithTimeout(ctx, swapLimit)
	defer cancel()
	for range swaps {
		r, old, err := p.load(ctx)
		if err != nil {
			return err
		}
		for _, x := range batch {
			x.change(r)
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if string(text) == old {
			return nil
		}
		done, err := p.records.Swap(ctx, old, string(text))
		_ = p.record.turn.Acquire(context.WithoutCancel(ctx)) // nobody holds it for longer than a call
		p.record.text, p.record.at = string(text), p.clock.Now()
		if err != nil || !done {
			p.record.at = time.Time{}
		}
		p.record.turn.Release()
		if err != nil || done {
			return err
		}
	}
	return errors.New("write the record of node groups: another process writes it, too; run one active controller")
}

// Forget removes the claims of machines from the record, by provider ID, while a provider of another process may use the
// record. The claims are not launched again. A group without claims is reset to its initial state: all its machines
// count as existing before.
func Forget(ctx context.Context, records Records, ids []string) error {
	for range swaps {
		old, err := records.Load(ctx)
		if err != nil || old == "" {
			return err
		}
		r := &record{}
		if err := json.Unmarshal([]byte(old), r); err != nil {
			return fmt.Errorf("read the record of node groups: %w", err)
		}
		for name, g := range r.Groups {
			forgotten := false
			for _, id := range ids {
				if m, ok := g.Owned[id]; ok {
					delete(g.Owned, id)
					g.Foreign = append(g.Foreign, id)
					r.end(m.UID, time.Now())
					forgotten = true
				}
			}
			if forgotten && len(g.Owned)+len(g.Open) == 0 {
				delete(r.Groups, name)
			}
		}
		text, err := json.Marshal(r)
		if err != nil || string(text) == old {
			return err
		}
		if done, err := records.Swap(ctx, old, string(text)); err != nil || done {
			return err
		}
	}
	return errors.New("write the record of node groups: another process keeps changing it; run the command again")
}

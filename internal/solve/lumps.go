// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// lump is pods that must all share one host: each must be near others of the lump, and there is nobody else whom it might be near. To packings
// and proofs they are one pod, which asks for what they ask for together.
type lump struct {
	members []*class
	one     *class // the pod that they are, numbered behind the classes; see demandOf and asOne
	tied    bool   // others are told apart by who is on a host with them: it is not packed as one
}

// compileLumps finds them: classes with one affinity over hosts, where all that it selects are among them. Pods with one that selects only pods
// of a lump, and not themselves, are part of that.
func (s *solver) compileLumps() {
	near := make([][]*class, len(s.counters)) // by counter: classes with an affinity by it
	by := make([]int, len(s.classes))         // by class: its counter, -1: none
	any := false
	for _, c := range s.classes {
		by[c.id] = -1
		for i := range c.topo.host {
			if r := &c.topo.host[i]; r.kind == ruleAffinity && by[c.id] < 0 { // all its terms select the same pods
				by[c.id], near[r.counter], any = r.counter, append(near[r.counter], c), true
			}
		}
	}
	if !any {
		return
	}
	self, others := make([]bool, len(s.counters)), make([][]*class, len(s.counters)) // whom it selects: those classes, and more
	for _, c := range s.classes {
		for _, id := range c.topo.bumpHost {
			if by[c.id] == id {
				self[id] = true
			} else if len(near[id]) > 0 {
				others[id] = append(others[id], c)
			}
		}
	}
	of := make([]*lump, len(s.counters))
	for again := true; again; {
		again = false
		for id, have := range near {
			if len(have) == 0 || of[id] != nil || s.counters[id].total0 > 0 || self[id] == (len(others[id]) > 0) {
				continue // whoever is near itself and others may begin beside either
			}
			x := &lump{}
			for i, c := range others[id] {
				if by[c.id] < 0 || of[by[c.id]] == nil || i > 0 && of[by[c.id]] != x {
					x = nil
					break
				}
				x = of[by[c.id]]
			}
			if x != nil {
				of[id], again = x, true
			}
		}
	}
	for _, c := range s.classes {
		if by[c.id] < 0 || of[by[c.id]] == nil {
			continue
		}
		c.lump = of[by[c.id]]
		if len(c.lump.members) == 0 {
			s.lumps = append(s.lumps, c.lump)
		}
		c.lump.members = append(c.lump.members, c)
	}
	for i, x := range s.lumps {
		x.one = s.asOne(x, len(s.classes)+i, func(c *class) int64 { return int64(len(c.pods)) })
	}
	s.tieLumps()
}

// tieLumps marks the lumps that are not packed as one: those that some rule between pods concerns beside what makes them lumps.
func (s *solver) tieLumps() {
	readers := make([][]*lump, len(s.counters)) // lumps whose members have an affinity by the counter
	for _, x := range s.lumps {
		for _, c := range x.members {
			x.tied = x.tied || len(c.topo.keys) > 0 || len(c.ports) > 0 || len(c.attach) > 0 || c.apart.most > 0 || c.c.Priority != x.members[0].c.Priority
			for i := range c.topo.host {
				r := &c.topo.host[i]
				if x.tied = x.tied || r.kind != ruleAffinity; r.kind == ruleAffinity {
					readers[r.counter] = append(readers[r.counter], x)
				}
			}
		}
	}
	for _, c := range s.classes {
		for i := range c.topo.host {
			r := &c.topo.host[i]
			for _, x := range readers[r.counter] { // whoever else looks at its pods
				x.tied = x.tied || r.kind != ruleAffinity || c.lump != x
			}
		}
	}
	for _, x := range s.lumps {
		for _, c := range x.members {
			for _, id := range c.topo.bumpHost {
				x.tied = x.tied || !slices.Contains(readers[id], x)
			}
		}
	}
}

// asOne is the pod that so many pods of the members of a lump are.
func (s *solver) asOne(x *lump, id int, pods func(*class) int64) *class {
	out := &class{id: id, of: x}
	for _, c := range x.members {
		n := pods(c)
		for k := range s.nd {
			out.req[k] += c.req[k] * n
		}
		switch {
		case n == 0:
		case out.filter == nil:
			out.filter = c.filter
		case out.filter != c.filter: // rooms are asked what the first of them may go to
			f := *out.filter
			f.verdicts, f.mask = nil, s.and(f.mask, c.filter.mask)
			out.filter = &f
		}
	}
	out.mask = out.filter.mask
	return out
}

// whole says whether nothing of a lump is placed and all of it can be.
func (s *solver) whole(x *lump) bool {
	for _, c := range x.members {
		if c.taken > 0 || s.wanted(c) < len(c.pods) {
			return false
		}
	}
	return true
}

// lumpOnRoom puts a lump, of which the class may be the first, on a room that has the resources and labels for all of it.
func (s *solver) lumpOnRoom(x *lump, first *class) {
	for room := range s.rooms.in {
		if s.roomTakes(first, room) == 0 || !fitsSlice(&x.one.req, s.rooms.free[room*s.nd:room*s.nd+s.nd]) ||
			slices.ContainsFunc(x.members, func(c *class) bool { return !s.admits(c.filter, room) }) {
			continue
		}
		for _, c := range x.members {
			s.putOnRoom(c, room, int64(len(c.pods)))
		}
		return
	}
}

// takeLumps makes lumps demands of one pod each, where some machine holds them: they share machines with whatever else is packed. It says
// whether there were any.
func (s *solver) takeLumps() (any bool) {
	for _, x := range s.lumps {
		if x.tied || !s.whole(x) {
			continue
		}
		d := s.demandOf(x)
		if !s.holds(d.mask, &d.c.req) {
			continue
		}
		any = true
		s.demands = append(s.demands, d)
		for _, c := range x.members {
			c.taken = len(c.pods)
			for _, id := range c.topo.bumpHost {
				s.counters[id].promised += int64(len(c.pods))
			}
		}
	}
	return any
}

// demandOf is the demand of a lump: one pod, for offers that all members may go to.
func (s *solver) demandOf(x *lump) *demand {
	one := x.one
	one.mask = x.members[0].mask
	wish := s.wished(x.members[0], one.mask)
	for _, c := range x.members[1:] {
		one.mask, wish = s.and(one.mask, c.mask), s.and(wish, s.wished(c, c.mask))
	}
	if one.c == nil {
		one.c = &model.Class{Key: "lump", Priority: x.members[0].c.Priority}
		for _, c := range x.members {
			one.c.Key += "\x00" + c.c.Key
		}
	}
	d := &demand{c: one, mask: one.mask, n: 1, asked: 1}
	if wish != one.mask && s.holds(wish, &one.req) {
		d.mask, d.full = wish, one.mask
	}
	return d
}

// untake has pods of a demand wait again.
func (d *demand) untake(n int64) {
	if d.c.of == nil {
		d.c.taken -= int(n)
		return
	}
	for _, c := range d.c.of.members {
		c.taken = 0
	}
}

// addTo puts n pods of a demand on a bin.
func (d *demand) addTo(b *bin, n int64, nd int) {
	if d.c.of == nil {
		b.add(d.c, d.mask, n, nd)
		return
	}
	for _, c := range d.c.of.members {
		b.add(c, d.mask, int64(len(c.pods))*n, nd)
	}
}

// priced are the classes as a bound counts them: what is placed of a lump is one pod, however it was placed.
func (s *solver) priced() []*class {
	if len(s.lumps) == 0 {
		return s.classes
	}
	var out []*class
	for _, c := range s.classes {
		if c.lump == nil {
			out = append(out, c)
		}
	}
	for i, x := range s.lumps {
		taken, all := 0, true
		for _, c := range x.members {
			taken, all = taken+c.taken, all && c.taken == len(c.pods)
		}
		if taken == 0 {
			continue
		}
		one := x.one
		if !all { // not the pod whose worth may be known
			one = s.asOne(x, len(s.classes)+len(s.lumps)+i, func(c *class) int64 { return int64(c.taken) })
		}
		one.taken, one.mask = 1, one.filter.mask
		out = append(out, one)
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// rooms are the machines that stand or come. They are numbered in the order they are filled: standing before in flight (what stands
// can be used now), then by name. What costs more than a look is computed when a room is first considered.
type rooms struct {
	in     []*Room
	free   []int64 // nd numbers a room
	shape  []int32
	vals   [][]int32 // by shape
	of     []int32   // by shape: a room that has it
	settle []bool    // DaemonSets still to come are charged
	guests []guests  // ports and volumes in use, by room; nil until somebody asks

	anti      []*model.Class
	antiKnown bool
}

// openValue stands for a label that a claim in flight will have, with a value not certain yet.
const openValue = int32(-1)

// guests is what pods on a node keep others from: ports and attached volumes.
type guests struct {
	known   bool
	ports   []model.HostPort
	handles map[string]map[string]bool // by driver
}

// inOrder lists rooms in the order they are filled.
func inOrder(rooms []Room) []*Room {
	out := make([]*Room, len(rooms))
	for i := range rooms {
		out[i] = &rooms[i]
	}
	order := func(a, b *Room) int {
		switch {
		case a.InFlight == b.InFlight:
			return strings.Compare(a.Name, b.Name)
		case b.InFlight:
			return -1
		}
		return 1
	}
	if !slices.IsSortedFunc(out, order) {
		slices.SortFunc(out, order)
	}
	return out
}

// compileRooms projects free room and groups rooms into shapes: labels that anybody looks at, taints, and for a claim in flight
// what is still open. A class is held against a shape once.
func (s *solver) compileRooms(mem Memory) {
	r := &s.rooms
	n := len(s.in.Rooms)
	if n > 0 && len(mem.rooms) == n && &mem.rooms[0] == &s.in.Rooms[0] {
		r.in = mem.inOrder
	} else {
		r.in = inOrder(s.in.Rooms)
	}
	s.slots = n
	r.free, r.shape, r.settle = make([]int64, n*s.nd), make([]int32, n), make([]bool, n)
	for i, x := range r.in {
		for k, d := range s.dims {
			r.free[i*s.nd+k] = x.Free.At(d)
		}
		s.addCliques(r.free[i*s.nd : i*s.nd+s.nd])
	}
	shapes := map[string]int32{}
	var key []byte
	vals := make([]int32, len(s.keys.names))
	for i, x := range r.in {
		key = key[:0]
		for k, name := range s.keys.names {
			vals[k] = 0
			if v, ok := x.Labels[name]; ok {
				vals[k] = s.keys.value(k, v)
			}
			if x.Open.Get(name) != nil {
				vals[k] = openValue
			}
			key = binary.LittleEndian.AppendUint32(key, uint32(vals[k]))
		}
		for _, t := range x.Taints {
			key = append(key, t.Key...)
			key = append(append(key, '='), t.Value...)
			key = append(append(append(key, ':'), t.Effect...), 0)
		}
		if len(x.Open) > 0 {
			key = append(key, x.Open.Key()...)
		}
		id, ok := shapes[string(key)]
		if !ok {
			id = int32(len(r.vals))
			shapes[string(key)] = id
			r.vals = append(r.vals, slices.Clone(vals))
			r.of = append(r.of, int32(i))
		}
		r.shape[i] = id
	}
	s.compileExclusive()
}

// admits says whether the room's labels and taints let the class on.
func (s *solver) admits(f *filter, room int) bool {
	r := &s.rooms
	if f.named {
		return s.admitsShape(f, room)
	}
	shape := r.shape[room]
	for int(shape) >= len(f.verdicts) {
		f.verdicts = append(f.verdicts, make([]int8, len(r.vals)-len(f.verdicts))...)
	}
	if f.verdicts[shape] == 0 {
		f.verdicts[shape] = 2
		if s.admitsShape(f, room) {
			f.verdicts[shape] = 1
		}
	}
	return f.verdicts[shape] == 1
}

func (s *solver) admitsShape(f *filter, room int) bool {
	x := s.rooms.in[room]
	return model.Untolerated(x.Taints, f.tolerations) == nil &&
		f.passes(&s.keys, s.rooms.vals[s.rooms.shape[room]], x.Open, x.Name)
}

// roomFits is how many pods of the class the free resources hold, DaemonSets still to come counted.
func (s *solver) roomFits(c *class, room int) int64 {
	free := s.rooms.free[room*s.nd : room*s.nd+s.nd]
	if !fitsSlice(&c.req, free) {
		return 0
	}
	if !s.rooms.settle[room] {
		s.settleRoom(room)
		if !fitsSlice(&c.req, free) {
			return 0
		}
	}
	n := unlimited
	for k, v := range free {
		if q := c.req[k]; q > 0 {
			n = min(n, v/q)
		}
	}
	return n
}

func fitsSlice(req *vec, free []int64) bool {
	for k, v := range free {
		if req[k] > v && req[k] > 0 {
			return false
		}
	}
	return true
}

// settleRoom charges the DaemonSets whose pod is not on the room yet but will be. One that no longer fits will not come, and takes
// nothing.
func (s *solver) settleRoom(room int) {
	if s.rooms.settle[room] {
		return
	}
	s.rooms.settle[room] = true
	if len(s.daemons) == 0 {
		return
	}
	free := s.rooms.free[room*s.nd : room*s.nd+s.nd]
	x := s.rooms.in[room]
	for _, d := range s.daemons {
		if s.admits(d.filter, room) && !hasDaemon(x, d.in) && fitsSlice(&d.req, free) {
			for k := range free {
				free[k] -= d.req[k]
			}
		}
	}
}

func hasDaemon(x *Room, d *model.Daemon) bool {
	for _, p := range x.Pods {
		if p.Owner.Kind == "DaemonSet" && p.Owner.Name == d.Name && p.Namespace == d.Namespace {
			return true
		}
	}
	return false
}

// guestsOf is what the room's pods hold in ports and volumes; the DaemonSets still to come hold their ports too.
func (s *solver) guestsOf(room int) *guests {
	r := &s.rooms
	if r.guests == nil {
		r.guests = make([]guests, len(r.in))
	}
	g := &r.guests[room]
	if g.known {
		return g
	}
	g.known = true
	for _, p := range r.in[room].Pods {
		g.add(p.Class)
	}
	for _, d := range s.daemons {
		if s.admits(d.filter, room) && !hasDaemon(r.in[room], d.in) {
			g.ports = append(g.ports, d.in.Class.HostPorts...)
		}
	}
	return g
}

func (g *guests) add(c *model.Class) {
	g.ports = append(g.ports, c.HostPorts...)
	for _, v := range c.Volumes {
		if v.Driver == "" {
			continue
		}
		if g.handles == nil {
			g.handles = map[string]map[string]bool{}
		}
		if g.handles[v.Driver] == nil {
			g.handles[v.Driver] = map[string]bool{}
		}
		g.handles[v.Driver][v.Handle] = true
	}
}

// portsFit is how many pods with these ports may join: none, one, or any number when they have no ports.
func portsFit(c *class, taken []model.HostPort) int64 {
	if len(c.ports) == 0 {
		return unlimited
	}
	for _, p := range c.ports {
		for _, o := range taken {
			if p.Conflicts(o) {
				return 0
			}
		}
	}
	return 1
}

// attachFit says whether the volumes of a pod may be attached beside those already there. A volume attached twice counts once.
func attachFit(c *class, handles map[string]map[string]bool, limits map[string]int64) (string, bool) {
	for i, v := range c.attach {
		limit, ok := limits[v.Driver]
		if !ok || slices.ContainsFunc(c.attach[:i], func(u model.Volume) bool { return u.Driver == v.Driver }) {
			continue // no limit known, or this driver is done
		}
		added := map[string]bool{}
		for _, w := range c.attach[i:] {
			if w.Driver == v.Driver && !handles[w.Driver][w.Handle] {
				added[w.Handle] = true
			}
		}
		if len(added) > 0 && int64(len(handles[v.Driver])+len(added)) > limit {
			return v.Driver, false
		}
	}
	return "", true
}

// compileExclusive collects the volumes that one pod alone may use and that one does use.
func (s *solver) compileExclusive() {
	wanted := false
	for _, c := range s.classes {
		for _, v := range c.c.Volumes {
			wanted = wanted || v.Exclusive
		}
	}
	if !wanted {
		return
	}
	s.excluded = map[string]bool{}
	for _, x := range s.rooms.in {
		if x.Drained {
			continue
		}
		for _, p := range x.Pods {
			for _, v := range p.Class.Volumes {
				if v.Exclusive {
					s.excluded[volumeID(&v)] = true
				}
			}
		}
	}
}

func volumeID(v *model.Volume) string { return cmp.Or(v.Handle, v.Claim) }

// roomTakes is how many pods of the class may be put on the room now as far as the node itself is concerned: labels, taints,
// resources, ports, volumes, and what pods on it tell each other. Domains larger than a node are the caller's.
func (s *solver) roomTakes(c *class, room int) int64 {
	x := s.rooms.in[room]
	if x.Closed || x.Drained {
		return 0
	}
	n := s.roomFits(c, room)
	if n == 0 || !s.admits(c.filter, room) {
		return 0
	}
	if len(c.topo.host) > 0 {
		n = min(n, s.hostAllows(c, room))
	}
	if n > 0 && len(c.ports) > 0 {
		n = min(n, portsFit(c, s.guestsOf(room).ports))
	}
	if n > 0 && len(c.attach) > 0 {
		if _, ok := attachFit(c, s.guestsOf(room).handles, x.CSILimits); !ok {
			return 0
		}
	}
	return n
}

// putOnRoom books n pods.
func (s *solver) putOnRoom(c *class, room int, n int64) {
	free := s.rooms.free[room*s.nd : room*s.nd+s.nd]
	for k := range free {
		free[k] -= c.req[k] * n
	}
	c.taken += int(n)
	s.placed = append(s.placed, placement{class: c.id, room: room, n: int(n)})
	if len(c.ports) > 0 || len(c.attach) > 0 {
		s.guestsOf(room).add(c.c)
	}
	s.bumpHost(c, room, n)
	if len(c.topo.keys) > 0 {
		s.bumpWide(c, s.rooms.vals[s.rooms.shape[room]], s.roomScopes(c, room), n)
	}
	s.takeExclusive(c)
}

func (s *solver) takeExclusive(c *class) {
	for i := range c.c.Volumes {
		if c.c.Volumes[i].Exclusive && s.excluded != nil {
			s.excluded[volumeID(&c.c.Volumes[i])] = true
		}
	}
}

// exclusive returns the first volume of the class that another pod already has for itself.
func (s *solver) exclusive(c *class) *model.Volume {
	for i := range c.c.Volumes {
		if v := &c.c.Volumes[i]; v.Exclusive && s.excluded[volumeID(v)] {
			return v
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PortUse is the set of host ports that a pod uses, as bits numbered by portTable: the ports that it takes, and those
// that must not be taken by other pods. It is sparse, since a pod uses few ports.
type PortUse struct {
	takes, conflicts []portWord // by place, ascending
}

// portWord is 64 bits of a bitmap.
type portWord struct {
	at   int32 // its place
	bits uint64
}

// IsEmpty reports whether no port is used.
func (u *PortUse) IsEmpty() bool { return len(u.takes) == 0 }

// ConflictsWith reports whether pods with these uses cannot share a node.
func (u *PortUse) ConflictsWith(o *PortUse) bool {
	for i, j := 0, 0; i < len(u.conflicts) && j < len(o.takes); {
		switch a, b := &u.conflicts[i], &o.takes[j]; {
		case a.at < b.at:
			i++
		case a.at > b.at:
			j++
		case a.bits&b.bits != 0:
			return true
		default:
			i, j = i+1, j+1
		}
	}
	return false
}

// TakenPorts is a bitmap of the host ports taken on one node.
type TakenPorts []uint64

// Refuse reports whether a use conflicts with the taken ports.
func (t TakenPorts) Refuse(u *PortUse) bool {
	for i := range u.conflicts {
		if w := &u.conflicts[i]; int(w.at) < len(t) && t[w.at]&w.bits != 0 {
			return true
		}
	}
	return false
}

// Take adds the ports of a use in place. It returns the bitmap, which may have grown.
func (t TakenPorts) Take(u *PortUse) TakenPorts {
	if n := len(u.takes); n > 0 {
		for int(u.takes[n-1].at) >= len(t) {
			t = append(t, 0)
		}
	}
	for _, w := range u.takes {
		t[w.at] |= w.bits
	}
	return t
}

// portKey is a port of a protocol, of any address or of one, or a disk.
type portKey struct {
	protocol, ip string
	port         int32
	disk         string
}

// keyOf returns the key of a port on an address, or of a disk.
func keyOf(p *model.HostPort, ip string) portKey { return portKey{p.Protocol, ip, p.Port, p.Disk} }

// portTable numbers the host ports that classes of the demand and DaemonSets use; others are in nobody's way. A port
// has one bit, which whoever uses it takes. Where some use it on one address alone, it has a bit more for each such
// address, and one for every address at once. Whoever only reads from a disk uses it as a port on an address that nobody else has.
type portTable struct {
	ids map[portKey]int32
}

// everyAddress stands in a portKey for a use of every address at once.
const everyAddress = "*"

// isWhole reports whether all of a port or disk is used: a port on every address of the node, a disk to write to it.
func isWhole(p *model.HostPort) bool {
	if p.Disk != "" {
		return !p.ReadOnly
	}
	return p.IP == "" || p.IP == "0.0.0.0" || p.IP == "::"
}

// useOf returns the PortUse of a list of ports; ports without a number are omitted.
func (t *portTable) useOf(list []model.HostPort) (u PortUse) {
	if len(list) == 0 {
		return u
	}
	var takes, conflicts []int32
	for i := range list {
		p := &list[i]
		any, ok := t.ids[keyOf(p, "")]
		if !ok {
			continue
		}
		takes = append(takes, any)
		every, shared := t.ids[keyOf(p, everyAddress)]
		if isWhole(p) {
			conflicts = append(conflicts, any)
			if shared {
				takes = append(takes, every)
			}
			continue
		}
		if shared {
			conflicts = append(conflicts, every)
		}
		if own, ok := t.ids[keyOf(p, p.IP)]; ok && p.Disk == "" {
			takes, conflicts = append(takes, own), append(conflicts, own)
		}
	}
	return PortUse{portWords(takes), portWords(conflicts)}
}

// portWords is a list of bits as words.
func portWords(ids []int32) (out []portWord) {
	slices.Sort(ids)
	for _, id := range ids {
		if n := len(out); n == 0 || out[n-1].at != id>>6 {
			out = append(out, portWord{at: id >> 6})
		}
		out[len(out)-1].bits |= 1 << (id & 63)
	}
	return slices.Clip(out)
}

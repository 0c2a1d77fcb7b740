// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Two kinds of launches are made for no pod: those of NodePools with a fixed number of nodes, and those for CapacityBuffers
// alone. Such a launch is of use once its node has been usable for CapacityUse. It is unused if it ends before that without
// Dovetail having removed it, or, for a CapacityBuffer, if the node keeps the buffer's pods away. It is counted like a launch
// for pods as soon as a node is wanted for the same NodePool or CapacityBuffer again.

// CapacityUse is how long a node that was launched for no pod must have been usable to have been of use.
const CapacityUse = 5 * time.Minute

// staticClass stands for a class of pods in the slots of launches of NodePools with a fixed number of nodes.
const staticClass = "static"

// bufferOwner stands for the owner of pods in the slots of launches for a CapacityBuffer.
func bufferOwner(key string) string { return "capacitybuffer/" + key }

// openCapacity is a launch for no pod whose outcome is open.
type openCapacity struct {
	claim *model.Claim
	keys  []cluster.SlotKey // the NodePool or the CapacityBuffers that it was made for
}

// LaunchSlots returns what a NodeClaim is launched for: the slots of its pods, or those that stand for the NodePool with a
// fixed number of nodes or the CapacityBuffers.
func LaunchSlots(a plan.CreateClaim) []model.Slot {
	var keys []cluster.SlotKey
	switch {
	case len(a.Slots) > 0:
		return a.Slots
	case a.NoReserve.Code == plan.Static:
		keys = []cluster.SlotKey{{Class: staticClass, Owner: a.Pool.UID}}
	case a.NoReserve.Code == plan.HeldForBuffer:
		for _, p := range a.Pods {
			keys = append(keys, cluster.SlotKey{Class: templateName(p.Class), Owner: bufferOwner(p.Buffer)})
		}
	}
	var out []model.Slot
	for i, k := range keys {
		if !slices.Contains(keys[:i], k) {
			out = append(out, model.Slot{Class: k.Class, Owner: k.Owner})
		}
	}
	return out
}

// keyOf is what launches for a pod are remembered by: its kind of slot, or its class and CapacityBuffer.
func (ul *Launches) keyOf(p *model.Pod) cluster.SlotKey {
	if p.IsVirtual() {
		return cluster.SlotKey{Class: templateName(p.Class), Owner: bufferOwner(p.Buffer)}
	}
	return ul.SlotKeyOf(p)
}

// templateOfKey is the template that launches for no pod are counted by.
func templateOfKey(k cluster.SlotKey) string {
	if k.Class == staticClass {
		return staticClass + "/" + k.Owner
	}
	return k.Class
}

// capacityKeys returns what a claim was launched for if that is no pods; empty: it was launched for pods.
func (ul *Launches) capacityKeys(c *model.Claim) []cluster.SlotKey {
	p := ul.Pool(c.Pool)
	switch {
	case p == nil || len(c.Slots) > 0 || ul.in.IsForeign(c) || c.Annotations[model.AnnotationAdopt] != "":
		return nil
	case p.Replicas >= 0:
		return []cluster.SlotKey{{Class: staticClass, Owner: p.UID}}
	case cluster.IsForBuffer(c) && len(ul.in.Held[c.Name]) > 0:
		return ul.in.Held[c.Name]
	case cluster.IsForBuffer(c):
		return ul.mem.capacity[c.UID].keys
	}
	return nil
}

// KeyOfBuffer returns what launches for a CapacityBuffer are remembered by. Its Like is not nil.
func KeyOfBuffer(b *model.Buffer) cluster.SlotKey {
	return cluster.SlotKey{Class: templateName(b.Like.Class), Owner: bufferOwner(b.Key())}
}

// readCapacity follows the launches for no pod, and returns those that have ended unused.
func (ul *Launches) readCapacity(known map[string]bool) (ended []Ended) {
	open := map[string]openCapacity{}
	for _, c := range ul.Snapshot.Claims {
		keys := ul.capacityKeys(c)
		if len(keys) == 0 || known[c.UID] || ul.mem.scaledDown[c.UID] {
			continue
		}
		if c.UID == "" {
			ul.capacity = append(ul.capacity, openCapacity{c, keys})
			continue
		}
		was, remembered := ul.mem.capacity[c.UID]
		interrupted := ul.Interruptions[c.Name] != nil
		switch {
		case ul.isOfUse(c) || ul.in.Commands.Of(c) != "": // else a disruption command removes it
		case !c.Deleting.IsZero() || interrupted || ul.keepsBufferAway(c, keys):
			if remembered {
				keys = was.keys
			}
			if remembered || !ul.mem.Begun && !c.Is(lifecycle.Initialized) {
				ended = append(ended, ul.endCapacity(c, keys)...)
			}
		default:
			open[c.UID] = openCapacity{c, keys}
			ul.capacity = append(ul.capacity, open[c.UID])
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(ul.mem.capacity)) {
		if x := ul.mem.capacity[uid]; ul.ClaimWithUID(uid) == nil && !known[uid] && !ul.mem.scaledDown[uid] { // it is gone, without having been seen to go
			ended = append(ended, ul.endCapacity(x.claim, x.keys)...)
		}
	}
	for uid := range ul.mem.scaledDown {
		if ul.ClaimWithUID(uid) == nil {
			ul.forgetScaledDown()
			break
		}
	}
	ul.mem.capacity = open
	return ended
}

// endCapacity returns what is to be remembered of a launch for no pod that has ended unused.
func (ul *Launches) endCapacity(c *model.Claim, keys []cluster.SlotKey) (out []Ended) {
	x, ok := ul.newEnded(c)
	for _, k := range keys {
		if ok {
			x.Class, x.Owner = k.Class, k.Owner
			out = append(out, x)
		}
	}
	return out
}

// isOfUse reports whether a launch for no pod has been of use: its node has been usable for a while, or pods run on it.
func (ul *Launches) isOfUse(c *model.Claim) bool {
	if n := ul.NodeFor(c); n != nil && ul.Pool(c.Pool).Replicas < 0 && slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload) {
		return true
	}
	end := ul.Now
	if !c.Deleting.IsZero() {
		end = c.Deleting
	}
	init := c.Conditions[lifecycle.Initialized]
	return init.True() && !end.Before(init.Since.Add(CapacityUse)) && !ul.keepsBufferAway(c, ul.mem.capacity[c.UID].keys)
}

// keepsBufferAway reports whether the node of a claim, launched for CapacityBuffers, is ready for pods and none of the
// buffers' pods may run on it.
func (ul *Launches) keepsBufferAway(c *model.Claim, keys []cluster.SlotKey) bool {
	n := ul.NodeFor(c)
	if n == nil || !cluster.IsForBuffer(c) || !c.Is(lifecycle.Initialized) || len(keys) == 0 {
		return false
	}
	for _, b := range ul.Snapshot.Buffers {
		if b.Like == nil || !slices.Contains(keys, KeyOfBuffer(b)) {
			continue
		}
		if model.Untolerated(n.Taints, b.Like.Class.Tolerations) == nil {
			return false
		}
	}
	return true
}

// MarkScaledDown notes that a NodePool with a fixed number of nodes removes a claim that it has too many.
func (ul *Launches) MarkScaledDown(uid string) {
	ul.forgetScaledDown()
	ul.mem.scaledDown[uid] = true
}

// forgetScaledDown copies that without the claims that are gone.
func (ul *Launches) forgetScaledDown() {
	next := map[string]bool{}
	for uid := range ul.mem.scaledDown {
		if ul.ClaimWithUID(uid) != nil {
			next[uid] = true
		}
	}
	ul.mem.scaledDown = next
}

// takeBackCapacity notes the sites whose launches for no pod have been of use since they were counted, and by claim uid what
// such launches were made for.
func (ul *Launches) takeBackCapacity(served map[launchSite]bool, launched map[string]map[cluster.SlotKey]bool) {
	for _, c := range ul.Snapshot.Claims {
		keys := ul.capacityKeys(c)
		if len(keys) == 0 || c.UID == "" || !c.Deleting.IsZero() || !ul.isOfUse(c) {
			continue
		}
		init, p := c.Conditions[lifecycle.Initialized], ul.Pool(c.Pool)
		for _, k := range keys {
			if launched[c.UID] == nil {
				launched[c.UID] = map[cluster.SlotKey]bool{}
			}
			launched[c.UID][k] = true
			t := templateOfKey(k)
			for _, at := range []launchSite{{t, p.UID, c.NodeGroup()}, {template: t}} {
				if x, ok := ul.mem.counts[at]; ok && (!init.Since.Before(x.At.Add(-time.Second)) || x.Node == c.NodeName) {
					served[at] = true
				}
			}
		}
	}
}

// StaticAllowance returns how many nodes may be launched now for a NodePool with a fixed number of them; negative: any
// number. Launches of it that ended unused are counted first: it wants a node again.
func (ul *Launches) StaticAllowance(p *model.NodePool) int {
	k := cluster.SlotKey{Class: staticClass, Owner: p.UID}
	t := templateOfKey(k)
	for at := range ul.mem.ended {
		if x := &ul.mem.ended[at]; !x.Counted && x.key() == k {
			ul.count(at, beneficiary{template: t, name: "the NodePool's own number of nodes (spec.replicas)"}, plan.Reason{})
		}
	}
	most := -1
	for _, at := range ul.sortedSites() {
		if at.template != t {
			continue
		}
		b, _, until := ul.verdict(at)
		if b == barred {
			ul.out.WakeAt(until)
			return 0
		}
		most = 1
	}
	return most
}

// nameOfBuffer names the CapacityBuffer of a virtual pod, for people.
func nameOfBuffer(p *model.Pod) string { return "CapacityBuffer " + strings.TrimPrefix(p.Buffer, "/") }

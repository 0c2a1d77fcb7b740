// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Three kinds of launches are made for no pod: those of NodePools with a fixed number of nodes, those for CapacityBuffers
// alone, and those of NodeClaims that somebody else creates. Such a launch is of use once its node has been usable for CapacityUse. It is unused if it ends before that without
// Dovetail having removed it (a NodeClaim of others: whoever removed it), or, for a CapacityBuffer, if the node keeps the buffer's pods away. It is counted like a launch
// for pods as soon as a node is wanted for the same NodePool, CapacityBuffer or maker of NodeClaims again.

// CapacityUse is how long a node launched for no pod must have been usable to count as used.
const CapacityUse = 5 * time.Minute

// openCapacity is a launch for no pod whose outcome is open.
type openCapacity struct {
	claim *model.Claim
	keys  []cluster.SlotKey // the NodePool, the CapacityBuffers or the maker that it was made for
}

// capacityReader tells what has become of launches for no pod.
type capacityReader struct {
	*reader
	was map[string]openCapacity // by claim uid: those whose outcome was open after the last step
}

// keysOf returns what a claim was launched for if that is no pods; empty: it was launched for pods.
func (cr *capacityReader) keysOf(c *model.Claim) []cluster.SlotKey {
	p := cr.Pool(c.Pool)
	switch {
	case p == nil || len(c.Slots) > 0 || cr.IsForeign(c) || c.Annotations[model.AnnotationAdopt] != "":
		return nil
	case p.Replicas >= 0:
		return []cluster.SlotKey{{Class: staticClass, Owner: p.UID}}
	case cluster.IsForBuffer(c) && len(cr.Held[c.Name]) > 0:
		return cr.Held[c.Name]
	case cluster.IsForBuffer(c):
		return cr.was[c.UID].keys
	case c.Maker != "":
		return []cluster.SlotKey{keyOfMaker(c)}
	}
	return nil
}

// read returns the launches for no pod whose outcome is open, those among them that are not made yet, and those that have ended
// unused. Known are the claims, by uid, whose launches are known to have ended, scaledDown those that a NodePool has removed
// because it had too many; begun: launches of this process are in was.
func (cr *capacityReader) read(known, scaledDown map[string]bool, begun bool) (open []openCapacity, ended []Ended) {
	for _, c := range cr.Snapshot.Claims {
		keys := cr.keysOf(c)
		if len(keys) == 0 || known[c.UID] || scaledDown[c.UID] {
			continue
		}
		if c.UID == "" {
			open = append(open, openCapacity{c, keys})
			continue
		}
		was, remembered := cr.was[c.UID]
		interrupted := cr.Interruptions[c.Name] != nil
		switch {
		case cr.isOfUse(c) || cr.Commands.Of(c) != "" && c.Maker == "": // else a disruption command removes it
		case !c.Deleting.IsZero() || interrupted || cr.keepsBufferAway(c, keys):
			if remembered {
				keys = was.keys
			}
			if remembered || !begun && !c.Is(lifecycle.Initialized) {
				ended = append(ended, cr.endCapacity(c, keys)...)
			}
		default:
			open = append(open, openCapacity{c, keys})
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(cr.was)) {
		if x := cr.was[uid]; cr.ClaimWithUID(uid) == nil && !known[uid] && !scaledDown[uid] { // it is gone, without having been seen to go
			ended = append(ended, cr.endCapacity(x.claim, x.keys)...)
		}
	}
	return open, ended
}

// isOfUse reports whether a launch for no pod has been of use: its node has been usable for a while, or pods run on it.
func (cr *capacityReader) isOfUse(c *model.Claim) bool {
	if n := cr.NodeFor(c); n != nil && cr.Pool(c.Pool).Replicas < 0 && slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload) {
		return true
	}
	end := cr.Now
	if !c.Deleting.IsZero() {
		end = c.Deleting
	}
	init := c.Conditions[lifecycle.Initialized]
	return init.True() && !end.Before(init.Since.Add(CapacityUse)) && !cr.keepsBufferAway(c, cr.was[c.UID].keys)
}

// keepsBufferAway reports whether the node of a claim, launched for CapacityBuffers, is ready for pods and none of the
// buffers' pods may run on it. One that is rebooted, or reserved for pods of a ProvisioningRequest, keeps them away only for a while.
func (cr *capacityReader) keepsBufferAway(c *model.Claim, keys []cluster.SlotKey) bool {
	n := cr.NodeFor(c)
	if n == nil || lifecycle.IsRebooting(c) || cluster.HasReservedTaint(n, c) || !cluster.IsForBuffer(c) || !c.Is(lifecycle.Initialized) || len(keys) == 0 {
		return false
	}
	for _, b := range cr.Snapshot.Buffers {
		if b.Like == nil || !slices.Contains(keys, KeyOfBuffer(b)) {
			continue
		}
		if model.Untolerated(n.Taints, b.Like.Class.Tolerations) == nil {
			return false
		}
	}
	return true
}

// takeBack notes the sites whose launches for no pod have been of use since they were counted, and by claim uid what
// such launches were made for, of the watched claims (claimsWatched).
func (cr *capacityReader) takeBack(counts *siteCounts, watched map[string]bool, served map[launchSite]bool, launched map[string]map[cluster.SlotKey]bool) {
	templates := map[string]bool{}
	for k := range counts.bySite {
		templates[k.template] = true
	}
	counted := func(k cluster.SlotKey) bool { return templates[templateOfKey(k)] }
	for _, c := range cr.Snapshot.Claims {
		keys := cr.keysOf(c)
		if len(keys) == 0 || c.UID == "" || !c.Deleting.IsZero() || !watched[c.UID] && !slices.ContainsFunc(keys, counted) || !cr.isOfUse(c) {
			continue
		}
		init, p := c.Conditions[lifecycle.Initialized], cr.Pool(c.Pool)
		for _, k := range keys {
			if launched[c.UID] == nil {
				launched[c.UID] = map[cluster.SlotKey]bool{}
			}
			launched[c.UID][k] = true
			t := templateOfKey(k)
			for _, at := range []launchSite{{t, p.UID, c.NodeGroup()}, {template: t}} {
				if x, ok := counts.bySite[at]; ok && (!init.Since.Before(x.At.Add(-time.Second)) || x.Node == c.NodeName) {
					served[at] = true
				}
			}
		}
	}
}

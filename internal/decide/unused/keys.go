// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// templateNames are the names of the templates that pods of classes are made from, as far as they were asked for.
type templateNames map[*model.Class]string

// of names the template that pods of a class are made from.
func (ts templateNames) of(c *model.Class) string {
	t, ok := ts[c]
	if !ok {
		t = templateName(c)
		ts[c] = t
	}
	return t
}

// templateName names the template that pods of a class are made from.
func templateName(c *model.Class) string {
	if c.TemplateKey != "" {
		return cluster.HashName(13, c.TemplateKey)
	}
	return cluster.ClassHash(c)
}

// staticClass stands for a class of pods in the slots of launches of NodePools with a fixed number of nodes.
const staticClass = "static"

// madeClass stands for a class of pods in the slots of launches of NodeClaims that somebody else creates.
const madeClass = "made"

// bufferOwner stands for the owner of pods in the slots of launches for a CapacityBuffer.
func bufferOwner(key string) string { return "capacitybuffer/" + key }

// LaunchSlots returns the slots of a NodeClaim's launch: those of its pods, or those that represent the NodePool with a fixed
// number of nodes or the CapacityBuffers.
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
func keyOf(v *cluster.View, p *model.Pod) cluster.SlotKey {
	if p.IsVirtual() {
		return cluster.SlotKey{Class: templateName(p.Class), Owner: bufferOwner(p.Buffer)}
	}
	return v.SlotKeyOf(p)
}

// templateOfKey is the template that launches for no pod are counted by.
func templateOfKey(k cluster.SlotKey) string {
	if k.Class == staticClass || k.Class == madeClass {
		return k.Class + "/" + k.Owner
	}
	return k.Class
}

// keyOfMaker is what launches of NodeClaims that somebody else creates are remembered by.
func keyOfMaker(c *model.Claim) cluster.SlotKey {
	return cluster.SlotKey{Class: madeClass, Owner: c.Maker}
}

// KeyOfBuffer returns the key of launches for a CapacityBuffer. Its Like is not nil.
func KeyOfBuffer(b *model.Buffer) cluster.SlotKey {
	return cluster.SlotKey{Class: templateName(b.Like.Class), Owner: bufferOwner(b.Key())}
}

// nameOfBuffer names the CapacityBuffer of a virtual pod, for people.
func nameOfBuffer(p *model.Pod) string { return "CapacityBuffer " + strings.TrimPrefix(p.Buffer, "/") }

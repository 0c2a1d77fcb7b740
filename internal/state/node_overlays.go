// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"reflect"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/nodeoverlay"
)

// NodeOverlay is a NodeOverlay and what became of it.
type NodeOverlay struct {
	nodeoverlay.Overlay
	Verdict nodeoverlay.Verdict
}

// offeredTypes are the types that a pool is offered, as its provider has them.
type offeredTypes struct {
	uid   string // of the pool
	types []*model.InstanceType
}

// NodeOverlayObject names a NodeOverlay for InFlight.
func NodeOverlayObject(name string) Object { return Object("overlay/" + name) }

// SetNodeOverlay adds or changes a NodeOverlay.
func (t *Pools) SetNodeOverlay(o nodeoverlay.Overlay) {
	old := t.overlays.rows[o.Name]
	next := &NodeOverlay{Overlay: o}
	if old != nil {
		next.Verdict = old.Verdict
	}
	t.overlays.set(o.Name, next)
	if old == nil || !old.Equal(&o) {
		t.applyOverlays()
	}
	t.inFlight.observeVersion(NodeOverlayObject(o.Name), o.Version)
}

// DeleteNodeOverlay forgets a NodeOverlay by name.
func (t *Pools) DeleteNodeOverlay(name string) {
	t.overlays.delete(name)
	t.applyOverlays()
	t.inFlight.forgetObject(NodeOverlayObject(name))
}

// ListNodeOverlays returns all NodeOverlays by name. The list must not be changed.
func (t *Pools) ListNodeOverlays() []*NodeOverlay { return t.overlays.list() }

// OfferedTypes returns the types that a pool is offered as its provider has them, before NodeOverlays; nil where they
// are not known. The list must not be changed.
func (t *Pools) OfferedTypes(name string) []*model.InstanceType {
	if p := t.FindPool(name); p != nil && t.offered[name].uid == p.UID {
		return t.offered[name].types
	}
	return nil
}

// applyOverlays lays all NodeOverlays over the types of all pools. This is the only place where that is done: whoever
// reads a pool's types reads them with overlays applied. A pool whose types come out as they were keeps the same list.
func (t *Pools) applyOverlays() {
	var pools []nodeoverlay.Pool
	for _, p := range t.ListPools() {
		if types := t.OfferedTypes(p.Name); types != nil {
			pools = append(pools, nodeoverlay.Pool{Name: p.Name, Labels: p.Labels, Types: types})
		}
	}
	overlays := make([]*nodeoverlay.Overlay, 0, len(t.overlays.rows))
	for _, o := range t.ListNodeOverlays() {
		overlays = append(overlays, &o.Overlay)
	}
	types, verdicts := nodeoverlay.Apply(pools, overlays)
	for i, p := range pools {
		types[i] = applyDevices(t.devices, p.Name, t.limits.apply(types[i]))
		old := t.FindPool(p.Name)
		if sameTypes(old.Types, types[i]) {
			continue
		}
		q := *old
		q.Types = types[i]
		t.pools.set(p.Name, &q)
		t.counts.Supply++
	}
	for _, o := range t.ListNodeOverlays() {
		if v := verdicts[o.Name]; v != o.Verdict {
			t.overlays.set(o.Name, &NodeOverlay{o.Overlay, v})
		}
	}
}

// sameTypes reports whether two lists hold the same types, each the same value or an equal one.
func sameTypes(a, b []*model.InstanceType) bool {
	return slices.EqualFunc(a, b, func(x, y *model.InstanceType) bool { return x == y || reflect.DeepEqual(x, y) })
}

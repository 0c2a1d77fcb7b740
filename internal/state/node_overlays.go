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

// applyOverlays applies NodeOverlays, attach limits and devices to the types of all pools, because one of these has
// changed.
func (t *Pools) applyOverlays() {
	clear(t.applied)
	t.applyTo(t.ListPools())
}

// applyToChanged applies NodeOverlays, attach limits and devices to the types of the pools of these names, because their
// offered types or labels have changed or they are new or gone. Other pools are only concerned if there are NodeOverlays,
// which conflict across pools; without any, the cost does not depend on how many other pools there are.
func (t *Pools) applyToChanged(names ...string) {
	pools := t.ListPools
	if len(t.overlays.rows) == 0 {
		pools = func() (out []*model.NodePool) {
			for _, name := range names {
				if p := t.FindPool(name); p != nil {
					out = append(out, p)
				}
			}
			return out
		}
	}
	for _, name := range names {
		delete(t.applied, name)
	}
	t.applyTo(pools())
}

// applyTo applies NodeOverlays, attach limits and devices to the types of pools, which are all of them if there are
// NodeOverlays. This is the only place where that is done: whoever reads a pool's types reads them with all of it
// applied. A pool in applied of which NodeOverlays change nothing else than before is skipped. A pool whose types come
// out as they were keeps the same list.
func (t *Pools) applyTo(list []*model.NodePool) {
	pools := make([]nodeoverlay.Pool, 0, len(list))
	for _, p := range list {
		if types := t.OfferedTypes(p.Name); types != nil {
			pools = append(pools, nodeoverlay.Pool{Name: p.Name, Labels: p.Labels, Types: types})
		}
	}
	overlays := make([]*nodeoverlay.Overlay, 0, len(t.overlays.rows))
	for _, o := range t.ListNodeOverlays() {
		overlays = append(overlays, &o.Overlay)
	}
	types, verdicts := t.applier.Apply(pools, overlays)
	for i, p := range pools {
		if before, ok := t.applied[p.Name]; ok && shareList(before, types[i]) {
			continue
		}
		t.applied[p.Name] = types[i]
		out := applyDevices(t.devices, p.Name, t.limits.apply(types[i]))
		old := t.FindPool(p.Name)
		if sameTypes(old.Types, out) {
			continue
		}
		q := *old
		q.Types = out
		t.pools.set(p.Name, &q)
		t.counts.Supply++
	}
	for _, o := range t.ListNodeOverlays() {
		if v := verdicts[o.Name]; v != o.Verdict {
			t.overlays.set(o.Name, &NodeOverlay{o.Overlay, v})
		}
	}
}

// shareList reports whether two lists are the same one.
func shareList(a, b []*model.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// sameTypes reports whether two lists hold the same types, each the same value or an equal one.
func sameTypes(a, b []*model.InstanceType) bool {
	return slices.EqualFunc(a, b, func(x, y *model.InstanceType) bool { return x == y || reflect.DeepEqual(x, y) })
}

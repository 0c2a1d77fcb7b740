// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Offer sets the instance types of the NodePools of a State.
type Offer func(*state.State)

// Variant returns the variant to replay: the recorded NodePools, node classes and NodeOverlays, each replaced by the object of the
// same name from files. assumed lists the assumptions made.
func (r *Recording) Variant(files func(*manifests.Set) error, offer Offer) (v *replay.Variant, assumed []string, err error) {
	v = &replay.Variant{Boot: -1}
	mine := manifests.New() // to see which NodePools the files have
	if err := files(mine); err != nil {
		return nil, nil, err
	}
	own := map[string]bool{}
	for _, p := range feed(mine, r.Table, nil).Pools {
		own[p.Name] = true
	}
	have := map[string][]byte{} // recorded NodePools as they are at one instant
	for i := 0; i < len(r.pools) || i == 0; {
		at := r.Trace.From
		if i < len(r.pools) {
			at = r.pools[i].at
		}
		var gone []string
		for ; i < len(r.pools) && r.pools[i].at.Equal(at); i++ {
			if x := r.pools[i]; x.json == nil {
				delete(have, x.name)
				gone = append(gone, x.name)
			} else {
				have[x.name] = x.json
			}
		}
		if at.After(r.Trace.From) && len(v.Pools) == 0 {
			at = r.Trace.From // a NodePool that came later is no reason to begin without those of the files
		}
		snap, m, err := r.at(have, files, offer)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range gone {
			if !own[name] {
				v.Pools = append(v.Pools, replay.PoolChange{At: at, Gone: name})
			}
		}
		for _, p := range snap.Pools {
			if at.After(r.Trace.From) && (own[p.Name] || !slices.ContainsFunc(r.pools, func(x poolLine) bool { return x.name == p.Name && x.at.Equal(at) })) {
				continue // it is as it was
			}
			v.Pools = append(v.Pools, replay.PoolChange{At: at, Pool: p})
		}
		v.Limits, v.Resources = snap.Limits, snap.ResourceNames
		if len(assumed) == 0 {
			assumed = m.Assumed
		}
		if i == 0 {
			break
		}
	}
	if len(v.Pools) == 0 {
		return nil, nil, fmt.Errorf("%s: no NodePool in the recording, so no node can be launched; add NodePools with -f FILE", r.Path)
	}
	return v, assumed, nil
}

// at returns a snapshot with the NodePools of one instant.
func (r *Recording) at(pools map[string][]byte, files func(*manifests.Set) error, offer Offer) (*model.Snapshot, *manifests.Set, error) {
	m := manifests.New()
	for _, k := range sorted(r.base) {
		if err := m.Read(r.Path+": "+k, r.base[k]); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range sorted(pools) {
		if err := m.Read(r.Path+": NodePool "+name, pools[name]); err != nil {
			return nil, nil, err
		}
	}
	if err := files(m); err != nil {
		return nil, nil, err
	}
	return feed(m, r.Table, offer), m, nil
}

// feed makes a snapshot of objects. Resources have the numbers that they have in a table.
func feed(m *manifests.Set, table *state.ResourceTable, offer Offer) *model.Snapshot {
	s := state.New()
	for _, name := range table.Names() {
		s.Resources().Dim(name)
	}
	m.Feed(s)
	if offer != nil {
		offer(s)
	}
	return s.Snapshot(time.Time{})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/nodeoverlay"
)

// Pools are the NodePools and the node classes that they name: what may be bought, and how. A pool is shown with what
// its provider offers it, NodeOverlays applied, and with its node class's scaling, neither of which is in the NodePool
// object.
type Pools struct {
	pools       table[*model.NodePool]  // by name
	nodeClasses table[*NodeClass]       // by nodeClassKey
	overlays    table[*NodeOverlay]     // by name
	offered     map[string]offeredTypes // by pool
	limits      *attachLimits           // of the nodes that there are
	devices     DeviceSource            // nil: nothing is known of devices
	applier     nodeoverlay.Applier
	applied     map[string][]*model.InstanceType // by pool: the list with NodeOverlays from which its types were made; absent: make them again

	inFlight *InFlight
	counts   *ChangeCounts
}

// NodeClass is a node class as the API server has it: a provider's own settings for machines. No decision looks into
// it, so it is in no Snapshot; the controller hands it to the provider.
type NodeClass struct {
	Group, Kind, Name, UID string
	Generation             int64
	Created                time.Time
	Version                uint64    // resource version
	Deleting               time.Time // since when; zero: it is not
	HasFinalizer           bool      // its provider's
	Annotations            model.Labels
	Scaling                *model.GroupScaling // NodeGroupClass: how its groups are scaled
	Groups                 []model.NodeGroup   // NodeGroupClass: all of its groups as its status has them, by name
	RegistrationDelay      time.Duration       // KWOKNodeClass: how long a machine takes to register
	Spec                   json.RawMessage     // JSON of the object's spec; empty: an empty spec
	Status                 json.RawMessage     // JSON of the object's status without conditions, as its provider writes it; empty: none
	Conditions             map[string]model.Condition
}

func nodeClassKey(group, kind, name string) string { return group + "/" + kind + "/" + name }

// NodeClassObject names a node class for InFlight.
func NodeClassObject(group, kind, name string) Object {
	return Object("class/" + nodeClassKey(group, kind, name))
}

func newPools(inFlight *InFlight, counts *ChangeCounts) *Pools {
	return &Pools{
		pools: newTable(func(a, b *model.NodePool) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Name, b.Name))
		}),
		nodeClasses: newTable(func(a, b *NodeClass) int {
			return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		}),
		overlays: newTable(func(a, b *NodeOverlay) int { return strings.Compare(a.Name, b.Name) }),
		offered:  map[string]offeredTypes{},
		applied:  map[string][]*model.InstanceType{},
		limits:   newAttachLimits(),
		inFlight: inFlight, counts: counts,
	}
}

// SetPool adds or changes a NodePool. Where it brings no instance types, or no generation of its node class, those
// known before are kept.
func (t *Pools) SetPool(p *model.NodePool) {
	q := *p
	old := t.FindPool(p.Name)
	if old != nil && old.UID == p.UID {
		if q.Types == nil {
			q.Types = old.Types
		}
		if q.ClassGeneration == 0 {
			q.ClassGeneration = old.ClassGeneration
		}
	}
	if c := t.FindNodeClass(q.ClassGroup, q.ClassKind, q.ClassName); c != nil {
		q.Scaling = c.Scaling
	}
	had := t.OfferedTypes(p.Name) != nil
	if q.Types != nil && p.Types != nil {
		t.offered[p.Name] = offeredTypes{p.UID, p.Types}
	}
	t.pools.set(p.Name, &q)
	t.counts.Supply++
	if has := t.OfferedTypes(p.Name) != nil; (had || has) && (old == nil || old.UID != p.UID || p.Types != nil || !maps.Equal(old.Labels, q.Labels)) {
		t.applyToChanged(p.Name)
	}
}

// DeletePool forgets a NodePool by name.
func (t *Pools) DeletePool(name string) {
	t.pools.delete(name)
	delete(t.offered, name)
	t.counts.Supply++
	t.applyToChanged(name)
}

// SetTypes gives a pool what its provider offers it. Nothing happens where there is no pool of this name. Use
// SetTypesOfPools for several pools.
func (t *Pools) SetTypes(name string, types []*model.InstanceType) {
	t.SetTypesOfPools(map[string][]*model.InstanceType{name: types})
}

// SetTypesOfPools gives pools, by name, what their providers offer them. Names of which there is no pool are skipped. The
// cost is that of these pools, and with NodeOverlays one comparison for each other pool.
func (t *Pools) SetTypesOfPools(types map[string][]*model.InstanceType) {
	var names []string
	for name, list := range types {
		old := t.FindPool(name)
		if old == nil {
			continue
		}
		t.offered[name] = offeredTypes{old.UID, list}
		q := *old
		q.Types = list
		t.pools.set(name, &q)
		t.counts.Supply++
		names = append(names, name)
	}
	if len(names) > 0 {
		t.applyToChanged(names...)
	}
}

// SetClassGeneration says of which generation a pool's node class is.
func (t *Pools) SetClassGeneration(name string, generation int64) {
	if old := t.FindPool(name); old != nil && old.ClassGeneration != generation {
		q := *old
		q.ClassGeneration = generation
		t.pools.set(name, &q)
	}
}

// SetReady reports whether a pool may be used, and why not.
func (t *Pools) SetReady(name string, ready bool, why model.Condition) {
	if old := t.FindPool(name); old != nil && (old.Ready != ready || old.NotReady != why) {
		q := *old
		q.Ready, q.NotReady = ready, why
		t.pools.set(name, &q)
		t.counts.Supply++
	}
}

// FindPool returns a pool by name, nil if there is none. It must not be changed.
func (t *Pools) FindPool(name string) *model.NodePool { return t.pools.rows[name] }

// ListPools returns the pools by weight descending, then name. The list must not be changed.
func (t *Pools) ListPools() []*model.NodePool { return t.pools.list() }

// SetNodeClass adds or changes a node class.
func (t *Pools) SetNodeClass(c NodeClass) {
	key := nodeClassKey(c.Group, c.Kind, c.Name)
	t.nodeClasses.set(key, &c)
	t.setScaling(key, c.Scaling)
	t.inFlight.observeVersion(NodeClassObject(c.Group, c.Kind, c.Name), c.Version)
}

// DeleteNodeClass forgets a node class.
func (t *Pools) DeleteNodeClass(group, kind, name string) {
	key := nodeClassKey(group, kind, name)
	t.nodeClasses.delete(key)
	t.setScaling(key, nil)
	t.inFlight.forgetObject(NodeClassObject(group, kind, name))
}

// setScaling says of the pools of a node class how they are scaled.
func (t *Pools) setScaling(class string, scaling *model.GroupScaling) {
	for name, old := range t.pools.rows {
		if nodeClassKey(old.ClassGroup, old.ClassKind, old.ClassName) != class || reflect.DeepEqual(old.Scaling, scaling) {
			continue
		}
		q := *old
		q.Scaling = scaling
		t.pools.set(name, &q)
		t.counts.Supply++
	}
}

// FindNodeClass returns a node class, nil if there is none. It must not be changed.
func (t *Pools) FindNodeClass(group, kind, name string) *NodeClass {
	return t.nodeClasses.rows[nodeClassKey(group, kind, name)]
}

// ListNodeClasses returns all node classes by group, kind and name. The list must not be changed.
func (t *Pools) ListNodeClasses() []*NodeClass { return t.nodeClasses.list() }

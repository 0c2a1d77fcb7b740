// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package devices converts the devices of dynamic resource allocation (resource.k8s.io/v1) to counted resources,
// which pods request and nodes have like extended resources.
//
// The amounts are exact: kube-scheduler's allocator finds devices for a group of pods on a node if and only if the
// node has the requested amounts. Pods whose requests cannot be counted together are placed on different nodes.
// Requests that cannot be counted at all are refused with a reason.
//
// The package neither watches nor writes. Start reading at Book. layout.go defines how requests become resources.
package devices

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Prefix is the prefix of all resource names of devices: "devices/<class>", or "devices/<class>#<hash>" if the devices are not
// exactly those of the class.
const Prefix = model.DevicePrefix

// Bounds of the work that devices cause. What exceeds one is refused with a reason, or counted up to it.
const (
	maxWants        = 256    // different requests for a device in the cluster, by class, selectors and tolerations
	maxSignatures   = 512    // different combinations of requests that pods have
	maxSets         = 16     // resources of requests whose devices overlap
	maxCount        = 128    // groups of devices counted on one node by the allocator
	maxSearch       = 10_000 // steps of the allocator's search on one node for one resource
	maxOrdersSearch = 50_000 // the same for all orders of a node to come
	maxOrders       = 16     // orders in which the devices of a node to come are counted
	maxFound        = 20_000 // counts of the allocator kept
	maxExpression   = 512    // compiled CEL expressions kept
)

// Book contains the device classes, slices, claims and templates of a cluster, and the pods that use them. It is not safe for
// concurrent use.
type Book struct {
	classes   map[string]*resourceapi.DeviceClass
	slices    map[string]*slice
	pools     map[poolID]map[string]*slice // by name of the slice
	nodes     map[string]*node
	types     map[string][]TypeSlice
	found     map[string]int64 // what the allocator has counted, by view
	steps     int64            // of the allocator's searches since New
	claims    map[string]*claim
	inPool    map[poolID]map[string]*claim // allocated claims, by key
	templates map[string]*resourceapi.ResourceClaimTemplate
	rules     map[string]*resourceapi.DeviceTaintRule

	extended   map[string]*resourceapi.DeviceClass // by the extended resource that they name
	unserved   bool                                // SetExtendedUnserved
	ofExtended map[string]map[string]bool          // pod -> keys of claims for its extended resources

	pods  map[string]*podUse
	users map[string]map[string]bool // "claim <key>" or "template <key>" -> keys of the pods that use it

	signatures  map[string]*signature // of remembered pods
	wants       map[string]*want      // of the signatures that are counted
	nextWant    int
	kinds       map[string]*kind // of the devices in slices
	links       map[link]int     // pools in which there is such a link
	linked      map[poolID]map[link]bool
	expressions *cel.Cache
	faults      map[string]string // expression -> why it is not usable, "" if it is

	layout     *layout
	staleWants bool // signatures have changed since layout
	staleKinds bool // kinds have changed since layout

	all         bool
	changed     map[string]bool // nodes
	changedPods map[string]bool
}

// New returns an empty Book.
func New() *Book {
	return &Book{
		classes: map[string]*resourceapi.DeviceClass{}, slices: map[string]*slice{}, pools: map[poolID]map[string]*slice{},
		nodes: map[string]*node{}, types: map[string][]TypeSlice{}, found: map[string]int64{}, claims: map[string]*claim{}, inPool: map[poolID]map[string]*claim{},
		extended: map[string]*resourceapi.DeviceClass{}, ofExtended: map[string]map[string]bool{},
		templates: map[string]*resourceapi.ResourceClaimTemplate{}, rules: map[string]*resourceapi.DeviceTaintRule{}, pods: map[string]*podUse{}, users: map[string]map[string]bool{},
		signatures: map[string]*signature{}, wants: map[string]*want{}, kinds: map[string]*kind{}, faults: map[string]string{}, links: map[link]int{}, linked: map[poolID]map[link]bool{},
		expressions: cel.NewCache(maxExpression, celFeatures), layout: &layout{},
		changed: map[string]bool{}, changedPods: map[string]bool{},
	}
}

// Changes lists the objects whose Need or amounts may have changed.
type Changes struct {
	All   bool     // resource names have changed: all pods with claims, all nodes and all types
	Nodes []string // names of nodes
	Pods  []string // namespace/name of pods passed to OfPod
}

// Changes returns the changes since its last call.
func (b *Book) Changes() Changes {
	b.refresh()
	c := Changes{All: b.all, Nodes: slices.Sorted(maps.Keys(b.changed)), Pods: slices.Sorted(maps.Keys(b.changedPods))}
	b.all = false
	clear(b.changed)
	clear(b.changedPods)
	return c
}

// poolID names a pool of devices.
type poolID struct{ driver, pool string }

// slice is a ResourceSlice with facts about its devices.
type slice struct {
	published *resourceapi.ResourceSlice
	object    *resourceapi.ResourceSlice // published, with the taints of rules
	node      string                     // empty: devices of no node, or of several
	pool      poolID
	met       []map[*want]bool // by device: the wants that it satisfies
	kinds     []*kind          // by device
}

// node is a node, or a node to come, with devices.
type node struct {
	pools   map[poolID]int // number of its slices
	amounts map[string]int64
	layout  *layout // of amounts
}

// claim is a ResourceClaim.
type claim struct {
	object *resourceapi.ResourceClaim
	pools  []poolID // where it is allocated
}

// SetClass stores a DeviceClass; nil deletes it.
func (b *Book) SetClass(name string, c *resourceapi.DeviceClass) {
	old := b.classes[name]
	if c == nil {
		delete(b.classes, name)
	} else {
		b.classes[name] = c
	}
	b.findExtended()
	if old != nil && c != nil && equality.Semantic.DeepEqual(old.Spec.Selectors, c.Spec.Selectors) && equality.Semantic.DeepEqual(old.Spec.ExtendedResourceName, c.Spec.ExtendedResourceName) &&
		old.CreationTimestamp.Equal(&c.CreationTimestamp) || old == nil && c == nil {
		return
	}
	b.all = true
	for _, w := range b.wants {
		if w.class == name {
			for _, s := range b.slices {
				b.judge(s, w)
			}
		}
	}
	for _, n := range b.nodes {
		n.layout = nil
	}
	b.staleWants = true
}

// SetSlice stores a ResourceSlice; nil deletes it. It reports whether its content has changed.
func (b *Book) SetSlice(name string, published *resourceapi.ResourceSlice) bool {
	old, o := b.slices[name], b.tainted(published)
	if old != nil && o != nil && equality.Semantic.DeepEqual(old.object.Spec, o.Spec) {
		old.published = published
		return false
	}
	if old != nil {
		b.touchPool(old.pool)
		b.dropSlice(name, old)
	}
	if o == nil {
		return old != nil
	}
	s := &slice{published: published, object: o, pool: poolID{o.Spec.Driver, o.Spec.Pool.Name}}
	if o.Spec.NodeName != nil {
		s.node = *o.Spec.NodeName
	}
	b.slices[name] = s
	if b.pools[s.pool] == nil {
		b.pools[s.pool] = map[string]*slice{}
	}
	b.pools[s.pool][name] = s
	if s.node != "" {
		if b.nodes[s.node] == nil {
			b.nodes[s.node] = &node{pools: map[poolID]int{}}
		}
		b.nodes[s.node].pools[s.pool]++
	}
	s.met = make([]map[*want]bool, len(o.Spec.Devices))
	s.kinds = make([]*kind, len(o.Spec.Devices))
	for i := range s.met {
		s.met[i] = map[*want]bool{}
	}
	for _, w := range b.wants {
		b.judge(s, w)
	}
	b.sortKinds(s)
	b.linkPool(s.pool)
	b.touchPool(s.pool)
	return true
}

// SetTaintRule stores a DeviceTaintRule; nil deletes it. It reports whether amounts of types may have changed.
func (b *Book) SetTaintRule(name string, r *resourceapi.DeviceTaintRule) bool {
	old := b.rules[name]
	if old == nil && r == nil || old != nil && r != nil && equality.Semantic.DeepEqual(old.Spec, r.Spec) {
		return false
	}
	if r == nil {
		delete(b.rules, name)
	} else {
		b.rules[name] = r
	}
	types := false
	for _, name := range slices.Sorted(maps.Keys(b.slices)) {
		s := b.slices[name]
		was := s.object
		b.SetSlice(name, s.published)
		if strings.HasPrefix(s.node, typeNode) && b.slices[name].object != was {
			types = true
			delete(b.changed, s.node)
		}
	}
	return types
}

// tainted returns a slice with the taints that rules add to its devices.
func (b *Book) tainted(o *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	if o == nil {
		return nil
	}
	out := o
	for _, name := range slices.Sorted(maps.Keys(b.rules)) {
		rule := &b.rules[name].Spec
		s := rule.DeviceSelector
		if s == nil || s.Driver != nil && *s.Driver != o.Spec.Driver || s.Pool != nil && *s.Pool != o.Spec.Pool.Name {
			continue
		}
		for i := range o.Spec.Devices {
			if s.Device != nil && *s.Device != o.Spec.Devices[i].Name {
				continue
			}
			if out == o {
				out = o.DeepCopy()
			}
			out.Spec.Devices[i].Taints = append(out.Spec.Devices[i].Taints, rule.Taint)
		}
	}
	return out
}

func (b *Book) dropSlice(name string, s *slice) {
	for _, k := range s.kinds {
		b.dropKind(k)
	}
	for _, w := range b.wants {
		b.staleKinds = b.staleKinds || w.faults[name] != ""
		delete(w.faults, name)
	}
	delete(b.slices, name)
	delete(b.pools[s.pool], name)
	if len(b.pools[s.pool]) == 0 {
		delete(b.pools, s.pool)
	}
	b.linkPool(s.pool)
	if n := b.nodes[s.node]; n != nil {
		n.layout = nil
		b.changed[s.node] = true
		if n.pools[s.pool]--; n.pools[s.pool] == 0 {
			delete(n.pools, s.pool)
		}
		if len(n.pools) == 0 {
			delete(b.nodes, s.node)
		}
	}
}

// touchPool notes that the amounts of the nodes with devices in a pool may have changed.
func (b *Book) touchPool(id poolID) {
	for _, s := range b.pools[id] {
		if n := b.nodes[s.node]; n != nil {
			n.layout = nil
			b.changed[s.node] = true
		}
	}
}

// SetClaim stores a ResourceClaim under its key, namespace/name; nil deletes it.
func (b *Book) SetClaim(key string, o *resourceapi.ResourceClaim) {
	old := b.claims[key]
	if old == nil && o == nil || old != nil && o != nil && equality.Semantic.DeepEqual(old.object.Spec, o.Spec) &&
		equality.Semantic.DeepEqual(old.object.Status.Allocation, o.Status.Allocation) &&
		equality.Semantic.DeepEqual(old.object.Status.ReservedFor, o.Status.ReservedFor) &&
		(old.object.DeletionTimestamp == nil) == (o.DeletionTimestamp == nil) && old.object.UID == o.UID {
		return
	}
	for pod := range b.users["claim "+key] {
		b.changedPods[pod] = true
	}
	if old != nil {
		b.setExtendedClaim(key, old.object, false)
		for _, id := range old.pools {
			delete(b.inPool[id], key)
			if len(b.inPool[id]) == 0 {
				delete(b.inPool, id)
			}
			b.touchPool(id)
		}
		delete(b.claims, key)
	}
	if o == nil {
		return
	}
	c := &claim{object: o}
	b.claims[key] = c
	b.setExtendedClaim(key, o, true)
	if o.Status.Allocation == nil {
		return
	}
	for _, r := range o.Status.Allocation.Devices.Results {
		id := poolID{r.Driver, r.Pool}
		if slices.Contains(c.pools, id) {
			continue
		}
		c.pools = append(c.pools, id)
		if b.inPool[id] == nil {
			b.inPool[id] = map[string]*claim{}
		}
		b.inPool[id][key] = c
		b.touchPool(id)
	}
}

// SetTemplate stores a ResourceClaimTemplate under its key, namespace/name; nil deletes it.
func (b *Book) SetTemplate(key string, t *resourceapi.ResourceClaimTemplate) {
	old := b.templates[key]
	if old == nil && t == nil || old != nil && t != nil && equality.Semantic.DeepEqual(old.Spec.Spec, t.Spec.Spec) {
		return
	}
	for pod := range b.users["template "+key] {
		b.changedPods[pod] = true
	}
	if t == nil {
		delete(b.templates, key)
	} else {
		b.templates[key] = t
	}
}

// typeNode starts the name of the node that stands for the nodes of a type. No node of a cluster has a colon in its name.
const typeNode = "type:"

// SetType stores the slices that a new node will publish, under a key chosen by the caller: an instance type, or an instance type
// of a NodePool. Nil deletes them. It reports whether the amounts of the type may have changed.
func (b *Book) SetType(key string, list []TypeSlice) bool {
	old := b.types[key]
	if len(old) == 0 && len(list) == 0 || reflect.DeepEqual(old, list) || equality.Semantic.DeepEqual(old, list) {
		return false
	}
	name := typeNode + key
	for i := range objectsOf(name, old) {
		b.SetSlice(sliceName(name, i), nil)
	}
	for i, o := range objectsOf(name, list) {
		b.SetSlice(sliceName(name, i), o)
	}
	delete(b.changed, name)
	if len(list) == 0 {
		delete(b.types, key)
	} else {
		b.types[key] = list
	}
	return true
}

// Counts reports whether pods request a resource of this name: nodes have an amount of it if they have its devices. Names in older
// objects may be of pods that no longer exist.
func (b *Book) Counts(name string) bool {
	b.refresh()
	return b.layout.names[name]
}

// TypeSlices returns the slices stored by SetType under a key; nil: none. The result is read-only.
func (b *Book) TypeSlices(key string) []TypeSlice { return b.types[key] }

// OfNode returns the free amount of each resource on a node, without devices that are allocated to claims.
func (b *Book) OfNode(name string) map[string]int64 {
	if b.nodes[name] == nil || strings.HasPrefix(name, typeNode) {
		return nil
	}
	return b.amountsOf(name)
}

// OfType returns the amount of each resource that a new node will have.
func (b *Book) OfType(key string) map[string]int64 { return b.amountsOf(typeNode + key) }

func (b *Book) amountsOf(name string) map[string]int64 {
	n := b.nodes[name]
	if n == nil {
		return nil
	}
	b.refresh()
	if n.layout != b.layout {
		n.amounts, n.layout = b.count(name, n), b.layout
	}
	return n.amounts
}

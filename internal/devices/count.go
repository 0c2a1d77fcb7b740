// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// features are those of kube-scheduler 1.37 by default.
var features = structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, DeviceBindingAndStatus: true, ConsumableCapacity: true}

// count counts the resources that are free on a node. The drivers of a node to come may publish its devices in any order: what the allocator takes
// first may be all that later pods can use, so that several orders are tried.
func (b *Book) count(name string, n *node) map[string]int64 {
	amounts := map[string]int64{}
	state := b.allocated(n)
	faulty := map[string]bool{} // wants
	for id := range n.pools {
		for _, s := range b.usable(id) {
			for _, u := range b.layout.sets {
				if u.want != "" && b.wants[u.want].faults[s.object.Name] != "" {
					faulty[u.want] = true
				}
			}
			if s.node != name || len(s.object.Spec.SharedCounters) > 0 {
				continue // the allocator ignores devices next to counters
			}
			for i, k := range s.kinds {
				if structured.IsDeviceAllocated(structured.MakeDeviceID(id.driver, id.pool, s.object.Spec.Devices[i].Name), &state) {
					continue
				}
				for _, u := range b.layout.sets {
					if u.kinds[k] {
						amounts[u.name]++
					}
				}
			}
		}
	}
	for _, u := range b.layout.sets {
		if faulty[u.want] {
			// The allocator finds nothing on a node as soon as it has looked at a device on which a selector fails.
			delete(amounts, u.name)
		}
	}
	if len(b.layout.counted) == 0 {
		return amounts
	}
	published := b.publishedOn(n)
	devices := b.viewOf(name, published, state)
	for resource, s := range b.layout.counted {
		view := b.viewFor(s, devices, published)
		c, known := b.found[view]
		if !known {
			c = b.countFor(s, name, n, published, state)
			if len(b.found) >= maxFound {
				clear(b.found)
			}
			if view != "" {
				b.found[view] = c
			}
		}
		if c > 0 {
			amounts[resource] = c
		}
	}
	return amounts
}

// countFor counts how often the allocator finds devices of a node for a signature.
func (b *Book) countFor(s *signature, name string, n *node, published []*resourceapi.ResourceSlice, state structured.AllocatedState) int64 {
	c := b.allocations(b.searching(maxSearch), name, published, state, s.claims)
	if !strings.HasPrefix(name, typeNode) || c <= 1 { // the allocator finds devices for one pod in any order
		return c
	}
	work := b.searching(maxOrdersSearch)
	for _, list := range b.orders(n, published, s) {
		other := b.allocations(work, name, list, state, s.claims)
		if work.left < 0 {
			break // the search ended before it found all devices
		}
		c = min(c, other)
	}
	return c
}

// viewOf describes what the allocator sees of the devices of a node, apart from selectors: not the names of nodes, pools and devices, but for which
// devices have the same one, nor attributes that no constraint of a counted signature reads.
func (b *Book) viewOf(name string, published []*resourceapi.ResourceSlice, state structured.AllocatedState) string {
	shares := map[structured.DeviceID]int{}
	for id := range state.AllocatedSharedDeviceIDs {
		shares[id.GetDeviceID()]++
	}
	var pools []poolID
	for _, o := range published {
		if id := (poolID{o.Spec.Driver, o.Spec.Pool.Name}); !slices.Contains(pools, id) {
			pools = append(pools, id)
		}
	}
	slices.SortFunc(pools, func(a, b poolID) int { return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.driver, b.driver)) })
	type view struct {
		Type   bool // a node to come, whose devices are counted in several orders
		Pool   int
		Slice  resourceapi.ResourceSliceSpec
		Taken  []bool
		Shared []int
		Used   []structured.ConsumedCapacity
	}
	var list []view
	numbers := map[structured.DeviceID]int{} // equal names in a pool make it unusable
	for _, o := range published {
		id := poolID{o.Spec.Driver, o.Spec.Pool.Name}
		v := view{Type: strings.HasPrefix(name, typeNode), Pool: slices.Index(pools, id), Slice: o.Spec}
		v.Slice.Pool.Name = ""
		if v.Slice.NodeName != nil && *v.Slice.NodeName == name {
			v.Slice.NodeName = new("")
		}
		v.Slice.Devices = slices.Clone(o.Spec.Devices)
		for i := range v.Slice.Devices {
			d := &v.Slice.Devices[i]
			device := structured.MakeDeviceID(id.driver, id.pool, d.Name)
			v.Taken = append(v.Taken, structured.IsDeviceAllocated(device, &state))
			v.Shared = append(v.Shared, shares[device])
			v.Used = append(v.Used, state.AggregatedCapacity[device])
			if _, same := numbers[device]; !same {
				numbers[device] = len(numbers)
			}
			d.Name = strconv.Itoa(numbers[device])
			d.Attributes = maps.Clone(d.Attributes)
			maps.DeleteFunc(d.Attributes, func(name resourceapi.QualifiedName, _ resourceapi.DeviceAttribute) bool {
				return !b.layout.constrained[attributeName(string(name))]
			})
		}
		list = append(list, v)
	}
	text, _ := json.Marshal(list)
	return string(text)
}

// attributeName returns the name of an attribute without its domain.
func attributeName(qualified string) string {
	return qualified[strings.LastIndexByte(qualified, '/')+1:]
}

// viewFor describes what the allocator sees of a node for a signature: devices are what viewOf returns for it. With the same description it counts the same.
// It is empty if a selector fails on a device, because what the allocator finds then depends on which device that is, and if a device has a taint that is not
// tolerated, because it matters whether the selectors match it.
func (b *Book) viewFor(s *signature, devices string, published []*resourceapi.ResourceSlice) string {
	sum := sha256.New()
	fmt.Fprintln(sum, s.key)
	fmt.Fprintln(sum, devices)
	for _, key := range slices.Sorted(maps.Keys(s.wants)) {
		w := b.wants[key]
		fmt.Fprintln(sum, b.classes[w.class] != nil)
		for _, o := range published {
			if w.faults[o.Name] != "" {
				return ""
			}
			for i, met := range b.slices[o.Name].met {
				if prevented(o.Spec.Devices[i].Taints, w.tolerations) {
					return ""
				}
				fmt.Fprint(sum, met[w], " ")
			}
		}
	}
	return string(sum.Sum(nil))
}

// publishedOn returns the slices of the pools of a node, by name.
func (b *Book) publishedOn(n *node) []*resourceapi.ResourceSlice {
	var published []*resourceapi.ResourceSlice
	for id := range n.pools {
		for _, p := range b.pools[id] {
			published = append(published, p.object)
		}
	}
	slices.SortFunc(published, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return published
}

// orders returns the slices of a node with their devices in other orders: reversed, as if published in slices of another order, and with some
// devices first and last: those that satisfy a want of a signature, and those of one size.
func (b *Book) orders(n *node, published []*resourceapi.ResourceSlice, of *signature) (out [][]*resourceapi.ResourceSlice) {
	type device struct {
		*resourceapi.Device
		groups map[string]bool
	}
	devices := map[poolID][]device{}
	groups := map[string]int{}
	all := 0
	for _, o := range published {
		for i := range o.Spec.Devices {
			x := device{&o.Spec.Devices[i], map[string]bool{}}
			for key := range of.wants {
				x.groups["want "+key] = b.slices[o.Name].kinds[i].wants[b.wants[key]]
			}
			x.groups[sizeOf(x.Device)] = true
			for key, is := range x.groups {
				if is {
					groups[key]++
				}
			}
			all++
			id := poolID{o.Spec.Driver, o.Spec.Pool.Name}
			devices[id] = append(devices[id], x)
		}
	}
	add := func(sorted func(list []device)) {
		next := map[poolID][]device{}
		for id := range n.pools {
			next[id] = slices.Clone(devices[id])
			sorted(next[id])
		}
		var list []*resourceapi.ResourceSlice
		for _, o := range published {
			other := *o
			other.Spec.Devices = nil
			id := poolID{o.Spec.Driver, o.Spec.Pool.Name}
			for range o.Spec.Devices {
				other.Spec.Devices = append(other.Spec.Devices, *next[id][0].Device)
				next[id] = next[id][1:]
			}
			list = append(list, &other)
		}
		out = append(out, list)
	}
	add(func(list []device) { slices.Reverse(list) })
	for quarter := 1; quarter < 4; quarter++ {
		add(func(list []device) {
			at := len(list) * quarter / 4
			copy(list, slices.Concat(list[at:], list[:at]))
		})
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if groups[key] == all {
			continue
		}
		for _, first := range []int{-1, 1} {
			if len(out) == maxOrders {
				return out
			}
			add(func(list []device) {
				slices.SortStableFunc(list, func(x, y device) int {
					switch {
					case x.groups[key] == y.groups[key]:
						return 0
					case x.groups[key]:
						return first
					}
					return -first
				})
			})
		}
	}
	return out
}

// sizeOf is the same text for devices of which claims can use equally much.
func sizeOf(d *resourceapi.Device) string {
	size := struct {
		Capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
		Several  *bool
		Counters []map[string]resourceapi.Counter
	}{d.Capacity, d.AllowMultipleAllocations, nil}
	for _, c := range d.ConsumesCounters {
		size.Counters = append(size.Counters, c.Counters)
	}
	text, _ := json.Marshal(size)
	return "size " + string(text)
}

// usable returns the slices of a pool that are in force, by name. It is nil if the pool is incomplete, or if its devices contradict each
// other: the allocator takes none of them.
func (b *Book) usable(id poolID) []*slice {
	var list []*slice
	for _, name := range slices.Sorted(maps.Keys(b.pools[id])) {
		s := b.pools[id][name]
		if len(list) > 0 {
			switch cmp.Compare(s.object.Spec.Pool.Generation, list[0].object.Spec.Pool.Generation) {
			case -1:
				continue
			case 1:
				list = nil
			}
		}
		list = append(list, s)
	}
	if len(list) == 0 || int64(len(list)) != list[0].object.Spec.Pool.ResourceSliceCount {
		return nil
	}
	counters := map[string]bool{}
	for _, s := range list {
		for _, c := range s.object.Spec.SharedCounters {
			if counters[c.Name] {
				return nil
			}
			counters[c.Name] = true
			for name := range c.Counters {
				counters[c.Name+"/"+name] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, s := range list {
		if len(s.object.Spec.SharedCounters) > 0 {
			continue
		}
		for _, d := range s.object.Spec.Devices {
			if seen[d.Name] {
				return nil
			}
			seen[d.Name] = true
			for _, c := range d.ConsumesCounters {
				if !counters[c.CounterSet] || len(c.CompatibilityGroups) > 0 {
					return nil
				}
				for name := range c.Counters {
					if !counters[c.CounterSet+"/"+name] {
						return nil
					}
				}
			}
		}
	}
	return list
}

// allocated returns what claims have of the devices in the pools of a node.
func (b *Book) allocated(n *node) structured.AllocatedState {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for id := range n.pools {
		for _, c := range b.inPool[id] {
			for _, r := range c.object.Status.Allocation.Devices.Results {
				if r.Driver == id.driver && r.Pool == id.pool {
					take(&state, &r)
				}
			}
		}
	}
	return state
}

func take(state *structured.AllocatedState, r *resourceapi.DeviceRequestAllocationResult) {
	if r.AdminAccess != nil && *r.AdminAccess {
		return
	}
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	if r.ShareID == nil {
		state.AllocatedDevices.Insert(id)
		return
	}
	state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
	if r.ConsumedCapacity != nil {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	}
}

// allocations counts how often the allocator finds devices of these slices for the claims of a pod on a node, one pod after the other.
func (b *Book) allocations(work *budget, name string, published []*resourceapi.ResourceSlice, state structured.AllocatedState, of []resourceapi.DeviceClaim) int64 {
	state = structured.AllocatedState{AllocatedDevices: state.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity: state.AggregatedCapacity.Clone()}
	var claims []*resourceapi.ResourceClaim
	for i, devices := range of {
		claims = append(claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: resourceapi.ResourceClaimSpec{Devices: devices}})
	}
	for c := range int64(maxCount) {
		allocator, err := structured.NewAllocator(work, features, state, classes(b.classes), published, b.expressions)
		if err != nil {
			return c
		}
		found, err := allocator.Allocate(work, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, claims)
		if err != nil || found == nil {
			return c
		}
		for i := range found {
			for j := range found[i].Devices.Results {
				take(&state, &found[i].Devices.Results[j])
			}
		}
	}
	return maxCount
}

// budget is a context that is cancelled after a number of steps instead of a time: the allocator asks once a step.
type budget struct {
	context.Context
	left int
	all  *int64 // steps of all searches
}

// searching returns a context for searches of at most this many steps together.
func (b *Book) searching(steps int) *budget {
	return &budget{Context: klog.NewContext(context.Background(), logr.Discard()), left: steps, all: &b.steps}
}

func (b *budget) Err() error {
	*b.all++
	if b.left--; b.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// classes looks up device classes for the allocator.
type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if c[name] == nil {
		return nil, fmt.Errorf("DeviceClass %s not found", name)
	}
	return c[name], nil
}

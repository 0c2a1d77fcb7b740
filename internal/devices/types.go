// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// TypeSlice is a part of the ResourceSlices that nodes of an instance type publish.
type TypeSlice struct {
	Driver         string                   `json:"driver"`
	Pool           string                   `json:"pool,omitempty"` // empty: the driver's pool for the node
	Devices        []resourceapi.Device     `json:"devices,omitempty"`
	SharedCounters []resourceapi.CounterSet `json:"sharedCounters,omitempty"`
}

// ParseTypeSlices parses a YAML or JSON list of [TypeSlice]. It returns an error for unknown fields and for values that the API
// server would reject.
func ParseTypeSlices(text string) ([]TypeSlice, error) {
	var list []TypeSlice
	if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("no slices; want a list of {driver, devices, sharedCounters}")
	}
	names := map[string]bool{}
	for i := range list {
		if err := list[i].validate(names); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return list, nil
}

// validate rejects what would keep the API server from storing the slice. Names are those of the devices before it, with driver and pool.
func (t *TypeSlice) validate(names map[string]bool) error {
	if found := validation.IsDNS1123Subdomain(t.Driver); len(found) > 0 {
		return fmt.Errorf("driver %q: %s", t.Driver, found[0])
	}
	if len(t.Devices) == 0 && len(t.SharedCounters) == 0 {
		return errors.New("neither devices nor sharedCounters are set")
	}
	if len(t.Devices) > resourceapi.ResourceSliceMaxDevices {
		return fmt.Errorf("%d devices, at most %d are allowed; use several slices", len(t.Devices), resourceapi.ResourceSliceMaxDevices)
	}
	for i := range t.Devices {
		d := &t.Devices[i]
		if found := validation.IsDNS1123Label(d.Name); len(found) > 0 {
			return fmt.Errorf("devices[%d].name %q: %s", i, d.Name, found[0])
		}
		key := t.Driver + "/" + t.Pool + "/" + d.Name
		if names[key] {
			return fmt.Errorf("devices[%d].name %q is used twice in one pool", i, d.Name)
		}
		names[key] = true
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return fmt.Errorf("devices[%d]: nodeName, nodeSelector and allNodes are not allowed: a device belongs to the node", i)
		}
		if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			return fmt.Errorf("devices[%d]: %d attributes and capacities, at most %d are allowed", i, n, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
		}
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			a, values := d.Attributes[name], 0
			for _, set := range []bool{a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil, a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil} {
				if set {
					values++
				}
			}
			if values != 1 {
				return fmt.Errorf("devices[%d].attributes[%s]: %d values; set one of int, bool, string and version", i, name, values)
			}
		}
	}
	return nil
}

func sliceName(node string, i int) string { return fmt.Sprintf("%s:%06d", node, i) }

// objectsOf returns the ResourceSlices of a node with the slices of a type.
func objectsOf(node string, list []TypeSlice) []*resourceapi.ResourceSlice {
	var objects []*resourceapi.ResourceSlice
	perPool := map[poolID]int64{}
	add := func(t *TypeSlice, devices []resourceapi.Device, counters []resourceapi.CounterSet) {
		o := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: sliceName(node, len(objects))}}
		o.Spec.Driver, o.Spec.NodeName, o.Spec.Devices, o.Spec.SharedCounters = t.Driver, &node, devices, counters
		o.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1}
		if t.Pool != "" {
			o.Spec.Pool.Name += "/" + t.Pool
		}
		perPool[poolID{o.Spec.Driver, o.Spec.Pool.Name}]++
		objects = append(objects, o)
	}
	for i := range list {
		// The API server takes counters and devices in different slices only.
		if len(list[i].SharedCounters) > 0 {
			add(&list[i], nil, list[i].SharedCounters)
		}
		if len(list[i].Devices) > 0 {
			add(&list[i], list[i].Devices, nil)
		}
	}
	for _, o := range objects {
		o.Spec.Pool.ResourceSliceCount = perPool[poolID{o.Spec.Driver, o.Spec.Pool.Name}]
	}
	return objects
}

// SlicesOfNode returns the slices that a node has published as slices of a new node, without taints and attributes that distinguish
// devices of one model (UUIDs and serial numbers). It omits drivers with a pool that is incomplete, is being updated, or has
// devices of other nodes.
func (b *Book) SlicesOfNode(name string) []TypeSlice {
	n := b.nodes[name]
	if n == nil {
		return nil
	}
	var list []TypeSlice
	partial := map[string]bool{} // drivers
	for _, id := range slices.SortedFunc(maps.Keys(n.pools), func(a, b poolID) int { return strings.Compare(a.driver+"\n"+a.pool, b.driver+"\n"+b.pool) }) {
		usable := b.usable(id)
		if usable == nil {
			partial[id.driver] = true
		}
		pool := ""
		if len(list) > 0 && list[len(list)-1].Driver == id.driver {
			pool = fmt.Sprint(len(list))
		}
		for _, s := range usable {
			t := TypeSlice{Driver: id.driver, Pool: pool, SharedCounters: s.object.Spec.SharedCounters}
			if s.node != name && len(t.SharedCounters) == 0 {
				partial[id.driver] = true // the pool has devices of other nodes
			}
			for i := range s.object.Spec.Devices {
				d := s.object.Spec.Devices[i].DeepCopy()
				d.Taints = nil
				maps.DeleteFunc(d.Attributes, func(name resourceapi.QualifiedName, _ resourceapi.DeviceAttribute) bool {
					return isIdentity(string(name))
				})
				t.Devices = append(t.Devices, *d)
			}
			list = append(list, t)
		}
	}
	list = slices.DeleteFunc(list, func(t TypeSlice) bool { return partial[t.Driver] })
	if len(list) == 0 {
		return nil
	}
	return list
}

// isIdentity reports whether an attribute tells devices of one model apart. A pod that selects such a value wants one certain device, which no
// other node has.
func isIdentity(attribute string) bool {
	name := strings.ToLower(attribute[strings.LastIndex(attribute, "/")+1:])
	return strings.Contains(name, "uuid") || strings.HasPrefix(name, "serial")
}

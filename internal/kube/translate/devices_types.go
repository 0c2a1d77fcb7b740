// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// SetOverlay sets the devices that a NodeOverlay defines for new nodes; none: it does not define devices.
func (d *Devices) SetOverlay(name string, slices []devices.TypeSlice) {
	d.change(func(b *devices.Book) { d.setType(overlayKey(name), slices) })
}

// Learn records the devices of a node as those of new nodes of the same NodePool and instance type, and of the same
// instance type in NodePools without known nodes. A node with a NodePool is used once it is initialized. A driver that
// has not published all of its devices on the node is ignored, since it may be late or broken there. Records outlive
// their nodes. A node is recorded once, and again if its slices change; while a newer node of the same kind exists, only
// drivers without a record are added.
func (d *Devices) Learn(n *corev1.Node) {
	k := nodeKind{n.Labels[model.LabelNodePool], n.Labels[model.LabelInstanceType]}
	if k.instanceType == "" || k.pool != "" && n.Labels[model.LabelInitialized] != karpv1.LabelValueTrue {
		return
	}
	d.change(func(b *devices.Book) {
		if d.taught[n.Name] == k {
			return
		}
		published := b.SlicesOfNode(n.Name)
		if len(published) == 0 {
			return
		}
		d.taught[n.Name] = k
		other := nodeKind{"", k.instanceType}
		d.learn(k, d.news(k, n, published, d.learned[k]), d.news(other, n, published, b.TypeSlices(other.key())))
	})
}

// teacher is the newest node that a kind was learned from.
type teacher struct {
	node    string
	created time.Time
}

// news returns what a node has published of drivers that are not known, and of all if no newer node of the kind stands: attributes of devices may
// differ by node, and each node publishes again from time to time.
func (d *Devices) news(k nodeKind, n *corev1.Node, published, known []devices.TypeSlice) []devices.TypeSlice {
	x, ok := d.teachers[k]
	if !ok || x.node == n.Name || n.CreationTimestamp.After(x.created) {
		d.teachers[k] = teacher{n.Name, n.CreationTimestamp.Time}
		return published
	}
	return slices.DeleteFunc(slices.Clone(published), func(s devices.TypeSlice) bool { return hasDriver(known, s.Driver) })
}

// learn takes nodes to come of a kind, and those of its instance type in other pools, to have these devices, next to what is known of other
// drivers. What differs without consequence, such as the serial number of a device, is not learned again.
func (d *Devices) learn(k nodeKind, published, ofAny []devices.TypeSlice) {
	other := nodeKind{"", k.instanceType}
	ofOthers := d.book.TypeSlices(other.key())
	whole := withOtherDrivers(withOtherDrivers(published, d.learned[k]), ofOthers)
	changed := d.setType(k.key(), whole)
	if _, known := d.learned[k]; changed || !known {
		d.learned[k] = whole
	}
	d.setType(other.key(), withOtherDrivers(ofAny, ofOthers))
}

// withOtherDrivers adds to slices those of drivers that they have none of.
func withOtherDrivers(list, known []devices.TypeSlice) []devices.TypeSlice {
	out := slices.Clone(list)
	for i := range known {
		if !hasDriver(list, known[i].Driver) {
			out = append(out, known[i])
		}
	}
	slices.SortStableFunc(out, func(a, b devices.TypeSlice) int { return cmp.Compare(a.Driver, b.Driver) })
	return out
}

func hasDriver(list []devices.TypeSlice, driver string) bool {
	return slices.ContainsFunc(list, func(s devices.TypeSlice) bool { return s.Driver == driver })
}

// mostLearnedBytes bounds the text of Learned: a ConfigMap, which other things are kept in too, holds 1 MiB.
const mostLearnedBytes = 200 << 10

// learnedDevices are the devices of new nodes of a kind, in the format of Learned.
type learnedDevices struct {
	Pool         string              `json:"pool,omitempty"`
	InstanceType string              `json:"instanceType"`
	Slices       []devices.TypeSlice `json:"slices"`
}

// Learned returns the recorded devices, for Recall; empty if there are none. left is the number of kinds omitted because
// the text would be too long.
func (d *Devices) Learned() (text string, left int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kinds := slices.SortedFunc(maps.Keys(d.learned), func(a, b nodeKind) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.instanceType, b.instanceType))
	})
	var list []json.RawMessage
	size := 0
	for _, k := range kinds {
		b, err := json.Marshal(learnedDevices{k.pool, k.instanceType, d.learned[k]})
		if err != nil {
			return "", 0, fmt.Errorf("write the devices of instance type %s: %w", k.instanceType, err)
		}
		if size += len(b) + 1; size > mostLearnedBytes {
			break
		}
		list = append(list, b)
	}
	if list == nil {
		return "", len(kinds), nil
	}
	whole, err := json.Marshal(list)
	return string(whole), len(kinds) - len(list), err
}

// Recall restores the records of an earlier process. Existing records are kept.
func (d *Devices) Recall(text string) error {
	var list []learnedDevices
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return fmt.Errorf("read the devices of instance types: %w", err)
	}
	d.change(func(*devices.Book) {
		for _, x := range list {
			k := nodeKind{x.Pool, x.InstanceType}
			if _, known := d.learned[k]; !known && k.instanceType != "" && len(x.Slices) > 0 {
				d.learn(k, x.Slices, x.Slices)
			}
		}
	})
	return nil
}

// ForgetNode removes a deleted node, but keeps its records.
func (d *Devices) ForgetNode(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.taught, name)
	delete(d.given, name)
	delete(d.plugin, name)
	maps.DeleteFunc(d.teachers, func(_ nodeKind, x teacher) bool { return x.node == name })
}

// ForgetPool removes a deleted NodePool. The records of its nodes remain valid for their instance types if no other
// NodePool has records.
func (d *Devices) ForgetPool(pool string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, published := range d.learned {
		if k.pool != pool || pool == "" {
			continue
		}
		delete(d.learned, k)
		delete(d.teachers, k)
		d.setType(k.key(), nil)
		others := false
		for other := range d.learned {
			others = others || other.instanceType == k.instanceType
		}
		if !others {
			d.learned[nodeKind{"", k.instanceType}] = published
		}
	}
	d.note()
}

// setType sets the devices of new nodes in the book, and reports whether their amounts may have changed.
func (d *Devices) setType(key string, slices []devices.TypeSlice) bool {
	if !d.book.SetType(key, slices) {
		return false
	}
	d.stale.Types = true
	return true
}

// nodeKind is what nodes with the same devices have in common.
type nodeKind struct{ pool, instanceType string } // the pool empty: any

func (k nodeKind) key() string { return "learned/" + k.pool + "/" + k.instanceType }

func overlayKey(name string) string { return "overlay/" + name }

// OfType returns the expected number of devices of a new node by NodePool and instance type, by resource: from a
// NodeOverlay, otherwise published by nodes of the type, preferably of the same NodePool. Until a driver has published,
// known properties of EC2 instance types and the provider's values are used for it.
func (d *Devices) OfType(pool string, t *model.InstanceType) map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.DeviceOverlay != "" {
		return d.book.OfType(overlayKey(t.DeviceOverlay))
	}
	for _, k := range []nodeKind{{pool, t.Name}, {"", t.Name}} {
		published := d.book.TypeSlices(k.key())
		if published == nil {
			continue
		}
		sum := map[string]int64{}
		maps.Copy(sum, d.book.OfType(k.key()))
		if !hasDriver(published, ec2Driver) {
			addTo(sum, d.ofEC2(t))
		}
		addTo(sum, d.ofProvider(t, published))
		return sum
	}
	if len(t.DriverGPUs) == 0 {
		return d.ofEC2(t)
	}
	return d.ofProvider(t, nil)
}

func addTo(sum, more map[string]int64) {
	for name, v := range more {
		sum[name] += v
	}
}

// ofProvider returns the devices that the provider of an instance type says its drivers will publish, but for those of drivers that have published.
func (d *Devices) ofProvider(t *model.InstanceType, published []devices.TypeSlice) map[string]int64 {
	sum := map[string]int64{}
	for driver, n := range t.DriverGPUs {
		if hasDriver(published, driver) || n < 1 || n > resourceapi.ResourceSliceMaxDevices {
			continue
		}
		key := fmt.Sprintf("provider/%s/%d", driver, n)
		if !d.built[key] {
			d.built[key] = true
			d.setType(key, []devices.TypeSlice{gpuSlice(driver, int(n), nil, nil)})
			d.note()
		}
		addTo(sum, d.book.OfType(key))
	}
	return sum
}

// gpuSlice returns devices of type gpu of a driver, with what else is known of them.
func gpuSlice(driver string, n int, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) devices.TypeSlice {
	of := "gpu"
	all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": {StringValue: &of}}
	maps.Copy(all, attributes)
	out := devices.TypeSlice{Driver: driver}
	for i := range n {
		out.Devices = append(out.Devices, resourceapi.Device{Name: "gpu-" + strconv.Itoa(i), Attributes: all, Capacity: capacity})
	}
	return out
}

// ec2Driver is NVIDIA's DRA driver.
const ec2Driver = "gpu.nvidia.com"

// ofEC2 returns the devices of an EC2 instance type with NVIDIA GPUs, by its labels, as NVIDIA's DRA driver publishes them: one for each GPU. Of
// what the driver says of a GPU only the type, the product and the memory are known before a node has come.
func (d *Devices) ofEC2(t *model.InstanceType) map[string]int64 {
	if t.Labels[awsv1.LabelInstanceGPUManufacturer] != "nvidia" {
		return nil
	}
	name, count, memory := t.Labels[awsv1.LabelInstanceGPUName], t.Labels[awsv1.LabelInstanceGPUCount], t.Labels[awsv1.LabelInstanceGPUMemory]
	key := "ec2/" + name + "/" + count + "/" + memory
	if !d.built[key] {
		d.built[key] = true
		n, err := strconv.Atoi(count)
		mib, memoryErr := strconv.ParseInt(memory, 10, 64)
		if err != nil || memoryErr != nil || n < 1 || n > resourceapi.ResourceSliceMaxDevices {
			return nil
		}
		product := "NVIDIA " + strings.ToUpper(name)
		d.setType(key, []devices.TypeSlice{gpuSlice(ec2Driver, n, map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: &product}},
			map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *resource.NewQuantity(mib<<20, resource.BinarySI)}})})
		d.note()
	}
	return d.book.OfType(key)
}

// DevicesOfTypes returns a source of the devices of instance types as resources.
func (t *Translator) DevicesOfTypes(d *Devices) state.DeviceSource { return typeDevices{t, d} }

type typeDevices struct {
	t *Translator
	d *Devices
}

// OfType implements state.DeviceSource. An extended resource of a DeviceClass exists if a driver will publish its
// devices, or a device plugin will register it.
func (x typeDevices) OfType(pool string, t *model.InstanceType) model.Resources {
	amounts := x.d.OfType(pool, t)
	if registered := x.d.ofPlugins(x.t.pluginsOf(t.Allocatable)); len(registered) > 0 {
		maps.Copy(registered, amounts)
		amounts = registered
	}
	return x.t.withAmounts(nil, amounts)
}

func (d *Devices) ofPlugins(registered map[string]int64) map[string]int64 {
	if len(registered) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.OfPlugins(registered)
}

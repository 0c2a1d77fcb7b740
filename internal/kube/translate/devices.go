// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Devices are the devices of dynamic resource allocation in a cluster, and the claims of pods on them. It is safe for
// concurrent use.
type Devices struct {
	changed chan struct{}

	mu     sync.Mutex
	book   *devices.Book
	pods   map[string]claimant         // pods with claims or with extended resources that a DeviceClass stands for, by namespace/name
	taken  map[string]map[string]int64 // by node and resource: what the pods there count for
	given  map[string]map[string]int64 // by node: what OfNode returned last
	plugin map[string]map[string]int64 // by node: extended resources that device plugins have registered
	taught map[string]nodeKind         // by the name of a node that was learned from
	stale  DeviceChanges

	missing string // SetMissing

	learned  map[nodeKind][]devices.TypeSlice // what nodes have published
	teachers map[nodeKind]teacher             // the newest nodes that were learned from
	built    map[string]bool                  // of EC2's instance types: keys in the book, or that have no devices
}

// claimant is a pod that needs devices.
type claimant struct {
	pod     *corev1.Pod
	node    string // that it is bound to or has its devices on; empty: none
	amounts map[string]int64
}

// DeviceChanges are the objects to translate again.
type DeviceChanges struct {
	All         bool // all pods with claims, all nodes and all instance types
	Types       bool // all instance types
	Pods, Nodes map[string]bool
}

// IsEmpty reports whether there is nothing to translate again.
func (x DeviceChanges) IsEmpty() bool { return !x.All && !x.Types && len(x.Pods)+len(x.Nodes) == 0 }

// NewDevices returns Devices without objects.
func NewDevices() *Devices {
	return &Devices{changed: make(chan struct{}, 1), book: devices.New(), pods: map[string]claimant{}, taken: map[string]map[string]int64{}, given: map[string]map[string]int64{}, plugin: map[string]map[string]int64{}, taught: map[string]nodeKind{}, learned: map[nodeKind][]devices.TypeSlice{}, teachers: map[nodeKind]teacher{}, built: map[string]bool{}}
}

// SetMissing sets why devices cannot be read, with the remedy; empty: they can be read.
func (d *Devices) SetMissing(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.missing == why {
		return
	}
	d.missing = why
	d.stale.All = true
	d.note()
}

// Missing returns the reason set by SetMissing. Without devices, the claims of pods are unknown.
func (d *Devices) Missing() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missing
}

// Changed returns a channel that receives a value when Stale has something to return.
func (d *Devices) Changed() <-chan struct{} { return d.changed }

// Stale returns what to translate again since the last call, except for the objects just added. Nodes with unchanged
// results of OfNode are omitted.
func (d *Devices) Stale() DeviceChanges {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.stale
	d.stale = DeviceChanges{}
	maps.DeleteFunc(out.Nodes, func(name string, _ bool) bool {
		given, ok := d.given[name]
		return ok && maps.Equal(given, d.ofNode(name))
	})
	return out
}

// IsAllStale reports whether Stale will return everything: nodes and instance types lack resources that pods request
// now.
func (d *Devices) IsAllStale() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stale.All
}

// change takes in a change of an object other than a pod or a node.
func (d *Devices) change(set func(*devices.Book)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set(d.book)
	d.note()
}

// note records the changes of the book. Pods with changed claims are processed at once: a node must not seem to have
// fewer devices because some were just allocated to a pod that will run there.
func (d *Devices) note() {
	for again := true; again; {
		x := d.book.Changes()
		for _, key := range x.Pods {
			if c, ok := d.pods[key]; ok {
				d.count(key, c.pod, d.book.OfPod(c.pod))
				d.stale.Pods = with(d.stale.Pods, key)
			}
		}
		for _, name := range x.Nodes {
			d.stale.Nodes = with(d.stale.Nodes, name)
		}
		d.stale.All = d.stale.All || x.All
		again = len(x.Pods) > 0 // what they request may be new
	}
	if !d.stale.IsEmpty() {
		select {
		case d.changed <- struct{}{}:
		default:
		}
	}
}

func with(set map[string]bool, key string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[key] = true
	return set
}

// count counts a pod with claims on the node that it is bound to or has its devices on, in place of what was counted for it.
func (d *Devices) count(key string, p *corev1.Pod, need devices.Need) {
	d.uncount(key)
	c := claimant{p, cmp.Or(p.Spec.NodeName, need.Node), need.Amounts}
	d.pods[key] = c
	d.add(c, 1)
}

func (d *Devices) uncount(key string) {
	if c, ok := d.pods[key]; ok {
		d.add(c, -1)
		delete(d.pods, key)
	}
}

func (d *Devices) add(c claimant, times int64) {
	if c.node == "" || len(c.amounts) == 0 {
		return
	}
	if d.taken[c.node] == nil {
		d.taken[c.node] = map[string]int64{}
	}
	for name, v := range c.amounts {
		if d.taken[c.node][name] += v * times; d.taken[c.node][name] == 0 {
			delete(d.taken[c.node], name)
		}
	}
	if len(d.taken[c.node]) == 0 {
		delete(d.taken, c.node)
	}
	d.stale.Nodes = with(d.stale.Nodes, c.node)
}

// SetExtendedUnserved sets whether extended resources of a DeviceClass are disabled by a feature gate that is off by
// default.
func (d *Devices) SetExtendedUnserved(unserved bool) {
	d.change(func(b *devices.Book) { b.SetExtendedUnserved(unserved) })
}

// SetDeviceClass adds, changes or (nil) removes a DeviceClass.
func (d *Devices) SetDeviceClass(name string, x *resourceapi.DeviceClass) {
	d.change(func(b *devices.Book) { b.SetClass(name, x) })
}

// SetSlice adds, changes or (nil) removes a ResourceSlice.
func (d *Devices) SetSlice(name string, x *resourceapi.ResourceSlice) {
	d.change(func(b *devices.Book) {
		if b.SetSlice(name, x) && x != nil && x.Spec.NodeName != nil {
			delete(d.taught, *x.Spec.NodeName)
		}
	})
}

// SetDeviceTaintRule adds, changes or (nil) removes a DeviceTaintRule.
func (d *Devices) SetDeviceTaintRule(name string, x *resourceapi.DeviceTaintRule) {
	d.change(func(b *devices.Book) {
		if b.SetTaintRule(name, x) {
			d.stale.Types = true
		}
	})
}

// SetResourceClaim adds, changes or (nil) removes a ResourceClaim by namespace/name.
func (d *Devices) SetResourceClaim(key string, x *resourceapi.ResourceClaim) {
	d.change(func(b *devices.Book) { b.SetClaim(key, x) })
}

// SetResourceClaimTemplate adds, changes or (nil) removes a ResourceClaimTemplate by namespace/name.
func (d *Devices) SetResourceClaimTemplate(key string, x *resourceapi.ResourceClaimTemplate) {
	d.change(func(b *devices.Book) { b.SetTemplate(key, x) })
}

// OfPod returns the devices that a pod needs, and remembers the pod.
func (d *Devices) OfPod(p *corev1.Pod) devices.Need {
	key := Key(p)
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		d.ForgetPod(key)
		return devices.Need{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.Name == "" {
		p = ofTemplate(p)
		key = Key(p)
	}
	need := d.book.OfPod(p)
	if len(p.Spec.ResourceClaims) == 0 && need.Extended == nil {
		d.uncount(key)
	} else {
		d.count(key, p, need)
	}
	d.note()
	return need
}

// ofTemplate returns a pod that stands for all pods of a namespace that are made of templates with the same claims by one kind of controller.
// It is never forgotten: they are few, and which devices are told apart must not change each time that one is looked at.
func ofTemplate(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "template", OwnerReferences: p.OwnerReferences}}
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		out.Name += "/" + o.Kind
	}
	out.Spec.ResourceClaims = p.Spec.ResourceClaims
	out.Spec.Containers, out.Spec.InitContainers = p.Spec.Containers, p.Spec.InitContainers
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		for _, name := range []*string{&c.Name, c.ResourceClaimName, c.ResourceClaimTemplateName} {
			out.Name += "/"
			if name != nil {
				out.Name += *name
			}
		}
	}
	if !devices.RequestsExtended(p) {
		return out
	}
	requests := podresources.PodRequests(p, podresources.PodResourcesOptions{})
	for _, name := range sortedNames(requests) {
		if v := requests[name]; devices.IsExtended(string(name)) {
			out.Name += fmt.Sprintf("/%s=%d", name, v.Value())
		}
	}
	return out
}

// IsTemplateKey reports whether a key of DeviceChanges.Pods stands for pods created from a template.
func IsTemplateKey(key string) bool { return strings.Count(key, "/") > 1 }

// ForgetPod removes a pod by namespace/name.
func (d *Devices) ForgetPod(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.pods[key]; ok {
		d.uncount(key)
		d.book.ForgetPod(key)
		d.note()
	}
}

// OfNode returns the total number of devices for pods on a node, free or in use, by resource. For an extended resource
// that a device plugin registered there (see plugins), the node has only the plugin's.
func (d *Devices) OfNode(name string, plugins map[string]int64) map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(plugins) > 0 {
		d.plugin[name] = plugins
	} else {
		delete(d.plugin, name)
	}
	d.given[name] = d.ofNode(name)
	return maps.Clone(d.given[name])
}

func (d *Devices) ofNode(name string) map[string]int64 {
	out := maps.Clone(d.book.OfNode(name))
	for resource, v := range d.taken[name] {
		if out == nil {
			out = map[string]int64{}
		}
		out[resource] += v
	}
	for resource, v := range d.book.OfPlugins(d.plugin[name]) {
		if out == nil {
			out = map[string]int64{}
		}
		out[resource] = v
	}
	return out
}

// pluginsOf returns the extended resources among the amounts of a node or an instance type.
func (t *Translator) pluginsOf(r model.Resources) map[string]int64 {
	var out map[string]int64
	names := t.Table.Names()
	for d := int(model.FirstExtended); d < min(len(r), len(names)); d++ {
		if r[d] > 0 && devices.IsExtended(names[d]) && !model.IsDevice(names[d]) {
			if out == nil {
				out = map[string]int64{}
			}
			out[names[d]] = r[d]
		}
	}
	return out
}

// withAmounts adds amounts of resources by their names. What is one name too many, which no pod requests then, is left out.
func (t *Translator) withAmounts(r model.Resources, amounts map[string]int64) model.Resources {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if v := amounts[name]; v != 0 {
			if d, ok := t.Table.DimOfPod(name); ok {
				r = r.AddInto(model.Resources(nil).With(d, v), 1)
			}
		}
	}
	return r
}

// devicesText writes the amounts of devices among resources by their names, as an annotation has them; empty: there are none.
func (t *Translator) devicesText(r model.Resources) string {
	amounts := map[string]int64{}
	for d, name := range t.Table.Names() {
		if v := r.At(model.Dim(d)); v != 0 && model.IsDevice(name) {
			amounts[name] = v
		}
	}
	if len(amounts) == 0 {
		return ""
	}
	b, err := json.Marshal(amounts)
	if err != nil {
		return "" // a map of numbers can be written
	}
	return string(b)
}

// withDevices adds the amounts written by devicesText. Invalid text is ignored.
func (t *Translator) withDevices(r model.Resources, text string) model.Resources {
	var amounts map[string]int64
	if text == "" || json.Unmarshal([]byte(text), &amounts) != nil {
		return r
	}
	maps.DeleteFunc(amounts, func(name string, v int64) bool {
		return v <= 0 || v > mostDevices || !model.IsDevice(name) || t.isDisused(name)
	})
	return t.withAmounts(r, amounts)
}

// isDisused reports whether a resource is of devices that no pod requests any more: nodes have no amounts of it, and nothing may wait for one.
func (t *Translator) isDisused(name string) bool {
	if !model.IsDevice(name) {
		return false
	}
	if t.Lookup == nil || t.Lookup.Devices() == nil {
		return true
	}
	d := t.Lookup.Devices()
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.book.Counts(name)
}

// mostDevices is how many devices of a kind an annotation may say that a node has.
const mostDevices = 1 << 20

// DeviceAnnotations adds the number of devices that the node has for pods to the annotations of a NodeClaim.
func (t *Translator) DeviceAnnotations(annotations map[string]string, allocatable model.Resources) map[string]string {
	text := t.devicesText(allocatable)
	if text == "" {
		return annotations
	}
	out := map[string]string{AnnotationDevices: text}
	maps.Copy(out, annotations)
	return out
}

// resourceClaims adds to a class what a pod needs of devices, but for where it must go and which pods it is kept apart from. Extended resources
// that a DeviceClass stands for are counted as devices in place of themselves.
func (t *Translator) resourceClaims(c *model.Class, p *corev1.Pod) devices.Need {
	claims := len(p.Spec.ResourceClaims) > 0
	if !claims && !devices.RequestsExtended(p) {
		return devices.Need{}
	}
	c.HasClaims = claims
	var known *Devices
	missing := "devices were not read"
	if t.Lookup != nil {
		if known = t.Lookup.Devices(); known != nil {
			missing = known.Missing()
		}
	}
	if missing != "" {
		if claims {
			c.Unsolved = append(c.Unsolved, "spec.resourceClaims: "+missing)
		}
		return devices.Need{}
	}
	need := known.OfPod(p)
	c.HasClaims, c.OnlyExtended = claims || need.Extended != nil, !claims && need.Extended != nil
	field := c.ClaimsField() + ": "
	for _, why := range need.Unsupported {
		c.Unsolved = append(c.Unsolved, field+why)
	}
	for _, name := range slices.Sorted(maps.Keys(need.Amounts)) {
		d, ok := t.Table.DimOfPod(name)
		switch {
		case need.Amounts[name] == 0:
		case ok:
			c.Requests = c.Requests.AddInto(model.Resources(nil).With(d, need.Amounts[name]), 1)
		default:
			c.Unsolved = append(c.Unsolved, fmt.Sprintf("%stoo many kinds of devices, %s is not evaluated", field, name))
		}
	}
	return need
}

// withoutExtended leaves out extended resources that are counted as devices.
func (t *Translator) withoutExtended(r model.Resources, need devices.Need) model.Resources {
	for name := range need.Extended {
		if d, ok := t.Table.DimOfPod(name); ok && r.At(d) != 0 {
			r = r.With(d, 0)
		}
	}
	return r
}

// withClaims adds the device requests of claims to a class key without devices.
func withClaims(key, claims string) string {
	if claims == "" {
		return key
	}
	return key + " " + claims
}

// within returns the terms of node affinity that hold where some of these terms and all of the selectors match.
func within(terms []model.NodeTerm, selectors []corev1.NodeSelector) []model.NodeTerm {
	for i := range selectors {
		if len(terms) == 0 {
			terms = []model.NodeTerm{{}}
		}
		var both []model.NodeTerm
		for _, base := range terms {
			for j := range selectors[i].NodeSelectorTerms {
				if term, ok, err := nodeTerm(&selectors[i].NodeSelectorTerms[j], base, false); err == nil && ok {
					both = append(both, term)
				}
			}
		}
		if len(both) == 0 {
			both = []model.NodeTerm{{Names: never()}}
		}
		terms = both
	}
	return terms
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

const driver = "gpu.example.com"

// world is what a Book is told, for the allocator to read too.
type world struct {
	classes   map[string]*resourceapi.DeviceClass
	slices    []*resourceapi.ResourceSlice
	templates []*resourceapi.ResourceClaimTemplate
	claims    []*resourceapi.ResourceClaim
	rules     []*resourceapi.DeviceTaintRule
}

func (w *world) tell(b *Book) {
	for name, c := range w.classes {
		b.SetClass(name, c)
	}
	for i, s := range w.slices {
		if i == 1 {
			w.tellRules(b) // some slices come before, some after
		}
		b.SetSlice(s.Name, s)
	}
	w.tellRules(b)
	for _, t := range w.templates {
		b.SetTemplate(t.Namespace+"/"+t.Name, t)
	}
	for _, c := range w.claims {
		b.SetClaim(c.Namespace+"/"+c.Name, c)
	}
}

func (w *world) tellRules(b *Book) {
	for _, r := range w.rules {
		b.SetTaintRule(r.Name, r)
	}
}

// published are the slices with the taints that rules add, as kube-scheduler sees them.
func (w *world) published() []*resourceapi.ResourceSlice {
	var list []*resourceapi.ResourceSlice
	for _, s := range w.slices {
		s = s.DeepCopy()
		for _, r := range w.rules {
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				if x := r.Spec.DeviceSelector; x != nil && (x.Driver == nil || *x.Driver == s.Spec.Driver) && (x.Pool == nil || *x.Pool == s.Spec.Pool.Name) && (x.Device == nil || *x.Device == d.Name) {
					d.Taints = append(d.Taints, r.Spec.Taint)
				}
			}
		}
		list = append(list, s)
	}
	return list
}

// state is what the claims of the world have, computed without a Book.
func (w *world) state() structured.AllocatedState {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for _, c := range w.claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
			case r.ShareID == nil:
				state.AllocatedDevices.Insert(id)
			default:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		}
	}
	return state
}

// allocate lets the allocator find devices for claims on a node, all at once. It returns false if there are none. What it finds is added to
// the claims of the world.
func (w *world) allocate(node string, claims ...*resourceapi.ResourceClaim) (bool, error) {
	ctx := klog.NewContext(context.Background(), logr.Discard())
	allocator, err := structured.NewAllocator(ctx, features, w.state(), classes(w.classes), w.published(), New().expressions)
	if err != nil {
		return false, err
	}
	found, err := allocator.Allocate(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, claims)
	if err != nil || found == nil {
		return false, err
	}
	for i, c := range claims {
		c = c.DeepCopy()
		c.Status.Allocation = &found[i]
		w.claims = append(w.claims, c)
	}
	return true, nil
}

func class(name string, selectors ...string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Selectors = selectorsOf(selectors...)
	return c
}

func selectorsOf(expressions ...string) []resourceapi.DeviceSelector {
	var list []resourceapi.DeviceSelector
	for _, e := range expressions {
		list = append(list, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return list
}

func exactly(name, class string, count int64, selectors ...string) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, Selectors: selectorsOf(selectors...),
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}}
}

func template(name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaimTemplate {
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	t.Spec.Spec.Devices.Requests = requests
	return t
}

func device(name, model, memory string) resourceapi.Device {
	return resourceapi.Device{Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}}}
}

func sliceOn(node, pool string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + pool}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}, NodeName: &node, Devices: devices}
	return s
}

// podOf is a pod with one claim of each template.
func podOf(name string, templates ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, t := range templates {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: t, ResourceClaimTemplateName: &t})
	}
	return p
}

// claimsOf are the claims that the control plane would create for a pod.
func (w *world) claimsOf(p *corev1.Pod) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for i, r := range p.Spec.ResourceClaims {
		at := slices.IndexFunc(w.templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Name == *r.ResourceClaimTemplateName })
		yes := true
		list = append(list, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("%s-%d", p.Name, i),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes}}}, Spec: *w.templates[at].Spec.Spec.DeepCopy()})
	}
	if c := w.claimOfExtended(p); c != nil {
		list = append(list, c)
	}
	return list
}

// claimOfExtended is the claim that kube-scheduler would create for the extended resources of a pod; nil: none.
func (w *world) claimOfExtended(p *corev1.Pod) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-extended", Annotations: map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}}}
	for i := range p.Spec.Containers {
		for name, n := range p.Spec.Containers[i].Resources.Requests {
			if of := w.standsFor(string(name)); of != "" {
				c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, exactly(fmt.Sprintf("container-%d-%d", i, len(c.Spec.Devices.Requests)), of, n.Value()))
			}
		}
	}
	if c.Spec.Devices.Requests == nil {
		return nil
	}
	return c
}

// standsFor is the class that stands for an extended resource; empty: none.
func (w *world) standsFor(resource string) string {
	best := ""
	for name, c := range w.classes {
		if resource == resourceapi.ResourceDeviceClassPrefix+name {
			return name
		}
		if c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName == resource && (best == "" || name < best) {
			best = name
		}
	}
	return best
}

// withExtended is a pod of which each container requests so many of an extended resource.
func withExtended(p *corev1.Pod, name string, counts ...int64) *corev1.Pod {
	for i, n := range counts {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceName(name): *resource.NewQuantity(n, resource.DecimalSI)}}})
	}
	return p
}

// drawExtended draws a pod with an extended resource, which a class may stand for, and perhaps a claim.
func drawExtended(t *rapid.T, w *world, name string) *corev1.Pod {
	var templates []string
	if rapid.IntRange(0, 3).Draw(t, "a claim too") == 0 {
		templates = []string{rapid.SampledFrom(w.templates).Draw(t, "template").Name}
	}
	of := rapid.SampledFrom([]string{"example.com/class0", "example.com/class1", resourceapi.ResourceDeviceClassPrefix + "class0", resourceapi.ResourceDeviceClassPrefix + "class1"}).Draw(t, "extended resource")
	return withExtended(podOf(name, templates...), of, rapid.SampledFrom([][]int64{{1}, {2}, {1, 1}}).Draw(t, "counts")...)
}

var (
	classSelectors   = []string{"true", "true", `device.driver == "gpu.example.com"`, `device.driver == "nic.example.com"`, `device.attributes[device.driver].model == "a"`}
	requestSelectors = []string{`device.attributes[device.driver].model == "a"`, `device.attributes[device.driver].model != "b"`,
		`device.capacity[device.driver].memory.compareTo(quantity("40Gi")) >= 0`, `device.capacity[device.driver].memory.compareTo(quantity("40Gi")) <= 0`}
)

func drawWorld(t *rapid.T) *world {
	w := &world{classes: map[string]*resourceapi.DeviceClass{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "classes") {
		name := fmt.Sprintf("class%d", i)
		w.classes[name] = class(name, rapid.SampledFrom(classSelectors).Draw(t, "selector"))
		if extended := rapid.SampledFrom([]string{"", "example.com/" + name, "example.com/class0"}).Draw(t, "stands for"); extended != "" {
			w.classes[name].Spec.ExtendedResourceName = &extended
		}
	}
	odd := rapid.SampledFrom([]bool{false, false, true}).Draw(t, "odd devices")
	for n := range rapid.IntRange(1, 2).Draw(t, "nodes") {
		for p := range rapid.SampledFrom([]int{2, 1}).Draw(t, "pools") {
			drawPool(t, w, fmt.Sprintf("node%d", n), p, odd)
		}
	}
	if rapid.SampledFrom([]bool{false, false, false, false, false, true}).Draw(t, "network devices") {
		s := sliceOn("x", "shared", drawDevice(t, "net0", false))
		s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
		w.slices = append(w.slices, s)
	}
	for i := range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "rules") {
		r := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule%d", i)}}
		r.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
		if rapid.IntRange(0, 5).Draw(t, "selects devices") > 0 {
			r.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
			if rapid.Bool().Draw(t, "of a driver") {
				r.Spec.DeviceSelector.Driver = new("nic.example.com")
			}
			if rapid.Bool().Draw(t, "of a pool") {
				r.Spec.DeviceSelector.Pool = new("node0-0")
			}
			if rapid.Bool().Draw(t, "of a name") {
				r.Spec.DeviceSelector.Device = new("d0")
			}
		}
		w.rules = append(w.rules, r)
	}
	for i := range rapid.SampledFrom([]int{3, 2, 4, 1}).Draw(t, "templates") {
		w.templates = append(w.templates, drawTemplate(t, w, fmt.Sprintf("t%d", i)))
	}
	return w
}

func drawPool(t *rapid.T, w *world, node string, p int, odd bool) {
	pool := fmt.Sprintf("%s-%d", node, p)
	var made []*resourceapi.ResourceSlice
	next := 0
	counters := odd && rapid.Bool().Draw(t, "counters")
	for i := range rapid.SampledFrom([]int{2, 1}).Draw(t, "slices") {
		s := sliceOn(node, pool)
		s.Name = fmt.Sprintf("%s-%d", pool, i)
		s.Spec.Driver = []string{driver, "nic.example.com"}[p]
		for range rapid.SampledFrom([]int{3, 3, 2, 1, 0}).Draw(t, "devices") {
			d := drawDevice(t, fmt.Sprintf("d%d", next), odd)
			if counters && rapid.Bool().Draw(t, "consumes") {
				d.AllowMultipleAllocations = nil
				d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{
					"slots": {Value: resource.MustParse(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "slots"))}}}}
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
			next++
		}
		made = append(made, s)
	}
	if counters {
		s := sliceOn(node, pool)
		s.Name, s.Spec.Driver = pool+"-c", made[0].Spec.Driver
		s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"slots": {Value: resource.MustParse("3")}}}}
		made = append(made, s)
	}
	for _, s := range made {
		s.Spec.Pool.ResourceSliceCount = int64(len(made))
	}
	switch rapid.SampledFrom([]int{9, 9, 9, 9, 9, 0, 1, 2, 3, 4}).Draw(t, "damage") {
	case 0:
		made[0].Spec.Pool.Generation = 2 // the others are out of date: incomplete unless it is alone
	case 1:
		for _, s := range made {
			s.Spec.Pool.ResourceSliceCount++
		}
	case 2:
		last := made[len(made)-1]
		last.Spec.Devices = append(last.Spec.Devices, device("d0", "a", "16Gi")) // a name that may be taken
	case 3:
		old := sliceOn(node, pool, device("old", "a", "80Gi"))
		old.Name, old.Spec.Driver, old.Spec.Pool.Generation = pool+"-old", made[0].Spec.Driver, 0
		made = append(made, old)
	case 4:
		if counters {
			made[len(made)-1].Spec.SharedCounters[0].Name = "other"
		}
	}
	w.slices = append(w.slices, made...)
}

func drawDevice(t *rapid.T, name string, odd bool) resourceapi.Device {
	d := device(name, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "model"), rapid.SampledFrom([]string{"16Gi", "40Gi", "80Gi"}).Draw(t, "memory"))
	if rapid.SampledFrom([]bool{false, false, false, false, false, false, false, false, false, true}).Draw(t, "no model") {
		delete(d.Attributes, "model") // selectors fail on it
	}
	if rapid.SampledFrom([]bool{false, false, false, false, false, false, true}).Draw(t, "taint") {
		d.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: rapid.SampledFrom([]resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoSchedule,
			resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone}).Draw(t, "effect")}}
	}
	if odd && rapid.SampledFrom([]bool{false, false, true}).Draw(t, "several claims") {
		d.AllowMultipleAllocations = new(true)
	}
	return d
}

func drawTemplate(t *rapid.T, w *world, name string) *resourceapi.ResourceClaimTemplate {
	made := template(name)
	for i := range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "requests") {
		of := fmt.Sprintf("class%d", rapid.IntRange(0, len(w.classes)-1).Draw(t, "class"))
		r := exactly(fmt.Sprintf("r%d", i), of, rapid.SampledFrom([]int64{1, 1, 2, 0}).Draw(t, "count"))
		if rapid.Bool().Draw(t, "selects") {
			r.Exactly.Selectors = selectorsOf(rapid.SampledFrom(requestSelectors).Draw(t, "selector"))
		}
		if rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "tolerates") {
			r.Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists}}
		}
		switch rapid.SampledFrom([]int{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0, 1, 2, 3, 4}).Draw(t, "form") {
		case 0:
			r.Exactly.AdminAccess = new(true)
		case 1:
			r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
		case 2:
			r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("20Gi")}}
		case 3:
			r = resourceapi.DeviceRequest{Name: r.Name, FirstAvailable: []resourceapi.DeviceSubRequest{
				{Name: "first", DeviceClassName: of, Selectors: selectorsOf(requestSelectors[0]), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
				{Name: "second", DeviceClassName: of, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2}}}
		case 4:
			made.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName(driver + "/model"))}}
		}
		if r.Exactly != nil && r.Exactly.Count == 0 && r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeExactCount {
			r.Exactly.Count = 1
			if rapid.Bool().Draw(t, "defaults") {
				r.Exactly.AllocationMode, r.Exactly.Count = "", 0
			}
		}
		made.Spec.Spec.Devices.Requests = append(made.Spec.Spec.Devices.Requests, r)
	}
	return made
}

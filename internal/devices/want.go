// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

var celFeatures = cel.Features{EnableConsumableCapacity: true}

// want is what a request demands of each of its devices.
type want struct {
	key         string // of class, selectors and tolerations, and of the extended resource
	base        string // key without the extended resource
	extended    string // resource that the class stands for; empty: it is a claim's request
	class       string
	selectors   []resourceapi.DeviceSelector // of the request; those of the class come first
	tolerations []resourceapi.DeviceToleration
	number      int               // of this Book, in order of creation
	faults      map[string]string // slice -> error of a selector on one of its devices
}

// name is the name of the resource of the devices that satisfy a want.
func (w *want) name() string {
	if w.extended != "" {
		return Prefix + w.extended
	}
	if len(w.selectors) == 0 && len(w.tolerations) == 0 {
		return Prefix + w.class
	}
	return Prefix + w.class + "#" + shortHash(w.key)
}

func newWant(class string, selectors []resourceapi.DeviceSelector, tolerations []resourceapi.DeviceToleration) *want {
	w := &want{class: class, selectors: selectors}
	for _, t := range tolerations {
		t.TolerationSeconds = nil // says when a pod is evicted, not where it may go
		w.tolerations = append(w.tolerations, t)
	}
	w.key = class
	if len(w.selectors) > 0 || len(w.tolerations) > 0 {
		text, _ := json.Marshal(struct {
			S []resourceapi.DeviceSelector
			T []resourceapi.DeviceToleration
		}{w.selectors, w.tolerations})
		w.key += "\n" + string(text)
	}
	w.base = w.key
	return w
}

// ask is a request of a claim: one want, or the alternatives of firstAvailable.
type ask struct {
	name  string
	wants []*want
	admin bool // consumes nothing
}

// asks are the requests of one claim.
type asks struct {
	list    []ask
	counts  map[*want]int64         // devices by want, if simple
	simple  bool                    // exact counts of single devices, without conditions among them
	devices resourceapi.DeviceClaim // as the allocator reads them, without configuration
	faults  []string                // what is wrong with them whatever the cluster has
}

// asksOf reads the spec of a claim. The API server's defaults are applied.
func asksOf(spec *resourceapi.ResourceClaimSpec) *asks {
	a := &asks{simple: len(spec.Devices.Constraints) == 0, counts: map[*want]int64{}, devices: *spec.Devices.DeepCopy()}
	a.devices.Config = nil
	var total int64
	for i := range a.devices.Requests {
		r := &a.devices.Requests[i]
		this := ask{name: r.Name}
		switch e := r.Exactly; {
		case len(r.FirstAvailable) > 0:
			a.simple = false
			for j := range r.FirstAvailable {
				s := &r.FirstAvailable[j]
				setDefaults(&s.AllocationMode, &s.Count)
				this.wants = append(this.wants, newWant(s.DeviceClassName, s.Selectors, s.Tolerations))
			}
		case e == nil:
			a.faults = append(a.faults, fmt.Sprintf("request %s: neither exactly nor firstAvailable is set; set one of them", r.Name))
		default:
			setDefaults(&e.AllocationMode, &e.Count)
			w := newWant(e.DeviceClassName, e.Selectors, e.Tolerations)
			this.wants = []*want{w}
			switch {
			case e.AdminAccess != nil && *e.AdminAccess:
				this.admin = true
			case e.AllocationMode != resourceapi.DeviceAllocationModeExactCount || e.Capacity != nil:
				a.simple = false
			default:
				a.counts[w] += e.Count
				total += e.Count
			}
		}
		a.list = append(a.list, this)
	}
	if total > resourceapi.AllocationResultsMaxSize {
		a.faults = append(a.faults, fmt.Sprintf("requests %d devices, at most %d can be allocated to one claim; use several claims", total, resourceapi.AllocationResultsMaxSize))
	}
	return a
}

func setDefaults(mode *resourceapi.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

// problems returns why the requests of an object (kind and name) can't be honoured, in sentences.
func (b *Book) problems(object string, a *asks) []string {
	var list []string
	for _, f := range a.faults {
		list = append(list, object+" "+f)
	}
	for _, r := range a.list {
		for _, w := range r.wants {
			class := b.classes[w.class]
			if class == nil {
				list = append(list, fmt.Sprintf("%s, request %s: DeviceClass %q not found; create it or correct deviceClassName", object, r.name, w.class))
				continue
			}
			for i, s := range class.Spec.Selectors {
				if fault := b.faultOf(s); fault != "" {
					list = append(list, fmt.Sprintf("DeviceClass %s: spec.selectors[%d]: %s", w.class, i, fault))
				}
			}
			for i, s := range w.selectors {
				if fault := b.faultOf(s); fault != "" {
					list = append(list, fmt.Sprintf("%s, request %s: selectors[%d]: %s", object, r.name, i, fault))
				}
			}
		}
	}
	return list
}

// faultOf returns why a selector is not usable, "" if it is.
func (b *Book) faultOf(s resourceapi.DeviceSelector) string {
	if s.CEL == nil {
		return "no CEL expression; set cel.expression"
	}
	fault, known := b.faults[s.CEL.Expression]
	if known {
		return fault
	}
	switch r := cel.GetCompiler(celFeatures).CompileCELExpression(s.CEL.Expression, cel.Options{}); {
	case r.Error != nil:
		fault = fmt.Sprintf("CEL expression %q does not compile: %s; correct it", s.CEL.Expression, oneLine(r.Error.Detail))
	case r.MaxCost > resourceapi.CELSelectorExpressionMaxCost:
		fault = fmt.Sprintf("CEL expression %q may cost %d units, at most %d are allowed; simplify it", s.CEL.Expression, r.MaxCost, resourceapi.CELSelectorExpressionMaxCost)
	}
	if len(b.faults) >= maxExpression {
		clear(b.faults)
	}
	b.faults[s.CEL.Expression] = fault
	return fault
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// judge finds out which devices of a slice satisfy a want.
func (b *Book) judge(s *slice, w *want) {
	was := w.faults[s.object.Name]
	delete(w.faults, s.object.Name)
	defer func() { b.staleKinds = b.staleKinds || w.faults[s.object.Name] != was }() // it may be why requests are refused
	class := b.classes[w.class]
	for i := range s.object.Spec.Devices {
		d := &s.object.Spec.Devices[i]
		if class == nil {
			delete(s.met[i], w)
			continue
		}
		met, err := b.matches(s.object.Spec.Driver, d, class.Spec.Selectors)
		if met && err == nil {
			met, err = b.matches(s.object.Spec.Driver, d, w.selectors)
		}
		if err != nil {
			w.faults[s.object.Name] = fmt.Sprintf("device %s of ResourceSlice %s: %s", d.Name, s.object.Name, oneLine(err.Error()))
		}
		if met && err == nil && !prevented(d.Taints, w.tolerations) {
			s.met[i][w] = true
		} else {
			delete(s.met[i], w)
		}
	}
}

func (b *Book) matches(driver string, d *resourceapi.Device, selectors []resourceapi.DeviceSelector) (bool, error) {
	for _, s := range selectors {
		if s.CEL == nil {
			return false, nil
		}
		compiled := b.expressions.GetOrCompile(s.CEL.Expression)
		if compiled.Error != nil {
			return false, nil // problems has it
		}
		met, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
		if err != nil || !met {
			return false, err
		}
	}
	return true, nil
}

// prevented reports whether a taint keeps a device from being allocated.
func prevented(taints []resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) bool {
	return slices.ContainsFunc(taints, func(t resourceapi.DeviceTaint) bool {
		return (t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute) &&
			!slices.ContainsFunc(tolerations, func(l resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(l, t) })
	})
}

// kind is what all devices that satisfy the same wants have in common.
type kind struct {
	key    string
	wants  map[*want]bool
	odd    bool // allocated to several claims at once, or drawing on counters that other devices draw on too
	shared bool // not of one node alone
	count  int  // devices
}

// sortKinds assigns the devices of a slice to their kinds.
func (b *Book) sortKinds(s *slice) {
	for i := range s.kinds {
		d := &s.object.Spec.Devices[i]
		odd := len(d.ConsumesCounters) > 0 || d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
		var key strings.Builder
		for _, w := range slices.SortedFunc(maps.Keys(s.met[i]), func(a, b *want) int { return a.number - b.number }) {
			key.WriteString(strconv.Itoa(w.number) + " ")
		}
		if odd {
			key.WriteString("odd ")
		}
		if s.node == "" {
			key.WriteString("shared")
		}
		k := b.kinds[key.String()]
		if k != nil && k == s.kinds[i] {
			continue
		}
		if k == nil {
			k = &kind{key: key.String(), wants: maps.Clone(s.met[i]), odd: odd, shared: s.node == ""}
			b.kinds[k.key] = k
			b.staleKinds = true
		}
		k.count++
		b.dropKind(s.kinds[i])
		s.kinds[i] = k
	}
}

func (b *Book) dropKind(k *kind) {
	if k == nil {
		return
	}
	if k.count--; k.count == 0 {
		delete(b.kinds, k.key)
		b.staleKinds = true
	}
}

// link says that devices of two kinds draw on the same counters somewhere.
type link struct{ a, b *kind }

// linkPool finds out which kinds of devices of a pool draw on the same counters.
func (b *Book) linkPool(id poolID) {
	drawing := map[string]map[*kind]bool{} // on a set of counters
	for _, s := range b.pools[id] {
		for i := range s.object.Spec.Devices {
			for _, c := range s.object.Spec.Devices[i].ConsumesCounters {
				if drawing[c.CounterSet] == nil {
					drawing[c.CounterSet] = map[*kind]bool{}
				}
				drawing[c.CounterSet][s.kinds[i]] = true
			}
		}
	}
	now := map[link]bool{}
	for _, kinds := range drawing {
		for a := range kinds {
			for b := range kinds {
				if a != b {
					now[link{a, b}] = true
				}
			}
		}
	}
	for l := range now {
		if b.links[l]++; b.links[l] == 1 {
			b.staleKinds = true
		}
	}
	for l := range b.linked[id] {
		if b.links[l]--; b.links[l] == 0 {
			delete(b.links, l)
			b.staleKinds = true
		}
	}
	if b.linked[id] = now; len(now) == 0 {
		delete(b.linked, id)
	}
}

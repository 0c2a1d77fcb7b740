// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
)

// TestDrawnDevices draws clusters with devices and claims of all kinds, plans them, and has the real kube-scheduler, in this process, allocate the
// claims: each pod where it was planned, then all of them where it likes, and again until nothing is planned any more. Every pod that is planned
// must get its devices, every node that is bought must get a pod, and no pod may be refused that an empty node would take. With -mutants the faults
// of deviceMutants are put in.
func TestDrawnDevices(t *testing.T) {
	from, n := *first, *deviceSeeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	kinds, total := map[string]int{}, deviceTally{}
	for seed := from; seed < from+uint64(n); seed++ {
		t.Run("seed-"+strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newDeviceCluster(seed)
			before, err := manifestsOf(c.objects())
			if err != nil {
				t.Fatal(err)
			}
			for k := range c.kinds {
				kinds[k]++
			}
			x, err := judgeDevices(c, nil)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			total.add(x.tally)
			if *oneSeed != 0 {
				t.Logf("%s", before)
				for i, a := range x.answers {
					t.Logf("round %d:\n%s", i, a.describe())
				}
				for _, p := range x.c.standing {
					t.Logf("%s is bound to %s", p.Name, p.Spec.NodeName)
				}
			}
			for _, f := range x.found {
				t.Errorf("seed %d: disagreement (%s): %s", seed, f.kind, f.text)
			}
		})
	}
	t.Logf("%d clusters: %d pods planned, %d bound, %d nodes bought, %d of them after kube-scheduler chose devices that others needed (%d plans), %d without pods in the end; %d pods refused, %d of them as selectors fail and %d because of agents, %d times asked of an empty node", n, total.planned, total.bound, total.bought, total.extra, total.greedy, total.empty, total.refused, total.failing, total.agents, total.probed)
	t.Logf("kinds: %v", kinds)
	if *oneSeed != 0 {
		return
	}
	// kube-scheduler may place a pod on a node that was bought for another one, which then needs one more.
	if most := 1 + total.bought/20; total.empty > most || total.extra > most {
		t.Errorf("%d nodes were launched and not used, and %d were launched one after the other; at most %d may be", total.empty, total.extra, most)
	}
	if total.planned == 0 || total.bought == 0 {
		t.Error("the clusters had nothing to check")
	}
	for _, k := range deviceKinds {
		if n >= 300 && kinds[k] < leastReached {
			t.Errorf("%s: in %d of %d clusters, at least %d are wanted", k, kinds[k], n, leastReached)
		}
	}
	if *putBack {
		t.Run("mutants", tryDeviceMutants)
	}
}

// deviceMutant is a fault that is put in from outside: the plan is made from objects without what the fault does not look at.
type deviceMutant struct {
	name  string
	blind func(o runtime.Object) runtime.Object // the object as the fault sees it; nil: not at all
}

func (m *deviceMutant) seenBy(c *deviceCluster) []runtime.Object {
	objects := c.objects()
	if m == nil {
		return objects
	}
	var out []runtime.Object
	for _, o := range objects {
		if x := m.blind(o); x != nil {
			out = append(out, x)
		}
	}
	return out
}

// ofRequests changes what claims and templates request.
func ofRequests(change func(*resourceapi.DeviceClaim)) func(runtime.Object) runtime.Object {
	return func(o runtime.Object) runtime.Object {
		switch o := o.(type) {
		case *resourceapi.ResourceClaim:
			return changed(o, func(o *resourceapi.ResourceClaim) { change(&o.Spec.Devices) })
		case *resourceapi.ResourceClaimTemplate:
			return changed(o, func(o *resourceapi.ResourceClaimTemplate) { change(&o.Spec.Spec.Devices) })
		}
		return o
	}
}

// eachExactly changes the requests of claims that have no alternatives.
func eachExactly(change func(*resourceapi.ExactDeviceRequest)) func(runtime.Object) runtime.Object {
	return ofRequests(func(d *resourceapi.DeviceClaim) {
		for i := range d.Requests {
			if d.Requests[i].Exactly != nil {
				change(d.Requests[i].Exactly)
			}
		}
	})
}

// deviceMutants are faults that a planner of devices may have.
var deviceMutants = []deviceMutant{
	{"a request counts as one device", eachExactly(func(e *resourceapi.ExactDeviceRequest) { e.Count = min(e.Count, 1) })},
	{"selectors of requests are not looked at", eachExactly(func(e *resourceapi.ExactDeviceRequest) { e.Selectors = nil })},
	{"allocationMode All is one device", eachExactly(func(e *resourceapi.ExactDeviceRequest) {
		if e.AllocationMode == resourceapi.DeviceAllocationModeAll {
			e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeExactCount, 1
		}
	})},
	{"capacity is not looked at", eachExactly(func(e *resourceapi.ExactDeviceRequest) { e.Capacity = nil })},
	{"admin access takes devices", eachExactly(func(e *resourceapi.ExactDeviceRequest) { e.AdminAccess = nil })},
	{"devices are tolerated as they are", eachExactly(func(e *resourceapi.ExactDeviceRequest) {
		e.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	})},
	{"tolerations are not looked at", eachExactly(func(e *resourceapi.ExactDeviceRequest) { e.Tolerations = nil })},
	{"constraints are not looked at", ofRequests(func(d *resourceapi.DeviceClaim) { d.Constraints = nil })},
	{"only the first alternative counts", ofRequests(func(d *resourceapi.DeviceClaim) {
		for i := range d.Requests {
			if f := d.Requests[i].FirstAvailable; len(f) > 0 {
				d.Requests[i].FirstAvailable = f[:1]
			}
		}
	})},
	{"a claim is its first request", ofRequests(func(d *resourceapi.DeviceClaim) { d.Requests = d.Requests[:1]; d.Constraints = nil })},
	{"allocated devices count as free", func(o runtime.Object) runtime.Object {
		if c, ok := o.(*resourceapi.ResourceClaim); ok {
			return changed(c, func(c *resourceapi.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
		}
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			return changed(p, func(p *corev1.Pod) { p.Spec.ResourceClaims = nil })
		}
		return o
	}},
	{"extended resources are those of device plugins only", func(o runtime.Object) runtime.Object {
		if c, ok := o.(*resourceapi.DeviceClass); ok {
			return changed(c, func(c *resourceapi.DeviceClass) { c.Spec.ExtendedResourceName = nil })
		}
		return o
	}},
	{"DeviceTaintRules are not looked at", func(o runtime.Object) runtime.Object {
		if _, ok := o.(*resourceapi.DeviceTaintRule); ok {
			return nil
		}
		return o
	}},
	{"counters are not looked at", func(o runtime.Object) runtime.Object {
		return ofDevices(o, func(d *resourceapi.Device) { d.ConsumesCounters = nil })
	}},
	{"a device that claims share is for one", func(o runtime.Object) runtime.Object {
		return ofDevices(o, func(d *resourceapi.Device) { d.AllowMultipleAllocations = nil })
	}},
	{"DaemonSets are not looked at", func(o runtime.Object) runtime.Object {
		if _, ok := o.(*appsv1.DaemonSet); ok {
			return nil
		}
		return o
	}},
	{"nodes to come have no devices", func(o runtime.Object) runtime.Object {
		if _, ok := o.(*karpv1alpha1.NodeOverlay); ok {
			return nil
		}
		return o
	}},
}

// ofDevices changes the devices of ResourceSlices and NodeOverlays.
func ofDevices(o runtime.Object, change func(*resourceapi.Device)) runtime.Object {
	switch o := o.(type) {
	case *resourceapi.ResourceSlice:
		return changed(o, func(o *resourceapi.ResourceSlice) {
			for i := range o.Spec.Devices {
				change(&o.Spec.Devices[i])
			}
		})
	case *karpv1alpha1.NodeOverlay:
		return changed(o, func(o *karpv1alpha1.NodeOverlay) { changeOverlay(o, change) })
	}
	return o
}

// tryDeviceMutants puts each fault in, and says in which cluster it is found: where a judge disagrees that does not without the fault.
func tryDeviceMutants(t *testing.T) {
	for i := range deviceMutants {
		if *only != 0 && i != *only-1 {
			continue
		}
		m := &deviceMutants[i]
		at, by := uint64(0), disagreement{}
		for seed := uint64(1); seed <= uint64(*within) && at == 0; seed++ {
			x, err := judgeDevices(newDeviceCluster(seed), m)
			if err != nil {
				at, by = seed, disagreement{"error", err.Error()}
				continue
			}
			without, err := judgeDevices(newDeviceCluster(seed), nil)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if found := newOnes(x.found, without.found); len(found) > 0 {
				at, by = seed, found[0]
			}
			if x.tally.bought > without.tally.bought && at == 0 {
				at, by = seed, disagreement{"cost", fmt.Sprintf("%d nodes are bought, %d without the fault", x.tally.bought, without.tally.bought)}
			}
		}
		if at == 0 {
			t.Errorf("fault (%s) is not found within %d clusters", m.name, *within)
			continue
		}
		t.Logf("fault (%s) is found in cluster %d, by: %s: %.160s", m.name, at, by.kind, by.text)
	}
}

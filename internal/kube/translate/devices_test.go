// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	gpuDriver = "gpu.nvidia.com"
	nicDriver = "nic.example.com"
)

// driverSlice is what a driver publishes of a node with two devices.
func driverSlice(node, driver string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "d0"}, {Name: "d1"}}},
	}
}

func learnedNode(name, pool string, initialized bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{model.LabelInstanceType: "t1", model.LabelNodePool: pool}}}
	if initialized {
		n.Labels[model.LabelInitialized] = "true"
	}
	return n
}

// claimedDevices are Devices with a class for the devices of each driver, and a pod that claims one of each.
func claimedDevices() *Devices {
	d := NewDevices()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for _, driver := range []string{gpuDriver, nicDriver} {
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}}
		c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
		d.SetDeviceClass(driver, c)
		x := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: driver}}
		x.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "d", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
		d.SetResourceClaimTemplate("default/"+driver, x)
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: driver, ResourceClaimTemplateName: &driver})
	}
	d.OfPod(p)
	return d
}

// TestHalfPublished: a node of which not all drivers have published takes no device away from nodes to come, in whichever order they publish, with
// the node initialized before, between or after, in its own NodePool or another.
func TestHalfPublished(t *testing.T) {
	both := map[string]int64{"devices/" + gpuDriver: 2, "devices/" + nicDriver: 2}
	for _, order := range [][]string{{gpuDriver, nicDriver}, {nicDriver, gpuDriver}} {
		for initialized := range 3 {
			for _, pool := range []string{"p1", "p2"} {
				d := claimedDevices()
				check := func(when string) {
					t.Helper()
					for _, of := range []string{"p1", pool, "p3"} {
						if got := d.OfType(of, &model.InstanceType{Name: "t1"}); !maps.Equal(got, both) {
							t.Errorf("%v, initialized at step %d, pool %s, %s: a node to come of pool %s has %v, want %v", order, initialized, pool, when, of, got, both)
						}
					}
				}
				for _, driver := range order {
					d.SetSlice("n1-"+driver, driverSlice("n1", driver))
				}
				d.Learn(learnedNode("n1", "p1", true))
				check("one node")
				for i, driver := range order {
					d.Learn(learnedNode("n2", pool, initialized <= i))
					d.SetSlice("n2-"+driver, driverSlice("n2", driver))
					d.Learn(learnedNode("n2", pool, initialized <= i))
					check("of another: " + driver)
				}
				half := driverSlice("n2", order[1])
				half.Spec.Pool.ResourceSliceCount = 2
				d.SetSlice("n2-"+order[1], half)
				d.Learn(learnedNode("n2", pool, true))
				check("incomplete again")

				learned, _, err := d.Learned()
				if err != nil {
					t.Fatal(err)
				}
				d = claimedDevices()
				if err := d.Recall(learned); err != nil {
					t.Fatal(err)
				}
				check("recalled")
			}
		}
	}
}

// TestNotInitialized: a node teaches once it is initialized, and one of no NodePool, which nobody marks as that, at once.
func TestNotInitialized(t *testing.T) {
	for _, c := range []struct {
		pool        string
		initialized bool
		want        int64
	}{{"p", false, 0}, {"p", true, 2}, {"", false, 2}} {
		d := claimedDevices()
		d.SetSlice("n1-"+gpuDriver, driverSlice("n1", gpuDriver))
		d.Learn(learnedNode("n1", c.pool, c.initialized))
		if got := d.OfType("p", &model.InstanceType{Name: "t1"})["devices/"+gpuDriver]; got != c.want {
			t.Errorf("%+v: a node to come has %d devices", c, got)
		}
	}
}

// TestBuiltInNextToLearned: devices that a node has published with one driver do not replace the built-in GPUs of another.
func TestBuiltInNextToLearned(t *testing.T) {
	d := claimedDevices()
	empty := driverSlice("n2", nicDriver)
	empty.Spec.Devices = nil
	d.SetSlice(empty.Name, empty)
	other := learnedNode("n2", "p", true)
	other.Labels[model.LabelInstanceType] = "t2"
	d.Learn(other)
	d.SetSlice("n1-"+nicDriver, driverSlice("n1", nicDriver))
	d.Learn(learnedNode("n1", "p", true))
	x := &model.InstanceType{Name: "t1", Labels: model.Labels{awsv1.LabelInstanceGPUManufacturer: "nvidia", awsv1.LabelInstanceGPUName: "a10g", awsv1.LabelInstanceGPUCount: "4", awsv1.LabelInstanceGPUMemory: "24576"}}
	if got, want := d.OfType("p", x), (map[string]int64{"devices/" + gpuDriver: 4, "devices/" + nicDriver: 2}); !maps.Equal(got, want) {
		t.Errorf("before the GPUs are published: %v, want %v", got, want)
	}
	if got, want := d.OfType("p", &model.InstanceType{Name: "t2", Labels: x.Labels}), (map[string]int64{"devices/" + gpuDriver: 4}); !maps.Equal(got, want) {
		t.Errorf("next to a driver without devices: %v, want %v", got, want)
	}
	d.SetSlice("n1-"+gpuDriver, driverSlice("n1", gpuDriver))
	d.Learn(learnedNode("n1", "p", true))
	if got := d.OfType("p", x)["devices/"+gpuDriver]; got != 2 {
		t.Errorf("%d GPUs where a node has published 2", got)
	}
}

// TestProviderNextToLearned: devices that a provider says a driver will publish count until a node has published with that driver.
func TestProviderNextToLearned(t *testing.T) {
	d := claimedDevices()
	x := &model.InstanceType{Name: "t1", DriverGPUs: map[string]int64{gpuDriver: 8, "other.example.com": 0}}
	if got, want := d.OfType("p", x), (map[string]int64{"devices/" + gpuDriver: 8}); !maps.Equal(got, want) {
		t.Errorf("before a node has come: %v, want %v", got, want)
	}
	d.SetSlice("n1-"+nicDriver, driverSlice("n1", nicDriver))
	d.Learn(learnedNode("n1", "p", true))
	if got, want := d.OfType("p", x), (map[string]int64{"devices/" + gpuDriver: 8, "devices/" + nicDriver: 2}); !maps.Equal(got, want) {
		t.Errorf("next to another driver: %v, want %v", got, want)
	}
	d.SetSlice("n1-"+gpuDriver, driverSlice("n1", gpuDriver))
	d.Learn(learnedNode("n1", "p", true))
	if got := d.OfType("p", x)["devices/"+gpuDriver]; got != 2 {
		t.Errorf("%d GPUs where a node has published 2", got)
	}
}

// TestNodesOfOneKind: devices with attributes that differ by node, published again and again, teach the newest node's and change nothing more.
func TestNodesOfOneKind(t *testing.T) {
	d := claimedDevices()
	publish := func(i, round int) {
		name := fmt.Sprintf("n%d", i)
		s := driverSlice(name, nicDriver)
		s.Spec.Pool.Generation = int64(round)
		for j := range s.Spec.Devices {
			s.Spec.Devices[j].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"mac": {StringValue: new(fmt.Sprintf("%d-%d", i, j))}}
		}
		d.SetSlice(s.Name, s)
		n := learnedNode(name, fmt.Sprintf("p%d", i%2), true)
		n.CreationTimestamp = metav1.Unix(int64(1000+i), 0)
		d.Learn(n)
		d.OfNode(name, nil)
	}
	for round := range 3 {
		for i := range 50 {
			publish((i*7)%50, round/2) // in the second round nothing is new, not the generation either
			x := d.Stale()
			if round > 0 && x.Types {
				t.Errorf("round %d: instance types change with node %d", round, (i*7)%50)
			}
		}
	}
	text, _, err := d.Learned()
	if err != nil || !strings.Contains(text, "49-0") || !strings.Contains(text, "48-1") {
		t.Errorf("learned %s, %v", text, err)
	}
	d.ForgetNode("n49")
	publish(3, 9)
	if text, _, err = d.Learned(); err != nil || !strings.Contains(text, "3-0") {
		t.Errorf("learned %s, %v after the newest node is gone", text, err)
	}
}

// TestOnlyOtherAmountsAreStale: a node is translated again if its amounts are others, and pods that are gone leave nothing.
func TestOnlyOtherAmountsAreStale(t *testing.T) {
	d := claimedDevices()
	s := driverSlice("n1", nicDriver)
	d.SetSlice(s.Name, s)
	if x := d.Stale(); !x.Nodes["n1"] {
		t.Errorf("a node that was never asked about is not among %v", x.Nodes)
	}
	d.OfNode("n1", nil)
	for i, c := range []struct {
		change func(*resourceapi.ResourceSlice)
		stale  bool
	}{
		{func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation++ }, false},
		{func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"mac": {StringValue: new("x")}}
		}, false},
		{func(s *resourceapi.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[:1] }, true},
		{func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 }, true},
		{func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].Name = "other" }, false},
	} {
		s = s.DeepCopy()
		c.change(s)
		d.SetSlice(s.Name, s)
		if x := d.Stale(); x.Nodes["n1"] != c.stale {
			t.Errorf("change %d: stale %v, want %v", i, x.Nodes["n1"], c.stale)
		}
		d.OfNode("n1", nil)
	}
	name := nicDriver
	for i := range 3 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i)}}
		p.Spec.NodeName = "n1"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: &name}}
		d.OfPod(p)
	}
	if d.taken["n1"]["devices/"+nicDriver] != 3 || !d.Stale().Nodes["n1"] {
		t.Errorf("%v are counted for three pods", d.taken)
	}
	for i := range 3 {
		d.ForgetPod(fmt.Sprintf("default/%d", i))
	}
	d.ForgetNode("n1")
	if len(d.taken)+len(d.given) > 0 {
		t.Errorf("pods and nodes that are gone have left %v, %v", d.taken, d.given)
	}
}

// TestForgetPool: what was learned of the nodes of a pool that is gone stays known of its instance types, once.
func TestForgetPool(t *testing.T) {
	d := claimedDevices()
	for i, pool := range []string{"p1", "p2", "p3"} {
		name := fmt.Sprintf("n%d", i)
		d.SetSlice(name, driverSlice(name, nicDriver))
		d.Learn(learnedNode(name, pool, true))
	}
	for _, pool := range []string{"p1", "p2", "p3"} {
		d.ForgetPool(pool)
	}
	text, _, err := d.Learned()
	if want := `[{"instanceType":"t1",`; err != nil || !strings.HasPrefix(text, want) || strings.Count(text, "instanceType") != 1 {
		t.Errorf("learned %s, %v", text, err)
	}
	if got := d.OfType("p1", &model.InstanceType{Name: "t1"})["devices/"+nicDriver]; got != 2 || len(d.learned) != 1 {
		t.Errorf("%d devices, of %d kinds", got, len(d.learned))
	}
}

// TestLearnedLeavesOut: what the text has no room for is counted.
func TestLearnedLeavesOut(t *testing.T) {
	d := claimedDevices()
	for i := range 2000 {
		d.learned[nodeKind{"p", fmt.Sprint(i)}] = []devices.TypeSlice{{Driver: nicDriver, Devices: []resourceapi.Device{{Name: strings.Repeat("d", 63)}}}}
	}
	text, left, err := d.Learned()
	if n := strings.Count(text, "instanceType"); err != nil || left == 0 || n+left != 2000 || len(text) > mostLearnedBytes+2 {
		t.Errorf("%d kinds in %d bytes, %d left out, %v", n, len(text), left, err)
	}
}

// deviceLookup finds devices only.
type deviceLookup struct {
	Lookup
	d *Devices
}

func (l deviceLookup) Devices() *Devices                 { return l.d }
func (l deviceLookup) CSINode(string) *storagev1.CSINode { return nil }

// TestDeviceNamesAreBounded: pods with ever new requests, one after another, don't make the table of resources grow without end.
func TestDeviceNamesAreBounded(t *testing.T) {
	d := claimedDevices()
	d.SetSlice("n1-"+gpuDriver, driverSlice("n1", gpuDriver))
	tr := &Translator{Table: state.NewResourceTable(), Lookup: deviceLookup{d: d}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: new("new")}}
	for i := range 1100 {
		x := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
		x.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "d", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: gpuDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("%d > -1", i)}}}}}}
		d.SetResourceClaimTemplate("default/new", x)
		if need := d.OfPod(p); len(need.Unsupported) > 0 {
			t.Fatal(need.Unsupported)
		}
		tr.Node(learnedNode("n1", "p", true))
	}
	if n := len(tr.Table.Names()); n > 1024 || n < 1000 {
		t.Errorf("%d resources", n)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// deviceObjects are a class, a template of claims to one device of it, and a node with two, of which pods have so many. A pod has its device from
// when its claim is allocated; it is bound after that.
func deviceObjects(allocated, bound int) string {
	text := `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1}
spec: {driver: gpu.example.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: d0}, {name: d1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node.kubernetes.io/instance-type: t1, karpenter.sh/nodepool: p, karpenter.sh/initialized: "true"}}
status: {capacity: {cpu: "4", pods: "10"}}
`
	for i := range 2 {
		node, status := "", ""
		if i < bound {
			node = "nodeName: n1, "
		}
		if i < allocated {
			status = fmt.Sprintf(`
status:
  reservedFor: [{resource: pods, name: p%[1]d, uid: u%[1]d}]
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: d%[1]d}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}`, i)
		}
		text += fmt.Sprintf(`---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: p%[1]d-gpu, ownerReferences: [{apiVersion: v1, kind: Pod, name: p%[1]d, uid: u%[1]d, controller: true}]}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}%[3]s
---
apiVersion: v1
kind: Pod
metadata: {name: p%[1]d, uid: u%[1]d, labels: {pod-template-hash: h}}
spec: {%[2]snodeSelector: {team: ml}, resourceClaims: [{name: gpu, resourceClaimTemplateName: one}], containers: [{name: c}]}
status: {phase: Pending, resourceClaimStatuses: [{name: gpu, resourceClaimName: p%[1]d-gpu}]}
`, i, node, status)
	}
	return text
}

// asExtended has the pods of deviceObjects request their device as the extended resource that the class stands for. kube-scheduler creates a claim for
// that only when it allocates it. A second node has four by a device plugin.
func asExtended(text string, allocated int) string {
	text = strings.NewReplacer("spec: {selectors: [{cel:", "spec: {extendedResourceName: example.com/gpu, selectors: [{cel:",
		"resourceClaims: [{name: gpu, resourceClaimTemplateName: one}], containers: [{name: c}]", `containers: [{name: c, resources: {requests: {example.com/gpu: "1"}}}]`).Replace(text)
	var out []string
	for i, o := range strings.Split(text, "---\n") {
		if !strings.Contains(o, "kind: ResourceClaim\n") {
			out = append(out, o)
		} else if i < 4+2*allocated {
			out = append(out, strings.Replace(o, "metadata: {", `metadata: {annotations: {resource.kubernetes.io/extended-resource-claim: "true"}, `, 1))
		}
	}
	return strings.Join(out, "---\n") + `---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {node.kubernetes.io/instance-type: t2}}
status: {capacity: {cpu: "4", pods: "10", example.com/gpu: "4"}}
`
}

// As TestDevicesOnTheWay, for pods that request their devices as an extended resource. Where a device plugin has registered it, its number counts.
func TestExtendedResourcesOnTheWay(t *testing.T) {
	slot, cases := "", 0
	for allocated := range 3 {
		for bound := range allocated + 1 {
			cases++
			m, err := Read("input", []byte(asExtended(deviceObjects(allocated, bound), allocated)))
			if err != nil {
				t.Fatal(err)
			}
			s := state.New()
			plugin := s.Resources().Dim("example.com/gpu")
			s.Pools.SetPool(&model.NodePool{Name: "p", UID: "u", Types: []*model.InstanceType{{Name: "t1"}, {Name: "t2", Allocatable: model.Resources(nil).With(plugin, 8)}}})
			m.Feed(s)
			snap := s.Snapshot(time.Time{})
			d, of := s.Resources().Dim("devices/example.com/gpu"), fmt.Sprintf("%d allocated, %d bound", allocated, bound)
			n := snap.Nodes[0]
			if have, used := n.Allocatable.At(d), n.Used.At(d); have != 2 || used != int64(bound) || snap.Nodes[1].Allocatable.At(d) != 4 {
				t.Errorf("%s: the node has %d devices of which %d are used, the one with a device plugin %d", of, have, used, snap.Nodes[1].Allocatable.At(d))
			}
			pods := append(append([]*model.Pod(nil), snap.Pending...), n.Pods...)
			for _, p := range pods {
				if p.Class.Requests.At(d) != 1 || p.Class.Requests.At(plugin) != 0 || !p.Class.HasClaims || p.Class.ClaimsField() != "spec.containers[*].resources.requests" || len(p.Class.Unsolved) > 0 {
					t.Errorf("%s: %s requests %d devices: %s", of, p.Name, p.Class.Requests.At(d), p.Class.Key)
				}
				if slot == "" {
					slot = p.Class.SlotKey
				}
				if p.Class.SlotKey != slot {
					t.Errorf("%s: %s has slot %s, want %s", of, p.Name, p.Class.SlotKey, slot)
				}
				has := p.Name < fmt.Sprintf("p%d", allocated)
				if may := p.Class.AllowsStanding(model.Labels{"team": "ml"}, "n2"); may == (has && p.Node == "") {
					t.Errorf("%s: %s may go to another node: %v", of, p.Name, may)
				}
			}
			types := s.Pools.FindPool("p").Types
			if len(pods) != 2 || types[0].Allocatable.At(d) != 2 || types[1].Allocatable.At(d) != 8 {
				t.Errorf("%s: %d pods, nodes to come have %d and %d devices", of, len(pods), types[0].Allocatable.At(d), types[1].Allocatable.At(d))
			}
		}
	}
	if cases != 6 || slot == "" {
		t.Errorf("%d cases", cases)
	}
}

// On its way from pending to running a pod requests the same, has the same slot, and its node has the same total of devices: only their owner
// changes. A node to come of the same type has as many.
func TestDevicesOnTheWay(t *testing.T) {
	slot, cases := "", 0
	for allocated := range 3 {
		for bound := range allocated + 1 {
			cases++
			m, err := Read("input", []byte(deviceObjects(allocated, bound)))
			if err != nil {
				t.Fatal(err)
			}
			s := state.New()
			s.Pools.SetPool(&model.NodePool{Name: "p", UID: "u", Types: []*model.InstanceType{{Name: "t1"}, {Name: "t2"}}})
			m.Feed(s)
			snap := s.Snapshot(time.Time{})
			d := s.Resources().Dim("devices/gpu.example.com")
			n := snap.Nodes[0]
			if have, used := n.Allocatable.At(d), n.Used.At(d); have != 2 || used != int64(bound) {
				t.Errorf("%d allocated, %d bound: the node has %d devices of which %d are used", allocated, bound, have, used)
			}
			for _, p := range append(append([]*model.Pod(nil), snap.Pending...), n.Pods...) {
				if p.Class.Requests.At(d) != 1 || !p.Class.HasClaims || p.Class.ClaimsField() != "spec.resourceClaims" || len(p.Class.Unsolved) > 0 {
					t.Errorf("%d allocated, %d bound: %s requests %d devices: %s", allocated, bound, p.Name, p.Class.Requests.At(d), p.Class.Key)
				}
				if slot == "" {
					slot = p.Class.SlotKey
				}
				if p.Class.SlotKey != slot {
					t.Errorf("%d allocated, %d bound: %s has slot %s, want %s", allocated, bound, p.Name, p.Class.SlotKey, slot)
				}
				has := p.Name < fmt.Sprintf("p%d", allocated)
				if may := p.Class.AllowsStanding(model.Labels{"team": "ml"}, "n2"); may == (has && p.Node == "") {
					t.Errorf("%d allocated, %d bound: %s may go to another node: %v", allocated, bound, p.Name, may)
				}
			}
			types := s.Pools.FindPool("p").Types
			if have := types[0].Allocatable.At(d); have != 2 || types[0].Devices.At(d) != 2 || types[0].Capacity.At(d) != 0 || types[1].Allocatable.At(d) != 0 {
				t.Errorf("%d allocated, %d bound: a node to come has %d devices", allocated, bound, have)
			}
		}
	}
	if cases != 6 || slot == "" {
		t.Errorf("%d cases", cases)
	}
}

// DaemonSets and CapacityBuffers request devices by the names that they have in the end, when all pods and all objects that claims name are known.
func TestDevicesOfTemplates(t *testing.T) {
	const templates = `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ds}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: large}], containers: [{name: c}]}}}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: pt}
template: {spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: large}], containers: [{name: c}]}}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: b}
spec: {podTemplateRef: {name: pt}, replicas: 1}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}}]}}}
`
	m, err := Read("input", []byte(templates+"---"+deviceObjects(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	m.Feed(s)
	snap := s.Snapshot(time.Time{})
	d := s.Resources().Dim("devices/gpu.example.com")
	if len(snap.Daemons) != 1 || len(snap.Buffers) != 1 {
		t.Fatalf("%d DaemonSets, %d buffers", len(snap.Daemons), len(snap.Buffers))
	}
	for name, c := range map[string]*model.Class{"DaemonSet": snap.Daemons[0].Class, "CapacityBuffer": snap.Buffers[0].Like.Class} {
		if c.Requests.At(d) != 1 || len(c.Unsolved) > 0 {
			t.Errorf("the %s requests %d devices of the class: %s", name, c.Requests.At(d), c.Key)
		}
	}
}

// What a NodeClaim was written with counts while pods request it. The slot of a pod stays its own when other pods request the devices in another
// way, and when a claim that it shares is allocated.
func TestDevicesOfNodeClaims(t *testing.T) {
	const claim = `---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: c
  labels: {karpenter.sh/nodepool: p, karpenter.sh/initialized: "true"}
  annotations:
    dovetail.sh/requested-devices: '{"devices/gpu.example.com":2,"devices/gone":1}'
    dovetail.sh/devices: '{"devices/gpu.example.com":2,"devices/gone":1}'
    dovetail.sh/slots: '[{"class":"x","count":1,"requests":{"cpu":1000,"devices/gpu.example.com":1,"devices/gone":1}}]'
spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}
`
	const nested = `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: first}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: other, uid: other}
spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: first}], containers: [{name: c}]}
`
	all := deviceObjects(0, 0)
	noPods, _, _ := strings.Cut(all, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n")
	slot := ""
	for name, tt := range map[string]struct {
		objects string
		counted int64
		pods    int
	}{"pods": {all, 1, 2}, "other requests too": {all + nested, 1, 3}, "no pods": {noPods, 0, 0}} {
		m, err := Read("input", []byte(tt.objects+claim))
		if err != nil {
			t.Fatal(err)
		}
		s := state.New()
		m.Feed(s)
		snap := s.Snapshot(time.Time{})
		c := snap.Claims[0]
		d, gone := s.Resources().Dim("devices/gpu.example.com"), s.Resources().Dim("devices/gone")
		if c.Requests.At(d) != 2*tt.counted || c.Allocatable.At(d) != 2*tt.counted || c.Slots[0].Requests.At(d) != tt.counted || c.Slots[0].Requests.At(model.CPU) != 1000 {
			t.Errorf("%s: requests %d, allocatable %d, slot %v", name, c.Requests.At(d), c.Allocatable.At(d), c.Slots[0].Requests)
		}
		if c.Requests.At(gone)+c.Allocatable.At(gone)+c.Slots[0].Requests.At(gone) != 0 {
			t.Errorf("%s: devices that no pod requests are waited for", name)
		}
		if len(snap.Pending) != tt.pods {
			t.Errorf("%s: %d pods", name, len(snap.Pending))
		}
		for _, p := range snap.Pending {
			if p.Name == "other" {
				continue
			}
			if slot == "" {
				slot = p.Class.SlotKey
			}
			if p.Class.SlotKey != slot || slot == "" {
				t.Errorf("%s: %s has slot %q, want %q", name, p.Name, p.Class.SlotKey, slot)
			}
		}
	}

	slot = ""
	for name, status := range map[string]string{"pending": "", "allocated": `
status:
  reservedFor: [{resource: pods, name: a, uid: a}]
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: d0}]}`} {
		text := noPods + `---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}` + status
		for _, pod := range []string{"a", "b"} {
			text += "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + pod + ", uid: " + pod + "}\nspec: {resourceClaims: [{name: gpu, resourceClaimName: shared}], containers: [{name: c}]}\n"
		}
		m, err := Read("input", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s := state.New()
		m.Feed(s)
		snap := s.Snapshot(time.Time{})
		d := s.Resources().Dim("devices/gpu.example.com")
		if have := snap.Nodes[0].Allocatable.At(d); have != 2 {
			t.Errorf("%s: the node has %d devices", name, have)
		}
		for _, p := range snap.Pending {
			if p.Name != "a" {
				if p.Class.Requests.At(d) != 0 {
					t.Errorf("%s: the second pod requests %d devices", name, p.Class.Requests.At(d))
				}
				continue // it goes where a does
			}
			if p.Class.Requests.At(d) != 1 {
				t.Errorf("%s: the first pod requests %d devices", name, p.Class.Requests.At(d))
			}
			if slot == "" {
				slot = p.Class.SlotKey
			}
			if p.Class.SlotKey != slot || slot == "" || len(p.Class.Unsolved) > 0 {
				t.Errorf("%s: slot %q, want %q; %v", name, p.Class.SlotKey, slot, p.Class.Unsolved)
			}
		}
	}
	if slot == "" {
		t.Error("nothing to check")
	}
}

// A DeviceTaintRule takes a device from those that are free, and from nodes to come if it names no pool.
func TestTaintedDevices(t *testing.T) {
	for selector, want := range map[string][2]int64{"": {2, 2}, "device: d1, pool: n1": {1, 2}, "device: d1": {1, 1}, "driver: nic.example.com": {2, 2}} {
		rule := "---\napiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: broken}\nspec: {taint: {key: broken, effect: NoSchedule}"
		if selector != "" {
			rule += ", deviceSelector: {" + selector + "}"
		}
		m, err := Read("input", []byte(deviceObjects(1, 1)+rule+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := state.New()
		s.Pools.SetPool(&model.NodePool{Name: "p", UID: "u", Types: []*model.InstanceType{{Name: "t1"}}})
		m.Feed(s)
		d := s.Resources().Dim("devices/gpu.example.com")
		if got := [2]int64{s.Snapshot(time.Time{}).Nodes[0].Allocatable.At(d), s.Pools.FindPool("p").Types[0].Allocatable.At(d)}; got != want {
			t.Errorf("{%s}: the node and a node to come have %d devices, want %d", selector, got, want)
		}
	}
}

// Which devices a node to come has is what a NodeOverlay says, else what nodes of its type have published, else what EC2's labels say of its
// GPUs. What was learned outlives the process; what nobody can read is an error, and changes nothing.
func TestDevicesOfNodesToCome(t *testing.T) {
	const class, pod = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu" && device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
`, `---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {resourceClaims: [{name: gpu, resourceClaimName: one}], containers: [{name: c}]}
`
	const device = `attributes: {type: {string: gpu}}, capacity: {memory: {value: 40Gi}}}`
	const node = `---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1}
spec: {driver: gpu.nvidia.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: a, ` + device + `, {name: b, ` + device + `]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node.kubernetes.io/instance-type: g1, karpenter.sh/nodepool: p, karpenter.sh/initialized: "true"}}
status: {capacity: {cpu: "4", pods: "10"}}
`
	const overlay = `---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: o, annotations: {dovetail.sh/resource-slices: '[{driver: gpu.nvidia.com, devices: [{name: a, ` + device + `]}]'}}
spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g1]}]}
`
	gpus := func(manufacturer, count, mib string) model.Labels {
		return model.Labels{"karpenter.k8s.aws/instance-gpu-manufacturer": manufacturer, "karpenter.k8s.aws/instance-gpu-name": "a10g", "karpenter.k8s.aws/instance-gpu-count": count, "karpenter.k8s.aws/instance-gpu-memory": mib}
	}
	learned := ""
	for _, c := range []struct {
		what, objects, recalled string
		g1, small               int64
	}{
		{"EC2's labels", "", "", 4, 0},
		{"a node that has come", node, "", 2, 0},
		{"a NodeOverlay", node + overlay, "", 1, 0},
		{"an earlier process", "", "learned", 2, 0},
		{"text that is no JSON", "", "{", 4, 0},
	} {
		m, err := Read("input", []byte(class+c.objects+pod))
		if err != nil {
			t.Fatal(err)
		}
		if c.recalled == "learned" {
			c.recalled = learned
		}
		if err := m.devices.Recall(c.recalled); (err != nil) != (c.recalled == "{") {
			t.Fatalf("%s: %v", c.what, err)
		}
		s := state.New()
		offering := []model.Offering{{Zone: "z", CapacityType: model.OnDemand, PriceMicro: 1, Available: true}}
		labels := gpus("nvidia", "4", "24576")
		labels[model.LabelInstanceType] = "g1"
		s.Pools.SetPool(&model.NodePool{Name: "p", UID: "u", Types: []*model.InstanceType{
			{Name: "g1", Labels: labels, Offerings: offering},
			{Name: "small", Labels: gpus("nvidia", "1", "16384"), Offerings: offering},
			{Name: "amd", Labels: gpus("amd", "1", "24576"), Offerings: offering},
			{Name: "odd", Labels: gpus("nvidia", "many", "24576"), Offerings: offering},
		}})
		m.Feed(s)
		d := s.Resources().Dim("devices/gpu")
		types := s.Pools.FindPool("p").Types
		for i, want := range []int64{c.g1, c.small, 0, 0} {
			if have := types[i].Allocatable.At(d); have != want {
				t.Errorf("%s: a node of type %s has %d devices, want %d", c.what, types[i].Name, have, want)
			}
		}
		if c.objects == node {
			if learned, _, err = m.devices.Learned(); err != nil || learned == "" {
				t.Fatalf("learned %q: %v", learned, err)
			}
		}
	}
}

// TestNamedTemplate: a name in the template of a workload that a Headroom is for makes no pod of that name, which a shared claim would wait for.
func TestNamedTemplate(t *testing.T) {
	m, err := Read("input", []byte(`
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {name: a, labels: {a: b}}, spec: {resourceClaims: [{name: gpu, resourceClaimName: shared}], containers: [{name: c}]}}}
---
apiVersion: dovetail.sh/v1alpha1
kind: Headroom
metadata: {name: h}
spec: {target: {workload: {kind: Deployment, name: d}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	m.Feed(s)
	if list := m.Headrooms(s.Resources()); len(list) != 1 || len(list[0].Targets) != 1 {
		t.Fatalf("%+v", list)
	}
	name := "shared"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	if need := m.devices.OfPod(p); len(need.Unsupported) > 0 {
		t.Error(need.Unsupported)
	}
}

// TestNamespacesOfDevices: which kinds of devices are in a namespace.
func TestNamespacesOfDevices(t *testing.T) {
	for _, c := range []struct {
		o    runtime.Object
		want bool
	}{
		{&resourceapi.DeviceClass{}, false}, {&resourceapi.DeviceTaintRule{}, false}, {&resourceapi.ResourceSlice{}, false},
		{&resourceapi.ResourceClaim{}, true}, {&resourceapi.ResourceClaimTemplate{}, true},
	} {
		if got := namespaced(c.o); got != c.want {
			t.Errorf("a %T is in a namespace: %v", c.o, got)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apidefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Drivers and attributes of drawn devices.
const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	numaKey   = "example.com/numa"
	devicesIn = "default" // namespace of all pods and claims

	extendedGPU = "example.com/gpu" // extended resource that class gpu stands for
)

// deviceCluster is a cluster with devices and claims to them.
type deviceCluster struct {
	*scenario
	published map[string][]devices.TypeSlice // by instance type
	overlays  []*karpv1alpha1.NodeOverlay    // that say so; other types are learned from standing nodes
	classes   []*resourceapi.DeviceClass
	rules     []*resourceapi.DeviceTaintRule
	slices    []*resourceapi.ResourceSlice
	templates []*resourceapi.ResourceClaimTemplate
	wanted    []*resourceapi.ResourceClaim
	kinds     map[string]bool // what was drawn
}

// objects are all that a plan is made from.
func (c *deviceCluster) objects() []runtime.Object {
	out := c.scenario.objects()
	for _, x := range c.overlays {
		out = append(out, x)
	}
	return append(out, c.deviceObjects()...)
}

// deviceObjects are those that kube-scheduler too looks at.
func (c *deviceCluster) deviceObjects() (out []runtime.Object) {
	for _, x := range c.classes {
		out = append(out, x)
	}
	for _, x := range c.rules {
		out = append(out, x)
	}
	for _, x := range c.slices {
		out = append(out, x)
	}
	for _, x := range c.templates {
		out = append(out, x)
	}
	for _, x := range c.wanted {
		out = append(out, x)
	}
	return out
}

// deviceDrawing draws a deviceCluster.
type deviceDrawing struct {
	*draw
	c *deviceCluster
}

// deviceKinds are what a cluster may have; few at once let each of them show.
var deviceKinds = []string{"partitions", "sharing", "nics", "selectors", "alternatives", "all", "constraints", "capacity", "admin", "shared claims", "taints", "rules",
	"broken selectors", "two claims", "standing", "several pools", "late", "large claims", "extended", "agents"}

func newDeviceCluster(seed uint64) *deviceCluster {
	d := &deviceDrawing{draw: &draw{Rand: rand.New(rand.NewPCG(seed, 62)), s: &scenario{seed: seed, attach: map[string]int64{}}, feature: map[string]bool{}, counts: map[string]int{}}}
	d.c = &deviceCluster{scenario: d.s, published: map[string][]devices.TypeSlice{}, kinds: map[string]bool{}}
	for _, f := range deviceKinds {
		if f != "extended" && f != "agents" { // which came later: other clusters are what they were
			d.feature[f] = d.chance(3)
		}
	}
	d.feature["extended"] = rand.New(rand.NewPCG(seed, 64)).IntN(4) == 0
	later := rand.New(rand.NewPCG(seed, 65))
	d.feature["agents"] = later.IntN(4) == 0
	d.feature["standing"] = d.chance(2)
	d.pool()
	for i := range 1 + d.IntN(3) {
		d.machine(i)
	}
	d.deviceClasses()
	d.taintRules()
	if d.feature["standing"] {
		for range 1 + d.IntN(2) {
			d.standingNode(&d.s.machines[d.IntN(len(d.s.machines))])
		}
	}
	for i := range d.s.machines {
		d.overlay(&d.s.machines[i])
	}
	for i := range 1 + d.IntN(3) {
		d.template(fmt.Sprintf("t%d", i))
	}
	if d.feature["shared claims"] {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: "shared", UID: "shared"}, Spec: *d.c.templates[d.IntN(len(d.c.templates))].Spec.Spec.DeepCopy()}
		d.c.wanted = append(d.c.wanted, c)
	}
	for i := range 1 + d.IntN(9) {
		d.pod(fmt.Sprintf("p%d", i), i)
	}
	if d.feature["agents"] {
		d.agent(later)
	}
	return d.c
}

// has is true for some of the objects of a cluster that has the kind, and notes that it is there.
func (d *deviceDrawing) has(kind string, n int) bool {
	if !d.draw.has(kind, n) {
		return false
	}
	d.c.kinds[kind] = true
	return true
}

func (d *deviceDrawing) pool() {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p0", UID: "pool-0"}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: className}
	p.Spec.Template.Spec.Requirements = []karpv1.Requirement{}
	d.s.pools = append(d.s.pools, p)
	if d.has("several pools", 1) {
		q := p.DeepCopy()
		q.Name, q.UID, q.Spec.Weight = "p1", "pool-1", pointer(int32(5))
		q.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: typeKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"t0"}}}
		d.s.pools = append(d.s.pools, q)
	}
}

func (d *deviceDrawing) machine(i int) {
	name := fmt.Sprintf("t%d", i)
	m := machine{name: name, labels: map[string]string{typeKey: name, archKey: "amd64", corev1.LabelOSStable: "linux"}}
	cores := int64(4 << d.IntN(3))
	m.capacity = list(cores*1000, cores<<11, 110)
	m.allocatable = m.capacity
	list, gpus := []devices.TypeSlice{}, 0
	if i == 0 || !d.chance(4) {
		gpus = 1 << d.IntN(4)
		list = append(list, d.gpus(gpus))
	}
	if d.has("nics", 1) && !d.chance(4) {
		nics := devices.TypeSlice{Driver: nicDriver}
		for n := range 1 + d.IntN(3) {
			nics.Devices = append(nics.Devices, resourceapi.Device{Name: "nic-" + strconv.Itoa(n), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				numaKey: {IntValue: pointer(int64(n % 2))}}})
		}
		list = append(list, nics)
	}
	if gpus == 0 && d.has("extended", 2) { // a device plugin registers them
		m.capacity[extendedGPU] = *resource.NewQuantity(int64(1+d.IntN(4)), resource.DecimalSI)
	}
	price := cores*12_000 + int64(gpus)*200_000 + int64(d.IntN(9_000))
	m.offerings = []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: price, Available: true, Remaining: -1}}
	d.s.machines = append(d.s.machines, m)
	if len(list) > 0 {
		d.c.published[name] = list
	}
}

// gpus are the GPUs of an instance type: whole ones, ones in partitions, or ones that claims share.
func (d *deviceDrawing) gpus(n int) devices.TypeSlice {
	t := devices.TypeSlice{Driver: gpuDriver}
	model, memory := d.one("a", "b"), d.one("16Gi", "40Gi", "80Gi")
	partitions, sharing, tainted := d.has("partitions", 2), d.has("sharing", 2), d.has("taints", 3)
	add := func(name, profile string, numa int, size string) *resourceapi.Device {
		x := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": {StringValue: &profile}, numaKey: {IntValue: pointer(int64(numa))}},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(size)}}}
		if !d.has("broken selectors", 6) {
			x.Attributes["model"] = resourceapi.DeviceAttribute{StringValue: &model}
		}
		if tainted || d.has("taints", 5) {
			x.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffect(d.one("NoSchedule", "NoExecute", "None"))}}
		}
		t.Devices = append(t.Devices, x)
		return &t.Devices[len(t.Devices)-1]
	}
	consume := func(x *resourceapi.Device, set string, slots int64) {
		x.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{"slots": {Value: *resource.NewQuantity(slots, resource.DecimalSI)}}}}
	}
	for i := range n {
		name, numa := fmt.Sprintf("gpu-%d", i), i*2/n
		x := add(name, "full", numa, memory)
		switch {
		case partitions:
			set := "of-" + name
			consume(x, set, 2)
			for h := range 2 {
				consume(add(fmt.Sprintf("%s-half-%d", name, h), "half", numa, "8Gi"), set, 1)
			}
			t.SharedCounters = append(t.SharedCounters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{"slots": {Value: resource.MustParse("2")}}})
		case sharing:
			x.AllowMultipleAllocations = pointer(true)
			if d.chance(2) {
				c := x.Capacity["memory"]
				c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: pointer(resource.MustParse("4Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: pointer(resource.MustParse("4Gi")), Step: pointer(resource.MustParse("4Gi"))}}
				x.Capacity["memory"] = c
			}
		}
	}
	return t
}

// overlay says which devices nodes of a type will have, unless a standing node of the type tells.
func (d *deviceDrawing) overlay(m *machine) {
	list := d.c.published[m.name]
	standing := slices.ContainsFunc(d.s.nodes, func(n *corev1.Node) bool { return n.Labels[typeKey] == m.name })
	tainted := slices.ContainsFunc(list, func(t devices.TypeSlice) bool {
		return slices.ContainsFunc(t.Devices, func(x resourceapi.Device) bool { return len(x.Taints) > 0 })
	})
	if list == nil || standing && !tainted && d.chance(2) {
		return
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		panic(err) // values of the API's own types can be written
	}
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "of-" + m.name, Annotations: map[string]string{translate.AnnotationResourceSlices: string(text)}}}
	o.Spec.Requirements = []karpv1alpha1.Requirement{{Key: typeKey, Operator: corev1.NodeSelectorOpIn, Values: []string{m.name}}}
	d.c.overlays = append(d.c.overlays, o)
}

// slicesOf are the ResourceSlices that drivers publish on a node of an instance type.
func (c *deviceCluster) slicesOf(node, instanceType string) (out []*resourceapi.ResourceSlice) {
	for i, t := range c.published[instanceType] {
		var of []*resourceapi.ResourceSlice
		add := func(devices []resourceapi.Device, counters []resourceapi.CounterSet) {
			s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d-%d", node, i, len(of)), ResourceVersion: "1"}}
			s.Spec.Driver, s.Spec.NodeName, s.Spec.Devices, s.Spec.SharedCounters = t.Driver, &node, devices, counters
			s.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1}
			of = append(of, s)
		}
		if len(t.SharedCounters) > 0 {
			add(nil, t.SharedCounters)
		}
		half := len(t.Devices) / 2 // a driver may spread its devices over slices as it likes
		add(t.Devices[half:], nil)
		if half > 0 {
			add(t.Devices[:half], nil)
		}
		for _, s := range of {
			s.Spec.Pool.ResourceSliceCount = int64(len(of))
			out = append(out, s.DeepCopy())
		}
	}
	return out
}

func (d *deviceDrawing) deviceClasses() {
	add := func(name string, expressions ...string) {
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, e := range expressions {
			c.Spec.Selectors = append(c.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
		}
		d.c.classes = append(d.c.classes, c)
	}
	ofGPU := `device.driver == "gpu.example.com"`
	if d.feature["partitions"] {
		add("gpu", ofGPU, `device.attributes["gpu.example.com"].profile == "full"`)
		add("half", ofGPU, `device.attributes["gpu.example.com"].profile == "half"`)
	} else {
		add("gpu", ofGPU)
	}
	if d.feature["nics"] {
		add("nic", `device.driver == "nic.example.com"`)
	}
	if d.feature["extended"] {
		d.c.classes[0].Spec.ExtendedResourceName = pointer(extendedGPU)
		// kube-scheduler's own claims are seen only if there was one from the beginning.
		d.c.wanted = append(d.c.wanted, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: "unused", UID: "unused"}})
	}
}

func (d *deviceDrawing) taintRules() {
	if !d.has("rules", 1) {
		return
	}
	r := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule", ResourceVersion: "1"}}
	r.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	r.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: pointer(gpuDriver), Device: pointer(d.one("gpu-0", "gpu-1"))}
	if d.chance(3) {
		r.Spec.DeviceSelector.Pool = pointer("old1")
	}
	d.c.rules = append(d.c.rules, r)
}

// standingNode adds a node that stands. kube-scheduler places on it what it can before anything is planned.
func (d *deviceDrawing) standingNode(m *machine) {
	d.c.kinds["standing"] = true
	pool := d.s.pools[0]
	name := fmt.Sprintf("old%d", len(d.s.nodes)+1)
	n := choice{m, &m.offerings[0]}.node(name, &model.NodePool{Name: pool.Name, ClassGroup: kwokv1alpha1.Group, ClassKind: kwokv1alpha1.KindKWOKNodeClass, ClassName: className}, nil)
	n.CreationTimestamp = metav1.NewTime(time.Unix(1_799_990_000, 0))
	d.s.nodes = append(d.s.nodes, registered(n))
	d.c.slices = append(d.c.slices, d.c.slicesOf(name, m.name)...)
}

func (d *deviceDrawing) template(name string) {
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: name}}
	spec := &t.Spec.Spec.Devices
	for i := range 1 + d.IntN(2) {
		spec.Requests = append(spec.Requests, d.request(fmt.Sprintf("r%d", i)))
	}
	if d.has("constraints", 2) {
		spec.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: pointer(resourceapi.FullyQualifiedName(numaKey))}}
	}
	d.c.templates = append(d.c.templates, t)
}

func (d *deviceDrawing) selectors() []resourceapi.DeviceSelector {
	if !d.has("selectors", 2) {
		return nil
	}
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: d.one(`device.attributes["gpu.example.com"].model == "a"`,
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) > 0`, `device.attributes["example.com"].numa == 0`, `device.attributes["example.com"].numa == 1`)}}}
}

func (d *deviceDrawing) request(name string) resourceapi.DeviceRequest {
	names := make([]string, len(d.c.classes))
	for i, c := range d.c.classes {
		names[i] = c.Name
	}
	class := d.one(names...)
	if d.has("alternatives", 2) {
		return resourceapi.DeviceRequest{Name: name, FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "first", DeviceClassName: class, Selectors: d.selectors(), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(1 + d.IntN(2))},
			{Name: "second", DeviceClassName: d.one(names...), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	}
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(1 + d.IntN(2)), Selectors: d.selectors()}
	if d.has("large claims", 2) {
		e.Count = int64(3 + d.IntN(6))
	}
	if d.has("all", 3) {
		e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if d.has("capacity", 2) {
		e.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(d.one("4Gi", "12Gi", "32Gi"))}}
	}
	if d.has("admin", 3) {
		e.AdminAccess = pointer(true)
	}
	if d.feature["taints"] || d.feature["rules"] {
		if d.chance(3) {
			e.Tolerations = []resourceapi.DeviceToleration{{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists}}
		}
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: e}
}

func (d *deviceDrawing) pod(name string, i int) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1_799_999_000+int64(i), 0))}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1+d.IntN(10))*100, resource.DecimalSI)}}}}
	claim := func(r corev1.PodResourceClaim) {
		r.Name = fmt.Sprintf("c%d", len(p.Spec.ResourceClaims))
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, r)
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: r.Name})
	}
	template := func() corev1.PodResourceClaim {
		return corev1.PodResourceClaim{ResourceClaimTemplateName: &d.c.templates[d.IntN(len(d.c.templates))].Name}
	}
	if d.has("extended", 2) {
		name := d.one(extendedGPU, extendedGPU, resourceapi.ResourceDeviceClassPrefix+"gpu")
		for i := range 1 + d.IntN(2) {
			if i > 0 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c2", Image: "i"})
				p.Spec.Containers[i].Resources.Requests = corev1.ResourceList{}
			}
			n := *resource.NewQuantity(int64(1+d.IntN(2)), resource.DecimalSI)
			p.Spec.Containers[i].Resources.Requests[corev1.ResourceName(name)] = n
			p.Spec.Containers[i].Resources.Limits = corev1.ResourceList{corev1.ResourceName(name): n}
		}
		if d.chance(4) {
			claim(template())
		}
		apidefaults.SetObjectDefaults_Pod(p)
		d.s.pods = append(d.s.pods, p)
		d.c.makeClaims(p)
		return
	}
	switch {
	case d.chance(8): // a pod without devices
	case d.has("shared claims", 2):
		claim(corev1.PodResourceClaim{ResourceClaimName: pointer("shared")})
		if d.chance(4) {
			claim(template())
		}
	default:
		claim(template())
		if d.has("two claims", 2) {
			claim(template())
		}
	}
	apidefaults.SetObjectDefaults_Pod(p)
	d.s.pods = append(d.s.pods, p)
	// The controller that makes claims of templates may be slow.
	if !d.has("late", 2) {
		d.c.makeClaims(p)
	}
}

// agent draws a DaemonSet whose pods claim devices: mostly, access to those that other pods use. Its pods go to nodes of one type or to all.
func (d *deviceDrawing) agent(r *rand.Rand) {
	d.c.kinds["agents"] = true
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: "agent"}}
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: d.c.classes[0].Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Tolerations: []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}}
	if r.IntN(4) > 0 {
		e.AdminAccess = pointer(true)
		if r.IntN(2) == 0 {
			e.AllocationMode, e.Count = resourceapi.DeviceAllocationModeAll, 0
		}
	}
	t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "watch", Exactly: e}}
	d.c.templates = append(d.c.templates, t)
	x := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: "agent", UID: "agent"}}
	labels := map[string]string{"daemon": x.Name}
	x.Spec.Selector, x.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	x.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: list(100, 64, 0), Claims: []corev1.ResourceClaim{{Name: "c0"}}}}}
	x.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c0", ResourceClaimTemplateName: &t.Name}}
	if r.IntN(2) == 0 {
		x.Spec.Template.Spec.NodeSelector = map[string]string{typeKey: "t0"} // which has devices
	}
	d.s.daemons = append(d.s.daemons, x)
}

// agentsOn are the pods that the DaemonSet controller makes for nodes.
func (c *deviceCluster) agentsOn(nodes []*corev1.Node) (out []*corev1.Pod) {
	for _, x := range c.daemons {
		for _, n := range nodes {
			if !daemonGoesTo(x, n) {
				continue
			}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: x.Name + "-" + n.Name, Labels: x.Spec.Template.Labels, CreationTimestamp: n.CreationTimestamp,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(x, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}, Spec: *x.Spec.Template.Spec.DeepCopy()}
			p.UID = types.UID(p.Name)
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}}}}}}}
			apidefaults.SetObjectDefaults_Pod(p)
			out = append(out, p)
		}
	}
	return out
}

// makeClaims makes the claims of a pod's templates, as kube-controller-manager does.
func (c *deviceCluster) makeClaims(p *corev1.Pod) {
	for _, r := range p.Spec.ResourceClaims {
		if r.ResourceClaimTemplateName == nil || slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == r.Name }) {
			continue
		}
		t := c.templates[slices.IndexFunc(c.templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Name == *r.ResourceClaimTemplateName })]
		x := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: devicesIn, Name: p.Name + "-" + r.Name + "-x", UID: types.UID(p.Name + "-" + r.Name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}}, Spec: *t.Spec.Spec.DeepCopy()}
		c.wanted = append(c.wanted, x)
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: r.Name, ResourceClaimName: &x.Name})
	}
}

// changeOverlay changes the devices of a NodeOverlay.
func changeOverlay(o *karpv1alpha1.NodeOverlay, change func(*resourceapi.Device)) {
	list, err := devices.ParseTypeSlices(o.Annotations[translate.AnnotationResourceSlices])
	if err != nil {
		panic(err) // overlay has written it
	}
	for i := range list {
		for j := range list[i].Devices {
			change(&list[i].Devices[j])
		}
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		panic(err) // values of the API's own types can be written
	}
	o.Annotations[translate.AnnotationResourceSlices] = string(text)
}

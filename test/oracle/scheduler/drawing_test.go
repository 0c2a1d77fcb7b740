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
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Drivers and keys of volumes, beside those of scenario.
const (
	ebs            = "ebs.csi.aws.com"
	ebsKey         = "topology.ebs.csi.aws.com/zone"
	ebsInTree      = "kubernetes.io/aws-ebs"
	localDriver    = "local.example.com" // tracks its capacity
	noProvisioner  = "kubernetes.io/no-provisioner"
	bindCompleted  = "pv.kubernetes.io/bind-completed"
	boundByControl = "pv.kubernetes.io/bound-by-controller"
	migratedKey    = "storage.alpha.kubernetes.io/migrated-plugins"
)

// drawn is a cluster as the API server has it, drawn from the fields of the inventory: a scenario, and kinds of objects that scenarios lack.
type drawn struct {
	*scenario
	drivers    []*storagev1.CSIDriver
	capacities []*storagev1.CSIStorageCapacity
	runtimes   []*nodev1.RuntimeClass
	ranges     []*corev1.LimitRange
	priorities []*schedulingv1.PriorityClass
	claimed    []*karpv1.NodeClaim // of nodes that have just come
	attached   []*storagev1.VolumeAttachment
	lacking    map[string][]string // by node: CSI drivers that are not registered there; everyDriver: it has no CSINode
	unmigrated map[string]bool     // nodes whose kubelet leaves no in-tree plugin's volumes to CSI drivers
	shapes     []string            // of shapes: those that the cluster has
	ending     string              // the namespace that is being deleted, empty: none
	written    bool                // the pending pods are as people write them: no API server has admitted them yet
}

// objects are all that a plan is made from.
func (c *drawn) objects() []runtime.Object {
	out := slices.DeleteFunc(c.scenario.objects(), func(o runtime.Object) bool {
		_, ok := o.(*storagev1.CSINode) // scenarios have those of their own driver alone
		return ok
	})
	for i, o := range out {
		if n, ok := o.(*corev1.Namespace); ok && n.Name == c.ending {
			out[i] = changed(n, func(n *corev1.Namespace) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_799_999_990, 0)} })
		}
	}
	for _, n := range c.nodes {
		if x := c.csiNode(n.Name); x != nil {
			out = append(out, x)
		}
	}
	for _, x := range c.drivers {
		out = append(out, x)
	}
	for _, x := range c.capacities {
		out = append(out, x)
	}
	for _, x := range c.runtimes {
		out = append(out, x)
	}
	for _, x := range c.ranges {
		out = append(out, x)
	}
	for _, x := range c.priorities {
		out = append(out, x)
	}
	for _, x := range c.claimed {
		out = append(out, x)
	}
	for _, x := range c.attached {
		out = append(out, x)
	}
	return out
}

// everyDriver stands for all CSI drivers.
const everyDriver = "*"

// csiNode is what the drivers' agents and the kubelet say on a standing node; nil: nothing yet.
func (c *drawn) csiNode(name string) *storagev1.CSINode {
	lacking := c.lacking[name]
	if slices.Contains(lacking, everyDriver) {
		return nil
	}
	out := newCSINode(name, c.attach[name])
	out.Spec.Drivers = slices.DeleteFunc(out.Spec.Drivers, func(x storagev1.CSINodeDriver) bool { return slices.Contains(lacking, x.Name) })
	if c.unmigrated[name] {
		out.Annotations = map[string]string{migratedKey: ""}
	}
	return out
}

func newCSINode(name string, limit int64) *storagev1.CSINode {
	out := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{migratedKey: ebsInTree + ",kubernetes.io/gce-pd"}}}
	for _, x := range []struct{ driver, key string }{{driver, zoneKey}, {ebs, ebsKey}, {localDriver, zoneKey}} {
		d := storagev1.CSINodeDriver{Name: x.driver, NodeID: name, TopologyKeys: []string{x.key}}
		if limit > 0 && x.driver != localDriver {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: pointer(int32(limit))}
		}
		out.Spec.Drivers = append(out.Spec.Drivers, d)
	}
	return out
}

// moreFeatures are what drawn clusters have beside the features of scenarios.
var moreFeatures = []string{"driverKeys", "zoneLabels", "deleting", "foreign", "capacity", "inTree", "hostNetwork", "registered", "injected", "runtime", "ranges", "hostname",
	"daemonAffinity", "nobody", "arriving", "os", "unsupported", "inline", "local", "zoneMinValues", "oddSelectors", "terms"}

// newDrawn draws one. Names begin with prefix.
func newDrawn(seed uint64, prefix string) *drawn {
	d := &drawing{draw: &draw{Rand: rand.New(rand.NewPCG(seed, 60)), s: &scenario{seed: seed, attach: map[string]int64{}}, prefix: prefix,
		feature: map[string]bool{}, counts: map[string]int{}}}
	d.c = &drawn{scenario: d.s, unmigrated: map[string]bool{}, lacking: map[string][]string{}}
	for _, list := range [][]string{features, moreFeatures} {
		for _, f := range list {
			d.feature[f] = d.chance(2)
		}
	}
	d.c.written = d.chance(2)
	d.feature["limits"], d.feature["ends"] = d.chance(6), d.chance(4) // else they hide too much of the rest
	d.machines()
	d.pools()
	d.minValues()
	d.classes()
	d.agents()
	d.nodes()
	if d.chance(2) {
		d.nodes()
	}
	d.arrive()
	d.workloads()
	d.addShapes()
	for i, p := range d.s.standing {
		d.c.admit(p)
		p.CreationTimestamp = metav1.NewTime(time.Unix(1_799_990_000+int64(i), 0))
	}
	return d.c
}

// drawing is a draw of more fields.
type drawing struct {
	*draw
	c *drawn
}

// minValues asks some pools for several zones or capacity types.
func (d *drawing) minValues() {
	for _, p := range d.s.pools {
		if !d.has("zoneMinValues", 2) {
			continue
		}
		key := d.one(zoneKey, zoneKey, ctKey, typeKey)
		t := &p.Spec.Template.Spec
		found := false
		for i := range t.Requirements {
			found = found || t.Requirements[i].Key == key
		}
		if !found {
			t.Requirements = append(t.Requirements, karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: pointer(2)})
		}
	}
}

// classes draws StorageClasses, CSIDrivers, RuntimeClasses, PriorityClasses and LimitRanges.
func (d *drawing) classes() {
	wait := pointer(storagev1.VolumeBindingWaitForFirstConsumer)
	class := func(kind, provisioner string, mode *storagev1.VolumeBindingMode) *storagev1.StorageClass {
		x := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: d.prefix + "-" + kind, CreationTimestamp: metav1.NewTime(time.Unix(1_799_000_000, 0))}, Provisioner: provisioner, VolumeBindingMode: mode}
		d.s.storage = append(d.s.storage, x)
		return x
	}
	topology := func(key string) []corev1.TopologySelectorTerm {
		return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: d.some(zones)}}}}
	}
	class("any", driver, wait).Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	class("zonal", driver, wait).AllowedTopologies = topology(zoneKey)
	class("eager", driver, pointer(storagev1.VolumeBindingImmediate))
	class("ebs", ebs, wait).AllowedTopologies = topology(ebsKey)
	old := class("in-tree", ebsInTree, wait)
	if d.chance(2) {
		old.AllowedTopologies = topology(corev1.LabelFailureDomainBetaZone)
	}
	class("tracked", localDriver, wait)
	class("local", noProvisioner, wait)
	d.c.drivers = []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: ebs}}}
	if d.feature["capacity"] {
		d.c.drivers = append(d.c.drivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: localDriver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: pointer(true)}})
		for _, z := range zones {
			if d.chance(2) {
				continue
			}
			x := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: d.name("capacity"), Namespace: namespaces[0].Name}, StorageClassName: d.prefix + "-tracked",
				Capacity: pointer(resource.MustParse(d.one("100Mi", "20Gi"))), NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{zoneKey: z}}}
			if d.chance(2) {
				x.NodeTopology = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: zoneKey, Operator: metav1.LabelSelectorOpIn, Values: []string{z}}}}
			}
			if d.chance(2) {
				x.MaximumVolumeSize = pointer(resource.MustParse(d.one("100Mi", "20Gi")))
			}
			d.c.capacities = append(d.c.capacities, x)
		}
	}
	d.c.runtimes = []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: d.prefix + "-heavy"}, Handler: "heavy",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m"), corev1.ResourceMemory: resource.MustParse("256Mi")}}}}
	if d.chance(2) {
		d.c.runtimes[0].Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{archKey: "amd64"},
			Tolerations: []corev1.Toleration{{Key: "example.com/t1", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule},
				{Key: "example.com/t2", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: pointer(int64(60))}}}
	}
	d.c.priorities = []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: d.prefix + "-low"}, Value: -10, PreemptionPolicy: pointer(corev1.PreemptNever), GlobalDefault: d.chance(3)}}
	if d.feature["ranges"] {
		d.c.ranges = []*corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: d.prefix + "-sizes", Namespace: namespaces[0].Name}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: list(300, 256, 0), Default: list(16_000, 1<<16, 0), Min: list(1, 1, 0), Max: list(64_000, 1<<20, 0),
			MaxLimitRequestRatio: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10k")}}}}}}
	}
}

// agents draws DaemonSets.
func (d *drawing) agents() {
	if !d.feature["daemons"] && !d.feature["hostNetwork"] && !d.feature["registered"] && !d.feature["injected"] && !d.feature["daemonAffinity"] && !d.feature["arriving"] {
		return
	}
	for i := range 1 + d.IntN(2) {
		x := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: d.name("daemon"), Namespace: namespaces[0].Name, Generation: 2}}
		x.UID = types.UID(x.Name)
		x.Annotations = map[string]string{"deprecated.daemonset.template.generation": "2"}
		labels := map[string]string{"daemon": x.Name, "agent": "yes"}
		x.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"daemon": x.Name}}
		x.Spec.Template.Labels = labels
		s := &x.Spec.Template.Spec
		s.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: list(int64(50+50*d.IntN(4)), int64(64+64*d.IntN(3)), 0)}}}
		if d.has("ranges", 3) {
			s.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		switch {
		case d.chance(2):
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		case d.chance(2):
			s.Tolerations = []corev1.Toleration{{Key: "example.com/t1", Operator: corev1.TolerationOpExists}, {Key: "example.com/t2", Operator: corev1.TolerationOpExists}}
		}
		if d.has("registered", 1) && i == 0 {
			s.NodeSelector = map[string]string{karpv1.LabelRegistered: "true"}
			s.Containers[0].Resources.Requests = list(500, 512, 0)
		} else if d.chance(5) {
			s.NodeSelector = map[string]string{zoneKey: d.one(zones...)}
		}
		switch {
		case d.has("hostNetwork", 1) && i == 0:
			s.HostNetwork = true
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9100}}
		case d.has("ports", 3):
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(8090 + i)}}
		}
		if d.has("runtime", 3) {
			s.RuntimeClassName = &d.c.runtimes[0].Name
		}
		d.s.daemons = append(d.s.daemons, x)
	}
}

// inject makes of a DaemonSet's pods on nodes what webhooks and admission have made of them: larger than the template.
func (d *drawing) inject() {
	sidecar := corev1.Container{Name: "injected", Image: "pause", RestartPolicy: pointer(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: list(400, 384, 0)}}
	for _, x := range d.s.daemons {
		injected := d.has("injected", 1)
		for _, p := range d.s.standing {
			if p.Labels["daemon"] != x.Name {
				continue
			}
			p.Labels["pod-template-generation"] = "2"
			p.Labels["controller-revision-hash"] = "today"
			if injected {
				p.Spec.InitContainers = append(p.Spec.InitContainers, *sidecar.DeepCopy())
			}
		}
	}
}

// arrive makes of some standing nodes ones that have just come: their NodeClaim is there, they are reserved, and no DaemonSet has a pod there yet.
func (d *drawing) arrive() {
	d.inject()
	for _, n := range d.s.nodes {
		n.Labels[ebsKey] = n.Labels[zoneKey]
		if n.Labels[zoneKey] == "" {
			delete(n.Labels, ebsKey)
		}
		if n.Spec.Unschedulable { // kube-controller-manager sees to it within moments
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		d.c.unmigrated[n.Name] = d.has("inTree", 4)
		if d.chance(3) {
			n.Labels[karpv1.LabelRegistered] = "true"
		}
		if !d.has("arriving", 2) || n.Labels[zoneKey] == "" {
			continue
		}
		n.Labels[karpv1.LabelRegistered], n.Labels[karpv1.LabelInitialized] = "true", "true"
		n.Labels[typeKey], n.Labels[ctKey], n.Labels[poolKey] = "t0", "on-demand", "p0"
		d.s.attach[n.Name] = d.s.machine("t0").attach // what one node of a type says of its attach limit holds for the next
		n.Spec.ProviderID = "oracle:///" + n.Name
		m := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + n.Name, UID: types.UID("claim-" + n.Name), Labels: map[string]string{poolKey: "p0"}}}
		m.Spec.NodeClassRef = d.s.pools[0].Spec.Template.Spec.NodeClassRef.DeepCopy()
		m.Spec.Requirements = []karpv1.Requirement{}
		m.Status.ProviderID, m.Status.NodeName = n.Spec.ProviderID, n.Name
		m.Status.Capacity, m.Status.Allocatable = n.Status.Capacity, n.Status.Allocatable
		for _, c := range []string{"Launched", "Registered", "Initialized", "Ready"} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c, LastTransitionTime: metav1.NewTime(time.Unix(1_799_999_990, 0))})
		}
		d.c.claimed = append(d.c.claimed, m)
		var left []*corev1.Pod
		for _, p := range d.s.standing {
			if p.Spec.NodeName != n.Name || p.Labels["daemon"] == "" {
				left = append(left, p)
			}
		}
		d.s.standing = left
	}
}

// workloads draws pending pods: alike ones, several of each. Each kind of volume, and each thing that pods are refused for, has a workload of its own.
func (d *drawing) workloads() {
	for range 3 + d.IntN(4) {
		p := d.pod("work", int64(100*(1+d.IntN(15))), int64(128*(1+d.IntN(16))))
		d.rules(p)
		d.replicas(p, "", 1+d.IntN(4))
	}
	for _, kind := range []string{"driverKeys", "zoneLabels", "deleting", "foreign", "capacity", "inTree", "volumes", "local"} {
		if d.feature[kind] {
			p := d.pod("work", int64(100*(1+d.IntN(5))), int64(128*(1+d.IntN(5))))
			if d.chance(3) {
				d.rules(p)
			}
			d.replicas(p, kind, 1+d.IntN(3))
		}
	}
	for _, add := range []func(*corev1.Pod){
		func(p *corev1.Pod) {
			d.inline(p, corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + d.one("1", "2")}})
		},
		func(p *corev1.Pod) {
			d.inline(p, corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: d.one("disk-1", "disk-2"), ReadOnly: !d.chance(10)}})
		},
		func(p *corev1.Pod) {
			d.inline(p, corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1", IQN: d.one("iqn-1", "iqn-2"), ReadOnly: !d.chance(3)}})
		},
		func(p *corev1.Pod) {
			d.inline(p, corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m1", d.one("m2", "m3")}, RBDPool: "pool", RBDImage: d.one("image-1", "image-2"), ReadOnly: !d.chance(10)}})
		},
	} {
		if d.has("inline", 2) {
			p := d.pod("work", 100, 128)
			add(p)
			d.replicas(p, "", 1+d.IntN(3))
		}
	}
	for _, add := range []func(*corev1.Pod){
		func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: pointer(d.prefix + "-device")}}
		},
		func(p *corev1.Pod) { d.restarts(&p.Spec.Containers[0]) },
		func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "pause"}}
			d.restarts(&p.Spec.InitContainers[0])
		},
		func(p *corev1.Pod) { p.Spec.HostUsers, p.Spec.HostNetwork = pointer(false), true },
		func(p *corev1.Pod) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: pointer("gang")}
		},
		func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} },
	} {
		if d.has("unsupported", 2) {
			p := d.pod("work", 100, 128)
			add(p)
			d.replicas(p, "", 1)
		}
	}
}

// restarts gives a container a rule that only nodes that declare a feature know.
func (d *drawing) restarts(c *corev1.Container) {
	c.RestartPolicy = pointer(corev1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}}}}
}

// inline gives a pod a volume that it names itself.
func (d *drawing) inline(p *corev1.Pod, source corev1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "inline", VolumeSource: source})
}

// replicas adds some pods that are alike but for their volumes.
func (d *drawing) replicas(p *corev1.Pod, volume string, n int) {
	for i := range n {
		q := p.DeepCopy()
		q.Name = fmt.Sprintf("%s-%d", p.Name, i)
		q.UID = types.UID(q.Name)
		if d.c.written {
			q.UID = types.UID("file:Pod/" + q.Namespace + "/" + q.Name) // as manifests.Read names what no API server has stored
		}
		if volume != "" {
			d.store(q, volume)
		}
		if !d.c.written {
			d.c.admit(q)
		}
		d.s.pods = append(d.s.pods, q)
	}
}

// rules gives a pod one to three of the cluster's features.
func (d *drawing) rules(p *corev1.Pod) {
	var able []func()
	add := func(feature string, f func()) {
		if d.feature[feature] {
			able = append(able, f)
		}
	}
	add("taints", func() {
		d.tolerate(p)
		if d.chance(2) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "example.com/t1", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: pointer(int64(600))})
		}
	})
	add("teams", func() { p.Spec.NodeSelector = map[string]string{teamKey: d.one(teams...)} })
	add("spread", func() { d.spread(p); d.spreadBy(p) })
	add("affinity", func() {
		affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.podTerm(p)}}
	})
	add("anti", func() { d.anti(p) })
	add("terms", func() { d.fullTerms(p) })
	add("names", func() { d.requireNodes(p) })
	add("oddSelectors", func() { d.requireNodes(p) })
	add("preferred", func() { d.prefer(p); d.prefer(p) })
	add("ports", func() { d.port(p) })
	add("hostNetwork", func() { d.hostNetwork(p) })
	add("gpu", func() {
		r := &p.Spec.Containers[0].Resources
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[gpu], r.Limits = resource.MustParse("1"), corev1.ResourceList{gpu: resource.MustParse("1")}
	})
	add("priority", func() { p.Spec.PriorityClassName = d.c.priorities[0].Name })
	add("containers", func() {
		d.containers(p)
		p.Spec.Overhead, p.Spec.RuntimeClassName = nil, nil // the RuntimeClass of scenarios is not there
		for i := range p.Spec.InitContainers {
			if r := &p.Spec.InitContainers[i].Resources; d.chance(2) {
				r.Limits = r.Requests.DeepCopy()
			}
		}
		if p.Spec.Resources == nil && d.chance(2) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: list(8000, 8192, 0)}
		}
		if p.Spec.Resources != nil && !d.chance(3) {
			p.Spec.Resources.Limits = p.Spec.Resources.Requests.DeepCopy()
		}
	})
	add("runtime", func() {
		p.Spec.RuntimeClassName, p.Spec.Overhead = &d.c.runtimes[0].Name, nil
	})
	add("ranges", func() {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		p.Namespace = namespaces[0].Name
	})
	add("hostname", func() { d.hostname(p) })
	add("daemonAffinity", func() { d.toDaemons(p) })
	add("nobody", func() { d.towardsNobody(p) })
	add("os", func() { p.Spec.OS = &corev1.PodOS{Name: corev1.OSName(d.one("linux", "linux", "windows"))} })
	if d.chance(4) {
		p.Spec.NodeSelector = map[string]string{zoneKey: d.one(zones...)}
	}
	for range min(len(able), 1+d.IntN(3)) {
		able[d.IntN(len(able))]()
	}
}

// spreadBy sets fields of a constraint that are often left out.
func (d *drawing) spreadBy(p *corev1.Pod) {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		if c.LabelSelector != nil && len(c.LabelSelector.MatchExpressions) == 0 && d.chance(2) {
			c.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "kind", Operator: metav1.LabelSelectorOpIn, Values: []string{"work"}}}
		}
		if d.chance(2) {
			c.NodeTaintsPolicy, c.NodeAffinityPolicy = pointer(corev1.NodeInclusionPolicyHonor), pointer(corev1.NodeInclusionPolicyHonor)
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && d.chance(2) {
			c.MinDomains = pointer(int32(1 + d.IntN(2)))
		}
		if d.chance(2) {
			c.MatchLabelKeys = []string{"version"}
		}
	}
}

// fullTerms gives a pod terms of pod affinity with every field.
func (d *drawing) fullTerms(p *corev1.Pod) {
	term := func() corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: d.key(), Namespaces: []string{p.Namespace},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kind", Operator: metav1.LabelSelectorOpIn, Values: []string{"work"}}}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": d.one("prod", "test")},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kind", Operator: metav1.LabelSelectorOperator(d.one("Exists", "DoesNotExist"))}, {Key: "env", Operator: "NotIn", Values: []string{"none"}}}},
			MatchLabelKeys: []string{"version"}, MismatchLabelKeys: []string{"track"}}
	}
	p.Labels["track"] = "stable"
	a := affinityOf(p)
	weighted := func() []corev1.WeightedPodAffinityTerm {
		return []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: term()}}
	}
	if d.chance(2) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term()}, PreferredDuringSchedulingIgnoredDuringExecution: weighted()}
	} else {
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term()}, PreferredDuringSchedulingIgnoredDuringExecution: weighted()}
	}
	if d.chance(2) {
		if a.NodeAffinity == nil {
			a.NodeAffinity = &corev1.NodeAffinity{}
		}
		a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{d.expression()},
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: "NotIn", Values: []string{"nobody"}}}}})
	}
}

// hostNetwork puts a pod on the host's network: every port of its containers is a host port.
func (d *drawing) hostNetwork(p *corev1.Pod) {
	if d.chance(3) {
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: int32(9100 + d.IntN(2))}}
		return
	}
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 9100}}
	if !d.chance(3) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "listens", Image: "pause", RestartPolicy: pointer(corev1.ContainerRestartPolicyAlways),
			Ports: []corev1.ContainerPort{{ContainerPort: 81, HostPort: 9101, HostIP: "127.0.0.1", Protocol: "UDP"}}, Resources: corev1.ResourceRequirements{Requests: list(10, 8, 0)}})
	}
}

// hostname has a pod ask for one node by its label.
func (d *drawing) hostname(p *corev1.Pod) {
	name := "gone"
	if len(d.s.nodes) > 0 && d.chance(2) {
		name = d.s.nodes[d.IntN(len(d.s.nodes))].Labels[hostKey]
	}
	p.Spec.NodeSelector = map[string]string{hostKey: name}
}

// toDaemons has a pod ask for a node with a DaemonSet's pod, or without.
func (d *drawing) toDaemons(p *corev1.Pod) {
	if len(d.s.daemons) == 0 {
		return
	}
	p.Namespace = namespaces[0].Name
	x := d.s.daemons[d.IntN(len(d.s.daemons))]
	term := corev1.PodAffinityTerm{TopologyKey: hostKey, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"daemon": x.Name}}}
	if d.chance(4) {
		affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
		return
	}
	affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
}

// nobodyApp is a label that no pod has.
const nobodyApp = "nobody"

// towardsNobody gives a pod preferred affinity to pods that are not there.
func (d *drawing) towardsNobody(p *corev1.Pod) {
	affinityOf(p).PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100,
		PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: d.one(zoneKey, zoneKey, hostKey), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": nobodyApp}}}}}}
}

// store gives a pod a volume of a kind.
func (d *drawing) store(p *corev1.Pod, kind string) {
	claim := d.claim(p)
	switch kind {
	case "driverKeys":
		if d.chance(2) {
			claim.Spec.StorageClassName = pointer(d.prefix + "-ebs")
			break
		}
		v := d.bind(claim, d.some(zones))
		v.Spec.CSI.Driver = ebs
		v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = ebsKey
		if d.chance(2) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms = append(v.Spec.NodeAffinity.Required.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: "In", Values: []string{"gone"}}}})
		}
	case "zoneLabels":
		v := d.bind(claim, nil)
		v.Labels = map[string]string{d.one(zoneKey, zoneKey, corev1.LabelFailureDomainBetaZone): d.one(zones...)}
	case "deleting":
		d.bind(claim, d.some(zones))
		if d.chance(2) {
			claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: time.Unix(1_799_999_990, 0)}, []string{"kubernetes.io/pvc-protection"}
		}
	case "foreign":
		d.ephemeral(p, claim)
		return
	case "capacity":
		claim.Spec.StorageClassName = pointer(d.prefix + "-tracked")
	case "inTree":
		if d.chance(2) {
			claim.Spec.StorageClassName = pointer(d.prefix + "-in-tree")
			break
		}
		zone := d.one(zones...)
		v := d.bind(claim, nil)
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://" + zone + "/vol-" + v.Name}}
		v.Labels = map[string]string{zoneKey: zone}
	case "local":
		claim.Spec.StorageClassName = pointer(d.prefix + "-local")
		if d.chance(2) {
			v := newVolume(d.name("volume"), claim, d.some(zones))
			v.Spec.ClaimRef, v.Spec.StorageClassName, v.Spec.PersistentVolumeSource = nil, d.prefix+"-local", corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}}
			v.Status.Phase, v.Spec.VolumeMode = corev1.VolumeAvailable, claim.Spec.VolumeMode
			d.s.volumes = append(d.s.volumes, v)
		}
	default:
		d.anyClaim(claim)
	}
	d.use(p, claim)
}

// claim draws a claim that is in no state yet.
func (d *drawing) claim(p *corev1.Pod) *corev1.PersistentVolumeClaim {
	x := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: d.name("claim"), Namespace: p.Namespace}}
	x.UID = types.UID(x.Name)
	x.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(d.one("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))}
	x.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	x.CreationTimestamp = metav1.NewTime(time.Unix(1_799_000_000+int64(d.counts["claim"]), 0))
	x.Spec.VolumeMode = pointer(corev1.PersistentVolumeFilesystem)
	x.Status.Phase = corev1.ClaimPending
	return x
}

// bind binds a claim to a volume that can be used in the zones; none: anywhere.
func (d *drawing) bind(claim *corev1.PersistentVolumeClaim, zones []string) *corev1.PersistentVolume {
	claim.Spec.StorageClassName = pointer("")
	v := newVolume(d.name("volume"), claim, zones)
	claim.Spec.VolumeName, claim.Status.Phase = v.Name, corev1.ClaimBound
	claim.Annotations = map[string]string{bindCompleted: "yes", boundByControl: "yes"}
	v.Spec.VolumeMode = claim.Spec.VolumeMode
	v.Status.Phase = corev1.VolumeBound
	d.s.volumes = append(d.s.volumes, v)
	return v
}

// anyClaim draws the state of a claim of the scenario's own driver.
func (d *drawing) anyClaim(claim *corev1.PersistentVolumeClaim) {
	switch d.IntN(8) {
	case 0: // prebound: the volume is there and not bound yet
		d.bind(claim, d.some(zones))
		claim.Annotations, claim.Status.Phase = nil, corev1.ClaimPending
	case 1: // lost
		claim.Spec.StorageClassName, claim.Spec.VolumeName, claim.Status.Phase = pointer(""), "gone", corev1.ClaimLost
		claim.Annotations = map[string]string{bindCompleted: "yes"}
	case 2:
		claim.Spec.StorageClassName = pointer(d.prefix + "-eager")
	case 3:
		claim.Spec.StorageClassName = pointer(d.prefix + "-nothing")
	case 4, 5:
		claim.Spec.StorageClassName = pointer(d.prefix + "-" + d.one("any", "zonal"))
	default:
		d.bind(claim, d.some(zones))
	}
}

// ephemeral gives a pod a generic ephemeral volume, whose claim is the pod's, somebody else's or still to be made.
func (d *drawing) ephemeral(p *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	spec := claim.Spec
	spec.StorageClassName = pointer(d.prefix + "-" + d.one("any", "zonal", "ebs"))
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}}})
	claim.Name, claim.Spec = p.Name+"-scratch", spec
	switch d.IntN(5) {
	case 0:
		return // its claim is still to be made
	case 1, 2:
		owner := metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))
		claim.OwnerReferences = []metav1.OwnerReference{*owner}
	case 3:
		d.bind(claim, d.some(zones)) // somebody else's
	}
	d.s.claims = append(d.s.claims, claim)
}

// use has a pod use a claim.
func (d *drawing) use(p *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	d.s.claims = append(d.s.claims, claim)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data" + strconv.Itoa(len(p.Spec.Volumes)),
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
}

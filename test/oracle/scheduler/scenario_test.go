// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

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
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// The words that objects are drawn from. Few, so that they meet.
const (
	driver    = "disk.example.com"
	gpu       = "example.com/gpu"
	teamKey   = "example.com/team"  // the pools' own label
	tierKey   = "example.com/tier"  // another one, of numbers
	coresKey  = "example.com/cores" // a label of instance types, of numbers
	zoneKey   = corev1.LabelTopologyZone
	hostKey   = corev1.LabelHostname
	typeKey   = corev1.LabelInstanceTypeStable
	archKey   = corev1.LabelArchStable
	ctKey     = karpv1.LabelCapacityType
	poolKey   = karpv1.LabelNodePool
	className = "oracle"

	reservedKey = "dovetail.sh/reserved"
)

var (
	zones = []string{"a", "b", "c"}
	teams = []string{"red", "blue"}
	tiers = []string{"1", "2", "4"}
	apps  = []string{"x", "y", "z"}
)

// namespaces stand for all seeds.
var namespaces = []*corev1.Namespace{
	{ObjectMeta: metav1.ObjectMeta{Name: "oracle-a", Labels: map[string]string{"env": "prod"}}},
	{ObjectMeta: metav1.ObjectMeta{Name: "oracle-b", Labels: map[string]string{"env": "prod", "kind": "batch"}}},
	{ObjectMeta: metav1.ObjectMeta{Name: "oracle-c", Labels: map[string]string{"env": "test"}}},
}

var highPriority = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "oracle-high"}, Value: 1000, PreemptionPolicy: pointer(corev1.PreemptNever)}

var heavyRuntime = &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "oracle-heavy"}, Handler: "heavy",
	Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("128Mi")}}}

func pointer[T any](v T) *T { return &v }

// machine is an instance type as a cloud would list it.
type machine struct {
	name        string
	labels      map[string]string
	capacity    corev1.ResourceList
	allocatable corev1.ResourceList
	offerings   []model.Offering
	attach      int64 // limit of driver; 0: none known
}

// scenario is everything that is drawn for a seed.
type scenario struct {
	seed     uint64
	machines []machine
	pools    []*karpv1.NodePool
	nodes    []*corev1.Node
	attach   map[string]int64 // limit of driver, by node
	storage  []*storagev1.StorageClass
	volumes  []*corev1.PersistentVolume
	claims   []*corev1.PersistentVolumeClaim
	daemons  []*appsv1.DaemonSet
	standing []*corev1.Pod // bound by name
	pods     []*corev1.Pod // pending
}

// objects are all but the machines, as a plan is made from.
func (s *scenario) objects() []runtime.Object {
	out := []runtime.Object{&kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: className}}, highPriority}
	for _, x := range namespaces {
		out = append(out, x)
	}
	for _, x := range s.pools {
		out = append(out, x)
	}
	for _, x := range s.nodes {
		out = append(out, x)
		if c := csiNode(x.Name, s.attach[x.Name]); c != nil {
			out = append(out, c)
		}
	}
	for _, x := range s.storage {
		out = append(out, x)
	}
	for _, x := range s.volumes {
		out = append(out, x)
	}
	for _, x := range s.claims {
		out = append(out, x)
	}
	for _, x := range s.daemons {
		out = append(out, x)
	}
	for _, x := range slices.Concat(s.standing, s.pods) {
		out = append(out, x)
	}
	return out
}

// csiNode says how many volumes a node attaches, nil where no limit is known.
func csiNode(name string, limit int64) *storagev1.CSINode {
	if limit == 0 {
		return nil
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: pointer(int32(limit))}},
	}}}
}

// draw is a source of chance and what this seed's objects may have. Few features at once let each of them show.
type draw struct {
	*rand.Rand
	s       *scenario
	prefix  string
	feature map[string]bool
	counts  map[string]int
}

var features = []string{"taints", "teams", "tiers", "arch", "spread", "affinity", "anti", "ports", "volumes", "limits", "gpu", "daemons", "priority",
	"minValues", "weights", "namespaces", "names", "containers", "attach", "spot", "preferred", "scarce", "ends"}

func (d *draw) one(of ...string) string { return of[d.IntN(len(of))] }

func (d *draw) some(of []string) []string {
	out := []string{}
	for _, v := range of {
		if d.IntN(2) == 0 {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		out = append(out, of[d.IntN(len(of))])
	}
	return out
}

// chance is true once in n.
func (d *draw) chance(n int) bool { return d.IntN(n) == 0 }

// has is true for some of the objects of a seed that has the feature.
func (d *draw) has(feature string, n int) bool { return d.feature[feature] && d.chance(n) }

func (d *draw) name(kind string) string {
	d.counts[kind]++
	return fmt.Sprintf("%s-%s%d", d.prefix, kind, d.counts[kind])
}

func list(cpuMilli, memMiB, pods int64) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memMiB<<20, resource.BinarySI)}
	if pods > 0 {
		out[corev1.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
		out[corev1.ResourceEphemeralStorage] = resource.MustParse("20Gi")
	}
	return out
}

func (d *draw) machines() {
	cts := []string{model.OnDemand}
	if d.feature["spot"] {
		cts = append(cts, model.Spot)
	}
	total := 0
	for i := range 1 + d.IntN(4) {
		cores := int64(1 + d.IntN(8))
		mem := int64(1+d.IntN(12)) << 10
		pods := int64(110)
		if d.chance(4) {
			pods = int64(2 + d.IntN(4))
		}
		m := machine{name: fmt.Sprintf("t%d", i), labels: map[string]string{typeKey: fmt.Sprintf("t%d", i), archKey: "amd64", corev1.LabelOSStable: "linux",
			coresKey: strconv.FormatInt(cores, 10)}}
		if d.has("arch", 2) {
			m.labels[archKey] = "arm64"
		}
		m.capacity = list(cores*1000, mem, pods)
		m.allocatable = list(cores*1000-int64(d.IntN(3))*50, mem-int64(d.IntN(3))*64, pods)
		if d.has("gpu", 2) {
			q := *resource.NewQuantity(int64(1+d.IntN(2)), resource.DecimalSI)
			m.capacity[gpu], m.allocatable[gpu] = q, q
		}
		if d.has("attach", 2) {
			m.attach = int64(1 + d.IntN(3))
		}
		price := cores*12_000 + mem*3 + int64(d.IntN(9_000))
		for _, z := range d.some(zones) {
			for _, ct := range cts {
				if total == 12 {
					break
				}
				o := model.Offering{Zone: z, CapacityType: ct, PriceMicro: price, Available: !d.has("scarce", 4), Remaining: -1}
				if ct == model.Spot {
					o.PriceMicro = price * int64(300+d.IntN(400)) / 1000
				}
				m.offerings = append(m.offerings, o)
				total++
			}
		}
		if len(m.offerings) > 0 {
			d.s.machines = append(d.s.machines, m)
		}
	}
}

func (d *draw) taint() corev1.Taint {
	return corev1.Taint{Key: d.one("example.com/t1", "example.com/t2"), Value: d.one("v", "w"),
		Effect: corev1.TaintEffect(d.one("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"))}
}

func (d *draw) pools() {
	for i := range 1 + d.IntN(3) {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("pool-%d", i))}}
		t := &p.Spec.Template
		t.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: className}
		t.Spec.Requirements = []karpv1.Requirement{}
		if d.has("weights", 2) {
			p.Spec.Weight = pointer(int32(1 + d.IntN(2)*9))
		}
		if d.has("taints", 2) {
			t.Spec.Taints = append(t.Spec.Taints, d.taint())
		}
		if d.has("taints", 4) {
			t.Spec.StartupTaints = []corev1.Taint{{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}}
		}
		require := func(key string, op corev1.NodeSelectorOperator, values ...string) {
			t.Spec.Requirements = append(t.Spec.Requirements, karpv1.Requirement{Key: key, Operator: op, Values: values})
		}
		if d.has("teams", 2) {
			t.Labels = map[string]string{teamKey: d.one(teams...)}
		} else if d.has("teams", 2) {
			switch d.IntN(4) {
			case 0:
				require(teamKey, corev1.NodeSelectorOpIn, d.one(teams...))
			case 1:
				require(teamKey, corev1.NodeSelectorOpIn, teams...)
			case 2:
				require(teamKey, corev1.NodeSelectorOpExists)
			case 3:
				require(teamKey, corev1.NodeSelectorOpNotIn, d.one(teams...))
			}
		}
		if d.has("tiers", 2) {
			switch d.IntN(3) {
			case 0:
				require(tierKey, corev1.NodeSelectorOpIn, d.some(tiers)...)
			case 1:
				require(tierKey, corev1.NodeSelectorOpGt, d.one("0", "1", "2"))
			case 2:
				require(tierKey, karpv1.NodeSelectorOpLte, d.one("2", "4"))
			}
		}
		if d.chance(4) {
			require(zoneKey, corev1.NodeSelectorOperator(d.one("In", "In", "NotIn")), d.some(zones)...)
		}
		if d.chance(5) {
			require(coresKey, corev1.NodeSelectorOperator(d.one("Gt", "Lt", "Gte", "Lte")), d.one("2", "3", "4"))
		}
		if d.has("spot", 2) {
			require(ctKey, corev1.NodeSelectorOpIn, d.some([]string{model.OnDemand, model.Spot})...)
		}
		if d.has("arch", 3) {
			require(archKey, corev1.NodeSelectorOpIn, d.one("amd64", "arm64"))
		}
		if d.has("minValues", 2) {
			t.Spec.Requirements = append(t.Spec.Requirements, karpv1.Requirement{Key: typeKey, Operator: corev1.NodeSelectorOpExists, MinValues: pointer(1 + d.IntN(2))})
		}
		if d.has("limits", 2) {
			p.Spec.Limits = karpv1.Limits{}
			if d.chance(2) {
				p.Spec.Limits[corev1.ResourceCPU] = *resource.NewQuantity(int64(1+d.IntN(20)), resource.DecimalSI)
			}
			if d.chance(2) {
				p.Spec.Limits[corev1.ResourceMemory] = *resource.NewQuantity(int64(1+d.IntN(30))<<30, resource.BinarySI)
			}
			if d.chance(2) {
				p.Spec.Limits[karpv1.ResourceNodes] = *resource.NewQuantity(int64(d.IntN(5)), resource.DecimalSI)
			}
		}
		d.s.pools = append(d.s.pools, p)
	}
}

func (d *draw) storage() {
	topology := func() []corev1.TopologySelectorTerm {
		return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zoneKey, Values: d.some(zones)}}}}
	}
	for _, kind := range []string{"any", "zonal"} {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: d.prefix + "-" + kind}, Provisioner: driver,
			VolumeBindingMode: pointer(storagev1.VolumeBindingWaitForFirstConsumer)}
		if kind == "zonal" {
			c.AllowedTopologies = topology()
		}
		d.s.storage = append(d.s.storage, c)
	}
}

// volume gives a pod a volume: one that is there in some zone, or one that is made where the pod goes.
func (d *draw) volume(p *corev1.Pod) {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	if d.chance(4) {
		modes[0] = corev1.ReadWriteOncePod
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	spec := corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}}
	name := "data" + strconv.Itoa(len(p.Spec.Volumes))
	source := corev1.VolumeSource{}
	if d.chance(5) {
		spec.StorageClassName = pointer(d.prefix + "-" + d.one("any", "zonal"))
		source.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		return
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: d.name("claim"), Namespace: p.Namespace}, Spec: spec}
	if d.chance(2) {
		claim.Spec.StorageClassName = pointer(d.prefix + "-" + d.one("any", "zonal"))
	} else {
		v := newVolume(d.name("volume"), claim, d.some(zones))
		claim.Spec.StorageClassName, claim.Spec.VolumeName = pointer(""), v.Name
		d.s.volumes = append(d.s.volumes, v)
	}
	d.s.claims = append(d.s.claims, claim)
	source.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
}

// newVolume is a disk that can be used in the zones.
func newVolume(name string, claim *corev1.PersistentVolumeClaim, zones []string) *corev1.PersistentVolume {
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: class,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
	}}
	if len(zones) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneKey, Operator: corev1.NodeSelectorOpIn, Values: zones}}}}}}
	}
	return v
}

func (d *draw) daemons() {
	for i := range 1 + d.IntN(2) {
		x := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: d.name("daemon"), Namespace: namespaces[0].Name}}
		x.UID = types.UID(x.Name)
		labels := map[string]string{"daemon": x.Name}
		x.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		x.Spec.Template.Labels = labels
		x.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause",
			Resources: corev1.ResourceRequirements{Requests: list(int64(50+50*d.IntN(6)), int64(64+64*d.IntN(4)), 0)}}}
		if d.chance(3) {
			x.Spec.Template.Spec.NodeSelector = map[string]string{zoneKey: d.one(zones...)}
		}
		switch {
		case d.chance(3):
			x.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		case d.chance(3):
			x.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/t1", Operator: corev1.TolerationOpExists}}
		}
		if d.has("ports", 3) {
			x.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(8080 + i)}}
		}
		d.s.daemons = append(d.s.daemons, x)
	}
}

// nodes draws standing nodes and what is on them.
func (d *draw) nodes() {
	for range d.IntN(5) {
		cores, mem, pods := int64(1+d.IntN(6)), int64(1+d.IntN(10))<<10, int64(110)
		if d.chance(5) {
			pods = int64(2 + d.IntN(4))
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.name("node")}}
		n.Labels = map[string]string{hostKey: n.Name, archKey: "amd64", corev1.LabelOSStable: "linux"}
		if !d.chance(8) {
			n.Labels[zoneKey] = d.one(zones...)
		}
		if d.feature["spot"] && !d.chance(4) {
			n.Labels[ctKey] = d.one(model.OnDemand, model.Spot)
		}
		if d.has("teams", 2) {
			n.Labels[teamKey] = d.one(teams...)
		}
		if d.has("tiers", 2) {
			n.Labels[tierKey] = d.one(tiers...)
		}
		if d.has("taints", 3) {
			n.Spec.Taints = append(n.Spec.Taints, d.taint())
		}
		n.Spec.Unschedulable = d.chance(12)
		n.Status.Capacity, n.Status.Allocatable = list(cores*1000, mem, pods), list(cores*1000, mem, pods)
		if d.has("gpu", 3) {
			n.Status.Capacity[gpu], n.Status.Allocatable[gpu] = resource.MustParse("1"), resource.MustParse("1")
		}
		if d.has("attach", 2) {
			d.s.attach[n.Name] = int64(1 + d.IntN(2))
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		d.s.nodes = append(d.s.nodes, n)
		d.standOn(n, cores*1000, mem)
	}
}

// standOn puts pods on a node, with constraints that bear upon others.
func (d *draw) standOn(n *corev1.Node, cpu, mem int64) {
	for _, x := range d.s.daemons {
		if d.chance(2) && daemonGoesTo(x, n) {
			p := &corev1.Pod{ObjectMeta: *x.Spec.Template.ObjectMeta.DeepCopy(), Spec: *x.Spec.Template.Spec.DeepCopy()}
			p.Name, p.Namespace, p.Spec.NodeName = d.name("on"), x.Namespace, n.Name
			p.UID = types.UID(p.Name)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: x.Name, UID: x.UID, Controller: pointer(true)}}
			d.s.standing = append(d.s.standing, p)
			q := p.Spec.Containers[0].Resources.Requests
			cpu, mem = cpu-q.Cpu().MilliValue(), mem-q.Memory().Value()>>20
		}
	}
	for range d.IntN(3) {
		c, m := int64(100*(1+d.IntN(10))), int64(128*(1+d.IntN(8)))
		if c > cpu || m > mem {
			continue
		}
		cpu, mem = cpu-c, mem-m
		p := d.pod("on", c, m)
		p.UID = types.UID(p.Name)
		p.Spec.NodeName = n.Name
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // or it would be driven away
		if d.feature["anti"] && d.chance(2) {
			d.anti(p)
		}
		if d.has("ports", 2) {
			d.port(p)
		}
		if d.has("volumes", 5) && n.Labels[zoneKey] != "" {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: d.name("claim"), Namespace: p.Namespace}}
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(d.one("ReadWriteOnce", "ReadWriteOncePod"))}
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			v := newVolume(d.name("volume"), claim, []string{n.Labels[zoneKey]})
			claim.Spec.StorageClassName, claim.Spec.VolumeName = pointer(""), v.Name
			d.s.volumes, d.s.claims = append(d.s.volumes, v), append(d.s.claims, claim)
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
		}
		d.s.standing = append(d.s.standing, p)
	}
}

func (d *draw) pod(kind string, cpu, mem int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.name(kind), Namespace: namespaces[0].Name}}
	if d.has("namespaces", 2) {
		p.Namespace = namespaces[d.IntN(len(namespaces))].Name
	}
	p.Labels = map[string]string{"app": d.one(apps...), "version": d.one("1", "2"), "kind": "work"}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: list(cpu, mem, 0)}}}
	p.Spec.TerminationGracePeriodSeconds = pointer(int64(0))
	p.Spec.AutomountServiceAccountToken = pointer(false)
	return p
}

func (d *draw) port(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(8080 + d.IntN(2)), HostIP: d.one("", "", "127.0.0.1", "10.0.0.1"),
		Protocol: corev1.Protocol(d.one("TCP", "TCP", "UDP"))}}
}

// key draws a topology key.
func (d *draw) key() string {
	keys := []string{zoneKey, zoneKey, hostKey, hostKey}
	if d.feature["spot"] {
		keys = append(keys, ctKey)
	}
	if d.feature["teams"] {
		keys = append(keys, teamKey)
	}
	return d.one(keys...)
}

func (d *draw) selects(p *corev1.Pod) *metav1.LabelSelector {
	app := p.Labels["app"]
	if d.chance(3) {
		app = d.one(apps...)
	}
	switch d.IntN(6) {
	case 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{app}},
			{Key: "kind", Operator: metav1.LabelSelectorOpExists}}} // so that the pods of DaemonSets are not meant
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{app, "x"}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func (d *draw) podTerm(p *corev1.Pod) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: d.key(), LabelSelector: d.selects(p)}
	switch d.IntN(6) {
	case 0:
		t.MatchLabelKeys = []string{"version"}
	case 1:
		t.MismatchLabelKeys = []string{"version"}
	}
	if d.feature["namespaces"] {
		switch d.IntN(4) {
		case 0:
			t.Namespaces = []string{namespaces[d.IntN(3)].Name}
		case 1:
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": d.one("prod", "test")}}
		case 2:
			t.NamespaceSelector = &metav1.LabelSelector{}
		}
	}
	return t
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func (d *draw) anti(p *corev1.Pod) {
	a := affinityOf(p)
	a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.podTerm(p)}}
}

func (d *draw) expression() corev1.NodeSelectorRequirement {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOperator(d.one("In", "In", "NotIn")), Values: values}
	}
	var out []corev1.NodeSelectorRequirement
	out = append(out, in(zoneKey, d.some(zones)...), in(zoneKey, d.some(zones)...), in(typeKey, "t0", d.one("t1", "t2")),
		corev1.NodeSelectorRequirement{Key: coresKey, Operator: corev1.NodeSelectorOperator(d.one("Gt", "Lt")), Values: []string{d.one("1", "3", "5")}},
		in(poolKey, "p0"))
	if d.feature["teams"] {
		out = append(out, in(teamKey, d.one(teams...)), in(teamKey, d.one(teams...)),
			corev1.NodeSelectorRequirement{Key: teamKey, Operator: corev1.NodeSelectorOperator(d.one("Exists", "DoesNotExist"))})
	}
	if d.feature["tiers"] {
		out = append(out, in(tierKey, d.some(tiers)...), corev1.NodeSelectorRequirement{Key: tierKey, Operator: corev1.NodeSelectorOperator(d.one("Gt", "Lt")), Values: []string{d.one("1", "3")}})
	}
	if d.feature["arch"] {
		out = append(out, in(archKey, d.one("amd64", "arm64")))
	}
	if d.feature["spot"] {
		out = append(out, in(ctKey, d.one(model.OnDemand, model.Spot)))
	}
	return out[d.IntN(len(out))]
}

func (d *draw) nodeTerm() corev1.NodeSelectorTerm {
	t := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{d.expression()}}
	if d.chance(4) {
		t.MatchExpressions = append(t.MatchExpressions, d.expression())
	}
	if d.has("names", 2) && len(d.s.nodes) > 0 {
		t.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOperator(d.one("In", "NotIn")),
			Values: []string{d.s.nodes[d.IntN(len(d.s.nodes))].Name}}}
		if d.chance(2) {
			t.MatchExpressions = nil
		}
	}
	return t
}

func (d *draw) tolerate(p *corev1.Pod) {
	for range 1 + d.IntN(2) {
		t := corev1.Toleration{Key: d.one("example.com/t1", "example.com/t2"), Operator: corev1.TolerationOperator(d.one("Exists", "Equal")),
			Effect: corev1.TaintEffect(d.one("", "", "NoSchedule", "NoExecute"))}
		if t.Operator == corev1.TolerationOpEqual {
			t.Value = d.one("v", "w")
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
	if d.chance(6) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
}

func (d *draw) requireNodes(p *corev1.Pod) {
	terms := []corev1.NodeSelectorTerm{d.nodeTerm()}
	if d.chance(2) {
		terms = append(terms, d.nodeTerm())
	}
	affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

// constrain gives a pod some of everything.
func (d *draw) constrain(p *corev1.Pod) {
	if d.feature["taints"] && d.chance(2) {
		d.tolerate(p)
	}
	if d.chance(4) {
		p.Spec.NodeSelector = map[string]string{zoneKey: d.one(zones...)}
	}
	if d.has("teams", 4) {
		p.Spec.NodeSelector = map[string]string{teamKey: d.one(teams...)}
	}
	if d.chance(3) {
		d.requireNodes(p)
	}
	if d.feature["spread"] && d.chance(2) {
		for range 1 + d.IntN(2) {
			d.spread(p)
		}
	}
	if d.feature["affinity"] && d.chance(2) {
		affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.podTerm(p)}}
		if d.chance(4) {
			affinityOf(p).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(affinityOf(p).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, d.podTerm(p))
		}
	}
	if d.feature["anti"] && d.chance(2) {
		d.anti(p)
	}
	if d.has("preferred", 2) {
		d.prefer(p)
	}
	if d.has("ports", 3) {
		d.port(p)
	}
	if d.has("volumes", 2) {
		for range 1 + d.IntN(2) {
			d.volume(p)
		}
	}
	if d.has("gpu", 3) {
		r := &p.Spec.Containers[0].Resources
		r.Requests[gpu] = resource.MustParse("1")
		r.Limits = corev1.ResourceList{gpu: resource.MustParse("1")}
	}
	if d.has("priority", 2) {
		p.Spec.PriorityClassName = highPriority.Name
	}
	if d.has("containers", 2) {
		d.containers(p)
	}
	switch {
	case d.has("ends", 6):
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	case d.has("ends", 6):
		p.Spec.SchedulerName = "somebody-else"
	case d.has("ends", 6):
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "missing", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d.prefix + "-nothing"}}})
	}
}

func (d *draw) spread(p *corev1.Pod) {
	key := d.key()
	for _, have := range p.Spec.TopologySpreadConstraints {
		if have.TopologyKey == key {
			return
		}
	}
	c := corev1.TopologySpreadConstraint{TopologyKey: key, MaxSkew: int32(1 + d.IntN(2)), LabelSelector: d.selects(p),
		WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(d.one("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))}
	if d.chance(4) {
		c.MatchLabelKeys = []string{"version"}
	}
	if d.chance(4) {
		c.NodeAffinityPolicy = pointer(corev1.NodeInclusionPolicy(d.one("Honor", "Ignore")))
	}
	if d.chance(4) {
		c.NodeTaintsPolicy = pointer(corev1.NodeInclusionPolicy(d.one("Honor", "Ignore")))
	}
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && d.chance(5) {
		c.MinDomains = pointer(int32(1 + d.IntN(3)))
	}
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
}

func (d *draw) prefer(p *corev1.Pod) {
	a := affinityOf(p)
	switch d.IntN(3) {
	case 0:
		if a.NodeAffinity == nil {
			a.NodeAffinity = &corev1.NodeAffinity{}
		}
		a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: int32(1 + d.IntN(100)), Preference: d.nodeTerm()}}
	case 1:
		if a.PodAffinity == nil {
			a.PodAffinity = &corev1.PodAffinity{}
		}
		a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: d.podTerm(p)}}
	case 2:
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: d.podTerm(p)}}
	}
}

// containers makes the sum of a pod's requests less plain.
func (d *draw) containers(p *corev1.Pod) {
	with := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "pause", Resources: corev1.ResourceRequirements{Requests: list(int64(100*d.IntN(12)), int64(128*d.IntN(12)), 0)}}
	}
	if d.chance(2) {
		c := with("sidecar")
		c.RestartPolicy = pointer(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if d.chance(2) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, with("init"))
	}
	if d.chance(2) {
		p.Spec.Containers = append(p.Spec.Containers, with("second"))
	}
	switch d.IntN(4) {
	case 0:
		p.Spec.RuntimeClassName, p.Spec.Overhead = &heavyRuntime.Name, heavyRuntime.Overhead.PodFixed
	case 1:
		var cpu, mem int64 // no less than the containers ask for
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			cpu, mem = cpu+c.Resources.Requests.Cpu().MilliValue(), mem+c.Resources.Requests.Memory().Value()>>20
		}
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list(cpu+100, mem+64, 0)}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Shapes are what a cluster may have that no single field tells of.
const (
	shapeMinValues = "minValues on a label of instance types"
	shapeHostnames = "several host names in one selector"
	shapeDeleting  = "a node that is being deleted"
	shapePorts     = "host ports of every address, and of SCTP"
	shapeAttached  = "volumes attached to a node without their pod"
	shapeZoneKeys  = "zone keys of the drivers of GCP and Azure"
	shapeFormer    = "labels by their names of before Kubernetes 1.17"
	shapeEnding    = "a namespace that is being deleted"
	shapeVolumes   = "PersistentVolumes that are being deleted"
	shapeDrivers   = "nodes that lack a CSI driver, or have no CSINode"
)

var shapes = []string{shapeMinValues, shapeHostnames, shapeDeleting, shapePorts, shapeAttached, shapeZoneKeys, shapeFormer, shapeEnding, shapeVolumes, shapeDrivers}

// addShapes adds shapes to a cluster, from random numbers of their own.
func (d *drawing) addShapes() {
	d.Rand = rand.New(rand.NewPCG(d.s.seed, 62))
	for _, s := range shapes {
		if d.chance(2) && d.addShape(s) {
			d.c.shapes = append(d.c.shapes, s)
		}
	}
}

// addShape adds one shape, and reports whether the cluster has something that can have it.
func (d *drawing) addShape(shape string) bool {
	switch shape {
	case shapeMinValues:
		p, key := d.s.pools[d.IntN(len(d.s.pools))], d.one(archKey, "example.com/cores")
		t := &p.Spec.Template.Spec
		if slices.ContainsFunc(t.Requirements, func(r karpv1.Requirement) bool { return r.Key == key }) {
			return false
		}
		t.Requirements = append(t.Requirements, karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: pointer(1 + d.IntN(2))})
	case shapeHostnames:
		names := []string{"gone"}
		for range min(len(d.s.nodes), 1+d.IntN(2)) {
			names = append(names, d.s.nodes[d.IntN(len(d.s.nodes))].Labels[hostKey])
		}
		p := d.pod("work", int64(100*(1+d.IntN(8))), 256)
		affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostKey, Operator: corev1.NodeSelectorOpIn, Values: append(names, "gone-too")}}}}}}
		d.replicas(p, "", 1+d.IntN(3))
	case shapeDeleting:
		if len(d.s.nodes) == 0 {
			return false
		}
		n := d.s.nodes[d.IntN(len(d.s.nodes))]
		if slices.ContainsFunc(d.c.claimed, func(c *karpv1.NodeClaim) bool { return c.Status.NodeName == n.Name }) {
			return false // Dovetail plans for the pods of its own nodes before they leave: internal/decide
		}
		n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: time.Unix(1_799_999_990, 0)}, []string{"karpenter.sh/termination"}
	case shapePorts:
		for range 2 {
			p := d.pod("work", 100, 128)
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(9100 + d.IntN(2)), HostIP: d.one("0.0.0.0", "::", "10.0.0.1", ""),
				Protocol: corev1.Protocol(d.one("TCP", "UDP", "SCTP"))}}
			d.replicas(p, "", 1+d.IntN(2))
		}
	case shapeAttached:
		return d.attachVolumes()
	case shapeZoneKeys:
		d.zoneKeyVolumes()
	case shapeFormer:
		d.formerLabels()
	case shapeEnding:
		d.c.ending = namespaces[1+d.IntN(2)].Name // DaemonSets are in the first
		p := d.pod("work", int64(100*(1+d.IntN(8))), 128)
		p.Namespace = d.c.ending
		d.replicas(p, "", 1+d.IntN(3))
	case shapeVolumes:
		d.deletedVolumes()
	case shapeDrivers:
		return d.missingDrivers()
	}
	return true
}

// attachVolumes attaches volumes of no pod to nodes with an attach limit, up to the limit, and adds a pod that asks for a volume
// of the same driver. It reports whether there is such a node.
func (d *drawing) attachVolumes() (found bool) {
	for _, n := range d.s.nodes {
		for range min(d.s.attach[n.Name], int64(1+d.IntN(2))) {
			found = true
			p := d.pod("work", 100, 128)
			v := d.bind(d.claim(p), nil)
			v.Spec.CSI.Driver = d.one(driver, ebs)
			d.c.attached = append(d.c.attached, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + v.Name}, Spec: storagev1.VolumeAttachmentSpec{
				Attacher: v.Spec.CSI.Driver, NodeName: n.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}}})
		}
	}
	if found {
		for _, class := range []string{"any", "ebs"} {
			p := d.pod("work", 100, 128)
			claim := d.claim(p)
			claim.Spec.StorageClassName = pointer(d.prefix + "-" + class)
			d.use(p, claim)
			d.replicas(p, "", 1)
		}
	}
	return found
}

// driversWithKeys are drivers that write a zone by a label of their own.
var driversWithKeys = []struct{ driver, key string }{
	{"pd.csi.storage.gke.io", "topology.gke.io/zone"}, {"disk.csi.azure.com", "topology.disk.csi.azure.com/zone"},
}

// zoneKeyVolumes adds pods with volumes that are in a zone by a driver's own label: bound ones, and ones of a StorageClass.
func (d *drawing) zoneKeyVolumes() {
	for _, x := range driversWithKeys {
		for _, n := range d.s.nodes {
			if zone := n.Labels[zoneKey]; zone != "" {
				n.Labels[x.key] = zone
			}
		}
		p := d.pod("work", 100, 128)
		claim := d.claim(p)
		if d.chance(2) {
			v := d.bind(claim, d.some(zones))
			v.Spec.CSI.Driver = x.driver
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = x.key
		} else {
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: d.prefix + "-" + x.driver, CreationTimestamp: metav1.NewTime(time.Unix(1_799_000_000, 0))},
				Provisioner: x.driver, VolumeBindingMode: pointer(storagev1.VolumeBindingWaitForFirstConsumer)}
			class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: x.key, Values: d.some(zones)}}}}
			d.s.storage = append(d.s.storage, class)
			claim.Spec.StorageClassName = &class.Name
		}
		d.use(p, claim)
		d.replicas(p, "", 1)
	}
}

// formerLabels are the names that labels had before Kubernetes 1.17, with those of today.
var formerLabels = map[string]string{corev1.LabelFailureDomainBetaZone: zoneKey, corev1.LabelInstanceType: typeKey, "beta.kubernetes.io/arch": archKey, "beta.kubernetes.io/os": corev1.LabelOSStable}

// setFormerLabels gives a node the labels of before Kubernetes 1.17, as the kubelet and a cloud's controller manager do.
func setFormerLabels(n *corev1.Node) {
	for former, today := range formerLabels {
		if v, ok := n.Labels[today]; ok {
			n.Labels[former] = v
		}
	}
}

// formerLabels gives some nodes the former labels, and adds pods that use them in each field that names labels.
func (d *drawing) formerLabels() {
	for _, n := range d.s.nodes {
		if d.chance(2) {
			setFormerLabels(n)
		}
	}
	zone := corev1.LabelFailureDomainBetaZone
	for _, add := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: d.one(zones...)} },
		func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux"}
		},
		func(p *corev1.Pod) {
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: "NotIn", Values: []string{d.one(zones...)}}, {Key: archKey, Operator: "In", Values: []string{"amd64"}}}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelInstanceType, Operator: "In", Values: []string{"t0", "t1"}}}}}}}
		},
		func(p *corev1.Pod) {
			p.Labels["spread"] = p.Name
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"spread": p.Name}}}}
		},
		func(p *corev1.Pod) {
			p.Labels["together"] = p.Name
			affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: zone,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"together": p.Name}}}}}
		},
	} {
		if d.chance(2) {
			p := d.pod("work", int64(100*(1+d.IntN(5))), 128)
			add(p)
			d.replicas(p, "", 1+d.IntN(3))
		}
	}
}

// mountDriver has volumes that are attached to no node.
const mountDriver = "mount.example.com"

// deletedVolumes adds pods whose volumes are being deleted: of a driver that attaches them, and of one that does not.
func (d *drawing) deletedVolumes() {
	d.c.drivers = append(d.c.drivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: mountDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: pointer(false)}})
	for _, of := range []string{ebs, mountDriver} {
		p := d.pod("work", int64(100*(1+d.IntN(5))), 128)
		claim := d.claim(p)
		v := d.bind(claim, nil)
		v.Spec.CSI.Driver = of
		v.DeletionTimestamp, v.Finalizers = &metav1.Time{Time: time.Unix(1_799_999_990, 0)}, []string{"kubernetes.io/pv-protection"}
		d.use(p, claim)
		d.replicas(p, "", 1+d.IntN(2))
	}
}

// missingDrivers takes CSI drivers, or the whole CSINode, from some nodes that have not just come, and adds pods with volumes of these
// drivers: bound and waiting ones, in-tree ones and ones that the pod names itself. kube-scheduler lets none onto a node without the driver,
// but for drivers whose CSIDriver does not say so. It reports whether there is such a node.
func (d *drawing) missingDrivers() (found bool) {
	for _, name := range []string{driver, ebs} {
		if d.chance(3) {
			continue
		}
		i := slices.IndexFunc(d.c.drivers, func(x *storagev1.CSIDriver) bool { return x.Name == name })
		if i < 0 {
			i = len(d.c.drivers)
			d.c.drivers = append(d.c.drivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		d.c.drivers[i].Spec.PreventPodSchedulingIfMissing = pointer(!d.chance(4))
	}
	for _, n := range d.s.nodes {
		if d.chance(2) || slices.ContainsFunc(d.c.claimed, func(c *karpv1.NodeClaim) bool { return c.Status.NodeName == n.Name }) {
			continue
		}
		found = true
		if d.chance(4) {
			d.c.lacking[n.Name] = []string{everyDriver}
			continue
		}
		for _, name := range []string{driver, ebs} {
			if d.chance(2) {
				d.c.lacking[n.Name] = append(d.c.lacking[n.Name], name)
			}
		}
	}
	for _, add := range []func(*corev1.Pod){
		func(p *corev1.Pod) {
			claim := d.claim(p)
			v := d.bind(claim, nil)
			v.Spec.CSI.Driver = d.one(driver, ebs)
			d.use(p, claim)
		},
		func(p *corev1.Pod) {
			claim := d.claim(p)
			claim.Spec.StorageClassName = pointer(d.prefix + "-" + d.one("any", "ebs", "gp2"))
			d.use(p, claim)
		},
		func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "inline", VolumeSource: corev1.VolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + p.Name}}})
		},
	} {
		p := d.pod("work", int64(100*(1+d.IntN(5))), 128)
		add(p)
		d.replicas(p, "", 1)
	}
	return found
}

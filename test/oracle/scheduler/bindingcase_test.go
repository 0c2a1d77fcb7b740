// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// bindingCase is a cluster whose pending pods are to be bound: nodes with pods on them, some reserved, some not yet rid of their first taints,
// and pods of which most have rules that concern the node alone. Its objects are as the API server would have them.
type bindingCase struct {
	*scenario
	namespaces []*corev1.Namespace
	machines   []*karpv1.NodeClaim
	attached   []*storagev1.VolumeAttachment
	registered *storagev1.CSIDriver // of the scenario's driver, whose pods go only where it is registered; nil: none
}

// newBindingCase draws one. Some things that kube-scheduler's filters look at are lost when internal/kube translates objects, so that no check
// of model values can see them, and they are not drawn:
//
//   - a PersistentVolumeClaim that is being deleted, or that names a volume and is not bound to it yet (VolumeBinding);
//   - a zone or region label of a PersistentVolume without node affinity (VolumeZone);
//   - an in-tree volume in the pod itself, such as awsElasticBlockStore, that another pod on the node uses too (VolumeRestrictions);
//   - a pod that needs a feature its node has to declare, such as hostUsers: false with hostNetwork (NodeDeclaredFeatures);
//   - a selector of pods by topology.kubernetes.io/zone, which the API server copies to pods that are bound (InterPodAffinity).
func newBindingCase(seed uint64) *bindingCase {
	d := &draw{Rand: rand.New(rand.NewPCG(seed, 40)), s: &scenario{seed: seed, attach: map[string]int64{}}, prefix: fmt.Sprintf("s%d", seed),
		feature: map[string]bool{}, counts: map[string]int{}}
	for _, f := range features {
		d.feature[f] = !d.chance(3)
	}
	c := &bindingCase{scenario: d.s}
	for _, n := range namespaces {
		n = n.DeepCopy()
		n.Labels[corev1.LabelMetadataName] = n.Name
		c.namespaces = append(c.namespaces, n)
	}
	d.storage()
	if d.feature["daemons"] {
		d.daemons()
	}
	for most := 3 + d.IntN(8); len(c.nodes) < most; {
		d.nodes()
	}
	for i, n := range c.nodes {
		if d.chance(2) { // more than it has, at times
			d.standOn(n, n.Status.Allocatable.Cpu().MilliValue()/2, n.Status.Allocatable.Memory().Value()>>21)
		}
		if i > 0 && d.chance(40) {
			n.Labels[hostKey] = c.nodes[i-1].Labels[hostKey]
		}
		if d.chance(2) {
			setFormerLabels(n)
		}
		c.equip(d, n)
	}
	for range 8 + d.IntN(8) {
		c.workload(d)
	}
	for _, p := range slices.Concat(c.standing, c.pods) {
		c.admit(d, p)
	}
	for _, p := range c.standing {
		switch {
		case d.chance(8):
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_799_999_990, 0)}
		case d.chance(12):
			p.Status.Phase = corev1.PodSucceeded
		}
		c.place(p)
	}
	for _, v := range c.volumes {
		c.settle(d, v)
	}
	if d.chance(2) {
		c.registered = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: pointer(true)}}
	}
	return c
}

// others are the objects that kube-scheduler's filters look up beside nodes and pods.
func (c *bindingCase) others() (out []runtime.Object) {
	for _, x := range c.namespaces {
		out = append(out, x)
	}
	for _, x := range c.storage {
		out = append(out, x)
	}
	for _, x := range c.volumes {
		out = append(out, x)
	}
	for _, x := range c.claims {
		out = append(out, x)
	}
	for _, x := range c.attached {
		out = append(out, x)
	}
	if c.registered != nil {
		out = append(out, c.registered)
	}
	for _, n := range c.nodes {
		if x := csiNode(n.Name, c.attach[n.Name]); x != nil {
			out = append(out, x)
		}
	}
	return out
}

// claimOf names the NodeClaim of a node, empty where it has none.
func (c *bindingCase) claimOf(n *corev1.Node) string {
	for _, m := range c.machines {
		if m.Status.ProviderID == n.Spec.ProviderID {
			return m.Name
		}
	}
	return ""
}

// equip gives a node a NodeClaim, and the taints that nodes have for a while.
func (c *bindingCase) equip(d *draw, n *corev1.Node) {
	taint := func(key, value string, effects ...corev1.TaintEffect) {
		for _, e := range effects {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: e})
		}
	}
	n.Spec.ProviderID = "oracle:///" + n.Name
	if !d.chance(3) {
		m := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + n.Name, UID: types.UID("claim-" + n.Name)}}
		m.Status.ProviderID, m.Status.NodeName = n.Spec.ProviderID, n.Name
		c.machines = append(c.machines, m)
	}
	switch own := c.claimOf(n); {
	case own != "" && d.chance(2):
		taint(reservedKey, own, corev1.TaintEffectNoSchedule)
	case d.chance(16): // of a claim that the node has nothing to do with
		taint(reservedKey, "claim-of-another", corev1.TaintEffectNoSchedule)
	}
	if d.chance(4) {
		taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoSchedule)
		if d.chance(2) {
			taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoExecute)
		}
	}
	switch {
	case d.chance(12):
		n.Status.Conditions[0].Status = corev1.ConditionFalse
	case d.chance(20):
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		taint(corev1.TaintNodeUnreachable, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
	case d.chance(20):
		taint(karpv1.TaintKeyDisrupted, "", corev1.TaintEffectNoSchedule)
	}
	if n.Spec.Unschedulable { // kube-controller-manager sees to it within moments
		taint(corev1.TaintNodeUnschedulable, "", corev1.TaintEffectNoSchedule)
	}
	switch {
	case d.chance(60):
		delete(n.Labels, hostKey)
	case d.chance(30):
		n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: time.Unix(1_799_999_990, 0)}, []string{karpv1.FinalizerTermination}
	}
}

// workload draws alike pods, with rules of which some concern more than the node.
func (c *bindingCase) workload(d *draw) {
	p := d.pod("work", int64(25*d.IntN(24)), int64(32*d.IntN(24)))
	if d.chance(8) {
		d.constrain(p)
	} else {
		c.constrain(d, p)
	}
	for i := range 1 + d.IntN(6) {
		q := p.DeepCopy()
		q.Name = fmt.Sprintf("%s-%d", p.Name, i)
		if i > 0 && len(q.Spec.Volumes) > 0 && d.chance(2) { // a claim of its own, as of a StatefulSet's
			q.Spec.Volumes = nil
			d.volumeInUse(q)
		}
		c.pods = append(c.pods, q)
	}
}

// constrain gives a pod rules that concern the node that it goes to.
func (c *bindingCase) constrain(d *draw, p *corev1.Pod) {
	if d.feature["taints"] && d.chance(2) {
		d.tolerate(p)
	}
	if d.chance(4) {
		d.requireNodes(p)
	}
	if d.has("teams", 6) {
		p.Spec.NodeSelector = map[string]string{teamKey: d.one(teams...)}
	} else if d.chance(8) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelFailureDomainBetaZone: d.one(zones...)}
	}
	if d.has("anti", 3) {
		d.anti(p)
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = hostKey
	}
	if d.has("spread", 2) {
		d.spread(p)
		if s := p.Spec.TopologySpreadConstraints; len(s) > 0 {
			s[0].TopologyKey = hostKey
			if s[0].WhenUnsatisfiable == corev1.DoNotSchedule && d.chance(3) {
				s[0].MinDomains = pointer(int32(1 + d.IntN(8)))
			}
			if d.chance(3) {
				s[0].NodeTaintsPolicy = pointer(corev1.NodeInclusionPolicyHonor)
			}
		}
	}
	if d.has("ports", 3) {
		d.port(p)
	}
	if d.has("volumes", 3) {
		d.volumeInUse(p)
	}
	if d.has("gpu", 5) {
		r := &p.Spec.Containers[0].Resources
		r.Requests[gpu], r.Limits = resource.MustParse("1"), corev1.ResourceList{gpu: resource.MustParse("1")}
	}
	if d.has("containers", 5) {
		d.containers(p)
	}
	if d.has("preferred", 5) {
		d.prefer(p)
	}
	switch d.IntN(12) {
	case 0: // whatever the node is like
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}
	case 1:
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
	}
}

// volumeInUse gives a pod a volume that is bound already.
func (d *draw) volumeInUse(p *corev1.Pod) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: d.name("claim"), Namespace: p.Namespace}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	var in []string
	if !d.chance(3) {
		in = d.some(zones)
	}
	v := newVolume(d.name("volume"), claim, in)
	if len(d.s.nodes) > 0 && d.chance(5) { // a disk of one host
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostKey, Operator: corev1.NodeSelectorOpIn, Values: []string{d.s.nodes[d.IntN(len(d.s.nodes))].Name}}}}}}}
	}
	claim.Spec.StorageClassName, claim.Spec.VolumeName = pointer(""), v.Name
	d.s.volumes, d.s.claims = append(d.s.volumes, v), append(d.s.claims, claim)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("data%d", len(p.Spec.Volumes)),
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
}

// settle makes a volume and its claim as they are once bound. Some are attached to a node where no pod uses them any more, or not yet.
func (c *bindingCase) settle(d *draw, v *corev1.PersistentVolume) {
	for _, x := range c.claims {
		if x.Spec.VolumeName == v.Name {
			x.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			x.Status.Phase, x.UID = corev1.ClaimBound, types.UID(x.Name)
			v.Spec.ClaimRef.UID, v.Status.Phase = x.UID, corev1.VolumeBound
		}
	}
	if len(c.nodes) > 0 && d.chance(8) {
		c.attached = append(c.attached, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + v.Name}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: c.nodes[d.IntN(len(c.nodes))].Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}}})
	}
}

// admit makes a pod what the API server makes of one that is created.
func (c *bindingCase) admit(d *draw, p *corev1.Pod) {
	p.UID, p.Spec.SchedulerName = types.UID(p.Namespace+"/"+p.Name), corev1.DefaultSchedulerName
	in := func(s *metav1.LabelSelector, op metav1.LabelSelectorOperator, keys []string) {
		for _, k := range keys {
			if v, ok := p.Labels[k]; ok && s != nil {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: op, Values: []string{v}})
			}
		}
	}
	var terms []*corev1.PodAffinityTerm
	for _, list := range podTermsOf(p.Spec.Affinity) {
		for i := range list {
			terms = append(terms, &list[i])
		}
	}
	for _, t := range terms {
		in(t.LabelSelector, metav1.LabelSelectorOpIn, t.MatchLabelKeys)
		in(t.LabelSelector, metav1.LabelSelectorOpNotIn, t.MismatchLabelKeys)
	}
	for i := range p.Spec.TopologySpreadConstraints {
		s := &p.Spec.TopologySpreadConstraints[i]
		in(s.LabelSelector, metav1.LabelSelectorOpIn, s.MatchLabelKeys)
	}
	if d.chance(8) {
		return // the plugin DefaultTolerationSeconds is off, or has been told otherwise
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: pointer(int64(300))})
		}
	}
}

// podTermsOf are the required terms of pod affinity and anti-affinity.
func podTermsOf(a *corev1.Affinity) (out [][]corev1.PodAffinityTerm) {
	if a != nil && a.PodAffinity != nil {
		out = append(out, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a != nil && a.PodAntiAffinity != nil {
		out = append(out, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}

// bound is a pod as it is once bound to a node.
func (c *bindingCase) bound(p *corev1.Pod, n *corev1.Node) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = n.Name
	c.place(p)
	return p
}

// place gives a pod that is bound the labels that the API server copies from its node.
func (c *bindingCase) place(p *corev1.Pod) {
	p.Labels = maps.Clone(p.Labels)
	for _, n := range c.nodes {
		if zone, ok := n.Labels[zoneKey]; ok && n.Name == p.Spec.NodeName {
			p.Labels[zoneKey] = zone
		}
	}
}

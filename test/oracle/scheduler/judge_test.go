// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	apidefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	daemoncontroller "k8s.io/kubernetes/pkg/controller/daemon"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// judge holds a plan for a drawn cluster against the filters of the real kube-scheduler, the predicate of the real DaemonSet controller and the
// API server's own defaults, in this process.
type judge struct {
	c       *drawn
	a       *answer
	r       *rand.Rand
	filters *filters
	found   []disagreement
	tally   tally

	planned []*corev1.Node            // by claim, in order
	probes  map[string][]*corev1.Node // by pool: an empty node of each offering
	attach  map[string]int64          // of planned nodes and probes
	target  map[string]string         // node of a pending pod, by namespace and name
	room    map[string]bool           // pods of DaemonSets, by name, that find room on the standing nodes they come to while nothing is planned there
	volumes map[string]*corev1.PersistentVolume
	claims  map[string]*corev1.PersistentVolumeClaim
	version int
}

// judgePlan returns where a plan differs from what the judges say of the cluster. An error is of the test's own.
func judgePlan(c *drawn, a *answer) (*judge, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x := &judge{c: c, a: a, r: rand.New(rand.NewPCG(c.seed, 61)), attach: map[string]int64{}, target: map[string]string{}, room: map[string]bool{}, probes: map[string][]*corev1.Node{},
		volumes: map[string]*corev1.PersistentVolume{}, claims: map[string]*corev1.PersistentVolumeClaim{}, version: 1}
	if a.broken != nil {
		x.disagree("verify", "%v", a.broken)
	}
	x.machines()
	x.minValues()
	x.ended()
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	if _, err := x.daemons(x.planned, "daemon"); err != nil {
		return nil, err
	}
	if err := x.noteRoom(); err != nil {
		return nil, err
	}
	if err := x.land(); err != nil {
		return nil, err
	}
	if len(x.found) > 0 {
		return x, nil // what was refused may have been refused for pods that are not where they should be
	}
	return x, x.refusals()
}

func (x *judge) disagree(kind, format string, args ...any) {
	x.found = append(x.found, disagreement{kind, fmt.Sprintf(format, args...)})
}

// registered gives a node the labels that it has once Dovetail, the kubelet, the drivers' agents and the cloud's controller manager have seen to
// it. These set Kubernetes' labels of before version 1.17 too (k8s.io/cloud-provider/controllers/node).
func registered(n *corev1.Node) *corev1.Node {
	n.Labels[karpv1.LabelRegistered], n.Labels[karpv1.LabelInitialized] = "true", "true"
	n.Labels[ebsKey] = n.Labels[zoneKey]
	setFormerLabels(n)
	for _, x := range driversWithKeys {
		n.Labels[x.key] = n.Labels[zoneKey]
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// machines makes the nodes that the plan buys, each one of those that its claim allows, and the probes.
func (x *judge) machines() {
	for i, c := range x.a.claims() {
		names := make([]string, len(c.Types))
		for j, t := range c.Types {
			names[j] = t.Name
		}
		all := x.c.choices(c.Requirements, names)
		if len(all) == 0 {
			x.disagree("claim", "%s: no offering is allowed by %s", c.Name, c.Requirements)
			continue
		}
		ch := all[x.r.IntN(len(all))]
		n := registered(ch.node(fmt.Sprintf("new%d", i+1), c.Pool, x.c.fixed(c.Requirements)))
		x.planned = append(x.planned, n)
		x.attach[n.Name] = ch.m.attach
		for _, p := range c.Pods {
			x.target[p.Key()] = n.Name
		}
	}
	for _, p := range x.a.out.Pods {
		switch p.Outcome {
		case plan.OnNode:
			x.target[p.Pod.Key()] = p.Target
		case plan.NotOurs:
			x.tally.ignored++
		}
	}
	count := 0
	for _, pool := range x.c.pools {
		if len(x.c.claimed) > 0 && len(pool.Spec.Limits) > 0 {
			continue // its machines count against the limits, and the probes do not know them
		}
		nodes, attach := x.c.probes(x.a, x.a.pools[pool.Name], func() string { count++; return fmt.Sprintf("probe%d", count) })
		for _, n := range nodes {
			registered(n)
		}
		x.probes[pool.Name] = nodes
		maps.Copy(x.attach, attach)
	}
}

// minValues counts the values that each claim leaves: at least as many as its pool wants, and as the API server wants of a requirement that lists them.
func (x *judge) minValues() {
	for i, c := range x.a.claims() {
		for _, r := range x.c.poolOf(c.Pool.Name).Spec.Template.Spec.Requirements {
			if r.MinValues == nil || i >= len(x.planned) {
				continue
			}
			names := make([]string, len(c.Types))
			for j, t := range c.Types {
				names[j] = t.Name
			}
			values := map[string]bool{}
			for _, ch := range x.c.choices(c.Requirements, names) {
				if v, ok := ch.m.label(r.Key, ch.o); ok {
					values[v] = true
				}
			}
			if len(values) < *r.MinValues {
				x.disagree("minValues", "%s of pool %s leaves %d values of %s, the pool wants %d", c.Name, c.Pool.Name, len(values), r.Key, *r.MinValues)
			}
		}
	}
}

// ended looks for pods that were planned for although nobody will run them: the API server binds no pod of a namespace that is being deleted,
// whose pods kube-controller-manager deletes, and no volume that is being deleted is attached to another node (kubernetes-csi/external-attacher).
func (x *judge) ended() {
	for _, p := range x.c.pods {
		node := x.target[p.Namespace+"/"+p.Name]
		if node == "" {
			continue
		}
		if p.Namespace == x.c.ending {
			x.disagree("namespace", "%s/%s was planned on %s, and its namespace is being deleted", p.Namespace, p.Name, node)
		}
		if v := x.c.deletedVolumeOf(p); v != nil {
			x.disagree("volume", "%s/%s was planned on %s, and its volume %s is being deleted", p.Namespace, p.Name, node, v.Name)
		}
	}
}

// deletedVolumeOf is a volume of a pod that would have to be attached, and is being deleted; nil: it has none.
func (c *drawn) deletedVolumeOf(p *corev1.Pod) *corev1.PersistentVolume {
	for _, v := range c.volumes {
		if v.DeletionTimestamp != nil && v.Spec.CSI.Driver != mountDriver && usesVolume(p, v) {
			return v
		}
	}
	return nil
}

func (c *drawn) poolOf(name string) *karpv1.NodePool {
	return c.pools[slices.IndexFunc(c.pools, func(p *karpv1.NodePool) bool { return p.Name == name })]
}

// begin starts kube-scheduler with what stands before anything is planned, and the nodes that come.
func (x *judge) begin(ctx context.Context) error {
	var others []runtime.Object
	keep := func(o runtime.Object) {
		o.(metav1.Object).SetResourceVersion("1")
		others = append(others, o)
	}
	for _, n := range namespaces {
		n = n.DeepCopy()
		n.Labels[corev1.LabelMetadataName] = n.Name
		keep(n)
	}
	for _, s := range x.c.storage {
		keep(s.DeepCopy())
	}
	for _, v := range x.c.volumes {
		v = v.DeepCopy()
		x.volumes[v.Name] = v
		keep(v)
	}
	for _, p := range x.c.claims {
		p = p.DeepCopy()
		if v := x.volumes[p.Spec.VolumeName]; v != nil && p.Annotations[bindCompleted] == "" { // the volume controller finishes it within moments
			p.Annotations, p.Status.Phase = map[string]string{bindCompleted: "yes"}, corev1.ClaimBound
		}
		x.claims[p.Namespace+"/"+p.Name] = p
		keep(p)
	}
	for _, p := range x.c.pods {
		for _, claim := range madeClaims(p, x.claims) {
			keep(claim)
		}
	}
	for _, d := range x.c.drivers {
		keep(d.DeepCopy())
	}
	for _, s := range x.c.capacities {
		keep(s.DeepCopy())
	}
	for _, a := range x.c.attached {
		keep(a.DeepCopy())
	}
	for _, n := range x.c.nodes {
		if o := x.c.csiNode(n.Name); o != nil {
			keep(o)
		}
	}
	toCome := x.planned[:len(x.planned):len(x.planned)]
	for _, pool := range x.c.pools {
		toCome = append(toCome, x.probes[pool.Name]...)
	}
	for _, n := range toCome {
		keep(newCSINode(n.Name, x.attach[n.Name]))
	}
	if len(x.volumes) == 0 {
		keep(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-nobody"}})
	}
	f, err := newFilters(ctx, others)
	if err != nil {
		return err
	}
	x.filters = f
	for _, n := range slices.Concat(x.c.nodes, x.planned) {
		f.setNode(n)
	}
	for _, p := range x.c.standing {
		if err := f.addPod(x.placed(p, p.Spec.NodeName)); err != nil {
			return err
		}
	}
	return nil
}

// madeClaims are the claims of a pod's ephemeral volumes that the controller makes as soon as the pod is there, and adds them to all.
func madeClaims(p *corev1.Pod, all map[string]*corev1.PersistentVolumeClaim) (out []*corev1.PersistentVolumeClaim) {
	for _, v := range p.Spec.Volumes {
		key := p.Namespace + "/" + p.Name + "-" + v.Name
		if v.Ephemeral == nil || all[key] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-" + v.Name, Namespace: p.Namespace, UID: types.UID(key),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}},
			Spec: v.Ephemeral.VolumeClaimTemplate.Spec}
		all[key] = claim
		out = append(out, claim)
	}
	return out
}

// placed is a pod as it is once bound to a node.
func (x *judge) placed(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	p.Labels = maps.Clone(p.Labels)
	for _, n := range slices.Concat(x.c.nodes, x.planned) {
		if zone, ok := n.Labels[zoneKey]; ok && n.Name == node && p.Labels != nil {
			p.Labels[zoneKey] = zone
		}
	}
	return p
}

// pod is a pending pod as the API server has it.
func (x *judge) pod(p *corev1.Pod) *corev1.Pod {
	if !x.c.written {
		return p
	}
	p = p.DeepCopy()
	x.c.admit(p)
	return p
}

// asComing is a node as it is when its reservation has ended: a pod that is bound to it, and the DaemonSet controller sooner or later, see it so.
func asComing(n *corev1.Node) *corev1.Node {
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reservedKey }) {
		return n
	}
	n = n.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reservedKey })
	return n
}

// daemonPod is the pod that the real DaemonSet controller makes for a node, as the API server admits it; nil: it makes none.
func (x *judge) daemonPod(d *appsv1.DaemonSet, n *corev1.Node) *corev1.Pod {
	if run, _ := daemoncontroller.NodeShouldRunDaemonPod(klog.Background(), n, d); !run {
		return nil
	}
	p := daemoncontroller.NewPod(d.DeepCopy(), n.Name).DeepCopy()
	p.Name, p.Spec.NodeName = d.Name+"-"+n.Name, ""
	p.UID = types.UID(p.Name)
	affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}}}}}}}
	x.c.admit(p)
	for _, like := range x.c.standing { // a webhook adds a container to each of them
		if like.Labels["daemon"] != d.Name || len(like.Spec.InitContainers) == len(p.Spec.InitContainers) {
			continue
		}
		for i, c := range like.Spec.InitContainers {
			if c.Name == "injected" {
				p.Spec.InitContainers = append(p.Spec.InitContainers, like.Spec.InitContainers[i])
			}
		}
		break
	}
	return p
}

// daemons adds the pods of DaemonSets to nodes, says where one finds no room, and returns how many do not.
func (x *judge) daemons(nodes []*corev1.Node, kind string) (waiting int, err error) {
	for _, n := range nodes {
		n = asComing(n)
		for _, d := range x.c.daemonsOf() {
			p := x.daemonPod(d, n)
			if p == nil || x.runs(d, n) {
				continue
			}
			plugin, message, err := x.filters.refusal(p, n)
			if err != nil {
				return waiting, err
			}
			if plugin != "" {
				if plugin != "NodeAffinity" {
					waiting++
				}
				// A pod that its RuntimeClass keeps off the node is one that nobody can help.
				if kind != "" && plugin != "NodeAffinity" && (slices.Contains(x.planned, x.filters.nodes[n.Name]) || x.room[p.Name]) {
					x.disagree(kind, "%s finds no room: %s: %s", p.Name, plugin, message)
				}
				continue
			}
			if err := x.filters.addPod(x.placed(p, n.Name)); err != nil {
				return waiting, err
			}
		}
	}
	return waiting, nil
}

// runs reports whether a pod of a DaemonSet stands on a node.
func (x *judge) runs(d *appsv1.DaemonSet, n *corev1.Node) bool {
	return slices.ContainsFunc(x.c.standing, func(p *corev1.Pod) bool { return p.Spec.NodeName == n.Name && p.Labels["daemon"] == d.Name })
}

func (c *drawn) daemonsOf() []*appsv1.DaemonSet { return c.scenario.daemons }

// noteRoom notes which pods of DaemonSets find room on the standing nodes to which they are still to come, before anything is planned there.
func (x *judge) noteRoom() error {
	before := len(x.filters.pods)
	if _, err := x.daemons(x.c.nodes, ""); err != nil {
		return err
	}
	for _, p := range x.filters.pods[before:] {
		x.room[p.Name] = true
		if err := x.filters.removePod(p); err != nil {
			return err
		}
	}
	x.filters.pods = x.filters.pods[:before]
	return nil
}

// land binds the planned pods, each where it was planned, in any order in which kube-scheduler takes them: on standing nodes before the pods
// of DaemonSets that are still to come there, where they do not ask for these. Pods on new nodes that wait for storage come last.
func (x *judge) land() error {
	var open []*corev1.Pod
	for _, p := range x.c.pods {
		if x.target[p.Namespace+"/"+p.Name] != "" {
			open = append(open, x.pod(p))
		}
	}
	open, _, err := x.landAll(open)
	if err != nil {
		return err
	}
	if _, err := x.daemons(x.c.nodes, "daemon"); err != nil {
		return err
	}
	open, why, err := x.landAll(open)
	if err != nil {
		return err
	}
	waiting, landed := map[string]bool{}, false
	open = slices.DeleteFunc(open, func(p *corev1.Pod) bool {
		node := x.target[p.Namespace+"/"+p.Name]
		if !x.waitsForStorage(p) || !strings.HasPrefix(node, "new") {
			return false
		}
		if !x.c.reportsStorage() { // a driver that tells of storage elsewhere will on new nodes; one that tells of none has to show it
			waiting[node] = true
		}
		landed = true // the driver on the new node is given the time to tell of its storage
		err = errors.Join(err, x.filters.addPod(x.placed(p, node)))
		return true
	})
	if err != nil {
		return err
	}
	if landed {
		if open, why, err = x.landAll(open); err != nil {
			return err
		}
	}
	for _, p := range open {
		key := p.Namespace + "/" + p.Name
		x.disagree("landing", "%s was planned on %s: %s", key, x.target[key], why[key])
	}
	if len(waiting) > 2 {
		x.disagree("storage", "%d nodes are bought for pods that wait for storage, two at most would tell", len(waiting))
	}
	x.tally.planned = len(x.planned)
	return nil
}

// landAll binds those of the pods that kube-scheduler takes on the nodes where they were planned, and returns the others, each with why. Pods
// that are spread come first: it is others that they may not come after.
func (x *judge) landAll(open []*corev1.Pod) (left []*corev1.Pod, why map[string]string, err error) {
	why = map[string]string{}
	open = slices.Clone(open)
	slices.SortStableFunc(open, func(a, b *corev1.Pod) int { return cmp.Compare(hardSpreads(b), hardSpreads(a)) })
	for again := true; again; {
		again, left = false, nil
		for _, p := range open {
			key := p.Namespace + "/" + p.Name
			n := x.filters.nodes[x.target[key]]
			if n == nil {
				why[key] = "it is not there"
				left = append(left, p)
				continue
			}
			plugin, message, err := x.filters.refusal(p, asComing(n))
			if err != nil {
				plugin, message = "error", err.Error()
			}
			if plugin != "" {
				why[key] = plugin + ": " + message
				left = append(left, p)
				continue
			}
			if err := x.filters.addPod(x.placed(p, n.Name)); err != nil {
				return nil, nil, err
			}
			if err := x.provision(p, n); err != nil {
				return nil, nil, err
			}
			x.tally.landed++
			again = true
		}
		open = left
	}
	return left, why, nil
}

// hardSpreads is how many spread constraints a pod must meet.
func hardSpreads(p *corev1.Pod) (n int) {
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			n++
		}
	}
	return n
}

// reportsStorage reports whether the driver that tracks its capacity tells of some that a claim of these clusters fits into.
func (c *drawn) reportsStorage() bool {
	return slices.ContainsFunc(c.capacities, func(s *storagev1.CSIStorageCapacity) bool {
		size := s.Capacity
		if s.MaximumVolumeSize != nil {
			size = s.MaximumVolumeSize
		}
		return size.Cmp(resource.MustParse("1Gi")) >= 0
	})
}

// waitsForStorage reports whether a pod waits for a volume of a driver that tracks its capacity and tells of none.
func (x *judge) waitsForStorage(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		claim := x.claims[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
		return claim != nil && claim.Spec.VolumeName == "" && claim.Spec.StorageClassName != nil && strings.HasSuffix(*claim.Spec.StorageClassName, "-tracked")
	})
}

// provision makes or chooses the volumes of a pod that has been bound, as the drivers and the volume controller would.
func (x *judge) provision(p *corev1.Pod, n *corev1.Node) error {
	for _, v := range p.Spec.Volumes {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = p.Name + "-" + v.Name
		default:
			continue
		}
		claim := x.claims[p.Namespace+"/"+name]
		if claim == nil || claim.Spec.VolumeName != "" {
			continue
		}
		x.version++
		claim = claim.DeepCopy()
		var zones []string
		if z := n.Labels[zoneKey]; z != "" {
			zones = []string{z}
		}
		pv := newVolume("pv-"+claim.Name, claim, zones)
		if class := x.classOf(claim); class != nil {
			switch class.Provisioner {
			case noProvisioner:
				if pv = x.static(claim, n); pv == nil {
					return fmt.Errorf("%s was let in on %s without a volume for %s", p.Name, n.Name, name)
				}
			case ebs, ebsInTree:
				pv.Spec.CSI.Driver = ebs
			default:
				pv.Spec.CSI.Driver = class.Provisioner
			}
		}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		pv.Status.Phase, pv.ResourceVersion = corev1.VolumeBound, strconv.Itoa(x.version)
		claim.Spec.VolumeName, claim.Status.Phase, claim.ResourceVersion = pv.Name, corev1.ClaimBound, strconv.Itoa(x.version)
		claim.Annotations = map[string]string{bindCompleted: "yes", boundByControl: "yes"}
		x.claims[claim.Namespace+"/"+claim.Name], x.volumes[pv.Name] = claim, pv
		if err := x.filters.change(pv); err != nil {
			return err
		}
		if err := x.filters.change(claim); err != nil {
			return err
		}
	}
	return nil
}

func (x *judge) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	for _, s := range x.c.storage {
		if claim.Spec.StorageClassName != nil && s.Name == *claim.Spec.StorageClassName {
			return s
		}
	}
	return nil
}

// static is a volume that is there for a claim on a node.
func (x *judge) static(claim *corev1.PersistentVolumeClaim, n *corev1.Node) *corev1.PersistentVolume {
	for _, name := range slices.Sorted(maps.Keys(x.volumes)) {
		v := x.volumes[name]
		if v.Spec.ClaimRef == nil && v.Spec.StorageClassName == *claim.Spec.StorageClassName && slices.Equal(v.Spec.AccessModes, claim.Spec.AccessModes) &&
			slices.Contains(v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values, n.Labels[zoneKey]) {
			return v.DeepCopy()
		}
	}
	return nil
}

// refusals has kube-scheduler look at a pod of each class that was refused, with an empty node of every offering of each pool and the pods of its DaemonSets.
func (x *judge) refusals() error {
	var all []*corev1.Pod
	reasons := map[*corev1.Pod][]plan.Reason{}
	seen := map[*model.Class]bool{}
	for _, p := range x.a.out.Pods {
		if p.Outcome != plan.Refused || seen[p.Pod.Class] {
			continue
		}
		seen[p.Pod.Class] = true
		i := slices.IndexFunc(x.c.pods, func(q *corev1.Pod) bool { return q.Namespace+"/"+q.Name == p.Pod.Key() })
		if i < 0 {
			return fmt.Errorf("a pod that is not there was refused: %s", p.Pod.Key())
		}
		q := x.pod(x.c.pods[i])
		all, reasons[q] = append(all, q), p.Reasons
		x.hostnames(q, p.Reasons)
	}
	x.tally.refused = len(all)
	for _, pool := range x.c.pools {
		taken := map[*corev1.Pod][]*corev1.Node{} // probes that kube-scheduler takes a pod on
		refusedBy := map[*corev1.Pod][]string{}   // its plugins that keep a pod off the others
		for _, n := range x.probes[pool.Name] {
			x.filters.setNode(n)
			waiting, err := x.daemons([]*corev1.Node{n}, "")
			if err != nil {
				return err
			}
			if waiting > 0 { // no node is launched on which a DaemonSet's pod would wait for ever
				x.filters.remove(n)
				continue
			}
			for _, p := range all {
				if reasonOf(reasons[p], pool.Name).Code == plan.MinValues || excused(reasons[p]) || x.leftToOthers(reasons[p]) || x.c.deletedVolumeOf(p) != nil {
					continue
				}
				x.tally.probed++
				switch plugin, _, err := x.filters.refusal(p, n); {
				case err != nil:
				case plugin == "":
					taken[p] = append(taken[p], n)
				default:
					refusedBy[p] = append(refusedBy[p], plugin)
				}
			}
			x.filters.remove(n)
		}
		for _, p := range all {
			if nodes := taken[p]; len(nodes) > 0 && leavesValues(pool, p, nodes) {
				x.disagree("refusal", "%s/%s was refused (%v), and kube-scheduler takes it on an empty node of pool %s: %v", p.Namespace, p.Name, reasons[p], pool.Name, nodes[0].Labels)
				reasons[p] = nil
			}
			x.reason(p, reasonOf(reasons[p], pool.Name), refusedBy[p])
		}
	}
	return nil
}

// reason has the reason of a pool for refusing a pod name one of the plugins of kube-scheduler that keep the pod off the pool's nodes, or one
// that is asked after the first of them.
func (x *judge) reason(p *corev1.Pod, r plan.Reason, refusedBy []string) {
	want := pluginsOf(r.Code)
	if len(want) == 0 || len(refusedBy) == 0 {
		return
	}
	x.tally.reasons++
	first := slices.MinFunc(refusedBy, func(a, b string) int { return slices.Index(pluginOrder, a) - slices.Index(pluginOrder, b) })
	if !slices.ContainsFunc(want, func(s string) bool { return slices.Contains(refusedBy, s) }) && slices.Index(pluginOrder, want[0]) < slices.Index(pluginOrder, first) {
		x.disagree("reason", "%s/%s is refused by pool %s for %v; kube-scheduler's plugins that refuse it are %v", p.Namespace, p.Name, r.Pool, r, slices.Compact(slices.Sorted(slices.Values(refusedBy))))
	}
}

func reasonOf(rs []plan.Reason, pool string) plan.Reason {
	for _, r := range rs {
		if r.Pool == pool {
			return r
		}
	}
	return plan.Reason{}
}

// pluginOrder is the order in which kube-scheduler asks its filters: of a node that several refuse it names only the first.
var pluginOrder = []string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits",
	"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity"}

// pluginsOf are the plugins behind a code of ours, none where kube-scheduler has none of its own. That of spread looks at the domains of all nodes,
// and probes are there one at a time.
func pluginsOf(c plan.Code) []string {
	switch c {
	case plan.Taint:
		return []string{"TaintToleration"}
	case plan.Requirement, plan.NoInstanceType, plan.Offering, plan.NodeName:
		return []string{"NodeAffinity"}
	case plan.Resource:
		return []string{"NodeResourcesFit"}
	case plan.PodAffinity, plan.PodAntiAffinity:
		return []string{"InterPodAffinity"}
	case plan.HostPortConflict:
		return []string{"NodePorts"}
	case plan.VolumeTopology:
		return []string{"VolumeBinding", "VolumeZone"}
	case plan.VolumeLimit:
		return []string{"NodeVolumeLimits"}
	case plan.VolumeExclusive:
		return []string{"VolumeRestrictions"}
	}
	return nil
}

// leavesValues reports whether one claim for a pod would leave as many values as the pool wants, of the nodes that take the pod: for fewer
// nothing is bought, whatever else keeps the pod off other nodes. A claim has one capacity type, and is in one domain of each topology key by
// which the pod is spread, kept near others or kept apart.
func leavesValues(pool *karpv1.NodePool, p *corev1.Pod, nodes []*corev1.Node) bool {
	keys := append(domainKeys(p), karpv1.LabelCapacityType)
	byDomain := map[string]map[string]map[string]bool{} // values by the domains and the key of a requirement
	for _, n := range nodes {
		domain := ""
		for _, k := range keys {
			domain += n.Labels[k] + "\x00"
		}
		if byDomain[domain] == nil {
			byDomain[domain] = map[string]map[string]bool{}
		}
		for _, r := range pool.Spec.Template.Spec.Requirements {
			if byDomain[domain][r.Key] == nil {
				byDomain[domain][r.Key] = map[string]bool{}
			}
			if v, ok := n.Labels[r.Key]; ok {
				byDomain[domain][r.Key][v] = true
			}
		}
	}
	for _, values := range byDomain {
		if !slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(r karpv1.Requirement) bool {
			return r.MinValues != nil && len(values[r.Key]) < *r.MinValues
		}) {
			return true
		}
	}
	return false
}

// domainKeys are the topology keys of what a pod requires about others, but for that of the host.
func domainKeys(p *corev1.Pod) (out []string) {
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			out = append(out, c.TopologyKey)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			out = append(out, t.TopologyKey)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			out = append(out, t.TopologyKey)
		}
	}
	return slices.DeleteFunc(out, func(k string) bool { return k == corev1.LabelHostname })
}

// excused reports whether a pod is refused for what no filter of kube-scheduler looks at: it asks for what is not supported, or for the operating
// system of another kubelet.
func excused(reasons []plan.Reason) bool {
	if len(reasons) == 0 {
		return true
	}
	return slices.ContainsFunc(reasons, func(r plan.Reason) bool {
		return strings.HasPrefix(plan.DetailOf[plan.OfUnsupported](r).Field, "schedulingGroup") || r.Fields().Key == corev1.LabelOSStable
	})
}

// leftToOthers reports whether a pod is refused, and truly, because a volume that its claim could be bound to may be bound to the claim of
// another pod first.
func (x *judge) leftToOthers(reasons []plan.Reason) bool {
	return slices.ContainsFunc(reasons, func(r plan.Reason) bool {
		of := plan.DetailOf[plan.OfVolumeClaim](r)
		if of.Problem != model.VolumeKept {
			return false
		}
		pv := x.volumes[of.Object.Name()]
		return pv != nil && slices.ContainsFunc(slices.Collect(maps.Values(x.claims)), func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace+"/"+c.Name != of.Claim && *c.Spec.StorageClassName == pv.Spec.StorageClassName && slices.Equal(c.Spec.AccessModes, pv.Spec.AccessModes)
		})
	})
}

// hostnames has the reason of a pod that asks for one node by its host name tell of it.
func (x *judge) hostnames(p *corev1.Pod, reasons []plan.Reason) {
	name, ok := p.Spec.NodeSelector[hostKey]
	if !ok {
		return
	}
	if slices.ContainsFunc(reasons, func(r plan.Reason) bool { return r.Code == plan.VolumeClaim || r.Code == plan.Unsupported }) {
		return // no node would do
	}
	if slices.ContainsFunc(reasons, func(r plan.Reason) bool { return r.Fields().Key == metav1.ObjectNameField }) {
		return // it asks for another node by name, too
	}
	if !slices.ContainsFunc(reasons, func(r plan.Reason) bool { return strings.Contains(fmt.Sprintf("%+v", r), name) }) {
		x.disagree("reason", "%s/%s asks for the node %s, and is refused without a word of it: %v", p.Namespace, p.Name, name, reasons)
	}
}

// admit makes a pod what the API server makes of it when it is created, and a DaemonSet's pod too: the real defaults, then what the admission
// plugins LimitRanger and RuntimeClass add. Label keys are merged into selectors as the registry does it.
func (c *drawn) admit(p *corev1.Pod) {
	apidefaults.SetObjectDefaults_Pod(p)
	for _, r := range c.ranges {
		if r.Namespace != p.Namespace {
			continue
		}
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				for _, item := range r.Spec.Limits {
					fill(&list[i].Resources.Limits, item.Default)
					fill(&list[i].Resources.Requests, item.DefaultRequest)
				}
			}
		}
	}
	for _, r := range c.runtimes {
		if p.Spec.RuntimeClassName == nil || *p.Spec.RuntimeClassName != r.Name {
			continue
		}
		p.Spec.Overhead = r.Overhead.PodFixed
		if s := r.Scheduling; s != nil {
			p.Spec.NodeSelector = maps.Clone(p.Spec.NodeSelector)
			if p.Spec.NodeSelector == nil {
				p.Spec.NodeSelector = map[string]string{}
			}
			maps.Copy(p.Spec.NodeSelector, s.NodeSelector)
			p.Spec.Tolerations = append(p.Spec.Tolerations, s.Tolerations...)
		}
	}
	for _, class := range c.priorities {
		if p.Spec.PriorityClassName == class.Name || p.Spec.PriorityClassName == "" && class.GlobalDefault {
			p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = class.Name, &class.Value, class.PreemptionPolicy
		}
	}
	uid, scheduler := p.UID, p.Spec.SchedulerName
	(&bindingCase{}).admit(&draw{Rand: rand.New(rand.NewPCG(1, 1))}, p)
	p.UID, p.Spec.SchedulerName = uid, scheduler
}

func fill(into *corev1.ResourceList, from corev1.ResourceList) {
	for k, v := range from {
		if _, ok := (*into)[k]; ok {
			continue
		}
		if *into == nil {
			*into = corev1.ResourceList{}
		}
		(*into)[k] = v
	}
}

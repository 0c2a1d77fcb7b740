// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Limits on the size of one pod, explained in docs/SECURITY.md. The API server accepts far larger pods (an object may
// have 1.5 MiB), so any user with the right to create pods in one namespace could make every decision arbitrarily slow.
// A pod over a limit is not scheduled: see model.Excess.
const (
	mostSelectorKeys   = 2000      // rules of nodeSelector and of all terms of node affinity together
	mostSelectorTerms  = 1000      // terms of node affinity, required and preferred
	mostSelectorValues = 10_000    // values in all rules and label selectors together
	mostPodTerms       = 100       // terms of pod affinity and anti-affinity, and topology spread constraints
	mostLabelRules     = 500       // rules of the label selectors of these, and the namespaces that they name
	mostHostPorts      = 1000      // host ports
	mostTolerations    = 500       // tolerations
	mostLabels         = 500       // labels of the pod
	mostVolumes        = 300       // volumes that may be persistent
	mostResourceNames  = 64        // resources requested
	mostClassBytes     = 64 * 1024 // of the class's key, which holds all of it as text
)

// demands are the sizes of a pod's parts, each with its limit.
type demands struct {
	selectorKeys, selectorTerms, selectorValues    int
	podTerms, labelRules                           int
	hostPorts, tolerations, labels, volumes, names int
}

// countDemands measures the parts of a pod, reading each once.
func countDemands(p *corev1.Pod) (n demands) {
	s := &p.Spec
	n.labels, n.tolerations = len(p.Labels), len(s.Tolerations)
	n.selectorKeys, n.selectorValues = len(s.NodeSelector), len(s.NodeSelector)
	if a := s.Affinity; a != nil {
		n.countNodeAffinity(a.NodeAffinity)
		if x := a.PodAffinity; x != nil {
			n.countPodTerms(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if x := a.PodAntiAffinity; x != nil {
			n.countPodTerms(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range s.TopologySpreadConstraints {
		n.podTerms++
		n.labelRules += len(s.TopologySpreadConstraints[i].MatchLabelKeys)
		n.countSelector(s.TopologySpreadConstraints[i].LabelSelector)
	}
	for i := range s.Volumes {
		if volume.ClaimName(p, &s.Volumes[i]) != "" {
			n.volumes++
		}
	}
	n.volumes += len(ownDisks(s))
	n.countContainers(s.InitContainers)
	n.countContainers(s.Containers)
	if s.Resources != nil {
		n.names = max(n.names, len(s.Resources.Requests))
	}
	n.names += len(s.Overhead)
	n.volumes += len(s.ResourceClaims)
	return n
}

func (n *demands) countNodeAffinity(a *corev1.NodeAffinity) {
	if a == nil {
		return
	}
	term := func(t *corev1.NodeSelectorTerm) {
		n.selectorTerms++
		n.selectorKeys += len(t.MatchExpressions) + len(t.MatchFields)
		for i := range t.MatchExpressions {
			n.selectorValues += len(t.MatchExpressions[i].Values)
		}
		for i := range t.MatchFields {
			n.selectorValues += len(t.MatchFields[i].Values)
		}
	}
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i := range r.NodeSelectorTerms {
			term(&r.NodeSelectorTerms[i])
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
}

func (n *demands) countPodTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	term := func(t *corev1.PodAffinityTerm) {
		n.podTerms++
		n.labelRules += len(t.Namespaces) + len(t.MatchLabelKeys) + len(t.MismatchLabelKeys)
		n.countSelector(t.LabelSelector)
		n.countSelector(t.NamespaceSelector)
	}
	for i := range required {
		term(&required[i])
	}
	for i := range preferred {
		term(&preferred[i].PodAffinityTerm)
	}
}

func (n *demands) countSelector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	n.labelRules += len(s.MatchLabels) + len(s.MatchExpressions)
	n.selectorValues += len(s.MatchLabels)
	for i := range s.MatchExpressions {
		n.selectorValues += len(s.MatchExpressions[i].Values)
	}
}

// countContainers counts host ports and names of resources. The names of several containers are mostly the same, so
// they count by the container that has most; resources beyond that are found when they are added up.
func (n *demands) countContainers(list []corev1.Container) {
	for i := range list {
		n.names = max(n.names, len(list[i].Resources.Requests))
		for j := range list[i].Ports {
			if list[i].Ports[j].HostPort > 0 {
				n.hostPorts++
			}
		}
	}
}

// withinLimits returns the pod as it is looked at: itself, unless it asks for more of something than is looked at.
// Then that part is left out of the pod returned, and the first such part is the excess.
func withinLimits(p *corev1.Pod) (*corev1.Pod, model.Excess) {
	n := countDemands(p)
	var first model.Excess
	over := func(what string, have, most int) bool {
		if have > most && first.What == "" {
			first = model.Excess{What: what, Have: int64(have), Most: int64(most)}
		}
		return have > most
	}
	keys := over("node affinity terms", n.selectorTerms, mostSelectorTerms)
	keys = over("node selector keys", n.selectorKeys, mostSelectorKeys) || keys
	keys = over("values in selectors", n.selectorValues, mostSelectorValues) || keys
	pods := over("pod affinity terms and topology spread constraints", n.podTerms, mostPodTerms)
	pods = over("label selector rules", n.labelRules, mostLabelRules) || pods || n.selectorValues > mostSelectorValues
	ports := over("host ports", n.hostPorts, mostHostPorts)
	tolerations := over("tolerations", n.tolerations, mostTolerations)
	labels := over("labels", n.labels, mostLabels)
	volumes := over("volumes and resource claims", n.volumes, mostVolumes)
	names := over("resources", n.names, mostResourceNames)
	if first.What == "" {
		return p, first
	}
	return without(p, leftOut{keys, pods, ports, tolerations, labels, volumes, names}), first
}

// leftOut are the parts of a pod that are ignored.
type leftOut struct{ nodes, pods, ports, tolerations, labels, volumes, resources bool }

// everything is left out of a pod whose parts are each within their limit and that is too large nevertheless.
var everything = leftOut{true, true, true, true, true, true, true}

// without returns a pod that lacks these parts; what both have they share.
func without(p *corev1.Pod, x leftOut) *corev1.Pod {
	out := *p
	s := &out.Spec
	a := corev1.Affinity{}
	if s.Affinity != nil {
		a = *s.Affinity
	}
	if x.nodes {
		s.NodeSelector, a.NodeAffinity = nil, nil
	}
	if x.pods {
		s.TopologySpreadConstraints, a.PodAffinity, a.PodAntiAffinity = nil, nil, nil
	}
	s.Affinity = &a
	if x.tolerations {
		s.Tolerations = nil
	}
	if x.labels {
		out.Labels = nil
	}
	if x.volumes {
		s.Volumes, s.ResourceClaims = nil, nil
	}
	if x.ports || x.resources {
		s.InitContainers, s.Containers = plainContainers(s.InitContainers, x), plainContainers(s.Containers, x)
		if s.Resources != nil && x.resources {
			s.Resources = &corev1.ResourceRequirements{Requests: fixedResources(s.Resources.Requests)}
		}
		if x.resources {
			s.Overhead, out.Status.ContainerStatuses, out.Status.InitContainerStatuses, out.Status.Resources = fixedResources(s.Overhead), nil, nil, nil
		}
	}
	return &out
}

// plainContainers returns containers without host ports, or without extended resources.
func plainContainers(list []corev1.Container, x leftOut) []corev1.Container {
	out := make([]corev1.Container, len(list))
	copy(out, list)
	for i := range out {
		if x.ports {
			out[i].Ports = nil
		}
		if x.resources {
			out[i].Resources = corev1.ResourceRequirements{Requests: fixedResources(out[i].Resources.Requests)}
		}
	}
	return out
}

// mostReferenceBytes is how long the name or the uid of an object can be at most.
const mostReferenceBytes = 253

// bounded is a text of an owner reference, which the API server takes in any length: itself, or a sum of it where it is
// longer than the name of any object. Uids of owners stand in annotations of NodeClaims, beside those of others' pods.
func bounded(s string) string {
	if len(s) <= mostReferenceBytes {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// dropUnknown drops from a pod's requests the resources for which the table of resources has no place left, and returns
// the excess that they are; the zero value if there are none.
func (t *Translator) dropUnknown(requests corev1.ResourceList) (dropped model.Excess) {
	names := make([]string, 0, len(requests))
	for name, q := range requests {
		if !q.IsZero() {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	first := ""
	for _, name := range names {
		if _, ok := t.Table.DimOfPod(name); !ok {
			delete(requests, corev1.ResourceName(name))
			first, dropped.Have = cmp.Or(first, name), dropped.Have+1
		}
	}
	switch dropped.Have {
	case 0:
	case 1:
		dropped.What = "resource that no node or instance type has, " + first
	default:
		dropped.What = "resources that no node or instance type has, the first of them " + first
	}
	return dropped
}

// fixedResources returns those of a list that every node has.
func fixedResources(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

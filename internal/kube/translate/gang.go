// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Labels and annotations by which pods declare their gang and its size.
const (
	// Kueue's plain pod groups: sigs.k8s.io/kueue v0.17.0, pkg/controller/jobs/pod/constants. The total count is the number of pods
	// of the group, and Kueue admits none before all of them exist, unless the group asks for fast admission.
	kueueGroup         = "kueue.x-k8s.io/pod-group-name"
	kueueTotalCount    = "kueue.x-k8s.io/pod-group-total-count"
	kueueFastAdmission = "kueue.x-k8s.io/pod-group-fast-admission"

	// LeaderWorkerSet: sigs.k8s.io/lws v0.8.0, api/leaderworkerset/v1. A group is a leader and its workers, which are created once
	// the leader exists or, if the startup policy says so, is ready.
	lwsName       = "leaderworkerset.sigs.k8s.io/name"
	lwsGroupIndex = "leaderworkerset.sigs.k8s.io/group-index"
	lwsSize       = "leaderworkerset.sigs.k8s.io/size"
)

// Labels and annotations of Kueue for topology requests (sigs.k8s.io/kueue v0.17.0, apis/kueue/v1beta2). They apply to
// the pods of one pod set, or of pod sets with the same group name.
const (
	kueueRequiredTopology  = "kueue.x-k8s.io/podset-required-topology"
	kueuePreferredTopology = "kueue.x-k8s.io/podset-preferred-topology"
	kueuePodSet            = "kueue.x-k8s.io/podset"
	kueuePodSetGroup       = "kueue.x-k8s.io/podset-group-name"
)

// gangOf returns the gang of a pod, with the domain that it requests; zero: none. why is not empty if the pod names a
// gang for which no node can be launched.
func (t *Translator) gangOf(p *corev1.Pod) (g model.Gang, why string) {
	g, why = t.gangNamed(p)
	if g.Name == "" || g.Least == 0 {
		return g, why
	}
	if g.Domain == "" {
		g.Domain, g.Prefers = CanonicalLabel(bounded(p.Annotations[kueueRequiredTopology])), CanonicalLabel(bounded(p.Annotations[kueuePreferredTopology]))
		if g.Domain != "" || g.Prefers != "" {
			g.PodSet = bounded(cmp.Or(p.Annotations[kueuePodSetGroup], p.Labels[kueuePodSet], p.Labels["jobset.sigs.k8s.io/replicatedjob-name"]))
		}
	}
	if a := p.Spec.Affinity; g.Domain != "" && a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		return g, "required topology " + g.Domain + ": not supported with required pod affinity"
	}
	return g, ""
}

// gangNamed is like gangOf, without a domain requested by the pod itself.
func (t *Translator) gangNamed(p *corev1.Pod) (g model.Gang, why string) {
	over, why, is := t.gangOfObject(p, gangKinds[:firstGangKinds])
	if is {
		return over, why
	}
	if name := p.Labels[kueueGroup]; name != "" && p.Annotations[kueueFastAdmission] != "true" {
		return gangOfSize("podgroup.kueue.x-k8s.io/"+p.Namespace+"/"+name, p.Annotations[kueueTotalCount], false), ""
	}
	if name, index := p.Labels[lwsName], p.Labels[lwsGroupIndex]; name != "" && index != "" {
		return gangOfSize("leaderworkerset/"+p.Namespace+"/"+name+"/"+index, p.Annotations[lwsSize], true), ""
	}
	if g, why, is = t.gangOfObject(p, gangKinds[firstGangKinds:]); is {
		return g, why
	}
	return over, ""
}

// gangOfSize returns the gang of a name and a size as an annotation has it; zero: it is no number from 1.
func gangOfSize(name, size string, staged bool) model.Gang {
	n, err := strconv.ParseInt(size, 10, 32)
	if err != nil || n < 1 {
		return model.Gang{}
	}
	return model.Gang{Name: bounded(name), Least: int(n), Staged: staged}
}

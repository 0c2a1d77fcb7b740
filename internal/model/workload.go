// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"strings"
	"time"
)

// Workload names what makes pods: a Deployment, or else the controller itself. One deleted and made again under its name
// is the same.
type Workload struct{ Namespace, Kind, Name string }

// String returns kind/namespace/name, the kind in lower case.
func (w Workload) String() string {
	return strings.ToLower(w.Kind) + "/" + w.Namespace + "/" + w.Name
}

// Compare orders workloads by their text.
func (w Workload) Compare(o Workload) int {
	return strings.Compare(w.String(), o.String())
}

// Workload is what makes a pod; ok is false for one that nobody would make again.
func (p *Pod) Workload() (w Workload, ok bool) {
	if p.Deployment != "" {
		return Workload{p.Namespace, "Deployment", p.Deployment}, true
	}
	return Workload{p.Namespace, p.Owner.Kind, p.Owner.Name}, p.Owner.UID != ""
}

// CountReplicas returns how many pods each workload wants: those that it has, pending ones included, less those being
// deleted, and those that its ReplicaSet has still to make. Pods of Jobs are left out: no Job of a name runs twice.
func (s *Snapshot) CountReplicas() map[Workload]int {
	counts := map[Workload]int{}
	add := func(p *Pod, n int) {
		if w, ok := p.Workload(); ok && n > 0 && w.Kind != "Job" && !p.Expected && p.IsReschedulable() {
			counts[w] += n
		}
	}
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			add(p, 1)
		}
	}
	for _, p := range s.Pending {
		add(p, 1)
	}
	for _, m := range s.Making {
		add(m.Like, m.Want-m.Have)
	}
	return counts
}

// Deployment is a workload that can be asked to make a pod's successor before the pod goes. They are known only where that has been
// allowed.
type Deployment struct {
	Namespace, Name, UID string
	Surge                string // value of its annotation dovetail.sh/surge
	Replicas             int32
	MaxSurge             int32 // pods it may have above Replicas while it rolls; 0 with strategy Recreate
	Recreate             bool
	Paused               bool
	RestartedAt          string // annotation of its pod template; every pod of that template bears it too
	Rolling              bool   // its pods are not yet all made of its template
}

// Key is namespace/name.
func (d *Deployment) Key() string { return d.Namespace + "/" + d.Name }

// Annotations by which people say how a workload's pods are to be restarted, and what that costs.
const (
	AnnotationSurge       = "dovetail.sh/surge"
	AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

	// AnnotationDeletionCost on a pod is the value of controller.kubernetes.io/pod-deletion-cost that Dovetail wrote. A pod whose value is another has one of its
	// user's.
	AnnotationDeletionCost = "dovetail.sh/pod-deletion-cost"
	// AnnotationRestartCost on a pod or a NodePool is what one restart of the pod, or of a pod on the pool's nodes, costs in dollars: what people
	// would pay not to have it. See ParseRestartCost.
	AnnotationRestartCost = "dovetail.sh/restart-cost"
)

// ParseRestartCost reads a value of AnnotationRestartCost, a decimal number of dollars from 0 to 1000000 such as "0.05", and returns it in
// micro-dollars. ok is false where the value is anything else, the empty string included.
func ParseRestartCost(value string) (micro int64, ok bool) { return ParseDollars(value) }

// Making are the pods that a ReplicaSet still has to make.
type Making struct {
	Like       *Pod // the youngest that it has made
	Have, Want int  // pods that it has, those ending not counted, and is to have
}

// Template is the pod template of a controller such as a ReplicaSet, as far as advice about its pods depends on it. Decisions don't.
type Template struct {
	Deployment  string // uid of the Deployment that owns the ReplicaSet; empty: none does
	Revision    int64  // of the Deployment, that the ReplicaSet is for; 0: not known
	Superseded  bool   // the Deployment has a ReplicaSet of a later revision: its rollout removes the pods of this one
	Annotations Labels // of the template, those that keep pods from being evicted; nil: none
}

// IsSuperseded reports whether a pod is of a ReplicaSet whose Deployment has one of a later revision. False if that is not known.
func (s *Snapshot) IsSuperseded(p *Pod) bool { return s.Templates[p.Owner.UID].Superseded }

// MarkSuperseded returns templates, by uid of the controller, with Superseded set.
func MarkSuperseded(templates map[string]Template) map[string]Template {
	latest, out := map[string]int64{}, make(map[string]Template, len(templates))
	for _, t := range templates {
		if t.Deployment != "" {
			latest[t.Deployment] = max(latest[t.Deployment], t.Revision)
		}
	}
	for uid, t := range templates {
		t.Superseded = t.Deployment != "" && t.Revision > 0 && t.Revision < latest[t.Deployment]
		out[uid] = t
	}
	return out
}

// FailingReplicas are pods that a ReplicaSet is to have and can't create, as its condition ReplicaFailure says.
type FailingReplicas struct {
	Namespace, ReplicaSet string
	Deployment            string // empty: none owns it
	Missing               int    // pods that it is to have and has not, by its status
	Why                   []CreationRefusal
}

// CreationRefusal is one thing for which the API server refuses to create a pod.
type CreationRefusal struct {
	Said            string // the API server's words, as of an admission policy
	Quota, Resource string // a ResourceQuota of the namespace, and the resource of spec.hard that it has too little of; empty: another refuses
	Enough          string // the amount of spec.hard with which all pods that are missing can be created
}

// What is expected of ReplicaSets that have pods to make (decide/expect.go). State says by the same figures which pods come as no surprise.
const (
	// MostExpected is how many pods are expected at a time, of all ReplicaSets: enough for large machines, and one with a digit too many is
	// a mistake that may yet be put right.
	MostExpected = 5000
	// ExpectFor is how long after its last pod a ReplicaSet is expected to make another. kube-controller-manager makes them in batches of up to
	// 256, at 20 a second by default, and those of another wait meanwhile: 13 s of two, 26 s of three.
	ExpectFor = 30 * time.Second
)

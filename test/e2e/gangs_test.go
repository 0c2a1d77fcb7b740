// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// member creates a pod of a pod group of Kueue, of so many pods.
func (e *env) member(name, group string, size int) {
	e.t.Helper()
	t := e.pod("1500m", "1Gi", bare)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kueue.x-k8s.io/pod-group-name": group},
		Annotations: map[string]string{"kueue.x-k8s.io/pod-group-total-count": strconv.Itoa(size)}}, Spec: t.Spec}
	_, err := e.s.Kube.CoreV1().Pods(e.name).Create(e.ctx, p, metav1.CreateOptions{})
	e.must(err)
}

// Pods of a pod group get their nodes together or not at all: none before the last one exists, and none while the NodePool's limit
// has capacity for some of them only. When the limit is raised, all run.
func TestGangs(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "gangs")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.limits.nodes": "2"})
	for i := range 2 {
		e.member(fmt.Sprintf("train-%d", i), "train", 3)
	}
	e.names("pod/"+e.name+"/train-0", plan.GangIncomplete, "train", "2")
	e.member("train-2", "train", 3)
	for i := range 3 {
		e.names(fmt.Sprintf("pod/%s/train-%d", e.name, i), plan.GangTooLarge, "train", "2")
	}
	e.event("Pod", "train-", "FailedScheduling", "needs capacity for 3 pods at once")
	if n := len(e.launches(e.name)); n > 0 {
		t.Fatalf("%d nodes were launched for a part of a gang", n)
	}
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"3"}}}`))
	e.podsRun(3)
	if n := len(e.launches(e.name)); n != 3 {
		t.Errorf("%d nodes were launched for three pods of which each needs one", n)
	}
}

// gangCRD is one of the kinds of objects that declare gangs and are no part of Kubernetes.
const gangCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: "unapproved, for a test"}}
spec:
  group: %[2]s
  names: {kind: %[4]s, plural: %[1]s}
  scope: Namespaced
  versions:
  - {name: %[3]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`

// Objects declare gangs: a PodGroup of Kubernetes, whose pods kube-scheduler binds together, and JobSets and PodGroups of other schedulers if
// their kinds are installed. The pods wait for an object that does not exist, and follow one that changes.
func TestGangObjects(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t, "--feature-gates", "GenericWorkload=true")
	e := newEnv(t, s, "gangobjects")
	for _, k := range [][4]any{
		{"jobsets", "jobset.x-k8s.io", "v1alpha2", "JobSet"}, {"podgroups", "scheduling.volcano.sh", "v1beta1", "PodGroup"}, {"podgroups", "scheduling.x-k8s.io", "v1alpha1", "PodGroup"},
	} {
		e.must(s.CreateCRD(e.ctx, fmt.Sprintf(gangCRD, k[:]...)))
	}
	e.killLeader() // kinds are looked for at the start
	in := func(path string) string {
		return "/apis/" + path[:strings.LastIndex(path, "/")] + "/namespaces/" + e.name + path[strings.LastIndex(path, "/"):]
	}
	groups, jobsets, coscheduling := in("scheduling.k8s.io/v1beta1/podgroups"), in("jobset.x-k8s.io/v1alpha2/jobsets"), in("scheduling.x-k8s.io/v1alpha1/podgroups")

	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.limits.nodes": "2"})
	member := func(name string, change func(*corev1.Pod)) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: e.pod("1500m", "1Gi", bare).Spec}
		change(p)
		_, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, p, metav1.CreateOptions{})
		e.must(err)
	}
	group := "train"
	for i := range 3 {
		member(fmt.Sprintf("train-%d", i), func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} })
	}
	e.names("pod/"+e.name+"/train-0", plan.Unsupported, "schedulingGroup train: PodGroup not found")
	e.must(s.Create(e.ctx, groups, "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}"))
	e.names("pod/"+e.name+"/train-0", plan.GangTooLarge, "train", "2")
	if n := len(e.launches(e.name)); n > 0 {
		t.Fatalf("%d nodes were launched for a part of a gang", n)
	}
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"3"}}}`))
	e.podsRun(3)

	// A JobSet of three pods, of which two exist, and which then becomes one of two.
	e.must(s.Create(e.ctx, jobsets, "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js}, spec: {replicatedJobs: [{name: w, replicas: 3}]}}"))
	for i := range 2 {
		member(fmt.Sprintf("js-%d", i), func(p *corev1.Pod) { p.Labels["jobset.sigs.k8s.io/jobset-name"] = "js" })
	}
	e.names("pod/"+e.name+"/js-0", plan.GangIncomplete, "js", "2")
	e.must(s.Patch(e.ctx, jobsets+"/js", `{"spec":{"replicatedJobs":[{"name":"w","replicas":2}]}}`))
	e.names("pod/"+e.name+"/js-0", plan.GangTooLarge, "js", "0")
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"5"}}}`))
	e.podsRun(5)

	// A group of the coscheduling plugin, whose minimum is lowered.
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"6"}}}`))
	e.must(s.Create(e.ctx, coscheduling, "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: co}, spec: {minMember: 2}}"))
	member("co-0", func(p *corev1.Pod) { p.Labels["scheduling.x-k8s.io/pod-group"] = "co" })
	e.names("pod/"+e.name+"/co-0", plan.GangIncomplete, "co", "1")
	e.must(s.Patch(e.ctx, coscheduling+"/co", `{"spec":{"minMember":1}}`))
	e.podsRun(6)
	if n := len(e.launches(e.name)); n != 6 {
		t.Errorf("%d nodes were launched for six pods of which each needs one", n)
	}
}

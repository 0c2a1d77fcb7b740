// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// set is a StatefulSet or a Job of a lab.
type set struct {
	kind, name string
	class      *model.Class
	want       int           // replicas, or completions
	runs       time.Duration // how long a pod of a Job takes
	done       int           // completions
	made       int
}

// addSets adds StatefulSets and a DaemonSet. Jobs come with churn.
func (l *lab) addSets() {
	for i := range 2 {
		l.addSet("StatefulSet", fmt.Sprint("db", i), 1+l.rand.IntN(5))
	}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "uid-agent", Generation: 1}}
	d.Spec.Template.Labels = map[string]string{"app": "agent"}
	d.Spec.Template.Spec = podOf("DaemonSet", "agent", "150m").Spec
	daemon := l.t.DaemonSet(d)
	l.Daemons, l.daemonSets = append(l.Daemons, daemon), append(l.daemonSets, d)
	l.templates[daemon.Class] = podOf("DaemonSet", "agent", "150m")
	l.ShowDaemon(daemon)
	l.Controllers = l
}

func (l *lab) addSet(kind, name string, want int) {
	pod := podOf(kind, name, []string{"250m", "500m", "900m", "1500m"}[l.rand.IntN(4)])
	s := &set{kind: kind, name: name, class: l.t.Pod(pod).Class, want: want, runs: time.Duration(60_000+l.rand.IntN(900_000)) * time.Millisecond}
	l.templates[s.class] = pod
	l.sets = append(l.sets, s)
}

// churnSets scales a StatefulSet, or begins a Job.
func (l *lab) churnSets(i int) {
	var stateful []*set
	for _, s := range l.sets {
		if s.kind == "StatefulSet" {
			stateful = append(stateful, s)
		}
	}
	if i < len(stateful) {
		stateful[i].want = max(0, min(8, stateful[i].want+l.rand.IntN(5)-2))
		return
	}
	l.addSet("Job", fmt.Sprint("job", len(l.sets)), 1+l.rand.IntN(5))
}

func podOf(kind, name, cpu string) *corev1.Pod {
	yes, grace := true, int64(10)
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}}}
	pod.Spec.SchedulerName, pod.Spec.TerminationGracePeriodSeconds = corev1.DefaultSchedulerName, &grace
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}}}}
	return pod
}

// Act implements sim.Controllers: a StatefulSet makes a pod again when the old one is gone, a Job at once.
func (l *lab) Act() {
	pods := map[*model.Class][]*model.Pod{}
	for _, p := range slices.SortedFunc(maps.Values(l.Pods), model.ComparePodKeys) {
		if p.Deleting.IsZero() {
			pods[p.Class] = append(pods[p.Class], p)
		}
	}
	for _, s := range l.sets {
		if s.kind == "Job" {
			for range s.want - s.done - len(pods[s.class]) {
				l.makePod(s, fmt.Sprintf("%s-%d", s.name, s.made))
			}
			continue
		}
		for _, p := range pods[s.class] {
			if i, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:]); err == nil && i >= s.want {
				l.DeletePod(p, p.GracePeriod)
			}
		}
		for i := range s.want {
			if name := fmt.Sprintf("%s-%d", s.name, i); l.Pods[model.PodKey("default", name)] == nil {
				l.makePod(s, name)
			}
		}
	}
}

func (l *lab) makePod(s *set, name string) {
	l.Serial++
	s.made++
	l.SetPod(&model.Pod{Namespace: "default", Name: name, UID: fmt.Sprintf("uid-%s-%d", name, l.Serial), Seen: uint64(l.Serial), Class: s.class, Created: l.Now,
		GracePeriod: 10 * time.Second, Owner: model.Owner{Kind: s.kind, Name: s.name, UID: "uid-" + s.name}})
}

// PodChanged implements sim.Controllers: a pod of a Job ends some time after it was bound.
func (l *lab) PodChanged(old, now *model.Pod) {
	i := slices.IndexFunc(l.sets, func(s *set) bool { return now != nil && s.kind == "Job" && s.class == now.Class })
	if i < 0 || now.Node == "" || old != nil && old.Node != "" {
		return
	}
	s, uid, key := l.sets[i], now.UID, now.Key()
	l.At(l.Now.Add(s.runs), func() {
		if p := l.Pods[key]; p != nil && p.UID == uid && p.Deleting.IsZero() {
			s.done++
			l.completed[uid] = true
			l.DeletePod(p, 0)
		}
	})
}

// UpdateBudgets, Next, MayEvict and List implement sim.Controllers: budgets are those of Workloads.
func (l *lab) UpdateBudgets()           {}
func (l *lab) Next() (at time.Time)     { return at }
func (l *lab) MayEvict(*model.Pod) bool { return true }
func (l *lab) List(*state.State)        {}

// seeSets shows the StatefulSets.
func (l *lab) seeSets(put func(kind, key string, seen any, object func() any)) {
	for _, s := range l.sets {
		if s.kind == "StatefulSet" {
			put(s.kind, "default/"+s.name, s.want, func() any {
				return map[string]any{"metadata": map[string]any{"namespace": "default", "name": s.name, "uid": "uid-" + s.name}, "spec": map[string]any{"replicas": s.want}}
			})
		}
	}
}

// seeCompleted shows a pod that is gone as it was when it had done its work.
func (l *lab) seeCompleted(p *model.Pod) {
	if l.completed[p.UID] {
		o := l.podObject(p)
		o.DeletionTimestamp, o.Status.Phase = nil, corev1.PodSucceeded
		l.w.Set("v1", "Pod", p.Key(), o)
	}
}

func versionOf(kind string) string {
	return cmp.Or(map[string]string{"NodeClaim": "karpenter.sh/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "PodDisruptionBudget": "policy/v1"}[kind], "v1")
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// dayPod is a pod as an API server has it, of one of two hundred Deployments.
func dayPod(r *rand.Rand, n int) *corev1.Pod {
	app, yes := fmt.Sprint("service-", r.IntN(200)), true
	hash := fmt.Sprintf("%08x", len(app)*7919+int(app[len(app)-1]))
	p := &corev1.Pod{}
	p.Name, p.Namespace = fmt.Sprintf("%s-%s-%05x", app, hash, n), "team-"+app[len(app)-1:]
	p.UID = types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48)))
	p.Labels = map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": hash}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: types.UID("rs-" + app), Controller: &yes, BlockOwnerDeletion: &yes}}
	p.Spec.SchedulerName, p.Spec.TerminationGracePeriodSeconds = "default-scheduler", new(int64)
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry/" + app, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")}, Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}, {Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"}}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "ScheduleAnyway",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": app}}}}
	p.Status.Phase = corev1.PodPending
	return p
}

// A day of a cluster with 20,000 pods and 100,000 changes of pods, written every two seconds, has at most 40 MB.
func TestSizeOfADay(t *testing.T) {
	if testing.Short() {
		t.Skip("part of make verify; -short was given")
	}
	const pods, changes, most = 20_000, 100_000, 40_000_000
	r := rand.New(rand.NewPCG(1, 0))
	path, now := filepath.Join(t.TempDir(), "day.zst"), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c := config(path, nil)
	c.Now = func() time.Time { return now }
	w := begin(t, c)
	var there []*corev1.Pod
	put := func(p *corev1.Pod) { w.Set("v1", "Pod", p.Namespace+"/"+p.Name, p) }
	run := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", r.IntN(4), r.IntN(250)), corev1.PodRunning
		p.Status.StartTime = &metav1.Time{Time: now}
		p.Status.Conditions = nil
		for _, k := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: k, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now}})
		}
	}
	for i := range pods {
		p := dayPod(r, i)
		run(p)
		there = append(there, p)
		put(p)
	}
	if err := w.Synced(); err != nil {
		t.Fatal(err)
	}
	snapshot := w.Stats().Bytes
	for n := 0; w.Stats().Changes < changes; n++ {
		i := r.IntN(len(there))
		old := there[i]
		old.DeletionTimestamp = &metav1.Time{Time: now}
		put(old)
		p := dayPod(r, pods+n)
		put(p)
		now = now.Add(24 * time.Hour * 4 / changes) // four changes each time
		run(p)
		put(p)
		w.Delete("Pod", old.Namespace+"/"+old.Name)
		there[i] = p
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("first snapshot %d bytes, %d changes %d bytes", snapshot, changes, w.Stats().Bytes-snapshot)
	if w.Stats().Bytes > most {
		t.Errorf("%d bytes, want at most %d", w.Stats().Bytes, most)
	}
	if have, report, err := Objects(path); err != nil || len(have) != pods || report.Changes["Pod"] != changes {
		t.Errorf("read: %d objects, %v changes, %v", len(have), report.Changes, err)
	}
}

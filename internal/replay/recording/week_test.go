// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// week draws the recording of a cluster whose nodes are all m7i.4xlarge and stay: 20 pods a node on average. Half of the changes are those of
// Deployments, which follow the time of day and are scaled by some of their pods at once. The others are those of Jobs of 10 pods, which run for
// 1 to 10 minutes.
type week struct {
	nodes, deployments int
	long               time.Duration
	changes            int // of pods, in all of the time

	rand *rand.Rand
	w    *record.Writer
	now  time.Time
	free []int64 // milli-CPU by node
	jobs []weekEnd
	made int    // pods
	hash string // of the NodePool

	zones []string
}

// weekApp is a Deployment's ReplicaSet.
type weekApp struct {
	name      string
	milli     int64
	base      int // pods on average
	pods      []*weekPod
	spreading bool
}

type weekPod struct {
	*corev1.Pod
	milli int64
	node  int
}

// weekEnd is when a pod of a Job has done its work.
type weekEnd struct {
	at  time.Time
	pod *weekPod
}

// weekNode is what a node has for pods, in milli-CPU. A recorded node is never full.
const weekNode = 15_800

func (k *week) draw(tb testing.TB, path string) {
	k.rand, k.now, k.free = rand.New(rand.NewPCG(1, 1)), start, make([]int64, k.nodes)
	var err error
	if k.w, _, err = record.Open(record.Config{Path: path, Header: record.Header{Program: "week", Cluster: "week"}, Now: func() time.Time { return k.now }}); err != nil {
		tb.Fatal(err)
	}
	k.w.Set("karpenter.sh/v1", "NodePool", "default", nodePool("default"))
	for _, t := range labTypes(state.NewResourceTable()) {
		for _, o := range t.Offerings {
			if t.Name == "m7i.4xlarge" && o.CapacityType == model.OnDemand {
				k.zones = append(k.zones, o.Zone)
			}
		}
	}
	k.hash = (&translate.Translator{Table: state.NewResourceTable()}).NodePool(nodePool("default")).Hash
	for i := range k.free {
		k.addNode(i)
	}
	var apps []*weekApp
	for i := range k.deployments {
		a := &weekApp{name: fmt.Sprint("app", i), milli: []int64{250, 500, 1000}[k.rand.IntN(3)], base: k.nodes * 20 / k.deployments, spreading: i%4 == 0}
		apps = append(apps, a)
		k.scale(a, a.base)
	}
	if err := k.w.Synced(); err != nil {
		tb.Fatal(err)
	}
	const ofJob = 40 // changes of a Job
	scaled := int64(0)
	for end := start.Add(k.long); ; {
		// The next thing that happens: so many changes as there should be by then.
		share := float64(k.w.Stats().Changes) / float64(k.changes)
		at := start.Add(time.Duration(share*float64(k.long)) + time.Duration(k.rand.IntN(20_000))*time.Millisecond)
		if at.Before(k.now) {
			at = k.now.Add(time.Duration(1+k.rand.IntN(20_000)) * time.Millisecond)
		}
		if len(k.jobs) > 0 && k.jobs[0].at.Before(at) {
			at = k.jobs[0].at
		}
		if at.After(end) || k.w.Stats().Changes >= int64(k.changes) {
			break
		}
		k.now = at
		switch {
		case len(k.jobs) > 0 && k.jobs[0].at.Equal(at):
			x := k.jobs[0].pod
			k.jobs = k.jobs[1:]
			x.Status.Phase = corev1.PodSucceeded
			k.set(x)
			k.gone(x)
		case scaled*2 <= k.w.Stats().Changes:
			before := k.w.Stats().Changes
			a := apps[k.rand.IntN(len(apps))]
			k.scale(a, int(float64(a.base)*(0.8+0.2*math.Sin(at.Sub(start).Hours()*math.Pi/12)+0.1*(k.rand.Float64()*2-1))))
			scaled += k.w.Stats().Changes - before
		default:
			job := fmt.Sprint("job", k.made)
			for range ofJob / 4 {
				k.jobs = append(k.jobs, weekEnd{at.Add(time.Minute + time.Duration(k.rand.IntN(9*60_000))*time.Millisecond), k.pod(job, "Job", 500, false)})
			}
			slices.SortStableFunc(k.jobs, func(a, b weekEnd) int { return a.at.Compare(b.at) })
		}
	}
	tb.Logf("%d nodes, %d pods at first, %s, %d changes", k.nodes, k.nodes*20, k.long, k.w.Stats().Changes)
	if err := k.w.Close(); err != nil {
		tb.Fatal(err)
	}
}

func (k *week) addNode(i int) {
	k.free[i] = weekNode
	name, zone := fmt.Sprint("node", i), k.zones[i%len(k.zones)]
	labels := map[string]string{corev1.LabelInstanceTypeStable: "m7i.4xlarge", corev1.LabelTopologyZone: zone, "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "default", "karpenter.kwok.sh/kwoknodeclass": "default",
		corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "karpenter.k8s.aws/instance-family": "m7i", "karpenter.k8s.aws/instance-cpu": "16"}
	capacity := map[string]any{"cpu": "16", "memory": "64Gi", "pods": "234", "ephemeral-storage": "20Gi"}
	allocatable := map[string]any{"cpu": "15890m", "memory": "58Gi", "pods": "234", "ephemeral-storage": "17Gi"}
	var conditions []any
	for _, kind := range []string{"Launched", "Registered", "Initialized", "Ready"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": kind, "lastTransitionTime": start.Add(-time.Hour)})
	}
	k.w.Set("karpenter.sh/v1", "NodeClaim", name, map[string]any{
		"metadata": map[string]any{"name": name, "uid": "uid-claim-" + name, "creationTimestamp": start.Add(-time.Hour), "labels": labels, "finalizers": []any{"karpenter.sh/termination"},
			"annotations": map[string]any{model.AnnotationPoolHash: k.hash, model.AnnotationPoolHashVersion: model.PoolHashVersion}},
		"spec": map[string]any{"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "expireAfter": "Never",
			"requirements": []any{map[string]any{"key": "karpenter.sh/nodepool", "operator": "In", "values": []any{"default"}}}},
		"status": map[string]any{"nodeName": name, "providerID": "kwok://" + name, "capacity": capacity, "allocatable": allocatable, "conditions": conditions}})
	k.w.Set("v1", "Node", name, map[string]any{
		"metadata": map[string]any{"name": name, "uid": "uid-" + name, "creationTimestamp": start.Add(-time.Hour), "labels": labels, "finalizers": []any{"karpenter.sh/termination"}},
		"spec":     map[string]any{"providerID": "kwok://" + name},
		"status": map[string]any{"capacity": capacity, "allocatable": allocatable,
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": start.Add(-time.Hour)}}}})
}

// scale makes or deletes pods of a ReplicaSet.
func (k *week) scale(a *weekApp, want int) {
	k.w.Set("apps/v1", "ReplicaSet", "default/"+a.name, map[string]any{"metadata": map[string]any{"namespace": "default", "name": a.name, "uid": "uid-" + a.name}, "spec": map[string]any{"replicas": want}})
	for len(a.pods) < want {
		a.pods = append(a.pods, k.pod(a.name, "ReplicaSet", a.milli, a.spreading))
	}
	for len(a.pods) > want {
		i := k.rand.IntN(len(a.pods))
		x := a.pods[i]
		a.pods = slices.Delete(a.pods, i, i+1)
		x.DeletionTimestamp = &metav1.Time{Time: k.now}
		k.set(x)
		k.gone(x)
	}
}

// pod makes a pod, and binds it to a node with room.
func (k *week) pod(owner, kind string, milli int64, spreading bool) *weekPod {
	k.made++
	yes, grace := true, int64(10)
	x := &weekPod{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(owner, "-", k.made), UID: types.UID(fmt.Sprint("uid-pod-", k.made)), Labels: map[string]string{"app": owner},
		CreationTimestamp: stamp(k.now), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: owner, UID: types.UID("uid-" + owner), Controller: &yes}}}}, milli, -1}
	if kind == "Job" {
		x.Labels["app"] = "job"
	}
	x.Spec.SchedulerName, x.Spec.TerminationGracePeriodSeconds = corev1.DefaultSchedulerName, &grace
	x.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"cpu": *resource.NewMilliQuantity(milli, resource.DecimalSI), "memory": *resource.NewQuantity(milli<<21, resource.BinarySI)}}}}
	if spreading {
		x.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": owner}}}}
	}
	x.Status.Phase = corev1.PodPending
	k.set(x)
	for range 50 {
		if i := k.rand.IntN(k.nodes); k.free[i] >= milli {
			x.node, x.Spec.NodeName, x.Status.Phase = i, fmt.Sprint("node", i), corev1.PodRunning
			k.free[i] -= milli
			x.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: stamp(k.now)}}
			k.set(x)
			break
		}
	}
	return x
}

func (k *week) set(x *weekPod) { k.w.Set("v1", "Pod", x.Namespace+"/"+x.Name, x.Pod) }

// gone ends a pod.
func (k *week) gone(x *weekPod) {
	if x.node >= 0 {
		k.free[x.node] += x.milli
	}
	k.w.Delete("Pod", x.Namespace+"/"+x.Name)
}

// BenchmarkReplay reads and replays a drawn recording, with Variant.Pace as DOVETAIL_PACE says. MiB is the most memory that the process has had, with the drawing. See 'make bench-replay'.
func BenchmarkReplay(b *testing.B) {
	for _, k := range []week{
		{nodes: 100, deployments: 20, long: time.Hour, changes: 1_000},
		{nodes: 1_000, deployments: 200, long: time.Hour, changes: 4_000},
		{nodes: 1_000, deployments: 200, long: 6 * time.Hour, changes: 25_000},
		{nodes: 1_000, deployments: 200, long: 168 * time.Hour, changes: 700_000},
	} {
		b.Run(fmt.Sprintf("nodes=%d/hours=%.0f", k.nodes, k.long.Hours()), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "week.zst")
			k.draw(b, path)
			for b.Loop() {
				before := processorTime(b)
				r, v := read(b, path)
				if pace := os.Getenv("DOVETAIL_PACE"); pace != "" {
					var err error
					if v.Pace, err = time.ParseDuration(pace); err != nil {
						b.Fatal(err)
					}
				}
				v.Progress = progressOf(b)
				reading := processorTime(b)
				played := replay.Play(r.Trace, v)
				b.ReportMetric((reading - before).Seconds(), "cpu-s/read")
				b.ReportMetric((processorTime(b) - reading).Seconds(), "cpu-s/replay")
				b.ReportMetric(float64(played.Steps), "decisions")
				if played.Restless > 0 || len(played.Faults) > 0 {
					b.Errorf("%d instants were left before nothing more happened at them; %v", played.Restless, played.Faults)
				}
				measured := replay.Measure(r.Trace, v.Types)
				b.Logf("measured $%.2f, %s waiting; replayed $%.2f, %s waiting, %d launches, %d evictions, %d decisions", float64(measured.Micro)/1e6, measured.Waiting,
					float64(played.Micro)/1e6, played.Waiting, played.Launched, played.Evicted(), played.Steps)
			}
			b.ReportMetric(float64(usage(b).Maxrss)/1024, "MiB")
		})
	}
}

// progressOf logs what each simulated hour takes.
func progressOf(b *testing.B) func(time.Time) bool {
	at, hour := processorTime(b), start
	return func(now time.Time) bool {
		if now.Sub(hour) >= time.Hour {
			since := at
			at, hour = processorTime(b), now
			fmt.Fprintf(os.Stderr, "%s: %.1f s of a processor, %.0f MiB\n", now.Sub(start).Round(time.Minute), (at - since).Seconds(), float64(usage(b).Maxrss)/1024)
		}
		return true
	}
}

func usage(b *testing.B) (use syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return use
}

// processorTime returns how long processors have worked for this process.
func processorTime(b *testing.B) time.Duration {
	use := usage(b)
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

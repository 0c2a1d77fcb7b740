// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// lab is a cluster in virtual time that Dovetail runs and that is recorded, as 'dovetail record' would see it.
type lab struct {
	*sim.Cluster
	tb        testing.TB
	rand      *rand.Rand
	mem       decide.Memory
	table     *state.ResourceTable
	t         *translate.Translator
	w         *record.Writer
	templates map[*model.Class]*corev1.Pod
	evicted   map[string]bool
	completed map[string]bool // by uid: pods of Jobs that have done their work
	sets      []*set
	prices    map[string]int64
	shown     map[string]any // by kind and key: the object as it was last recorded

	daemonSets []*appsv1.DaemonSet
	jitters    bool // it waits from 5 to 100 ms for more changes, another time for each
	calls      bool // what it does takes time: from one look at the cluster to the next it is 5 to 100 ms

	micro float64 // what machines have cost since the recording began
}

func nodePool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{}
	text := `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"` + name + `","uid":"uid-` + name + `","generation":1},"spec":{"template":{"spec":{
		"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"},"expireAfter":"Never",
		"requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]},{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},
		{"key":"karpenter.k8s.aws/instance-family","operator":"In","values":["m7i"]},{"key":"karpenter.k8s.aws/instance-cpu","operator":"Lt","values":["17"]}]}},
		"disruption":{"consolidateAfter":"30s","consolidationPolicy":"WhenEmptyOrUnderutilized","budgets":[{"nodes":"50%"}]}}}`
	if err := json.Unmarshal([]byte(text), p); err != nil {
		panic(err)
	}
	return p
}

// labTypes are the instance types that labs have: some of the catalog's.
func labTypes(table *state.ResourceTable) (out []*model.InstanceType) {
	cat, err := catalog.Builtin()
	if err != nil {
		panic(err)
	}
	for _, t := range cat.InstanceTypes(table.Dim) {
		if strings.HasPrefix(t.Name, "m7i.") && t.Capacity.At(model.CPU) <= 16_000 {
			out = append(out, t)
		}
	}
	return out
}

// newLab returns a lab with a NodePool and so many workloads.
func newLab(tb testing.TB, seed uint64, workloads int) *lab {
	l := &lab{Cluster: sim.New(start), tb: tb, rand: rand.New(rand.NewPCG(seed, 0)), table: state.NewResourceTable(), templates: map[*model.Class]*corev1.Pod{},
		evicted: map[string]bool{}, completed: map[string]bool{}, prices: map[string]int64{}, shown: map[string]any{}}
	l.t = &translate.Translator{Table: l.table}
	l.Boot, l.Readiness, l.Types, l.Observe = 37*time.Second, 6*time.Second, labTypes(l.table), l.observe
	p := l.t.NodePool(nodePool("default"))
	p.Types, p.Ready = l.Types, true
	l.SetPool(p)
	for i := range workloads {
		l.addWorkload(i)
	}
	x := l.Control(l)
	x.SlotsOf, x.Batch = unused.LaunchSlots, sim.UsualBatch
	return l
}

func (l *lab) addWorkload(i int) {
	app := fmt.Sprintf("app%d", i)
	pod := podOf("ReplicaSet", app, []string{"250m", "500m", "900m", "1500m", "3"}[l.rand.IntN(5)])
	if i%3 == 1 {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	}
	w := &sim.Workload{Name: app, Class: l.t.Pod(pod).Class, Want: 1 + l.rand.IntN(8), Grace: 10 * time.Second, Guarded: i%3 == 0, MinHealthy: 1}
	l.templates[w.Class] = pod
	l.Workloads = append(l.Workloads, w)
}

// Restart implements sim.Decider.
func (l *lab) Restart(table *state.ResourceTable) {
	l.mem = decide.Memory{}
	for _, n := range l.table.Names() {
		table.Dim(n)
	}
}

// Decide implements sim.Decider.
func (l *lab) Decide(now time.Time, s *model.Snapshot, solve bool) ([]plan.Action, time.Time) {
	d := approve.Step(decide.Step, approve.Verify, s, l.mem, now, decide.DefaultPolicy(), decide.Request{Solve: solve})
	l.mem = d.Memory
	return d.Output.Actions, d.Output.Next
}

func (l *lab) observe(e sim.Event) {
	switch a := e.Action.(type) {
	case plan.Evict:
		l.evicted[a.UID] = true
	}
	if e.Kind == sim.Launched {
		l.prices[e.Machine.ClaimName] = e.Machine.MicroPerHour()
	}
}

// record begins to record to a file.
func (l *lab) record(path string) {
	var err error
	if l.w, _, err = record.Open(record.Config{Path: path, Header: record.Header{Program: "lab", Cluster: "lab"}, Now: func() time.Time { return l.Now }}); err != nil {
		l.tb.Fatal(err)
	}
	l.w.Set("karpenter.sh/v1", "NodePool", "default", nodePool("default"))
	for _, d := range l.daemonSets {
		l.w.Set("apps/v1", "DaemonSet", d.Namespace+"/"+d.Name, d)
	}
	l.see()
	if err := l.w.Synced(); err != nil {
		l.tb.Fatal(err)
	}
	l.micro = 0
}

// play lets time pass, and records what changes.
func (l *lab) play(d time.Duration) {
	if l.calls {
		l.tick(l.Now.Add(d))
		return
	}
	err := l.Play(l.Now.Add(d), func(span time.Duration) bool {
		if l.jitters {
			l.Controller.Batch.Idle = time.Duration(5+l.rand.IntN(96)) * time.Millisecond
		}
		if l.w != nil {
			l.see()
			if err := l.w.Flush(); err != nil {
				l.tb.Fatal(err)
			}
		}
		l.micro += float64(l.MicroPerHour()) * span.Hours()
		return true
	})
	if err != nil {
		l.tb.Fatal(err)
	}
}

// tick lets time pass as play does, with calls that take time.
func (l *lab) tick(end time.Time) {
	for l.Now.Before(end) {
		l.Controller.State.SetNow(l.Now) // of what it is shown next
		l.Tick()
		l.see()
		if err := l.w.Flush(); err != nil {
			l.tb.Fatal(err)
		}
		next := l.Now.Add(time.Duration(5+l.rand.IntN(96)) * time.Millisecond)
		if l.Controller.IsQuiet() {
			next = model.LaterOf(next, model.EarlierOf(l.NextEvent(), model.EarlierOf(l.Controller.Next, end)))
		}
		l.Now = model.EarlierOf(next, end)
	}
}

// churn plays with workloads that are scaled at random.
func (l *lab) churn(d time.Duration) {
	for end := l.Now.Add(d); l.Now.Before(end); {
		n := len(l.Workloads)
		if l.Controllers != nil {
			n += 3
		}
		if i := l.rand.IntN(n); i < len(l.Workloads) {
			w := l.Workloads[i]
			w.Want = max(0, min(20, w.Want+l.rand.IntN(7)-3))
		} else {
			l.churnSets(i - len(l.Workloads))
		}
		l.play(min(time.Duration(20_000+l.rand.IntN(400_000))*time.Millisecond, end.Sub(l.Now)))
	}
}

// see records what has changed.
func (l *lab) see() {
	now := map[string]bool{}
	put := func(kind, key string, seen any, object func() any) {
		now[kind+" "+key] = true
		if l.shown[kind+" "+key] != seen {
			l.shown[kind+" "+key] = seen
			l.w.Set(versionOf(kind), kind, key, object())
		}
	}
	for _, w := range l.Workloads {
		put("ReplicaSet", "default/"+w.Name, w.Want, func() any {
			return map[string]any{"metadata": map[string]any{"namespace": "default", "name": w.Name, "uid": w.UID()}, "spec": map[string]any{"replicas": w.Want}}
		})
	}
	l.seeSets(put)
	for _, b := range l.Controller.State.Snapshot(l.Now).PDBs {
		put("PodDisruptionBudget", b.Key(), b, func() any { return budgetObject(b) })
	}
	for _, k := range slices.Sorted(maps.Keys(l.Claims)) {
		put("NodeClaim", k, l.Claims[k], func() any { return l.claimObject(l.Claims[k]) })
	}
	for _, k := range slices.Sorted(maps.Keys(l.Nodes)) {
		put("Node", k, l.Nodes[k], func() any { return l.nodeObject(l.Nodes[k]) })
	}
	for _, p := range slices.SortedFunc(maps.Values(l.Pods), func(a, b *model.Pod) int { return cmp.Compare(a.Seen, b.Seen) }) { // as they were created
		put("Pod", p.Key(), p, func() any { return l.podObject(p) })
	}
	for _, k := range slices.Sorted(maps.Keys(l.shown)) {
		if !now[k] {
			if p, ok := l.shown[k].(*model.Pod); ok {
				l.seeCompleted(p)
			}
			delete(l.shown, k)
			var kind, key string
			if _, err := fmt.Sscan(k, &kind, &key); err != nil {
				l.tb.Fatal(err)
			}
			l.w.Delete(kind, key)
		}
	}
}

func budgetObject(b *model.PDB) *policyv1.PodDisruptionBudget {
	m := intstr.Parse(b.MinAvailable)
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name},
		Spec:   policyv1.PodDisruptionBudgetSpec{MinAvailable: &m, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": b.Name}}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: b.DisruptionsAllowed, CurrentHealthy: b.Healthy, DesiredHealthy: b.Desired, ExpectedPods: b.Expected}}
}

func stamp(at time.Time) metav1.Time { return metav1.Time{Time: at} }

func (l *lab) podObject(p *model.Pod) *corev1.Pod {
	o := l.templates[p.Class].DeepCopy()
	o.Name, o.UID, o.CreationTimestamp, o.Spec.NodeName = p.Name, types.UID(p.UID), stamp(p.Created), p.Node
	o.Status.Phase = corev1.PodPending
	cond := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: stamp(p.Unschedulable)}
	switch {
	case p.Node != "":
		cond.Status, cond.Reason, cond.LastTransitionTime = corev1.ConditionTrue, "", stamp(p.Bound)
		o.Status.Phase = corev1.PodRunning
	case p.Unschedulable.IsZero():
		return o
	}
	o.Status.Conditions = append(o.Status.Conditions, cond)
	if !p.Deleting.IsZero() {
		at := stamp(p.Deleting)
		o.DeletionTimestamp = &at
		if l.evicted[p.UID] {
			o.Status.Conditions = append(o.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
		}
	}
	return o
}

func (l *lab) nodeObject(n *model.Node) *corev1.Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.UID), Labels: n.Labels, Annotations: n.Annotations, CreationTimestamp: stamp(n.Created)},
		Spec:   corev1.NodeSpec{ProviderID: n.ProviderID},
		Status: corev1.NodeStatus{Capacity: l.t.ResourceList(n.Capacity), Allocatable: l.t.ResourceList(n.Allocatable)}}
	if n.HasFinalizer {
		o.Finalizers = []string{karpv1.FinalizerTermination}
	}
	for _, t := range n.Taints {
		o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	if !n.Deleting.IsZero() {
		at := stamp(n.Deleting)
		o.DeletionTimestamp = &at
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: stamp(n.ReadySince)}
	if n.Ready {
		ready.Status = corev1.ConditionTrue
	}
	o.Status.Conditions = []corev1.NodeCondition{ready}
	return o
}

func (l *lab) claimObject(c *model.Claim) any {
	pool := l.Pool(c.Pool)
	o, err := l.t.ClaimObject(plan.CreateClaim{Name: c.Name, Pool: pool, Requirements: c.Requirements, Requests: c.Requests, Slots: c.Slots, Reserved: c.Reserved})
	if err != nil {
		l.tb.Fatal(err)
	}
	o.UID, o.CreationTimestamp, o.Labels, o.Finalizers = types.UID(c.UID), stamp(c.Created), c.Labels, nil
	maps.Copy(o.Annotations, c.Annotations)
	if price := l.prices[c.Name]; price > 0 {
		o.Annotations[model.AnnotationLaunchPrice] = model.FormatMicro(price)
	}
	if c.HasFinalizer {
		o.Finalizers = []string{karpv1.FinalizerTermination}
	}
	o.Status.ProviderID, o.Status.NodeName = c.ProviderID, c.NodeName
	if c.Capacity != nil {
		o.Status.Capacity, o.Status.Allocatable = l.t.ResourceList(c.Capacity), l.t.ResourceList(c.Allocatable)
	}
	if !c.LastPodEvent.IsZero() {
		at := stamp(c.LastPodEvent)
		o.Status.LastPodEventTime = &at
	}
	if !c.Deleting.IsZero() {
		at := stamp(c.Deleting)
		o.DeletionTimestamp = &at
	}
	for _, k := range slices.Sorted(maps.Keys(c.Conditions)) {
		x := c.Conditions[k]
		o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: k, Status: metav1.ConditionStatus(x.Status), Reason: x.Reason, Message: x.Message, LastTransitionTime: stamp(x.Since)})
	}
	return o
}

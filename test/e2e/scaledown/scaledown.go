// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package scaledown measures consolidation after a scale-down: 500 small and 500 large pods run on nodes launched for them, and are scaled
// down to 350 each. It measures the time until the cluster is stable, the final cost and its lower bound, the number of moved pods, and the
// longest time of a pod without a node.
//
// All measurements use separate watches. The bound is the solver's bound for the remaining pods in an empty cluster. Targets are checked by
// the test and the command. Start reading at Run.
package scaledown

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Options say what to run.
type Options struct {
	Catalog          string // file of the catalog; empty: Catalogue
	Before, After    int32  // pods of each kind
	Below            int    // only machines of fewer CPUs; 0: any
	ConsolidateAfter time.Duration
	Still            time.Duration // nothing has happened for so long: stable
	Frozen           time.Duration // from then on, how long it is watched for moves
	Log              func(format string, args ...any)
}

// Result is what is printed.
type Result struct {
	Pods             string   `json:"pods"`
	ConsolidateAfter float64  `json:"consolidateAfterSeconds"`
	MachinesBefore   []string `json:"machinesBefore"`
	MachinesAfter    []string `json:"machinesAfter"`
	USDBefore        float64  `json:"usdPerHourBefore"`
	USDAfter         float64  `json:"usdPerHourAfter"`
	USDBound         float64  `json:"usdPerHourBound"`
	OverBound        float64  `json:"overBound"` // cost over the bound, 1: equal
	FirstChange      float64  `json:"firstChangeSeconds"`
	Stable           float64  `json:"stableSeconds"` // after the Deployments were scaled
	PodsMoved        int      `json:"podsMoved"`
	NodesReplaced    int      `json:"nodesGivenBack"`
	NodesBought      int      `json:"nodesBought"`
	LongestUnbound   float64  `json:"longestUnboundSeconds"`
	UnboundOver3s    int      `json:"podsUnboundOverThreeSeconds"`
	Frozen           float64  `json:"frozenSeconds"`
	FrozenMoves      int      `json:"frozenMoves"` // claims made or deleted and pods made in that time
}

// Short is what the result misses of what consolidation promises.
func (r *Result) Short() (out []string) {
	miss := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	miss(r.NodesReplaced == 0, "no node was removed: nothing was tested")
	miss(r.OverBound > 1.02, "cost is $%.2f/h, more than 1.02 times the bound of $%.2f/h", r.USDAfter, r.USDBound)
	miss(r.FrozenMoves > 0, "%d changes within %.0f s after the cluster was stable", r.FrozenMoves, r.Frozen)
	return out
}

// Slow is what takes longer than consolidation promises where nothing else keeps the machine busy.
func (r *Result) Slow() (out []string) {
	if most := r.ConsolidateAfter + 30; r.Stable > most {
		out = append(out, fmt.Sprintf("at rest after %.1f s, later than the %.0f s after consolidateAfter and 30 s", r.Stable, most))
	}
	if r.UnboundOver3s > 0 {
		out = append(out, fmt.Sprintf("%d pods had no node for over 3 s, one for %.1f s", r.UnboundOver3s, r.LongestUnbound))
	}
	return out
}

// Kinds are the pods that come and go.
var Kinds = []struct{ Name, CPU, Memory string }{{"small", "900m", "3100Mi"}, {"large", "3500m", "28Gi"}}

const (
	classes = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
	pools   = "/apis/karpenter.sh/v1/nodepools"
)

func patience() time.Duration { return testwait.Scale(5 * time.Minute) }

type event struct {
	at      time.Time
	deleted bool
	pod     *corev1.Pod
	claim   *metav1.PartialObjectMetadata
}

type run struct {
	Options
	s      *sandbox.Sandbox
	events chan event
	pods   map[string]*seen // by uid
	claims map[string]*seen
}

// seen is when things happened to a pod or a claim.
type seen struct {
	name                 string
	made, bound, deleted time.Time // of a claim deleted is when it was asked to go
	running, gone        bool

	refused, let time.Time // kube-scheduler has found no node for it; it was let in to a machine kept for it
	node         string
}

// Run brings up a sandbox in a directory that is there for it, and measures.
func Run(ctx context.Context, dir string, o Options, flags ...string) (res *Result, err error) {
	if o.Catalog == "" {
		if o.Catalog, err = WriteCatalogue(dir); err != nil {
			return nil, err
		}
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sb"), append([]string{"--boot", "0", "--pull", "0", "--catalog", o.Catalog}, flags...)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Options: o, s: s, events: make(chan event, 1<<16), pods: map[string]*seen{}, claims: map[string]*seen{}}
	if err := r.watch(ctx); err != nil {
		return nil, err
	}
	return r.measure(ctx)
}

func (r *run) watch(ctx context.Context) error {
	config, err := r.s.Config(sandbox.Admin)
	if err != nil {
		return err
	}
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	about, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	// Informers, which begin anew where the API server ends a watch.
	of := func(i cache.SharedIndexInformer, as func(object any, e *event)) error {
		tell := func(deleted bool) func(any) {
			return func(object any) {
				if d, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = d.Obj
				}
				e := event{at: time.Now(), deleted: deleted}
				as(object, &e)
				r.events <- e
			}
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell(false), UpdateFunc: func(_, object any) { tell(false)(object) }, DeleteFunc: tell(true)})
		return err
	}
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	claims := metadatainformer.NewSharedInformerFactory(about, 0)
	err = errors.Join(
		of(pods.Core().V1().Pods().Informer(), func(o any, e *event) { e.pod, _ = o.(*corev1.Pod) }),
		of(claims.ForResource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}).Informer(), func(o any, e *event) {
			e.claim, _ = o.(*metav1.PartialObjectMetadata)
		}))
	if err != nil {
		return err
	}
	pods.Start(ctx.Done())
	claims.Start(ctx.Done())
	pods.WaitForCacheSync(ctx.Done())
	claims.WaitForCacheSync(ctx.Done())
	return nil
}

// see records an event, and reports whether a machine or a pod comes, lands or goes with it.
func (r *run) see(e event) bool {
	change := false
	note := func(m map[string]*seen, uid, name string) *seen {
		x := m[uid]
		if x == nil {
			x = &seen{name: name, made: e.at}
			m[uid] = x
			change = true
		}
		if e.deleted && !x.gone {
			x.gone, change = true, true
		}
		return x
	}
	switch {
	case e.pod != nil:
		x := note(r.pods, string(e.pod.UID), e.pod.Name)
		if e.pod.Spec.NodeName != "" && x.bound.IsZero() {
			x.bound, x.node, change = e.at, e.pod.Spec.NodeName, true
		}
		if x.refused.IsZero() && slices.ContainsFunc(e.pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		}) {
			x.refused = e.at
		}
		if x.let.IsZero() && slices.ContainsFunc(e.pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == model.TaintReserved }) {
			x.let = e.at
		}
		if e.pod.DeletionTimestamp != nil && x.deleted.IsZero() {
			x.deleted, change = e.at, true
		}
		x.running = e.pod.Status.Phase == corev1.PodRunning
	case e.claim != nil:
		x := note(r.claims, string(e.claim.UID), e.claim.Name)
		if e.claim.DeletionTimestamp != nil && x.deleted.IsZero() {
			x.deleted, change = e.at, true
		}
	}
	return change
}

// follow takes events in until done says so, or nothing has changed for a while where still is given. It returns the last change.
func (r *run) follow(ctx context.Context, what string, limit, still time.Duration, done func() bool) (time.Time, error) {
	end := time.NewTimer(limit)
	defer end.Stop()
	var last time.Time
	quiet := time.NewTimer(limit)
	if still > 0 {
		quiet.Reset(still)
	}
	defer quiet.Stop()
	for !done() {
		select {
		case e := <-r.events:
			if r.see(e) {
				if last = e.at; still > 0 {
					quiet.Reset(still)
				}
			}
		case <-quiet.C:
			if still > 0 {
				return last, nil
			}
		case <-end.C:
			return last, fmt.Errorf("timed out after %s waiting for %s", limit, what)
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
	return last, nil
}

func (r *run) running() (n int) {
	for _, p := range r.pods {
		if p.running && !p.gone && p.deleted.IsZero() {
			n++
		}
	}
	return n
}

func (r *run) measure(ctx context.Context) (*Result, error) {
	err := CreatePool(ctx, r.s, r.Below, r.ConsolidateAfter, "100%")
	if err != nil {
		return nil, err
	}
	for _, k := range Kinds {
		if err := Deploy(ctx, r.s, Deployment(k.Name, int(r.Before), 0, k.CPU, k.Memory)); err != nil {
			return nil, err
		}
	}
	all := int(r.Before) * len(Kinds)
	if _, err := r.follow(ctx, fmt.Sprint(all, " pods to run"), patience(), 0, func() bool { return r.running() == all }); err != nil {
		return nil, err
	}
	// What was bought stands, and nothing of it moves before it is scaled down: as many machines as there are claims, for a while.
	if _, err := r.follow(ctx, "the machines to come to rest", patience(), 5*time.Second, func() bool { return false }); err != nil {
		return nil, err
	}
	out := &Result{ConsolidateAfter: r.ConsolidateAfter.Seconds(), Pods: fmt.Sprintf("%d -> %d of each kind", r.Before, r.After)}
	if out.MachinesBefore, out.USDBefore, err = r.machines(ctx); err != nil {
		return nil, err
	}
	if out.USDBound, err = r.bound(); err != nil {
		return nil, err
	}
	r.Log("%d pods running on %v for $%.2f/h; lower bound after the scale-down $%.2f/h", all, out.MachinesBefore, out.USDBefore, out.USDBound)

	begin := time.Now()
	for _, k := range Kinds {
		if err := r.s.Patch(ctx, "/apis/apps/v1/namespaces/default/deployments/"+k.Name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, r.After)); err != nil {
			return nil, err
		}
	}
	left := int(r.After) * len(Kinds)
	if _, err := r.follow(ctx, fmt.Sprint(left, " pods to be left"), patience(), 0, func() bool { return r.running() == left }); err != nil {
		return nil, err
	}
	scaled := time.Now()
	first := time.Time{}
	last, err := r.follow(ctx, "the first move", patience(), r.ConsolidateAfter+20*time.Second, func() bool {
		for _, c := range r.claims {
			if c.made.After(begin) || c.deleted.After(begin) {
				first = time.Now()
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	if !first.IsZero() {
		if last, err = r.follow(ctx, "the cluster to come to rest", patience(), r.Still, func() bool { return false }); err != nil {
			return nil, err
		}
		out.FirstChange = round(first.Sub(begin).Seconds())
	}
	out.Stable = round(last.Sub(begin).Seconds())
	r.count(out, scaled, last)
	if out.MachinesAfter, out.USDAfter, err = r.machines(ctx); err != nil {
		return nil, err
	}
	out.OverBound = round(out.USDAfter / out.USDBound)
	if n := r.running(); n != left {
		return nil, fmt.Errorf("%d pods run in the end, want %d", n, left)
	}
	r.Log("stable after %.1f s: %v for $%.2f/h; %d pods moved, %d nodes removed", out.Stable, out.MachinesAfter, out.USDAfter, out.PodsMoved, out.NodesReplaced)

	frozen := time.Now()
	if rest := r.Frozen - frozen.Sub(last); rest > 0 {
		moved := 0
		_, err := r.follow(ctx, "nothing", rest+patience(), rest, func() bool { moved = r.after(last); return moved > 0 })
		if err != nil {
			return nil, err
		}
	}
	out.Frozen, out.FrozenMoves = round(time.Since(last).Seconds()), r.after(last)
	return out, nil
}

// CreatePool makes a node class and a NodePool that buys machines of fewer CPUs than below, and consolidates them within a budget; 0: any machine.
func CreatePool(ctx context.Context, s *sandbox.Sandbox, below int, after time.Duration, budget string) error {
	if err := s.Create(ctx, classes, "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}"); err != nil {
		return err
	}
	small := ""
	if below > 0 {
		small = fmt.Sprintf(`, {key: karpenter.kwok.sh/instance-cpu, operator: Lt, values: ["%d"]}`, below)
	}
	return s.Create(ctx, pools, fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {template: {spec: {
		nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never,
		requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: kubernetes.io/os, operator: In, values: [linux]}%s]}},
		disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: %s, budgets: [{nodes: %q}]}}}`, small, after, budget))
}

// after counts what has moved after an instant.
func (r *run) after(t time.Time) (n int) {
	for _, m := range []map[string]*seen{r.claims, r.pods} {
		for _, x := range m {
			if x.made.After(t) || x.deleted.After(t) {
				n++
			}
		}
	}
	return n
}

// count looks at what was recorded since the Deployments had been scaled down.
func (r *run) count(out *Result, since, end time.Time) {
	var moved, slow []*seen
	for _, p := range r.pods {
		if !p.made.After(since) {
			continue
		}
		out.PodsMoved++
		moved = append(moved, p)
		until := p.bound
		if until.IsZero() {
			until = end
		}
		d := until.Sub(p.made).Seconds()
		out.LongestUnbound = max(out.LongestUnbound, round(d))
		if d > 3 {
			out.UnboundOver3s++
			slow = append(slow, p)
		}
	}
	for _, c := range r.claims {
		if c.made.After(since) {
			out.NodesBought++
		}
		if c.deleted.After(since) {
			out.NodesReplaced++
		}
	}
	r.tell(moved, slow, since)
}

// tell says how the pods that were moved came to their nodes, and of those that were long without one each by itself, in seconds after
// it was made.
func (r *run) tell(moved, slow []*seen, since time.Time) {
	after := func(p *seen, t time.Time) float64 {
		if t.IsZero() {
			return -1
		}
		return t.Sub(p.made).Seconds()
	}
	for what, when := range map[string]func(*seen) time.Time{
		"let in to a machine kept for them": func(p *seen) time.Time { return p.let },
		"refused by kube-scheduler":         func(p *seen) time.Time { return p.refused },
		"bound":                             func(p *seen) time.Time { return p.bound },
	} {
		var all []float64
		for _, p := range moved {
			if d := after(p, when(p)); d >= 0 {
				all = append(all, d)
			}
		}
		if slices.Sort(all); len(all) > 0 {
			r.Log("%d of %d pods that were moved were %s, half of them after %.1f s, nine of ten after %.1f s", len(all), len(moved), what, all[len(all)/2], all[len(all)*9/10])
		}
	}
	made, bound := map[int]int{}, map[int]int{}
	last := 0
	for _, p := range moved {
		i, j := int(p.made.Sub(since).Seconds()), int(p.bound.Sub(since).Seconds())
		made[i]++
		bound[j]++
		last = max(last, i, j)
	}
	for i := range last + 1 {
		if made[i]+bound[i] > 0 {
			r.Log("second %d after the Deployments were scaled down: %d pods came back, %d were bound", i, made[i], bound[i])
		}
	}
	slices.SortFunc(slow, func(a, b *seen) int { return a.made.Compare(b.made) })
	for _, p := range slow {
		r.Log("slow: %s, made %.1f s after the Deployments were scaled down: let in %.1f, refused %.1f, bound %.1f (-1: never) on %s", p.name, p.made.Sub(since).Seconds(),
			after(p, p.let), after(p, p.refused), after(p, p.bound), p.node)
	}
}

// Deploy creates a Deployment of pods in namespace default.
func Deploy(ctx context.Context, s *sandbox.Sandbox, d *appsv1.Deployment) error {
	_, err := s.Kube.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
	return err
}

// Deployment returns a Deployment whose pods have its name as label app, and this grace period in seconds.
func Deployment(name string, replicas int, grace int64, cpu, memory string) *appsv1.Deployment {
	n, labels := int32(replicas), map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}}}}},
	}
}

// machines are the types that stand with their numbers, and what they cost an hour.
func (r *run) machines(ctx context.Context) ([]string, float64, error) {
	all, err := r.s.Instances(ctx)
	if err != nil {
		return nil, 0, err
	}
	count, micro := map[string]int{}, int64(0)
	for _, in := range all {
		count[in.InstanceType]++
		micro += in.PriceMicro
	}
	var out []string
	for t, n := range count {
		out = append(out, fmt.Sprintf("%s x %d", t, n))
	}
	slices.Sort(out)
	return out, round(float64(micro) / 1e6), nil
}

// bound is the least that the pods that are left can cost.
func (r *run) bound() (float64, error) {
	return LowerBound(r.Catalog, r.Below, slices.Repeat([]int{int(r.After)}, len(Kinds))...)
}

// LowerBound is the least, in dollars an hour, that so many pods of each of Kinds can cost on machines of a catalog that have fewer CPUs than
// below, by the solver's proof; 0: any machine.
func LowerBound(file string, below int, pods ...int) (float64, error) {
	cat, err := catalog.Load(file)
	if err != nil {
		return 0, err
	}
	return LowerBoundOf(cat, func(t *model.InstanceType) bool { return below == 0 || t.Capacity.At(model.CPU) < int64(below)*1000 }, pods...)
}

// LowerBoundOf is LowerBound on the machines of a catalog that take returns true for, which it may change.
func LowerBoundOf(cat *catalog.Catalog, take func(*model.InstanceType) bool, pods ...int) (float64, error) {
	names := model.FixedNames()
	pool := &model.NodePool{Name: "default", UID: "default", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, Labels: model.Labels{model.LabelNodePool: "default"},
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "default"), model.OneOf(model.LabelCapacityType, model.OnDemand),
			model.OneOf(corev1.LabelArchStable, "amd64"), model.OneOf(corev1.LabelOSStable, "linux")),
	}
	for _, t := range cat.InstanceTypes(func(n string) model.Dim {
		if i := slices.Index(names, n); i >= 0 {
			return model.Dim(i)
		}
		names = append(names, n)
		return model.Dim(len(names) - 1)
	}) {
		if take(t) {
			pool.Types = append(pool.Types, t)
		}
	}
	p := &solve.Problem{ResourceNames: names, Pools: []solve.Pool{{NodePool: pool, NodesLeft: -1}}}
	for at, k := range Kinds[:len(pods)] {
		cpu, memory := resource.MustParse(k.CPU), resource.MustParse(k.Memory)
		class := &model.Class{Key: k.Name, Namespace: "default", Scheduler: "default-scheduler",
			Requests: model.Resources{}.With(model.CPU, cpu.MilliValue()).With(model.Memory, memory.Value()).With(model.Pods, 1)}
		for i := range pods[at] {
			name := fmt.Sprint(k.Name, "-", i)
			p.Demand = append(p.Demand, &model.Pod{Namespace: "default", Name: name, UID: name, Class: class})
		}
	}
	res, _ := solve.Solve(p, solve.Memory{}, solve.DefaultPolicy())
	if len(res.Refused) > 0 || res.Cost.BoundMicroPerHour <= 0 {
		return 0, fmt.Errorf("the solver places all but %d pods, with a bound of %d", len(res.Refused), res.Cost.BoundMicroPerHour)
	}
	return round(float64(res.Cost.BoundMicroPerHour) / 1e6), nil
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

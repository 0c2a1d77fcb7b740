// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package karpenter

import (
	stdflag "flag"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	karpreqs "sigs.k8s.io/karpenter/pkg/scheduling"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/test/problems"
)

var (
	mixPods  = stdflag.Int("pods", 10000, "pods of BenchmarkMix")
	mixLimit = stdflag.Duration("limit", 5*time.Minute, "how long Karpenter may take in BenchmarkMix; what it has placed by then counts")
)

// BenchmarkMix asks both for the mix of Karpenter's own benchmark in one run: from the pods to what would be launched. Solver stands beside
// solver: translating pods and what is done with the answer is in neither figure. What the product adds, slots, names and the check of the
// plan, is said apart. Ours has one thread. Karpenter is asked twice: as its own benchmark runs it (NumConcurrentReconciles(5), every core),
// where the clock is compared, and with one worker on one thread, as its provisioner has by default, where the processor time is, which does not
// depend on what else the machine does.
func BenchmarkMix(b *testing.B) {
	cores := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(cores)
	x := problems.Mix(*mixPods)
	for b.Loop() {
		var ours verdict
		whole, _ := timed(func() { ours = planned(b, x) })
		our, ourClock := timed(func() { solve.Solve(asOurs(x), solve.Memory{}, solve.DefaultPolicy()) })
		rate := func(v verdict, seconds float64) float64 { return float64(v.placed[""]) / seconds }
		b.Logf("ours:      %d of %d pods placed, %.0f a second (%.3f s processor time, %.3f s by the clock), %d machines, $%.2f an hour",
			ours.placed[""], len(x.Demand), rate(ours, our), our, ourClock, ours.nodes, float64(ours.micro)/1e6)
		b.Logf("           %.3f s with all that a plan needs beside the solver's answer, and its check", whole)
		b.ReportMetric(rate(ours, our), "pods/s")
		for _, how := range []struct {
			name           string
			workers, procs int
		}{{"its own benchmark", 5, cores}, {"one thread", 1, 1}} {
			ask, err := karpenterReady(b.Context(), asKarpenter(b, x), how.workers)
			if err != nil {
				b.Fatal(err)
			}
			var theirs verdict
			runtime.GOMAXPROCS(how.procs)
			their, theirClock := timed(func() { theirs, err = ask(*mixLimit) })
			runtime.GOMAXPROCS(1)
			if err != nil {
				b.Fatal(err)
			}
			took, of := their, rate(ours, our)
			if how.workers > 1 {
				took, of = theirClock, rate(ours, ourClock)
			}
			b.Logf("Karpenter, %s: %d of %d pods placed, %.0f a second (%.3f s processor time, %.3f s by the clock), %d machines, $%.2f an hour; ours are %.0f times as many a second (bar: 500)",
				how.name, theirs.placed[""], len(x.Demand), rate(theirs, took), their, theirClock, theirs.nodes, float64(theirs.micro)/1e6, of/rate(theirs, took))
			name := strings.ReplaceAll(how.name, " ", "-")
			b.ReportMetric(rate(theirs, took), "karpenter-pods/s-"+name)
			b.ReportMetric(of/rate(theirs, took), "ratio-"+name)
			if ours.placed[""] < theirs.placed[""] {
				b.Errorf("Karpenter places %d pods, ours %d", theirs.placed[""], ours.placed[""])
			}
		}
	}
}

// timed returns the seconds of processor time and of the clock that a call takes.
func timed(call func()) (cpu, clock float64) {
	seconds := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic("read the processor time: " + err.Error())
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	runtime.GC()
	before, began := seconds(), time.Now()
	call()
	return seconds() - before, time.Since(began).Seconds()
}

func asOurs(x *problems.Problem) *solve.Problem {
	return &solve.Problem{ResourceNames: x.ResourceNames, Demand: x.Demand, Pools: []solve.Pool{{NodePool: x.Pool, NodesLeft: -1}}}
}

// planned plans as the product does, from a picture of the cluster to a plan that is checked.
func planned(tb testing.TB, x *problems.Problem) verdict {
	st := state.New()
	st.Pools.SetPool(x.Pool)
	st.Pools.SetTypes(x.Pool.Name, x.Pool.Types)
	st.Pools.SetReady(x.Pool.Name, true, model.Condition{})
	now := time.Unix(1_800_000_000, 0)
	for _, p := range x.Demand {
		q := *p
		q.UID, q.Unschedulable = q.Name, now
		st.SetPod(&q)
	}
	snap := st.Snapshot(now)
	a := decide.WhatIf(snap, now, decide.DefaultPolicy())
	if err := approve.Verify(snap, &a).Err(); err != nil {
		tb.Fatal(err)
	}
	out := verdict{placed: map[string]int{}, micro: a.Cost.NewMicroPerHour, nodes: len(a.Result.New)}
	for _, d := range a.Pods {
		if d.Outcome == plan.OnNew {
			out.placed[""]++
		}
	}
	return out
}

// asKarpenter writes the problem as Karpenter reads it.
func asKarpenter(tb testing.TB, x *problems.Problem) *problem {
	p := &problem{types: asTypes(x.Pool.Types)}
	n := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: x.Pool.Name, UID: types.UID(x.Pool.UID)}}
	n.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: "default"}
	p.pools = []*karpv1.NodePool{n}
	selector := func(rs *model.Requirements) *metav1.LabelSelector {
		out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for _, r := range *rs {
			if r.Complement || len(r.Values) != 1 {
				tb.Fatalf("a selector on %s is not one value", r.Key)
			}
			out.MatchLabels[r.Key] = r.Values[0]
		}
		return out
	}
	terms := func(list []model.PodTerm) (out []corev1.PodAffinityTerm) {
		for _, t := range list {
			out = append(out, corev1.PodAffinityTerm{TopologyKey: t.TopologyKey, LabelSelector: selector(t.Selector.Pods)})
		}
		return out
	}
	for _, d := range x.Demand {
		c := d.Class
		q := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: types.UID(d.Name), Labels: c.Labels}}
		q.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(c.Requests[0], resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(c.Requests[1], resource.BinarySI)}}}}
		for _, s := range c.Spread {
			q.Spec.TopologySpreadConstraints = append(q.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{MaxSkew: s.MaxSkew, TopologyKey: s.TopologyKey,
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector(s.Selector)})
		}
		if a := terms(c.Affinity); a != nil {
			q.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a}}
		}
		if a := terms(c.AntiAffinity); a != nil {
			q.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a}}
		}
		p.pods = append(p.pods, q)
	}
	return p
}

// asTypes writes the types as Karpenter's benchmark has them: with every operating system, and an overhead.
func asTypes(list []*model.InstanceType) (out []*cloudprovider.InstanceType) {
	in := func(key string, values ...string) *karpreqs.Requirement {
		return karpreqs.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	amounts := func(r model.Resources) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(r[0], resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(r[1], resource.BinarySI),
			corev1.ResourcePods: *resource.NewQuantity(r[3], resource.DecimalSI)}
	}
	for _, t := range list {
		var at, how []string
		x := &cloudprovider.InstanceType{Name: t.Name, Capacity: amounts(t.Capacity), Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(t.Capacity[0]-t.Allocatable[0], resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(t.Capacity[1]-t.Allocatable[1], resource.BinarySI)}}}
		for _, o := range t.Offerings {
			at, how = append(at, o.Zone), append(how, o.CapacityType)
			x.Offerings = append(x.Offerings, &cloudprovider.Offering{Available: true, Price: float64(o.PriceMicro) / 1e6,
				Requirements: karpreqs.NewLabelRequirements(map[string]string{karpv1.CapacityTypeLabelKey: o.CapacityType, corev1.LabelTopologyZone: o.Zone})})
		}
		x.Requirements = karpreqs.NewRequirements(in(corev1.LabelInstanceTypeStable, t.Name), in(corev1.LabelArchStable, t.Labels[corev1.LabelArchStable]),
			in(corev1.LabelOSStable, "linux", "windows", "darwin"), in(corev1.LabelTopologyZone, at...), in(karpv1.CapacityTypeLabelKey, how...))
		out = append(out, x)
	}
	return out
}

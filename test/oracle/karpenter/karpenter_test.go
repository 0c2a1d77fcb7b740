// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package karpenter

import (
	"bytes"
	"context"
	"errors"
	stdflag "flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpreqs "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/yaml"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

var (
	oneSeed = stdflag.Uint64("seed", 0, "run this seed only, and log the problem")
	seeds   = stdflag.Int("seeds", 30, "run this many seeds")
)

const (
	workload = "workload"
	taintKey = "example.com/t1"
	teamKey  = "example.com/team"
)

var zones = []string{"a", "b", "c"}

// machine is an instance type; what it has is what pods may use.
type machine struct {
	name, arch string
	cpu, mem   int64 // milli, MiB
	pods       int64
	offerings  []model.Offering
}

// problem is what both are asked.
type problem struct {
	machines []machine
	types    []*cloudprovider.InstanceType // Karpenter is asked with these instead, where given
	pools    []*karpv1.NodePool
	pods     []*corev1.Pod
}

func pointer[T any](v T) *T { return &v }

func newProblem(seed uint64) *problem {
	r := rand.New(rand.NewPCG(seed, 30))
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	p := &problem{}
	for i := range 1 + r.IntN(8) {
		cores := int64(1) << r.IntN(6)
		m := machine{name: fmt.Sprintf("t%d", i), arch: one("amd64", "amd64", "arm64"), cpu: cores * 1000, mem: cores * (2048 << r.IntN(3)), pods: 110}
		if r.IntN(5) == 0 {
			m.pods = int64(4 + r.IntN(20))
		}
		price := cores*25_000 + m.mem*4 + int64(r.IntN(20_000))
		for _, z := range zones {
			if r.IntN(6) == 0 && len(m.offerings) > 0 {
				continue
			}
			m.offerings = append(m.offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: price, Available: true, Remaining: -1})
			if r.IntN(3) == 0 {
				m.offerings = append(m.offerings, model.Offering{Zone: z, CapacityType: model.Spot, PriceMicro: price * int64(300+r.IntN(400)) / 1000, Available: true, Remaining: -1})
			}
		}
		p.machines = append(p.machines, m)
	}
	for i := range 1 + r.IntN(3) {
		n := &karpv1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodePool"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("pool-%d", i))}}
		t := &n.Spec.Template
		t.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: "default"}
		require := func(key string, values ...string) {
			t.Spec.Requirements = append(t.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
		require(corev1.LabelOSStable, "linux")
		if r.IntN(3) == 0 {
			require(karpv1.CapacityTypeLabelKey, model.OnDemand)
		}
		if r.IntN(4) == 0 {
			require(corev1.LabelTopologyZone, one(zones...), one(zones...))
		}
		if r.IntN(4) == 0 {
			require(corev1.LabelArchStable, one("amd64", "arm64"))
		}
		if r.IntN(3) == 0 {
			t.Labels = map[string]string{teamKey: one("red", "blue")}
		}
		if i > 0 && r.IntN(3) == 0 {
			t.Spec.Taints = []corev1.Taint{{Key: taintKey, Value: "v", Effect: corev1.TaintEffectNoSchedule}}
		}
		if i > 0 && r.IntN(3) == 0 {
			n.Spec.Weight = pointer(int32(10))
		}
		p.pools = append(p.pools, n)
	}
	for w := range 1 + r.IntN(7) {
		x := workloadPod(r, one, fmt.Sprintf("w%d", w))
		for i := range 1 + r.IntN(40) {
			q := x.DeepCopy()
			q.Name = fmt.Sprintf("w%d-%d", w, i)
			q.UID = types.UID(q.Name)
			p.pods = append(p.pods, q)
		}
	}
	return p
}

// workloadPod is a pod without a name.
func workloadPod(r *rand.Rand, one func(...string) string, name string) *corev1.Pod {
	x := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{workload: name}}}
	x.Spec.Containers = []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(100*(1+r.IntN(40))), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(128*(1+r.IntN(60)))<<20, resource.BinarySI)}}}}
	own := &metav1.LabelSelector{MatchLabels: x.Labels}
	if r.IntN(5) == 0 {
		x.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: one(zones...)}
	} else if r.IntN(6) == 0 {
		x.Spec.NodeSelector = map[string]string{teamKey: one("red", "blue")}
	}
	if r.IntN(3) == 0 {
		x.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
	}
	switch r.IntN(7) {
	case 0:
		x.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
	case 1:
		x.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: int32(1 + r.IntN(3)), TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
	case 2:
		x.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: own}}}}
	case 3:
		x.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelTopologyZone, LabelSelector: own}}}}
	case 4:
		x.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{one("amd64", "arm64")}}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{one(zones...)}}}}}}}}
	case 5:
		if r.IntN(2) == 0 {
			x.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		}
	}
	return x
}

// verdict is what one of the two answers.
type verdict struct {
	placed map[string]int // by workload
	micro  int64          // of all nodes
	nodes  int
}

// noCloud stands for the cloud provider, which packing onto new nodes never calls.
type noCloud struct{ cloudprovider.CloudProvider }

// karpenterSays runs Karpenter's scheduler with the defaults of its binary.
func karpenterSays(ctx context.Context, p *problem) (verdict, error) {
	solve, err := karpenterReady(ctx, p, 1)
	if err != nil {
		return verdict{}, err
	}
	return solve(0)
}

// karpenterReady builds the scheduler as its provisioner does, which has one worker by default, and returns its Solve. With a limit it ends after that long, and what is
// placed by then is the answer, as it is in the provisioner.
func karpenterReady(ctx context.Context, p *problem, workers int) (func(limit time.Duration) (verdict, error), error) {
	crlog.SetLogger(logr.Discard())
	opts := &options.Options{}
	fs := &options.FlagSet{FlagSet: stdflag.NewFlagSet("karpenter", stdflag.ContinueOnError)}
	opts.AddFlags(fs)
	if err := opts.Parse(fs); err != nil {
		return nil, err
	}
	ctx = options.ToContext(injection.WithControllerName(ctx, "provisioner"), opts)
	client := crfake.NewFakeClient()
	cluster := karpstate.NewCluster(clock.RealClock{}, client, noCloud{})
	pools := slices.Clone(p.pools)
	sort.SliceStable(pools, func(i, j int) bool { return weight(pools[i]) > weight(pools[j]) })
	byPool := map[string][]*cloudprovider.InstanceType{}
	for _, n := range pools {
		if byPool[n.Name] = p.types; p.types == nil {
			byPool[n.Name] = instanceTypes(p.machines)
		}
	}
	pods := make([]*corev1.Pod, len(p.pods))
	for i, x := range p.pods {
		pods[i] = x.DeepCopy()
		pods[i].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	}
	how := []scheduling.Options{scheduling.DisableReservedCapacityFallback, scheduling.NumConcurrentReconciles(workers), scheduling.MinValuesPolicy(opts.MinValuesPolicy)}
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, byPool, pods, how...)
	if err != nil {
		return nil, err
	}
	s := scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, byPool, nil, events.NewRecorder(&record.FakeRecorder{}), clock.RealClock{}, nil, nil, how...)
	return func(limit time.Duration) (verdict, error) {
		ctx := ctx
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		res, err := s.Solve(ctx, pods)
		if err != nil && (limit == 0 || !errors.Is(err, context.DeadlineExceeded)) {
			return verdict{}, err
		}
		return read(res)
	}, nil
}

// read counts what a Solve of Karpenter's has placed.
func read(res scheduling.Results) (verdict, error) {
	out := verdict{placed: map[string]int{}}
	for _, nc := range res.NewNodeClaims {
		least := int64(-1)
		for _, t := range nc.InstanceTypeOptions {
			for _, o := range t.Offerings {
				if micro := int64(o.Price*1e6 + 0.5); nc.Requirements.IsCompatible(o.Requirements, karpreqs.AllowUndefinedWellKnownLabels) && (least < 0 || micro < least) {
					least = micro
				}
			}
		}
		if least < 0 {
			return verdict{}, errors.New("a NodeClaim of Karpenter's has no offering left")
		}
		out.micro, out.nodes = out.micro+least, out.nodes+1
		for _, x := range nc.Pods {
			out.placed[x.Labels[workload]]++
		}
	}
	return out, nil
}

func weight(n *karpv1.NodePool) int32 {
	if n.Spec.Weight == nil {
		return 0
	}
	return *n.Spec.Weight
}

func instanceTypes(ms []machine) (out []*cloudprovider.InstanceType) {
	in := func(key string, values ...string) *karpreqs.Requirement {
		return karpreqs.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	for _, m := range ms {
		var at, how []string
		t := &cloudprovider.InstanceType{Name: m.name, Overhead: &cloudprovider.InstanceTypeOverhead{}, Capacity: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(m.cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(m.mem<<20, resource.BinarySI),
			corev1.ResourcePods: *resource.NewQuantity(m.pods, resource.DecimalSI)}}
		for _, o := range m.offerings {
			at, how = append(at, o.Zone), append(how, o.CapacityType)
			t.Offerings = append(t.Offerings, &cloudprovider.Offering{Available: true, Price: float64(o.PriceMicro) / 1e6,
				Requirements: karpreqs.NewRequirements(in(karpv1.CapacityTypeLabelKey, o.CapacityType), in(corev1.LabelTopologyZone, o.Zone))})
		}
		t.Requirements = karpreqs.NewRequirements(in(corev1.LabelInstanceTypeStable, m.name), in(corev1.LabelArchStable, m.arch), in(corev1.LabelOSStable, "linux"),
			in(corev1.LabelTopologyZone, at...), in(karpv1.CapacityTypeLabelKey, how...))
		out = append(out, t)
	}
	return out
}

// weSay plans on the product's own way.
func weSay(p *problem) (verdict, string, error) {
	text := bytes.NewBufferString("apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata:\n  name: default\n")
	add := func(o any) error {
		y, err := yaml.Marshal(o)
		text.WriteString("---\n")
		text.Write(y)
		return err
	}
	for _, n := range p.pools {
		n := n.DeepCopy()
		n.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
		n.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
		if err := add(n); err != nil {
			return verdict{}, "", err
		}
	}
	for _, x := range p.pods {
		x := x.DeepCopy()
		x.UID = ""
		if err := add(x); err != nil {
			return verdict{}, "", err
		}
	}
	m, err := manifests.Read("problem.yaml", text.Bytes())
	if err != nil {
		return verdict{}, text.String(), err
	}
	st := state.New()
	m.Feed(st)
	var offered []*model.InstanceType
	for _, x := range p.machines {
		amounts := model.Resources{x.cpu, x.mem << 20, 0, x.pods}
		offered = append(offered, &model.InstanceType{Name: x.name, Labels: model.Labels{corev1.LabelInstanceTypeStable: x.name, corev1.LabelArchStable: x.arch, corev1.LabelOSStable: "linux"},
			Capacity: amounts, Allocatable: amounts, Offerings: x.offerings})
	}
	for _, n := range st.Pools.ListPools() {
		st.Pools.SetTypes(n.Name, offered)
	}
	now := time.Unix(1_800_000_000, 0)
	snap := st.Snapshot(now)
	a := decide.WhatIf(snap, now, decide.DefaultPolicy())
	out := verdict{placed: map[string]int{}, micro: a.Cost.NewMicroPerHour}
	for _, x := range a.Pods {
		if x.Outcome == plan.OnNew {
			out.placed[x.Pod.Class.Labels[workload]]++
		}
	}
	for _, x := range a.Actions {
		if _, ok := x.(plan.CreateClaim); ok {
			out.nodes++
		}
	}
	return out, text.String(), approve.Verify(snap, &a).Demand
}

// TestKarpenter asks both; see the package's comment.
func TestKarpenter(t *testing.T) {
	from, n := uint64(1), *seeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	var ours, theirs, pods, compared int64
	for seed := from; seed < from+uint64(n); seed++ {
		p := newProblem(seed)
		them, err := karpenterSays(t.Context(), p)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		us, text, err := weSay(p)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		if *oneSeed != 0 {
			t.Logf("%s\n%+v\nKarpenter %+v, ours %+v", text, p.machines, them, us)
		}
		same := true
		var less []string
		for _, w := range workloads(p) {
			if us.placed[w] < them.placed[w] {
				less = append(less, fmt.Sprintf("%s: %d, Karpenter %d", w, us.placed[w], them.placed[w]))
			}
			same = same && us.placed[w] == them.placed[w]
			pods += int64(them.placed[w])
		}
		if len(less) > 0 {
			t.Errorf("seed %d: fewer pods are placed than by Karpenter: %s", seed, strings.Join(less, "; "))
		}
		if !same {
			continue
		}
		compared++
		ours, theirs = ours+us.micro, theirs+them.micro
		if us.micro > them.micro {
			t.Errorf("seed %d: the plan costs %d on %d nodes, Karpenter's %d on %d", seed, us.micro, us.nodes, them.micro, them.nodes)
		}
	}
	t.Logf("%d seeds: Karpenter places %d pods; of %d plans with the same pods ours cost %.3f of its", n, pods, compared, float64(ours)/float64(max(1, theirs)))
	if pods == 0 || compared == 0 {
		t.Error("the seeds had nothing to check")
	}
	if ours > theirs && n > 1 {
		t.Errorf("all plans together cost %d, Karpenter's %d", ours, theirs)
	}
}

func workloads(p *problem) (out []string) {
	for _, x := range p.pods {
		if w := x.Labels[workload]; !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

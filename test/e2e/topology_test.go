// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Pods that keep away from each other get a node each.
func TestHostnameAntiAffinity(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "apart")
	e.nodePool(nil)
	e.deploy("loner", 5, e.pod("100m", "64Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "loner"}}}}}}
	}))
	on := map[string]int{}
	for _, p := range e.podsRun(5) {
		on[p.Spec.NodeName]++
	}
	if len(on) != 5 {
		t.Errorf("5 pods that keep away from each other run on %d nodes: %v", len(on), on)
	}
	if n := len(e.launches(e.name)); n != 5 {
		t.Errorf("%d machines were launched, want 5", n)
	}
}

func spread(key string, skew int32, app string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}})
	}
}

// Pods that spread over zones are balanced, in two waves, and all run.
func TestZoneSpread(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "zones")
	e.nodePool(nil)
	e.deploy("spread", 8, e.pod("900m", "1Gi", spread(corev1.LabelTopologyZone, 1, "spread")))
	check := func(n int) {
		t.Helper()
		zone := map[string]string{}
		pods := e.podsRun(n)
		for _, node := range e.nodes() {
			zone[node.Name] = node.Labels[corev1.LabelTopologyZone]
		}
		in := map[string]int{}
		for _, p := range pods {
			in[zone[p.Spec.NodeName]]++
		}
		counts := slices.Sorted(maps.Values(in))
		if len(counts) != 3 || counts[2]-counts[0] > 1 {
			t.Errorf("%d pods are in zones %v, want three that differ by one at most", n, in)
		}
	}
	check(8)
	e.scale("spread", 13)
	check(13)
}

// Pods that spread over hostnames get as many nodes as that takes.
func TestHostnameSpread(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "hosts")
	e.nodePool(nil)
	e.deploy("spread", 6, e.pod("100m", "64Mi", spread(corev1.LabelHostname, 2, "spread")))
	on := map[string]int{}
	for _, p := range e.podsRun(6) {
		on[p.Spec.NodeName]++
	}
	if len(on) < 3 {
		t.Errorf("6 pods with at most 2 a node run on %v", on)
	}
}

// peak is the most that a pool's claims ever added up to, those on their way out included.
type peak struct {
	mu    sync.Mutex
	now   map[string]*karpv1.NodeClaim
	nodes int
	cpu   resource.Quantity
	err   error
}

func (e *env) watchPeak() *peak {
	p := &peak{now: map[string]*karpv1.NodeClaim{}}
	go func() {
		err := sandbox.Watch(e.ctx, e.s, claims, func(kind string, c *karpv1.NodeClaim) {
			if c.Labels[karpv1.LabelNodePool] != e.name {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if kind == "DELETED" {
				delete(p.now, c.Name)
			} else {
				p.now[c.Name] = c
			}
			p.nodes = max(p.nodes, len(p.now))
			var cpu resource.Quantity
			for _, c := range p.now {
				cpu.Add(*c.Status.Capacity.Cpu())
			}
			if cpu.Cmp(p.cpu) > 0 {
				p.cpu = cpu
			}
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	}()
	return p
}

func (p *peak) get(t *testing.T) (nodes int, cpu resource.Quantity) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		t.Fatalf("the record of claims is not whole: %v", p.err)
	}
	return p.nodes, p.cpu
}

// waves has pods come in several overlapping waves, of which no pool may hold all.
func (e *env) waves() {
	e.t.Helper()
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() { e.deploy(fmt.Sprintf("wave-%d", i), 5, e.pod("1800m", "1Gi")) })
	}
	all.Wait()
}

// A pool's limits hold at every moment, however the demand comes in.
func TestLimits(t *testing.T) {
	s := shared(t)
	for _, c := range []struct {
		name, limit, value string
		cpu                int64
		nodes, pods        int
	}{
		{"limit-cpu", "cpu", "16", 16, 8, 8},           // m5.large with 2 CPUs hold one pod each
		{"limit-nodes", "nodes", "5", 1000, 5, 5},      // the pseudo resource
		{"limit-memory", "memory", "33Gi", 1000, 4, 4}, // 8 GiB each: four fit, with something to spare
		{"limit-nothing", "cpu", "1", 0, 0, 0},         // less than the smallest machine
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, s, c.name)
			p := e.watchPeak()
			e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.limits": map[string]any{c.limit: c.value}})
			e.waves()
			e.until(fmt.Sprintf("%d of the 30 pods run", c.pods), func() error {
				running := 0
				for _, p := range e.pods() {
					if p.Status.Phase == corev1.PodRunning {
						running++
					}
				}
				if running != c.pods {
					return fmt.Errorf("%d run", running)
				}
				return nil
			})
			e.event("Pod", "wave-", "FailedScheduling", "NodePool "+e.name+":", "Limit", c.limit)
			nodes, cpu := p.get(t)
			if nodes > c.nodes || cpu.Cmp(*resource.NewQuantity(c.cpu, resource.DecimalSI)) > 0 {
				t.Errorf("at its peak the pool had %d nodes and %s CPUs, want at most %d and %d", nodes, cpu.String(), c.nodes, c.cpu)
			}
			if n := len(e.launches(e.name)); n != c.nodes {
				t.Errorf("%d machines were launched, want %d", n, c.nodes)
			}
		})
	}
}

// A pool of higher weight is bought from until its limit, then the next.
func TestWeightThenLimit(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "weight")
	e.nodePool(map[string]any{"spec.weight": 10, "spec.template.spec.requirements": only("m5.2xlarge"), "spec.limits": map[string]any{"cpu": "16"}})
	e.otherPool("weight-less", map[string]any{"spec.template.spec.requirements": only("m5.large")})
	e.deploy("web", 20, e.pod("1800m", "1Gi"))
	e.podsRun(20)
	for pool, want := range map[string]int{"weight": 2, "weight-less": 12} { // 4 pods on each m5.2xlarge, one on each m5.large
		if n := len(e.launches(pool)); n != want {
			t.Errorf("nodepool %s: %d machines were launched, want %d", pool, n, want)
		}
	}
}

// A preference for zones is worth the same when it is bought for and when it is consolidated: of the nodes that six pods get none is removed later.
func TestPreferredSpreadStays(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "preferred")
	e.nodePool(map[string]any{"spec.disruption.consolidationPolicy": "WhenEmptyOrUnderutilized", "spec.disruption.consolidateAfter": "1s"})
	e.deploy("web", 6, e.pod("500m", "256Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	}))
	first := e.podsRun(6)
	launched := len(e.launches(e.name))
	e.claimsAre(launched, "open to consolidation", func(c *karpv1.NodeClaim) bool { return ready(c) && isTrue(c, karpv1.ConditionConsolidatable) })
	e.pause(15 * time.Second) // nothing is to happen
	e.claimsAre(launched, "Ready", ready)
	if n := len(e.launches(e.name)); n != launched {
		t.Errorf("%d nodes were launched, and %d more later", launched, n-launched)
	}
	for _, p := range e.podsRun(6) {
		if !slices.ContainsFunc(first, func(was corev1.Pod) bool { return was.UID == p.UID }) {
			t.Errorf("pod %s was not among the first six", p.Name)
		}
	}
}

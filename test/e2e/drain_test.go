// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// podsOver follows the test's pods.
type podsOver struct {
	mu      sync.Mutex
	running map[string]bool
	least   int      // of those that ran at once, from when it was told to look
	looking bool     // whether it was
	leaving []string // the pods in the order in which their end began
	err     error
}

func (e *env) watchPods(of func(*corev1.Pod) bool) *podsOver {
	p := &podsOver{running: map[string]bool{}}
	go func() {
		err := sandbox.Watch(e.ctx, e.s, "/api/v1/namespaces/"+e.name+"/pods", func(kind string, pod *corev1.Pod) {
			p.mu.Lock()
			defer p.mu.Unlock()
			ends := kind == "DELETED" || pod.DeletionTimestamp != nil
			if ends && !slices.Contains(p.leaving, pod.Name) {
				p.leaving = append(p.leaving, pod.Name)
			}
			if !of(pod) {
				return
			}
			if delete(p.running, pod.Name); !ends && pod.Status.Phase == corev1.PodRunning {
				p.running[pod.Name] = true
			}
			if p.looking {
				p.least = min(p.least, len(p.running))
			}
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	}()
	return p
}

// look begins to keep the least number of running pods, once it has seen all that run now.
func (p *podsOver) look(e *env, n int) {
	e.t.Helper()
	e.until(fmt.Sprintf("the watch has seen %d pods run", n), func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.running) != n {
			return fmt.Errorf("it has seen %d; %v", len(p.running), p.err)
		}
		p.looking, p.least = true, n
		return nil
	})
}

func (p *podsOver) get(t testing.TB) (least int, leaving []string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		t.Fatalf("the record of pods is not whole: %v", p.err)
	}
	return p.least, slices.Clone(p.leaving)
}

// A node that is drained gives its pods up only as fast as their PodDisruptionBudget allows, and they have somewhere to go.
func TestDrainHonoursPDB(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "pdb")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.2xlarge")})
	e.deploy("web", 4, e.pod("1800m", "1Gi"))
	four := intstr.FromInt32(3)
	_, err := s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &four, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	e.must(err)
	e.podsRun(4)
	old := e.claimsAre(1, "Ready", ready)[0]
	e.until("the budget allows one disruption", func() error {
		b, err := s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Get(e.ctx, "web", metav1.GetOptions{})
		if err == nil && b.Status.DisruptionsAllowed != 1 {
			err = fmt.Errorf("it allows %d", b.Status.DisruptionsAllowed)
		}
		return err
	})
	seen := e.watchPods(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	seen.look(e, 4)
	e.must(s.Delete(e.ctx, claims+"/"+old.Name, ""))
	e.until("the claim is gone", func() error {
		for _, c := range e.claims() {
			if c.Name == old.Name {
				return fmt.Errorf("%s", conditionsText(c.Status.Conditions))
			}
		}
		return nil
	})
	for _, p := range e.podsRun(4) {
		if p.Spec.NodeName == old.Status.NodeName {
			t.Errorf("pod %s is still on %s", p.Name, p.Spec.NodeName)
		}
	}
	e.claimsAre(1, "Ready", ready)
	if least, leaving := seen.get(t); least < 3 || len(leaving) < 4 {
		t.Errorf("at one time %d pods ran, the budget wants 3; %d pods were moved", least, len(leaving))
	}
	if n := len(e.launches(e.name)); n != 2 {
		t.Errorf("%d machines were launched, want the first and its replacement", n)
	}
}

// The four tiers leave in order: workloads, daemons, critical workloads, critical daemons; each when the one before is gone.
func TestDrainOrder(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "tiers")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.2xlarge")})
	critical := func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = "system-cluster-critical" }
	daemon := func(name string, t corev1.PodTemplateSpec) {
		t.Labels["app"] = name
		_, err := s.Kube.AppsV1().DaemonSets(e.name).Create(e.ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: t}}, metav1.CreateOptions{})
		e.must(err)
	}
	daemon("b-daemon", e.pod("100m", "64Mi"))
	daemon("d-critical-daemon", e.pod("100m", "64Mi", critical))
	e.deploy("a-app", 3, e.pod("500m", "64Mi"))
	e.deploy("c-critical-app", 2, e.pod("500m", "64Mi", critical))
	e.podsRun(7)
	all := e.claimsAre(1, "Ready", ready)
	seen := e.watchPods(func(*corev1.Pod) bool { return true })
	seen.look(e, 7)
	// Nothing may come after: what is deleted stays deleted.
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"limits":{"nodes":"0"}}}`))
	e.must(s.Delete(e.ctx, claims+"/"+all[0].Name, ""))
	e.givenBack()
	_, leaving := seen.get(t)
	var order []string
	for _, name := range leaving {
		tier := name[:strings.LastIndex(name, "-")]
		if i := strings.Index(tier, "-app"); i >= 0 {
			tier = tier[:i+len("-app")] // less the hash of its ReplicaSet
		}
		order = append(order, tier)
	}
	want := []string{"a-app", "a-app", "a-app", "b-daemon", "c-critical-app", "c-critical-app", "d-critical-daemon"}
	if len(order) < len(want) || !slices.Equal(order[:len(want)], want) {
		t.Errorf("the pods left in this order:\n%s\nwant\n%s", strings.Join(order, "\n"), strings.Join(want, "\n"))
	}
}

// A pod that must not be disrupted holds its node: neither emptiness nor a deletion moves it, until the termination grace period is over.
func TestDoNotDisrupt(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "held")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.2xlarge"), "spec.template.spec.terminationGracePeriod": "20s"})
	e.deploy("moves", 1, e.pod("500m", "64Mi"))
	e.deploy("stays", 1, e.pod("500m", "64Mi", func(p *corev1.PodTemplateSpec) { p.Annotations["karpenter.sh/do-not-disrupt"] = "true" }))
	before := e.podsRun(2)
	old := e.claimsAre(1, "Ready", ready)[0]
	e.must(s.Delete(e.ctx, claims+"/"+old.Name, ""))
	var held, forced bool
	e.until("the claim is gone", func() error {
		// The claim first: seen there, the pod may not be gone before the other one is.
		now, err := sandbox.Get[metav1.PartialObjectMetadata](e.ctx, s, claims+"/"+old.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		forced = forced || now.Annotations["karpenter.sh/nodeclaim-termination-timestamp"] != ""
		there := map[string]bool{}
		for _, p := range e.pods() {
			if p.DeletionTimestamp == nil && p.Spec.NodeName == old.Status.NodeName {
				there[p.Labels["app"]] = true
			}
		}
		held = held || there["stays"] && !there["moves"]
		return fmt.Errorf("still there; on its node: %v", there)
	})
	if !held {
		t.Error("the pod with do-not-disrupt was never seen alone on the node that is drained")
	}
	if !forced {
		t.Error("the claim never bore the time at which its drain is forced")
	}
	for _, p := range e.podsRun(2) {
		if slices.ContainsFunc(before, func(b corev1.Pod) bool { return b.UID == p.UID }) {
			t.Errorf("pod %s is still the one from before", p.Name)
		}
	}
}

// A claim older than expireAfter is replaced, and its pods move to the new node.
func TestExpiry(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "expiry")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.template.spec.expireAfter": "15s"})
	e.deploy("web", 1, e.pod("1", "64Mi"))
	first := e.podsRun(1)[0]
	old := e.claims()
	e.until("its node is replaced", func() error {
		for _, c := range e.claims() {
			if c.Name == old[0].Name {
				return fmt.Errorf("claim %s is there (deleting %t)", c.Name, c.DeletionTimestamp != nil)
			}
		}
		return nil
	})
	e.event("NodeClaim", old[0].Name, "Disrupted", "Expired")
	if now := e.podsRun(1)[0]; now.Spec.NodeName == first.Spec.NodeName {
		t.Errorf("the pod is still on %s", now.Spec.NodeName)
	}
	// Later claims are not replaced: the pool has learnt better, and its nodes go when they are empty.
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"template":{"spec":{"expireAfter":"Never"}},"disruption":{"consolidateAfter":"0s"}}}`))
	e.scale("web", 0)
	e.givenBack()
}

// Somebody who deletes a bought Node gets a drained node, a terminated machine and pods that run elsewhere.
func TestNodeDeleted(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "nodedel")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large")})
	e.deploy("web", 1, e.pod("1", "64Mi"))
	e.podsRun(1)
	old := e.claimsAre(1, "Ready", ready)[0]
	e.must(s.Kube.CoreV1().Nodes().Delete(e.ctx, old.Status.NodeName, metav1.DeleteOptions{}))
	e.until("the machine is terminated and its claim gone", func() error {
		for _, in := range e.standing() {
			if in.ClaimUID == string(old.UID) {
				return fmt.Errorf("machine %s is %s", in.ID, in.State)
			}
		}
		for _, c := range e.claims() {
			if c.Name == old.Name {
				return fmt.Errorf("claim %s is there", c.Name)
			}
		}
		return nil
	})
	if p := e.podsRun(1)[0]; p.Spec.NodeName == old.Status.NodeName {
		t.Errorf("the pod is still on %s", p.Spec.NodeName)
	}
}

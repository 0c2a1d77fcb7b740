// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

const disrupted = "karpenter.sh/disrupted"

// moves is a pool that is consolidated as soon as it has been at rest for some seconds.
func moves(types ...string) map[string]any {
	return map[string]any{
		"spec.disruption.consolidationPolicy": "WhenEmptyOrUnderutilized",
		"spec.disruption.consolidateAfter":    "3s",
		"spec.template.spec.requirements":     only(types...),
	}
}

// bill is what the pool's machines cost, in micro-dollars an hour.
func (e *env) bill() int64 {
	e.t.Helper()
	sum := int64(0)
	for _, in := range e.standing() {
		sum += in.PriceMicro
	}
	return sum
}

// settled waits until the pool has been as it is for a while: nothing comes, nothing goes, nothing is marked or tainted for a move.
func (e *env) settled(still time.Duration) {
	e.t.Helper()
	last, since := "", time.Now()
	e.until("nothing moves any more", func() error {
		now := ""
		for _, c := range e.claims() {
			now += c.Name + " "
			if c.DeletionTimestamp != nil || isTrue(&c, karpv1.ConditionDisruptionReason) || c.Annotations["dovetail.sh/move"] != "" {
				since = time.Now()
				return fmt.Errorf("nodeclaim %s goes, or is of a move", c.Name)
			}
		}
		for _, n := range e.nodes() {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disrupted }) {
				since = time.Now()
				return fmt.Errorf("node %s is tainted", n.Name)
			}
		}
		if now != last {
			last, since = now, time.Now()
		}
		if d := time.Since(since); d < still {
			return fmt.Errorf("the same for %s", d.Round(time.Second))
		}
		return nil
	})
}

// Pods that leave take their machines with them, though none of them is empty: the rest is put together, and then stays where it is.
func TestConsolidation(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "consolidation")
	e.nodePool(moves("m5.large", "m5.xlarge", "m5.2xlarge"))
	e.deploy("web", 30, e.pod("900m", "1Gi"))
	e.podsRun(30)
	before := e.bill()
	e.scale("web", 12)
	e.podsRun(12)
	e.until("what is left costs less", func() error {
		if now := e.bill(); now > before*6/10 {
			return fmt.Errorf("it costs %d µ$ an hour, before %d", now, before)
		}
		return nil
	})
	e.settled(15 * time.Second)
	e.podsRun(12)
	t.Logf("%d µ$ an hour for 30 pods, %d for 12, %d machines bought in all", before, e.bill(), len(e.launches(e.name)))
}

// What people write on pods is kept to, and the controller says so when it is asked; taken away, the machine goes.
func TestKept(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "kept")
	e.nodePool(moves("m5.large", "m5.4xlarge"))
	e.deploy("big", 1, e.pod("14", "1Gi"))
	e.podsRun(1)
	e.deploy("small", 1, e.pod("500m", "1Gi", func(p *corev1.PodTemplateSpec) { p.Annotations[karpv1.AnnotationDoNotDisrupt] = "true" }))
	e.podsRun(2)
	one := intstr.FromInt32(1)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "small"}}
	_, err := s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: selector}}, metav1.CreateOptions{})
	e.must(err)
	// The large pod goes: its machine is far too large for the small one.
	e.must(s.Kube.AppsV1().Deployments(e.name).Delete(e.ctx, "big", metav1.DeleteOptions{}))
	pod := e.podsRun(1)[0]
	node := pod.Spec.NodeName
	e.until("the node's reasons are the annotation and the budget", func() error {
		return e.because("node/"+node, plan.PodDoNotDisrupt, plan.DisruptionBudgetPDB)
	})
	e.settled(10 * time.Second)
	if now := e.podsRun(1)[0]; now.UID != pod.UID {
		t.Fatalf("pod %s was moved in spite of its annotation", pod.Name)
	}

	e.must(s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Delete(e.ctx, "guard", metav1.DeleteOptions{}))
	e.must(s.Patch(e.ctx, "/api/v1/namespaces/"+e.name+"/pods/"+pod.Name, `{"metadata":{"annotations":{"`+karpv1.AnnotationDoNotDisrupt+`":null}}}`))
	e.until("the large machine is given back", func() error {
		for _, in := range e.standing() {
			if in.InstanceType == "m5.4xlarge" {
				return fmt.Errorf("machine %s of that type stands", in.ID)
			}
		}
		return nil
	})
	e.podsRun(1)
}

// because asks the controller and says which of the codes it does not name.
func (e *env) because(subject string, codes ...plan.Code) error {
	a, err := e.answer(subject)
	if err != nil {
		return err
	}
	var missing []string
	for _, c := range codes {
		if !slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Reason.Code == c && f.Change != nil }) {
			missing = append(missing, string(c))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("why %s: %s not named in %+v", subject, strings.Join(missing, ", "), a)
	}
	return nil
}

// A changed template replaces every machine, within the budget, and every pod has a machine to go to before it must leave its own.
func TestDrift(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "drift")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.disruption.budgets": []any{map[string]any{"nodes": "1"}}})
	e.deploy("web", 3, e.pod("3", "2Gi"))
	e.podsRun(3)
	old := map[string]bool{}
	for _, c := range e.claimsAre(3, "Ready", ready) {
		old[string(c.UID)] = true
	}
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"template":{"metadata":{"annotations":{"example.com/new":"yes"}}}}}`))
	most := 0
	e.until("every machine is of the new template", func() error {
		going, left := 0, 0
		for _, c := range e.claims() {
			if old[string(c.UID)] { // by uid: a name may come back
				if left++; c.DeletionTimestamp != nil {
					going++
				}
			}
		}
		most = max(most, going)
		d, err := e.s.Kube.AppsV1().Deployments(e.name).Get(e.ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%d of the old ones are there, %s", left, available(d))
		}
		return nil
	})
	if most > 1 {
		t.Errorf("%d machines went at once, the budget allows 1", most)
	}
	e.podsRun(3)
	for _, c := range e.claimsAre(3, "Ready", ready) {
		if c.Annotations["example.com/new"] != "yes" {
			t.Errorf("claim %s is not of the new template", c.Name)
		}
	}
	e.settled(5 * time.Second)
}

func available(d *appsv1.Deployment) string {
	return fmt.Sprintf("%d of %d pods are available", d.Status.AvailableReplicas, d.Status.Replicas)
}

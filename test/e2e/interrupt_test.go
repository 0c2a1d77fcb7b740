// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// keeps makes a PodDisruptionBudget that wants at least so many of the app's pods.
func (e *env) keeps(app string, least int32) {
	e.t.Helper()
	minimum := intstr.FromInt32(least)
	_, err := e.s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	e.must(err)
}

// allows waits until a PodDisruptionBudget lets so many pods go.
func (e *env) allows(budget string, n int32) {
	e.t.Helper()
	e.until("the budget allows disruptions", func() error {
		b, err := e.s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Get(e.ctx, budget, metav1.GetOptions{})
		if err == nil && b.Status.DisruptionsAllowed != n {
			err = fmt.Errorf("it allows %d", b.Status.DisruptionsAllowed)
		}
		return err
	})
}

// Fifty spot machines are announced to be taken away at once. Room for their pods is bought at once, the pods move as fast as their
// PodDisruptionBudget allows and no faster, and every machine is given back before it is taken.
func TestFiftyInterruptions(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("runs in the soak; TestEC2Interruption is its like through SQS")
	}
	const n, least = 50, 40
	s := shared(t)
	e := newEnv(t, s, "spot")
	e.nodePool(map[string]any{"spec.template.spec.requirements": []any{
		in(karpv1.LabelCapacityType, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand),
		in(corev1.LabelInstanceTypeStable, "m6i.large", "m6a.large", "r6i.large", "r6a.large")}})
	e.deploy("web", n, e.pod("1500m", "1Gi"))
	e.keeps("web", least)
	e.podsRun(n)
	e.claimsAre(n, "Ready", ready)
	for _, i := range e.standing() {
		if i.CapacityType != karpv1.CapacityTypeSpot {
			t.Fatalf("machine %s is %s, so nothing would be tested", i.ID, i.CapacityType)
		}
	}
	e.allows("web", n-least)
	seen := e.watchPods(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	seen.look(e, n)

	e.must(s.AddFaults(e.ctx, machines.Fault{Kind: machines.Interrupt, CapacityType: karpv1.CapacityTypeSpot, Delay: machines.Duration(2 * time.Minute)}))
	e.until("the machines announced are given back", func() error {
		for _, i := range e.standing() {
			if !i.Goes.IsZero() {
				return fmt.Errorf("machine %s stands, claim %s", i.ID, i.ClaimName)
			}
		}
		return nil
	})
	e.podsRun(n)

	records, err := s.Journal(e.ctx)
	e.must(err)
	var told time.Time
	goes := map[string]time.Time{}
	bought, latest, taken := 0, time.Duration(0), 0
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordInterrupted:
			told, goes[r.ID] = r.At, r.Until
		case r.Kind == machines.RecordLaunched && r.Instance.Pool == e.name && !told.IsZero():
			bought++
			latest = max(latest, r.At.Sub(told))
		case r.Kind == machines.RecordTerminating && !goes[r.ID].IsZero() && !r.At.Before(goes[r.ID]):
			taken++
		}
	}
	if len(goes) != n || bought < n {
		t.Errorf("%d machines were announced and %d bought, want %d and as many", len(goes), bought, n)
	}
	if taken > 0 {
		t.Errorf("%d machines were taken away before they were given back", taken)
	}
	fewest, leaving := seen.get(t)
	if fewest < least || len(leaving) < n {
		t.Errorf("at one time %d pods ran, the budget wants %d; %d pods were moved", fewest, least, len(leaving))
	}
	t.Logf("%d machines announced; all %d replacements requested within %s; never fewer than %d of %d pods ran", n, bought, latest, fewest, n)
}

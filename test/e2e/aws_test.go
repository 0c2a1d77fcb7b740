// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// onEC2 is a sandbox that buys from the simulated AWS, with a node class.
func onEC2(t testing.TB, flags ...string) *sandbox.Sandbox {
	t.Helper()
	s := own(t, append([]string{"--cloud", "aws"}, flags...)...)
	err := s.Create(t.Context(), "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {
		role: sandbox-node, amiSelectorTerms: [{alias: al2023@latest}],
		subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}], securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ec2Pool is a pool of that class; its pods take a machine each.
func (e *env) ec2Pool() {
	e.t.Helper()
	e.nodePool(map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
		"spec.template.spec.requirements": []any{
			in(karpv1.LabelCapacityType, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand),
			in(corev1.LabelInstanceTypeStable, "m5.large", "m5a.large", "m6i.large", "m6a.large", "m7i.large", "m7a.large", "c5.large", "c6i.large", "c6a.large")},
	})
}

// books are what the simulated AWS has sold, by the tag that bears the claim's uid.
func (e *env) books(ctx context.Context) (awstest.Books, error) {
	var b awstest.Books
	return b, e.s.AWS(ctx, http.MethodGet, "/_aws/books?tag="+awstest.ClaimUIDTag, nil, &b)
}

// Everything that hurts at once: three of ten offerings have no capacity, a call in ten is throttled, a launch in twenty has its effect
// and no answer, instances are described ten seconds after they were launched, and the leader is killed amid the burst. Every pod
// runs, no claim has two instances, and in the end no instance is left.
func TestEC2Faults(t *testing.T) {
	t.Parallel()
	const n = 75
	s := onEC2(t, "--replicas", "2", "--controller-arg", "--leader-elect-lease-duration="+pace(3*time.Second).String(),
		"--controller-arg", "--leader-elect-renew-deadline="+pace(2*time.Second).String(), "--controller-arg", "--leader-elect-retry-period=500ms")
	e := newEnv(t, s, "faults")
	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/faults", awstest.FaultList{Faults: []awstest.Fault{
		{Kind: awstest.Scarce, Percent: 30}, {Kind: awstest.Throttle, Percent: 10}, {Kind: awstest.LostReply, Action: "CreateFleet", Percent: 5},
		{Kind: awstest.DescribeLag, Delay: machines.Duration(10 * time.Second)},
	}}, nil))
	e.deploy("web", n, e.pod("1500m", "1Gi"))
	e.podsRefused(n)
	e.ec2Pool()
	e.until("a fifth of the instances are launched", func() error {
		b, err := e.books(e.ctx)
		if err == nil && len(b.Launches) < n/5 {
			err = fmt.Errorf("%d are", len(b.Launches))
		}
		return err
	})
	t.Logf("killed %s", e.killLeader())
	e.podsRun(n)
	e.claimsAre(n, "Ready", ready)
	b, err := e.books(e.ctx)
	e.must(err)
	if len(b.Twice) > 0 || len(b.Untagged) > 0 {
		t.Errorf("launched twice for claims %v; without a claim's tag: %v", b.Twice, b.Untagged)
	}
	calls, refused := 0, 0
	for _, c := range b.Calls {
		calls += c.Count
		for _, k := range c.Errors {
			refused += k
		}
	}
	if refused == 0 || len(b.Launches) < n {
		t.Fatalf("%d calls were refused and %d claims had instances, so nothing was tested", refused, len(b.Launches))
	}
	fleets := b.Calls["ec2:CreateFleet"]
	t.Logf("%d instances for %d pods: %d calls, %.2f a launched instance, of these %.2f CreateFleet; %d calls refused",
		len(b.Launches), n, calls, float64(calls)/float64(len(b.Launches)), float64(fleets.Count)/float64(len(b.Launches)), refused)
	e.must(s.Delete(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/deployments", ""))
	e.until("the pods are gone", func() error { return e.noPods(e.ctx) })
	e.must(s.Delete(e.ctx, claims, karpv1.LabelNodePool+"="+e.name))
	e.until("no instance is left", func() error {
		b, err := e.books(e.ctx)
		if err == nil && len(b.Alive) > 0 {
			err = fmt.Errorf("%d are, such as %+v", len(b.Alive), b.Alive[0])
		}
		return err
	})
}

// Thirty interruptions that come through the queue at once: each replacement is bought before the machine it is for goes, all of them soon;
// the pods move as fast as their PodDisruptionBudget allows and no faster; and every machine is given back before EC2 takes it.
func TestEC2Interruption(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	const n, least = 30, 24
	s := onEC2(t)
	e := newEnv(t, s, "interrupted")
	e.ec2Pool()
	e.deploy("web", n, e.pod("1500m", "1Gi"))
	e.keeps("web", least)
	e.podsRun(n)
	e.claimsAre(n, "Ready", ready)
	e.allows("web", n-least)
	seen := e.watchPods(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	seen.look(e, n)

	var hit awstest.Interrupted
	told := time.Now()
	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/interrupt", awstest.Interruption{Kind: awstest.SpotInterruption, Count: n}, &hit))
	e.until("the instances are given back", func() error {
		b, err := e.books(e.ctx)
		if err != nil {
			return err
		}
		for _, i := range b.Alive {
			if !i.Goes.IsZero() {
				return fmt.Errorf("%s stands", i.ID)
			}
		}
		return nil
	})
	e.podsRun(n)
	ended := map[string]bool{}
	for _, id := range hit.Instances {
		ended[id] = true
	}
	records, err := s.Journal(e.ctx)
	e.must(err)
	var firstEnd, firstBought, replaced time.Time
	bought := 0
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordTerminating && ended[r.ID] && firstEnd.IsZero():
			firstEnd = r.At
		case r.Kind == machines.RecordLaunched && r.At.After(told):
			if bought++; bought == 1 {
				firstBought = r.At
			}
			replaced = r.At // the last one
		}
	}
	if firstEnd.IsZero() || len(hit.Instances) != n || bought != n {
		t.Fatalf("%d instances were interrupted, the first ended at %s, %d were bought: want %d and as many", len(hit.Instances), firstEnd, bought, n)
	}
	if replaced.After(firstEnd) {
		t.Errorf("an instance was launched at %s, after the first one was ended at %s", replaced, firstEnd)
	}
	fewest, leaving := seen.get(t)
	if fewest < least || len(leaving) < n {
		t.Errorf("at one time %d pods ran, the budget wants %d; %d pods were moved", fewest, least, len(leaving))
	}
	e.until("every message of the queue is dealt with", func() error {
		b, err := e.books(e.ctx)
		if err == nil && b.Messages > 0 {
			err = fmt.Errorf("%d are left", b.Messages)
		}
		return err
	})
	t.Logf("%d instances announced; the replacements were requested %s to %s after that; never fewer than %d of %d pods ran",
		n, firstBought.Sub(told).Round(time.Millisecond), replaced.Sub(told).Round(time.Millisecond), fewest, n)
}

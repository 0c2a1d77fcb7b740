// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// A machine is bought from a capacity reservation. When that is cancelled, claim and node say that it is an on-demand one, and nothing else comes of
// it. Then the node class is deleted: it waits for its claim, says so, and goes with the instance profile and the launch templates that were made for it.
func TestEC2ClassEnds(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	const ours, path = "ours", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/"
	s := onEC2(t)
	e := newEnv(t, s, "ends")
	var made awstest.Reservation
	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/reservations", awstest.Reservation{InstanceType: "m5.large", Zone: "us-east-1b", Count: 1, Tags: map[string]string{"for": "us"}}, &made))
	e.must(s.Create(e.ctx, path[:len(path)-1], `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: `+ours+`}, spec: {
		role: sandbox-node, amiSelectorTerms: [{alias: al2023@latest}], capacityReservationSelectorTerms: [{tags: {for: us}}],
		subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}], securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]}}`))
	class := func() (*awsv1.EC2NodeClass, error) {
		out := &awsv1.EC2NodeClass{}
		raw, err := s.Kube.CoreV1().RESTClient().Get().AbsPath(path + ours).Do(e.ctx).Raw()
		if err == nil {
			err = json.Unmarshal(raw, out)
		}
		return out, err
	}
	e.nodePool(map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": awsv1.Group, "kind": awsv1.KindEC2NodeClass, "name": ours},
		"spec.template.spec.requirements": []any{in(karpv1.LabelCapacityType, "reserved", karpv1.CapacityTypeOnDemand), in(corev1.LabelInstanceTypeStable, "m5.large")},
	})
	e.deploy("web", 1, e.pod("1500m", "1Gi"))
	e.podsRun(1)
	claim := e.claimsAre(1, "Ready", ready)[0]
	if claim.Labels[karpv1.LabelCapacityType] != "reserved" || claim.Labels[awsv1.LabelCapacityReservationID] != made.ID {
		t.Fatalf("the claim bears %v, so there is nothing to test", claim.Labels)
	}

	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/cancel", awstest.Cancellation{Reservation: made.ID}, nil))
	e.until("claim and node say that it is an on-demand machine", func() error {
		for _, l := range []map[string]string{e.claims()[0].Labels, e.node(claim.Status.NodeName).Labels} {
			for _, k := range []string{awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible} {
				if v, ok := l[k]; ok || l[karpv1.LabelCapacityType] != karpv1.CapacityTypeOnDemand {
					return fmt.Errorf("%s is %q, capacity type %q", k, v, l[karpv1.LabelCapacityType])
				}
			}
		}
		return nil
	})

	if k, err := class(); err != nil || !slices.Contains(k.Finalizers, awsv1.FinalizerTermination) {
		t.Fatalf("the class has finalizers %v, %v", k.Finalizers, err)
	}
	e.must(s.Delete(e.ctx, path+ours, ""))
	e.event(awsv1.KindEC2NodeClass, ours, "WaitingOnNodeClaimTermination", claim.Name)
	e.until("its condition says what it waits for", func() error {
		k, err := class()
		if err != nil {
			return err
		}
		for _, c := range k.Status.Conditions {
			if c.Type == "Ready" && c.Reason == "WaitingOnNodeClaimTermination" {
				return nil
			}
		}
		return fmt.Errorf("its conditions: %+v", k.Status.Conditions)
	})
	if have := e.claims(); len(have) != 1 || have[0].UID != claim.UID || !have[0].DeletionTimestamp.IsZero() {
		t.Errorf("of the claim has become %+v", have)
	}
	if b, err := e.books(e.ctx); err != nil || b.Templates == 0 || b.Calls["iam:DeleteInstanceProfile"].Count > 0 {
		t.Errorf("%d launch templates, %v: taken away while they were in use", b.Templates, err)
	}
	e.must(s.Delete(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/deployments", ""))
	e.must(s.Delete(e.ctx, claims, karpv1.LabelNodePool+"="+e.name))
	e.until("the class is gone", func() error {
		k, err := class()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it has finalizers %v and conditions %+v", k.Finalizers, k.Status.Conditions))
	})
	b, err := e.books(e.ctx)
	e.must(err)
	if b.Templates != 0 || b.Calls["iam:DeleteInstanceProfile"].Count != 1 {
		t.Errorf("%d launch templates are left, %d instance profiles were deleted", b.Templates, b.Calls["iam:DeleteInstanceProfile"].Count)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// unusedCondition is the condition of a NodePool on whose new nodes no pod runs.
const unusedCondition = "UnusedLaunches"

// TestUnusedLaunches has the API server refuse the NodeClaims of the NodePool that would be taken first, for two causes: the
// other NodePool is used, and people are told why. Nodes that no pod comes to are in internal/decide/testdata/unused.txt: on
// the sandbox a pod is bound before an agent could taint its node.
func TestUnusedLaunches(t *testing.T) {
	t.Parallel()
	s := own(t)
	t.Run("a policy refuses the NodeClaims of a pool", func(t *testing.T) { policyRefuses(t, s) })
	t.Run("a pool whose name is no label value", func(t *testing.T) { longPoolName(t, s) })
}

// policyRefuses has an admission policy refuse the NodeClaims of the pool that would be taken first.
func policyRefuses(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "denied")
	e.must(e.s.Create(e.ctx, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", fmt.Sprintf(`{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": %[1]q},
		"spec": {"failurePolicy": "Fail",
			"matchConstraints": {"resourceRules": [{"apiGroups": ["karpenter.sh"], "apiVersions": ["*"], "resources": ["nodeclaims"], "operations": ["CREATE"]}]},
			"validations": [{"expression": "object.metadata.labels['karpenter.sh/nodepool'] != '%[1]s'", "message": "no nodes of this pool on Thursdays"}]}}`, e.name)))
	e.must(e.s.Create(e.ctx, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", fmt.Sprintf(`{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": %[1]q},
		"spec": {"policyName": %[1]q, "validationActions": ["Deny"]}}`, e.name)))
	e.until("the policy is in force", func() error {
		err := e.s.Kube.CoreV1().RESTClient().Post().AbsPath(claims).Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", "application/json").
			Body(fmt.Appendf(nil, `{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "denied-try", "labels": {"karpenter.sh/nodepool": %q}},
			"spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []}}`, e.name)).Do(e.ctx).Error()
		if err == nil || !strings.Contains(err.Error(), "on Thursdays") {
			return fmt.Errorf("a NodeClaim of the pool is answered with: %v", err)
		}
		return nil
	})
	e.nodePool(map[string]any{"spec.weight": 50, "spec.template.spec.requirements": only("m5.xlarge")})
	e.otherPool("denied-other", map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	e.deploy("web", 1, e.pod("2", "2Gi"))
	e.podsRun(1)
	e.event("NodePool", e.name, "NodeClaimRefused", "on Thursdays")
	told := e.event("Pod", "web", "NodeClaimRefused", "on Thursdays")
	if strings.Contains(told.Message, "NodeClaim "+e.name) || strings.Contains(told.Message, `"`+e.name+"-") {
		t.Errorf("the event names a NodeClaim that never was: %s", told.Message)
	}
	if n := len(e.launches("denied-other")); n != 1 {
		t.Errorf("%d nodes were launched in the other pool, want 1", n)
	}
	if c := e.poolCondition(e.name, unusedCondition, metav1.ConditionTrue); c.Reason != "NodeClaimRefused" || !strings.Contains(c.Message, "on Thursdays") {
		t.Errorf("the pool's condition is %s: %s", c.Reason, c.Message)
	}
}

// longPoolName has the pool that would be taken first have a name that is not a valid label value: the other one is taken.
func longPoolName(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "long-name")
	long := strings.Repeat("long-", 14) + "name"
	e.must(e.tryNodePool(long, map[string]any{"spec.weight": 50, "spec.template.spec.requirements": only("m5.xlarge")}))
	t.Cleanup(func() { // not as another pool of the test: its NodeClaims can't be selected by a label with that name
		if err := s.Delete(context.Background(), pools+"/"+long, ""); err != nil {
			t.Error(err)
		}
	})
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	e.deploy("web", 1, e.pod("2", "2Gi"))
	e.podsRun(1)
	if c := e.poolCondition(long, "ValidationSucceeded", metav1.ConditionFalse); !strings.Contains(c.Message, "63") {
		t.Errorf("the pool's condition says %s", c.Message)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// names waits until the answer about an object has a reason of a code whose text holds the words.
func (e *env) names(subject string, code plan.Code, words ...string) {
	e.t.Helper()
	e.until(fmt.Sprintf("why %s names %s %s", subject, code, strings.Join(words, " ")), func() error {
		a, err := e.answer(subject)
		if err != nil {
			return err
		}
		for _, f := range a.Findings {
			said := f.Reason.Fields()
			text := said.Subject + " " + said.Key + " " + said.Have
			if f.Reason.Code == code && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", a.Findings)
	})
}

const (
	policies        = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	policyBindings  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	attachments     = "/apis/storage.k8s.io/v1/volumeattachments"
	foreignHold     = "example.com/inventory"
	refusesEviction = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": %[1]q},
		"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}]},
			"validations": [{"expression": "false", "message": "the backup of %[1]s is not finished"}]}}`
	refusesIn = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": %[1]q},
		"spec": {"policyName": %[1]q, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": %[1]q}}}}}`
	attachment = `{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": %q},
		"spec": {"attacher": "csi.example.com", "nodeName": %q, "source": {"persistentVolumeName": %q}}}`
)

// TestWhyNamesWhatHoldsADrain drains a node that three things hold one after the other: an admission policy that refuses
// the eviction of its pod, a VolumeAttachment that stays, and somebody else's finalizer on the Node. Each is named while
// it holds, and the drain goes on when it ends.
func TestWhyNamesWhatHoldsADrain(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "why-drain")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	e.deploy("web", 1, e.pod("1", "1Gi"))
	pod := e.podsRun(1)[0]
	claim := e.claimsAre(1, "Ready", ready)[0]
	node := claim.Status.NodeName

	e.must(s.Create(e.ctx, policies, fmt.Sprintf(refusesEviction, e.name)))
	e.must(s.Create(e.ctx, policyBindings, fmt.Sprintf(refusesIn, e.name)))
	t.Cleanup(func() {
		_ = s.Delete(context.Background(), policyBindings+"/"+e.name, "") // gone where the test came that far
		_ = s.Delete(context.Background(), policies+"/"+e.name, "")
	})
	e.until("the policy refuses evictions", func() error {
		err := s.Kube.PolicyV1().Evictions(e.name).Evict(e.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}})
		if err == nil {
			return fmt.Errorf("it lets one pass")
		}
		return nil
	})
	e.must(s.Create(e.ctx, attachments, fmt.Sprintf(attachment, e.name, node, e.name)))
	e.must(s.Kube.CoreV1().RESTClient().Patch("application/json-patch+json").AbsPath("/api/v1/nodes/" + node).
		Body([]byte(`[{"op": "add", "path": "/metadata/finalizers/-", "value": "` + foreignHold + `"}]`)).Do(e.ctx).Error())
	e.must(s.Delete(e.ctx, claims+"/"+claim.Name, ""))

	e.names("node/"+node, plan.EvictionRefused, pod.Name, "the backup of "+e.name+" is not finished")
	e.names("pod/"+e.name+"/"+pod.Name, plan.EvictionRefused)
	e.must(s.Delete(e.ctx, policyBindings+"/"+e.name, ""))
	e.names("node/"+node, plan.VolumeAttached, e.name)
	e.must(s.Delete(e.ctx, attachments+"/"+e.name, ""))
	e.names("nodeclaim/"+claim.Name, plan.ForeignHold, foreignHold)
	// The controller takes its own finalizer off meanwhile, which moves the others: the index is read again then.
	e.until("the finalizer of others is taken off", func() error {
		n, err := s.Kube.CoreV1().Nodes().Get(e.ctx, node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		i := slices.Index(n.Finalizers, foreignHold)
		if i < 0 {
			return nil
		}
		return s.Kube.CoreV1().RESTClient().Patch("application/json-patch+json").AbsPath("/api/v1/nodes/" + node).
			Body(fmt.Appendf(nil, `[{"op": "test", "path": "/metadata/finalizers/%[1]d", "value": %[2]q}, {"op": "remove", "path": "/metadata/finalizers/%[1]d"}]`, i, foreignHold)).Do(e.ctx).Error()
	})
	e.until("the claim is gone", func() error {
		for _, c := range e.claims() {
			if c.Name == claim.Name {
				return fmt.Errorf("%s", conditionsText(c.Status.Conditions))
			}
		}
		return nil
	})
	e.podsRun(1)
}

// TestEmptyNodeKeptForItsDaemonSet: a DaemonSet's PodDisruptionBudget that allows no disruption keeps a node that has no
// other pod. Nothing of a removal is begun until it allows one.
func TestEmptyNodeKeptForItsDaemonSet(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "daemon-pdb")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.disruption.consolidateAfter": "0s"})
	agent := e.pod("100m", "64Mi")
	agent.Labels["app"] = "agent"
	_, err := s.Kube.AppsV1().DaemonSets(e.name).Create(e.ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: agent}}, metav1.CreateOptions{})
	e.must(err)
	one := intstr.FromInt32(1)
	_, err = s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}}}, metav1.CreateOptions{})
	e.must(err)
	e.deploy("web", 1, e.pod("1", "1Gi"))
	e.podsRun(2)
	claim := e.claimsAre(1, "Ready", ready)[0]
	e.scale("web", 0)
	e.podsRun(1)
	e.names("node/"+claim.Status.NodeName, plan.DisruptionBudgetPDB, e.name+"/agent")
	n := e.node(claim.Status.NodeName)
	if slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == model.TaintDisrupted }) || n.DeletionTimestamp != nil {
		t.Errorf("the removal has begun: taints %v, deletion %v", n.Spec.Taints, n.DeletionTimestamp)
	}
	e.claimsAre(1, "Ready", ready)
	e.must(s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Delete(e.ctx, "agent", metav1.DeleteOptions{}))
	e.givenBack()
}

// TestPoolMadeAgain deletes a NodePool with --cascade=orphan and creates it again: its NodeClaim is its own again, owner
// reference included, and goes with it when it is deleted for good.
func TestPoolMadeAgain(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "pool-again")
	fields := map[string]any{"spec.template.spec.requirements": only("m5.xlarge")}
	e.nodePool(fields)
	e.deploy("web", 1, e.pod("1", "1Gi"))
	e.podsRun(1)
	claim := e.claimsAre(1, "Ready", ready)[0]
	first := e.pool().UID
	orphan := metav1.DeletePropagationOrphan
	e.must(s.Kube.CoreV1().RESTClient().Delete().AbsPath(pools + "/" + e.name).Body(&metav1.DeleteOptions{PropagationPolicy: &orphan}).Do(e.ctx).Error())
	e.until("the NodePool is gone and its NodeClaim has no owner", func() error {
		c := e.claims()
		if len(c) != 1 || len(c[0].OwnerReferences) > 0 {
			return fmt.Errorf("%d claims: %+v", len(c), c)
		}
		_, err := sandbox.Get[metav1.PartialObjectMetadata](e.ctx, s, pools+"/"+e.name)
		if err == nil {
			return fmt.Errorf("the NodePool is there")
		}
		return nil
	})
	e.nodePool(fields)
	again := e.pool().UID
	if again == first {
		t.Fatal("the NodePool is the same one")
	}
	e.until("the NodePool owns its NodeClaim again", func() error {
		c := e.claims()
		if len(c) != 1 || c[0].UID != claim.UID {
			return fmt.Errorf("%d claims, not the one from before", len(c))
		}
		if !slices.ContainsFunc(c[0].OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == again }) {
			return fmt.Errorf("its owners are %v", c[0].OwnerReferences)
		}
		return nil
	})
	e.scale("web", 0)
	e.must(s.Delete(e.ctx, pools+"/"+e.name, ""))
	e.givenBack()
}

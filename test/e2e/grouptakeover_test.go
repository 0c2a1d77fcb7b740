// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Beside a live Cluster Autoscaler one group goes over to Dovetail and back. What is in the way is said first, with the
// command that mends it, and nothing is changed; then its nodes get a NodeClaim each and stay, a scale-down that was half
// done is undone, pods that only the other group could hold are left to Cluster Autoscaler, and nodes that no pod needs
// go, down to the minimum of the class. Given back, no instance ends and no mark of ours is left.
func TestGroupTakeover(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("it waits for whole minutes: set DOVETAIL_SOAK=1")
	}
	t.Parallel()
	s := onEC2(t)
	e := newEnv(t, s, "handed")
	tags := append(nodesOf(e.name), awstest.GroupTag{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"})
	e.group("handed-a", "c5.large", func(g *awstest.Group) { g.Tags, g.Desired, g.DesiredLeftAsItIs = tags, 2, false })
	e.group("handed-b", "c5.xlarge", func(g *awstest.Group) { g.Tags = tags })
	e.clusterAutoscalerRuns("aws", "asg:tag=k8s.io/cluster-autoscaler/enabled")
	e.until("the members have joined", func() error {
		if n := len(e.nodes()); n != 2 {
			return fmt.Errorf("%d nodes have", n)
		}
		return nil
	})
	e.groupPool("handed-a", 2)
	e.groupPool("handed-b", 0)
	half := e.nodes()[0].Name
	e.must(s.Patch(e.ctx, "/api/v1/nodes/"+half, fmt.Sprintf(`{"spec":{"unschedulable":true,"taints":[{"key":"ToBeDeletedByClusterAutoscaler","value":"%d","effect":"NoSchedule"},{"key":"example.com/kept","effect":"PreferNoSchedule"}]}}`, time.Now().Unix())))

	status, out := e.handGroupOver("takeover")
	for _, word := range []string{"Deployment kube-system/cluster-autoscaler) scales group handed-a: it discovers the group by tag k8s.io/cluster-autoscaler/enabled",
		"fix: aws autoscaling delete-tags --tags ResourceId=handed-a,", "nothing was changed"} {
		if status != 1 || !strings.Contains(out, word) {
			t.Errorf("status %d, it does not say %q:\n%s", status, word, out)
		}
	}
	e.group("handed-a", "c5.large", func(g *awstest.Group) { g.Tags = nodesOf(e.name) })
	if status, out = e.handGroupOver("takeover"); status != 0 || !strings.Contains(out, "Removed leftovers of Cluster Autoscaler from nodes: ToBeDeletedByClusterAutoscaler of "+half) {
		t.Fatalf("status %d:\n%s", status, out)
	}
	if n := e.node(half); n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.Contains(t.Key, "ClusterAutoscaler") }) ||
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/kept" }) {
		t.Errorf("node %s: unschedulable %t, taints %v", half, n.Spec.Unschedulable, n.Spec.Taints)
	}

	e.deploy("small", 3, e.pod("1200m", "1Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector[corev1.LabelInstanceTypeStable] = "c5.large" // else they would be left to the other group
	}))
	e.deploy("large", 1, e.pod("3", "2Gi")) // only the other group's nodes are so large
	e.until("each member of the group has its NodeClaim, and another was launched", func() error {
		if n := len(e.claimsOf("handed-a")); n != 3 {
			return fmt.Errorf("there are %d NodeClaims", n)
		}
		return e.areReady("handed-a")
	})
	if b := e.groupNamed("handed-b"); b.Desired != 0 || len(e.claimsOf("handed-b")) > 0 {
		t.Errorf("the other group has %d of %d, and %d NodeClaims", len(b.Members), b.Desired, len(e.claimsOf("handed-b")))
	}

	e.must(e.s.Patch(e.ctx, "/apis/karpenter.sh/v1/nodepools/handed-a", `{"spec":{"disruption":{"consolidateAfter":"1s"}}}`))
	e.scale("small", 0)
	e.until("a node that no pod needs has gone", func() error {
		if n := len(e.groupNamed("handed-a").Members); n != 2 {
			return fmt.Errorf("the group has %d members", n)
		}
		if n := len(e.nodes()); n != 2 {
			return fmt.Errorf("there are %d nodes", n)
		}
		return nil
	})
	e.pause(12 * time.Second) // the two that are left are as empty: the minimum keeps them

	before := e.groupNamed("handed-a").Members
	if status, out = e.handGroupOver("release"); status != 0 {
		t.Fatalf("status %d:\n%s", status, out)
	}
	e.pause(12 * time.Second) // longer than the controller takes to list the instances anew
	if after := e.groupNamed("handed-a"); !slices.Equal(after.Members, before) || len(before) != 2 || after.Desired != 2 {
		t.Errorf("members %v of %d, want %v", after.Members, after.Desired, before)
	}
	if left := e.claimsOf("handed-a"); len(left) > 0 {
		t.Errorf("%d NodeClaims are left", len(left))
	}
	stay := e.nodes()
	if len(stay) != 2 {
		t.Errorf("%d nodes are left, want 2", len(stay))
	}
	for _, n := range stay {
		if len(n.Finalizers) > 0 || len(n.OwnerReferences) > 0 || n.Labels[karpv1.LabelNodePool] != "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "dovetail.sh/") }) {
			t.Errorf("node %s: finalizers %v, owners %v, labels %v, taints %v", n.Name, n.Finalizers, n.OwnerReferences, n.Labels, n.Spec.Taints)
		}
	}
	if status, out = e.handGroupOver("release"); status != 0 || !strings.Contains(out, "NodePool handed-a: Cluster Autoscaler already manages it.") {
		t.Errorf("released again: status %d:\n%s", status, out)
	}
}

// groupPool makes a NodeGroupClass, with a minimum size, and a NodePool of a group's name for it.
func (e *env) groupPool(group string, minSize int) {
	e.t.Helper()
	e.must(e.s.Create(e.ctx, groupClasses, fmt.Sprintf("{apiVersion: dovetail.sh/v1alpha1, kind: NodeGroupClass, metadata: {name: %s}, spec: {selectorTerms: [{name: %[1]s, minSize: %[2]d}]}}", group, minSize)))
	e.otherPool(group, map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "dovetail.sh", "kind": "NodeGroupClass", "name": group}, "spec.template.spec.requirements": []any{},
	})
}

func (e *env) claimsOf(pool string) []karpv1.NodeClaim {
	e.t.Helper()
	list, err := sandbox.Get[karpv1.NodeClaimList](e.ctx, e.s, claims, "labelSelector", karpv1.LabelNodePool+"="+pool)
	e.must(err)
	return list.Items
}

// areReady is an error while a NodeClaim of a pool is not Ready.
func (e *env) areReady(pool string) error {
	for _, c := range e.claimsOf(pool) {
		if !ready(&c) {
			return fmt.Errorf("%s: %s", c.Name, conditionsText(c.Status.Conditions))
		}
		if c.Labels[dovetailv1alpha1.LabelNodeGroup] != pool {
			return fmt.Errorf("%s is of group %q", c.Name, c.Labels[dovetailv1alpha1.LabelNodeGroup])
		}
	}
	return nil
}

// clusterAutoscalerRuns has it seem that Cluster Autoscaler runs: its lease, held for long, and its Deployment.
func (e *env) clusterAutoscalerRuns(cloud, discovery string) {
	e.t.Helper()
	now, seconds, holder, one := metav1.NowMicro(), int32(3600), "cluster-autoscaler-0", int32(1)
	_, err := e.s.Kube.CoordinationV1().Leases("kube-system").Create(e.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "cluster-autoscaler"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}}, metav1.CreateOptions{})
	e.must(err)
	labels := map[string]string{"app": "cluster-autoscaler"}
	_, err = e.s.Kube.AppsV1().Deployments("kube-system").Create(e.ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cluster-autoscaler"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"no": "such"}, Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0",
				Command: []string{"./cluster-autoscaler", "--cloud-provider=" + cloud, "--node-group-auto-discovery=" + discovery}}}}}}}, metav1.CreateOptions{})
	e.must(err)
}

// handGroupOver hands group handed-a over or back, with the credentials of the simulated AWS.
func (e *env) handGroupOver(verb string) (status int, out string) {
	e.t.Helper()
	_, bin, err := sandbox.Binaries()
	e.must(err)
	cmd := exec.CommandContext(e.ctx, bin, verb, "--group", "handed-a", "--kubeconfig", e.s.Kubeconfig(sandbox.Admin), "--no-controller-check")
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+e.s.AWSURL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=AKIDSANDBOX", "AWS_SECRET_ACCESS_KEY=sandbox",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		e.must(err)
	}
	e.t.Logf("dovetail %s:\n%s", verb, text)
	return cmd.ProcessState.ExitCode(), string(text)
}

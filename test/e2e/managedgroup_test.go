// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// managedGroup is the group of an EKS managed node group. Labels and the taint of its nodes are in EKS alone; its Auto
// Scaling group has just the tags that EKS gives it.
func managedGroup() awstest.Group {
	return awstest.Group{Name: "managed", Max: 4, InstanceTypes: []string{"c5.large"}, Suspended: []string{"AZRebalance"}, Managed: &awstest.ManagedGroup{
		Name: "web", Labels: map[string]string{testLabel: "managed", "team": "blue"}, Taints: []awstest.ManagedTaint{{Key: "dedicated", Value: "web", Effect: "NO_SCHEDULE"}}}}
}

// A managed node group is found by the tags that EKS gives it, and becomes a NodePool with the labels and the taint that
// no tag tells: pods that tolerate it get their nodes from it, and what they leave goes again. In the soak EKS upgrades
// it in between: the upgrade finishes as EKS began it.
func groupsManaged(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "managed")
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	if have := e.pool().Spec.Template; have.Labels["team"] != "blue" || !slices.ContainsFunc(have.Spec.Taints, func(x corev1.Taint) bool {
		return x.Key == "dedicated" && x.Value == "web" && x.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Errorf("the pool of the group has the labels %v and the taints %v", have.Labels, have.Spec.Taints)
	}
	e.deploy("web", 3, e.pod("1500m", "1Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}}
	}))
	e.podsRun(3)
	e.claimsAre(3, "Ready", ready)
	for _, c := range e.membersAre("managed", 3) {
		n := e.node(c.Status.NodeName)
		if n.Labels["eks.amazonaws.com/nodegroup"] != "web" || n.Labels["team"] != "blue" || !slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == "dedicated" }) {
			t.Errorf("node %s has the labels %v and the taints %v", n.Name, n.Labels, n.Spec.Taints)
		}
	}
	if os.Getenv("DOVETAIL_SOAK") != "" {
		e.upgrade("managed", 3)
	}
	e.scale("web", 1)
	e.podsRun(1)
	e.membersAre("managed", 1)
	e.scale("web", 0)
	e.membersAre("managed", 0)
	e.until("the NodePool has no NodeClaims", func() error {
		if left := e.claims(); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
}

// groupStatus is what the class of the test's pool says of a group.
func (e *env) groupStatus(name string) (dovetailv1alpha1.NodeGroupStatus, error) {
	c, err := sandbox.Get[dovetailv1alpha1.NodeGroupClass](e.ctx, e.s, groupClasses+"/"+e.name)
	if err != nil {
		return dovetailv1alpha1.NodeGroupStatus{}, err
	}
	i := slices.IndexFunc(c.Status.Groups, func(g dovetailv1alpha1.NodeGroupStatus) bool { return g.Name == name })
	if i < 0 {
		return dovetailv1alpha1.NodeGroupStatus{}, fmt.Errorf("class %s says nothing of group %s", e.name, name)
	}
	return c.Status.Groups[i], nil
}

// upgrade upgrades a managed node group of n nodes with a surge of one as EKS does: one node is started, the old ones are
// cordoned, and drained and ended one by one, each replaced but for the last. Its Auto Scaling group has to have one node
// more than before for as long as it lasts, then as many; nobody else may change that or end one of its nodes.
func (e *env) upgrade(group string, n int) {
	e.t.Helper()
	old := e.groupNamed(group).Members
	most := e.groupNamed(group).Max
	before := e.desired(group)
	e.must(e.s.AWS(e.ctx, http.MethodPost, "/_aws/upgrade", awstest.Upgrade{Group: group, Surge: 1, Drains: true}, nil))
	newNodes := func(count int) func() error {
		return func() error {
			ready := 0
			for _, node := range e.nodes() {
				if !slices.Contains(old, instanceID(&node)) && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
				}) {
					ready++
				}
			}
			if ready < count {
				return fmt.Errorf("%d of %d are", ready, count)
			}
			return nil
		}
	}
	e.until("the first new node is Ready", newNodes(1))
	e.until("the class says that EKS updates the group, and how large EKS itself would have it", func() error { // EKS takes minutes to start a node
		st, err := e.groupStatus(group)
		if err == nil && (st.Refresh != "UPDATING" || int(st.Max) != most) {
			err = fmt.Errorf("it says %+v", st)
		}
		return err
	})
	for _, node := range e.nodes() {
		if slices.Contains(old, instanceID(&node)) {
			e.must(e.s.Patch(e.ctx, "/api/v1/nodes/"+node.Name, `{"spec":{"unschedulable":true}}`))
		}
	}
	for i, id := range old {
		e.until("a new node for the next pod is Ready", newNodes(i+1))
		var from string
		for _, node := range e.nodes() {
			if instanceID(&node) == id {
				from = node.Name
			}
		}
		for _, p := range e.pods() {
			if p.Spec.NodeName == from && p.DeletionTimestamp == nil {
				err := e.s.Kube.PolicyV1().Evictions(e.name).Evict(e.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: e.name}})
				if err != nil && !apierrors.IsNotFound(err) {
					e.t.Fatal(err)
				}
			}
		}
		for _, p := range e.podsRun(n) {
			if p.Spec.NodeName == from {
				e.t.Errorf("pod %s is back on node %s, which is cordoned", p.Name, from)
			}
		}
		if !slices.Contains(e.groupNamed(group).Members, id) {
			e.t.Errorf("instance %s was ended before EKS did", id)
		}
		e.must(e.s.AWS(e.ctx, http.MethodPost, "/_aws/drained", awstest.Drain{Instance: id}, nil))
	}
	e.until("the upgrade is over", func() error {
		g := e.groupNamed(group)
		if g.Max != most || g.Desired != n || len(g.Members) != n || g.Managed.Surge != 0 {
			return fmt.Errorf("max %d, desired %d, members %v, %+v", g.Max, g.Desired, g.Members, g.Managed)
		}
		if slices.ContainsFunc(g.Members, func(id string) bool { return slices.Contains(old, id) }) {
			return errors.New("an old node is left")
		}
		return nil
	})
	e.podsRun(n)
	if have := e.desired(group); !slices.Equal(have, append(before, n+1, n)) {
		e.t.Errorf("the group's desired capacity was %v in turn, before the upgrade %v; want %d and %d after that", have, before, n+1, n)
	}
	for _, c := range e.membersAre(group, n) { // the new nodes are Dovetail's now
		if c.Annotations[dovetailv1alpha1.AnnotationAdopt] != c.Status.ProviderID {
			e.t.Errorf("the claim of %s says that it adopts %q", c.Status.ProviderID, c.Annotations[dovetailv1alpha1.AnnotationAdopt])
		}
	}
	e.until("the class says that the update is over", func() error {
		st, err := e.groupStatus(group)
		if err == nil && st.Refresh != "" {
			err = fmt.Errorf("it says %+v", st)
		}
		return err
	})
}

// instanceID is the id of the instance that a node is.
func instanceID(n *corev1.Node) string {
	return n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]
}

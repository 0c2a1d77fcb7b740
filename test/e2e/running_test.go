// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// From pending pods to running pods and back to nothing: what the objects on the way look like is Karpenter's API.
func TestPodToRunning(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "running")
	e.nodePool(map[string]any{
		"spec.template.metadata.annotations":        map[string]any{"example.com/note": "kept"},
		"spec.template.metadata.labels.team":        "blue",
		"spec.template.spec.taints":                 []any{map[string]any{"key": "example.com/dedicated", "value": "e2e", "effect": "NoSchedule"}},
		"spec.template.spec.expireAfter":            "24h",
		"spec.disruption.consolidateAfter":          "1s",
		"spec.template.spec.requirements":           only("m5.xlarge"),
		"spec.template.spec.terminationGracePeriod": "10m",
	})
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	e.deploy("web", 3, e.pod("2", "2Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/dedicated", Operator: corev1.TolerationOpExists}}
	}))
	pods := e.podsRun(3)
	e.event("Pod", "web-", "Nominated", e.name)

	all := e.claimsAre(3, "Ready", ready)
	pool := e.pool()
	launched := map[string]machines.Instance{}
	for _, in := range e.launches(e.name) {
		launched[in.ClaimUID] = in
	}
	for i := range all {
		c := &all[i]
		in, ok := launched[string(c.UID)]
		if !ok || len(launched) != 3 {
			t.Fatalf("claim %s: the journal has no launch of it, or others: %v", c.Name, launched)
		}
		checkClaim(t, c, pool, in)
		e.until("the reservation is taken off", func() error {
			if taints := e.node(c.Status.NodeName).Spec.Taints; slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == reservedTaint }) {
				return fmt.Errorf("%s has taints %v", c.Status.NodeName, taints)
			}
			return nil
		})
		checkNode(t, e.node(c.Status.NodeName), c, in)
	}
	for _, p := range pods {
		if !slices.ContainsFunc(all, func(c karpv1.NodeClaim) bool { return c.Status.NodeName == p.Spec.NodeName }) {
			t.Errorf("pod %s runs on %s, which no claim is for", p.Name, p.Spec.NodeName)
		}
	}
	e.until("the pool counts its nodes", func() error {
		st := e.pool().Status
		if st.Nodes == nil || *st.Nodes != 3 || st.Resources.Cpu().Cmp(resource.MustParse("12")) != 0 {
			return fmt.Errorf("status: nodes %v, resources %v", st.Nodes, st.Resources)
		}
		return nil
	})

	// One pod less: its node is empty, the others stay.
	e.scale("web", 2)
	e.podsRun(2)
	e.claimsAre(2, "Ready", ready)
	if n := len(e.launches(e.name)); n != 3 {
		t.Errorf("%d machines were launched, want the 3 from before", n)
	}
	e.scale("web", 0)
	e.givenBack()
	e.until("the pool counts nothing", func() error {
		if st := e.pool().Status; st.Nodes != nil && *st.Nodes != 0 || !st.Resources.Cpu().IsZero() {
			return fmt.Errorf("status: nodes %v, resources %v", st.Nodes, st.Resources)
		}
		return nil
	})
}

func checkClaim(t *testing.T, c *karpv1.NodeClaim, pool *karpv1.NodePool, in machines.Instance) {
	t.Helper()
	for _, name := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionReady} {
		if !isTrue(c, name) {
			t.Errorf("claim %s: %s is not True: %s", c.Name, name, conditionsText(c.Status.Conditions))
		}
	}
	wantAll(t, "label of claim "+c.Name, c.Labels, map[string]string{
		"karpenter.sh/nodepool": pool.Name, "karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/capacity-type": "on-demand",
		"node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/zone": in.Zone, "topology.kubernetes.io/region": "us-east-1",
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "team": "blue", testLabel: pool.Name,
	})
	wantAll(t, "annotation of claim "+c.Name, c.Annotations, map[string]string{
		"example.com/note": "kept", "karpenter.sh/nodepool-hash": pool.Annotations["karpenter.sh/nodepool-hash"], "karpenter.sh/nodepool-hash-version": "v3",
	})
	if pool.Annotations["karpenter.sh/nodepool-hash"] == "" || pool.Annotations["karpenter.sh/nodepool-hash-version"] != "v3" {
		t.Errorf("nodepool %s: annotations %v, want the hash and its version", pool.Name, pool.Annotations)
	}
	if !slices.Contains(c.Finalizers, "karpenter.sh/termination") {
		t.Errorf("claim %s: finalizers %v", c.Name, c.Finalizers)
	}
	if !ownedBy(c.OwnerReferences, "NodePool", pool.Name, pool.UID) {
		t.Errorf("claim %s: owner references %+v, want the NodePool with blockOwnerDeletion", c.Name, c.OwnerReferences)
	}
	st := &c.Status
	if st.ProviderID != in.ProviderID || st.NodeName != in.Node.Name || st.ImageID == "" || st.Capacity.Cpu().Cmp(resource.MustParse("4")) != 0 ||
		st.Allocatable.Cpu().IsZero() || st.Allocatable.Cpu().Cmp(*st.Capacity.Cpu()) >= 0 {
		t.Errorf("claim %s: status %+v, want what machine %+v has", c.Name, st, in)
	}
	sp := &c.Spec
	if sp.NodeClassRef == nil || sp.NodeClassRef.Name != "default" || sp.NodeClassRef.Kind != "KWOKNodeClass" || len(sp.Taints) != 1 ||
		sp.ExpireAfter.Duration == nil || sp.ExpireAfter.Duration.Hours() != 24 || sp.TerminationGracePeriod == nil ||
		sp.TerminationGracePeriod.Minutes() != 10 || sp.Resources.Requests.Cpu().Cmp(resource.MustParse("2")) != 0 {
		t.Errorf("claim %s: spec %+v does not say what the pool and the pod said", c.Name, sp)
	}
}

func checkNode(t *testing.T, n *corev1.Node, c *karpv1.NodeClaim, in machines.Instance) {
	t.Helper()
	wantAll(t, "label of node "+n.Name, n.Labels, map[string]string{
		"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "karpenter.sh/nodepool": c.Labels["karpenter.sh/nodepool"],
		"karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "m5.xlarge",
		"topology.kubernetes.io/zone": in.Zone, "team": "blue", "kubernetes.io/hostname": n.Name,
	})
	wantAll(t, "annotation of node "+n.Name, n.Annotations, map[string]string{
		"example.com/note": "kept", "karpenter.sh/nodepool-hash": c.Annotations["karpenter.sh/nodepool-hash"], "karpenter.sh/nodepool-hash-version": "v3",
	})
	if n.Spec.ProviderID != in.ProviderID {
		t.Errorf("node %s: provider id %s, its machine has %s", n.Name, n.Spec.ProviderID, in.ProviderID)
	}
	if !slices.Contains(n.Finalizers, "karpenter.sh/termination") {
		t.Errorf("node %s: finalizers %v", n.Name, n.Finalizers)
	}
	if !ownedBy(n.OwnerReferences, "NodeClaim", c.Name, c.UID) {
		t.Errorf("node %s: owner references %+v, want its claim with blockOwnerDeletion", n.Name, n.OwnerReferences)
	}
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "example.com/dedicated" || n.Spec.Taints[0].Value != "e2e" {
		t.Errorf("node %s: taints %+v, want the pool's alone", n.Name, n.Spec.Taints)
	}
}

func ownedBy(refs []metav1.OwnerReference, kind, name string, uid any) bool {
	return slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool {
		return r.APIVersion == "karpenter.sh/v1" && r.Kind == kind && r.Name == name && r.UID == uid && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

func wantAll(t *testing.T, what string, have, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if have[k] != v {
			t.Errorf("%s: %s is %q, want %q", what, k, have[k], v)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Next to a live Cluster Autoscaler, a MachineDeployment goes over to Dovetail and back. What prevents it is said first, with the command that mends it,
// and --dry-run changes nothing. Then its Machines get a NodeClaim each and stay, and what Cluster Autoscaler had begun to remove stays, too. Given back,
// no Machine is deleted, no mark of Dovetail is left on a node, and none of the Machines is a NodeClaim's.
func TestClusterAPITakeover(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	s := own(t, "--no-autoscaler")
	applyClusterAPI(t, s)
	e := newEnv(t, s, "capi")
	e.allow("cluster-api")
	m := playMachines(t, s, "default")
	m.addInfrastructure("handed")
	m.set(func() { m.nodes = true })
	m.addGroup("MachineDeployment", "handed", 4, map[string]string{model.LabelInstanceType: "handed", model.LabelZone: "z1", testLabel: e.name}, "dovetail.sh/price-per-hour", "0.1")
	path := clusterAPI + "default/machinedeployments/handed"
	e.must(s.Patch(e.ctx, path, `{"spec":{"replicas":2},"metadata":{"labels":{"scaled":"yes"}}}`))
	e.until("the Machines have joined", func() error {
		if n := len(e.nodes()); n != 2 {
			return fmt.Errorf("%d nodes have", n)
		}
		return nil
	})
	e.clusterAutoscalerRuns("clusterapi", "clusterapi:namespace=default,clusterName=workload,scaled=yes")
	e.groupPool("handed", 2)
	stop := e.controllerOf("--cloud", "clusterapi", "--cluster-api-cluster", "default/workload")
	defer func() { stop(syscall.SIGTERM) }()
	half := e.nodes()[0].Name
	e.must(s.Patch(e.ctx, "/api/v1/nodes/"+half, fmt.Sprintf(`{"spec":{"unschedulable":true,"taints":[{"key":"ToBeDeletedByClusterAutoscaler","value":"%d","effect":"NoSchedule"}]}}`, time.Now().Unix())))
	hand := func(want int, verb string, words ...string) {
		t.Helper()
		_, bin, err := sandbox.Binaries()
		e.must(err)
		cmd := exec.CommandContext(e.ctx, bin, append([]string{verb, "--group", "handed", "--cloud", "clusterapi", "--cluster-api-cluster", "default/workload", "--kubeconfig", s.Kubeconfig(sandbox.Admin), "--no-controller-check"}, words[1:]...)...)
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			e.must(err)
		}
		if status := cmd.ProcessState.ExitCode(); status != want || !strings.Contains(string(text), words[0]) {
			t.Fatalf("%s: status %d, want %d; it does not say %q:\n%s", verb, status, want, words[0], text)
		}
	}
	hand(1, "takeover", "fix: kubectl -n default label machinedeployments.cluster.x-k8s.io handed scaled-")
	e.must(s.Patch(e.ctx, path, `{"metadata":{"labels":{"scaled":null}}}`))
	hand(0, "takeover", "All checks passed", "--dry-run")
	if n := len(e.claimsOf("handed")); n > 0 {
		t.Errorf("there are %d NodeClaims before the takeover", n)
	}
	hand(0, "takeover", "Removed leftovers of Cluster Autoscaler from nodes: ToBeDeletedByClusterAutoscaler of "+half)
	e.until("each Machine has its NodeClaim", func() error {
		if n := len(e.claimsOf("handed")); n != 2 {
			return fmt.Errorf("there are %d NodeClaims", n)
		}
		return e.areReady("handed")
	})
	e.deploy("app", 3, e.pod("3", "1Gi"))
	e.podsRun(3)
	if n := e.node(half); n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
		t.Errorf("node %s: unschedulable %t, taints %v", half, n.Spec.Unschedulable, n.Spec.Taints)
	}

	hand(0, "release", "3 NodeClaims removed; their nodes and instances stay")
	e.pause(12 * time.Second) // longer than the controller takes to list the machines anew
	if n := m.group("machinedeployments", "handed").Spec.Replicas; n != 3 || len(m.everMade()) != 3 || len(m.everDeleted()) > 0 {
		t.Errorf("the group is to have %d machines; %q were made and %q deleted", n, m.everMade(), m.everDeleted())
	}
	if left := e.claimsOf("handed"); len(left) > 0 {
		t.Errorf("%d NodeClaims are left", len(left))
	}
	for _, n := range e.nodes() {
		if len(n.Finalizers) > 0 || len(n.OwnerReferences) > 0 || n.Labels[karpv1.LabelNodePool] != "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "dovetail.sh/") }) {
			t.Errorf("node %s: finalizers %v, owners %v, labels %v, taints %v", n.Name, n.Finalizers, n.OwnerReferences, n.Labels, n.Spec.Taints)
		}
	}
	e.podsRun(3)
	hand(0, "release", "NodePool handed: Cluster Autoscaler already manages it")
}

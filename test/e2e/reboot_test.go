// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A fifth of the nodes have an error of their GPU at once that a reboot clears, another fifth has it now and then, for less time than makes a node broken, and the
// leader is killed while the first is rebooted. The test plays the kubelets: an instance that EC2 was asked to reboot comes back with another boot ID and without
// the error. No more nodes are rebooted at a time than the budget allows, none twice and none that only flaps; their pods run on other nodes meanwhile, and those
// that are back are used again. Nodes must have been broken for ten minutes, so this is for soaks.
func TestReboot(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("nodes must have been broken for ten minutes: set DOVETAIL_SOAK=1")
	}
	t.Parallel()
	const n = 10
	s := onEC2(t, "--replicas", "2", "--controller-arg", "--leader-elect-lease-duration="+pace(3*time.Second).String(), "--controller-arg", "--aws-feature-gates=RebootForRepair=true",
		"--controller-arg", "--leader-elect-renew-deadline="+pace(2*time.Second).String(), "--controller-arg", "--leader-elect-retry-period=500ms")
	e := newEnv(t, s, "reboots")
	e.ec2Pool()
	e.must(s.Patch(e.ctx, "/apis/karpenter.sh/v1/nodepools/"+e.name, `{"spec":{"disruption":{"consolidateAfter":"Never","budgets":[{"nodes":"1","reasons":["Unhealthy"]}]}}}`))
	e.deploy("web", n, e.pod("1500m", "1Gi"))
	e.podsRun(n)
	var names []string
	for _, node := range e.nodes() {
		names = append(names, node.Name)
		e.must(e.setNode(node.Name, "boot-1", "True", time.Now()))
	}
	if len(names) != n {
		t.Fatalf("%d nodes for %d pods", len(names), n)
	}
	broken, flapping := names[:n/5], names[n/5:2*(n/5)]
	for _, name := range broken {
		e.must(e.setNode(name, "boot-1", "False", time.Now()))
	}
	down := map[string]bool{} // flapping nodes that have the error
	boots := map[string]int{} // by node: reboots that the test has played
	killed, most := "", 0
	e.untilWithin(20*time.Minute, "the broken nodes are back", func() error {
		at := int(time.Now().Unix() / 10)
		for i, name := range flapping { // for 10 of 60 seconds each: while more than a fifth of the nodes have an error, nothing is repaired
			if is := at%6 == 3*i; is != down[name] {
				down[name] = is
				status := "True"
				if is {
					status = "False"
				}
				e.must(e.setNode(name, "boot-1", status, time.Now()))
			}
		}
		rebooting := 0
		for _, c := range e.claims() {
			r := conditionOf(c.Status.Conditions, "Rebooting")
			if r == nil || r.Status != "True" {
				continue
			}
			if rebooting++; killed == "" {
				killed = e.killLeader()
				t.Logf("killed %s, while node %s was %s", killed, c.Status.NodeName, r.Reason)
			}
		}
		if most = max(most, rebooting); most > 1 {
			t.Fatalf("%d nodes are rebooted at once, the budget allows 1", most)
		}
		b, err := e.books(e.ctx)
		if err != nil {
			return err
		}
		for _, m := range b.Alive {
			if m.Reboots > 1 {
				t.Fatalf("instance %s of node %s was rebooted %d times", m.ID, m.Node, m.Reboots)
			}
			if m.Reboots > boots[m.Node] {
				boots[m.Node]++
				t.Logf("node %s is rebooted", m.Node)
				e.must(e.setNode(m.Node, fmt.Sprint("boot-", 1+m.Reboots), "True", time.Now()))
			}
		}
		var left []error
		for _, name := range broken {
			node := e.node(name)
			if node.Status.NodeInfo.BootID == "boot-1" || hasTaint(node, "karpenter.sh/rebooting") {
				left = append(left, fmt.Errorf("node %s has boot ID %s and taints %v", name, node.Status.NodeInfo.BootID, node.Spec.Taints))
			}
		}
		return errors.Join(left...)
	})
	if killed == "" || len(boots) != len(broken) {
		t.Errorf("rebooted: %v, of %v; the leader was killed: %q", boots, broken, killed)
	}
	e.podsRun(n)
	b, err := e.books(e.ctx)
	e.must(err)
	t.Logf("%d reboots, at most %d at once; %d instances were started for %d pods", len(boots), most, b.Started, n)
	if b.Started > n+len(broken) {
		t.Errorf("%d instances were started, more than one for each node that was rebooted", b.Started)
	}
	// What was rebooted takes pods again, without a launch: a pod for each node.
	e.scale("web", b.Started)
	e.podsRun(b.Started)
	if again, err := e.books(e.ctx); err != nil || again.Started != b.Started {
		t.Errorf("%d instances were started for pods that the rebooted nodes hold, %v", again.Started-b.Started, err)
	}
	e.must(s.Patch(e.ctx, "/apis/karpenter.sh/v1/nodepools/"+e.name, `{"spec":{"disruption":{"consolidateAfter":"0s"}}}`))
	e.scale("web", 0)
	e.givenBack()
}

// setNode makes a node report a boot ID, and whether its GPU is all right.
func (e *env) setNode(name, boot, accelerator string, since time.Time) error {
	reason := "AcceleratedHardwareIsReady"
	if accelerator == "False" {
		reason = "NvidiaXID95Error"
	}
	_, err := e.s.Kube.CoreV1().Nodes().Patch(e.ctx, name, types.StrategicMergePatchType, fmt.Appendf(nil,
		`{"status":{"nodeInfo":{"bootID":%q},"conditions":[{"type":"AcceleratedHardwareReady","status":%q,"reason":%q,"lastTransitionTime":%q}]}}`,
		boot, accelerator, reason, since.UTC().Format(time.RFC3339)), metav1.PatchOptions{}, "status")
	return err
}

// hasTaint reports whether a node has a taint.
func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

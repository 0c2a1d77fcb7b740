// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// kubeletSeries are the tests that DOVETAIL_KUBELETS=1 runs on real kubelets, unless -run names others: what they show of landing, drains,
// DaemonSets, headroom and disruption depends on what a kubelet admits, and on when its pods are gone.
var kubeletSeries = []string{
	"TestKubelets", "TestKubeletHangs", "TestExactLanding", "TestExactMany", "TestMixedLanding", "TestDaemonWaits", "TestDrainHonoursPDB", "TestDrainOrder", "TestDoNotDisrupt",
	"TestExpiry", "TestNodeDeleted", "TestDaemonsKeepTheirRoom", "TestNearDaemon", "TestDaemonLargerThanTemplate", "TestHeadroom", "TestConsolidation", "TestKept",
	"TestDrift", "TestPodToRunning", "TestFreeRoomIsUsed", "TestSurge", "TestNoSurge", "TestFaults",
}

// selectKubeletSeries sets -run with DOVETAIL_KUBELETS=1. A name without its test is an error.
func selectKubeletSeries() error {
	run := flag.Lookup("test.run")
	if !sandbox.Kubelets() || run.Value.String() != "" {
		return nil
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		return err
	}
	var source []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		source = append(source, text...)
	}
	for _, name := range kubeletSeries {
		if !bytes.Contains(source, []byte("\nfunc "+name+"(t *testing.T)")) {
			return fmt.Errorf("kubeletSeries names %s, and there is no such test", name)
		}
	}
	return run.Value.Set("^(" + strings.Join(kubeletSeries, "|") + ")$")
}

// kubeletOf is the component that is a node's kubelet.
func (e *env) kubeletOf(node string) sandbox.Component {
	e.t.Helper()
	st, err := e.s.State()
	e.must(err)
	i := slices.IndexFunc(st.Components, func(c sandbox.Component) bool { return c.Name == "kubelet-"+node })
	if i < 0 {
		e.t.Fatalf("node %s has no kubelet", node)
	}
	return st.Components[i]
}

// With --kubelets each machine has Kubernetes' own kubelet: what is bound by our plan it admits, and what does not fit or does not match it rejects;
// it has the capacity and the allocatable that the cloud promised, renews its lease, runs Jobs to their end, and is gone with its machine. A kubelet
// that dies comes back, and its containers have run on.
func TestKubelets(t *testing.T) {
	t.Parallel()
	s := own(t, "--kubelets")
	e := newEnv(t, s, "kubelets")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("c5.2xlarge")})
	e.daemonSet("agent", e.pod("100m", "64Mi"))
	e.deploy("web", 8, e.pod("1500m", "512Mi")) // five on a node: two nodes
	pods := e.podsRun(8 + 2)
	for _, c := range e.claimsAre(2, "Initialized", ready) {
		n, err := s.Kube.CoreV1().Nodes().Get(e.ctx, c.Status.NodeName, metav1.GetOptions{})
		e.must(err)
		for name, want := range c.Status.Allocatable {
			if have := n.Status.Allocatable[name]; have.Cmp(want) != 0 {
				t.Errorf("node %s has %s of %s allocatable, its claim promised %s", n.Name, have.String(), name, want.String())
			}
		}
		if n.Status.NodeInfo.ContainerRuntimeVersion != "fakeRuntime://0.1.0" {
			t.Errorf("node %s is run by %s, not by a kubelet", n.Name, n.Status.NodeInfo.ContainerRuntimeVersion)
		}
		e.until("the node has its kubelet's lease", func() error {
			_, err := s.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(e.ctx, n.Name, metav1.GetOptions{})
			return err
		})
	}
	node := pods[0].Spec.NodeName

	for reason, change := range map[string]func(*corev1.PodTemplateSpec){
		"OutOfcpu":     func(*corev1.PodTemplateSpec) {},
		"NodeAffinity": func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector = map[string]string{testLabel: "another"} },
	} {
		cpu := map[string]string{"OutOfcpu": "5", "NodeAffinity": "1m"}[reason]
		name := strings.ToLower(reason)
		p := e.pod(cpu, "1Mi", change, func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = node })
		_, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: p.Spec}, metav1.CreateOptions{})
		e.must(err)
		e.until("the kubelet has rejected pod "+name, func() error {
			p, err := s.Kube.CoreV1().Pods(e.name).Get(e.ctx, name, metav1.GetOptions{})
			if err == nil && (p.Status.Phase != corev1.PodFailed || p.Status.Reason != reason) {
				err = fmt.Errorf("it is %s, %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return err
		})
	}
	e.refusesPods("two pods are bound to a node that cannot take them")

	job := e.pod("50m", "1Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "registry.k8s.io/pause:3.10"}}
	})
	_, err := s.Kube.BatchV1().Jobs(e.name).Create(e.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: job}}, metav1.CreateOptions{})
	e.must(err)
	e.until("the Job is complete", func() error {
		j, err := s.Kube.BatchV1().Jobs(e.name).Get(e.ctx, "job", metav1.GetOptions{})
		if err == nil && j.Status.Succeeded != 1 {
			err = fmt.Errorf("%d pods succeeded", j.Status.Succeeded)
		}
		return err
	})

	before := e.kubeletOf(node)
	e.must(s.Fault(e.ctx, "kill", 100*time.Millisecond, before.Name))
	after := e.kubeletOf(node)
	if after.PID == before.PID || after.Restarts != before.Restarts+1 {
		t.Errorf("kubelet of node %s: process %d with %d restarts, was %d with %d", node, after.PID, after.Restarts, before.PID, before.Restarts)
	}
	late := e.pod("1m", "1Mi", func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = node })
	_, err = s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: late.Spec}, metav1.CreateOptions{})
	e.must(err)
	e.until("the kubelet that was started again runs a pod", func() error {
		p, err := s.Kube.CoreV1().Pods(e.name).Get(e.ctx, "late", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
	for _, p := range e.pods() {
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("container %s of pod %s was restarted with its kubelet", c.Name, p.Name)
			}
		}
	}

	e.must(s.Delete(e.ctx, "/api/v1/namespaces/"+e.name, ""))
	e.until("the pods are gone", func() error { return e.noPods(e.ctx) })
	e.must(s.Delete(e.ctx, claims, karpv1.LabelNodePool+"="+e.name))
	e.givenBack()
	e.until("the kubelets have ended with their machines", func() error {
		if err := syscall.Kill(after.PID, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d is there: %v", after.PID, err)
		}
		return nil
	})
}

// TestKubeletHangs stops a kubelet until its node is NotReady and its pods run on other nodes, and then lets it go on. Until the kubelet has ended
// its pods, they count as running on its node. Afterwards the node is Ready, takes pods again, and has rejected none.
func TestKubeletHangs(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t, "--kubelets")
	e := newEnv(t, s, "hangs")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("c5.2xlarge")})
	e.deploy("web", 8, e.pod("1500m", "512Mi", func(p *corev1.PodTemplateSpec) { // five on a node
		now, grace := int64(0), int64(30)
		p.Spec.TerminationGracePeriodSeconds = &grace // With 0 the API server would not wait for the kubelet.
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &now})
		}
	}))
	node := e.podsRun(8)[0].Spec.NodeName
	kubelet := e.kubeletOf(node)
	e.must(syscall.Kill(kubelet.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(kubelet.PID, syscall.SIGCONT) }) // a stopped one would not end with the sandbox; it may have ended
	count := func() (elsewhere, onNode int) {
		for _, p := range e.pods() {
			switch {
			case p.Spec.NodeName == node:
				onNode++
			case p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning:
				elsewhere++
			}
		}
		return elsewhere, onNode
	}
	e.until("eight pods run on other nodes, and the pods of the stopped kubelet are not deleted yet", func() error {
		if elsewhere, onNode := count(); elsewhere != 8 || onNode == 0 {
			return fmt.Errorf("%d run on other nodes, %d are on node %s", elsewhere, onNode, node)
		}
		return nil
	})
	e.must(syscall.Kill(kubelet.PID, syscall.SIGCONT))
	e.until("the kubelet has ended its pods, and its node is Ready and without a taint", func() error {
		n, err := s.Kube.CoreV1().Nodes().Get(e.ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		// The taint for eviction goes after the one for scheduling: pods that tolerate it for no time would be bound and evicted at once.
		if _, onNode := count(); onNode > 0 || !ready || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("%d pods are on node %s, which has taints %v and conditions %v", onNode, node, n.Spec.Taints, n.Status.Conditions)
		}
		return nil
	})
	e.scale("web", 13) // the three nodes have room for fifteen
	e.podsRun(13)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

const (
	poolPath  = "/apis/karpenter.sh/v1/nodepools"
	claimPath = "/apis/karpenter.sh/v1/nodeclaims"
)

// Karpenter's own controller and ours run beside each other while pods come and go. Two NodePools are taken over one after
// the other and given back, and one of the controllers is killed in the middle of each. No pod is evicted or lost, no
// node and no NodeClaim is deleted or replaced, none is doubled, and each controller launches for its own pools alone. The
// command that hands over is killed in its middle, too, and run again.
func TestTakeover(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles Karpenter and starts a control plane")
	}
	t.Parallel() // it mostly waits
	if _, _, err := sandbox.Binaries(); err != nil {
		t.Fatal(err)
	}
	root, err := sandbox.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("TAKEOVER_DIR") // kept
	if dir == "" {
		dir = t.TempDir()
	}
	binary := os.Getenv("KARPENTER_BIN")
	if binary == "" {
		binary = filepath.Join(dir, "karpenter")
		if _, err := goCommand(t.Context(), "build", "-o", binary, karpenterModule+"/kwok"); err != nil {
			t.Fatal(err)
		}
	}
	catalog, err := scaledown.WriteCatalogue(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Karpenter first: Dovetail would act until it sees a lease.
	s, err := sandbox.Up(t.Context(), filepath.Join(dir, "sb"), "--boot", "1s", "--pull", "0s", "--catalog", catalog)
	if err != nil {
		t.Fatal(err)
	}
	h := &handover{T: t, s: s, binary: binary, catalog: catalog, dir: dir, dovetail: filepath.Join(root, "bin", "dovetail")}
	if bin := os.Getenv("DOVETAIL_BIN"); bin != "" {
		h.dovetail = bin
	}
	defer func() {
		if t.Failed() {
			t.Log("Dovetail's log ends with:\n" + s.LogTail(sandbox.Controller, 40, ""))
			if b, err := os.ReadFile(h.log()); err == nil {
				t.Logf("Karpenter's log ends with:\n%s", b[max(0, len(b)-4000):])
			}
		}
		if h.stop != nil {
			h.stop()
		}
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	}()
	h.startKarpenter()
	h.must(s.Create(t.Context(), "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}"))
	h.until("Karpenter leads", func() error {
		lease, err := s.Kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "karpenter-leader-election", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = fmt.Errorf("nobody holds the lease")
		}
		return err
	})
	h.until("Dovetail has seen that Karpenter leads", func() error {
		if tail := s.LogTail(sandbox.Controller, 1000, "passive: another autoscaler is running"); !strings.Contains(tail, "passive: another autoscaler is running") {
			return fmt.Errorf("its log doesn't say so")
		}
		return nil
	})
	h.watch()
	first, last := 1, 1
	if os.Getenv("DOVETAIL_SOAK") != "" {
		last = 20
	}
	if seeds := os.Getenv("TAKEOVER_SEEDS"); seeds != "" { // FIRST-LAST
		if _, err := fmt.Sscanf(seeds, "%d-%d", &first, &last); err != nil {
			t.Fatalf("TAKEOVER_SEEDS %q: want FIRST-LAST: %v", seeds, err)
		}
	}
	for seed := first; seed <= last; seed++ {
		h.play(uint64(seed))
	}
}

// handover is the sandbox of TestTakeover and what was seen there.
type handover struct {
	*testing.T
	s                              *sandbox.Sandbox
	binary, catalog, dir, dovetail string
	stop                           func() // kills Karpenter
	starts                         int

	mu    sync.Mutex
	wrong []string
}

func (h *handover) log() string {
	return filepath.Join(h.dir, fmt.Sprintf("karpenter-%d.log", h.starts))
}

func (h *handover) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *handover) until(what string, check func() error) {
	h.Helper()
	testwait.UntilFor(h.T, 2*time.Minute, what, check)
}

func (h *handover) startKarpenter() {
	h.Helper()
	h.starts++
	stop, err := h.s.StartKarpenter(h.binary, h.catalog, h.log(), "DISABLE_LEADER_ELECTION=false", "LEADER_ELECTION_NAMESPACE=kube-system", "SYSTEM_NAMESPACE=kube-system")
	h.must(err)
	h.stop = stop
}

// watch notes everything that must not happen.
func (h *handover) watch() {
	note := func(format string, args ...any) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if text := fmt.Sprintf(format, args...); !slices.Contains(h.wrong, text) {
			h.wrong = append(h.wrong, text)
		}
	}
	go func() {
		_ = sandbox.Watch(h.Context(), h.s, "/api/v1/nodes", func(kind string, n *corev1.Node) {
			if kind == "DELETED" || n.DeletionTimestamp != nil {
				note("node %s was deleted", n.Name)
			}
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyDisrupted }) {
				note("node %s was to be disrupted", n.Name)
			}
		})
	}()
	go func() {
		_ = sandbox.Watch(h.Context(), h.s, claimPath, func(kind string, c *karpv1.NodeClaim) {
			if kind == "MODIFIED" && c.DeletionTimestamp != nil {
				note("NodeClaim %s was deleted", c.Name)
			}
			for _, x := range c.Status.Conditions {
				if x.Type == "Drifted" && x.Status == metav1.ConditionTrue {
					note("NodeClaim %s has drifted: %s %s", c.Name, x.Reason, x.Message)
				}
			}
		})
	}()
	go func() {
		_ = sandbox.Watch(h.Context(), h.s, "/api/v1/namespaces/default/pods", func(kind string, p *corev1.Pod) {
			for _, x := range p.Status.Conditions {
				if x.Type == corev1.DisruptionTarget && x.Status == corev1.ConditionTrue && !h.isLateTaint(p, x) {
					note("pod %s was evicted: %s", p.Name, x.Message)
				}
			}
			if p.Status.Phase == corev1.PodFailed {
				note("pod %s failed: %s", p.Name, p.Status.Message)
			}
		})
	}()
}

// isLateTaint reports whether kube-controller-manager has deleted a pod for the NoExecute taint that Karpenter's nodes have until they are registered. It
// does so if it hears of a pod that kube-scheduler has bound there before it has heard that the taint is gone.
func (h *handover) isLateTaint(p *corev1.Pod, x corev1.PodCondition) bool {
	if x.Reason != "DeletionByTaintManager" {
		return false
	}
	n, err := h.s.Kube.CoreV1().Nodes().Get(h.Context(), p.Spec.NodeName, metav1.GetOptions{})
	return err == nil && n.Labels["karpenter.kwok.sh/kwoknodeclass"] != "" && len(n.Spec.Taints) == 0
}

func (h *handover) check(when string) {
	h.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wrong {
		h.Errorf("%s: %s", when, w)
	}
	if len(h.wrong) > 0 {
		h.FailNow()
	}
}

// play hands the pools of a seed over and back.
func (h *handover) play(seed uint64) {
	h.Helper()
	rnd := rand.New(rand.NewPCG(seed, 14))
	a, b := fmt.Sprintf("a%d", seed), fmt.Sprintf("b%d", seed)
	for _, name := range []string{a, b} {
		h.must(h.s.Create(h.Context(), poolPath, fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: %[1]s}, spec: {template: {metadata: {labels: {team: %[1]s}}, spec: {
			nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never,
			requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: kubernetes.io/os, operator: In, values: [linux]},
				{key: karpenter.kwok.sh/instance-cpu, operator: Lt, values: ["9"]}]}},
			disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}, limits: {cpu: "1000"}}}`, name)))
		h.deploy(name)
	}
	churning, endChurn := context.WithCancel(h.Context())
	defer endChurn()
	var churn sync.WaitGroup
	var pause sync.RWMutex // held while pods must not come or go
	churnRand := rand.New(rand.NewPCG(seed, 15))
	churn.Go(func() {
		for churning.Err() == nil {
			pause.RLock()
			h.scale([]string{a, b}[churnRand.IntN(2)], 1+churnRand.IntN(12))
			pause.RUnlock()
			time.Sleep(400 * time.Millisecond)
		}
	})
	want := 5
	quiet := func(when string, owners map[string]string) { // owners: the group of new nodes, by pool
		h.Helper()
		pause.Lock()
		defer pause.Unlock()
		before, fresh := h.nodes(), map[string]int{}
		want += 10 // more than ever before: nodes are needed
		for _, name := range []string{a, b} {
			h.scale(name, want+rnd.IntN(4))
		}
		h.running(a, b)
		for name, n := range h.nodes() {
			if before[name] != nil || !slices.Contains([]string{a, b}, n.Labels[karpv1.LabelNodePool]) {
				continue
			}
			pool := n.Labels[karpv1.LabelNodePool]
			fresh[pool]++
			if n.Labels[owners[pool]+"/kwoknodeclass"] == "" {
				h.Errorf("%s: new node %s of pool %s is not of %s: %v", when, name, pool, owners[pool], n.Labels)
			}
		}
		if fresh[a] == 0 || fresh[b] == 0 {
			h.Errorf("%s: new nodes by pool: %v; none of one proves nothing", when, fresh)
		}
		h.oneToOne(when)
		h.check(when)
	}
	const theirs, ours = "karpenter.kwok.sh", "kwok.dovetail.sh"
	quiet("before", map[string]string{a: theirs, b: theirs})

	h.during(rnd, seed%2 == 0, "takeover", "--pool", a)
	quiet("with one pool taken over", map[string]string{a: ours, b: theirs})
	h.during(rnd, seed%2 == 1, "takeover", "--pool", b)
	quiet("with both pools taken over", map[string]string{a: ours, b: ours})

	h.stop() // release asks for Karpenter to be stopped
	h.stop = nil
	if seed%2 == 1 {
		h.during(rnd, true, "release", "--all")
	} else {
		h.during(rnd, true, "release", "--pool", a)
		h.handOver("release", "--pool", b)
	}
	h.startKarpenter()
	quiet("given back", map[string]string{a: theirs, b: theirs})
	endChurn()
	churn.Wait()
	h.Logf("seed %d: %d nodes, one NodeClaim each; none deleted, replaced or doubled", seed, len(h.nodes()))
}

// during runs a handover and kills Dovetail, or Karpenter, in its middle, and the command itself.
func (h *handover) during(rnd *rand.Rand, dovetail bool, args ...string) {
	h.Helper()
	after := time.Duration(rnd.IntN(5000)) * time.Millisecond
	var killed sync.WaitGroup
	killed.Go(func() {
		time.Sleep(after)
		if !dovetail {
			h.stop() // by SIGKILL
			h.startKarpenter()
			return
		}
		all, err := h.s.Components(sandbox.Controller)
		if err != nil {
			h.Error(err)
			return
		}
		if err := syscall.Kill(all[0].PID, syscall.SIGKILL); err != nil {
			h.Error(err)
		}
	})
	h.killHandOver(time.Duration(rnd.IntN(5000))*time.Millisecond, args...)
	h.handOver(args...)
	killed.Wait()
}

// killHandOver runs a verb of Dovetail and kills that after a time, if it hasn't ended by then: the next run finishes it.
func (h *handover) killHandOver(after time.Duration, args ...string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), after)
	defer cancel()
	out, err := exec.CommandContext(ctx, h.dovetail, h.handOverArgs(args)...).CombinedOutput()
	if err != nil && ctx.Err() == nil {
		h.Fatalf("dovetail %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	h.Logf("dovetail %s, killed after %s (%t)\n%s", strings.Join(args, " "), after, err != nil, out)
}

// handOverArgs are the arguments of a verb of Dovetail that the cluster's administrator runs.
func (h *handover) handOverArgs(args []string) []string {
	return append(slices.Clone(args), "--no-controller-check", "--namespace", "dovetail-system", "--kubeconfig", h.s.Kubeconfig(sandbox.Admin))
}

// handOver runs a verb of Dovetail as the cluster's administrator.
func (h *handover) handOver(args ...string) string {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), h.dovetail, h.handOverArgs(args)...)
	out, err := cmd.CombinedOutput()
	h.Logf("dovetail %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		h.Fatalf("dovetail %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// deploy makes a Deployment whose pods ask for a pool.
func (h *handover) deploy(pool string) {
	h.Helper()
	labels, one := map[string]string{"app": pool}, int32(1)
	_, err := h.s.Kube.AppsV1().Deployments("default").Create(h.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: pool},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"team": pool}, Containers: []corev1.Container{{Name: "c", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")}}}}}}}}, metav1.CreateOptions{})
	h.must(err)
}

func (h *handover) scale(deployment string, n int) {
	err := h.s.Patch(context.WithoutCancel(h.Context()), "/apis/apps/v1/namespaces/default/deployments/"+deployment, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
	if err != nil {
		h.Error(err)
	}
}

// running waits until every pod of Deployments runs.
func (h *handover) running(deployments ...string) {
	h.Helper()
	for _, name := range deployments {
		h.until("all pods of "+name+" run", func() error {
			d, err := h.s.Kube.AppsV1().Deployments("default").Get(h.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			list, err := h.s.Kube.CoreV1().Pods("default").List(h.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
			if err != nil {
				return err
			}
			running := 0
			for i := range list.Items {
				if list.Items[i].Status.Phase == corev1.PodRunning {
					running++
				}
			}
			if want := int(*d.Spec.Replicas); running != want || len(list.Items) != want {
				return fmt.Errorf("%d of %d pods run, there are %d", running, want, len(list.Items))
			}
			return nil
		})
	}
}

func (h *handover) nodes() map[string]*corev1.Node {
	h.Helper()
	list, err := h.s.Kube.CoreV1().Nodes().List(h.Context(), metav1.ListOptions{LabelSelector: karpv1.LabelNodePool})
	h.must(err)
	out := map[string]*corev1.Node{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// oneToOne looks whether every node has one NodeClaim, every NodeClaim a node, and every machine of the simulated cloud
// a node.
func (h *handover) oneToOne(when string) {
	h.Helper()
	h.until("each node has one NodeClaim "+when, func() error {
		list, err := sandbox.Get[karpv1.NodeClaimList](h.Context(), h.s, claimPath)
		if err != nil {
			return err
		}
		byID := map[string][]string{}
		for _, c := range list.Items {
			byID[c.Status.ProviderID] = append(byID[c.Status.ProviderID], c.Name)
		}
		nodes := h.nodes()
		launched := 0
		for _, n := range nodes {
			if len(byID[n.Spec.ProviderID]) != 1 {
				return fmt.Errorf("node %s (%s) has NodeClaims %v", n.Name, n.Spec.ProviderID, byID[n.Spec.ProviderID])
			}
			if strings.HasPrefix(n.Spec.ProviderID, "machines:") {
				launched++
			}
		}
		if len(nodes) != len(list.Items) {
			return fmt.Errorf("%d nodes and %d NodeClaims", len(nodes), len(list.Items))
		}
		machines, err := h.s.Instances(h.Context())
		if err != nil {
			return err
		}
		running := 0
		for _, m := range machines {
			if m.State != "terminated" {
				running++
			}
		}
		if running != launched {
			return fmt.Errorf("%d machines of the simulated cloud run, and %d have nodes", running, launched)
		}
		return nil
	})
}

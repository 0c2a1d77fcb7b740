// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package e2e runs the built binaries: dovetail against the sandbox's real control plane and its simulated cloud, looked at from
// outside through the API server, the cloud's journal and the processes. A missing binary fails the test, except for TestKueue, which needs
// make kueue. Some tests run only in make verify or make soak.
//
// Tests share one sandbox where its options allow. Each works in a namespace and a NodePool of its own, whose name is a label that
// its pods select, so that no test's pods land on another's machines. Tests that make the cloud itself misbehave run before those
// that run side by side. Waiting is polling until a stated event, with a deadline that only ends a test that hangs (internal/testwait); no
// assertion is about how fast something was.
//
// Start reading at env.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	// limit is how long anything is waited for on a quiet machine; waits scale it. It says nothing about speed.
	limit = 5 * time.Minute
	poll  = 100 * time.Millisecond

	testLabel     = "e2e.dovetail.sh/test"
	reservedTaint = "dovetail.sh/reserved"

	pools   = "/apis/karpenter.sh/v1/nodepools"
	claims  = "/apis/karpenter.sh/v1/nodeclaims"
	classes = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
)

// sharedSandbox is a sandbox that is brought up for the first test that asks for it, and taken down after the last.
type sharedSandbox struct {
	once sync.Once
	s    *sandbox.Sandbox
	dir  string
	err  error
}

// common is the sandbox of most tests.
var common sharedSandbox

// get returns the sandbox; flags are sandbox up's.
func (x *sharedSandbox) get(t *testing.T, flags ...string) *sandbox.Sandbox {
	t.Helper()
	x.once.Do(func() {
		if x.dir, x.err = os.MkdirTemp("", "dovetail-e2e-"); x.err != nil {
			return
		}
		x.s, x.err = up(t, filepath.Join(x.dir, "sb"), append([]string{"--boot", "0", "--pull", "0"}, flags...)...)
	})
	if x.err != nil {
		t.Fatal(x.err)
	}
	return x.s
}

// end holds everythingGivenBack and takes the sandbox down.
func (x *sharedSandbox) end() error {
	var err error
	if x.s != nil {
		if err = everythingGivenBack(x.s); err != nil {
			err = fmt.Errorf("after all tests of the shared sandbox: %w", err)
		}
		err = errors.Join(err, down(x.s))
	}
	if x.dir != "" {
		err = errors.Join(err, os.RemoveAll(x.dir))
	}
	return err
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := selectKubeletSeries(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The tests mostly wait for processes other than this one.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("4"); err != nil {
			panic(err) // the flag is a number
		}
	}
	status := m.Run()
	if err := common.end(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		status = 1
	}
	for _, wrong := range append(wrongRights(), wrongRefusals()...) {
		fmt.Fprintln(os.Stderr, "FAIL:", wrong)
		status = 1
	}
	os.Exit(status)
}

// everythingGivenBack holds after each test has taken its workload and pool away: no claim, no machine, and never two machines
// for one claim.
func everythingGivenBack(s *sandbox.Sandbox) error {
	err := waitFor(context.Background(), func(ctx context.Context) error {
		list, err := sandbox.Get[karpv1.NodeClaimList](ctx, s, claims)
		if err != nil {
			return err
		}
		left, err := s.Instances(ctx)
		if err != nil {
			return err
		}
		if len(list.Items)+len(left) > 0 {
			var names []string
			for _, c := range list.Items {
				names = append(names, "nodeclaim/"+c.Name)
			}
			for _, in := range left {
				names = append(names, "machine/"+in.ID+" of "+in.Pool+" ("+string(in.State)+")")
			}
			return fmt.Errorf("still there: %s", strings.Join(names, ", "))
		}
		return nil
	})
	if err != nil {
		return err
	}
	records, err := s.Journal(context.Background())
	if err != nil {
		return err
	}
	if len(records) == 0 {
		if flag.Lookup("test.run").Value.String() != "" {
			return nil // some tests alone buy nothing; all together do
		}
		return errors.New("the journal is empty, so it proves nothing")
	}
	return launchedOnce(records)
}

// launchedOnce says which claim has had more than one machine.
func launchedOnce(records []machines.Record) error {
	of := map[string]string{}
	for _, r := range records {
		if r.Kind != machines.RecordLaunched || r.ClaimUID == "" {
			continue
		}
		if first, ok := of[r.ClaimUID]; ok {
			return fmt.Errorf("claim %s (%s) was launched twice: machines %s and %s", r.Instance.ClaimName, r.ClaimUID, first, r.ID)
		}
		of[r.ClaimUID] = r.ID
	}
	return nil
}

// verifyOnly skips a test with -short, which is what `make test` gives: `make verify` runs it. Such a test takes long, or a sandbox of its own for
// what others show a part of.
func verifyOnly(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("part of make verify; -short was given")
	}
}

// shared is the common sandbox.
func shared(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	return common.get(t)
}

// own is a sandbox for this test alone.
func own(t testing.TB, flags ...string) *sandbox.Sandbox {
	t.Helper()
	s, err := up(t, filepath.Join(t.TempDir(), "sb"), append([]string{"--boot", "0", "--pull", "0"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := down(s); err != nil {
			t.Error(err)
		}
	})
	return s
}

// up brings a sandbox up with the node class that all pools use.
func up(t testing.TB, dir string, flags ...string) (*sandbox.Sandbox, error) {
	s, err := sandbox.Up(t.Context(), dir, append([]string{"--audit"}, flags...)...)
	if err != nil {
		return nil, err
	}
	if err := observe(s); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	err = s.Create(t.Context(), classes, "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the node class: %w", err), s.Down())
	}
	return s, nil
}

// waitFor asks until there is no error; otherwise it returns the last one.
func waitFor(ctx context.Context, ask func(context.Context) error) error {
	return testwait.Poll(ctx, testwait.Scale(limit), poll, ask)
}

// pace scales a time that is part of what a test does, such as how long a lease lasts or how long a rival keeps a node shut: on a slow machine all
// others need longer too. It is bounded, as such times add up. It is whole milliseconds.
func pace(d time.Duration) time.Duration {
	return time.Duration(float64(d) * min(4, testwait.Factor())).Round(time.Millisecond)
}

// env is one test's part of a sandbox.
type env struct {
	t    testing.TB
	ctx  context.Context
	s    *sandbox.Sandbox
	name string // of the namespace, of the pool, and value of the label that binds its pods to the pool's nodes

	others []string // pools of the test beside the one of its name
	dumped bool
}

// envNames are the names that newEnv has given out.
var envNames sync.Map // envName to the name of its test

type envName struct {
	s    *sandbox.Sandbox
	name string
}

// newEnv makes the namespace. In the end the test's workload, pool and claims are deleted, and not waited for: whether all is
// given back is seen once for all tests.
//
// A name is taken once in a sandbox, also by tests that have ended: the cloud's journal tells their machines apart by it. A test that -count runs
// again has it with a number.
func newEnv(t testing.TB, s *sandbox.Sandbox, name string) *env {
	t.Helper()
	wanted := name
	for n := 2; ; n++ {
		by, taken := envNames.LoadOrStore(envName{s, name}, t.Name())
		if !taken {
			break
		}
		if by != t.Name() {
			t.Fatalf("test %s of this sandbox has the name %s", by, name)
		}
		name = fmt.Sprintf("%s-%d", wanted, n)
	}
	e := &env{t: t, ctx: t.Context(), s: s, name: name}
	_, err := s.Kube.CoreV1().Namespaces().Create(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	e.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			e.dump()
		}
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(limit))
		defer cancel()
		remove := func(path, selector string) {
			if err := s.Delete(ctx, path, selector); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("clean up %s: %v", path, err)
			}
		}
		// Pods first: those of a node that is drained would be bought for again.
		remove("/api/v1/namespaces/"+name, "")
		if err := waitFor(ctx, e.noPods); err != nil {
			t.Errorf("clean up: %v", err)
		}
		remove(pools, "e2e="+name)
		for _, pool := range append(e.others, name) {
			remove(claims, karpv1.LabelNodePool+"="+pool)
		}
	})
	return e
}

// noPods says that the test has pods.
func (e *env) noPods(ctx context.Context) error {
	list, err := e.s.Kube.CoreV1().Pods(e.name).List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("namespace %s has %d pods", e.name, len(list.Items))
	}
	return err
}

// dump writes what helps to understand a failure, once.
func (e *env) dump() {
	if e.dumped {
		return
	}
	e.dumped = true
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(10*time.Second))
	defer cancel()
	e.t.Logf("the machine is %.1f times slower than a quiet one", testwait.Factor())
	if list, err := e.s.Kube.CoreV1().Pods(e.name).List(ctx, metav1.ListOptions{}); err == nil {
		for _, p := range list.Items {
			e.t.Logf("pod %s: %s on %q, deleting %v, tolerations %v, %s", p.Name, p.Status.Phase, p.Spec.NodeName, p.DeletionTimestamp, reservations(&p), podMessage(&p))
		}
	}
	for _, pool := range append(slices.Clone(e.others), e.name) {
		if p, err := sandbox.Get[karpv1.NodePool](ctx, e.s, pools+"/"+pool); err == nil {
			e.t.Logf("nodepool %s: %s", p.Name, conditionsText(p.Status.Conditions))
		}
		if list, err := sandbox.Get[karpv1.NodeClaimList](ctx, e.s, claims, "labelSelector", karpv1.LabelNodePool+"="+pool); err == nil {
			for _, c := range list.Items {
				e.t.Logf("nodeclaim %s: node %q, deleting %v, %s", c.Name, c.Status.NodeName, c.DeletionTimestamp, conditionsText(c.Status.Conditions))
			}
		}
		if list, err := e.s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: karpv1.LabelNodePool + "=" + pool}); err == nil {
			for _, n := range list.Items {
				e.t.Logf("node %s: deleting %v, taints %v", n.Name, n.DeletionTimestamp, n.Spec.Taints)
			}
		}
	}
	if list, err := e.s.Kube.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "reason=DisruptionBlocked"}); err == nil {
		for _, x := range list.Items {
			e.t.Logf("event %s on %s: %s", x.CreationTimestamp.Format(time.TimeOnly), x.InvolvedObject.Name, x.Message)
		}
	}
	if cs, err := e.s.Components(sandbox.Controller); err == nil {
		for _, c := range cs {
			e.t.Logf("end of the log of %s:\n%s", c.Name, e.s.LogTail(c.Name, 40, e.name, `"WARN"`, `"ERROR"`, "panic", "goroutine"))
		}
	}
	e.t.Logf("end of the log of %s:\n%s", sandbox.Scheduler, e.s.LogTail(sandbox.Scheduler, 10))
}

func podMessage(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func conditionsText(cs []metav1.Condition) string {
	var out []string
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%s=%s/%s %q", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(out, ", ")
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// until waits for something. When it does not come the test says what the cluster is like at that moment, and ends.
func (e *env) until(what string, ask func() error) {
	e.t.Helper()
	e.untilWithin(limit, what, ask)
}

// untilWithin is until with a limit of its own, for what may have to back off first.
func (e *env) untilWithin(limit time.Duration, what string, ask func() error) {
	e.t.Helper()
	err := testwait.Poll(e.ctx, testwait.Left(e.t, limit), poll, func(context.Context) error { return ask() })
	if err != nil {
		e.dump()
		e.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// nodePool makes the test's pool: any on-demand amd64 machine of the families c, m and r, which lives until nothing is on it, and
// then too. Fields are set by their dotted path; nil takes one away.
func (e *env) nodePool(set map[string]any) {
	e.t.Helper()
	e.must(e.tryNodePool(e.name, set))
}

// otherPool makes one more pool for the test's pods.
func (e *env) otherPool(name string, set map[string]any) {
	e.t.Helper()
	e.others = append(e.others, name)
	e.must(e.tryNodePool(name, set))
}

func (e *env) tryNodePool(name string, set map[string]any) error {
	return e.s.Create(e.ctx, pools, e.poolText(name, set))
}

func (e *env) poolText(name string, set map[string]any) string {
	e.t.Helper()
	var o map[string]any
	e.must(json.Unmarshal(fmt.Appendf(nil, `{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": %q, "labels": {"e2e": %[2]q}},
		"spec": {
			"template": {"metadata": {"labels": {%[3]q: %[2]q}}, "spec": {
				"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "expireAfter": "Never",
				"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
					{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
					{"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}]}},
			"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%%"}]}}}`,
		name, e.name, testLabel), &o))
	for path, v := range set {
		at := o
		keys := strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			next, ok := at[k].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[k] = next
			}
			at = next
		}
		if at[keys[len(keys)-1]] = v; v == nil {
			delete(at, keys[len(keys)-1])
		}
	}
	text, err := json.Marshal(o)
	e.must(err)
	return string(text)
}

// in is a requirement.
func in(key string, values ...string) map[string]any {
	return map[string]any{"key": key, "operator": "In", "values": values}
}

// only is the requirements of a pool of these on-demand types.
func only(types ...string) []any {
	return []any{in(karpv1.LabelCapacityType, karpv1.CapacityTypeOnDemand), in(corev1.LabelInstanceTypeStable, types...)}
}

// pod is the spec of a pod of this size that only the test's nodes can hold.
func (e *env) pod(cpu, memory string, change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	zero := int64(0)
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &zero, NodeSelector: map[string]string{testLabel: e.name},
			Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}},
		},
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

// bare is for pods that nobody makes again: they tolerate the NoExecute taint of nodes that are not registered. kube-controller-manager deletes a pod for
// it if it hears of the pod before it hears that the taint is gone.
func bare(t *corev1.PodTemplateSpec) {
	t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: model.TaintUnregistered, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
}

// deploy makes a Deployment whose pods bear the label app.
func (e *env) deploy(app string, replicas int32, t corev1.PodTemplateSpec) {
	e.t.Helper()
	t.Labels["app"] = app
	_, err := e.s.Kube.AppsV1().Deployments(e.name).Create(e.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: t},
	}, metav1.CreateOptions{})
	e.must(err)
}

func (e *env) scale(app string, replicas int) {
	e.t.Helper()
	e.must(e.s.Patch(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/deployments/"+app, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)))
}

// pods are the test's pods, by name.
func (e *env) pods() []corev1.Pod {
	e.t.Helper()
	list, err := e.s.Kube.CoreV1().Pods(e.name).List(e.ctx, metav1.ListOptions{})
	e.must(err)
	return list.Items
}

// podsRun waits until the test has exactly this many pods and all run, and returns them.
func (e *env) podsRun(n int) []corev1.Pod {
	e.t.Helper()
	var pods []corev1.Pod
	e.until(fmt.Sprintf("%d pods run", n), func() error {
		pods = e.pods()
		running := 0
		for i := range pods {
			if pods[i].DeletionTimestamp == nil && pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != n || len(pods) != n {
			return fmt.Errorf("%d pods, %d of them run", len(pods), running)
		}
		return nil
	})
	return pods
}

// podsRefused waits until kube-scheduler has found no place for this many pods.
func (e *env) podsRefused(n int) {
	e.t.Helper()
	e.until(fmt.Sprintf("kube-scheduler has refused %d pods", n), func() error {
		refused := 0
		for _, p := range e.pods() {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
					refused++
				}
			}
		}
		if refused != n {
			return fmt.Errorf("it has refused %d", refused)
		}
		return nil
	})
}

// claims are the claims of the test's pool, by name.
func (e *env) claims() []karpv1.NodeClaim {
	e.t.Helper()
	list, err := sandbox.Get[karpv1.NodeClaimList](e.ctx, e.s, claims, "labelSelector", karpv1.LabelNodePool+"="+e.name)
	e.must(err)
	return list.Items
}

// claimsAre waits until the test's pool has this many claims, none on its way out, and for each what holds.
func (e *env) claimsAre(n int, what string, holds func(*karpv1.NodeClaim) bool) []karpv1.NodeClaim {
	e.t.Helper()
	var have []karpv1.NodeClaim
	e.until(fmt.Sprintf("there are %d claims, all %s", n, what), func() error {
		have = e.claims()
		if len(have) != n {
			return fmt.Errorf("there are %d", len(have))
		}
		for i := range have {
			if have[i].DeletionTimestamp != nil {
				return fmt.Errorf("%s is being deleted", have[i].Name)
			}
			if !holds(&have[i]) {
				return fmt.Errorf("%s is not: %s", have[i].Name, conditionsText(have[i].Status.Conditions))
			}
		}
		return nil
	})
	return have
}

func ready(c *karpv1.NodeClaim) bool { return isTrue(c, karpv1.ConditionReady) }

func isTrue(c *karpv1.NodeClaim, condition string) bool {
	got := conditionOf(c.Status.Conditions, condition)
	return got != nil && got.Status == metav1.ConditionTrue
}

func conditionOf(cs []metav1.Condition, name string) *metav1.Condition {
	i := slices.IndexFunc(cs, func(c metav1.Condition) bool { return c.Type == name })
	if i < 0 {
		return nil
	}
	return &cs[i]
}

// nodes are the nodes of the test's pool, by name.
func (e *env) nodes() []corev1.Node {
	e.t.Helper()
	list, err := e.s.Kube.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{LabelSelector: testLabel + "=" + e.name})
	e.must(err)
	return list.Items
}

func (e *env) node(name string) *corev1.Node {
	e.t.Helper()
	n, err := e.s.Kube.CoreV1().Nodes().Get(e.ctx, name, metav1.GetOptions{})
	e.must(err)
	return n
}

// pool reads the test's pool.
func (e *env) pool() *karpv1.NodePool {
	e.t.Helper()
	p, err := sandbox.Get[karpv1.NodePool](e.ctx, e.s, pools+"/"+e.name)
	e.must(err)
	return p
}

// poolCondition waits until a pool's condition has this status, and returns it.
func (e *env) poolCondition(pool, name string, status metav1.ConditionStatus) metav1.Condition {
	e.t.Helper()
	var out metav1.Condition
	e.until(fmt.Sprintf("nodepool %s has %s %s", pool, name, status), func() error {
		p, err := sandbox.Get[karpv1.NodePool](e.ctx, e.s, pools+"/"+pool)
		if err != nil {
			return err
		}
		c := conditionOf(p.Status.Conditions, name)
		if c == nil || c.Status != status {
			return fmt.Errorf("conditions: %s", conditionsText(p.Status.Conditions))
		}
		out = *c
		return nil
	})
	return out
}

// launches are the machines that were bought for a pool, in order.
func (e *env) launches(pool string) []machines.Instance {
	e.t.Helper()
	records, err := e.s.Journal(e.ctx)
	e.must(err)
	e.must(launchedOnce(records))
	var out []machines.Instance
	for _, r := range records {
		if r.Kind == machines.RecordLaunched && r.Instance.Pool == pool {
			out = append(out, *r.Instance)
		}
	}
	return out
}

// standing are the pool's machines that are not terminated.
func (e *env) standing() []machines.Instance {
	e.t.Helper()
	all, err := e.s.Instances(e.ctx)
	e.must(err)
	return slices.DeleteFunc(all, func(in machines.Instance) bool { return in.Pool != e.name })
}

// event waits for an event about an object of the test's namespace, or of none, whose reason is this and whose message has all of
// these words in it.
func (e *env) event(kind, name, reason string, words ...string) corev1.Event {
	e.t.Helper()
	var out corev1.Event
	e.until(fmt.Sprintf("%s %s has an event %s with %q", kind, name, reason, words), func() error {
		var seen []string
		for _, ns := range []string{e.name, metav1.NamespaceDefault} {
			list, err := e.s.Kube.CoreV1().Events(ns).List(e.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind})
			if err != nil {
				return err
			}
			for _, ev := range list.Items {
				if !strings.HasPrefix(ev.InvolvedObject.Name, name) {
					continue
				}
				seen = append(seen, ev.Reason+": "+ev.Message)
				if ev.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(ev.Message, w) }) {
					out = ev
					return nil
				}
			}
		}
		return fmt.Errorf("its events: %q", seen)
	})
	return out
}

// reservations are the claims whose reservation a pod tolerates.
func reservations(p *corev1.Pod) []string {
	var out []string
	for _, t := range p.Spec.Tolerations {
		if t.Key == reservedTaint {
			out = append(out, t.Value)
		}
	}
	return out
}

// givenBack waits until nothing is left of the pool's nodes, claims and machines.
func (e *env) givenBack() {
	e.t.Helper()
	e.until("claims, nodes and machines are gone", func() error {
		c, n, m := e.claims(), e.nodes(), e.standing()
		if len(c)+len(n)+len(m) > 0 {
			return fmt.Errorf("%d claims, %d nodes, %d machines are left", len(c), len(n), len(m))
		}
		return nil
	})
}

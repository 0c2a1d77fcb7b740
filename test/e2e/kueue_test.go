// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	kueueAPI = "/apis/kueue.x-k8s.io/v1beta2/"
	runFor   = "sandbox.dovetail.sh/run-for" // how long the sandbox lets the pod of a Job run
)

// TestKueue runs Kueue's and JobSet's own controllers, compiled from their modules: Jobs and JobSets get a workload, a ProvisioningRequest, nodes, and
// run. The figures are logged. `make kueue` compiles the controllers and runs it.
func TestKueue(t *testing.T) {
	kueue := os.Getenv("KUEUE_BIN")
	if kueue == "" {
		t.Skip("KUEUE_BIN is not set: make kueue compiles the controllers and runs this test")
	}
	s := own(t, "--boot", "2s")
	e := newEnv(t, s, "kueue")
	crd, err := os.ReadFile("testdata/provisioningrequests.yaml")
	e.must(err)
	e.must(s.CreateCRD(e.ctx, string(crd)))
	stop, err := s.StartKueue(t.Context(), kueue, os.Getenv("JOBSET_BIN"))
	e.must(err)
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("end of the log of Kueue:\n%s", s.LogTail("kueue", 30))
		}
	})
	e.killLeader() // kinds are looked for at the start
	e.must(s.Create(e.ctx, kueueAPI+"resourceflavors", "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: default}}"))
	t.Run("classes", func(t *testing.T) { kueueClasses(t, s) })
	t.Run("compete", func(t *testing.T) { kueueCompetes(t, s, "compete", 10_000, 20) })
	t.Run("order", func(t *testing.T) { kueueCompetes(t, s, "order", 120, 10) })
	t.Run("fails", func(t *testing.T) { kueueNodeFails(t, s) })
}

// kueueQueue is a LocalQueue, and what runs in it.
type kueueQueue struct {
	*env
	jobs []*kueueJob // in the order of their creation
}

// kueueJob is a Job or a JobSet, and when what happened to it.
type kueueJob struct {
	name    string
	jobSet  bool
	pods    int
	request string // CPU of each pod

	created, quota, admitted, running time.Time // zero: it has not happened
	finished                          bool
	deactivated                       bool            // by Kueue, since its capacity was revoked
	node                              map[string]bool // on which its pods ran
}

// newKueueQueue makes a LocalQueue in a namespace of its own, whose workloads need capacity of a class of ProvisioningRequests and a quota of CPUs.
func newKueueQueue(t *testing.T, s *sandbox.Sandbox, name, class string, quota int) *kueueQueue {
	e := newEnv(t, s, name)
	config := fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ProvisioningRequestConfig, metadata: {name: %s}, spec: {provisioningClassName: %s.autoscaling.x-k8s.io, managedResources: [cpu], retryStrategy: {backoffLimitCount: 5, backoffBaseSeconds: 1, backoffMaxSeconds: 2}}}", name, class)
	check := fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: %[1]s}, spec: {controllerName: kueue.x-k8s.io/provisioning-request, parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: %[1]s}}}", name)
	queue := fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: %[1]s}, spec: {namespaceSelector: {}, queueingStrategy: StrictFIFO, resourceGroups: [{coveredResources: [cpu, memory], flavors: [{name: default, resources: [{name: cpu, nominalQuota: %[2]d}, {name: memory, nominalQuota: 100Ti}]}]}], admissionChecksStrategy: {admissionChecks: [{name: %[1]s}]}}}", name, quota)
	local := fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: queue}, spec: {clusterQueue: %s}}", name)
	e.must(s.Create(e.ctx, kueueAPI+"provisioningrequestconfigs", config))
	e.must(s.Create(e.ctx, kueueAPI+"admissionchecks", check))
	e.must(s.Create(e.ctx, kueueAPI+"clusterqueues", queue))
	e.must(s.Create(e.ctx, kueueAPI+"namespaces/"+name+"/localqueues", local))
	return &kueueQueue{env: e}
}

// job creates a Job whose pods run until the test finishes it.
func (q *kueueQueue) job(name string, pods int, cpu string) *kueueJob {
	q.t.Helper()
	n := int32(pods)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kueue.x-k8s.io/queue-name": "queue"}},
		Spec: batchv1.JobSpec{Parallelism: &n, Completions: &n, Template: q.pod(cpu, "1Gi", func(t *corev1.PodTemplateSpec) {
			t.Spec.RestartPolicy = corev1.RestartPolicyNever
			t.Annotations[runFor] = "24h"
		})}}
	_, err := q.s.Kube.BatchV1().Jobs(q.name).Create(q.ctx, j, metav1.CreateOptions{})
	q.must(err)
	return q.add(&kueueJob{name: name, pods: pods, request: cpu})
}

// set creates a JobSet of a leader and workers.
func (q *kueueQueue) set(name string, workers int, cpu string) *kueueJob {
	q.t.Helper()
	job := func(name string, pods int) string {
		return fmt.Sprintf("{name: %s, template: {spec: {parallelism: %[2]d, completions: %[2]d, template: {metadata: {annotations: {%s: 24h}}, spec: {restartPolicy: Never, nodeSelector: {%s: %s}, containers: [{name: c, image: pause, resources: {requests: {cpu: %s, memory: 1Gi}}}]}}}}}",
			name, pods, runFor, testLabel, q.name, cpu)
	}
	q.must(q.s.Create(q.ctx, "/apis/jobset.x-k8s.io/v1alpha2/namespaces/"+q.name+"/jobsets",
		fmt.Sprintf("{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: queue}}, spec: {replicatedJobs: [%s, %s]}}", name, job("leader", 1), job("worker", workers))))
	return q.add(&kueueJob{name: name, jobSet: true, pods: workers + 1, request: cpu})
}

// add adds a Job or a JobSet that was created just now.
func (q *kueueQueue) add(j *kueueJob) *kueueJob {
	j.created, j.node = time.Now(), map[string]bool{}
	q.jobs = append(q.jobs, j)
	return j
}

// look reads what has become of the queue's jobs, and returns how many pods of each run.
func (q *kueueQueue) look() (map[*kueueJob]int, error) {
	now := time.Now()
	workloads, err := sandbox.Get[struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Spec     struct{ Active *bool }
			Status   struct{ Conditions []metav1.Condition }
		}
	}](q.ctx, q.s, kueueAPI+"namespaces/"+q.name+"/workloads")
	if err != nil {
		return nil, err
	}
	for _, w := range workloads.Items {
		for _, j := range q.jobs {
			if !slices.ContainsFunc(w.Metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Name == j.name }) {
				continue
			}
			j.deactivated = w.Spec.Active != nil && !*w.Spec.Active
			for _, x := range []struct {
				condition string
				at        *time.Time
			}{{"QuotaReserved", &j.quota}, {"Admitted", &j.admitted}} {
				if c := conditionOf(w.Status.Conditions, x.condition); c != nil && c.Status == metav1.ConditionTrue && x.at.IsZero() {
					*x.at = now
				}
			}
		}
	}
	running := map[*kueueJob]int{}
	for _, p := range q.pods() {
		for _, j := range q.jobs {
			if j.owns(&p) && p.Status.Phase == corev1.PodRunning {
				running[j]++
				j.node[p.Spec.NodeName] = true
			}
		}
	}
	for _, j := range q.jobs {
		if running[j] == j.pods && j.running.IsZero() {
			j.running = now
		}
	}
	return running, nil
}

func (j *kueueJob) owns(p *corev1.Pod) bool {
	if j.jobSet {
		return p.Labels["jobset.sigs.k8s.io/jobset-name"] == j.name
	}
	return p.Labels[batchv1.JobNameLabel] == j.name
}

// finish makes all pods of a job succeed. None of them may be gone: nobody may take away a part of a job that runs.
func (q *kueueQueue) finish(j *kueueJob) {
	q.t.Helper()
	for _, p := range q.pods() {
		if j.owns(&p) && p.Status.Phase == corev1.PodRunning {
			_, err := q.s.Kube.CoreV1().Pods(q.name).Patch(q.ctx, p.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			q.must(err)
		}
	}
	j.finished = true
}

// play waits until each job has run, or has been deactivated, which fails the test. A job is finished once all of its pods run at the same time, and
// only while no job has a part of its pods running: one that needed the capacity of another for the rest of them would never run.
func (q *kueueQueue) play() {
	q.t.Helper()
	q.until("each job has run", func() error {
		running, err := q.look()
		if err != nil {
			return err
		}
		var part, wait []string
		for _, j := range q.jobs {
			if n := running[j]; j.finished || j.deactivated {
				continue
			} else if n > 0 && n < j.pods {
				part = append(part, fmt.Sprintf("%s (%d of %d)", j.name, n, j.pods))
			} else if n == 0 {
				wait = append(wait, fmt.Sprintf("%s (%d)", j.name, j.pods))
			}
		}
		if i := slices.IndexFunc(q.jobs, func(j *kueueJob) bool { return !j.finished && !j.deactivated && running[j] == j.pods }); i >= 0 && len(part) == 0 {
			q.finish(q.jobs[i]) // one between two looks, which say when the others run
		}
		for _, j := range q.jobs {
			if !j.finished && !j.deactivated {
				return fmt.Errorf("a part of their pods run: %v; none run: %v", part, wait)
			}
		}
		return nil
	})
	for _, j := range q.jobs {
		if j.deactivated {
			q.t.Errorf("the capacity of %s was revoked with a part of its pods running, and Kueue has deactivated it", j.name)
		}
	}
}

// figures logs when what happened to each job.
func (q *kueueQueue) figures() {
	q.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %5s %6s %8s %10s %10s %8s %10s\n", "job", "pods", "cpu", "quota", "admitted", "running", "nodes", "overtaken")
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
	var starts []float64
	for _, j := range q.jobs {
		if j.running.IsZero() {
			fmt.Fprintf(&b, "%-12s %5d %6s did not run\n", j.name, j.pods, j.request)
			continue
		}
		overtaken := 0
		for _, k := range q.jobs {
			if k.created.After(j.created) && !k.running.IsZero() && k.running.Before(j.running) {
				overtaken++
			}
		}
		starts = append(starts, j.running.Sub(j.admitted).Seconds())
		fmt.Fprintf(&b, "%-12s %5d %6s %8s %10s %10s %8d %10d\n", j.name, j.pods, j.request, seconds(j.quota.Sub(j.created)), seconds(j.admitted.Sub(j.created)),
			seconds(j.running.Sub(j.created)), len(j.node), overtaken)
	}
	slices.Sort(starts)
	q.t.Logf("seconds since each job was created, until it has its quota, is admitted and runs:\n%sfrom admission until all pods run: median %.1f s, at most %.1f s", b.String(), starts[len(starts)/2], starts[len(starts)-1])
}

// kueueClasses: a Job and a JobSet get nodes for all of their pods and run; with class check-capacity, a Job runs on free capacity only.
func kueueClasses(t *testing.T, s *sandbox.Sandbox) {
	q := newKueueQueue(t, s, "atomic", "best-effort-atomic-scale-up", 100)
	q.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.limits.nodes": "4"})
	q.job("job", 8, "1500m")
	q.play()
	if os.Getenv("JOBSET_BIN") != "" {
		q.set("set", 7, "1500m")
		q.play()
	}
	q.figures()
	if n := len(q.launches(q.name)); n != 4 {
		t.Errorf("%d nodes were launched for two sets of eight pods, of which each node holds two and one set runs after the other; want 4", n)
	}
	c := newKueueQueue(t, s, "check", "check-capacity", 100)
	c.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	c.deploy("filler", 1, c.pod("2", "1Gi"))
	c.podsRun(1)
	c.job("fits", 2, "700m")
	large := c.job("large", 3, "700m")
	c.until("the Job that fits runs", func() error {
		running, err := c.look()
		if err == nil && running[c.jobs[0]] != 2 {
			err = fmt.Errorf("%v of its pods run", running[c.jobs[0]])
		}
		return err
	})
	c.finish(c.jobs[0])
	c.scale("filler", 0)
	c.play() // the other runs once there is enough capacity
	c.figures()
	if large.running.IsZero() || len(c.launches(c.name)) != 1 {
		t.Errorf("%d nodes were launched, want 1: none for Jobs that only check capacity", len(c.launches(c.name)))
	}
}

// kueueCompetes: the limit of the NodePool, 160 CPUs, holds a few of many Jobs of 8 to 64 pods at a time. Each should run with all of its pods at
// once. If the quota is larger than the limit, Dovetail decides which Job is next; if it is smaller, Kueue does.
func kueueCompetes(t *testing.T, s *sandbox.Sandbox, name string, quota, jobs int) {
	q := newKueueQueue(t, s, name, "best-effort-atomic-scale-up", quota)
	q.nodePool(map[string]any{"spec.limits.cpu": "160", "spec.disruption": map[string]any{
		"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": []any{map[string]any{"nodes": "100%"}}}})
	r := rand.New(rand.NewPCG(20, 64))
	for i := range jobs {
		cpu := []string{"500m", "1", "1500m", "2"}[r.IntN(4)]
		q.job(fmt.Sprintf("job-%02d", i), 8+r.IntN(57), cpu)
	}
	q.play()
	q.figures()
	t.Logf("%d nodes were launched", len(q.launches(q.name)))
}

// kueueNodeFails: one of a Job's nodes never registers. The Job does not start before it has another node, and then runs.
func kueueNodeFails(t *testing.T, s *sandbox.Sandbox) {
	q := newKueueQueue(t, s, "failing", "best-effort-atomic-scale-up", 100)
	q.faults(machines.Fault{Kind: machines.NeverRegisters, InstanceType: "m5.xlarge", Count: 1})
	q.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	j := q.job("job", 16, "1500m")
	q.spent()
	var mute string
	q.until("all nodes but one are there", func() error {
		mute = ""
		missing := 0
		for _, c := range q.claims() {
			if !isTrue(&c, karpv1.ConditionRegistered) {
				missing, mute = missing+1, c.Name
			}
		}
		if missing != 1 || len(q.nodes()) != 7 {
			return fmt.Errorf("%d claims are not registered, and there are %d nodes", missing, len(q.nodes()))
		}
		return nil
	})
	if running, err := q.look(); err != nil || running[j] > 0 || !j.admitted.IsZero() {
		t.Errorf("%d pods run, admitted at %v, while a node is missing: %v", running[j], j.admitted, err)
	}
	q.must(s.Delete(q.ctx, claims+"/"+mute, "")) // as after the registration timeout
	q.play()
	q.figures()
	if n := len(q.launches(q.name)); n != 9 {
		t.Errorf("%d nodes were launched, want 8 and one in place of the one that failed", n)
	}
}

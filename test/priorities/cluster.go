// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// priorities are the priority classes, lowest first. Pods of the last but one never preempt others.
var priorities = []struct {
	name  string
	value int32
	never bool
}{{"batch", -100, false}, {"low", 0, false}, {"normal", 1000, false}, {"patient", 10_000, true}, {"urgent", 100_000, false}}

// workload is a Deployment.
type workload struct {
	name, priority  string
	cpuMilli, memMi int64
	usual, replicas int
	budget          bool
}

// cluster is the sandbox, what is wanted of it, and what its watches have told.
type cluster struct {
	options
	s          *sandbox.Sandbox
	catalog    string
	metricsURL string
	rnd        *rand.Rand
	workloads  []workload
	prices     map[string]map[string]float64 // dollars an hour, by instance type and capacity type

	events  chan func()
	changed time.Time // when a pod was last bound, evicted or created, or a claim created or deleted
	pods    map[string]*pod
	claims  map[string]*claim
	growth  []wantedAt
}

// wantedAt is how much processor time all Deployments wanted from an instant on.
type wantedAt struct {
	at    time.Time
	milli int64
}

type pod struct {
	running, bound, deleting bool
	preempted, evicted       time.Time
}

type claim struct {
	created, removed time.Time
	instanceType     string
	capacityType     string
}

// newCluster draws the workloads.
func newCluster(o options) *cluster {
	c := &cluster{options: o, rnd: rand.New(rand.NewPCG(o.seed, 72)), prices: scaledown.Prices(),
		events: make(chan func(), 1<<16), pods: map[string]*pod{}, claims: map[string]*claim{}}
	cpus, mems := []int64{100, 250, 500, 750, 1000, 1500}, []int64{128, 256, 512, 1024, 2048, 4096}
	for i := range o.workloads {
		at := c.rnd.IntN(len(cpus))
		usual := 4 + c.rnd.IntN(17)
		c.workloads = append(c.workloads, workload{name: fmt.Sprintf("work-%02d", i), priority: priorities[i%len(priorities)].name,
			cpuMilli: cpus[at], memMi: mems[max(0, min(len(mems)-1, at+c.rnd.IntN(3)-1))], usual: usual, replicas: usual, budget: i%2 == 0})
	}
	return c
}

func (c *cluster) wanted() (pods int) {
	for _, w := range c.workloads {
		pods += w.replicas
	}
	return pods
}

// grew notes what is wanted now.
func (c *cluster) grew() {
	var milli int64
	for _, w := range c.workloads {
		milli += int64(w.replicas) * w.cpuMilli
	}
	c.growth = append(c.growth, wantedAt{time.Now(), milli})
}

// wantedWhen returns how much processor time was wanted at an instant, in thousandths.
func (c *cluster) wantedWhen(at time.Time) (milli int64) {
	for _, g := range c.growth {
		if g.at.After(at) {
			break
		}
		milli = g.milli
	}
	return milli
}

// deployment returns the manifest of a workload.
func (w *workload) deployment() *appsv1.Deployment {
	labels, replicas, grace := map[string]string{"app": w.name}, int32(w.replicas), int64(5)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				PriorityClassName: w.priority, TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(w.cpuMilli, resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(w.memMi<<20, resource.BinarySI)}}}}}}},
	}
}

// priorityClasses returns the manifests of the priority classes.
func priorityClasses() (out []*schedulingv1.PriorityClass) {
	for _, p := range priorities {
		policy := corev1.PreemptLowerPriority
		if p.never {
			policy = corev1.PreemptNever
		}
		out = append(out, &schedulingv1.PriorityClass{TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"},
			ObjectMeta: metav1.ObjectMeta{Name: p.name}, Value: p.value, PreemptionPolicy: &policy})
	}
	return out
}

// createAll creates priority classes, PodDisruptionBudgets and Deployments.
func (c *cluster) createAll(ctx context.Context) error {
	for _, p := range priorityClasses() {
		if _, err := c.s.Kube.SchedulingV1().PriorityClasses().Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range c.workloads {
		w := &c.workloads[i]
		if w.budget {
			share := intstr.FromString("25%")
			if _, err := c.s.Kube.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: w.name},
				Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &share, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}}}, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if _, err := c.s.Kube.AppsV1().Deployments("default").Create(ctx, w.deployment(), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	c.changed = time.Now()
	c.grew()
	return nil
}

// scale sets how many pods of a workload are wanted.
func (c *cluster) scale(ctx context.Context, i, replicas int) error {
	c.workloads[i].replicas = replicas
	c.changed = time.Now()
	c.grew()
	return c.s.Patch(ctx, "/apis/apps/v1/namespaces/default/deployments/"+c.workloads[i].name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// watch follows pods and NodeClaims.
func (c *cluster) watch(ctx context.Context) error {
	config, err := c.s.Config(sandbox.Admin)
	if err != nil {
		return err
	}
	config.QPS = -1
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	follow := func(i cache.SharedIndexInformer, see func(o any, gone bool)) error {
		tell := func(gone bool) func(any) {
			return func(o any) {
				if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = d.Obj
				}
				c.events <- func() { see(o, gone) }
			}
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell(false), UpdateFunc: func(_, o any) { tell(false)(o) }, DeleteFunc: tell(true)})
		return err
	}
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	claims := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	err = errors.Join(
		follow(pods.Core().V1().Pods().Informer(), func(o any, gone bool) {
			if p, ok := o.(*corev1.Pod); ok {
				c.seePod(p, gone)
			}
		}),
		follow(claims.ForResource(karpv1.GroupVersion.WithResource("nodeclaims")).Informer(), func(o any, gone bool) {
			if m, ok := o.(metav1.Object); ok {
				c.seeClaim(m, gone)
			}
		}))
	if err != nil {
		return err
	}
	pods.Start(ctx.Done())
	claims.Start(ctx.Done())
	pods.WaitForCacheSync(ctx.Done())
	claims.WaitForCacheSync(ctx.Done())
	return nil
}

func (c *cluster) seePod(o *corev1.Pod, gone bool) {
	now := time.Now()
	p := c.pods[string(o.UID)]
	if p == nil {
		p = &pod{}
		c.pods[string(o.UID)], c.changed = p, now
	}
	if !p.bound && o.Spec.NodeName != "" {
		p.bound, c.changed = true, now
	}
	for _, x := range o.Status.Conditions {
		if x.Type != corev1.DisruptionTarget || x.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case x.Reason == corev1.PodReasonPreemptionByScheduler && p.preempted.IsZero():
			p.preempted, c.changed = now, now
		case x.Reason == "EvictionByEvictionAPI" && p.evicted.IsZero():
			p.evicted, c.changed = now, now
		}
	}
	p.running, p.deleting = o.Status.Phase == corev1.PodRunning && !gone, gone || o.DeletionTimestamp != nil
}

func (c *cluster) seeClaim(o metav1.Object, gone bool) {
	now := time.Now()
	x := c.claims[string(o.GetUID())]
	if x == nil {
		x = &claim{created: now}
		c.claims[string(o.GetUID())], c.changed = x, now
	}
	if t := o.GetLabels()[corev1.LabelInstanceTypeStable]; t != "" {
		x.instanceType, x.capacityType = t, o.GetLabels()[karpv1.LabelCapacityType]
	}
	if x.removed.IsZero() && (gone || o.GetDeletionTimestamp() != nil) {
		x.removed, c.changed = now, now
	}
}

// idle follows the cluster for a time.
func (c *cluster) idle(ctx context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		select {
		case e := <-c.events:
			e()
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle waits until all pods that are wanted are running and nothing has changed for consolidateAfter and ten seconds more.
func (c *cluster) settle(ctx context.Context) error {
	still := c.after + 10*time.Second
	for limit := time.Now().Add(10 * time.Minute); time.Now().Before(limit); {
		if err := c.idle(ctx, time.Second); err != nil {
			return err
		}
		if c.running() == c.wanted() && time.Since(c.changed) > still {
			return nil
		}
	}
	return fmt.Errorf("not at rest after ten minutes: %d of %d pods are running, the last change was %s ago", c.running(), c.wanted(), time.Since(c.changed).Round(time.Second))
}

func (c *cluster) running() (n int) {
	for _, p := range c.pods {
		if p.running && !p.deleting {
			n++
		}
	}
	return n
}

func (c *cluster) nodes() (n int) {
	for _, x := range c.claims {
		if x.removed.IsZero() {
			n++
		}
	}
	return n
}

// price returns what the nodes cost, in dollars an hour.
func (c *cluster) price() (usd float64, err error) {
	for _, x := range c.claims {
		if !x.removed.IsZero() {
			continue
		}
		price, ok := c.prices[x.instanceType][x.capacityType]
		if !ok {
			return 0, fmt.Errorf("a node is of type %q and capacity type %q, which the catalogue doesn't have", x.instanceType, x.capacityType)
		}
		usd += price
	}
	return usd, nil
}

// again is how soon after a removal a launch counts as launching again what was removed.
const again = time.Minute

// count returns what has happened since an instant.
func (c *cluster) count(since time.Time) (out Phase) {
	var removals []time.Time
	for _, x := range c.claims {
		if x.removed.After(since) {
			out.Removed++
			removals = append(removals, x.removed)
		}
	}
	slices.SortFunc(removals, time.Time.Compare)
	var launches []time.Time
	for _, x := range c.claims {
		if x.created.After(since) {
			out.Launched++
			launches = append(launches, x.created)
		}
	}
	slices.SortFunc(launches, time.Time.Compare)
	for _, l := range launches {
		// A removal excuses at most one launch; a launch for pods that were not wanted then is not one again.
		i := slices.IndexFunc(removals, func(r time.Time) bool {
			return l.After(r) && l.Sub(r) <= again && c.wantedWhen(l) <= c.wantedWhen(r)
		})
		if i >= 0 {
			removals = slices.Delete(removals, i, i+1)
			out.LaunchedAgain++
		}
	}
	for _, p := range c.pods {
		if p.preempted.After(since) {
			out.Preemptions++
		}
		if p.evicted.After(since) {
			out.Evictions++
		}
	}
	return out
}

// counters are the controller's own counts of nodes.
type counters struct{ disrupted, takenBack float64 }

// scrape reads the controller's metrics.
func (c *cluster) scrape(ctx context.Context) (out counters, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.metricsURL, nil)
	if err != nil {
		return out, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(prommodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return out, fmt.Errorf("read %s: %w", c.metricsURL, err)
	}
	sum := func(name string) (v float64) {
		for _, m := range families[name].GetMetric() {
			v += m.GetCounter().GetValue()
		}
		return v
	}
	return counters{sum("karpenter_voluntary_disruption_decisions_total"), sum("karpenter_voluntary_disruption_queue_failures_total")}, nil
}

// bound returns the proven bound on the cost of the pods that are wanted, launched for from nothing, in dollars an hour.
func (c *cluster) bound(ctx context.Context) (float64, error) {
	pool, err := sandbox.Get[map[string]any](ctx, c.s, "/apis/karpenter.sh/v1/nodepools/default")
	if err != nil {
		return 0, err
	}
	class, err := sandbox.Get[map[string]any](ctx, c.s, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default")
	if err != nil {
		return 0, err
	}
	objects := []any{pool, class}
	for _, p := range priorityClasses() {
		objects = append(objects, p)
	}
	for i := range c.workloads {
		objects = append(objects, c.workloads[i].deployment())
	}
	var text strings.Builder
	for _, o := range objects {
		b, err := yaml.Marshal(o)
		if err != nil {
			return 0, err
		}
		text.WriteString("---\n")
		text.Write(b)
	}
	file := filepath.Join(c.dir, "wanted.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return 0, err
	}
	_, bin, err := sandbox.Binaries()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, bin, "plan", "-f", file, "--catalog", c.catalog, "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("dovetail plan: %w", err)
	}
	var plan struct {
		Cost struct {
			Bound float64 `json:"lowerBoundPerHour"`
		} `json:"cost"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return 0, err
	}
	return plan.Cost.Bound, nil
}

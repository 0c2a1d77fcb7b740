// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"encoding/json"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
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

// cluster is the cluster and what is wanted of it.
type cluster struct {
	options
	*watch.Cluster
	catalog   string
	rnd       *rand.Rand
	workloads []workload
	growth    []wantedAt
}

// wantedAt is how much processor time and memory all Deployments wanted from an instant on.
type wantedAt struct {
	at          time.Time
	milli, mebi int64
}

// newCluster draws the workloads.
func newCluster(o options) *cluster {
	c := &cluster{options: o, rnd: rand.New(rand.NewPCG(o.seed, 72))}
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
	now := wantedAt{at: time.Now()}
	for _, w := range c.workloads {
		now.milli, now.mebi = now.milli+int64(w.replicas)*w.cpuMilli, now.mebi+int64(w.replicas)*w.memMi
	}
	c.growth = append(c.growth, now)
}

// wantedWhen returns what was wanted at an instant.
func (c *cluster) wantedWhen(at time.Time) (wanted wantedAt) {
	for _, g := range c.growth {
		if g.at.After(at) {
			break
		}
		wanted = g
	}
	return wanted
}

// covers reports whether at least as much of each resource was wanted as at another instant.
func (w wantedAt) covers(other wantedAt) bool { return w.milli >= other.milli && w.mebi >= other.mebi }

// deployment returns the manifest of a workload.
func (w *workload) deployment() *appsv1.Deployment {
	d := scaledown.Deployment(w.name, w.replicas, 5, fmt.Sprintf("%dm", w.cpuMilli), fmt.Sprintf("%dMi", w.memMi))
	d.Spec.Template.Spec.PriorityClassName = w.priority
	return d
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
		if _, err := c.Sandbox.Kube.SchedulingV1().PriorityClasses().Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range c.workloads {
		w := &c.workloads[i]
		if w.budget {
			share := intstr.FromString("25%")
			if _, err := c.Sandbox.Kube.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: w.name},
				Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &share, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}}}, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if err := scaledown.Deploy(ctx, c.Sandbox, w.deployment()); err != nil {
			return err
		}
	}
	c.Changed = time.Now()
	c.grew()
	return nil
}

// scale sets how many pods of a workload are wanted.
func (c *cluster) scale(ctx context.Context, i, replicas int) error {
	c.workloads[i].replicas = replicas
	c.Changed = time.Now()
	c.grew()
	return c.Sandbox.Patch(ctx, "/apis/apps/v1/namespaces/default/deployments/"+c.workloads[i].name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// settle waits until all pods that are wanted are running and nothing has changed for consolidateAfter and seventy seconds more: Dovetail launches
// no replacement within a minute of a removal.
func (c *cluster) settle(ctx context.Context) error {
	still := c.after + 70*time.Second
	return c.Until(ctx, fmt.Sprintf("%d running pods and a stable cluster", c.wanted()), 10*time.Minute, func() bool {
		return time.Since(c.Changed) > still && c.Running() == c.wanted()
	})
}

// again is how soon after a removal a launch counts as launching again what was removed.
const again = time.Minute

// count returns what has happened since an instant.
func (c *cluster) count(since time.Time) (out Phase) {
	var removals []time.Time
	for _, x := range c.Claims {
		if x.Removed.After(since) {
			out.Removed++
			removals = append(removals, x.Removed)
		}
	}
	slices.SortFunc(removals, time.Time.Compare)
	var launches []time.Time
	for _, x := range c.Claims {
		if x.Created.After(since) {
			out.Launched++
			launches = append(launches, x.Created)
		}
	}
	slices.SortFunc(launches, time.Time.Compare)
	for _, l := range launches {
		// A removal excuses at most one launch; a launch for pods that were not wanted then is not one again.
		i := slices.IndexFunc(removals, func(r time.Time) bool {
			return l.After(r) && l.Sub(r) <= again && c.wantedWhen(r).covers(c.wantedWhen(l))
		})
		if i >= 0 {
			removals = slices.Delete(removals, i, i+1)
			out.LaunchedAgain++
		}
	}
	for _, p := range c.Pods {
		switch {
		case !p.Disrupted.After(since):
		case p.Disruption == corev1.PodReasonPreemptionByScheduler:
			out.Preemptions++
		case p.Disruption == "EvictionByEvictionAPI":
			out.Evictions++
		}
	}
	return out
}

// counters are the controller's own counts of nodes.
type counters struct{ disrupted, takenBack float64 }

// scrape reads the controller's metrics.
func (c *cluster) scrape(ctx context.Context) (out counters, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.MetricsURL, nil)
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
		return out, fmt.Errorf("read %s: %w", c.MetricsURL, err)
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
	pool, err := sandbox.Get[map[string]any](ctx, c.Sandbox, "/apis/karpenter.sh/v1/nodepools/default")
	if err != nil {
		return 0, err
	}
	class, err := sandbox.Get[map[string]any](ctx, c.Sandbox, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default")
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

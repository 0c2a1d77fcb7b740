// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package metricseries runs a short series of events on a sandbox, whichever autoscaler it has, so that all that an
// autoscaler measures has something to measure: a burst of pods, drift, consolidation of empty and of underutilized nodes,
// an interruption, and a node that somebody deletes. Nodes and pods are left at its end. It scrapes the autoscaler's
// metrics meanwhile, and judges nothing. Start reading at Run.
package metricseries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	namespace = "default"
	pools     = "/apis/karpenter.sh/v1/nodepools"
	claims    = "/apis/karpenter.sh/v1/nodeclaims"
	classes   = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
	every     = time.Second // between two scrapes
)

// Options say what to run.
type Options struct {
	Metrics   string                           // URL of the autoscaler's metrics
	Interrupt bool                             // the autoscaler is told of interruptions
	Log       func(format string, args ...any) // of each step
}

// Scrape is one answer of the autoscaler's metrics, in the text format.
type Scrape struct {
	At   time.Time
	Text []byte
}

type run struct {
	Options
	s *sandbox.Sandbox
}

// Run runs the series and returns all scrapes, oldest first. The sandbox has the types of scaledown.WriteCatalogue, and neither
// pools nor pods.
func Run(ctx context.Context, s *sandbox.Sandbox, o Options) (scrapes []Scrape, err error) {
	r := &run{o, s}
	scraping, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { scrapes = scrapeUntilDone(scraping, o.Metrics) })
	defer func() {
		time.Sleep(2 * every) // what happened last is in the last scrapes
		stop()
		done.Wait()
		if err == nil && len(scrapes) < 3 {
			err = fmt.Errorf("%s answered %d times", o.Metrics, len(scrapes))
		}
	}()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"a burst of pods", r.burst},
		{"drift", r.drift},
		{"consolidation", r.consolidate},
		{"an interruption", r.interrupt},
		{"a deleted node", r.deleteNode},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		o.Log("%s: %.1f s", step.name, time.Since(began).Seconds())
	}
	return nil, nil
}

// scrapeUntilDone scrapes until the context ends. A scrape that fails is left out: a process may still be starting.
func scrapeUntilDone(ctx context.Context, url string) (out []Scrape) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return out
		case <-tick.C:
			if text, err := get(ctx, url); err == nil {
				out = append(out, Scrape{time.Now(), text})
			}
		}
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, res.Status)
	}
	return io.ReadAll(res.Body)
}

// burst has four pods of web on two nodes of NodePool web, and one of batch on a node of NodePool batch.
func (r *run) burst(ctx context.Context) error {
	if err := r.s.Create(ctx, classes, "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}"); err != nil {
		return err
	}
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: selector("agent"), Template: pod("agent", "50m", "100Mi")}}
	if _, err := r.s.Kube.AppsV1().DaemonSets(namespace).Create(ctx, daemon, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, d := range []struct {
		name, cpu string
		replicas  int32
	}{{"web", "900m", 4}, {"batch", "900m", 1}} {
		if err := r.s.Create(ctx, pools, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: `+d.name+`}, spec: {limits: {cpu: 100, memory: 1000Gi},
			template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never,
			requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [c-2x-amd64-linux]}, {key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}},
			disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1s, budgets: [{nodes: "100%"}]}}}`); err != nil {
			return err
		}
		template := pod(d.name, d.cpu, "500Mi")
		template.Spec.NodeSelector = map[string]string{karpv1.LabelNodePool: d.name}
		if _, err := r.s.Kube.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: d.name},
			Spec: appsv1.DeploymentSpec{Replicas: &d.replicas, Selector: selector(d.name), Template: template}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return r.waitForNodes(ctx, 3, nil)
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func pod(app, cpu, memory string) corev1.PodTemplateSpec {
	needs := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: needs, Limits: needs}}}}}
}

// drift changes what NodePool batch gives its node, so that it is replaced.
func (r *run) drift(ctx context.Context) error {
	before, _, err := r.claims(ctx)
	if err != nil {
		return err
	}
	before = slices.DeleteFunc(before, func(c karpv1.NodeClaim) bool { return c.Labels[karpv1.LabelNodePool] != "batch" })
	if err := r.s.Patch(ctx, pools+"/batch", `{"spec":{"template":{"metadata":{"annotations":{"example.com/generation":"2"}}}}}`); err != nil {
		return err
	}
	return r.waitForClaims(ctx, 3, before)
}

// consolidate leaves the node of batch empty and those of web half empty.
func (r *run) consolidate(ctx context.Context) error {
	list, err := r.s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	marked := map[string]bool{} // by node: which pods go is not left to chance, one of each node does
	for i := range list.Items {
		p := &list.Items[i]
		if marked[p.Spec.NodeName] {
			continue
		}
		marked[p.Spec.NodeName] = true
		if err := r.s.Patch(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+p.Name, `{"metadata":{"annotations":{"`+corev1.PodDeletionCost+`":"-1"}}}`); err != nil {
			return err
		}
	}
	for name, replicas := range map[string]int32{"batch": 0, "web": 2} {
		if err := r.s.Patch(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)); err != nil {
			return err
		}
	}
	return r.waitForClaims(ctx, 1, nil)
}

// interrupt has the cloud announce that it takes all nodes.
func (r *run) interrupt(ctx context.Context) error {
	if !r.Interrupt {
		return nil
	}
	before, _, err := r.claims(ctx)
	if err != nil {
		return err
	}
	if err := r.s.AddFaults(ctx, machines.Fault{Kind: machines.Interrupt, CapacityType: karpv1.CapacityTypeSpot, Delay: machines.Duration(2 * time.Minute)}); err != nil {
		return err
	}
	return r.waitForNodes(ctx, 1, before)
}

// deleteNode deletes a node as somebody would with kubectl.
func (r *run) deleteNode(ctx context.Context) error {
	before, _, err := r.claims(ctx)
	if err != nil {
		return err
	}
	if err := r.s.Delete(ctx, "/api/v1/nodes/"+before[0].Status.NodeName, ""); err != nil {
		return err
	}
	return r.waitForNodes(ctx, 1, before[:1])
}

// claims returns the NodeClaims that are not being deleted, and how many are.
func (r *run) claims(ctx context.Context) (staying []karpv1.NodeClaim, leaving int, err error) {
	list, err := sandbox.Get[karpv1.NodeClaimList](ctx, r.s, claims)
	if err != nil {
		return nil, 0, err
	}
	staying = slices.DeleteFunc(list.Items, func(c karpv1.NodeClaim) bool { return c.DeletionTimestamp != nil })
	return staying, len(list.Items) - len(staying), nil
}

// waitForClaims returns when there are so many NodeClaims beside those being deleted, all initialized and none of these.
func (r *run) waitForClaims(ctx context.Context, n int, gone []karpv1.NodeClaim) error {
	return wait(ctx, func() (string, error) {
		missing, _, err := r.missingClaims(ctx, n, gone)
		return missing, err
	})
}

// waitForNodes returns when there are so many NodeClaims, all initialized and none of these, and all pods run.
func (r *run) waitForNodes(ctx context.Context, n int, gone []karpv1.NodeClaim) error {
	return wait(ctx, func() (string, error) {
		missing, leaving, err := r.missingClaims(ctx, n, gone)
		if err != nil || missing != "" {
			return missing, err
		}
		if leaving > 0 {
			return fmt.Sprintf("%d NodeClaims are being deleted", leaving), nil
		}
		pods, err := r.s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, p := range pods.Items {
			if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
				return "pod " + p.Name + " does not run", nil
			}
		}
		return "", nil
	})
}

// patience is how long one step may take.
func patience() time.Duration { return testwait.Scale(2 * time.Minute) }

// wait asks again and again what is missing until nothing is.
func wait(ctx context.Context, ask func() (missing string, err error)) error {
	limit := patience()
	end := time.Now().Add(limit)
	for {
		missing, err := ask()
		if err == nil && missing == "" {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("not within %s: %s", limit, missing), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// missingClaims says what is wrong with the NodeClaims that stay, and how many are being deleted.
func (r *run) missingClaims(ctx context.Context, n int, gone []karpv1.NodeClaim) (missing string, leaving int, err error) {
	staying, leaving, err := r.claims(ctx)
	if err != nil {
		return "", 0, err
	}
	if len(staying) != n {
		return fmt.Sprintf("%d NodeClaims, not %d", len(staying), n), leaving, nil
	}
	for _, c := range staying {
		if slices.ContainsFunc(gone, func(g karpv1.NodeClaim) bool { return g.UID == c.UID }) {
			return "NodeClaim " + c.Name + " is still there", leaving, nil
		}
		if !slices.ContainsFunc(c.Status.Conditions, func(x metav1.Condition) bool {
			return x.Type == karpv1.ConditionInitialized && x.Status == metav1.ConditionTrue
		}) {
			return "NodeClaim " + c.Name + " is not initialized", leaving, nil
		}
	}
	return "", leaving, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// liveOutcome is what ordinary pods waited beside a tenant's, on a real API server and kube-scheduler. A pod whose
// NodeClaim had not come when the time was over counts as if it had come then.
type liveOutcome struct {
	Shape    string  `json:"shape"`
	Pods     int     `json:"pods"`    // of the tenant, as the shape has them
	Refused  int     `json:"refused"` // of these, by the API server
	Ordinary int     `json:"ordinaryPods"`
	Served   int     `json:"ordinaryPodsWithNodeClaim"`
	P50      float64 `json:"creationToNodeClaimP50Millis"`
	P99      float64 `json:"creationToNodeClaimP99Millis"`
	// Seen99 is until a watch tells of the pod: before that nobody could know of it.
	Seen50 float64 `json:"creationToWatchP50Millis"`
	Seen99 float64 `json:"creationToWatchP99Millis"`
	// After99 is from the watch's word of the pod to the NodeClaim: Dovetail's part, with its wait for kube-scheduler's
	// verdict, 250 ms at most.
	After50 float64 `json:"watchToNodeClaimP50Millis"`
	After99 float64 `json:"watchToNodeClaimP99Millis"`
	// Verdicts is of how many ordinary pods kube-scheduler said that no node has room. VerdictTo is from that to the
	// NodeClaim, 0 where the NodeClaim came first.
	Verdicts    int     `json:"verdicts"`
	Verdict50   float64 `json:"creationToVerdictP50Millis"`
	Verdict99   float64 `json:"creationToVerdictP99Millis"`
	VerdictTo50 float64 `json:"verdictToNodeClaimP50Millis"`
	VerdictTo99 float64 `json:"verdictToNodeClaimP99Millis"`
	// LongestStep is a bound of Dovetail's longest decision, by the clock.
	LongestStep float64            `json:"longestStepMillis,omitempty"`
	Peak        float64            `json:"peakMemoryMiB"`    // of the controller, since it started
	Processor   map[string]float64 `json:"processorSeconds"` // of each process of the sandbox, since it started
	Cut         string             `json:"cut,omitempty"`    // what had not come when the time was over
	Err         string             `json:"error,omitempty"`
}

// misses reports whether a latency or memory target is missed.
func (o *liveOutcome) misses() bool {
	return o.Err != "" || o.Served < o.Ordinary || o.P99 > maxLatency || o.Peak > maxHeap
}

// livePool is a NodePool that all may use, shopPool one of the ordinary pods, each of which needs a node of its own there:
// so the n-th NodeClaim of that pool is for the n-th pod. Pods that tolerate its taint go to the other by its weight.
const (
	livePool = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {weight: 1, template: {spec: {
		nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default},
		requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]}]}}}}`
	shopPool = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: shop}, spec: {template: {spec: {
		nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, taints: [{key: shop, effect: NoSchedule}],
		requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}`
	floorClaim = `{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: %q, labels: {karpenter.sh/nodepool: shop}}, spec: {
		nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}}`
	liveClass = `{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}`
)

const (
	livePods  = 100                    // ordinary pods beside each shape
	livePause = 200 * time.Millisecond // between two of them
	// poolLimit is how long the pools may take to be Ready, and the first NodeClaim to come.
	poolLimit = 2 * time.Minute
)

// liveOptions are how a shape is tried on a sandbox.
type liveOptions struct {
	seed    uint64
	floor   bool
	limit   time.Duration // from the tenant's first pod on
	profile string        // file for a CPU profile of the controller; empty: none is made
}

// tryLive runs a shape on a sandbox of its own: the tenant's pods are made as fast as the API server takes them, and
// meanwhile and after that an ordinary pod each fifth of a second.
//
// With floor Dovetail does not run: whoever watches the ordinary pods here makes a NodeClaim as soon as Dovetail might,
// without a look at the tenant's. No controller can be quicker beside such pods.
func tryLive(ctx context.Context, s shape, with liveOptions) liveOutcome {
	o := liveOutcome{Shape: s.name, Ordinary: livePods}
	if err := o.run(ctx, s.make(with.seed), with); err != nil {
		o.Err = err.Error()
	}
	return o
}

func (o *liveOutcome) run(ctx context.Context, tenant []*corev1.Pod, with liveOptions) (err error) {
	o.Pods = len(tenant)
	dir, err := os.MkdirTemp("", "dovetail-hostile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	flags := []string{"--boot", "0", "--pull", "0", "--base", "t3.nano"}
	switch {
	case with.floor:
		flags = append(flags, "--no-autoscaler")
	case with.profile != "":
		flags = append(flags, "--controller-arg", "--profiling")
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sb"), flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := makePools(ctx, s, !with.floor); err != nil {
		return err
	}
	w := &liveWatch{seen: map[string]time.Time{}, verdicts: map[string]time.Time{}, failed: make(chan error, 2)}
	if with.floor {
		w.claim = func(pod string) {
			if err := s.Create(ctx, "/apis/karpenter.sh/v1/nodeclaims", fmt.Sprintf(floorClaim, pod)); err != nil && ctx.Err() == nil {
				w.failed <- err
			}
		}
	}
	go w.claims(ctx, s)
	go w.pods(ctx, s)
	first, stop := context.WithTimeout(ctx, poolLimit)
	defer stop()
	if _, err := w.runOrdinary(first, s, 0, 1); err != nil { // the first of all is not measured: the pools have just become ready
		return fmt.Errorf("before the tenant's pods are created: %w", err)
	}
	during, end := context.WithTimeout(ctx, with.limit)
	defer end()
	var beside sync.WaitGroup
	made := 0
	beside.Go(func() { made, o.Refused = makePods(during, s, tenant) })
	var profiled error
	if with.profile != "" && !with.floor {
		beside.Go(func() { profiled = profileController(during, s, with.profile) })
	}
	created, err := w.runOrdinary(during, s, 1, livePods)
	beside.Wait()
	over := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	if err != nil && !over {
		return err
	}
	w.summarize(o, created, time.Now())
	if o.Served < livePods || made < len(tenant) {
		o.Cut = fmt.Sprintf("after %s, %d of %d ordinary pods were created and %d had a NodeClaim; of %d pods of the tenant, %d were created or refused",
			with.limit, len(created), livePods, o.Served, len(tenant), made)
	}
	return errors.Join(profiled, o.account(s, with.floor))
}

// makePools makes the node class, the pools and the namespaces, and waits until both pools are Ready where somebody
// sees to them.
func makePools(ctx context.Context, s *sandbox.Sandbox, ready bool) error {
	const pools = "/apis/karpenter.sh/v1/nodepools"
	if err := s.Create(ctx, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", liveClass); err != nil {
		return err
	}
	for _, text := range []string{livePool, shopPool} {
		if err := s.Create(ctx, pools, text); err != nil {
			return err
		}
	}
	for _, name := range []string{tenantNamespace, ordinaryNamespace} {
		if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if !ready {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, poolLimit)
	defer cancel()
	for {
		list, err := sandbox.Get[karpv1.NodePoolList](ctx, s, pools)
		if err != nil {
			return err
		}
		ready := 0
		for _, p := range list.Items {
			if slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == metav1.ConditionTrue }) {
				ready++
			}
		}
		if ready == 2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of 2 NodePools are Ready after %s", ready, poolLimit)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// makePods makes the tenant's pods, sixteen at a time, until the context ends. It returns for how many of them the API
// server answered, and how many of these it refused: some shapes are larger than an object may be.
func makePods(ctx context.Context, s *sandbox.Sandbox, pods []*corev1.Pod) (made, refused int) {
	var (
		mu    sync.Mutex
		queue = make(chan *corev1.Pod)
		work  sync.WaitGroup
	)
	for range 16 {
		work.Go(func() {
			for p := range queue {
				_, err := s.Kube.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
				if err != nil && ctx.Err() != nil {
					continue
				}
				mu.Lock()
				made++
				if err != nil {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range pods {
		p = p.DeepCopy()
		p.UID, p.Status = "", corev1.PodStatus{}
		queue <- p
	}
	close(queue)
	work.Wait()
	return made, refused
}

// liveWatch notes when each NodeClaim of the ordinary pods' pool came, when each pod was first seen, and when
// kube-scheduler said of it that no node has room.
type liveWatch struct {
	mu       sync.Mutex
	claimed  []time.Time
	seen     map[string]time.Time // by name of pod
	verdicts map[string]time.Time // by name of pod
	claim    func(pod string)     // made at a pod's verdict, or 250 ms after it was seen; nil: nothing is
	failed   chan error
}

func (w *liveWatch) pods(ctx context.Context, s *sandbox.Sandbox) {
	due := map[string]func(){}
	err := sandbox.Watch(ctx, s, "/api/v1/namespaces/"+ordinaryNamespace+"/pods", func(_ string, p *corev1.Pod) {
		if w.claim != nil && due[p.Name] == nil {
			due[p.Name] = sync.OnceFunc(func() { w.claim(p.Name) })
			time.AfterFunc(250*time.Millisecond, due[p.Name])
		}
		refused := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
		now := time.Now()
		w.mu.Lock()
		if _, known := w.seen[p.Name]; !known {
			w.seen[p.Name] = now
		}
		_, known := w.verdicts[p.Name]
		if refused && !known {
			w.verdicts[p.Name] = now
		}
		w.mu.Unlock()
		if w.claim != nil && (refused && !known || p.Spec.NodeName != "") {
			go due[p.Name]()
		}
	})
	if err != nil {
		w.failed <- err
	}
}

func (w *liveWatch) claims(ctx context.Context, s *sandbox.Sandbox) {
	// Of this pool alone: to read thousands of the tenant's takes long enough to be measured instead.
	err := sandbox.Watch(ctx, s, "/apis/karpenter.sh/v1/nodeclaims?labelSelector="+url.QueryEscape(karpv1.LabelNodePool+"=shop"), func(kind string, c *karpv1.NodeClaim) {
		if kind != "ADDED" {
			return
		}
		// With thousands of changes a minute a busy API server tells of this one many seconds late, but it was there when
		// the second was over that the server says.
		at := time.Now()
		if over := c.CreationTimestamp.Add(time.Second); over.Before(at) {
			at = over
		}
		w.mu.Lock()
		w.claimed = append(w.claimed, at)
		w.mu.Unlock()
	})
	if err != nil {
		w.failed <- err
	}
}

// runOrdinary makes n ordinary pods from a number on, one after each pause, and waits until there is a NodeClaim for each. It
// returns when each was created, in their order; when the context ends that is those which have been, and its error.
func (w *liveWatch) runOrdinary(ctx context.Context, s *sandbox.Sandbox, from, n int) (created []time.Time, err error) {
	tick := time.NewTicker(livePause)
	defer tick.Stop()
	for i := range n {
		p := newPod(ordinaryNamespace, ordinaryName(from+i))
		p.UID, p.Status = "", corev1.PodStatus{}
		p.Spec.NodeSelector = map[string]string{karpv1.LabelNodePool: "shop"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "shop", Operator: corev1.TolerationOpExists}}
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1500m")
		created = append(created, time.Now())
		if _, err := s.Kube.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return created, cmp.Or(ctx.Err(), err)
		}
		<-tick.C
	}
	for {
		w.mu.Lock()
		have := len(w.claimed)
		w.mu.Unlock()
		if have >= from+n {
			return created, nil
		}
		select {
		case err := <-w.failed:
			return created, err
		case <-ctx.Done():
			return created, ctx.Err()
		case <-tick.C:
		}
	}
}

// summarize writes how long the pods waited that were created at these times, those from number 1 on, as is known at an
// instant.
func (w *liveWatch) summarize(o *liveOutcome, created []time.Time, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var waited, seen, after, verdicts, verdictTo []float64
	for i, at := range created {
		claimed := now
		if i+1 < len(w.claimed) { // NodeClaims come in the order of the pods
			claimed = w.claimed[i+1]
			o.Served++
		}
		waited = append(waited, millis(claimed.Sub(at)))
		if told, ok := w.seen[ordinaryName(i+1)]; ok {
			seen, after = append(seen, millis(told.Sub(at))), append(after, max(0, millis(claimed.Sub(told))))
		}
		if verdict, ok := w.verdicts[ordinaryName(i+1)]; ok {
			verdicts, verdictTo = append(verdicts, millis(verdict.Sub(at))), append(verdictTo, max(0, millis(claimed.Sub(verdict))))
		}
	}
	o.P50, o.P99 = quantile(waited, 0.5), quantile(waited, 0.99)
	o.Seen50, o.Seen99 = quantile(seen, 0.5), quantile(seen, 0.99)
	o.After50, o.After99 = quantile(after, 0.5), quantile(after, 0.99)
	o.Verdicts, o.Verdict50, o.Verdict99 = len(verdicts), quantile(verdicts, 0.5), quantile(verdicts, 0.99)
	o.VerdictTo50, o.VerdictTo99 = quantile(verdictTo, 0.5), quantile(verdictTo, 0.99)
}

func ordinaryName(i int) string { return "web-" + strconv.Itoa(i) }

// quantile is the smallest value that at least this share of them does not exceed; 0 of none.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(share*float64(len(values))))-1)]
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package watch starts a sandbox with Dovetail or with Karpenter's KWOK controller, and watches its pods, nodes and NodeClaims in the
// same way for both. It is shared by the benchmarks that run a series of changes.
//
// It records watch events and checks nothing. A Cluster must only be used by the goroutine that calls Until or Idle, which process the
// events. Start reading at Start.
package watch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// Options configure Start.
type Options struct {
	Dir       string   // for the sandbox's files and Karpenter's log
	Catalog   string   // file of the instance types
	Karpenter string   // binary of Karpenter's KWOK controller, which then runs in Dovetail's place; empty: Dovetail
	Namespace string   // of the pods; empty: all namespaces
	Flags     []string // of dovetail-sandbox up
}

// Cluster is a sandbox and what its watches have reported.
type Cluster struct {
	Sandbox    *sandbox.Sandbox
	MetricsURL string // of the autoscaler; empty after Follow

	Pods   map[types.UID]*Pod
	Nodes  map[string]*Node // by name
	Claims map[types.UID]*Claim

	// Changed is when a pod was last created, bound or disrupted, or a NodeClaim created or removed. Moved is when that, or a pod began or
	// ceased to run, or a node came or went.
	Changed, Moved time.Time

	// Tick is called about every half second while the cluster is followed; nil: nothing is.
	Tick func(now time.Time) error

	events chan func()
	ticked time.Time
}

// Pod is when things happened to a pod: when a watch reported them. The zero time: they have not happened.
type Pod struct {
	Namespace, App string // App: its label app
	Node           string
	Daemon         bool // of a DaemonSet

	Created, Bound, Running time.Time
	Disrupted               time.Time // it had a condition DisruptionTarget
	Disruption              string    // the reason of that condition
	Runs                    bool      // it is running and not being deleted
	Deleting, Gone          bool      // a pod that is gone is Deleting too
	Moved                   time.Time // it was last created, bound or disrupted, or began or ceased to run
}

// Node is what was seen of a node.
type Node struct {
	Created, Ready time.Time
	InstanceType   string
	CapacityType   string // empty: it has no such label
	Earlier        bool   // it was there before the cluster was followed
	Gone           bool
	Moved          time.Time // it was last created or deleted
}

// Claim is what was seen of a NodeClaim.
type Claim struct {
	Name, Node   string // Node: status.nodeName
	Labels       map[string]string
	InstanceType string // empty until it is launched
	CapacityType string

	Created, Launched time.Time
	Removed           time.Time // it was deleted, or marked for deletion
	Gone              time.Time
}

// Start starts a sandbox with an autoscaler and follows it. stop ends both.
func Start(ctx context.Context, o Options) (c *Cluster, stop func() error, err error) {
	flags := append([]string{"--catalog", o.Catalog}, o.Flags...)
	if o.Karpenter != "" {
		flags = append(flags, "--no-autoscaler")
	}
	s, err := sandbox.Up(ctx, filepath.Join(o.Dir, "sb"), flags...)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end := func() {}
	stop = func() error {
		cancel()
		end()
		return s.Down()
	}
	metrics := ""
	if o.Karpenter != "" {
		end, metrics, err = s.StartMeasuredKarpenter(o.Karpenter, o.Catalog, filepath.Join(o.Dir, "karpenter.log"))
	} else {
		var leader sandbox.Component
		leader, err = s.Leader()
		metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", leader.Ports["metrics"])
	}
	if err == nil {
		c, err = Follow(ctx, s, o.Namespace)
	}
	if err != nil {
		if end == nil {
			end = func() {}
		}
		return nil, nil, errors.Join(err, stop())
	}
	c.MetricsURL = metrics
	return c, stop, nil
}

// Follow follows a sandbox that is up: the pods of a namespace, or of all where none is named, nodes and NodeClaims, until the context ends.
func Follow(ctx context.Context, s *sandbox.Sandbox, namespace string) (*Cluster, error) {
	c := &Cluster{Sandbox: s, Pods: map[types.UID]*Pod{}, Nodes: map[string]*Node{}, Claims: map[types.UID]*Claim{}, events: make(chan func(), 1<<16)}
	config, err := s.Config(sandbox.Admin)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// As protobuf: a burst of pods as JSON would take from what is measured.
	config = rest.CopyConfig(config)
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	typed := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	claims := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	if err := errors.Join(
		follow(c, typed.Core().V1().Pods().Informer(), c.seePod),
		follow(c, typed.Core().V1().Nodes().Informer(), c.seeNode),
		follow(c, claims.ForResource(karpv1.GroupVersion.WithResource("nodeclaims")).Informer(), c.seeClaim)); err != nil {
		return nil, err
	}
	typed.Start(ctx.Done())
	claims.Start(ctx.Done())
	typed.WaitForCacheSync(ctx.Done())
	claims.WaitForCacheSync(ctx.Done())
	if err := c.Idle(ctx, time.Second); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		n.Earlier = true
	}
	return c, nil
}

// follow queues what an informer reports for the goroutine that follows the cluster.
func follow[T any](c *Cluster, i cache.SharedIndexInformer, see func(object T, gone bool, at time.Time)) error {
	tell := func(gone bool) func(any) {
		return func(object any) {
			if d, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = d.Obj
			}
			if o, ok := object.(T); ok {
				at := time.Now()
				c.events <- func() { see(o, gone, at) }
			}
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell(false), UpdateFunc: func(_, object any) { tell(false)(object) }, DeleteFunc: tell(true)})
	return err
}

// changed notes a change at an instant.
func (c *Cluster) changed(at time.Time) { c.Changed, c.Moved = at, at }

func (c *Cluster) podChanged(p *Pod, at time.Time) {
	p.Moved = at
	c.changed(at)
}

func (c *Cluster) seePod(o *corev1.Pod, gone bool, at time.Time) {
	p := c.Pods[o.UID]
	if p == nil {
		p = &Pod{Namespace: o.Namespace, App: o.Labels["app"], Created: at,
			Daemon: slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" })}
		c.Pods[o.UID] = p
		c.podChanged(p, at)
	}
	if p.Bound.IsZero() && o.Spec.NodeName != "" {
		p.Bound, p.Node = at, o.Spec.NodeName
		c.podChanged(p, at)
	}
	// Running, not Ready: kwok does not set that again once a late heartbeat has cost it.
	running := o.Status.Phase == corev1.PodRunning
	if running && p.Running.IsZero() {
		p.Running = at
	}
	for _, x := range o.Status.Conditions {
		if p.Disrupted.IsZero() && x.Type == corev1.DisruptionTarget && x.Status == corev1.ConditionTrue {
			p.Disrupted, p.Disruption = at, x.Reason
			c.podChanged(p, at)
		}
	}
	p.Gone, p.Deleting = gone, gone || o.DeletionTimestamp != nil
	if runs := running && !p.Deleting; p.Runs != runs {
		p.Runs, p.Moved, c.Moved = runs, at, at
	}
}

func (c *Cluster) seeNode(o *corev1.Node, gone bool, at time.Time) {
	n := c.Nodes[o.Name]
	if n == nil {
		n = &Node{Created: at, Moved: at, InstanceType: o.Labels[corev1.LabelInstanceTypeStable]}
		c.Nodes[o.Name], c.Moved = n, at
	}
	n.CapacityType = o.Labels[karpv1.LabelCapacityType]
	if n.Ready.IsZero() && slices.ContainsFunc(o.Status.Conditions, func(x corev1.NodeCondition) bool {
		return x.Type == corev1.NodeReady && x.Status == corev1.ConditionTrue
	}) {
		n.Ready = at
	}
	if gone && !n.Gone {
		n.Gone, n.Moved, c.Moved = true, at, at
	}
}

func (c *Cluster) seeClaim(o *unstructured.Unstructured, gone bool, at time.Time) {
	x := c.Claims[o.GetUID()]
	if x == nil {
		x = &Claim{Name: o.GetName(), Created: at}
		c.Claims[o.GetUID()] = x
		c.changed(at)
	}
	x.Labels = o.GetLabels()
	if t := x.Labels[corev1.LabelInstanceTypeStable]; t != "" && x.Launched.IsZero() {
		x.InstanceType, x.CapacityType, x.Launched = t, x.Labels[karpv1.LabelCapacityType], at
	}
	if node, _, _ := unstructured.NestedString(o.Object, "status", "nodeName"); node != "" {
		x.Node = node
	}
	if x.Removed.IsZero() && (gone || o.GetDeletionTimestamp() != nil) {
		x.Removed = at
		c.changed(at)
	}
	if gone {
		x.Gone = at
	}
}

// ErrWaited is wrapped by what Until returns where something did not happen in time.
var ErrWaited = errors.New("waited")

// Until takes events in until done holds. The error after limit says what was waited for.
func (c *Cluster) Until(ctx context.Context, what string, limit time.Duration, done func() bool) error {
	begun := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case e := <-c.events:
			e()
			if len(c.events) > 0 {
				continue
			}
		case now := <-tick.C:
			if now.Sub(begun) > limit {
				return fmt.Errorf("%w %s for %s: %d pods are running, the last change was %s ago", ErrWaited, limit, what, c.Running(), now.Sub(c.Moved).Round(time.Second))
			}
			if c.Tick != nil && now.Sub(c.ticked) >= 500*time.Millisecond {
				c.ticked = now
				if err := c.Tick(now); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if done() {
			return nil
		}
	}
}

// Idle follows the cluster for a time.
func (c *Cluster) Idle(ctx context.Context, d time.Duration) error {
	begun := time.Now()
	return c.Until(ctx, "nothing", d+time.Hour, func() bool { return time.Since(begun) >= d })
}

// Running returns how many pods are running and not being deleted.
func (c *Cluster) Running() (n int) {
	for _, p := range c.Pods {
		if p.Runs {
			n++
		}
	}
	return n
}

// Standing returns what each node costs, in dollars an hour, that was not there when the cluster was first followed, by name.
func (c *Cluster) Standing() (map[string]float64, error) {
	out := map[string]float64{}
	for name, n := range c.Nodes {
		if n.Earlier || n.Gone {
			continue
		}
		usd, err := Price(n.InstanceType, n.CapacityType)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		out[name] = usd
	}
	return out, nil
}

var prices = scaledown.Prices()

// Price returns what a node of an instance type and capacity type of scaledown's catalogue costs, in dollars an hour.
func Price(instanceType, capacityType string) (float64, error) {
	usd, ok := prices[instanceType][capacityType]
	if !ok {
		return 0, fmt.Errorf("the catalog has no instance type %q of capacity type %q", instanceType, capacityType)
	}
	return usd, nil
}

// Sum adds the values of a map in the order of its keys, as floating-point sums depend on the order.
func Sum(m map[string]float64) (sum float64) {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sum += m[name]
	}
	return sum
}

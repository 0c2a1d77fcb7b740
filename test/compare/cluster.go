// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// cluster is a sandbox and what watches of it have told. All but the channel belongs to the goroutine that follows.
type cluster struct {
	s         *sandbox.Sandbox
	catalogue string
	below     int // CPUs
	events    chan func()

	pods    map[string]*pod // by uid
	nodes   map[string]*node
	claims  []time.Time // when each NodeClaim was seen first
	changed time.Time   // when a pod or a node last came, was bound or went
}

type pod struct {
	kind, node           string
	made, bound, running time.Time // zero: not seen
	runs                 bool
}

type node struct {
	made, ready  time.Time
	usd          float64 // an hour
	others, gone bool    // there before the autoscaler was
}

// watch follows pods, nodes and NodeClaims until the context ends. The nodes that are there already are none of the autoscaler's.
func watch(ctx context.Context, s *sandbox.Sandbox, catalogue string, below int) (*cluster, error) {
	c := &cluster{s: s, catalogue: catalogue, below: below, events: make(chan func(), 1<<16), pods: map[string]*pod{}, nodes: map[string]*node{}}
	config, err := s.Config(sandbox.Admin)
	if err != nil {
		return nil, err
	}
	// As protobuf: a burst of pods as JSON would take from what is measured.
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	about, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	of := func(i cache.SharedIndexInformer, see func(object any, gone bool, at time.Time)) error {
		tell := func(gone bool) func(any) {
			return func(object any) {
				if d, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = d.Obj
				}
				at := time.Now()
				c.events <- func() { see(object, gone, at) }
			}
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell(false), UpdateFunc: func(_, object any) { tell(false)(object) }, DeleteFunc: tell(true)})
		return err
	}
	typed := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	claims := metadatainformer.NewSharedInformerFactory(about, 0)
	if err := errors.Join(
		of(typed.Core().V1().Pods().Informer(), c.seePod),
		of(typed.Core().V1().Nodes().Informer(), c.seeNode),
		of(claims.ForResource(karpv1.GroupVersion.WithResource("nodeclaims")).Informer(), c.seeClaim())); err != nil {
		return nil, err
	}
	typed.Start(ctx.Done())
	claims.Start(ctx.Done())
	typed.WaitForCacheSync(ctx.Done())
	claims.WaitForCacheSync(ctx.Done())
	if _, err := c.follow(ctx, "the nodes that are there", time.Minute, time.Second, func() bool { return true }); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		n.others = true
	}
	return c, nil
}

func (c *cluster) seePod(object any, gone bool, at time.Time) {
	o, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	p := c.pods[string(o.UID)]
	if p == nil {
		p = &pod{kind: o.Labels["app"], made: at}
		c.pods[string(o.UID)], c.changed = p, at
	}
	if o.Spec.NodeName != "" && p.bound.IsZero() {
		p.bound, p.node, c.changed = at, o.Spec.NodeName, at
	}
	if o.Status.Phase == corev1.PodRunning && p.running.IsZero() {
		p.running = at
	}
	runs := o.Status.Phase == corev1.PodRunning && o.DeletionTimestamp == nil && !gone
	if p.runs != runs {
		p.runs, c.changed = runs, at
	}
}

func (c *cluster) seeNode(object any, gone bool, at time.Time) {
	o, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	n := c.nodes[o.Name]
	if n == nil {
		n = &node{made: at, usd: prices[o.Labels[corev1.LabelInstanceTypeStable]][o.Labels[karpv1.LabelCapacityType]]}
		c.nodes[o.Name], c.changed = n, at
	}
	if n.ready.IsZero() && slices.ContainsFunc(o.Status.Conditions, func(x corev1.NodeCondition) bool {
		return x.Type == corev1.NodeReady && x.Status == corev1.ConditionTrue
	}) {
		n.ready = at
	}
	if gone && !n.gone {
		n.gone, c.changed = true, at
	}
}

func (c *cluster) seeClaim() func(any, bool, time.Time) {
	seen := map[string]bool{}
	return func(object any, _ bool, at time.Time) {
		if o, ok := object.(*metav1.PartialObjectMetadata); ok && !seen[string(o.UID)] {
			seen[string(o.UID)] = true
			c.claims, c.changed = append(c.claims, at), at
		}
	}
}

var prices = scaledown.Prices()

// errWaited is wrapped by what follow returns where something did not happen in time.
var errWaited = errors.New("waited")

// follow takes events in until done holds and, where quiet is given, nothing has changed for so long. It returns the last change.
func (c *cluster) follow(ctx context.Context, what string, limit, quiet time.Duration, done func() bool) (time.Time, error) {
	begun := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case e := <-c.events:
			e()
			if quiet == 0 && done() {
				return c.changed, nil
			}
		case now := <-tick.C:
			since := now.Sub(c.changed)
			if c.changed.Before(begun) {
				since = now.Sub(begun)
			}
			switch {
			case since >= quiet && done():
				return c.changed, nil
			case now.Sub(begun) > limit:
				return c.changed, fmt.Errorf("%w %s for %s: %d pods run", errWaited, limit, what, c.running())
			}
		case <-ctx.Done():
			return c.changed, ctx.Err()
		}
	}
}

// running counts the pods that run.
func (c *cluster) running() (n int) {
	for _, p := range c.pods {
		if p.runs {
			n++
		}
	}
	return n
}

// bill is the number of the autoscaler's nodes and what they cost an hour.
func (c *cluster) bill() (nodes int, usd float64) {
	var all []float64
	for _, n := range c.nodes {
		if !n.others && !n.gone {
			all = append(all, n.usd)
		}
	}
	slices.Sort(all) // floating-point sums depend on the order
	for _, x := range all {
		usd += x
	}
	return len(all), round(usd)
}

// bound is the proven least that so many pods of each of the two kinds can cost an hour.
func (c *cluster) bound(small, large int) (float64, error) {
	return scaledown.LowerBound(c.catalogue, c.below, small, large)
}

// deploy makes a Deployment of pods of one of the two kinds.
func (c *cluster) deploy(ctx context.Context, name string, kind int, replicas int32) error {
	k, grace := scaledown.Kinds[kind], int64(30)
	labels := map[string]string{"app": name}
	_, err := c.s.Kube.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(k.CPU), corev1.ResourceMemory: resource.MustParse(k.Memory)}}}}}}},
	}, metav1.CreateOptions{})
	return err
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }
